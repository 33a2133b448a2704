"""Title, bell and clipboard: what the program writes to a terminal besides its screen, byte by byte."""

from __future__ import annotations

import base64
import os
import re
import time

import pytest

from grpo_tui.core import records as r
from grpo_tui.core.findings import Finding
from grpo_tui.present.train_view import TrainView
from grpo_tui.ui.app import GrpoApp
from grpo_tui.ui.preferences import PreferenceFile
from grpo_tui.ui.terminal import MOST_BYTES, TerminalTitle, fitting, has_title, sequences, title_of
from tests.ui.conftest import app_on, opened, shown, until
from tests.ui.recorded_run import HOSTILE, RecordedRun
from tests.ui.test_terminal import Terminal

TITLE = re.compile(rb"\x1b\]2;([^\x07]*)\x07")
COPY = re.compile(rb"\x1b\]52;c;([A-Za-z0-9+/=]*)\x07")


def view(name: str = "demo-add", state: str = "training", step: int = 57) -> TrainView:
    return TrainView(name, "runs/x", 0.0, state=state, step=step, total_steps=120)


# -- title ---------------------------------------------------------------------------------------


def test_the_title_says_state_step_and_name() -> None:
    assert title_of(view()) == "▶ 57/120 demo-add — grpo-tui"
    assert title_of(view(), plain=True) == "> 57/120 demo-add - grpo-tui"
    assert title_of(None) == "grpo-tui"


def test_no_name_ends_the_title_early() -> None:
    title = title_of(view(f"x\x07\x1b]0;evil\x9c\n{HOSTILE}"))
    assert not [c for c in title if ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0]
    assert len(title) <= 80


def test_the_title_is_written_when_it_changes_and_put_back() -> None:
    written: list[str] = []
    title = TerminalTitle(written.append)
    title.give_back()
    assert written == []
    for step in (57, 57, 58):
        title.show(view(step=step))
    assert len(written) == 2
    assert written[0].startswith("\x1b[22;0t")
    title.give_back()
    assert written[2] == "\x1b]2;\x07\x1b[23;0t"


@pytest.mark.parametrize(
    ("name", "has"),
    [("xterm-256color", True), ("screen", True), ("tmux-256color", True), ("linux", False), ("dumb", False),
     ("vt100", False), ("", False)],
)  # fmt: skip
def test_only_terminals_with_a_title_get_one(name: str, has: bool) -> None:
    assert has_title({"TERM": name}) is has


def test_in_a_terminal_the_title_shows_the_run_and_is_given_back(run: RecordedRun) -> None:
    terminal = Terminal(str(run.folder.root))
    terminal.until("▶ 57/120 demo-add — grpo-tui".encode())
    os.write(terminal.fd, b"q")
    terminal.end()
    titles = TITLE.findall(terminal.output)
    assert titles[-1] == b""
    assert terminal.output.count(b"\x1b[22;0t") == terminal.output.count(b"\x1b[23;0t") == 1
    assert terminal.output.rindex(b"\x1b[23;0t") > terminal.output.rindex(b"\x1b]2;")


def test_a_title_that_is_switched_off_is_never_written(run: RecordedRun) -> None:
    PreferenceFile().change(title=False)
    terminal = Terminal(str(run.folder.root))
    terminal.until(b"newest group")
    end = time.monotonic() + 1.5
    while time.monotonic() < end:
        terminal._read()
    os.write(terminal.fd, b"q")
    terminal.end()
    assert TITLE.findall(terminal.output) == []
    assert b"\x1b[22;0t" not in terminal.output
    assert b"\x1b[23;0t" not in terminal.output


def over(run: RecordedRun, state: str) -> None:
    """End the run now, after its last sign of life."""
    run.write(r.AttemptEnded(1, time.time() + 60, state, run.step, 0))


# -- bell ----------------------------------------------------------------------------------------


async def test_the_bell_rings_once_and_only_when_asked_for(
    run: RecordedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    rung: list[int] = []
    monkeypatch.setattr("grpo_tui.ui.app.GrpoApp.bell", lambda self: rung.append(1))
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        app.action_app_bell()
        assert PreferenceFile().read()[0].bell
        await until(pilot, lambda: app.view is not None and app.view.live)
        over(run, "failed")
        await until(pilot, lambda: app.view is not None and app.view.ended)
        run.log(3)
        await pilot.pause(1.2)
    assert rung == [1]
    again = app_on(run.folder.root)
    async with again.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
    assert rung == [1]  # it was over before anybody looked


async def test_without_asking_the_bell_is_silent(run: RecordedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    rung: list[int] = []
    monkeypatch.setattr("grpo_tui.ui.app.GrpoApp.bell", lambda self: rung.append(1))
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        over(run, "finished")
        await until(pilot, lambda: app.view is not None and app.view.ended)
    assert rung == []


async def test_an_error_found_while_watching_is_told_once(
    run: RecordedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    rung: list[int] = []
    monkeypatch.setattr("grpo_tui.ui.app.GrpoApp.bell", lambda self: rung.append(1))

    def find(*ids: str) -> None:
        found = [
            Finding(name, "error", None, None, f"{name} is wrong. In numbers.", None, 3, run.step)
            for name in ids
        ]
        run.write(r.OpenFindings(time.time(), tuple(found)))

    said: list[str] = []  # also what is shown no more
    notify = GrpoApp.notify
    monkeypatch.setattr(
        GrpoApp, "notify", lambda self, *a, **k: (said.append(a[0]), notify(self, *a, **k))[1]
    )

    def told() -> list[str]:
        return [words for words in said if "is wrong" in words]

    find("known")
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        app.action_app_bell()
        await until(pilot, lambda: app.view is not None and len(app.view.findings) == 1)
        assert (told(), rung) == ([], [])  # the screen says it already
        find("known", "new")
        await until(pilot, lambda: app.view is not None and len(app.view.findings) == 2)
        run.log(2)
        await until(pilot, lambda: bool(told()))
        find("known")
        await until(pilot, lambda: app.view is not None and len(app.view.findings) == 1)
        find("known", "new")
        await until(pilot, lambda: app.view is not None and len(app.view.findings) == 2)
        assert (told(), rung) == (["new is wrong. In numbers."], [1])


# -- clipboard -----------------------------------------------------------------------------------


def test_nothing_in_a_text_ends_the_sequence() -> None:
    written = sequences(fitting(f"a\x07b\x1b\\c {HOSTILE} 漢"), {})
    (data,) = COPY.findall(written.encode())
    assert written == f"\x1b]52;c;{data.decode()}\x07"
    assert "漢" in base64.b64decode(data).decode()
    assert b"\x1b" not in base64.b64decode(data)


def test_tmux_gets_it_plain_and_wrapped() -> None:
    written = sequences("x", {"TMUX": "/tmp/tmux-0/default,1,0"})
    assert written == "\x1b]52;c;eA==\x07" + "\x1bPtmux;\x1b\x1b]52;c;eA==\x07\x1b\\"


def test_screen_gets_it_in_pieces_that_it_passes_on() -> None:
    written = sequences("x" * 1000, {"STY": "1.x"})
    pieces = re.findall(r"\x1bP(.*?)\x1b\\", written, re.DOTALL)
    assert "".join(pieces) == sequences("x" * 1000, {})
    assert max(map(len, pieces)) <= 256


def test_a_long_text_is_cut_to_what_terminals_take() -> None:
    assert fitting("x" * 10) == "x" * 10
    kept = fitting("漢" * 100_000)
    assert len(kept.encode()) <= MOST_BYTES
    assert set(kept) == {"漢"}
    assert len(sequences(kept, {})) <= 100_000


async def test_y_says_what_was_copied(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(100, 40), notifications=True) as pilot:
        await until(pilot, lambda: "newest group" in shown(app) and "<answer>" in shown(app))
        await pilot.press("y")
        await until(pilot, lambda: "Copied completion 1 of" in shown(app))
        assert app.clipboard
        await pilot.press("l")
        await until(pilot, lambda: "UserWarning" in shown(app))
        await pilot.press("y")
        await until(pilot, lambda: app.clipboard == "UserWarning: something to look at")
        assert "33 characters" in shown(app)


def test_in_a_terminal_nothing_is_copied_until_y(run: RecordedRun) -> None:
    terminal = Terminal(str(run.folder.root))
    terminal.until(b"[@click=app.quit]")
    assert COPY.findall(terminal.output) == []
    os.write(terminal.fd, b"l")
    terminal.until(b"UserWarning")
    os.write(terminal.fd, b"k")
    os.write(terminal.fd, b"y")
    terminal.until(b"\x1b]52;c;")
    os.write(terminal.fd, b"q")
    terminal.end()
    (data,) = COPY.findall(terminal.output)
    assert base64.b64decode(data).decode().startswith("{'loss': 0.29} [/INST] [@click=app.quit]x[/] ␛]52")


async def test_in_runs_y_copies_the_command_that_opens_the_run(run: RecordedRun) -> None:
    app = app_on(None)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: "demo-add" in shown(app))
        await pilot.press("y")
        assert app.clipboard == f"grpo-tui attach {run.folder.root.resolve()}"


async def test_on_a_chart_y_copies_its_newest_value(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(100, 40)) as pilot:
        await until(pilot, lambda: bool(app.view and app.view.charts))
        app.screen.query_one("#chart-0").focus()
        await pilot.pause()
        await pilot.press("y")
        assert app.view is not None
        assert app.clipboard == app.view.charts[0].value
