"""Fetch the figures of groups by step: the whole run at the first look, then only its newest steps.

Knows which steps are settled, that is, will get no more groups; folds nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from grpo_tui.core.statistics import scored
from grpo_tui.store.reader import RunReader, SeriesBucket, StepStat, StoredGroup

LATE = 32
"""Steps that a rank may hand its groups over late."""
ASKED_AGAIN = 48
LONG = 4_096
"""From so many steps on, the past is fetched in stretches."""
STRETCHES = 400


@dataclass(frozen=True, slots=True)
class StepLook:
    """Figures of the groups by step, as one look found them."""

    stats: tuple[StepStat, ...]
    """All steps after those settled before."""
    settled: int
    """Steps up to this one will not be given again."""
    anew: bool = False
    """True when what was settled before must be forgotten."""
    past: Mapping[str, Sequence[SeriesBucket]] = field(default_factory=dict)
    """With `anew`: the beginning of a long run, in stretches."""


class StepLooks:
    """Follows the training groups of a run through its reader."""

    def __init__(self, reader: RunReader) -> None:
        self._reader = reader
        self._totals: tuple[float, float] | None = None
        self._seen: tuple[float, float] | None = None
        self._settled = -1

    def look(self, groups: Iterable[StoredGroup], *, fresh: bool) -> StepLook | None:
        """What the groups come to by step.

        Args:
            groups: Those that are new.
            fresh: True for the first look at a run.
        """
        new = [group for group in groups if group.mode == "train"]
        if not fresh and not new:
            return None
        anew = self._widen(new) or fresh
        if fresh:
            self._totals = self._seen = self._reader.total_range()
        if not anew:
            return self._newest(self._reader.step_stats(self._settled + 1, totals=self._totals))
        self._settled = -1
        last = max((group.step for group in new), default=0)
        past: Mapping[str, Sequence[SeriesBucket]] = {}
        if last > LONG:
            self._settled = last - ASKED_AGAIN
            width = -(-self._settled // STRETCHES)
            past = self._reader.step_stretches(width, last_step=self._settled, totals=self._totals)
        found = self._newest(self._reader.step_stats(self._settled + 1, totals=self._totals))
        return StepLook(found.stats, found.settled, anew=True, past=past)

    def _newest(self, stats: list[StepStat]) -> StepLook:
        if stats and stats[-1].step - self._settled > ASKED_AGAIN:
            self._settled = stats[-1].step - LATE
        return StepLook(tuple(stats), self._settled)

    def _widen(self, groups: Iterable[StoredGroup]) -> bool:
        """Take in new totals; True when the range of the run grew, by which flat groups are told apart."""
        totals = scored(c.total for group in groups for c in group.completions)
        if self._seen is not None:
            totals += self._seen
        if not totals:
            return False
        self._seen = (min(totals), max(totals))
        if self._seen[0] == self._seen[1] or self._seen == self._totals:
            return False
        self._totals = self._seen
        return True
