"""A terminal workbench for GRPO with TRL.

Importing this module is cheap. `monitor` records and steers a training script's own trainer.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

__version__ = "0.1.0"

__all__ = ["__version__", "monitor"]


def monitor(trainer: Any, run_dir: str | Path | None = None) -> Path:
    """Record and steer a script's own GRPOTrainer. Call it right before `trainer.train()`.

    Args:
        trainer: A `trl.GRPOTrainer`.
        run_dir: The run folder. Default: the trainer's `output_dir`.

    Returns:
        The run folder, for `grpo-tui attach` in another terminal.
    """
    from grpo_tui.train.monitor import monitor as join

    return join(trainer, run_dir)
