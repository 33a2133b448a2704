"""The pane Results as pictures, at a moment that stands still."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

import pytest

from grpo_tui.ui.screens.results import ResultsScreen
from tests.ship.folders import checkpoint
from tests.ui.conftest import app_on, opened, until
from tests.ui.kept_comparison import keep_comparison
from tests.ui.recorded_run import RecordedRun

SIZES = [(80, 24), (120, 40)]
Usage = namedtuple("Usage", "total used free")


@pytest.fixture(autouse=True)
def one_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """As much room on every machine."""
    disk = Usage(2 * 10**11, 10**11, 10**11)
    monkeypatch.setattr("grpo_tui.present.checkpoint_list.shutil.disk_usage", lambda path: disk)


def ready(*keys: str) -> Callable[[Any], Any]:
    async def prepare(pilot: Any) -> None:
        await opened(pilot)
        await pilot.press("6")
        await until(pilot, lambda: isinstance(pilot.app.screen, ResultsScreen) and pilot.app.screen.complete)
        for key in keys:
            await pilot.press(key)
        await pilot.pause()

    return prepare


@pytest.mark.parametrize("size", SIZES, ids=lambda size: "x".join(map(str, size)))
@pytest.mark.parametrize("keys", [(), ("enter",)], ids=["pane", "answers"])
def test_a_comparison(
    snap_compare: Callable[..., bool], run: RecordedRun, keys: tuple[str, ...], size: tuple[int, int]
) -> None:
    keep_comparison(run.folder.root)
    checkpoint(run.folder.root, 20, lora=True, base="base")  # a path would count in its size
    checkpoint(run.folder.root, 40)
    assert snap_compare(app_on(run.folder.root), terminal_size=size, run_before=ready(*keys))


def test_nothing_compared_yet(snap_compare: Callable[..., bool], run: RecordedRun) -> None:
    checkpoint(run.folder.root, 40)
    assert snap_compare(app_on(run.folder.root), terminal_size=(80, 24), run_before=ready())
