"""A file of a run is read by one thread at a time: two on one connection end the whole process."""

from __future__ import annotations

from grpo_tui.ui.screens.chart import ChartScreen, OverlayScreen
from tests.ui.conftest import app_on, opened, until
from tests.ui.recorded_run import RecordedRun


async def test_a_chart_and_an_overlay_read_in_one_thread_each(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        for screen in (ChartScreen(run.folder.root, "reward"), OverlayScreen((run.folder.root,))):
            app.push_screen(screen)
            await until(pilot, lambda screen=screen: screen.is_mounted and app.screen is screen)  # type: ignore[misc]
            await until(pilot, lambda: any(w.group == "chart" and w.is_running for w in app.workers))
            assert [w.group for w in app.workers if w.is_running].count("chart") == 1
            app.pop_screen()
            await until(pilot, lambda: not any(w.group == "chart" and w.is_running for w in app.workers))
