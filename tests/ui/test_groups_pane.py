"""The newest groups scroll by, reach back into the run, and stay where one reads."""

from __future__ import annotations

from typing import Any

import pytest

from grpo_tui.core import records as r
from grpo_tui.core.records import Completion
from grpo_tui.store.reader import RunReader
from grpo_tui.ui.screens.reading import TextScreen
from grpo_tui.ui.widgets.chart import Chart
from grpo_tui.ui.widgets.event_list import EventList
from grpo_tui.ui.widgets.groups import MOST_GROUPS, CompletionLayout, GroupList, completion_lines
from tests.ui.conftest import app_on, opened, shown, until
from tests.ui.recorded_run import GROUPS, RecordedRun


def groups_of(app: Any) -> GroupList:
    return app.screen.query_one(GroupList)


async def large(pilot: Any) -> None:
    await opened(pilot)
    await until(pilot, lambda: "step 57 ── “" in shown(pilot.app))
    await pilot.press("z")


async def test_new_groups_come_in_at_the_top(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(100, 40)) as pilot:
        await large(pilot)
        run.advance(1)
        await until(pilot, lambda: "newest group ── step 58" in shown(app))


async def test_it_stays_where_one_reads_and_says_how_many_are_new(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(100, 40)) as pilot:
        await large(pilot)
        await pilot.press("pagedown")
        await until(pilot, lambda: groups_of(app).scroll_offset.y > 0)
        body = shown(app).splitlines()[3:-1]
        run.advance(2)
        await until(pilot, lambda: groups_of(app).unseen == 2 * GROUPS)
        assert shown(app).splitlines()[3:-1] == body
        await until(pilot, lambda: f"{2 * GROUPS} newer groups: g jumps there" in shown(app))
        await pilot.press("home")
        await until(pilot, lambda: "newest group ── step 59" in shown(app))
        assert groups_of(app).follows


async def test_it_reaches_back_and_keeps_a_bounded_number(run: RecordedRun) -> None:
    run.advance(60)
    app = app_on(run.folder.root)
    async with app.run_test(size=(100, 40)) as pilot:
        await opened(pilot)
        await until(pilot, lambda: "step 117" in shown(app))
        await pilot.press("z")
        groups = groups_of(app)
        while groups._groups[-1].step > 1:
            last = groups._groups[-1].id
            await pilot.press("end")
            await until(pilot, lambda last=last: groups._groups[-1].id != last)
            assert len(groups._groups) <= MOST_GROUPS
        steps = [group.step for group in groups._groups]
        assert steps == sorted(steps, reverse=True)
        assert len({group.id for group in groups._groups}) == len(groups._groups)
        await pilot.press("home")
        await until(pilot, lambda: "newest group ── step 117" in shown(app))


def test_older_groups_follow_without_gap_or_repetition(run: RecordedRun) -> None:
    reader = RunReader(run.folder.database)
    newest = reader.groups(newest_first=True, limit=1)[0]
    seen = [newest.id]
    while page := reader.older_groups(seen[-1], limit=10):
        seen += [group.id for group in page]
    everything = list(reader.iter_groups())
    order = sorted(everything, key=lambda g: (-g.batch, g.rank, g.index))
    assert seen == [g.id for g in order][[g.id for g in order].index(newest.id) :]
    assert reader.newer_groups(order[-1].id) == len(order) - GROUPS
    assert reader.newer_groups(newest.id) == 0


@pytest.mark.parametrize("text", ["one\ntwo", "漢字" * 200, "a" * 1000, "", "\t\x1b[2J x"])
def test_large_no_character_is_lost(text: str) -> None:
    row = Completion(0, text, (1.0,), 1.0, 0.5, 3, truncated=False)
    lines = completion_lines(row, CompletionLayout(("f",), 60, 1, large=True))
    body = "".join(line[-1].text for line in lines)
    if text:
        for character in set(text.replace("\t", " ").replace("\n", "").replace("\x1b", "␛")):
            assert body.count(character) >= text.replace("\t", " ").replace("\x1b", "␛").count(character)
    else:
        assert body == "(empty)"


async def test_each_rewards_value_has_a_column_where_there_is_room(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        await until(pilot, lambda: "total   correctness format_reward incremental_… tokens" in shown(app))
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: "total   correctness" not in shown(app))


async def test_the_completion_under_the_cursor_is_marked_while_the_list_has_the_focus(
    run: RecordedRun,
) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        groups = groups_of(app)

        def marked() -> int:
            return sum(line[0].text == "❙" for line in groups.lines(100) if line)

        groups.focus()
        await pilot.press("down")
        await until(pilot, lambda: marked() == 1)
        app.screen.query_one(Chart).focus()
        await until(pilot, lambda: not groups.has_focus and marked() == 0)


async def test_enter_opens_a_completion_whole(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(100, 40)) as pilot:
        await large(pilot)
        await pilot.press("down", "down", "enter")
        await until(pilot, lambda: isinstance(app.screen, TextScreen))
        await until(pilot, lambda: "completion 2 of “What is" in shown(app))
        await pilot.press("escape")
        assert groups_of(app).has_focus


async def test_escape_and_the_same_key_go_back_to_the_small_part(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(100, 40)) as pilot:
        await opened(pilot)
        await until(pilot, lambda: "now ──" in shown(app))
        for key in ("z", "v"):
            await pilot.press(key)
            await until(pilot, lambda: "now ──" not in shown(app))
            await pilot.press("escape" if key != "v" else key)
            await until(pilot, lambda: "now ──" in shown(app) and "newest group" in shown(app))


@pytest.mark.parametrize("closes", [["z"], ["escape"], ["v", "v"], ["l", "escape", "escape"]], ids=" ".join)
async def test_closing_the_large_list_shows_the_newest_group_again(
    run: RecordedRun, closes: list[str]
) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(100, 40)) as pilot:
        await large(pilot)
        await pilot.press("pagedown")
        await until(pilot, lambda: groups_of(app).scroll_offset.y > 0)
        run.advance(2)
        await until(pilot, lambda: groups_of(app).unseen == 2 * GROUPS)
        await pilot.press(*closes)
        await until(pilot, lambda: "now ──" in shown(app) and "newest group ── step 59" in shown(app))
        run.advance(1)
        await until(pilot, lambda: "newest group ── step 60" in shown(app))


async def test_all_events_with_both_kinds_of_time(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        await pilot.press("v")
        await until(pilot, lambda: "3 events, newest first" in shown(app))
        lines = [line for line in shown(app).splitlines() if "step 50" in line]
        assert "learning_rate 5e-4 → 2e-4, set by you" in lines[0]
        assert "ago" in lines[0]
        assert "02 Feb " in lines[0]
        await pilot.press("down", "down", "y")
        await until(pilot, lambda: app.clipboard.startswith("checkpoint-40 saved"))


async def test_a_click_chooses_an_event_and_two_at_once_open_it(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        await pilot.press("v")
        await until(pilot, lambda: "3 events, newest first" in shown(app))
        events = app.screen.query_one(EventList)
        for _ in range(2):
            await pilot.click(EventList, offset=(5, 2))
            await until(pilot, lambda: events.cursor == 2)
        await pilot.click(EventList, offset=(5, 9))  # below the last one
        await pilot.press("y")
        await until(pilot, lambda: app.clipboard.startswith("checkpoint-40 saved"))
        assert app.screen.query(EventList), "nothing was opened"
        await pilot.click(EventList, offset=(5, 1), times=2)
        await until(pilot, lambda: isinstance(app.screen, TextScreen))
        await until(pilot, lambda: "event, 02 Feb" in shown(app) and "5e-4 → 2e-4" in shown(app))


async def test_a_new_event_comes_in_at_the_top_and_moves_nothing_below(run: RecordedRun) -> None:
    for step in range(1, 60):
        run.write(r.SettingChanged(1, step, run.at(step), "temperature", 0.9, 0.9 + step / 100))
    app = app_on(run.folder.root)
    async with app.run_test(size=(100, 30)) as pilot:
        await opened(pilot)
        await pilot.press("v")
        await until(pilot, lambda: "62 events, newest first" in shown(app))
        await pilot.press("pagedown", "pagedown")
        body = [line[:60] for line in shown(app).splitlines()[3:-1]]
        run.write(r.CheckpointSaved(1, 57, "checkpoint-57", run.at(70), True, True, 1))
        await until(pilot, lambda: "1 new event: g jumps there" in shown(app))
        assert body == [line[:60] for line in shown(app).splitlines()[3:-1]]
        await pilot.press("home")
        await until(pilot, lambda: "checkpoint-57 saved" in shown(app) and "g jumps" not in shown(app))


@pytest.mark.parametrize("width", [60, 120, 200])
def test_no_number_of_a_completion_is_cut_or_touches_the_next(width: int) -> None:
    values = (123_456.789, 1e308, float("-inf"), None, -98_765.4321)
    row = Completion(0, "text", values, -1234.5678, -234.5678, 131_072, True)
    head = "".join(
        span.text for span in completion_lines(row, CompletionLayout(tuple("abcde"), width, 1, False))[0][:-1]
    )
    seen = head.split()
    assert "…" not in head
    assert seen[1:3] == ["235", "-1,235"]
    assert [word for word in ("123,457", "1.0e308", "-inf", "–", "-98,765") if word in seen] == seen[3:-2]
    assert seen[-2:] == ["131k", "✂"]
