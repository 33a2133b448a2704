"""Screens over a pane are left once, however often they are asked to go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.screen import Screen

from grpo_tui.present.window_load import read_overlay
from grpo_tui.ui.screens.chart import ChartScreen, OverlayScreen
from grpo_tui.ui.screens.hardware import HardwareScreen
from grpo_tui.ui.screens.metrics import MetricList, MetricPicker
from grpo_tui.ui.screens.reading import HelpScreen, MeaningScreen, TextScreen
from tests.ui.conftest import app_on, opened, shown, until
from tests.ui.recorded_run import RecordedRun


async def test_a_screen_left_twice_takes_nothing_else_along(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    answers: list[object] = []
    async with app.run_test(size=(100, 30)) as pilot:
        await opened(pilot)
        under, over = TextScreen("text", "words"), MeaningScreen("reward")
        app.push_screen(under)
        app.push_screen(over, answers.append)
        await pilot.pause()
        over.dismiss()
        over.dismiss()
        await pilot.pause()
        assert app.screen is under
        assert answers == [None]


@pytest.mark.parametrize("prose", [True, False])
async def test_prose_is_broken_between_its_words_and_all_else_stays_as_it_is(
    run: RecordedRun, prose: bool
) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(100, 30)) as pilot:
        await opened(pilot)
        app.push_screen(TextScreen("text", "completion " * 30, prose=prose))
        await until(pilot, lambda: "completion" in shown(app))
        assert (shown(app).count("completion ") == 30) == prose


async def test_a_key_scrolls_a_text_by_one_line_at_once(
    run: RecordedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved: list[object] = []
    app = app_on(run.folder.root)
    async with app.run_test(size=(100, 30)) as pilot:
        await opened(pilot)
        screen = TextScreen("text", "\n".join(f"line {number}" for number in range(200)))
        app.push_screen(screen)
        await until(pilot, lambda: "line 3" in shown(app))
        monkeypatch.setattr(app.animator, "animate", lambda *what, **how: moved.append(what))
        for key, at in (("j", 1), ("j", 2), ("k", 1)):
            await pilot.press(key)
            await until(pilot, lambda at=at: bool(moved) or screen.body.scroll_y == at)  # type: ignore[misc]
        assert not moved


OPENED: dict[str, Callable[[Path], Screen[Any]]] = {
    "metrics": lambda run: MetricPicker([run], "reward"),
    "chart": lambda run: ChartScreen(run, "reward"),
    "overlay": lambda run: OverlayScreen((run, run)),
    "machine": lambda run: HardwareScreen(),
    "help": lambda run: HelpScreen(),
    "meaning": lambda run: MeaningScreen("reward"),
}


@pytest.mark.parametrize("name", OPENED)
async def test_a_screen_left_before_it_has_begun_ends_nothing(run: RecordedRun, name: str) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(100, 30)) as pilot:
        await opened(pilot)
        for turns in range(12):
            app.push_screen(OPENED[name](run.folder.root))
            for _ in range(turns):
                await asyncio.sleep(0)
            app.pop_screen()
            await pilot.pause()
            assert len(app.screen_stack) == 1


async def test_a_picker_asked_to_show_when_its_parts_are_gone_shows_nothing(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(100, 30)) as pilot:
        await opened(pilot)
        picker = MetricPicker([run.folder.root], "reward")
        await app.push_screen(picker)
        await picker.query_one(MetricList).remove()
        picker.call_after_refresh(picker.on_resize)
        picker.call_after_refresh(picker._end_reading)
        await pilot.pause()
        assert app.screen is picker


async def test_a_chart_asked_to_show_when_its_parts_are_gone_shows_nothing(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(100, 30)) as pilot:
        await opened(pilot)
        overlay = OverlayScreen((run.folder.root, run.folder.root))
        await app.push_screen(overlay)
        await overlay.query("BigChart, SettingsTable").remove()
        overlay.call_after_refresh(overlay._ask)
        overlay.call_after_refresh(overlay._take, read_overlay((run.folder.root,)))
        overlay.call_after_refresh(overlay._loaded, None, "")
        await pilot.pause()
        assert app.screen is overlay


async def test_the_program_left_while_a_screen_begins_leaves_in_peace(run: RecordedRun) -> None:
    for turns in range(4):
        app = app_on(run.folder.root)
        async with app.run_test(size=(100, 30)) as pilot:
            await opened(pilot)
            app.push_screen(MetricPicker([run.folder.root], "reward"))
            for _ in range(turns):
                await asyncio.sleep(0)
            app.exit("farewell")
        assert (app.return_code or 0, app.return_value) == (0, "farewell")


def test_a_selection_is_forgotten_before_there_is_a_screen() -> None:
    app_on(None).clear_selection()
