"""The ranks of a run: what each does, on which GPU, and which of them the others wait for.

Knows the store's look at a run; nothing of how the machine is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grpo_tui.core.text import one_line
from grpo_tui.store.hardware import Gpu
from grpo_tui.store.status import RankNow, Status

BEHIND_S = 1.0
"""How long ranks may be in different phases before the slowest is named."""


@dataclass(frozen=True, slots=True)
class RankRow:
    """One rank of the run."""

    rank: int
    pid: int
    phase: str
    phase_since: float | None
    step: int
    gpu: int | None = None
    """Index of its GPU on this machine."""
    reward_function: str | None = None
    """The one that runs, in one safe line."""
    behind: bool = False
    """True when it is still in a phase that others have left."""


def rank_rows(status: Status, now: float) -> tuple[RankRow, ...]:
    """The ranks that live on this machine, the slowest marked.

    Args:
        status: The store's look at the run.
        now: Wall clock, in seconds since the epoch.
    """
    gpus = status.hardware.gpus if status.hardware is not None else ()
    behind = _behind(status.ranks, now)
    return tuple(
        RankRow(
            rank.rank,
            rank.pid,
            rank.phase,
            rank.phase_since or None,
            rank.step,
            next((gpu.index for gpu in gpus if sits_on(gpu, rank)), None),
            one_line(rank.reward_func, 40) if rank.reward_func else None,
            rank.rank in behind,
        )
        for rank in status.ranks
    )


def sits_on(gpu: Gpu, rank: RankNow) -> bool:
    """True when this GPU is the rank's own."""
    return rank.gpu is not None and rank.gpu.upper() in (gpu.pci_bus_id.upper(), gpu.uuid.upper())


def _behind(ranks: Sequence[RankNow], now: float) -> frozenset[int]:
    """Ranks still in the phase that was entered first, when others have gone on for a while."""
    known = [rank for rank in ranks if rank.phase_since]
    phases = {rank.phase for rank in known}
    if phases == {"reward"}:
        return _still_scoring(known, now)
    if len(phases) < 2:
        return frozenset()
    oldest = min(known, key=lambda rank: rank.phase_since)
    left_at = min(rank.phase_since for rank in known if rank.phase != oldest.phase)
    if now - left_at < BEHIND_S:
        return frozenset()
    return frozenset(rank.rank for rank in known if rank.phase == oldest.phase)


def _still_scoring(ranks: Sequence[RankNow], now: float) -> frozenset[int]:
    """Ranks whose reward function runs while others have been through theirs and wait in the same phase."""
    busy = frozenset(rank.rank for rank in ranks if rank.reward_func)
    done = [
        rank.reward_since for rank in ranks if not rank.reward_func and rank.reward_since >= rank.phase_since
    ]
    return busy if done and now - min(done) >= BEHIND_S else frozenset()
