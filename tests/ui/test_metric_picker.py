"""Choosing a metric by what it is called or what it means."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grpo_tui.core import records as r
from grpo_tui.present.metric_rows import matching, metric_row
from grpo_tui.ui.preferences import PreferenceFile
from grpo_tui.ui.screens.chart import ChartScreen
from grpo_tui.ui.screens.metrics import MetricList, MetricPicker, MetricWords
from grpo_tui.ui.screens.reading import MeaningScreen
from grpo_tui.ui.screens.train import TrainScreen, chosen_charts
from grpo_tui.ui.widgets.chart import Chart
from tests.ui.conftest import app_on, shown, until
from tests.ui.recorded_run import HOSTILE, RecordedRun
from tests.ui.test_pictures import SIZES, ready

Compare = Callable[..., bool]


def keys(words: str) -> list[str]:
    rows = [
        metric_row(key) for key in ("reward", "reward_std", "kl", "loss", "completions/clipped_ratio", "mine")
    ]
    return [row.key for row in matching(rows, words)]


def test_words_are_looked_for_in_title_key_and_meaning_with_names_first() -> None:
    assert keys("reward")[:2] == ["reward", "reward_std"]
    assert keys("CLIPPED") == ["completions/clipped_ratio"]
    assert keys("truncated completions")[0] == "completions/clipped_ratio"
    assert keys("no such words") == []
    assert len(keys("")) == 6
    rows = [metric_row(key) for key in ("reward", "reward_std", "std_of_mine")]
    assert [row.key for row in matching(rows, "std")] == ["std_of_mine", "reward_std"], "it begins with it"
    assert "mine" in keys("callback")  # a key that nobody knows is found by who may have logged it


def test_a_chart_put_into_a_place_changes_places_with_where_it_was() -> None:
    assert chosen_charts(["a", "b", "c"], 1, "x", ()) == ("a", "x", "c")
    assert chosen_charts(["a", "b", "c"], 0, "c", ()) == ("c", "b", "a")
    assert chosen_charts(["a"], 0, "x", ("p", "x", "q")) == ("x", "p", "q")


async def test_a_metric_goes_into_the_focused_chart_and_is_remembered(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "step 57" in shown(app))
        app.screen.query_one("#chart-1", Chart).focus()
        await pilot.press("x")
        await until(pilot, lambda: isinstance(app.screen, MetricPicker) and "gradient norm" in shown(app))
        await pilot.press(*"gradient norm", "enter")
        await until(pilot, lambda: isinstance(app.screen, TrainScreen))
        assert app.screen.query_one("#chart-1", Chart).key == "grad_norm"
        assert app.screen.query_one("#chart-2", Chart).key == "entropy"
    assert PreferenceFile().read()[0].charts[:3] == ("reward", "grad_norm", "entropy")
    again = app_on(run.folder.root)
    async with again.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: again.screen.query_one("#chart-1", Chart).key == "grad_norm")


async def test_without_a_focused_chart_it_is_shown_over_the_whole_screen(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "step 57" in shown(app))
        await pilot.press("x", *"grad", "enter")
        await until(pilot, lambda: isinstance(app.screen, ChartScreen) and "grad_norm in TRL" in shown(app))
        await pilot.press("x", *"entropy", "enter")
        await until(pilot, lambda: "entropy in TRL" in shown(app))


async def test_what_has_no_chart_in_train_is_offered_with_its_value(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "step 57" in shown(app))
        await pilot.press("x", *"epoch")
        await until(pilot, lambda: "0.57" in shown(app))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, ChartScreen) and "epoch in TRL" in shown(app))


async def test_a_question_mark_tells_the_chosen_one(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "step 57" in shown(app))
        await pilot.press("x", *"learning rate", "question_mark")
        await until(pilot, lambda: isinstance(app.screen, MeaningScreen) and "learning_rate" in shown(app))
        await pilot.press("escape")
        assert isinstance(app.screen, MetricPicker)
        await pilot.press("escape")
        assert isinstance(app.screen, TrainScreen)


async def test_arrows_choose_another_row(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "step 57" in shown(app))
        await pilot.press("x", *"rewards/")
        await until(pilot, lambda: len(app.screen.query_one(MetricList).rows) == 3)
        await pilot.press("down", "down", "down", "up", "enter")
        await until(
            pilot,
            lambda: isinstance(app.screen, ChartScreen) and "rewards/format_reward/mean in" in shown(app),
        )


async def test_typing_chooses_the_best_match_and_no_words_what_was_chosen_at_first(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "step 57" in shown(app))
        app.screen.query_one("#chart-2", Chart).focus()
        key = app.screen.query_one("#chart-2", Chart).key
        await pilot.press("x")
        await until(pilot, lambda: app.screen.query_one(MetricWords).complete)
        picker = app.screen
        assert isinstance(picker, MetricPicker)
        assert picker._selected_key() == key
        await pilot.press(*"reward")
        await until(pilot, lambda: picker._selected_key() == "reward")
        await pilot.press("down", "down")
        chosen = picker._selected_key()
        assert chosen != "reward"
        await pilot.press("s")
        rows = picker.query_one(MetricList).rows
        await until(pilot, lambda: picker._selected_key() == matching(rows, "rewards")[0].key != chosen)
        await pilot.press(*["backspace"] * 7)
        await until(pilot, lambda: picker._selected_key() == key)


async def test_words_that_nothing_holds_say_so_and_enter_chooses_nothing(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "step 57" in shown(app))
        await pilot.press("x", *"zzzz")
        await until(pilot, lambda: "No metric matches." in shown(app))
        await pilot.press("enter")
        assert isinstance(app.screen, MetricPicker)


async def test_a_hostile_name_is_shown_and_can_be_chosen(run: RecordedRun) -> None:
    run.write(r.MetricRow(1, 58, run.at(58), {f"evil {HOSTILE}": 1.5, "reward": 2.0}))
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.view is not None and len(app.view.charts) > 10)
        await pilot.press("x", *"evil")
        await until(pilot, lambda: "1.50" in shown(app))
        assert "\x1b" not in shown(app)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, ChartScreen) and "at step 58" in shown(app))
        assert "[@click=app.quit]" in shown(app)
        assert "\x1b" not in shown(app)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: "x".join(map(str, size)))
def test_the_list_of_metrics(snap_compare: Compare, run: RecordedRun, size: tuple[int, int]) -> None:
    async def prepare(pilot: Any) -> None:
        await ready("step 57 ── “")(pilot)
        await pilot.press("x")
        await until(pilot, lambda: pilot.app.screen.query_one(MetricWords).complete)
        await pilot.press(*"rate")
        pilot.app.screen.query_one("Input").cursor_blink = False
        await pilot.pause()

    assert snap_compare(app_on(Path(run.folder.root)), terminal_size=size, run_before=prepare)
