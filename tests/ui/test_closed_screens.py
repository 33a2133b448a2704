"""What was closed is gone: a screen that is watched for hours must not gather what was opened over it."""

from __future__ import annotations

import asyncio
import gc
import time
import weakref
from pathlib import Path

from textual.strip import Strip
from textual.widget import Widget

from grpo_tui.ui.screens.chart import OverlayScreen
from tests import PATIENCE_S
from tests.ui.conftest import app_on, opened, until
from tests.ui.recorded_run import RecordedRun

KINDS = {
    "chart_open": "ChartScreen",
    "chart_pick": "MetricPicker",
    "hardware_open": "HardwareScreen",
    "run_set": "SetDialog",
    "run_sample": "SampleDialog",
    "run_stop": "StopDialog",
}
OF_THE_APP = {"app_help": "HelpScreen", "app_palette": "Palette"}


async def collected(remembered: weakref.ref[Widget]) -> bool:
    """Whether nothing holds it any more; a thread that read for it may need a moment to end."""
    end = time.monotonic() + PATIENCE_S
    while remembered() is not None and time.monotonic() < end:
        gc.collect()
        await asyncio.sleep(0.02)
    return remembered() is None


async def test_a_closed_screen_of_each_kind_is_garbage_while_no_view_comes(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        below = app.screen
        assert app._poller is not None
        app._poller.stop()  # a signal that is not published keeps its subscribers
        openers = {f"screen.{name}": kind for name, kind in KINDS.items()}
        openers |= {f"app.{name}": kind for name, kind in OF_THE_APP.items()} | {"": "OverlayScreen"}
        closed: list[tuple[str, weakref.ref[Widget]]] = []
        for action, kind in [*openers.items()] * 2:
            if action:
                await app.run_action(action)
            else:
                await app.push_screen(OverlayScreen((run.folder.root, Path("runs") / "other")))
            await until(pilot, lambda: app.screen is not below)
            assert type(app.screen).__name__ == kind
            closed.append((kind, weakref.ref(app.screen)))
            await pilot.press("escape")
            await until(pilot, lambda: app.screen is below)
        # The thread of a reader may hold the last one of a kind until another takes its place.
        for kind, remembered in closed[: len(openers)]:
            assert await collected(remembered), f"a {kind} is still held"


async def test_no_painted_line_of_a_closed_screen_is_kept(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        below = app.screen
        await pilot.press("question_mark")
        await until(pilot, lambda: app.screen is not below)
        caches = [part._styles_cache for part in app.screen.walk_children(with_self=True)]
        assert any(isinstance(strip, Strip) for cache in caches for strip in cache._cache.values())
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is below)
        await until(pilot, lambda: not any(cache._cache for cache in caches))
