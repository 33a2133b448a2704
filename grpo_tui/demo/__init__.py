"""The demonstration: a tiny model that is bad at addition, its task, and the script that made it.

Importing this package imports no machine-learning library. Functions that need one import it when called.
"""

from __future__ import annotations

from pathlib import Path

DEMO_DIR = Path(__file__).resolve().parent
"""Folder with the demonstration's config, task, rewards and model."""

DEMO_CONFIG = DEMO_DIR / "demo.yaml"
"""The config that `grpo-tui demo` trains from."""

DEMO_MODEL = DEMO_DIR / "model"
"""The shipped model, in the format of `from_pretrained`."""
