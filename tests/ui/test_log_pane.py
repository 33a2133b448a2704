"""The log pane: all of the output within reach, searched as a whole, and it stays where one reads."""

from __future__ import annotations

import time
from typing import Any

from grpo_tui.core import records as r
from grpo_tui.present.log_window import MOST
from grpo_tui.ui.screens.reading import TextScreen
from grpo_tui.ui.widgets.log_list import LogList
from tests.ui.conftest import app_on, opened, shown, until
from tests.ui.recorded_run import HOSTILE, NOW, RecordedRun

LONG = "x" * 60_000 + " NEEDLE " + "y" * 40_000


def fill(run: RecordedRun, count: int = 3_000) -> None:
    lines = [r.LogLine(NOW - count + i, f"line {i}") for i in range(count)]
    lines[50] = r.LogLine(NOW, "Traceback (most recent call last):", "error")
    lines[51] = r.LogLine(NOW, '  File "rewards.py", line 3', "error")
    lines[52] = r.LogLine(NOW, "KeyError: 'answer'", "error")
    lines[100] = r.LogLine(NOW, LONG)
    lines[200] = r.LogLine(NOW, "UserWarning: hot", "warning")
    run.write(*lines)


def log_of(app: Any) -> LogList:
    return app.screen.query_one(LogList)


async def in_log(pilot: Any, word: str = "line 2999") -> None:
    await opened(pilot)
    await pilot.press("l")
    await until(pilot, lambda: word in shown(pilot.app))


async def test_it_follows_the_end_and_stays_where_one_reads(run: RecordedRun) -> None:
    fill(run)
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await in_log(pilot)
        run.write(r.LogLine(NOW, "the newest"))
        await until(pilot, lambda: "the newest" in shown(app))
        await pilot.press("pageup", "pageup")
        assert not log_of(app).follows
        assert "G follows" in shown(app)
        before = [line for line in shown(app).splitlines() if " line 2" in line]
        run.write(*[r.LogLine(NOW, f"unread {i}") for i in range(7)])
        await until(pilot, lambda: "7 new lines, G follows" in shown(app))
        assert before == [line for line in shown(app).splitlines() if " line 2" in line]
        await pilot.press("end")
        await until(pilot, lambda: "unread 6" in shown(app))
        assert "G follows" not in shown(app)
        run.write(r.LogLine(NOW, "and on"))
        await until(pilot, lambda: "and on" in shown(app))


async def test_older_lines_come_as_one_goes_up_and_the_window_stays_small(run: RecordedRun) -> None:
    fill(run, 4_000)
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await in_log(pilot, "line 3999")
        log = log_of(app)
        while log.window.lines[0].text != f"{{'loss': 0.00}} {HOSTILE}":
            count = log.window.lines[0].id
            await pilot.press("home")
            await until(pilot, lambda count=count: log.window.lines[0].id < count or not log.window.older)
            assert len(log.window.lines) <= MOST
        await pilot.press("home")
        await until(pilot, lambda: "{'loss': 0.00}" in shown(app))
        assert log.window.newer
        await pilot.press("end")
        await until(pilot, lambda: "line 3999" in shown(app))


async def test_search_covers_what_is_not_loaded_and_marks_it(run: RecordedRun) -> None:
    fill(run)
    app = app_on(run.folder.root)
    async with app.run_test(size=(100, 30)) as pilot:
        await in_log(pilot)
        await pilot.press("slash", *"line 4", "enter")
        await until(pilot, lambda: "“line 4” 111 of 111" in shown(app))
        await until(pilot, lambda: "line 499" in shown(app))
        log = log_of(app)
        assert log.selected is not None
        assert log.selected.text == "line 499"
        await pilot.press("N")
        await until(pilot, lambda: "“line 4” 110 of 111" in shown(app))
        await pilot.press("n", "n")
        await until(pilot, lambda: "1 of 111, wrapped around" in shown(app))
        await until(pilot, lambda: log.selected is not None and log.selected.text == "line 4")
        strip = log.render_line(log.cursor - log.scroll_offset.y)
        marked = [s.text for s in strip if s.style is not None and s.style.reverse]
        assert marked == ["line 4"]
        await pilot.press("escape")
        await until(pilot, lambda: "of 111" not in shown(app))


async def test_words_that_are_nowhere_are_said_to_be(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(100, 30)) as pilot:
        await in_log(pilot, "UserWarning")
        await pilot.press("slash", *"zebra", "enter")
        await until(pilot, lambda: "“zebra” not found" in shown(app))


async def test_levels_keep_a_traceback_whole(run: RecordedRun) -> None:
    fill(run)
    app = app_on(run.folder.root)
    async with app.run_test(size=(100, 40)) as pilot:
        await in_log(pilot)
        await pilot.press("w")
        await until(pilot, lambda: "UserWarning: hot" in shown(app))
        assert "warnings and errors" in shown(app)
        await pilot.press("w")
        await until(pilot, lambda: "UserWarning: hot" not in shown(app))
        await pilot.press("slash", *"line", "enter")
        await until(pilot, lambda: "“line” 1 of 1" in shown(app))
        await pilot.press("escape")
        text = shown(app)
        assert text.index("Traceback") < text.index('File "rewards.py", line 3') < text.index("KeyError")
        assert "line 7" not in text
        await pilot.press("w", "end")
        await until(pilot, lambda: "line 2999" in shown(app))


async def test_metrics_and_progress_bars_are_folded_and_enter_unfolds_them(run: RecordedRun) -> None:
    fill(run)
    run.write(*[r.LogLine(NOW, f"{{'loss': {i}}}") for i in range(7)], r.LogLine(NOW, "said between"))
    app = app_on(run.folder.root)
    async with app.run_test(size=(100, 40)) as pilot:
        await in_log(pilot, "said between")
        assert "▸ 7 lines of metrics and progress bars" in shown(app)
        assert "'loss': 3" not in shown(app)
        run.write(*[r.LogLine(NOW, f" {i}%|▎  | {i}/60 [00:01<00:40, 1.4it/s]") for i in range(5)])
        await until(pilot, lambda: "▸ 5 lines of metrics and progress bars" in shown(app))
        run.write(r.LogLine(NOW, "  5%|▎  | 5/60 [00:01<00:40, 1.4it/s]"), r.LogLine(NOW, "and on"))
        await until(pilot, lambda: "▸ 6 lines of metrics and progress bars" in shown(app))
        assert log_of(app).follows
        await pilot.press("slash", *"'loss': 3", "enter")
        await until(pilot, lambda: "1 of 1" in shown(app) and "{'loss': 3}" in shown(app))
        await pilot.press("escape")
        await until(pilot, lambda: "▸ 7 lines of metrics and progress bars" in shown(app))
        log = log_of(app)
        log.put(next(at for at, row in enumerate(log.window.rows) if row.text.startswith("▸ 7 ")))
        await pilot.press("y")
        assert app.clipboard == ""
        await pilot.press("enter")
        await until(pilot, lambda: log.selected is not None and log.selected.text == "{'loss': 0}")
        assert "{'loss': 3}" in shown(app)
        assert "all lines" in shown(app)
        assert "new line" not in shown(app)


async def test_a_folded_stretch_at_the_end_is_opened_and_stays_while_more_is_printed(
    run: RecordedRun,
) -> None:
    fill(run)
    run.write(*[r.LogLine(NOW, f"{{'loss': {i}}}") for i in range(7)])
    app = app_on(run.folder.root)
    async with app.run_test(size=(100, 40)) as pilot:
        await in_log(pilot, "▸ 7 lines of metrics and progress bars")
        log = log_of(app)
        assert log.follows
        log.action_last()
        await pilot.press("enter")
        await until(pilot, lambda: log.selected is not None and log.selected.text == "{'loss': 0}")
        assert not log.follows
        run.write(*[r.LogLine(NOW, f"said later {i}") for i in range(60)])
        await until(pilot, lambda: "60 new lines, G follows" in shown(app))
        assert log.selected is not None
        assert log.selected.text == "{'loss': 0}"
        await pilot.press("G")
        await until(pilot, lambda: log.follows and "said later 59" in shown(app))


async def test_a_long_line_is_cut_found_and_opened_whole(run: RecordedRun) -> None:
    fill(run)
    app = app_on(run.folder.root)
    async with app.run_test(size=(100, 40)) as pilot:
        await in_log(pilot)
        await pilot.press("slash", *"needle", "enter")
        await until(pilot, lambda: "NEEDLE" in shown(app))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, TextScreen))
        assert "100,008 characters" in shown(app)
        await pilot.press("end")
        await until(pilot, lambda: "yyyyy" in shown(app))
        await pilot.press("y")
        assert app.clipboard.startswith("xxxx")
        assert len(app.clipboard) == 74_994
        await pilot.press("escape")
        assert log_of(app).selected is not None


async def test_a_key_is_not_slow_with_many_and_long_lines(run: RecordedRun) -> None:
    run.write(*[r.LogLine(NOW, f"{i} " + "漢字 and text " * 7_000) for i in range(300)])
    fill(run)
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await in_log(pilot)
        log = log_of(app)
        began = time.process_time()
        for _ in range(20):
            log.action_move(-1)
            for y in range(log.size.height):
                log.render_line(y)
        # Laid out whole, each of these lines alone takes longer; only what is in sight is laid out.
        assert time.process_time() - began < 20 * 0.25


async def test_the_log_of_another_run_begins_anew(run: RecordedRun, tmp_path: Any) -> None:
    fill(run)
    other = RecordedRun(tmp_path / "runs" / "other")
    other.write(r.LogLine(NOW, "of the other run"))
    other.now("update")
    app = app_on(run.folder.root)
    async with app.run_test(size=(100, 30)) as pilot:
        await in_log(pilot)
        await pilot.press("pageup")
        app.open_run(other.folder.root)
        await until(pilot, lambda: "of the other run" in shown(app))
        assert "line 2999" not in shown(app)
    other.close()
