"""A terminal workbench for GRPO with TRL.

This module knows the version and the one line by which a training script joins; both front ends, and all
heavy imports, lie behind it and are loaded only when they are asked for.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

__version__ = "0.1.0"

__all__ = ["__version__", "monitor"]


def monitor(trainer: Any, run_dir: str | Path | None = None) -> Path:
    """Record and steer a script's own GRPOTrainer; call it right before `trainer.train()`.

    Args:
        trainer: A built `trl.GRPOTrainer`.
        run_dir: The run folder, by default the trainer's `output_dir`.

    Returns:
        The run folder, to `grpo-tui attach` from another terminal.
    """
    from grpo_tui.train.monitor import monitor as join

    return join(trainer, run_dir)
