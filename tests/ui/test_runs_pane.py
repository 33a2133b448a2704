"""The list of runs, as a person uses it."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path

import pytest
from textual.widgets import Input

from grpo_tui.core import records as r
from grpo_tui.present.glyphs import BLOCKS
from grpo_tui.present.runs_view import RunRow, read_run_row
from grpo_tui.store.spec import RunSpec
from grpo_tui.ui import runs_watch
from grpo_tui.ui.app import GrpoApp
from grpo_tui.ui.screens import runs
from grpo_tui.ui.screens.chart import OverlayScreen
from grpo_tui.ui.screens.runs import RunDetail, RunsScreen, RunsTable
from grpo_tui.ui.screens.train import TrainScreen
from tests.ui.conftest import app_on, opened, shown, until
from tests.ui.recorded_run import NOW, RecordedRun, recorded


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
        await until(pilot, lambda: isinstance(app.screen, RunsScreen) and "older" in shown(app))
        await pilot.press("k", "enter")
        await until(pilot, lambda: app.view is not None and app.view.name == "demo-add")


async def test_the_filter_takes_digits_and_letters_of_keys(run: RecordedRun) -> None:
    recorded(Path("runs") / "q4-paused", "paused").close()
    app = app_on(None)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: app.rows_complete)
        await pilot.press("slash", *"q4")
        assert app.screen.query_one(Input).value == "q4"
        table = app.screen.query_one(RunsTable)
        assert table.lines(100)[table.cursor][1].role.endswith(" selected"), "enter opens it from here too"
        await until(pilot, lambda: "demo-add" not in shown(app))
        assert "1 matches “q4”" in shown(app)
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
        await until(pilot, lambda: chosen.name in shown(app))
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


def with_checkpoint(kind: str, step: int = 40) -> RecordedRun:
    """An ended run with one complete checkpoint, as the marker says."""
    made = recorded(Path("runs") / f"{kind}-one", kind)
    made.close()
    checkpoint = made.folder.root / f"checkpoint-{step}"
    checkpoint.mkdir()
    (checkpoint / "trainer_state.json").write_text("{}")
    (checkpoint / "grpo_tui.json").write_text('{"files": {}}')
    return made


def footer(app: GrpoApp) -> str:
    return shown(app).splitlines()[-1]


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_a_failed_run_says_what_happened_where_there_is_room(size: tuple[int, int]) -> None:
    with_checkpoint("failed")
    app = app_on(None)
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: app.rows_complete and bool(app.rows))
        await until(pilot, lambda: "failed-one" in shown(app))
        text = shown(app)
        assert "✗ failed" in text
        assert "R resume" in footer(app)
        assert ("reward function 'correctness' failed (rewards.py:12)" in text) == (size[1] == 40)
        if size[1] == 40:
            assert "at step 57 of 120" in text
            assert "R resumes from checkpoint-40" in text
            assert "grpo-tui train runs/failed-one --resume" in text


async def test_a_column_stands_under_its_name_at_every_width(run: RecordedRun) -> None:
    app = app_on(None)
    async with app.run_test(size=(70, 24)) as pilot:
        await until(pilot, lambda: app.rows_complete and "demo-add" in shown(app))
        for width in range(70, 96):
            await pilot.resize_terminal(width, 24)
            await until(pilot, lambda width=width: len(shown(app).splitlines()[2]) == width)
            _, _, heading, row, *_ = shown(app).splitlines()
            assert ("over time" in heading) == bool(set(row) & set(BLOCKS)), width
            assert ("heartbeat" in heading) == (" now" in row), width


async def test_the_detail_follows_the_cursor(run: RecordedRun) -> None:
    with_checkpoint("failed")
    app = app_on(None)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: len(app.rows) == 2 and app.rows_complete)
        await until(pilot, lambda: "It is updating the policy now." in shown(app))
        assert "R resume" not in footer(app)
        await pilot.press("j")
        await until(pilot, lambda: "rewards.py:12" in shown(app))
        assert "R resume" in footer(app)


@pytest.mark.parametrize(
    ("saved", "torn", "said"),
    [
        ((), (), "none"),
        ((40,), (), "40"),
        (range(10, 90, 10), (), "10, 20, 30, 40, 50, 60, 70, 80"),
        (range(500, 6000, 500), (), "3 older, 2,000, 2,500, 3,000, 3,500, 4,000, 4,500, 5,000, 5,500"),
        ((40, 60), (80,), "40, 60; not complete: 80"),
        ((), (10, 20, 30, 40), "not complete: 20, 30, 40"),
    ],
)
def test_of_many_checkpoints_the_newest_are_listed(
    saved: Iterable[int], torn: tuple[int, ...], said: str
) -> None:
    detail = RunDetail(id="detail")
    row = RunRow(Path("runs/a"), "a", "failed", checkpoints=tuple(saved), torn=torn)
    detail.show(row, NOW)
    lines = ["".join(span.text for span in line) for line in detail.lines(120, 20)]
    assert [line.split(None, 1)[1] for line in lines if line.startswith(" checkpoints")] == [said]


async def test_resuming_asks_once_and_names_what_it_continues(monkeypatch: pytest.MonkeyPatch) -> None:
    resumed: list[Path] = []

    answer = threading.Event()

    def resume(path: Path) -> tuple[bool, str]:
        resumed.append(path)
        answer.wait(20)
        return False, "not in a test"

    monkeypatch.setattr("grpo_tui.ui.starting.resume_run", resume)
    with_checkpoint("failed")
    app = app_on(None)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await until(pilot, lambda: app.rows_complete and bool(app.rows))
        await pilot.press("R")
        await until(pilot, lambda: "resume failed-one?" in shown(app))
        assert "Continues from checkpoint-40" in shown(app)
        assert "The next step is 41 of 120" in shown(app)
        assert "Steps 41 to 57 are repeated" in shown(app)
        for no in ("n", "escape"):
            await pilot.press(no)
            await until(pilot, lambda: "resume failed-one?" not in shown(app))
            await pilot.press("R")
            await until(pilot, lambda: "resume failed-one?" in shown(app))
        await pilot.press("y")
        await until(pilot, lambda: bool(resumed))
        assert [path.name for path in resumed] == ["failed-one"], "only after yes"
        await pilot.press("R")
        await until(pilot, lambda: "failed-one is being resumed. Please wait." in shown(app))
        answer.set()
        await until(pilot, lambda: "was not resumed" in shown(app))
        await pilot.press("R")
        await until(pilot, lambda: "resume failed-one?" in shown(app))


async def test_a_refused_resume_says_why() -> None:
    with_checkpoint("failed")  # it has no run.json: the command refuses it
    app = app_on(None)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await until(pilot, lambda: app.rows_complete and bool(app.rows))
        await pilot.press("R")
        await until(pilot, lambda: "resume failed-one?" in shown(app))
        await pilot.press("y")
        await until(pilot, lambda: "was not resumed" in shown(app))
        await until(pilot, lambda: "run.json" in shown(app))
        assert app.view is None


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("finished", "The run is finished"),
        ("paused", "The run is paused. Press enter"),
        ("failed", "no complete checkpoint"),
    ],
)
async def test_what_cannot_be_resumed_says_why(kind: str, said: str) -> None:
    recorded(Path("runs") / "one", kind).close()
    app = app_on(None)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await until(pilot, lambda: app.rows_complete and bool(app.rows))
        await pilot.press("R")
        await until(pilot, lambda: said in shown(app))


async def test_marks_stay_with_their_runs_and_two_can_be_overlaid(run: RecordedRun) -> None:
    many(3)
    app = app_on(None)
    async with app.run_test(size=(100, 30), notifications=True) as pilot:
        await until(pilot, lambda: app.rows_complete and len(app.rows) == 4)
        await pilot.press("space")
        await until(pilot, lambda: "● 1 marked" in shown(app))
        assert "o overlay" not in footer(app)
        await pilot.press("o")
        await until(pilot, lambda: "Mark at least two runs" in shown(app))
        await pilot.press("space")
        await until(pilot, lambda: "● 2 marked" in shown(app))
        assert "o overlay" in footer(app)
        marked = app.screen.query_one(RunsTable).marked
        await pilot.press("s", "s", "s", "s")
        assert app.screen.query_one(RunsTable).marked == marked
        await pilot.press("o")
        await until(pilot, lambda: isinstance(app.screen, OverlayScreen))
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, RunsScreen))
        await pilot.press("escape")
        await until(pilot, lambda: "marked" not in shown(app))


async def test_a_filter_that_is_not_understood_says_so_and_hides_nothing(run: RecordedRun) -> None:
    app = app_on(None)
    async with app.run_test(size=(120, 30)) as pilot:
        await until(pilot, lambda: app.rows_complete)
        await pilot.press("slash", *"stat:x")
        await until(pilot, lambda: "“stat:” is not a field" in shown(app))
        assert "demo-add" in shown(app)


async def test_rows_can_be_sorted_by_reward_and_name() -> None:
    for name, value in (("b", 1.0), ("a", 3.0), ("c", 2.0)):
        made = RecordedRun(Path("runs") / name, pid=2**22 - 3)
        made.write(r.MetricRow(1, 1, NOW, {"reward": value}))
        made.close()
    app = app_on(None)

    def names() -> list[str]:
        return [row.name for row in app.screen.query_one(RunsTable).rows]

    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: app.rows_complete and len(app.rows) == 3)
        await pilot.press("s")
        await until(pilot, lambda: names() == ["a", "c", "b"])
        assert "by reward" in shown(app)
        await pilot.press("s")
        await until(pilot, lambda: names() == ["a", "b", "c"])


async def test_a_run_that_did_not_change_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    many(2)
    recorded(Path("runs") / "live").close()
    read: list[str] = []

    def counted(path: Path, name: str | None = None) -> RunRow:
        read.append(path.name)
        return read_run_row(path, name)

    monkeypatch.setattr(runs_watch, "read_run_row", counted)
    watch = runs_watch.RunsWatch([Path("runs")], lambda message: None, threading.Event())
    for _ in range(3):
        watch.look()
    assert sorted(read) == ["live"] * 3 + ["run-000", "run-001"]
    made = RecordedRun(Path("runs") / "run-002", pid=2**22 - 3)
    made.close()
    watch._walk_at = 0.0
    watch.look()
    assert read.count("run-002") == 1


async def test_the_cursor_stays_in_sight_when_the_order_changes() -> None:
    many(40)
    app = app_on(None)
    async with app.run_test(size=(80, 20)) as pilot:
        await until(pilot, lambda: app.rows_complete and len(app.rows) == 40)
        await pilot.press("j", "j")
        chosen = app.screen.query_one(RunsTable).selected
        assert chosen is not None
        await pilot.press("s", "s")
        await until(pilot, lambda: "by name" in shown(app) and chosen.name in shown(app))
        assert app.screen.query_one(RunsTable).selected == chosen


async def test_ages_go_on_while_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    many(1)
    now = [NOW]
    monkeypatch.setattr(runs, "TIMES_S", 0.05)
    app = GrpoApp([Path("runs")], None, clock=lambda: now[0])
    async with app.run_test(size=(100, 20)) as pilot:
        await until(pilot, lambda: app.rows_complete and bool(app.rows))
        seen_at = app.rows[0].seen_at
        assert seen_at is not None
        now[0] = seen_at + 30
        await until(pilot, lambda: "30 s ago" in shown(app))
        now[0] += 60
        await until(pilot, lambda: "1 min ago" in shown(app))


async def test_workers_that_live_long_leave_room_for_others(tmp_path: Path) -> None:
    app = app_on(None)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.rows_complete)
        stop, begun = threading.Event(), []
        for number in range(20):
            app.run_worker(
                lambda number=number: (begun.append(number), stop.wait(20)), thread=True, group="many"
            )
        try:
            await until(pilot, lambda: len(begun) == 20)
        finally:
            stop.set()


def forked(name: str, parent: str, kind: str = "finished") -> None:
    """Write a run that was forked from the checkpoint of another one."""
    recorded(Path("runs") / name, kind).close()
    checkpoint = Path("runs", parent, "checkpoint-40").absolute()
    RunSpec({}, forked_from=str(checkpoint)).write(Path("runs") / name / "run.json")


async def test_forks_are_listed_under_their_run_through_generations(run: RecordedRun) -> None:
    recorded(Path("runs") / "first", "finished").close()
    forked("second", "first")
    forked("third", "second", "training")
    forked("other", "elsewhere")
    app = app_on(None)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.rows_complete)
        await until(pilot, lambda: "third" in shown(app))
        table = app.screen.query_one(RunsTable)
        listed = [(row.name, row.generation) for row in table.rows]
        family = listed.index(("first", 0))
        assert listed[family : family + 3] == [("first", 0), ("second", 1), ("third", 2)]
        assert ("other", 0) in listed[family + 3 :], "its parent is not in the list, and it has ended"
        assert "└ second" in shown(app)
        assert "  └ third" in shown(app)
        await pilot.press(*"j" * [row.name for row in table.rows].index("third"))
        await until(pilot, lambda: "checkpoint-40 of runs/second" in shown(app))
        await pilot.press("end")
        await until(pilot, lambda: "checkpoint-40 of runs/elsewhere" in shown(app))
        await pilot.press("s")
        await until(pilot, lambda: "by reward" in shown(app))
        assert [row.reward for row in table.rows] == sorted((row.reward for row in table.rows), reverse=True)
        assert "└" not in shown(app)
        await pilot.press("s", "s", "s")
        await until(pilot, lambda: "└ second" in shown(app))
        await pilot.press("slash", *"-first")
        await until(pilot, lambda: "└ third" in shown(app) and "└ second" not in shown(app))
