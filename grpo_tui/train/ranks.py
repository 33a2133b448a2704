"""Communicate between the ranks of a run at the safe point. With one rank, every call is trivial.

Uses a separate gloo process group on the CPU with a long timeout, so that a pause does not trip the watchdog
of the training collectives.
"""

from __future__ import annotations

import datetime
import os
from typing import Any

PATIENCE = datetime.timedelta(days=30)
"""Timeout of the group: a paused run waits for the user."""


def own_rank() -> int:
    """Return this process's rank as set by its launcher; 0 without one."""
    return int(os.environ.get("RANK", "0"))


def world_size() -> int:
    """Return the number of ranks as set by the launcher; 1 without one."""
    return int(os.environ.get("WORLD_SIZE", "1"))


class Ranks:
    """The ranks of a built trainer.

    Creating one is a collective operation: every rank must do it.
    """

    def __init__(self, trainer: Any) -> None:
        self.rank = int(trainer.accelerator.process_index)
        self.size = int(trainer.accelerator.num_processes)
        self._group: Any = None
        if self.size > 1:
            import torch.distributed

            self._group = torch.distributed.new_group(backend="gloo", timeout=PATIENCE)

    @property
    def first(self) -> bool:
        """True on the rank that reads commands and writes the record."""
        return self.rank == 0

    def any_of(self, *flags: bool) -> tuple[bool, ...]:
        """Return each flag, True when it is True on any rank. Costs one small all-reduce."""
        if self._group is None:
            return flags
        import torch

        values = torch.tensor([int(flag) for flag in flags])
        torch.distributed.all_reduce(values, op=torch.distributed.ReduceOp.MAX, group=self._group)
        return tuple(bool(value) for value in values.tolist())

    def from_first(self, value: Any) -> Any:
        """Return the first rank's value on every rank."""
        if self._group is None:
            return value
        import torch.distributed

        box = [value]
        torch.distributed.broadcast_object_list(box, src=0, group=self._group)
        return box[0]

    def of_each(self, value: Any) -> list[Any]:
        """Return the values of all ranks, in order, on every rank."""
        if self._group is None:
            return [value]
        import torch.distributed

        values: list[Any] = [None] * self.size
        torch.distributed.all_gather_object(values, value, group=self._group)
        return values

    def wait(self) -> None:
        """Wait until every rank gets here."""
        if self._group is not None:
            import torch.distributed

            torch.distributed.barrier(group=self._group)
