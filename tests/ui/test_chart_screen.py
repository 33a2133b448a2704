"""One metric over the whole screen, by keys and mouse."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from grpo_tui.core import records as r
from grpo_tui.present.big_chart import AxisRange, BigChartView, ChartBucket, ChartLine, Window
from grpo_tui.present.glyphs import ascii_locale
from grpo_tui.ui.screens.chart import BigChart, ChartOptions, ChartScreen, WindowLoader, ZoomScreen
from grpo_tui.ui.screens.reading import HelpScreen, MeaningScreen
from grpo_tui.ui.screens.train import TrainScreen
from grpo_tui.ui.widgets.chart import Chart
from tests.ui.conftest import app_on, opened, shown, until
from tests.ui.recorded_run import RecordedRun, recorded
from tests.ui.test_pictures import SIZES, ready

Compare = Callable[..., bool]


async def enlarged(pilot: Any, word: str = "at step 57") -> ChartScreen:
    """The first chart of Train over the whole screen, read."""
    await until(pilot, lambda: "step 57" in shown(pilot.app))
    pilot.app.screen.query_one("#chart-0", Chart).focus()
    await pilot.press("enter")
    await until(pilot, lambda: word in shown(pilot.app))
    assert isinstance(pilot.app.screen, ChartScreen)
    return pilot.app.screen


async def test_enter_on_a_focused_chart_opens_it_and_esc_goes_back(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "step 57" in shown(app))
        app.screen.query_one("#chart-1", Chart).focus()
        await until(pilot, lambda: "▸ completion length, tokens" in shown(app))
        assert "enter enlarge" in shown(app).splitlines()[-1]
        await pilot.press("enter")
        await until(pilot, lambda: "completions/mean_length in TRL" in shown(app))
        await pilot.press("escape")
        assert isinstance(app.screen, TrainScreen)


async def test_a_click_on_a_title_opens_its_chart(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "step 57" in shown(app))
        await pilot.click("#chart-2", offset=(4, 0))
        await until(pilot, lambda: "entropy in TRL" in shown(app))


async def test_the_cursor_reads_step_time_and_values_and_what_happened_there(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await enlarged(pilot)
        await pilot.press("left")
        await until(pilot, lambda: " step 56 " in shown(app))
        reading = shown(app).splitlines()[-3]
        assert "after the start" in reading
        assert "value" in reading
        assert "smoothed" in reading
        assert "group std" in reading
        await pilot.press("shift+left")
        assert screen.options.cursor == 46.0
        await pilot.press(*["left"] * 6)
        await until(pilot, lambda: "◆ step 40  checkpoint-40 saved" in shown(app))
        await pilot.press("ctrl+right")
        await until(pilot, lambda: "▴ step 50  learning_rate 5e-4 → 2e-4" in shown(app))
        await pilot.press("g", *["right"] * 19)
        await until(pilot, lambda: "step 20" in shown(app) and "missing" in shown(app).splitlines()[-3])


async def test_zoom_goes_around_the_cursor_and_0_shows_all(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await enlarged(pilot)
        await pilot.press("shift+left", "shift+left", "plus", "plus")
        await until(pilot, lambda: "frozen, G follows" in shown(app))
        first, last = screen.options.window.span or (0.0, 0.0)
        assert first < 37.0 < last
        assert last - first < 20
        await pilot.press("h")
        assert (screen.options.window.span or (99.0,))[0] < first
        await pilot.press("0")
        await until(pilot, lambda: "steps 1 to 57" in shown(app))
        assert screen.options.window.following


async def test_the_chart_follows_the_run_and_stands_still_when_panned(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await enlarged(pilot)
        assert "following" in shown(app)
        run.advance(2)
        await until(pilot, lambda: "at step 59" in shown(app))
        await pilot.press("plus", "h", "h")
        await until(pilot, lambda: "frozen" in shown(app))
        span = screen.options.window.span
        run.advance(2)
        await until(pilot, lambda: "at step 61" in shown(app))
        assert screen.options.window.span == span
        await pilot.press("G")
        await until(pilot, lambda: "following" in shown(app))


async def test_only_what_changed_is_painted_when_a_step_comes(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await enlarged(pilot)
        chart = app.screen.query_one(BigChart)
        before = [list(line) for line in chart.lines(*chart.size)]
        run.advance(1)
        await until(pilot, lambda: "at step 58" in shown(app))
        after = [list(line) for line in chart.lines(*chart.size)]
        # Everything left of the new value stays, so that little is sent over a slow line.
        same = 0
        for old, new in zip(before[2:-4], after[2:-4], strict=True):
            a, b = ("".join(span.text for span in line) for line in (old, new))
            same += a[:80] == b[:80]
        assert same == len(before) - 6


async def test_steps_become_time_and_the_same_part_stays(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await enlarged(pilot)
        await pilot.press("shift+left", "plus", "t")
        await until(pilot, lambda: "t time" in shown(app))
        first, last = screen.options.window.span or (0.0, 0.0)
        assert first < (screen.options.cursor or 0.0) < last
        await until(pilot, lambda: "step 47" in shown(app))
        await pilot.press("t")
        assert screen.options.cursor == pytest.approx(47.0, abs=0.01)


async def test_smoothing_turns_and_says_how_much(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await enlarged(pilot)
        assert "moving average of 7 values" in shown(app)
        await pilot.press("f")
        await until(pilot, lambda: "moving average of 39 values" in shown(app))
        await pilot.press("f")
        await until(pilot, lambda: "not smoothed" in shown(app))


async def test_a_logarithmic_axis_is_refused_in_words_where_values_are_not_positive(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await enlarged(pilot)
        await pilot.press("o")
        await until(pilot, lambda: "o logarithmic" in shown(app))
        screen.show_metric("loss")
        await until(pilot, lambda: "linear: not all values are above 0" in shown(app))


async def test_training_and_evaluation_stand_together(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await enlarged(pilot)
        await pilot.press("d")
        await until(pilot, lambda: "No eval_reward is logged" in shown(app))
        for step in range(10, 60, 10):
            run.write(r.MetricRow(1, step, run.at(step), {"eval_reward": 1.5}))
        run.advance(1)
        await until(pilot, lambda: any(c.key == "eval_reward" for c in app.view.charts))
        await pilot.press("d")
        await until(pilot, lambda: "╍╍ eval 1.50" in shown(app))
        assert "━━ train" in shown(app)
        await pilot.press("d")
        await until(pilot, lambda: "reward in TRL" in shown(app))


def test_the_step_at_a_time_is_that_of_the_line_with_the_most_values() -> None:
    def line(name: str, *steps: tuple[int, float]) -> ChartLine:
        return ChartLine(
            "reward",
            name,
            tuple(ChartBucket(step, step, at, at, 0.0, 0.0, 0.0, 0.0, 1) for step, at in steps),
        )

    screen = ZoomScreen((), "reward")
    lines = line("eval", (1, 10.0), (2, 90.0)), line("train", (1, 10.0), (5, 20.0), (6, 90.0))
    screen._view = BigChartView("reward", lines, "time", 0.0, 90.0, AxisRange(0.0, 90.0, 90.0))
    for cursor, step in ((20.0, 5), (None, 6)):
        screen.options = ChartOptions("reward", Window(x="time"), cursor)
        assert screen.step_here() == step


def test_what_is_wrong_with_any_run_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grpo_tui.ui.screens.chart.load_window", lambda *_: None)
    sources: Any = [SimpleNamespace(trouble=trouble) for trouble in ("", "no rows", "no file")]
    taken: list[object] = []
    WindowLoader(sources, lambda *found: taken.append(found))._read(ChartOptions("reward"), 80)
    assert taken == [(None, "no rows")]


async def test_brackets_turn_to_other_metrics(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await enlarged(pilot)
        await pilot.press("right_square_bracket")
        await until(pilot, lambda: "completions/mean_length in TRL" in shown(app))
        await pilot.press("left_square_bracket")
        await until(pilot, lambda: "reward in TRL" in shown(app))


async def test_the_mouse_sets_the_cursor_and_zooms(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await enlarged(pilot)
        await pilot.click(BigChart, offset=(60, 15))
        first = screen.options.cursor
        assert first is not None
        assert 20 < first < 45
        await pilot._post_mouse_events(
            [__import__("textual.events").events.MouseScrollUp], BigChart, (60, 15)
        )
        await until(pilot, lambda: screen.options.window.span is not None)


async def test_a_question_mark_tells_the_metric_and_again_all_keys(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await enlarged(pilot)
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(app.screen, MeaningScreen) and "healthy" in shown(app))
        assert "TRL's key" in shown(app)
        assert "bias-corrected exponential moving average" in " ".join(shown(app).split())
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen))


async def test_a_question_mark_on_a_small_chart_is_about_it_and_elsewhere_general(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "step 57" in shown(app))
        app.screen.query_one("#chart-2", Chart).focus()
        await pilot.press("question_mark")
        assert isinstance(app.screen, MeaningScreen)
        await pilot.press("escape")
        app.screen.set_focus(None)
        await pilot.press("question_mark")
        assert isinstance(app.screen, HelpScreen)


async def test_the_palette_has_what_the_keys_do(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await enlarged(pilot)
        await pilot.press("ctrl+p", *"zoom")
        await until(pilot, lambda: "Zoom in around the cursor" in shown(app))
        await pilot.press("enter")
        await until(pilot, lambda: screen.options.window.span is not None)


async def test_the_number_of_the_pane_leaves_the_chart(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await enlarged(pilot)
        await pilot.press("1", "4")
        assert isinstance(app.screen, ChartScreen)  # it waits where it was left
        await pilot.press("4")
        assert isinstance(app.screen, TrainScreen)


async def test_a_window_too_small_says_so(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await enlarged(pilot)
        await pilot.resize_terminal(22, 8)
        await until(pilot, lambda: "No room" in shown(app))
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: "at step 57" in shown(app))


async def test_another_run_leaves_the_chart_of_the_one_before(run: RecordedRun) -> None:
    other = recorded(Path("runs") / "another", "finished")
    other.close()
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await enlarged(pilot)
        app.open_run(other.folder.root)
        await until(pilot, lambda: isinstance(app.screen, TrainScreen))
        await until(pilot, lambda: app.view is not None and app.view.name == "another")


async def test_in_an_ascii_locale_the_chart_is_ascii(
    run: RecordedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    assert ascii_locale({"LC_ALL": "C"})
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await enlarged(pilot)
        await pilot.press("left")
        text = shown(app)
        assert text.isascii()
        assert "*****" in text


async def test_a_covered_pane_is_not_painted(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        train = app.screen
        await enlarged(pilot)
        assert app._background_screens == []
        assert not train.is_current
        run.advance(1)
        await until(pilot, lambda: "at step 58" in shown(app))
        await pilot.press("escape")
        await until(pilot, lambda: "step 58 / 120" in shown(app))


async def test_the_first_values_appear_by_themselves(tmp_path: Path) -> None:
    run = recorded(Path("runs") / "demo-add", "loading")
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        app.push_screen(ChartScreen(run.folder.root, "reward"))
        await until(pilot, lambda: "Nothing is logged yet." in shown(app))
        run.advance(2)
        await until(pilot, lambda: "at step 2" in shown(app))
    run.close()


@pytest.mark.parametrize("size", SIZES, ids=lambda size: "x".join(map(str, size)))
def test_the_chart_screen(snap_compare: Compare, run: RecordedRun, size: tuple[int, int]) -> None:
    async def prepare(pilot: Any) -> None:
        await ready("step 57 ── “")(pilot)
        pilot.app.screen.query_one("#chart-0", Chart).focus()
        await pilot.press("enter")
        await until(pilot, lambda: "at step 57" in shown(pilot.app))
        await pilot.press("shift+left", *["left"] * 7)
        await until(pilot, lambda: "checkpoint-40 saved" in shown(pilot.app))

    assert snap_compare(app_on(run.folder.root), terminal_size=size, run_before=prepare)


@pytest.mark.parametrize(
    ("by", "cursor", "point"), [(1, 30, 40), (-1, 10, 0), (1, 12, 30), (-1, 12, 10), (-1, None, 12)]
)
def test_beyond_the_window_the_cursor_goes_on_by_the_width_of_a_bucket(
    by: int, cursor: float | None, point: float
) -> None:
    points: list[float] = []
    view = SimpleNamespace(places=(10, 12, 30), first=10, bounds=SimpleNamespace(newest=90, first=0))
    screen: Any = SimpleNamespace(_view=view, options=SimpleNamespace(cursor=cursor), _point=points.append)
    ZoomScreen.action_move(screen, by)
    assert points == [point]
