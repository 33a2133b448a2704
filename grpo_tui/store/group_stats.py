"""Answer questions about groups without reading a completion: spread, flat or not and at which end, by step.

A group is flat when the loss gets nothing from it (`core.statistics.signal_of`). Flat at the top means that
all of its completions got the highest total seen in the run, at the bottom the lowest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from grpo_tui.core.statistics import ADVANTAGE_NOISE, SAME, Signal
from grpo_tui.store.series import SeriesQueries
from grpo_tui.store.stretches import SeriesBucket, gathered, of_points

_COLUMNS = {
    "grpo_tui/spread": "spread",
    "grpo_tui/flat_share": "flat",
    "grpo_tui/flat_top": "top",
    "grpo_tui/flat_bottom": "bottom",
    "grpo_tui/masked_share": "masked",
}
WIDE = 4
"""Stretches of so many steps are gathered by SQL."""


@dataclass(frozen=True, slots=True)
class StepStat:
    """What the groups of one step come to; shares are between 0 and 1."""

    step: int
    at: float
    groups: int
    spread: float | None
    """Mean of the groups' standard deviations, None when no group was scored."""
    flat: float
    """Share of groups that teach nothing."""
    masked: float | None
    """Share of groups that the loss leaves out as a whole; None in a run that has no such group."""
    top: float | None
    """Share of groups flat at the highest total of the run; None while all totals of the run are one."""
    bottom: float | None


@dataclass(frozen=True, slots=True)
class _Value:
    step: int
    at: float
    value: Any


class GroupStatQueries(SeriesQueries):
    """The part of the reader that knows the figures of groups."""

    def total_range(self, mode: str = "train") -> tuple[float, float] | None:
        """The lowest and the highest total of any completion, None while they are not known to differ."""
        if not self._has("generation_group", "high"):
            return None
        low, high = self._one(
            "SELECT min(low), max(high) FROM generation_group WHERE mode = ? AND superseded = 0", mode
        )
        return None if low is None or high - low < SAME else (float(low), float(high))

    def step_stats(
        self,
        first_step: int = 0,
        last_step: int = 1 << 62,
        *,
        mode: str = "train",
        totals: tuple[float, float] | None = None,
    ) -> list[StepStat]:
        """Figures of the groups of each step that has any, by step.

        Args:
            first_step, last_step: Inclusive.
            mode: `train` or `eval`.
            totals: Lowest and highest total of the run, when `total_range` was asked already.
        """
        rows = self._all(f"{self._per_step(totals or self.total_range(mode))}", mode, first_step, last_step)
        return [StepStat(*row) for row in rows]

    def step_stretches(
        self,
        width: int,
        *,
        last_step: int = 1 << 62,
        mode: str = "train",
        totals: tuple[float, float] | None = None,
    ) -> dict[str, list[SeriesBucket]]:
        """The computed metrics of groups from the start, in stretches of so many steps, by key."""
        return self._stretches_by_step(list(_COLUMNS), width, (0, last_step), mode, totals)

    def _stretches_by_step(
        self,
        keys: Sequence[str],
        width: int,
        steps: tuple[int, int],
        mode: str,
        totals: tuple[float, float] | None = None,
    ) -> dict[str, list[SeriesBucket]]:
        columns = [_COLUMNS[key] for key in keys]
        figures = ", ".join(f"min({c}), max({c}), avg({c}), count(*), count({c})" for c in columns)
        rows = self._all(
            f"SELECT min(step), max(step), min(at), max(at), {figures}"
            f" FROM ({self._per_step(totals or self.total_range(mode))})"
            f" GROUP BY (step - {int(steps[0])}) / {max(1, int(width))} ORDER BY 1",
            mode,
            *steps,
        )
        return {
            key: [SeriesBucket(*tuple(row)[:4], *tuple(row)[4 + 5 * n : 9 + 5 * n]) for row in rows]
            for n, key in enumerate(keys)
        }

    def newest_signals(self) -> tuple[int, list[Signal]]:
        """The newest step of training that has groups, and what the loss gets from each of them."""
        rows = self._all(
            f"SELECT g.step, {signal_sql(recorded=self._has('generation_group', 'signal'))}"
            " FROM generation_group g WHERE mode = 'train' AND superseded = 0 AND step ="
            " (SELECT max(step) FROM generation_group WHERE mode = 'train' AND superseded = 0)"
        )
        return (rows[0][0], [row[1] for row in rows]) if rows else (0, [])

    def _masks(self) -> bool:
        """Whether the loss left out any group of the run as a whole."""
        if not self._has("generation_group", "signal"):
            return False
        return self._one("SELECT 1 FROM generation_group WHERE signal = 'masked' LIMIT 1") is not None

    def _group_window(
        self, key: str, first_step: int | None, last_step: int | None, buckets: int
    ) -> list[SeriesBucket]:
        ends = "SELECT min(step), max(step) FROM generation_group WHERE mode = 'train' AND superseded = 0"
        begin, end = self._one(ends)
        if begin is None or (_COLUMNS[key] == "masked" and not self._masks()):
            return []
        first = begin if first_step is None else first_step
        last = end if last_step is None else last_step
        if last < first:
            return []
        width = -(-(last - first + 1) // max(1, buckets))
        if width >= WIDE:
            return self._stretches_by_step([key], width, (first, last), "train")[key]
        values = [_Value(s.step, s.at, getattr(s, _COLUMNS[key])) for s in self.step_stats(first, last)]
        return gathered(of_points(values), first_step, last_step, buckets)

    def _per_step(self, totals: tuple[float, float] | None) -> str:
        """SQL for the figures by step; its values are mode, first and last step."""
        signal = signal_sql(recorded=self._has("generation_group", "signal"))
        masked = f"avg({signal} = 'masked')" if self._masks() else "NULL"
        top = bottom = "NULL"
        if totals is not None:
            low, high = totals
            top = f"avg(coalesce({signal} = 'none' AND g.low > {high!r} - {SAME}, 0))"
            bottom = f"avg(coalesce({signal} = 'none' AND g.high < {low!r} + {SAME}, 0))"
        return (
            "SELECT step, min(at) AS at, count(*) AS groups, avg(std) AS spread,"
            f" avg({signal} != 'some') AS flat, {masked} AS masked,"
            f" {top} AS top, {bottom} AS bottom FROM generation_group g"
            " WHERE mode = ? AND superseded = 0 AND step BETWEEN ? AND ? GROUP BY step ORDER BY step"
        )


def signal_sql(*, recorded: bool) -> str:
    """Return `core.statistics.signal_of` of the group `g` as SQL; an older version did not record it."""
    worked_out = (
        f"CASE WHEN (g.mode = 'probe' AND g.std >= {SAME})"
        " OR EXISTS (SELECT 1 FROM completion a WHERE a.group_id = g.id AND (abs(a.advantage) >= "
        f"{ADVANTAGE_NOISE} OR (abs(a.advantage) > 0 AND g.std >= {SAME}))) THEN 'some' ELSE 'none' END"
    )
    return f"coalesce(g.signal, {worked_out})" if recorded else f"({worked_out})"
