"""Read the metrics of a run: logged values, a whole run in a bounded number of stretches, its ends.

Long runs are read from the summaries that the writer keeps (`store.schema`); their ends, and metrics without
summaries, are read row by row. Metrics computed from groups need no completion. Steps that a resume has
repeated are always left out.

A group is "flat" when the loss gets nothing from it (`core.statistics.signal_of`). Flat at the top means that
all of its completions got the highest total of the run; at the bottom, the lowest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from grpo_tui.core.metrics import is_computed
from grpo_tui.core.statistics import ADVANTAGE_NOISE, SAME, Signal, is_number
from grpo_tui.store.reader import RunReader
from grpo_tui.store.schema import LEVELS
from grpo_tui.store.values import from_column


@dataclass(frozen=True, slots=True)
class SeriesBucket:
    """Values of one metric over a stretch of steps."""

    first: int
    last: int
    first_at: float
    """When the first row of the stretch was logged, seconds since the epoch."""
    last_at: float
    low: float | None
    """Lowest value; None when the stretch holds no number."""
    high: float | None
    mean: float | None
    count: int
    """Rows that logged the metric, whatever the value."""
    known: int
    """Rows whose value is a finite number."""
    smooth: float | None = None
    """Mean of a moving average over the stretch, if one was computed."""

    @property
    def middle(self) -> float:
        """Center of the stretch on the step axis."""
        return (self.first + self.last) / 2

    @property
    def missing(self) -> int:
        """Rows that logged None, NaN, an infinity or a text."""
        return self.count - self.known


@dataclass(frozen=True, slots=True)
class Point:
    """One value of a series; `row` orders values that share a step."""

    row: int
    step: int
    at: float
    value: Any


def of_points(points: Iterable[Point]) -> list[SeriesBucket]:
    """Return each value as its own stretch."""
    found = []
    for p in points:
        n = float(p.value) if is_number(p.value) else None
        found.append(SeriesBucket(p.step, p.step, p.at, p.at, n, n, n, 1, 0 if n is None else 1))
    return found


def gathered(
    pieces: Sequence[SeriesBucket], first_step: int | None, last_step: int | None, buckets: int
) -> list[SeriesBucket]:
    """Merge values into about `buckets` stretches of equal length. Values of one step stay together."""
    if not pieces:
        return []
    first = pieces[0].first if first_step is None else first_step
    last = pieces[-1].last if last_step is None else last_step
    width = max(1, -(-(last - first + 1) // max(1, buckets)))
    found: list[list[SeriesBucket]] = []
    place = None
    for piece in pieces:
        here = ((piece.first + piece.last) // 2 - first) // width
        if here != place:
            found.append([])
            place = here
        found[-1].append(piece)
    return [joined(group) for group in found]


def joined(pieces: Sequence[SeriesBucket]) -> SeriesBucket:
    """Merge adjacent stretches into one."""
    if len(pieces) == 1:
        return pieces[0]
    return SeriesBucket(
        first=min(p.first for p in pieces),
        last=max(p.last for p in pieces),
        first_at=min(p.first_at for p in pieces),
        last_at=max(p.last_at for p in pieces),
        low=min((p.low for p in pieces if p.low is not None), default=None),
        high=max((p.high for p in pieces if p.high is not None), default=None),
        mean=_weighted([(p.mean, p.known) for p in pieces]),
        count=sum(p.count for p in pieces),
        known=sum(p.known for p in pieces),
        smooth=_weighted([(p.smooth, p.known) for p in pieces]),
    )


def _weighted(values: Sequence[tuple[float | None, int]]) -> float | None:
    known = [(mean, count) for mean, count in values if mean is not None]
    count = sum(count for _, count in known)
    return sum(mean * count for mean, count in known) / count if count else None


def rates(counts: Sequence[SeriesBucket], times: Sequence[SeriesBucket]) -> list[SeriesBucket]:
    """Return the growth of a running count per second of step time, one value per stretch.

    Args:
        counts: Stretches of a count that never falls, so the highest value is the last.
        times: Stretches of the seconds per step, over the same blocks.
    """
    found, place = [], 0
    for before, now in pairwise(counts):
        while place < len(times) and times[place].last < now.first:
            place += 1
        time = times[place] if place < len(times) and times[place].first <= now.last else None
        value = None
        if time is not None and time.mean and now.high is not None and before.high is not None:
            grown = now.high - before.high
            value = grown / (time.mean * max(1, now.last - before.last)) if grown >= 0 else None
        found.append(
            SeriesBucket(now.first, now.last, now.first_at, now.last_at, value, value, value, now.count,
                         0 if value is None else now.known)
        )  # fmt: skip
    return found


TOKENS_PER_SECOND = "grpo_tui/tokens_per_second"
RAW_ROWS = 4_096
"""Up to this many rows, a run is read row by row."""
FINE_ROWS = LEVELS[1] * 256
"""Up to this many rows, a run is read from the finer summaries."""
RECENT_ROWS = 96
"""The newest rows are always read individually."""
OPENING_ROWS = 16


@dataclass(frozen=True, slots=True)
class SeriesStart:
    """A series up to now: older values summarised, the newest individually."""

    row: int
    """Id of the newest row of the run that this covers."""
    opening: tuple[float, ...]
    """First numeric values; empty when `points` holds the whole series."""
    past: tuple[SeriesBucket, ...]
    points: tuple[Point, ...]


def metric_keys(reader: RunReader) -> list[str]:
    """Return every metric key, in the order in which they were first logged."""
    return [row["key"] for row in reader.all("SELECT key FROM metric_key ORDER BY id")]


def last_metric_row_id(reader: RunReader) -> int:
    """Return the id of the newest logged row; 0 without any."""
    return int(reader.one("SELECT coalesce(max(id), 0) FROM metric_row")[0])


def read_points(
    reader: RunReader, key: str, after_row: int = 0, limit: int = 1_000_000, *, last_row: int = 1 << 62
) -> list[Point]:
    """Return the values of one metric after one row and up to another, without superseded steps."""
    if key == TOKENS_PER_SECOND:
        return _rates(reader, after_row, last_row)[:limit]
    rows = reader.all(
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
    reader: RunReader, after_row: int, limit: int = 512, *, keys: Sequence[str] | None = None
) -> tuple[int, dict[str, list[Point]]]:
    """Return the id of the last row read after `after_row`, and the values by metric: all, or `keys`."""
    last = reader.one(
        "SELECT max(id) FROM (SELECT id FROM metric_row WHERE id > ? ORDER BY id LIMIT ?)",
        after_row,
        limit,
    )[0]
    found: dict[str, list[Point]] = {}
    if last is None:
        return after_row, found
    chosen = "" if keys is None else f" AND k.key IN ({','.join('?' * len(keys))})"
    for r in reader.all(
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
        found[TOKENS_PER_SECOND] = _rates(reader, after_row, last)
    return last, found


def metric_rows(
    reader: RunReader, after_row: int = 0, limit: int = 1000
) -> list[tuple[int, int, dict[str, Any]]]:
    """Return whole logged rows as (row, step, values), without superseded ones."""
    rows = reader.all(
        "SELECT id, step FROM metric_row WHERE id > ? AND superseded = 0 ORDER BY id LIMIT ?",
        after_row,
        limit,
    )
    return [(row["id"], row["step"], metric_row(reader, row["id"])) for row in rows]


def all_metric_rows(reader: RunReader) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield every logged row as (step, values), without superseded ones."""
    last = 0
    while page := metric_rows(reader, last):
        yield from ((step, values) for _, step, values in page)
        last = page[-1][0]


def metric_row(reader: RunReader, row: int) -> dict[str, Any]:
    """Return the values of one logged row by key."""
    found = reader.all(
        # CROSS fixes the join order. SQLite 3.45 would otherwise read all values of the run.
        "SELECT k.key, m.value FROM metric_key k CROSS JOIN metric m ON m.key = k.id AND m.row = ?"
        " ORDER BY k.id",
        row,
    )
    return {r["key"]: from_column(r["value"]) for r in found}


def last_training_row(
    reader: RunReader, last_step: int | None = None, key: str = "reward"
) -> tuple[int, dict[str, Any]] | None:
    """Return step and values of the newest row with a training reward, or another key, up to `last_step`."""
    row = reader.one(
        "SELECT r.id, r.step FROM metric m CROSS JOIN metric_row r ON r.id = m.row"
        " WHERE m.key = (SELECT id FROM metric_key WHERE key = ?) AND r.superseded = 0"
        " AND (? IS NULL OR r.step <= ?) ORDER BY m.row DESC LIMIT 1",
        key,
        last_step,
        last_step,
    )
    return None if row is None else (row["step"], metric_row(reader, row["id"]))


def series_start(reader: RunReader, key: str) -> SeriesStart:
    """Return one whole metric up to now, in a bounded number of pieces."""
    newest = last_metric_row_id(reader)
    level = 1 if newest <= RAW_ROWS else LEVELS[0] if newest <= FINE_ROWS else LEVELS[1]
    past: list[SeriesBucket] = []
    covered = 0
    if level > 1:
        coarse = max(0, newest - RECENT_ROWS) // level * level
        covered = max(0, newest - RECENT_ROWS) // LEVELS[0] * LEVELS[0]
        past = [
            *_full_blocks(reader, key, level, 0, coarse),
            *_full_blocks(reader, key, LEVELS[0], coarse, covered),
        ]
    opening: tuple[float, ...] = ()
    if past:
        # Rates are computed row by row, so do not ask for them over the whole run.
        upto = min(covered, 4 * OPENING_ROWS) if key == TOKENS_PER_SECOND else covered
        first = read_points(reader, key, limit=OPENING_ROWS, last_row=upto)
        opening = tuple(float(p.value) for p in first if is_number(p.value))
    points = read_points(reader, key, covered, last_row=newest)
    return SeriesStart(newest, opening, tuple(past), tuple(points))


def series_window(
    reader: RunReader,
    key: str,
    first_step: int | None = None,
    last_step: int | None = None,
    buckets: int = 200,
) -> list[SeriesBucket]:
    """Return one metric between two steps, both inclusive, in about `buckets` stretches of equal length.

    A window of fewer steps is returned step by step. Stretches without a row are left out. The first and last
    of a very long window may include a few neighboring steps, because summaries are not split.
    """
    if key in _COLUMNS:
        return _group_window(reader, key, first_step, last_step, buckets)
    first_row = _row_at(reader, first_step, "ASC") if first_step is not None else 1
    last_row = _row_at(reader, last_step, "DESC") if last_step is not None else last_metric_row_id(reader)
    if first_row is None or last_row is None or first_row > last_row:
        return []
    rows = last_row - first_row + 1
    level = next((n for n in reversed(LEVELS) if rows >= n * buckets), 1)
    return gathered(_pieces(reader, key, level, first_row, last_row), first_step, last_step, buckets)


def _pieces(reader: RunReader, key: str, level: int, first_row: int, last_row: int) -> list[SeriesBucket]:
    if level == 1:
        return of_points(read_points(reader, key, first_row - 1, last_row=last_row))
    start = -(-(first_row - 1) // level) * level
    end = last_row // level * level
    return [
        *of_points(read_points(reader, key, first_row - 1, last_row=start)),
        *_full_blocks(reader, key, level, start, end),
        *of_points(read_points(reader, key, max(end, start), last_row=last_row)),
    ]


def _full_blocks(reader: RunReader, key: str, level: int, start: int, end: int) -> list[SeriesBucket]:
    """Return the summaries of the blocks between two rows that are multiples of `level`."""
    if key == TOKENS_PER_SECOND:
        tokens = _full_blocks(reader, "num_tokens", level, max(0, start - level), end)
        return rates(tokens, _full_blocks(reader, "step_time", level, start, end))
    if not reader.has("metric_span", "block"):
        return of_points(read_points(reader, key, start, last_row=end))
    rows = reader.all(
        "SELECT step, last_step, at, last_at, low, high, mean, count, known FROM metric_span"
        " WHERE level = ? AND key = (SELECT id FROM metric_key WHERE key = ?)"
        " AND block >= ? AND block < ? ORDER BY block",
        level,
        key,
        start // level,
        end // level,
    )
    return [SeriesBucket(*row) for row in rows]


def _row_at(reader: RunReader, step: int, order: str) -> int | None:
    """Return the first row from a step on (`ASC`), or the last one up to it (`DESC`)."""
    sign = ">=" if order == "ASC" else "<="
    row = reader.one(
        f"SELECT id FROM metric_row WHERE step {sign} ? AND superseded = 0 ORDER BY id {order} LIMIT 1",
        step,
    )
    return None if row is None else int(row["id"])


def _rates(reader: RunReader, after_row: int, last_row: int) -> list[Point]:
    """Return tokens per second at each row after `after_row` that logged a token count."""
    before = reader.one(
        "SELECT max(m.row) FROM metric m CROSS JOIN metric_row r ON r.id = m.row WHERE r.superseded = 0"
        " AND m.key = (SELECT id FROM metric_key WHERE key = 'num_tokens') AND m.row <= ?",
        after_row,
    )[0]
    start = (before or 1) - 1
    tokens = read_points(reader, "num_tokens", start, last_row=last_row)
    if not tokens:
        return []
    times = read_points(reader, "step_time", tokens[0].row, last_row=last_row)
    return _rate_points(tokens, times)


def _rate_points(tokens: Sequence[Point], times: Iterable[Point]) -> list[Point]:
    """Return token growth ÷ step time since the previous count; None if a number is missing or it fell."""
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


_COLUMNS = {
    "grpo_tui/spread": "spread",
    "grpo_tui/flat_share": "flat",
    "grpo_tui/flat_top": "top",
    "grpo_tui/flat_bottom": "bottom",
    "grpo_tui/masked_share": "masked",
}
WIDE = 4
"""Stretches of at least this many steps are aggregated in SQL."""


@dataclass(frozen=True, slots=True)
class StepStat:
    """Figures of the groups of one step. Fractions are from 0 to 1."""

    step: int
    at: float
    groups: int
    spread: float | None
    """Mean of the groups' standard deviations; None when no group was scored."""
    flat: float
    masked: float | None
    """Fraction of groups that the loss leaves out entirely; None in a run without such groups."""
    top: float | None
    """Fraction of groups flat at the run's highest total; None while all totals of the run are equal."""
    bottom: float | None


def total_range(reader: RunReader, mode: str = "train") -> tuple[float, float] | None:
    """Return the lowest and highest total of any completion; None unless they differ."""
    if not reader.has("generation_group", "high"):
        return None
    low, high = reader.one(
        "SELECT min(low), max(high) FROM generation_group WHERE mode = ? AND superseded = 0", mode
    )
    return None if low is None or high - low < SAME else (float(low), float(high))


def step_stats(
    reader: RunReader,
    first_step: int = 0,
    last_step: int = 1 << 62,
    *,
    mode: str = "train",
    totals: tuple[float, float] | None = None,
) -> list[StepStat]:
    """Return the figures of each step with groups between two, both inclusive."""
    rows = reader.all(
        f"{_per_step(reader, totals or total_range(reader, mode))}", mode, first_step, last_step
    )
    return [StepStat(*row) for row in rows]


def step_buckets(
    reader: RunReader,
    width: int,
    *,
    last_step: int = 1 << 62,
    totals: tuple[float, float] | None = None,
) -> dict[str, list[SeriesBucket]]:
    """Return the metrics computed from groups, in stretches of `width` steps from the start, by key."""
    return _buckets_by_step(reader, list(_COLUMNS), width, (0, last_step), totals)


def _buckets_by_step(
    reader: RunReader,
    keys: Sequence[str],
    width: int,
    steps: tuple[int, int],
    totals: tuple[float, float] | None = None,
) -> dict[str, list[SeriesBucket]]:
    columns = [_COLUMNS[key] for key in keys]
    figures = ", ".join(f"min({c}), max({c}), avg({c}), count(*), count({c})" for c in columns)
    rows = reader.all(
        f"SELECT min(step), max(step), min(at), max(at), {figures}"
        f" FROM ({_per_step(reader, totals or total_range(reader))})"
        f" GROUP BY (step - {int(steps[0])}) / {max(1, int(width))} ORDER BY 1",
        "train",
        *steps,
    )
    return {
        key: [SeriesBucket(*tuple(row)[:4], *tuple(row)[4 + 5 * n : 9 + 5 * n]) for row in rows]
        for n, key in enumerate(keys)
    }


def newest_signals(reader: RunReader) -> tuple[int, list[Signal]]:
    """Return the newest training step with groups, and the signal of each group."""
    rows = reader.all(
        f"SELECT g.step, {signal_sql(recorded=reader.has('generation_group', 'signal'))}"
        " FROM generation_group g WHERE mode = 'train' AND superseded = 0 AND step ="
        " (SELECT max(step) FROM generation_group WHERE mode = 'train' AND superseded = 0)"
    )
    return (rows[0][0], [row[1] for row in rows]) if rows else (0, [])


def _masks(reader: RunReader) -> bool:
    if not reader.has("generation_group", "signal"):
        return False
    return reader.one("SELECT 1 FROM generation_group WHERE signal = 'masked' LIMIT 1") is not None


def _group_window(
    reader: RunReader, key: str, first_step: int | None, last_step: int | None, buckets: int
) -> list[SeriesBucket]:
    ends = "SELECT min(step), max(step) FROM generation_group WHERE mode = 'train' AND superseded = 0"
    begin, end = reader.one(ends)
    if begin is None or (_COLUMNS[key] == "masked" and not _masks(reader)):
        return []
    first = begin if first_step is None else first_step
    last = end if last_step is None else last_step
    if last < first:
        return []
    width = -(-(last - first + 1) // max(1, buckets))
    if width >= WIDE:
        return _buckets_by_step(reader, [key], width, (first, last))[key]
    values = [Point(0, s.step, s.at, getattr(s, _COLUMNS[key])) for s in step_stats(reader, first, last)]
    return gathered(of_points(values), first_step, last_step, buckets)


def _per_step(reader: RunReader, totals: tuple[float, float] | None) -> str:
    """Return SQL for the figures by step. Its values are mode, first and last step."""
    signal = signal_sql(recorded=reader.has("generation_group", "signal"))
    masked = f"avg({signal} = 'masked')" if _masks(reader) else "NULL"
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
    """Return SQL for `core.statistics.signal_of` of the group `g`. Older versions did not record it."""
    worked_out = (
        f"CASE WHEN (g.mode = 'probe' AND g.std >= {SAME})"
        " OR EXISTS (SELECT 1 FROM completion a WHERE a.group_id = g.id AND (abs(a.advantage) >= "
        f"{ADVANTAGE_NOISE} OR (abs(a.advantage) > 0 AND g.std >= {SAME}))) THEN 'some' ELSE 'none' END"
    )
    return f"coalesce(g.signal, {worked_out})" if recorded else f"({worked_out})"


RECENT = 63
"""Steps searched back for the newest value of a metric computed from groups."""
_END = "SELECT step, at FROM metric_row WHERE superseded = 0 ORDER BY id {} LIMIT 1"


@dataclass(frozen=True, slots=True)
class StepRange:
    """The ends of what was logged."""

    started_at: float
    first_step: int
    newest_step: int
    newest_at: float


def step_range(reader: RunReader) -> StepRange | None:
    """Return the ends of a run, without superseded rows; None before its first row."""
    first, last = (reader.one(_END.format(order)) for order in ("ASC", "DESC"))
    if first is None:
        return None
    began = reader.one("SELECT min(started_at) FROM attempt")[0]
    return StepRange(
        started_at=first["at"] if began is None else began,
        first_step=first["step"],
        newest_step=max(last["step"], first["step"]),
        newest_at=last["at"],
    )


def newest_value(reader: RunReader, key: str) -> tuple[float | None, int | None]:
    """Return a metric's newest value and its step. The value is None unless finite; both without any."""
    if is_computed(key):
        newest = step_range(reader)
        if newest is None:
            return None, None
        found = series_window(reader, key, first_step=max(0, newest.newest_step - RECENT), buckets=RECENT + 1)
        return (found[-1].mean, found[-1].last) if found else (None, None)
    row = reader.one(
        "SELECT r.step, m.value FROM metric m CROSS JOIN metric_row r ON r.id = m.row"
        " WHERE m.key = (SELECT id FROM metric_key WHERE key = ?) AND r.superseded = 0"
        " ORDER BY m.row DESC LIMIT 1",
        key,
    )
    if row is None:
        return None, None
    value = from_column(row["value"])
    return (float(value) if is_number(value) else None), row["step"]


# One statement for all places: most of the time would go into separate queries.
_PLACES = (
    "WITH RECURSIVE place (number, at) AS (SELECT 0, :first UNION ALL"
    " SELECT number + 1, :first + (number + 1) * :rows / :places FROM place WHERE number + 1 < :places)"
    " SELECT place.number, m.value FROM place"
    " CROSS JOIN metric m ON m.key = :key AND m.row BETWEEN place.at AND place.at + :neighbours - 1"
    " CROSS JOIN metric_row r ON r.id = m.row AND r.superseded = 0"
)
_BETWEEN = (
    "SELECT m.value FROM metric m CROSS JOIN metric_row r ON r.id = m.row"
    " WHERE m.key = ? AND m.row > ? AND m.row <= ? AND r.superseded = 0 ORDER BY m.row"
)


def sample_series(reader: RunReader, key: str, places: int = 48, neighbours: int = 6) -> list[list[Any]]:
    """Return values of a metric at several places of the run, in logged order.

    The places are spread evenly over the logged rows and end at the newest. One without a value is left out.
    A run of at most `places` × `neighbours` rows is returned whole. Values are as logged, including None, NaN
    and infinities, without superseded rows.
    """
    found = reader.one("SELECT id FROM metric_key WHERE key = ?", key)
    if found is None:
        return []
    number = found[0]
    # Two separate lookups at the ends of the key. In one query SQLite would scan the whole key.
    first = reader.one("SELECT min(row) FROM metric WHERE key = ?", number)[0]
    last = reader.one("SELECT max(row) FROM metric WHERE key = ?", number)[0]
    if first is None:
        return []
    rows = last - first + 1
    if rows <= places * neighbours:
        values = [from_column(row[0]) for row in reader.all(_BETWEEN, number, first - 1, last)]
        count = min(places, len(values))
        return [values[i * len(values) // count : (i + 1) * len(values) // count] for i in range(count)]
    asked = {"first": first, "rows": rows, "places": places - 1, "neighbours": neighbours}
    stretches: dict[int, list[Any]] = {}
    for place, value in reader.all(_PLACES, **asked, key=number):
        stretches.setdefault(place, []).append(from_column(value))
    # The last place ends with the newest row.
    newest = reader.all(_BETWEEN, number, last - neighbours, last)
    if newest:
        stretches[places] = [from_column(row[0]) for row in newest]
    return [stretches[place] for place in sorted(stretches)]
