"""Metrics of a run, read by rows and by summaries: both say the same."""

from __future__ import annotations

import math
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from grpo_tui.core import records as r
from grpo_tui.store.connection import open_writer
from grpo_tui.store.importers.formats import advantages
from grpo_tui.store.read_health import prompt_ranges
from grpo_tui.store.read_series import (
    TOKENS_PER_SECOND,
    SeriesBucket,
    last_metric_row_id,
    new_points,
    rates,
    read_points,
    series_window,
    step_buckets,
    step_stats,
    total_range,
)
from grpo_tui.store.reader import RunReader
from grpo_tui.store.schema import prepare_spans
from grpo_tui.store.writer import Writer

STEPS = 700


def value_at(step: int) -> Any:
    """A number, but for one in ten that no chart can draw."""
    if step % 10 == 3:
        return (None, math.nan, math.inf, "n/a")[step // 10 % 4]
    return random.Random(step).uniform(-1.0, 1.0)


def row(step: int, attempt: int = 1) -> r.MetricRow:
    values = {"x": value_at(step), "num_tokens": step * 100.0, "step_time": 0.5}
    if step % 2:
        values["odd"] = float(step)
    return r.MetricRow(attempt, step, 1000.0 + step, values)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 700 steps, of which 451 to 600 were done twice."""
    path = tmp_path_factory.mktemp("run")
    writer = Writer(open_writer(path / "run.db"))
    writer.write([r.AttemptStarted(1, 0.0, "here", 1), *map(row, range(1, 601))])
    writer.write([r.AttemptStarted(2, 0.0, "here", 1, resumed_from=450)])
    writer.write([row(step, 2) for step in range(451, STEPS + 1)])
    writer.close()
    return path


@pytest.fixture
def reader(folder: Path) -> Iterator[RunReader]:
    opened = RunReader(folder / "run.db")
    yield opened
    opened.close()


def numbers(first: int, last: int) -> list[float]:
    values = [value_at(step) for step in range(first, last + 1)]
    return [v for v in values if isinstance(v, float) and math.isfinite(v)]


def check(bucket: SeriesBucket) -> None:
    known = numbers(bucket.first, bucket.last)
    assert bucket.count == bucket.last - bucket.first + 1
    assert (bucket.known, bucket.missing) == (len(known), bucket.count - len(known))
    assert (bucket.low, bucket.high) == (min(known), max(known))
    assert bucket.mean == pytest.approx(sum(known) / len(known))
    assert (bucket.first_at, bucket.last_at) == (1000.0 + bucket.first, 1000.0 + bucket.last)


@pytest.mark.parametrize("buckets", [2, 5, 10, 40])
def test_a_window_says_what_the_rows_say_at_every_resolution(reader: RunReader, buckets: int) -> None:
    window = series_window(reader, "x", buckets=buckets)
    assert len(window) <= buckets + 1
    assert (window[0].first, window[-1].last) == (1, STEPS)
    assert sum(bucket.count for bucket in window) == STEPS
    for before, after in pairwise(window):
        assert after.first == before.last + 1
    for bucket in window:
        check(bucket)


def test_a_narrow_window_comes_step_by_step_with_its_gaps(reader: RunReader) -> None:
    window = series_window(reader, "x", 440, 463, buckets=200)
    assert [bucket.first for bucket in window] == list(range(440, 464))
    assert [bucket.first for bucket in window if bucket.mean is None] == [443, 453, 463]
    assert all(bucket.missing == (bucket.mean is None) for bucket in window)


def test_a_window_holds_only_its_steps(reader: RunReader) -> None:
    window = series_window(reader, "x", 100, 599, buckets=10)
    assert (window[0].first, window[-1].last) == (100, 599)
    assert sum(bucket.count for bucket in window) == 500
    assert series_window(reader, "x", 900, 1000) == []
    assert series_window(reader, "nothing") == []


def test_a_metric_that_is_not_in_every_row_has_its_own_counts(reader: RunReader) -> None:
    window = series_window(reader, "odd", buckets=3)
    assert sum(bucket.count for bucket in window) == STEPS // 2
    assert window[0].low == 1.0


def test_the_summaries_are_used(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "run.db"
    copy.write_bytes((folder / "run.db").read_bytes())
    db = sqlite3.connect(copy)
    db.execute("UPDATE metric_span SET high = 77.0 WHERE level = 16 AND block = 4")
    db.commit()
    db.close()
    changed = RunReader(copy)
    assert max(bucket.high or 0 for bucket in series_window(changed, "x", buckets=10)) == 77.0
    assert max(bucket.high or 0 for bucket in series_window(changed, "x", buckets=700)) <= 1.0


def test_a_file_without_summaries_is_read_by_rows_and_gets_them_from_its_next_writer(
    folder: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "run.db"
    copy.write_bytes((folder / "run.db").read_bytes())
    db = sqlite3.connect(copy)
    db.executescript("DROP TABLE metric_span; DROP INDEX group_spread; DROP INDEX metric_row_superseded;")
    for column in ("low", "high"):
        db.execute(f"ALTER TABLE generation_group DROP COLUMN {column}")
    db.close()
    old = RunReader(copy)
    for bucket in series_window(old, "x", buckets=10):
        check(bucket)
    assert sum(bucket.count for bucket in series_window(old, "x", buckets=10)) == STEPS
    assert step_stats(old) == []
    assert series_window(old, "grpo_tui/flat_share") == []
    open_writer(copy).close()
    renewed = sqlite3.connect(copy).execute("SELECT * FROM metric_span ORDER BY 1, 2, 3").fetchall()
    kept = sqlite3.connect(folder / "run.db").execute("SELECT * FROM metric_span ORDER BY 1, 2, 3").fetchall()
    assert renewed == kept


def test_a_file_that_does_not_know_what_was_masked_has_no_share_of_it(tmp_path: Path) -> None:
    writer = Writer(open_writer(tmp_path / "run.db"))
    pair = tuple(
        r.Completion(i, "x", (float(i),), float(i), i - 0.5, 3, False, masked=i == 1) for i in (0, 1)
    )
    for step in (1, 2):
        group = r.Group(0, "p", {}, pair)
        writer.write([r.GenerationBatch(1, step, 0, "train", step, step, 1.0, (group,))])
    writer.close()
    db = sqlite3.connect(tmp_path / "run.db")
    db.executescript("DROP INDEX group_spread; DROP INDEX group_masked;")
    db.execute("ALTER TABLE generation_group DROP COLUMN signal")
    db.close()
    old = RunReader(tmp_path / "run.db")
    assert [one.masked for one in step_stats(old)] == [None, None]
    assert series_window(old, "grpo_tui/masked_share") == []
    assert series_window(old, "grpo_tui/flat_share") != []


def test_new_points_hold_every_key_of_the_rows_after_one(reader: RunReader) -> None:
    last = last_metric_row_id(reader)
    upto, points = new_points(reader, last - 2)
    assert upto == last
    assert [p.step for p in points["x"]] == [STEPS - 1, STEPS]
    assert [p.step for p in points["odd"]] == [STEPS - 1]
    assert [p.value for p in points[TOKENS_PER_SECOND]] == [pytest.approx(200.0)] * 2
    assert new_points(reader, last) == (last, {})
    page, some = new_points(reader, 0, limit=5)
    assert (page, [p.step for p in some["x"]]) == (5, [1, 2, 3, 4, 5])


def test_tokens_a_second_are_the_growth_over_the_step_time(tmp_path: Path) -> None:
    writer = Writer(open_writer(tmp_path / "run.db"))
    rows = [
        {"num_tokens": 100.0, "step_time": 1.0},
        {"num_tokens": 300.0, "step_time": 2.0},
        {"step_time": 1.0},  # the second use of a batch generates nothing
        {"num_tokens": 600.0, "step_time": 2.0},
        {"num_tokens": 700.0, "step_time": None},
        {"num_tokens": 800.0, "step_time": 4.0},
    ]
    writer.write([r.MetricRow(1, step, 0.0, values) for step, values in enumerate(rows, 1)])
    writer.write(
        [r.MetricRow(1, 16, 0.0, {"num_tokens": 1800.0, "step_time": 2.0})]
    )  # logged every ten steps
    later = {
        17: 1800.0,
        18: 1801.0,
        19: 900.0,
        20: 1000.0,
    }  # a count that stands still, and one that begins anew
    writer.write(
        [r.MetricRow(1, step, 0.0, {"num_tokens": n, "step_time": 2.0}) for step, n in later.items()]
    )
    reader = RunReader(tmp_path / "run.db")
    points = [(p.step, p.value) for p in read_points(reader, TOKENS_PER_SECOND)]
    assert points[:5] == [(2, 100.0), (4, 100.0), (5, None), (6, 25.0), (16, 50.0)]
    assert points[5:] == [(17, 0.0), (18, 0.5), (19, None), (20, 50.0)]


def test_tokens_a_second_of_a_long_window_agree_with_those_of_its_rows(reader: RunReader) -> None:
    for buckets in (2, 10, 700):
        window = series_window(reader, TOKENS_PER_SECOND, buckets=buckets)
        assert {round(b.mean or 0.0, 6) for b in window} == {200.0}


def test_a_rate_is_zero_where_the_count_stands_still_and_unknown_where_it_falls() -> None:
    def bucket(first: int, last: int, value: float | None) -> SeriesBucket:
        return SeriesBucket(first, last, 0.0, 0.0, value, value, value, 10, 10)

    counts = [
        bucket(n, n + 9, high)
        for n, high in zip(range(1, 81, 10), (5, 5, 6, 2, 2.5, None, 3, 4), strict=True)
    ]
    times = [bucket(n, n + 9, 0.0 if n == 71 else 2.0) for n in range(11, 81, 10)]
    found = rates(counts, times)
    assert [b.mean for b in found] == [0.0, 1 / 20, None, 0.5 / 20, None, None, None]
    assert [(b.first, b.known) for b in found][:3] == [(11, 10), (21, 10), (31, 0)]
    assert [b.mean for b in rates(counts[:3], times[1:])] == [None, 1 / 20]
    assert [b.mean for b in rates(counts[:3], times[:1])] == [0.0, None]
    steps = [bucket(step, step, 2.0 * step) for step in (1, 2, 4)]
    assert [b.mean for b in rates(steps, steps)] == [2.0 / 4.0, 4.0 / (8.0 * 2)]


def group(step: int, *totals: float | None) -> r.GenerationBatch:
    completions = tuple(
        r.Completion(i, "x", (total,), total, advantage, 3, False)
        for i, (total, advantage) in enumerate(zip(totals, advantages(totals, 1e-4), strict=True))
    )
    groups = (r.Group(0, "p", {}, completions),)
    return r.GenerationBatch(1, step, 0, "train", step, step, 1000.0 + step, groups)


def test_flat_groups_are_told_apart_by_the_totals_of_the_run(tmp_path: Path) -> None:
    writer = Writer(open_writer(tmp_path / "run.db"))
    batches = [
        group(1, 0.0, 0.0),
        group(2, 3.0, 3.0),
        group(3, 0.0, 3.0),
        group(4, 1.5, 1.5),
        group(5, None, math.nan),
        group(6, 3.0, None),
    ]
    writer.write(batches)
    reader = RunReader(tmp_path / "run.db")
    assert total_range(reader) == (0.0, 3.0)
    steps = step_stats(reader)
    assert [s.flat for s in steps] == [1, 1, 0, 1, 1, 1]
    assert [s.top for s in steps] == [0, 1, 0, 0, 0, 1]
    assert [s.bottom for s in steps] == [1, 0, 0, 0, 0, 0]
    assert [s.spread for s in steps] == [0, 0, pytest.approx(math.sqrt(4.5)), 0, None, 0]
    (whole,) = series_window(reader, "grpo_tui/flat_share", buckets=1)
    assert (whole.mean, whole.first, whole.last) == (pytest.approx(5 / 6), 1, 6)
    assert (whole.first_at, whole.last_at, whole.count, whole.known) == (1001.0, 1006.0, 6, 6)
    spread = series_window(reader, "grpo_tui/spread", 2, 5, buckets=4)
    assert [(b.first, b.mean) for b in spread[:3]] == [(2, 0.0), (3, pytest.approx(math.sqrt(4.5))), (4, 0.0)]
    assert (spread[3].mean, spread[3].missing) == (None, 1)
    assert series_window(reader, "grpo_tui/spread", 5, 2) == []
    (stretch,) = step_buckets(reader, 100)["grpo_tui/flat_top"]
    assert (stretch.mean, stretch.count) == (pytest.approx(2 / 6), 6)


def test_the_range_of_totals_reaches_to_the_ends_of_mixed_groups(tmp_path: Path) -> None:
    writer = Writer(open_writer(tmp_path / "run.db"))
    writer.write([group(1, 1.0, 1.0), group(2, 3.0, 0.0, None, 2.0)])
    reader = RunReader(tmp_path / "run.db")
    assert total_range(reader) == (0.0, 3.0)
    ((_, count, low, high, _),) = prompt_ranges(reader)
    assert (count, low, high) == (2, 0.0, 3.0)


def test_while_all_totals_are_one_no_end_is_claimed(tmp_path: Path) -> None:
    writer = Writer(open_writer(tmp_path / "run.db"))
    writer.write([group(1, 0.0, 0.0), group(2, 0.0, 0.0)])
    reader = RunReader(tmp_path / "run.db")
    assert total_range(reader) is None
    assert [s.flat for s in step_stats(reader)] == [1, 1]
    assert [s.top for s in step_stats(reader)] == [None, None]


@pytest.mark.parametrize("after", ["ROLLBACK", "ABORT"])
def test_summaries_that_cannot_be_written_leave_nothing_and_say_why(
    after: str, folder: Path, tmp_path: Path
) -> None:
    """SQLite itself ends the transaction on some errors, such as a full disk."""
    copy = tmp_path / "run.db"
    copy.write_bytes((folder / "run.db").read_bytes())
    with closing(sqlite3.connect(copy, isolation_level=None)) as db:
        db.execute("DELETE FROM metric_span")
        db.execute(
            "CREATE TRIGGER full BEFORE INSERT ON metric_span WHEN NEW.block = 1"
            f" BEGIN SELECT RAISE({after}, 'the disk is full'); END"
        )
        with pytest.raises(sqlite3.IntegrityError, match="the disk is full"):
            prepare_spans(db)
        assert not db.in_transaction
        assert db.execute("SELECT count(*) FROM metric_span").fetchone() == (0,)
