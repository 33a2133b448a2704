"""The palette of commands."""

from __future__ import annotations

from pathlib import Path

from textual.command import CommandList
from textual.events import Click

from grpo_tui.ui.palette import Names, Palette
from tests.ui.conftest import app_on, opened, until
from tests.ui.recorded_run import RecordedRun, recorded


async def test_results_that_come_after_it_was_closed_do_no_harm(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        await pilot.press("ctrl+p")
        await until(pilot, lambda: isinstance(app.screen, Palette))
        palette = app.screen
        await until(pilot, lambda: bool(palette.query(CommandList)))
        await palette.query(CommandList).remove()
        assert isinstance(palette, Palette)
        palette._list_visible = not palette._list_visible  # as its search sets it
        await pilot.pause()
        assert app.screen is palette


async def test_it_finds_names_by_how_their_words_begin_and_nothing_else(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        names = Names(app.screen)
        for typed, found in (("theme", ["Toggle light and dark theme"]), ("exported", []), ("", [])):
            assert [str(hit.match_display) async for hit in names.search(typed)] == found
        await pilot.press("ctrl+p")
        await until(pilot, lambda: isinstance(app.screen, Palette))
        await pilot.press(*"them")
        await until(
            pilot,
            lambda: (
                bool(app.screen.query(CommandList)) and app.screen.query_one(CommandList).option_count == 1
            ),
        )
        dark = app.theme
        await pilot.press("enter", "enter")
        await until(pilot, lambda: app.theme != dark)


async def test_a_paused_run_is_resumed_by_the_word_pause_too() -> None:
    run = recorded(Path("runs") / "demo-add", "paused")
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.view is not None and app.view.state == "paused")
        found = [str(hit.match_display) async for hit in Names(app.screen).search("pause")]
        assert "Resume the paused run" in found
    run.close()


async def test_a_pane_chosen_while_it_opens_is_shown_and_nothing_is_left_over(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(100, 30)) as pilot:
        await opened(pilot)
        app.push_screen(Palette())
        app.switch_mode("runs")
        await until(pilot, lambda: app.screen.is_mounted)
        assert app.current_mode == "runs"
        await pilot.press("4")
        await until(pilot, lambda: len(app.screen_stack) == 1)
        assert app.current_mode == "train"


async def test_clicked_away_twice_at_once_it_takes_nothing_else_along(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(100, 30)) as pilot:
        await opened(pilot)
        await pilot.press("ctrl+p")
        palette = app.screen
        palette.dismiss()
        palette.dismiss()
        await pilot.pause()
        assert len(app.screen_stack) == 1


async def test_a_click_where_a_resize_left_no_screen_does_no_harm(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(100, 30)) as pilot:
        await opened(pilot)
        await pilot.press("ctrl+p")
        palette = app.screen
        for x, y, left in ((150, 40, 2), (1, 28, 1)):
            palette.post_message(
                Click(palette, x, y, 0, 0, 1, shift=False, meta=False, ctrl=False, screen_x=x, screen_y=y)
            )
            await pilot.pause()
            assert len(app.screen_stack) == left


async def test_a_page_down_where_no_line_has_room_does_no_harm(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(100, 30)) as pilot:
        await opened(pilot)
        await pilot.press("ctrl+p")
        palette = app.screen
        await until(pilot, lambda: palette.query_one(CommandList).option_count > 0)
        await pilot.press("down", "down")
        await pilot.resize_terminal(1, 1)
        await pilot.press("pagedown", "pageup")
        assert app.screen is palette
