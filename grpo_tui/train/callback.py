"""The TrainerCallback that feeds the queue: metric rows as TRL logs them, and the run's milestones.

Only builds records; never blocks. Knows nothing of storage.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from transformers import TrainerCallback

from grpo_tui.core.records import MetricRow, Record, TotalSteps
from grpo_tui.train.checkpoints import Checkpoints
from grpo_tui.train.phases import PhaseClock


class RecordingCallback(TrainerCallback):
    """Puts what TRL logs into the queue."""

    def __init__(
        self,
        put: Callable[[Record], None],
        phases: PhaseClock,
        attempt: int,
        checkpoints: Checkpoints,
    ) -> None:
        self._put, self._phases, self._attempt, self._checkpoints = put, phases, attempt, checkpoints

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The data loader exists: the planned number of steps is known."""
        self._put(TotalSteps(self._attempt, int(state.max_steps)))
        self._phases.step = int(state.global_step)
        self._phases.tell(step=int(state.global_step))
        self._checkpoints.training_begins()

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The order of prompts is about to be drawn."""
        self._checkpoints.epoch_begins()

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        """A row of `log_history`."""
        if logs and state.is_world_process_zero:
            self._put(MetricRow(self._attempt, int(state.global_step), time.time(), dict(logs)))
