"""The pane Generations where `run.db` is gone or spoilt: it says what cannot be read, and reads it again."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from textual.widgets import Input

from grpo_tui.store.rollouts import Rollout
from grpo_tui.ui.screens.generations import GenerationsScreen
from grpo_tui.ui.screens.generations_dialogs import CourseScreen
from grpo_tui.ui.widgets.group_table import GroupTable
from tests.ui.conftest import app_on, opened, shown, until
from tests.ui.recorded_run import recorded

GONE = "✗ run.db no longer exists"


async def test_a_run_db_that_is_gone_is_said_and_read_again_when_it_is_back() -> None:
    run = recorded(Path("runs") / "demo-add")
    run.close()
    database = run.folder.database
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        await pilot.press("5")
        screen = app.screen
        assert isinstance(screen, GenerationsScreen)
        await until(pilot, lambda: screen.card is not None)
        away = database.rename(database.with_name("away"))
        await pilot.press("end")
        await until(pilot, lambda: GONE in shown(app).replace("❙", " "))
        # What was under the cursor before is not what stands there now.
        await until(pilot, lambda: screen.card is None)
        screen.query_one(Input).focus()
        screen.query_one(Input).value = "step<=2"
        await pilot.press("enter")
        await until(pilot, lambda: shown(app).splitlines()[1].rstrip().endswith(GONE))
        await pilot.press("o")
        await until(pilot, lambda: isinstance(app.screen, CourseScreen) and GONE in shown(app))
        await pilot.press("escape")
        away.rename(database)
        screen.read_again()
        await until(pilot, lambda: screen.found.line == "step<=2" and screen.card is not None)
        await until(pilot, lambda: "✗" not in shown(app).splitlines()[1])


def test_rows_are_asked_for_once_until_they_come_or_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, ...]] = []
    wanted = GroupTable.Wanted
    monkeypatch.setattr(
        GroupTable, "post_message", lambda _, told: isinstance(told, wanted) and asked.append(told.keys)
    )
    table = GroupTable(id="list")
    table.show([3, 2, 1], of_completions=True)
    table.ask()
    assert asked == [(3, 2, 1)]
    rest: list[Any] = [None] * (len(fields(Rollout)) - 1)
    table.take([Rollout(3, *rest)])
    table.fail(2, "spoilt")
    table.ask()
    assert len(asked) == 1
    table.ask_again()
    assert asked[1:] == [(2,)]


async def test_a_spoilt_group_is_named_in_its_line_and_keeps_no_other_away() -> None:
    run = recorded(Path("runs") / "demo-add")
    run.close()
    with closing(sqlite3.connect(run.folder.database)) as connection, connection:
        newest = connection.execute("SELECT max(id) FROM generation_group").fetchone()[0]
        connection.execute("UPDATE completion SET total = 'x' WHERE group_id = ?", (newest - 2,))
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("5")
        screen = app.screen
        assert isinstance(screen, GenerationsScreen)
        table = screen.query_one(GroupTable)
        await until(pilot, lambda: len(table.unread) == 1 and "…" not in shown(app).splitlines()[3][:4])
        assert set(table.unread) == {newest - 2}
        assert "✗ run.db cannot be read" in shown(app).splitlines()[1]
        assert sum("✗ run.db cannot be read" in line for line in shown(app).splitlines()[3:]) == 1
        assert screen.card is not None
