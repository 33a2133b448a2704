"""How many checkpoints a run leaves, how large each is, and how much of the disk they take.

The rules are those of `DefaultFlowCallback` and `TrainerState.compute_steps` (transformers 5.24): a
checkpoint every `save_steps`, and one at the last step. Knows sizes, not the disk itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from grpo_tui.config.plan.settings import PlanSettings


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """What stays on disk.

    Attributes:
        written: checkpoints over the run, None when the number of steps is unknown.
        kept: of them on disk at once, `save_total_limit` considered; None when unknown.
        bytes_each: size of one, None when the model is not known.
        final_bytes: the model saved at the end, beside the checkpoints.
        free_bytes: free on the disk, None when it was not looked at.
    """

    written: int | None
    kept: int | None
    bytes_each: int | None
    final_bytes: int | None
    free_bytes: int | None = None

    @property
    def total_bytes(self) -> int | None:
        """All that stays; while a new one is written the one it replaces is still there."""
        if self.kept is None or self.bytes_each is None:
            return None
        rotating = 1 if self.written is not None and self.written > self.kept else 0
        return (self.kept + rotating) * self.bytes_each + (self.final_bytes or 0)

    @property
    def fits(self) -> bool | None:
        """Whether the disk holds them; None when something is unknown."""
        total = self.total_bytes
        return None if total is None or self.free_bytes is None else total <= self.free_bytes


def checkpoints_written(settings: PlanSettings, total: int | None, per_epoch: int | None) -> int | None:
    """How many checkpoints a run writes; None when it is not known how long it is."""
    strategy = str(settings("save_strategy") or "no").rpartition(".")[2].lower()
    if strategy == "no":
        return 0
    if total is None:
        return None
    if strategy == "epoch":
        return None if not per_epoch else math.ceil(total / per_epoch)
    if strategy != "steps":
        return None  # `best` writes when a metric improves
    every = settings.number("save_steps")
    steps = math.ceil(total * every) if 0 < every < 1 else int(every)
    if steps < 1 or total < 1:
        return 0
    return total // steps + (1 if total % steps else 0)


def plan_checkpoints(
    settings: PlanSettings,
    total: int | None,
    per_epoch: int | None,
    *,
    saved_bytes: int | None,
    state_bytes: int | None,
    free_bytes: int | None,
) -> Checkpoints:
    """Count and weigh the checkpoints.

    Args:
        settings: the config.
        total: optimizer steps, None when unknown.
        per_epoch: steps of an epoch, None when unknown.
        saved_bytes: the weights that are saved: the model, or its adapter.
        state_bytes: optimizer states.
        free_bytes: free on the disk of the run folder.
    """
    written = checkpoints_written(settings, total, per_epoch)
    limit = settings.optional("save_total_limit")
    kept = written if written is None or limit is None else min(written, limit)
    each = saved_bytes
    if saved_bytes is not None and not settings.flag("save_only_model"):
        each = saved_bytes + (state_bytes or 0)
    return Checkpoints(written, kept, each, saved_bytes, free_bytes)
