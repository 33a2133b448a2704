"""A run of many thousand rows opens from summaries, and says what reading every row would say."""

from __future__ import annotations

import random
from pathlib import Path
from statistics import fmean

import pytest

from grpo_tui.core import records as r
from grpo_tui.present.charts import chart_keys
from grpo_tui.present.run_state import ASKED_AGAIN, LATE, DeltaReader, RunState, StepLooks
from grpo_tui.present.series import FLAT, FLAT_TOP, MOST_BUCKETS, SPREAD, Series, StepFold, band_around
from grpo_tui.store.connection import open_writer
from grpo_tui.store.read_series import RAW_ROWS, SeriesStart, last_metric_row_id, series_start
from grpo_tui.store.reader import RunReader
from grpo_tui.store.status import Status
from grpo_tui.store.writer import Writer

STEPS = RAW_ROWS + 1_000


def row(step: int) -> r.MetricRow:
    noise = random.Random(step).gauss(0, 0.1)
    values = {"reward": step / STEPS + noise, "loss": noise, "num_tokens": 80.0 * step, "step_time": 0.5}
    return r.MetricRow(1, step, 1000.0 + step, values)


def groups(step: int, *batches: tuple[float, ...]) -> r.GenerationBatch:
    made = tuple(
        r.Group(
            index,
            "p",
            {},
            tuple(r.Completion(i, "", (t,), t, t - fmean(totals), 1, False) for i, t in enumerate(totals)),
        )
        for index, totals in enumerate(batches)
    )
    return r.GenerationBatch(1, step, 0, "train", step, step, 1000.0 + step, made)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("long") / "run.db"
    writer = Writer(open_writer(path))
    writer.write([r.AttemptStarted(1, 0.0, "here", 1, total_steps=STEPS)])
    records: list[r.Record] = []
    for step in range(1, STEPS + 1):
        records.append(row(step))
        if step % 2 == 0:
            records.append(groups(step, (0.0, 2.0), (2.0, 2.0) if step > STEPS / 2 else (0.0, 0.0)))
    writer.write(records)
    writer.close()
    return path


def looked(path: Path) -> tuple[RunState, int]:
    """The folded run, and how many looks it took."""
    state, deltas, looks = RunState("x", "/x"), DeltaReader(RunReader(path)), 0
    while True:
        delta = deltas.read()
        state.fold(delta)
        looks += 1
        if not delta.more:
            return state, looks


def test_the_first_look_at_a_long_run_shows_the_whole_of_it(database: Path) -> None:
    state = RunState("x", "/x")
    deltas = DeltaReader(RunReader(database))
    first = deltas.read()
    assert len(first.starts["reward"].points) < 300
    state.fold(first)
    view = state.view(Status("finished", step=STEPS), 0.0)
    reward = view.charts[0]
    assert (reward.key, reward.buckets[0].first, reward.buckets[-1].last) == ("reward", 1, STEPS)
    assert sum(bucket.count for bucket in reward.buckets) == STEPS
    assert len(reward.buckets) <= MOST_BUCKETS
    assert all(place is not None for place in reward.band)
    assert {"loss", "grpo_tui/tokens_per_second", SPREAD, FLAT} <= {chart.key for chart in view.charts}


def test_summaries_and_rows_agree_on_a_series(database: Path) -> None:
    state, _ = looked(database)
    every, told = Series(), {c.key: c for c in state.view(Status("finished", step=STEPS), 0.0).charts}
    for step in range(1, STEPS + 1):
        every.append(step, row(step).values["reward"], 1000.0 + step)
    from_summaries = told["reward"].buckets
    assert min(b.low or 0 for b in from_summaries) == min(b.low or 0 for b in every.buckets)
    assert max(b.high or 0 for b in from_summaries) == max(b.high or 0 for b in every.buckets)
    assert told["reward"].value == f"{every.last:.2f}"
    assert told["reward"].change == pytest.approx(every.change(20))
    assert (from_summaries[0].first_at, from_summaries[-1].last_at) == (1001.0, 1000.0 + STEPS)
    for bucket in from_summaries:
        assert bucket.mean == pytest.approx((bucket.first + bucket.last) / 2 / STEPS, abs=0.15)
    assert state._series["reward"].opening == pytest.approx(every.opening)


def test_new_rows_of_a_long_run_are_added_to_what_is_known(database: Path, tmp_path: Path) -> None:
    copy = tmp_path / "run.db"
    copy.write_bytes(database.read_bytes())
    state, deltas = RunState("x", "/x"), DeltaReader(RunReader(copy))
    while True:
        delta = deltas.read()
        state.fold(delta)
        if not delta.more:
            break
    writer = Writer(open_writer(copy))
    writer.write([row(STEPS + 1), r.MetricRow(1, STEPS + 2, 9_000.0, {"reward": 5.0, "new/key": 1.0})])
    writer.write([groups(STEPS + 2, (0.0, 2.0), (2.0, 2.0))])
    delta = deltas.read()
    assert {key for key, points in delta.points.items() if len(points) == 1} == {
        "loss", "num_tokens", "step_time", "grpo_tui/tokens_per_second", "new/key",
    }  # fmt: skip
    assert len(delta.points["reward"]) == 2
    assert delta.steps is not None
    assert len(delta.steps.stats) <= ASKED_AGAIN
    assert not delta.more
    state.fold(delta)
    view = state.view(Status("finished", step=STEPS + 2), 0.0)
    assert view.reward == 5.0
    assert (view.flat_share, view.flat_top, view.flat_bottom) == (0.5, 0.5, 0.0)
    assert sum(b.count for b in view.charts[0].buckets) == STEPS + 2
    assert "new/key" in {chart.key for chart in view.charts}


def test_groups_of_a_late_rank_are_counted_into_their_step(tmp_path: Path) -> None:
    writer = Writer(open_writer(tmp_path / "run.db"))
    writer.write([groups(step, (0.0, 2.0)) for step in range(1, 200)])
    reader, fold = RunReader(tmp_path / "run.db"), StepFold()
    looks = StepLooks(reader)

    def look(fresh: bool = False) -> dict[str, Series]:
        new = [g for g in reader.groups(limit=1000) if g.id > seen[0]]
        seen[0] = max(g.id for g in new)
        found = looks.look(new, fresh=fresh)
        assert found is not None
        if found.anew:
            fold.begin(found.past)
        fold.take(found.stats, found.settled)
        return fold.series()

    seen = [0]
    assert look(fresh=True)[FLAT].last == 0.0
    late = groups(199, (2.0, 2.0))
    writer.write([r.GenerationBatch(1, 199, 1, "train", 199, 199, 9.0, late.groups)])
    series = look()
    assert series[FLAT].last == 0.5
    assert series[FLAT].rows == 199
    settled = 199 - LATE
    assert max(b.last for b in fold._settled[FLAT].buckets) == settled


@pytest.mark.parametrize("last", [101, 120, 147, 148, 160])
def test_the_past_of_a_long_run_is_read_in_few_stretches_and_whole(
    last: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grpo_tui.present.run_state.LONG", 100)
    monkeypatch.setattr("grpo_tui.present.run_state.STRETCHES", 20)
    writer = Writer(open_writer(tmp_path / "run.db"))
    writer.write([groups(step, (0.0, 2.0)) for step in range(1, last + 1)])
    reader = RunReader(tmp_path / "run.db")
    found = StepLooks(reader).look(reader.groups(limit=1000), fresh=True)
    assert found is not None
    stretches = found.past[SPREAD]
    assert 10 < len(stretches) <= 21
    assert (stretches[0].first, stretches[-1].last) == (1, last - ASKED_AGAIN)
    assert [stat.step for stat in found.stats] == list(range(last - ASKED_AGAIN + 1, last + 1))


def test_a_total_never_seen_before_moves_the_ends_for_all_steps(tmp_path: Path) -> None:
    writer = Writer(open_writer(tmp_path / "run.db"))
    writer.write([groups(1, (0.0, 0.0)), groups(2, (1.0, 1.0))])
    reader, fold = RunReader(tmp_path / "run.db"), StepFold()
    looks = StepLooks(reader)
    found = looks.look(reader.groups(), fresh=True)
    assert found is not None
    fold.take(found.stats, found.settled)
    assert fold.series()[FLAT_TOP].last == 1.0
    writer.write([groups(3, (0.0, 2.0))])
    found = looks.look(reader.groups(after_id=2), fresh=False)
    assert found is not None
    assert found.anew
    fold.begin(found.past)
    fold.take(found.stats, found.settled)
    assert [b.mean for b in fold.series()[FLAT_TOP].buckets] == [0.0, 0.0, 0.0]
    assert looks.look([], fresh=False) is None


def test_a_copy_of_a_series_leaves_the_first_as_it_was() -> None:
    first = Series()
    for step in range(1, 30):
        first.append(step, float(step))
    before = first.buckets
    twin = first.copy()
    twin.append(30, 99.0)
    assert first.buckets == before
    assert (first.last, twin.last) == (29.0, 99.0)


def test_a_band_lies_around_the_mean_where_groups_are_known() -> None:
    reward, spread = Series(), Series()
    for step in range(1, 15):
        reward.append(step, 1.0)
        if step % 2 == 0 and step != 10:
            spread.append(step, 0.25)
    band = band_around(reward.buckets, spread.buckets)
    # A batch for two steps stands at the first of them; the groups of steps 10 and 11 were never recorded.
    assert [step for step, place in enumerate(band, 1) if place is None] == [1, 10, 11]
    assert set(band) == {None, (0.75, 1.25)}
    assert band_around(reward.buckets, ()) == ()


def test_metrics_that_are_computed_here_stand_among_the_charts() -> None:
    keys = ["own", "eval_reward", "frac_reward_zero_std", "reward", FLAT, "rewards/x/mean", FLAT_TOP]
    assert chart_keys(keys) == [
        "reward", FLAT, "frac_reward_zero_std", FLAT_TOP, "rewards/x/mean", "own", "eval_reward",
    ]  # fmt: skip


def test_a_row_that_comes_in_the_middle_of_a_look_is_counted_once(
    database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "run.db"
    copy.write_bytes(database.read_bytes())
    writer, steps = Writer(open_writer(copy)), iter(range(STEPS + 1, STEPS + 1000))
    own = {f"own/{number}": 1.0 for number in range(20)}

    def log() -> None:
        writer.write([r.MetricRow(1, next(steps), 0.0, {"reward": 1.0, **own})])

    def busy(reader: RunReader, key: str) -> SeriesStart:
        """A run that logs a row whenever a metric was read whole."""
        found = series_start(reader, key)
        log()
        return found

    monkeypatch.setattr("grpo_tui.present.run_state.series_start", busy)
    log()
    reader = RunReader(copy)
    state, deltas = RunState("x", "/x"), DeltaReader(reader)
    while True:
        delta = deltas.read()
        state.fold(delta)
        if not delta.more:
            break
    state.fold(deltas.read())  # the poller looks again, for the file has changed meanwhile
    logged = last_metric_row_id(reader) - STEPS
    assert logged > 20
    charts = {chart.key: chart for chart in state.view(Status("finished", step=STEPS), 0.0).charts}
    assert {sum(b.count for b in charts[key].buckets) for key in own} == {logged}
    assert sum(b.count for b in charts["reward"].buckets) == STEPS + logged
