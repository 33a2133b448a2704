"""Both panes as pictures, at the two sizes that matter, at a moment that stands still."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.ui.conftest import app_on, filled, shown, until
from tests.ui.recorded_run import NOW, RecordedRun, recorded

SIZES = [(80, 24), (120, 40)]
Compare = Callable[..., bool]


def ready(word: str, *keys: str) -> Callable[[Any], Awaitable[None]]:
    """Wait until a word is on the screen, then press keys."""

    async def prepare(pilot: Any) -> None:
        app = pilot.app
        await until(pilot, lambda: word in shown(app) and (app.view is None or app.view.whole))
        for key in keys:
            await pilot.press(key)
        await filled(pilot)
        app.screen.set_focus(None)
        await pilot.pause()

    return prepare


def aged(run: RecordedRun, at: float) -> None:
    """Close a run and date its files, for its last sign of life to stand still."""
    run.close()
    for path in run.folder.root.iterdir():
        os.utime(path, (at, at))


@pytest.mark.parametrize("size", SIZES, ids=lambda size: "x".join(map(str, size)))
@pytest.mark.parametrize(
    ("kind", "word"),
    [
        ("training", "step 57 ── “"),
        ("paused", "memory stays allocated"),
        ("failed", "ended ── failed"),
        ("evaluated", "pass@1"),
        ("loading", "Appears with the first step"),
    ],
    ids=lambda word: word if word.isalpha() else "",
)
def test_the_train_pane(snap_compare: Compare, kind: str, word: str, size: tuple[int, int]) -> None:
    run = recorded(Path("runs") / "demo-add", kind)
    run.close()
    assert snap_compare(app_on(run.folder.root), terminal_size=size, run_before=ready(word))


@pytest.mark.parametrize("size", SIZES, ids=lambda size: "x".join(map(str, size)))
def test_the_runs_pane(snap_compare: Compare, size: tuple[int, int]) -> None:
    for number, kind in enumerate(("finished", "failed", "training", "paused", "loading")):
        run = recorded(Path("runs") / f"gsm8k-{kind}", kind)
        aged(run, NOW - 40 * number - 5)
    assert snap_compare(app_on(None), terminal_size=size, run_before=ready("5 runs"))


@pytest.mark.parametrize("size", SIZES, ids=lambda size: "x".join(map(str, size)))
def test_no_runs_at_all(snap_compare: Compare, size: tuple[int, int]) -> None:
    assert snap_compare(app_on(None), terminal_size=size, run_before=ready("grpo-tui demo"))


@pytest.mark.parametrize("key", ["question_mark", "equals_sign", "m", "S"])
def test_what_opens_over_the_pane(snap_compare: Compare, run: RecordedRun, key: str) -> None:
    app = app_on(run.folder.root)
    assert snap_compare(app, terminal_size=(80, 24), run_before=ready("step 57 ── “", key))


async def test_a_loading_run_takes_no_key_for_more_than_it_is(tmp_path: Path) -> None:
    run = recorded(Path("runs") / "demo-add", "loading")
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "Loading the model" in shown(app))
        await pilot.press("right_square_bracket")
        for key, word in (("space", "view held"), ("l", "The process has not printed anything yet")):
            for there in (True, False):
                await pilot.press(key)
                await until(pilot, lambda word=word, there=there: (word in shown(app)) == there)  # type: ignore[misc]
        assert "Loading the model" in shown(app)
    run.close()
