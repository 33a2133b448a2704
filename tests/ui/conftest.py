"""An app on a recorded run, and a way to wait for what its workers bring."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.css.stylesheet import Stylesheet

from grpo_tui.rewards.lab import Lab
from grpo_tui.store.layout import remember
from grpo_tui.ui.app import GrpoApp
from tests import PATIENCE_S
from tests.ui.recorded_run import NOW, RecordedRun, recorded


@pytest.fixture(autouse=True)
def plain_terminal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, utc: None) -> None:
    """Relative paths and one set of colours, whatever the machine."""
    monkeypatch.chdir(tmp_path)
    for name in ("NO_COLOR", "COLORFGBG", "LC_ALL", "LC_CTYPE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LANG", "C.UTF-8")


@pytest.fixture(scope="session", autouse=True)
def style_sheets_read_once() -> Iterator[None]:
    """The rules of each sheet are parsed once for apps of the same colours: a sixth of the time."""
    parse, known = Stylesheet._parse_rules, dict[Any, Any]()

    def remembered(sheet: Stylesheet, css: str, *args: Any, **words: Any) -> Any:
        key = (css, args, tuple(words.items()), tuple(sheet._variables.items()))
        if key not in known:
            known[key] = parse(sheet, css, *args, **words)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stylesheet, "_parse_rules", remembered)
        yield


@pytest.fixture(scope="session")
def warm_lab() -> Iterator[None]:
    """Torch is imported once: every lab of this process is forked from the first one's parent."""
    with Lab() as lab:
        lab.start()
        yield


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RecordedRun]:
    """A run that the user started and that trains, in `runs/demo-add`."""
    made = recorded(Path("runs") / "demo-add")
    remember(made.folder.root)
    yield made
    made.close()


def app_on(root: Path | None) -> GrpoApp:
    """The app as `grpo-tui attach` opens it, at a moment that stands still."""
    return GrpoApp([Path("runs")], root, clock=lambda: NOW)


async def until(pilot: Any, true: Callable[[], bool]) -> None:
    """Let the app work until something holds."""
    end = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < end, "it did not come about"
        await pilot.pause()
        await asyncio.sleep(0.02)
    await pilot.pause()


async def opened(pilot: Any) -> None:
    """Wait for a view of the open run that holds all that is recorded."""
    await until(pilot, lambda: pilot.app.view is not None and pilot.app.view.whole)


async def filled(pilot: Any) -> None:
    """Wait until what fills from a thread is complete, in every widget on top that says whether it is."""
    await until(pilot, lambda: all(getattr(w, "complete", True) for w in pilot.app.screen.query("*")))


def sent(run: RecordedRun) -> list[tuple[str, dict[str, Any]]]:
    """Every command in the mailbox, by time."""
    files = sorted(p for p in run.folder.commands.glob("*.json") if not p.name.endswith(".out.json"))
    bodies = [json.loads(path.read_text()) for path in files]
    return [(body["kind"], body["args"]) for body in bodies]


def shown(app: GrpoApp) -> str:
    """Everything on the screen, as text."""
    screen = app.screen
    return "\n".join(
        "".join(segment.text for segment in strip) for strip in screen._compositor.render_strips()
    )
