"""What the app does whatever pane is shown: leaving, the list behind an open run, workers that fail."""

from __future__ import annotations

import os
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import grpo_tui.ui.app
from grpo_tui.rewards.consent import Code
from grpo_tui.ui.app import GrpoApp
from grpo_tui.ui.messages import ConsentAsked
from grpo_tui.ui.poller import Poller
from grpo_tui.ui.runs_watch import RunsWatch
from grpo_tui.ui.screens.dialogs import MenuDialog
from grpo_tui.ui.widgets.bars import Header
from tests.ui.conftest import PATIENCE_S, app_on, opened, shown, until
from tests.ui.recorded_run import RecordedRun, recorded


def told(app: GrpoApp) -> list[str]:
    return [notice.message for notice in app._notifications]


async def test_ctrl_c_names_the_key_that_leaves_and_ctrl_q_leaves_like_it(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        await pilot.press("ctrl+c")
        await until(pilot, lambda: "Press q to leave. Training continues." in told(app))
        await pilot.press("ctrl+q")
    assert app.return_value == "training continues; `grpo-tui attach runs/demo-add`"


async def test_the_open_run_is_listed_wherever_it_lies(run: RecordedRun) -> None:
    recorded(Path("elsewhere") / "mine", "finished").close()
    recorded(Path("elsewhere") / "other", "finished").close()
    app = app_on(Path("elsewhere") / "mine")
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.rows_complete)
        assert sorted(row.name for row in app.rows) == ["demo-add", "mine"]


async def test_the_search_for_runs_waits_for_the_run_that_was_asked_for(
    run: RecordedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grpo_tui.ui.app, "LIST_AFTER_S", PATIENCE_S)
    read, searched, order = Poller._read, threading.Event(), list[str]()

    def slow(poller: Poller) -> bool:
        searched.wait(0.2)  # a search that does not wait would begin meanwhile
        order.append("read")
        return read(poller)

    def search(watch: RunsWatch) -> None:
        order.append("search")
        searched.set()

    monkeypatch.setattr(Poller, "_read", slow)
    monkeypatch.setattr(RunsWatch, "look", search)
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, searched.is_set)
        assert app.view is not None
        assert order[0] == "read"


async def test_the_priority_is_lowered_only_after_the_first_picture(
    run: RecordedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[object] = []
    paint = Header.render_line
    monkeypatch.setattr(Header, "render_line", lambda bar, y: (order.append("painted"), paint(bar, y))[1])
    monkeypatch.setattr(os, "nice", order.append)
    app = GrpoApp([Path("runs")], run.folder.root, niceness=7)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: 7 in order)
    assert order[0] == "painted"


async def test_a_worker_that_fails_is_named_with_its_reason(run: RecordedRun) -> None:
    def fail() -> Any:
        raise ValueError("no more\x1b[2J")

    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        app.run_worker(fail, thread=True, group="pages", exit_on_error=False)
        await until(pilot, lambda: bool(told(app)))
        assert told(app) == [r"pages ended: ValueError('no more\x1b[2J')"]


async def test_a_no_answers_the_questions_about_the_same_code_and_no_others(no_yes: None) -> None:
    codes = {name: Code(f"{name}.py", "it lies in a run of someone else", name) for name in "abcd"}
    again, otherwise = list[str](), list[str]()
    app = app_on(None)
    async with app.run_test(size=(100, 30)) as pilot:
        for name in ("ab", "a", "c", "d"):
            asked = tuple(codes[letter] for letter in name)
            app.post_message(
                ConsentAsked(asked, partial(again.append, name), partial(otherwise.append, name))
            )
        await until(pilot, lambda: "a.py" in shown(app) and "b.py" in shown(app))
        assert "c.py" not in shown(app)
        await pilot.press("n")
        await until(pilot, lambda: "c.py" in shown(app) or "d.py" in shown(app))
        assert [name for name in "abcd" if f"{name}.py" in shown(app)] == ["c"]
        assert (again, otherwise) == ([], ["ab", "a"])
        await pilot.press("y")
        await until(pilot, lambda: "d.py" in shown(app))
        await pilot.press("n")
        await until(pilot, lambda: not isinstance(app.screen, MenuDialog))
        assert (again, otherwise) == (["c"], ["ab", "a", "d"])


def test_folders_are_named_as_short_as_a_person_would() -> None:
    app = GrpoApp([Path("."), Path.home() / "runs", Path("/data"), Path(f"{Path.home()}s")])
    assert app.places == f"this folder, ~/runs, /data, {Path.home()}s"


@pytest.mark.parametrize("key", ["equals_sign", "question_mark", "ctrl+p", "x"])
async def test_ctrl_z_also_works_in_a_dialog(
    run: RecordedRun, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grpo_tui.ui.app.can_be_continued", lambda: False)
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        await pilot.press(key)
        await until(pilot, lambda: len(app.screen_stack) > 1)
        await pilot.press("ctrl+z")
        await until(pilot, lambda: any("Cannot suspend" in note.message for note in app._notifications))
