"""The command line, which wires the screen and the training side together.

Each command imports heavy modules only when it runs.
"""

from __future__ import annotations

from grpo_tui.cli.main import main

__all__ = ["main"]
