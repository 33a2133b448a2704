"""Whole collections of garbage wait for a quiet moment, but not for ever."""

from __future__ import annotations

import gc
from types import SimpleNamespace

import pytest

from grpo_tui.ui import textual_private
from grpo_tui.ui.textual_private import APART_S, LONGEST_S, QUIET_S, YOUNG
from tests.ui.conftest import app_on, opened
from tests.ui.recorded_run import RecordedRun


@pytest.mark.parametrize(
    ("since_last_s", "since_key_s", "young", "collects"),
    [
        (APART_S + 1, QUIET_S + 0.1, YOUNG + 1, True),
        (APART_S + 1, QUIET_S - 0.1, YOUNG + 1, False),
        (APART_S - 1, QUIET_S + 0.1, YOUNG + 1, False),
        (APART_S + 1, QUIET_S + 0.1, YOUNG, False),
        (LONGEST_S + 1, 0.0, YOUNG + 1, True),
    ],
)
async def test_when_garbage_is_looked_for(
    since_last_s: float,
    since_key_s: float,
    young: int,
    collects: bool,
    run: RecordedRun,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        now, collected = 1000.0, []
        clock = SimpleNamespace(monotonic=lambda: now)
        counted = SimpleNamespace(get_count=lambda: (0, 0, young), collect=lambda: collected.append(now))
        monkeypatch.setattr(textual_private, "time", clock)
        monkeypatch.setattr(textual_private, "gc", counted)
        app._collected_at = now - since_last_s
        now -= since_key_s
        await pilot.press("space")
        now += since_key_s
        assert app.collect_when_quiet() is collects
        assert len(collected) == collects
        assert app.collect_when_quiet() is False


def test_python_still_collects_what_is_young() -> None:
    before = gc.get_threshold()
    try:
        textual_private.leave_whole_collections_to_the_app()
        assert gc.get_threshold()[:2] == before[:2]
        assert gc.get_threshold()[2] > 1_000_000
        assert gc.isenabled()
    finally:
        gc.set_threshold(*before)
