"""What a full-screen chart reads from run.db."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from grpo_tui.core import records as r
from grpo_tui.present.big_chart import BigChartView, Window, zoomed
from grpo_tui.present.window_load import RunSource, load_window, read_overlay, settings_of
from tests.ui.recorded_run import RecordedRun, recorded


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RecordedRun]:
    made = recorded(tmp_path / "demo-add")
    yield made
    made.close()


def load(
    run: RecordedRun, key: str = "reward", window: Window | None = None, columns: int = 200
) -> BigChartView:
    source = RunSource(run.folder.root)
    source.look()
    view = load_window([source], [(key, "")], window or Window(), columns)
    source.close()
    assert view is not None
    return view


def test_a_short_run_comes_value_by_value_with_gaps_and_the_spread_of_its_groups(run: RecordedRun) -> None:
    (line,) = load(run).lines
    assert [(s.first, s.last) for s in line.buckets] == [(step, step) for step in range(1, 58)]
    assert [s.first for s in line.buckets if s.mean is None] == [20, 21, 22]
    assert all(s.missing == 1 for s in line.buckets if s.mean is None)
    assert all(s.spread is not None and s.spread > 0 for s in line.buckets)
    assert line.newest_step == 57
    assert line.newest == line.buckets[-1].mean


def test_few_columns_gather_values_and_keep_their_extremes(run: RecordedRun) -> None:
    (fine,), (coarse,) = load(run, "grad_norm").lines, load(run, "grad_norm", columns=10).lines
    assert len(coarse.buckets) <= 10
    assert sum(s.count for s in coarse.buckets) == sum(s.count for s in fine.buckets)
    for gathered in coarse.buckets:
        inside = [
            s for s in fine.buckets if gathered.first <= s.first <= gathered.last and s.mean is not None
        ]
        assert gathered.low == min(s.low for s in inside if s.low is not None)
        assert gathered.high == max(s.high for s in inside if s.high is not None)


def test_stretches_keep_their_edges_while_the_run_goes_on(run: RecordedRun) -> None:
    before = load(run, "grad_norm", columns=20).lines[0].buckets
    run.advance(3)
    after = load(run, "grad_norm", columns=20).lines[0].buckets
    assert [(s.first, s.last) for s in after[: len(before) - 1]] == [(s.first, s.last) for s in before[:-1]]


def test_the_smoothed_value_is_the_same_however_far_one_zooms(run: RecordedRun) -> None:
    whole = load(run, "grad_norm")
    narrow = load(run, "grad_norm", zoomed(Window(), whole.bounds, 0.3, 40.0))
    assert narrow.first > 20
    at = {s.first: s.smooth for s in whole.lines[0].buckets}
    for bucket in narrow.lines[0].buckets:
        assert bucket.smooth == pytest.approx(at[bucket.first], rel=0.01)


def test_marks_are_checkpoints_settings_and_resumes(run: RecordedRun) -> None:
    at = run.at(57) + 3600
    run.write(r.AttemptStarted(2, at, "here", run.pid, resumed_from=40, total_steps=120))
    run.write(r.AttemptStarted(3, at, "here", run.pid, total_steps=120))  # from the beginning: no resume
    run.write(r.CheckpointSaved(1, 45, "checkpoint-45", run.at(45), False, False))  # not whole: no mark
    found = {(h.kind, h.step): h for h in load(run).happenings}
    assert set(found) == {("checkpoint", 40), ("setting", 50), ("resume", 40)}
    assert found[("setting", 50)].text == "learning_rate 5e-4 → 2e-4"
    by_time = {h.kind: h for h in load(run, window=Window(x="time")).happenings}
    assert by_time["resume"].x == pytest.approx(at - run.began_at)


def test_steps_done_again_after_a_resume_are_shown_once(run: RecordedRun) -> None:
    run.write(
        r.AttemptStarted(2, run.at(60), "here", run.pid, resumed_from=40, total_steps=120),
        *[r.MetricRow(2, step, run.at(60 + step), {"reward": 9.0}) for step in range(41, 50)],
    )
    (line,) = load(run).lines
    assert [s.first for s in line.buckets] == list(range(1, 50))
    assert line.newest == 9.0


def test_time_runs_from_the_start_and_a_stretch_of_it_can_be_read(run: RecordedRun) -> None:
    whole = load(run, "grad_norm", Window(x="time"))
    known = whole.lines[0].buckets
    assert known[9].x == pytest.approx(run.at(10) - run.began_at)
    window = Window(x="time", span=(known[20].x, known[40].x), following=False)
    steps = [s.first for s in load(run, "grad_norm", window).lines[0].buckets]
    assert steps[0] <= 21
    assert steps[-1] >= 41
    assert len(steps) < 30


@pytest.mark.parametrize(("most", "is_long"), [(55, True), (56, False), (57, False)])
def test_a_run_is_long_from_many_steps_on(
    most: int, is_long: bool, run: RecordedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grpo_tui.present.window_load.MANY_STEPS", most)
    source = RunSource(run.folder.root)
    assert not source.long, "nothing is known of it yet"
    source.look()
    assert source.long is is_long
    source.close()


def test_what_is_computed_here_is_read_like_what_was_logged(run: RecordedRun) -> None:
    (line,) = load(run, "grpo_tui/spread").lines
    assert line.newest is not None
    assert len(line.buckets) == 57


def test_the_axis_goes_on_while_the_run_lives_and_ends_with_it(run: RecordedRun, tmp_path: Path) -> None:
    steps, seconds = load(run).bounds, load(run, window=Window(x="time")).bounds
    assert (steps.first, steps.newest) == (1, 57)
    assert 57 < steps.end <= 120
    assert seconds.newest == pytest.approx(run.at(57) - run.began_at, abs=0.01)
    assert seconds.end > seconds.newest
    ended = recorded(tmp_path / "ended", "failed")
    steps, seconds = load(ended).bounds, load(ended, window=Window(x="time")).bounds
    ended.close()
    assert (steps.newest, steps.end) == (57, 57)
    assert seconds.end == seconds.newest


def test_a_file_that_breaks_while_it_is_shown_is_said_once_and_read_again(tmp_path: Path) -> None:
    made = recorded(tmp_path / "demo-add")
    made.close()
    file = made.folder.database
    whole = file.read_bytes()
    source = RunSource(made.folder.root)
    assert source.look()
    source.close()
    file.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    assert source.look()
    assert "run.db" in source.trouble
    assert source.reader is None
    assert not source.look()
    file.write_bytes(whole)
    assert source.look(), "that it can be read again is news"
    assert source.trouble == ""
    source.close()


def test_a_value_of_the_wrong_kind_is_a_trouble_that_passes(
    run: RecordedRun,
) -> None:
    source = RunSource(run.folder.root)
    with contextlib.closing(sqlite3.connect(run.folder.database, isolation_level=None)) as db:
        db.execute("UPDATE metric_row SET step = 'x' WHERE step = 57")
        assert source.look()
        assert source.trouble.startswith("run.db cannot be read: ")
        assert source.reader is None
        db.execute("UPDATE metric_row SET step = 57 WHERE step = 'x'")
    assert source.look()
    assert (source.trouble, source.bounds and source.bounds.newest_step) == ("", 57)
    source.close()


def test_a_metric_that_was_never_logged_is_empty(run: RecordedRun) -> None:
    view = load(run, "no/such")
    assert not view.known
    assert view.lines[0].newest_step is None


def test_a_folder_without_a_run_says_so(tmp_path: Path) -> None:
    source = RunSource(tmp_path / "nothing")
    assert source.look()
    assert "no run.db" in source.trouble
    assert not source.look()  # the same trouble is no news
    assert load_window([source], [("reward", "")], Window(), 100) is None


def test_runs_are_compared_by_the_settings_in_which_they_differ(tmp_path: Path) -> None:
    folders = []
    for name, beta in (("a", 0.0), ("b", 0.04)):
        made = recorded(tmp_path / name, "finished")
        config = {"model": "/m", "grpo": {"beta": beta, "temperature": 0.9, "output_dir": name}}
        made.write(r.Fact("config", config))
        made.close()
        folders.append(made.folder.root)
    facts = read_overlay([*folders, tmp_path / "gone"])
    assert [(row.name, row.values[:2]) for row in facts.settings if row.name == "beta"] == [
        ("beta", ("0", "0.04"))
    ]
    alone = read_overlay(folders)
    assert [row.name for row in alone.settings] == ["beta"]
    assert alone.same == 2
    assert alone.keys[0] == "reward"


def test_each_rule_in_force_is_a_setting_of_its_own() -> None:
    rules = [{"when": "error", "do": "pause"}, {"when": "12 GPU hours", "do": "stop"}]
    found = settings_of({"grpo": {"beta": 0.1, "bf16": True}, "section": {"on": rules, "gpus": None}})
    assert found[:4] == (
        ("beta", "0.1"),
        ("rule 1", "pause on error"),
        ("rule 2", "stop on 12 GPU hours"),
        ("bf16", "True"),
    )
    rewards = [{"name": "a"}, {"name": "b", "weight": 0.5}]
    assert settings_of({"section": {"rewards": rewards}}) == (("rewards", "a × 1, b × 0.5"),)
    assert settings_of({"section": {"on": "x"}}) == settings_of({"section": {"on": [3]}})
