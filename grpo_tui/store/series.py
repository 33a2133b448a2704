"""Answer questions about metrics: raw values, and a whole run in a bounded number of stretches.

Long runs are read from the summaries that the writer keeps (`store.spans`), their ends and what has no
summary from the rows. Steps that a resume has done again are left out everywhere. Knows numbers, not what
they mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from grpo_tui.core.metrics import is_computed
from grpo_tui.core.statistics import is_number
from grpo_tui.store.queries import Queries
from grpo_tui.store.spans import LEVELS
from grpo_tui.store.stretches import SeriesBucket, gathered, of_points, rates
from grpo_tui.store.values import from_column

TOKENS_PER_SECOND = "grpo_tui/tokens_per_second"
RAW_ROWS = 4_096
"""Runs of up to so many rows are read row by row."""
FINE_ROWS = LEVELS[1] * 256
"""Runs of up to so many rows are read by the finer summaries."""
RECENT_ROWS = 96
"""The newest rows are always read one by one."""
OPENING_ROWS = 16


@dataclass(frozen=True, slots=True)
class Point:
    """One value of a metric's series; `row` orders values that share a step."""

    row: int
    step: int
    at: float
    value: Any


@dataclass(frozen=True, slots=True)
class SeriesStart:
    """A series up to now: its long past summarised, its newest values one by one."""

    row: int
    """The newest row of the run that this covers."""
    opening: tuple[float, ...]
    """Its first values that are numbers; empty when `points` holds all there are."""
    past: tuple[SeriesBucket, ...]
    points: tuple[Point, ...]


class SeriesQueries(Queries):
    """The part of the reader that knows metrics."""

    def metric_keys(self) -> list[str]:
        """Every metric key that was ever logged, in the order of first sight."""
        return [row["key"] for row in self._all("SELECT key FROM metric_key ORDER BY id")]

    def last_metric_row_id(self) -> int:
        """Id of the newest logged row, 0 when there is none."""
        return int(self._one("SELECT coalesce(max(id), 0) FROM metric_row")[0])

    # -- values ----------------------------------------------------------------------------------

    def series(
        self, key: str, after_row: int = 0, limit: int = 1_000_000, *, last_row: int = 1 << 62
    ) -> list[Point]:
        """The values of one metric after a row and up to another, superseded steps left out."""
        if key == TOKENS_PER_SECOND:
            return self._rates(after_row, last_row)[:limit]
        rows = self._all(
            "SELECT m.row, r.step, r.at, m.value FROM metric m CROSS JOIN metric_row r ON r.id = m.row"
            " WHERE m.key = (SELECT id FROM metric_key WHERE key = ?) AND m.row > ? AND m.row <= ?"
            " AND r.superseded = 0 ORDER BY m.row LIMIT ?",
            key,
            after_row,
            last_row,
            limit,
        )
        return [Point(r["row"], r["step"], r["at"], from_column(r["value"])) for r in rows]

    def new_points(
        self, after_row: int, limit: int = 512, *, keys: Sequence[str] | None = None
    ) -> tuple[int, dict[str, list[Point]]]:
        """The values of metrics in the rows after one, a page of at most `limit` rows.

        Args:
            after_row: Id of the last row that is known.
            limit: Rows to a page.
            keys: Only these metrics; None for all.

        Returns:
            The last row of the page, and the values by key.
        """
        last = self._one(
            "SELECT max(id) FROM (SELECT id FROM metric_row WHERE id > ? ORDER BY id LIMIT ?)",
            after_row,
            limit,
        )[0]
        found: dict[str, list[Point]] = {}
        if last is None:
            return after_row, found
        chosen = "" if keys is None else f" AND k.key IN ({','.join('?' * len(keys))})"
        for r in self._all(
            "SELECT k.key, r.id, r.step, r.at, m.value FROM metric_row r CROSS JOIN metric_key k"
            " CROSS JOIN metric m ON m.key = k.id AND m.row = r.id"
            f" WHERE r.id > ? AND r.id <= ? AND r.superseded = 0{chosen} ORDER BY r.id",
            after_row,
            last,
            *(keys or ()),
        ):
            point = Point(r["id"], r["step"], r["at"], from_column(r["value"]))
            found.setdefault(r["key"], []).append(point)
        if "num_tokens" in found if keys is None else TOKENS_PER_SECOND in keys:
            found[TOKENS_PER_SECOND] = self._rates(after_row, last)
        return last, found

    def metric_rows(self, after_row: int = 0, limit: int = 1000) -> list[tuple[int, int, dict[str, Any]]]:
        """Whole logged rows as (row, step, values), superseded ones left out."""
        rows = self._all(
            "SELECT id, step FROM metric_row WHERE id > ? AND superseded = 0 ORDER BY id LIMIT ?",
            after_row,
            limit,
        )
        return [(row["id"], row["step"], self.metric_row(row["id"])) for row in rows]

    def metric_row(self, row: int) -> dict[str, Any]:
        """The values of one logged row."""
        found = self._all(
            # CROSS keeps the order of the two: SQLite 3.45 would read all values of the run instead.
            "SELECT k.key, m.value FROM metric_key k CROSS JOIN metric m ON m.key = k.id AND m.row = ?"
            " ORDER BY k.id",
            row,
        )
        return {r["key"]: from_column(r["value"]) for r in found}

    def last_training_row(self) -> tuple[int, dict[str, Any]] | None:
        """Step and values of the newest row that holds a training reward."""
        row = self._one(
            "SELECT r.id, r.step FROM metric m CROSS JOIN metric_row r ON r.id = m.row"
            " WHERE m.key = (SELECT id FROM metric_key WHERE key = 'reward') AND r.superseded = 0"
            " ORDER BY m.row DESC LIMIT 1"
        )
        return None if row is None else (row["step"], self.metric_row(row["id"]))

    # -- whole runs ------------------------------------------------------------------------------

    def series_start(self, key: str) -> SeriesStart:
        """Everything of one metric up to now, in a bounded number of pieces."""
        newest = self.last_metric_row_id()
        level = 1 if newest <= RAW_ROWS else LEVELS[0] if newest <= FINE_ROWS else LEVELS[1]
        past: list[SeriesBucket] = []
        covered = 0
        if level > 1:
            coarse = max(0, newest - RECENT_ROWS) // level * level
            covered = max(0, newest - RECENT_ROWS) // LEVELS[0] * LEVELS[0]
            past = [
                *self._stretches(key, level, 0, coarse),
                *self._stretches(key, LEVELS[0], coarse, covered),
            ]
        opening: tuple[float, ...] = ()
        if past:
            # Rates are worked out row by row, so they are not asked for over the whole run.
            upto = min(covered, 4 * OPENING_ROWS) if key == TOKENS_PER_SECOND else covered
            first = self.series(key, limit=OPENING_ROWS, last_row=upto)
            opening = tuple(float(p.value) for p in first if is_number(p.value))
        points = self.series(key, covered, last_row=newest)
        return SeriesStart(newest, opening, tuple(past), tuple(points))

    def series_window(
        self, key: str, first_step: int | None = None, last_step: int | None = None, buckets: int = 200
    ) -> list[SeriesBucket]:
        """One metric between two steps, in at most about `buckets` stretches of steps of equal length.

        Args:
            key: A metric's key, one that is computed here too.
            first_step, last_step: Inclusive; None is where the series begins or ends.
            buckets: Stretches wanted. A window of fewer steps comes step by step.

        Returns:
            The stretches that hold any row, by step. The first and the last of a very long window may hold a
            few steps of their neighbours: summaries are not cut.
        """
        if is_computed(key) and key != TOKENS_PER_SECOND:
            return self._group_window(key, first_step, last_step, buckets)
        first_row = self._row_at(first_step, "ASC") if first_step is not None else 1
        last_row = self._row_at(last_step, "DESC") if last_step is not None else self.last_metric_row_id()
        if first_row is None or last_row is None or first_row > last_row:
            return []
        rows = last_row - first_row + 1
        level = next((n for n in reversed(LEVELS) if rows >= n * buckets), 1)
        return gathered(self._pieces(key, level, first_row, last_row), first_step, last_step, buckets)

    def _pieces(self, key: str, level: int, first_row: int, last_row: int) -> list[SeriesBucket]:
        """Summaries of the full blocks between two rows, and every row of the two ends that fill none."""
        if level == 1:
            return of_points(self.series(key, first_row - 1, last_row=last_row))
        start = -(-(first_row - 1) // level) * level
        end = last_row // level * level
        return [
            *of_points(self.series(key, first_row - 1, last_row=start)),
            *self._stretches(key, level, start, end),
            *of_points(self.series(key, max(end, start), last_row=last_row)),
        ]

    def _stretches(self, key: str, level: int, start: int, end: int) -> list[SeriesBucket]:
        """Summaries of the blocks between two rows that are multiples of `level`."""
        if key == TOKENS_PER_SECOND:
            tokens = self._stretches("num_tokens", level, max(0, start - level), end)
            return rates(tokens, self._stretches("step_time", level, start, end))
        if not self._has("metric_span", "block"):
            return of_points(self.series(key, start, last_row=end))
        rows = self._all(
            "SELECT step, last_step, at, last_at, low, high, mean, count, known FROM metric_span"
            " WHERE level = ? AND key = (SELECT id FROM metric_key WHERE key = ?)"
            " AND block >= ? AND block < ? ORDER BY block",
            level,
            key,
            start // level,
            end // level,
        )
        return [SeriesBucket(*row) for row in rows]

    def _row_at(self, step: int, order: str) -> int | None:
        """The first row from a step on (`ASC`), or the last one up to it (`DESC`)."""
        sign = ">=" if order == "ASC" else "<="
        row = self._one(
            f"SELECT id FROM metric_row WHERE step {sign} ? AND superseded = 0 ORDER BY id {order} LIMIT 1",
            step,
        )
        return None if row is None else int(row["id"])

    def _rates(self, after_row: int, last_row: int) -> list[Point]:
        """Tokens a second at each row after one that logged how many tokens there have been."""
        before = self._one(
            "SELECT max(m.row) FROM metric m CROSS JOIN metric_row r ON r.id = m.row WHERE r.superseded = 0"
            " AND m.key = (SELECT id FROM metric_key WHERE key = 'num_tokens') AND m.row <= ?",
            after_row,
        )[0]
        start = (before or 1) - 1
        tokens = self.series("num_tokens", start, last_row=last_row)
        if not tokens:
            return []
        times = self.series("step_time", tokens[0].row, last_row=last_row)
        return _rate_points(tokens, times)

    def _group_window(
        self, key: str, first_step: int | None, last_step: int | None, buckets: int
    ) -> list[SeriesBucket]:
        raise NotImplementedError


def _rate_points(tokens: Sequence[Point], times: Iterable[Point]) -> list[Point]:
    """Growth of the count ÷ step time of the steps since; None where a number is missing or it fell."""
    found: list[Point] = []
    waiting = iter(times)
    time = next(waiting, None)
    before = tokens[0]
    step = before.step
    for token in tokens[1:]:
        elapsed_s: float | None = 0.0
        while time is not None and time.row <= token.row:
            known = elapsed_s is not None and is_number(time.value)
            elapsed_s = elapsed_s + time.value * max(1, time.step - step) if known else None
            step = time.step
            time = next(waiting, None)
        value = None
        if elapsed_s and is_number(token.value) and is_number(before.value) and token.value >= before.value:
            value = (token.value - before.value) / elapsed_s
        found.append(Point(token.row, token.step, token.at, value))
        before = token
    return found
