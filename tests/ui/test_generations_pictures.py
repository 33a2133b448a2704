"""The pane Generations as pictures, at the two sizes that matter, on a run that stands still."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.widgets import Input

from tests.ui.conftest import app_on, opened, shown, until
from tests.ui.recorded_run import recorded

SIZES = [(80, 24), (120, 40)]
Compare = Callable[..., bool]
FOUND = 'rewards.correctness==0 and completion has "<think>"'


async def _found(pilot: Any) -> None:
    await opened(pilot)
    await pilot.press("5")
    await until(pilot, lambda: pilot.app.screen.card is not None)
    await pilot.press("slash")
    pilot.app.screen.query_one(Input).value = FOUND
    await pilot.press("enter")
    await until(pilot, lambda: pilot.app.screen.found.line == FOUND and "●" in shown(pilot.app))


async def _compared(pilot: Any) -> None:
    await _found(pilot)
    await pilot.press("enter", "d")
    await until(pilot, lambda: "{+" in shown(pilot.app))


async def _over_time(pilot: Any) -> None:
    await _found(pilot)
    await until(pilot, lambda: len(pilot.app.screen.visits) > 0)
    await pilot.press("o")
    await until(pilot, lambda: "correctness, contribution" in shown(pilot.app))


@pytest.mark.parametrize("size", SIZES, ids=lambda size: "x".join(map(str, size)))
@pytest.mark.parametrize("state", [_compared, _over_time], ids=["compared", "over-time"])
def test_generations(snap_compare: Compare, state: Callable[[Any], Any], size: tuple[int, int]) -> None:
    run = recorded(Path("runs") / "demo-add", "finished")
    run.close()
    assert snap_compare(app_on(run.folder.root), terminal_size=size, run_before=state)
