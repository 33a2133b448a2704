"""The demonstration: a tiny model that adds badly, its task, and the script that made it.

Importing this package imports no machine-learning library; the parts that need one import it when they are
called. It does not know how a run is started, recorded or shown.
"""

from __future__ import annotations

from pathlib import Path

DEMO_DIR = Path(__file__).resolve().parent
"""Folder that holds the demonstration's config, task, rewards and model."""

DEMO_CONFIG = DEMO_DIR / "demo.yaml"
"""The config that `grpo-tui demo` trains from."""

DEMO_MODEL = DEMO_DIR / "model"
"""The shipped model, as `from_pretrained` reads it."""
