"""The list of runs, as a person uses it."""

from __future__ import annotations

from pathlib import Path

from textual.widgets import Input

from grpo_tui.ui.screens.train import TrainScreen
from grpo_tui.ui.widgets.runs_table import RunsTable
from tests.ui.conftest import app_on, opened, shown, until
from tests.ui.recorded_run import RecordedRun, recorded


def many(count: int) -> None:
    for number in range(count):
        made = RecordedRun(Path("runs") / f"run-{number:03}", pid=2**22 - 3)
        made.advance(2)
        made.close()


async def test_nothing_to_list_says_how_to_fill_it() -> None:
    app = app_on(None)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.rows_complete)
        await until(pilot, lambda: "grpo-tui demo" in shown(app))
        assert "No runs under runs yet." in shown(app)


async def test_enter_opens_the_chosen_run(run: RecordedRun) -> None:
    recorded(Path("runs") / "older", "failed").close()
    app = app_on(None)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: app.rows_complete)
        assert [row.name for row in app.rows] == ["demo-add", "older"]
        await pilot.press("j")
        await pilot.press("enter")
        await opened(pilot)
        assert isinstance(app.screen, TrainScreen)
        assert app.view is not None
        assert app.view.name == "older"
        await pilot.press("1")
        assert "older" in shown(app)
        await pilot.press("k", "enter")
        await until(pilot, lambda: app.view is not None and app.view.name == "demo-add")


async def test_the_filter_takes_digits_and_letters_of_keys(run: RecordedRun) -> None:
    recorded(Path("runs") / "q4-paused", "paused").close()
    app = app_on(None)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: app.rows_complete)
        await pilot.press("slash", *"q4")
        assert app.screen.query_one(Input).value == "q4"
        await until(pilot, lambda: "demo-add" not in shown(app))
        assert "1 hold “q4”" in shown(app)
        await pilot.press("enter", "enter")
        await until(pilot, lambda: app.view is not None and app.view.name == "q4-paused")


async def test_escape_shows_all_again(run: RecordedRun) -> None:
    app = app_on(None)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: app.rows_complete)
        await pilot.press("slash", *"nothing")
        await until(pilot, lambda: "demo-add" not in shown(app))
        await pilot.press("escape")
        await until(pilot, lambda: "demo-add" in shown(app))


async def test_the_cursor_stays_with_its_run_in_a_long_list(run: RecordedRun) -> None:
    many(40)
    app = app_on(None)
    async with app.run_test(size=(80, 20)) as pilot:
        await until(pilot, lambda: app.rows_complete)
        table = app.screen.query_one(RunsTable)
        await pilot.press(*["j"] * 30)
        chosen = table.selected
        assert chosen is not None
        assert chosen.name in shown(app)
        await pilot.press("end", "pagedown")
        assert table.cursor == len(app.rows) - 1
        await pilot.press("up")
        chosen = table.selected
        table.show(tuple(reversed(app.rows)), 0.0)
        assert table.selected == chosen
        assert table.cursor == 1


async def test_a_run_that_starts_later_appears_by_itself(run: RecordedRun) -> None:
    app = app_on(None)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.rows_complete)
        recorded(Path("runs") / "newcomer", "loading").close()
        await until(pilot, lambda: "newcomer" in shown(app))


async def test_a_broken_folder_says_what_is_wrong_with_it(run: RecordedRun) -> None:
    broken = Path("runs") / "broken"
    broken.mkdir()
    (broken / "run.db").write_bytes(b"this is no database" * 100)
    app = app_on(None)
    async with app.run_test(size=(120, 24)) as pilot:
        await until(pilot, lambda: app.rows_complete)
        assert "✗ broken" in shown(app)
        assert "demo-add" in shown(app)
