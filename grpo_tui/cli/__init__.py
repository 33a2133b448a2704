"""The command line: the composition root, the only package that knows both the screen and the training side.

Every heavy import is deferred to the command that needs it.
"""

from __future__ import annotations

from grpo_tui.cli.main import main

__all__ = ["main"]
