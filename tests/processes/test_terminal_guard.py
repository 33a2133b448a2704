"""Whatever ends the screen, the terminal is left clean and the run does not notice."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import signal
import sqlite3
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from grpo_tui.demo import DEMO_CONFIG
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.live import read_heartbeat
from grpo_tui.store.read_series import metric_rows
from grpo_tui.store.reader import RunReader
from grpo_tui.store.status import read_status
from tests import PATIENCE_S
from tests.family import below, gone, kill
from tests.processes.runs import LIVING, Screen, at_step, end, grpo_tui, until

pytestmark = pytest.mark.slow

COMPLETIONS = 16
"""Of each step of a small run."""


class Guarded(Screen):
    """The real program in a pseudo-terminal that outlives it, so that one can look at what it left."""

    def __init__(self, *words: str | Path, shell: bool = False) -> None:
        self._fd, self.line = pty.openpty()
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        self.settings = termios.tcgetattr(self.line)
        program = [sys.executable, "-m", "grpo_tui", *map(str, words)]
        if shell:
            program = ["bash", "--norc", "--noprofile", "-i"]
        self.output = b""
        self.pid = os.fork()
        if self.pid == 0:
            os.login_tty(os.dup(self.line))
            os.environ.update({"TERM": "xterm-256color", "PS1": "ready> ", "LC_ALL": "C.UTF-8"})
            os.execvp(program[0], program)

    @property
    def screen(self) -> psutil.Process:
        """The process that paints."""
        return until(lambda: psutil.Process(self.pid).children(), "the screen's process")[0]

    def exit_code(self) -> int:
        """Wait for the end; 128 + n for a signal n that ended the program itself."""
        ended: list[int] = []

        def look() -> bool:
            self.read(0.02)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            ended.extend([os.waitstatus_to_exitcode(status)] if pid else [])
            return bool(pid)

        until(look, "the end of the program")
        last = b"\0the end\0"  # behind all that the program wrote, which the terminal may still hand over
        os.write(self.line, last)
        until(lambda: (self.read(0.02), last in self.output)[1], "the program's last words")
        self.output = self.output.replace(last, b"")
        return ended[0]

    def forget(self) -> None:
        """Drop what was painted so far."""
        self.read(0.05)
        self.output = b""

    def assert_clean(self) -> None:
        """Line settings as before; mouse, paste and focus reports off, main screen, cursor on."""
        assert termios.tcgetattr(self.line) == self.settings
        for mode in ("1000", "1003", "1006", "1015", "2004", "1004", "1049"):
            on, off = f"\x1b[?{mode}h".encode(), f"\x1b[?{mode}l".encode()
            assert self.output.rfind(off) > self.output.rfind(on) >= 0, f"mode {mode} is still on"
        assert self.output.rfind(b"\x1b[?25h") > self.output.rfind(b"\x1b[?25l")
        assert self.output.rfind(b"\x1b[?7h") > self.output.rfind(b"\x1b[?7l")
        assert self.output.rfind(b"\x1b[<u") > self.output.rfind(b"\x1b[>")

    def parting(self) -> str:
        """What stands on the main screen after the program."""
        return self.output[self.output.rindex(b"\x1b[?1049l") :].decode(errors="replace")

    def close(self) -> None:
        """End what is left of the program, stopped or not, and take the terminal away."""
        kill(*below(self.pid), self.pid)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)
        for descriptor in (self._fd, self.line):
            os.close(descriptor)


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, int, str]]:
    """One run that goes on under all that is done to its viewers; how ctrl+c ended its first."""
    run = tmp_path_factory.mktemp("watched") / "a run, ünïcode"
    settings = [word for pair in LIVING for word in ("--set", pair)]
    words = ("train", str(DEMO_CONFIG), "--headless", "--quick-check", "--run-dir", str(run), *settings)
    followed = subprocess.Popen(
        [sys.executable, "-m", "grpo_tui", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert followed.stdout is not None
    while not followed.stdout.readline().startswith("step "):
        assert followed.poll() is None
    os.killpg(followed.pid, signal.SIGINT)  # as the terminal does
    _, said = followed.communicate(timeout=PATIENCE_S)
    yield run, followed.returncode, said
    end(run)


@pytest.fixture
def live(interrupted: tuple[Path, int, str]) -> Path:
    return interrupted[0]


@pytest.fixture
def watched(live: Path) -> Iterator[Guarded]:
    screen = Guarded("attach", live)
    screen.until("newest group")
    yield screen
    screen.close()


def assert_goes_on(run: Path, steps: int = 3) -> None:
    """The run does more steps, and holds every step once with all its completions."""
    before = read_status(run)
    at_step(run, before.step + steps)
    reader = RunReader(RunFolder(run).database)
    try:
        logged = [step for _, step, values in metric_rows(reader, limit=100_000) if "reward" in values]
        groups = [g for g in reader.iter_groups() if g.step <= logged[-1]]
    finally:
        reader.close()
    assert logged == list(range(1, len(logged) + 1))
    counts = dict.fromkeys(logged, 0)
    for group in groups:
        counts[group.step] += len(group.completions)
    assert set(counts.values()) == {COMPLETIONS}
    assert read_status(run).dropped == 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_killed_screen_leaves_a_clean_terminal_and_says_that_training_goes_on(
    live: Path, watched: Guarded, number: signal.Signals
) -> None:
    assert termios.tcgetattr(watched.line) != watched.settings, "the screen had taken the terminal"
    watched.screen.send_signal(number)
    assert watched.exit_code() == 128 + number
    watched.assert_clean()
    ending = "training continues. Watch it with `grpo-tui attach"
    assert f"the screen was killed by {number.name}; {ending}" in watched.parting()
    assert_goes_on(live)


@pytest.mark.parametrize(
    ("who", "number"),
    [
        ("guard", signal.SIGTERM),
        ("screen", signal.SIGTERM),
        ("guard", signal.SIGHUP),
        ("screen", signal.SIGHUP),
        ("both", signal.SIGHUP),
    ],
)
def test_a_signal_to_any_of_the_two_processes_ends_both_in_order(
    live: Path, watched: Guarded, who: str, number: signal.Signals
) -> None:
    screen = watched.screen
    {
        "guard": lambda: os.kill(watched.pid, number),
        "screen": lambda: screen.send_signal(number),
        "both": lambda: os.killpg(watched.pid, number),
    }[who]()
    assert watched.exit_code() == 0
    watched.assert_clean()
    assert watched.parting().count("training continues; `grpo-tui attach") == 1
    assert gone(screen)
    assert read_status(live).live


def test_leaving_by_key_says_where_the_run_is_and_passes_the_exit_code_on(watched: Guarded) -> None:
    watched.type("q")
    assert watched.exit_code() == 0
    watched.assert_clean()
    assert watched.parting().count("training continues") == 1
    assert "grpo-tui: " not in watched.parting()


def test_ctrl_z_and_fg_in_a_shell_and_a_killed_guard(live: Path) -> None:
    shell = Guarded(shell=True)
    shell.until("ready> ")
    shell.type(f"{sys.executable} -m grpo_tui attach '{live}'\n")
    shell.until("newest group")
    shell.forget()

    shell.type("\x1a")
    shell.until("Stopped")
    assert b"\x1b[?1049l" in shell.output
    assert b"\x1b[?1000l" in shell.output
    shell.type("echo $((40 + 2)) is said by the shell\n")
    shell.until("42 is said by the shell")
    assert_goes_on(live)

    shell.forget()
    shell.type("fg\n")
    shell.until("\x1b[?1049h")
    shell.until("newest group")  # all of it is painted anew, not only what has changed
    guard = psutil.Process(shell.pid).children()[0]
    screen = guard.children()[0]
    assert screen.status() != psutil.STATUS_STOPPED

    guard.kill()
    shell.until("Killed")
    until(lambda: gone(screen), "the screen's end")
    assert_goes_on(live)
    shell.type("exit\n")
    shell.exit_code()
    shell.close()


def test_a_screen_stopped_without_a_warning_is_painted_anew_and_leaves_by_its_key(watched: Guarded) -> None:
    screen, guard = watched.screen, psutil.Process(watched.pid)
    watched.forget()
    screen.suspend()
    until(lambda: guard.status() == psutil.STATUS_STOPPED, "the guard's stop")
    watched.until("\x1b[?1049l")
    assert termios.tcgetattr(watched.line) == watched.settings
    watched.forget()
    guard.resume()
    watched.until("\x1b[?1049h")  # what is typed before that is dropped with the old mode
    watched.output = watched.output[watched.output.rindex(b"\x1b[?1049h") :]
    watched.until("newest group")
    assert screen.status() != psutil.STATUS_STOPPED
    watched.type("q")
    assert watched.exit_code() == 0
    watched.assert_clean()


def test_ctrl_z_without_a_shell_behind_it_is_refused(live: Path, watched: Guarded) -> None:
    watched.type("\x1a")
    watched.until("Cannot suspend")
    assert watched.screen.status() != psutil.STATUS_STOPPED


def test_ctrl_c_never_reaches_the_trainer(live: Path, watched: Guarded) -> None:
    watched.type("\x03\x03")
    watched.until("q to leave")
    assert not gone(watched.screen)
    os.killpg(watched.pid, signal.SIGINT)  # as `kill -INT` to the whole job, past the keyboard
    assert watched.exit_code() == 0
    watched.assert_clean()
    assert "training continues" in watched.parting()
    assert_goes_on(live)
    assert not re.search("KeyboardInterrupt|stopp", (live / "train.log").read_text(errors="replace"))


def test_ctrl_c_in_headless_leaves_the_run_going_and_says_how_to_watch_and_stop_it(
    interrupted: tuple[Path, int, str],
) -> None:
    run, code, said = interrupted
    assert code == 130
    assert "Traceback" not in said
    assert (
        f"training continues. Watch it with `grpo-tui attach '{run}'`; "
        f"save and end it with `grpo-tui stop '{run}'`" in said
    )
    assert_goes_on(run)


def test_the_next_look_gives_a_run_whose_supervisor_was_killed_a_new_one(live: Path) -> None:
    folder = RunFolder(live)
    heartbeat = read_heartbeat(folder.heartbeat)
    assert heartbeat is not None
    os.kill(heartbeat.supervisor, signal.SIGKILL)
    until(lambda: not read_heartbeat(folder.heartbeat).supervisor_alive, "the supervisor's end")  # type: ignore[union-attr]
    assert not read_status(live).supervised
    assert_goes_on(live)
    assert not read_status(live).supervised

    assert "the supervisor was gone" in grpo_tui("status", live).stderr
    mended = until(lambda: (s := read_status(live)).supervised and s.pid and s, "a new supervisor")
    assert mended.pid != heartbeat.supervisor
    assert grpo_tui("status", live).stderr == ""
    assert_goes_on(live)


def test_eight_killed_screens_cost_no_step_and_no_completion(live: Path) -> None:
    for turn in range(8):
        screen = Guarded("attach", live)
        screen.until("\x1b[?1049h")
        screen.read(0.05 * turn)  # before the first look at the run, and in the middle of one
        screen.screen.kill()
        assert screen.exit_code() == 137
        screen.close()
    assert_goes_on(live, steps=10)


def test_a_terminal_that_is_gone_or_a_killed_guard_leaves_the_run_whole(live: Path) -> None:
    for leave in (Screen.hang_up, Screen.kill):
        watched = Screen("attach", live)
        watched.until("training")
        at_step(live, read_status(live).step + 1)
        leave(watched)
        assert_goes_on(live)


def test_two_viewers_at_once_see_the_same_run_and_one_of_them_may_die(live: Path, watched: Guarded) -> None:
    second = Guarded("attach", live)
    second.until("newest group")
    second.screen.kill()
    second.exit_code()
    second.close()
    watched.forget()
    assert_goes_on(live)
    until(lambda: (watched.read(0.1), len(watched.output) > 100)[1], "the other one's painting")


def test_a_stopped_viewer_blocks_no_write_and_holds_the_log_back_no_longer_than_it_is_stopped(
    live: Path, watched: Guarded
) -> None:
    database = sqlite3.connect(RunFolder(live).database)

    def all_merged() -> bool:
        _, frames, merged = database.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        return frames == merged

    for _ in range(4):
        watched.screen.suspend()
        at_step(live, read_status(live).step + 4)
        watched.screen.resume()
        os.kill(watched.pid, signal.SIGCONT)
        until(all_merged, "the log's way into the database")
    database.close()
    assert_goes_on(live)


def test_a_screen_that_does_not_leave_when_asked_is_ended(tmp_path: Path) -> None:
    stubborn = """
import signal, sys, time
from grpo_tui.cli import screen
screen.LAST_S = 1
def stubborn():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("up", flush=True)
    while True:
        time.sleep(0.1)
sys.exit(screen.guarded(stubborn, lambda: ""))
"""
    main, line = pty.openpty()
    guard = subprocess.Popen(
        [sys.executable, "-c", stubborn], stdin=line, stdout=line, stderr=line, start_new_session=True
    )
    try:
        assert b"up" in os.read(main, 100)
        guard.terminate()
        assert guard.wait(PATIENCE_S) == 137
    finally:
        guard.kill()
        os.close(main)
        os.close(line)
