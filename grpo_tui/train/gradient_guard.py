"""Keep a NaN or infinite gradient away from the weights: skip the step, record it, pause the run.

TRL logs a loss of 0.0 for such a step, and only after the weights are lost. Clipping computes the gradient
norm before the update, so checking it costs nothing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from transformers import TrainerCallback

from grpo_tui.core.records import SKIPPED, MetricRow, Record
from grpo_tui.train import compat
from grpo_tui.train.ranks import Ranks


class GradientLost(RuntimeError):
    """A NaN or infinite gradient has already been applied to the weights."""


class GradientGuard(TrainerCallback):
    """Checks the gradient norm of every step before the optimizer runs. All ranks skip a step, or none.

    Args:
        pause_for: Pauses the run at the next safe point, with a reason.
        last_checkpoint: Returns a sentence that names the newest usable checkpoint.
    """

    def __init__(
        self,
        trainer: Any,
        put: Callable[[Record], None],
        attempt: int,
        ranks: Ranks,
        pause_for: Callable[[str], None],
        last_checkpoint: Callable[[], str],
    ) -> None:
        self._trainer, self._put, self._attempt, self._ranks = trainer, put, attempt, ranks
        self._pause_for, self._last_checkpoint = pause_for, last_checkpoint
        self._norm: Any = None
        self._skipped: float | None = None

    def install(self) -> None:
        """Watch the norm, except with fp16: its gradient scaler skips such steps itself."""
        if self._trainer.accelerator.scaler is None and not self._trainer.args.fp16:
            compat.wrap(self._trainer, "_get_grad_norm", self._around_norm)

    def _around_norm(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def get_grad_norm(*args: Any, **kwargs: Any) -> Any:
            self._norm = original(*args, **kwargs)
            return self._norm

        return get_grad_norm

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Drop the gradients when their norm is not finite on any rank."""
        norm, self._norm = self._norm, None
        (lost,) = self._ranks.any_of(norm is not None and not math.isfinite(float(norm)))
        if not lost:
            return
        step = int(state.global_step) + 1
        if compat.updates_in_backward(self._trainer):
            raise GradientLost(
                f"the gradient of step {step} is NaN or infinite, and DeepSpeed has applied it. "
                f"{self._last_checkpoint()}"
            )
        for parameter in self._trainer.model.parameters():
            parameter.grad = None
        self._skipped = math.nan if norm is None else float(norm)
        self._pause_for(f"the gradient of step {step} is NaN or infinite. The step was skipped")

    def safe_point(self) -> None:
        """Record a skipped step, after TRL has logged it."""
        if self._skipped is not None and self._ranks.first:
            values = {"grad_norm": self._skipped, SKIPPED: 1.0}
            self._put(MetricRow(self._attempt, int(self._trainer.state.global_step), time.time(), values))
        self._skipped = None
