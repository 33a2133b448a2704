"""What a run's evaluations come to in words, in charts, in the list of checkpoints and in Results."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from grpo_tui.core import records as r
from grpo_tui.core.evaluations import FACT
from grpo_tui.present.big_chart import Window, value_words
from grpo_tui.present.charts import chart_keys, health_spans
from grpo_tui.present.checkpoint_list import lines, list_checkpoints
from grpo_tui.present.evaluation_text import verdict
from grpo_tui.present.plot import Frame, _joined, _strokes
from grpo_tui.present.results_view import fingerprint, read_results
from grpo_tui.present.series import Series
from grpo_tui.present.train_view import ChartView
from grpo_tui.present.window_load import RunSource, load_window
from grpo_tui.store.status import Status, read_status
from tests.core.test_evaluations import rising, series
from tests.present.test_run_state import Watcher
from tests.ship.folders import checkpoint
from tests.ui.recorded_run import RecordedRun

BETTER = [value + 0.2523 + 0.01 * (place % 2) for place, value in enumerate(rising(0.0))]  # type: ignore[operator]


@pytest.mark.parametrize(
    ("later", "word", "said"),
    [
        (
            BETTER,
            "better",
            "better than before training: pass@1 +0.257 (95 %: +0.256 to +0.259) on 40 prompts at step 10",
        ),
        ([-value for value in BETTER], "worse", "worse than before training: pass@1 -0.452"),
        (
            [0.1 * (place % 3) + (-1) ** place * 0.2 for place in range(40)],
            "not shown",
            "no gain shown since training began: pass@1 +0.000 (95 %: -0.065 to +0.065) on 40 prompts",
        ),
        (
            [value + 0.5 for value in rising(0.0)],  # type: ignore[operator]
            "not shown",
            "no gain shown since training began: the difference is the same on every prompt. pass@1 +0.500",
        ),
        ([None] * 40, "not shown", "not shown: no prompt was scored both before training and at step 10"),
    ],
)  # fmt: skip
def test_the_sentence_says_how_the_newest_compares_with_the_first(
    later: list[float | None], word: str, said: str
) -> None:
    found = verdict(series(rising(0.0), later))
    assert found[0] == word
    assert found[1].startswith(said)


def test_few_prompts_and_a_later_start_are_said() -> None:
    few = series([0.1, 0.2, 0.4], [0.5, 0.7, 0.8], first_step=20)
    assert verdict(few)[1].startswith(
        "no gain shown since step 20: at least 30 prompts are needed. pass@1 +0.433"
    )
    assert verdict(series(rising(0.0))) == ("", "evaluated before training: pass@1 0.098 on 40 prompts")
    some = series([0.2, None, 0.4], [None, 0.7, 0.8], first_step=5)
    assert verdict(replace(some, done=some.done[:1]))[1] == "evaluated at step 5: pass@1 0.300 on 2 prompts"
    assert verdict(some)[1].endswith("pass@1 +0.400 on 1 prompt at step 15")


def test_the_line_of_train_says_it_after_the_reward() -> None:
    found = series(rising(0.0), BETTER)
    spans = health_spans(Status("finished"), "/run", Series(), kl_logged=True, beta=0.0, evaluations=found)
    assert spans[-2:] == (
        ("Better than before training: pass@1 +0.257", "good"),
        (" (95 %: +0.256 to +0.259) on 40 prompts at step 10. ", "dim"),
    )
    first = series(rising(0.0))
    assert not [text for text, _ in health_spans(
        Status("finished"), "/run", Series(), kl_logged=True, beta=0.0, evaluations=first
    ) if "before training" in text]  # fmt: skip


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RecordedRun]:
    """A run of 21 steps, evaluated at steps 0, 10 and 20, with a checkpoint at each but the first."""
    made = RecordedRun(tmp_path / "run")
    worse = [value - 0.05 for value in BETTER]
    found = series(rising(0.0), BETTER, worse)  # type: ignore[arg-type]
    for step in range(21):
        if step:
            made.advance(1)
        if step % 10 == 0:
            value = found.done[step // 10].value or 0.0
            row = {"evaluate/pass@1": value, "evaluate/without_gain": step // 20}
            if step:
                ends = {"gain": -0.1, "gain_low": -0.2, "gain_high": 0.1}
                row |= {f"evaluate/pass@1/{end}": value + by for end, by in ends.items()}
                checkpoint(made.folder.root, step)
            made.write(r.MetricRow(1, step, time.time(), row))
    made.write(r.Fact(FACT, found.to_json()))
    yield made
    made.close()


def test_the_measure_is_charted_beside_the_reward_with_the_interval_of_its_gain(run: RecordedRun) -> None:
    view = Watcher(run.folder.root).look()
    names = [chart.key for chart in view.charts]
    assert names[:2] == ["reward", "evaluate/pass@1"]
    assert not [name for name in names if "gain" in name]
    chart = view.charts[1]
    assert len(chart.buckets) == len(chart.band) == 3
    assert chart.band[0] is None
    for bucket, band in zip(chart.buckets[1:], chart.band[1:], strict=True):
        assert band == pytest.approx((bucket.mean - 0.1, bucket.mean + 0.2))
    assert [bucket.smooth for bucket in chart.buckets] == [bucket.mean for bucket in chart.buckets]
    assert chart.note == "band: 95 % interval of the gain over the first evaluation"


def test_without_evaluations_no_chart_moves() -> None:
    assert chart_keys(["kl", "reward", "x/gain"]) == ["reward", "kl", "x/gain"]


def test_the_total_is_charted_beside_the_reward_when_nothing_says_what_is_right() -> None:
    assert chart_keys(["kl", "evaluate/total", "reward"]) == ["reward", "evaluate/total", "kl"]
    both = chart_keys(["kl", "evaluate/total", "evaluate/pass@1", "reward"])
    assert both == ["reward", "evaluate/pass@1", "kl", "evaluate/total"]


def test_the_list_of_checkpoints_has_the_evaluation_of_each_and_marks_the_best(run: RecordedRun) -> None:
    found = list_checkpoints(run.folder.root)
    assert [(one.step, one.best_evaluation) for one in found.checkpoints] == [(10, True), (20, False)]
    assert [one.evaluation for one in found.checkpoints] == pytest.approx([0.3548, 0.3048])
    head, first, second, *_ = lines(found)
    assert head.split() == ["step", "size", "reward", "pass@1"]
    assert "0.355" in first
    assert "best evaluation" in first
    assert "best evaluation" not in second
    assert found.to_json()["deciding"] == "pass@1"
    assert found.to_json()["checkpoints"][0]["best_evaluation"] is True


def test_results_show_the_newest_evaluation_and_are_read_again_when_there_is_another(
    run: RecordedRun,
) -> None:
    found = read_results(run.folder.root)
    assert found.evaluation is not None
    word, said = found.evaluation
    assert word == "better"
    assert said.endswith("on 40 prompts at step 20")
    assert found.models[1].marks.endswith("best evaluation, pass@1 0.355")
    before = fingerprint(run.folder.root)
    assert fingerprint(run.folder.root) == before
    run.write(r.Fact(FACT, series(rising(0.0), BETTER, BETTER, BETTER).to_json()))  # type: ignore[arg-type]
    assert fingerprint(run.folder.root) != before


def test_the_status_has_the_figures_of_the_newest_evaluation(run: RecordedRun) -> None:
    metrics = read_status(run.folder.root).metrics
    assert metrics["evaluate/without_gain"] == 1
    assert metrics["evaluate/pass@1"] == pytest.approx(0.3048)
    assert "reward" in metrics


def test_the_line_is_broken_where_a_new_series_begins(run: RecordedRun) -> None:
    chart = Watcher(run.folder.root).look().charts[1]
    steps = {bucket.first: bucket for bucket in chart.buckets}
    assert list(steps) == [0, 10, 20]

    def lines(chart: ChartView) -> list[tuple[int, int]]:
        *_, line = _strokes(chart, Frame(0, 40, 0, 20), 80)
        return [(stroke.left, stroke.right) for stroke in line]

    whole = lines(chart)
    assert len(whole) == 2
    again = replace(chart, band=(None, None, chart.band[2]))  # a new series begins at step 10
    assert lines(again) == [(whole[0][0], whole[0][0]), whole[1]], "step 0 stays as a point"


def test_the_large_chart_has_the_interval_as_its_band_and_the_same_break(run: RecordedRun) -> None:
    source = RunSource(run.folder.root)
    source.look()
    view = load_window([source], [("evaluate/pass@1", "")], Window(smoothing="off"), 80)
    assert view is not None
    (line,) = view.lines
    at = {bucket.first: bucket for bucket in line.buckets if bucket.mean is not None}
    assert at[0].spread is None
    assert at[10].spread == pytest.approx(0.1), "from the gain to the lower end of its interval"
    assert ("95 % ± 0.1000", "text") in value_words(at[10], view.key)
    assert [(a.first, b.first) for a, b in _joined(view, line)] == [(0, 10), (10, 20)]
    alone = tuple(replace(one, spread=None) if one.first == 10 else one for one in line.buckets)
    parted = replace(line, buckets=alone)
    assert [(a.first, b.first) for a, b in _joined(replace(view, lines=(parted,)), parted)] == [
        (0, 0),
        (10, 20),
    ]
