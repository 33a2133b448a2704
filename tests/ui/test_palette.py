"""The palette of commands."""

from __future__ import annotations

from textual.command import CommandList

from grpo_tui.ui.palette import Palette
from tests.ui.conftest import app_on, opened, until
from tests.ui.recorded_run import RecordedRun


async def test_results_that_come_after_it_was_closed_do_no_harm(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        await pilot.press("ctrl+p")
        await until(pilot, lambda: isinstance(app.screen, Palette))
        palette = app.screen
        await until(pilot, lambda: bool(palette.query(CommandList)))
        await palette.query(CommandList).remove()
        palette._list_visible = not palette._list_visible  # as its search sets it
        await pilot.pause()
        assert app.screen is palette
