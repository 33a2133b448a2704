"""What the ranks of one run tell each other at the safe point; with one rank, nothing at all.

A process group of its own on gloo, on the CPU, with no short time-out: a pause must not trip the watchdog of
the training collectives.
"""

from __future__ import annotations

import datetime
import os
from typing import Any

PATIENCE = datetime.timedelta(days=30)
"""Time-out of the group: a paused run waits for the user."""


def own_rank() -> int:
    """This process's rank, as its launcher says; 0 without one."""
    return int(os.environ.get("RANK", "0"))


def world_size() -> int:
    """Number of ranks, as the launcher says; 1 without one."""
    return int(os.environ.get("WORLD_SIZE", "1"))


class Ranks:
    """The ranks of a trainer that is built, this one among them.

    Building one is a collective: every rank does it, or none.
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
        """Each flag, true when it is true on some rank; one small all-reduce."""
        if self._group is None:
            return flags
        import torch

        values = torch.tensor([int(flag) for flag in flags])
        torch.distributed.all_reduce(values, op=torch.distributed.ReduceOp.MAX, group=self._group)
        return tuple(bool(value) for value in values.tolist())

    def from_first(self, value: Any) -> Any:
        """The first rank's value, on every rank."""
        if self._group is None:
            return value
        import torch.distributed

        box = [value]
        torch.distributed.broadcast_object_list(box, src=0, group=self._group)
        return box[0]

    def of_each(self, value: Any) -> list[Any]:
        """Every rank's value, in their order, on every rank."""
        if self._group is None:
            return [value]
        import torch.distributed

        values: list[Any] = [None] * self.size
        torch.distributed.all_gather_object(values, value, group=self._group)
        return values

    def wait(self) -> None:
        """Wait until every rank is here."""
        if self._group is not None:
            import torch.distributed

            torch.distributed.barrier(group=self._group)
