"""Open the screen in a child process, so that the parent can restore the terminal however the screen ends.

The parent only waits. It forwards signals, stops when the screen stops, and returns the screen's exit code.
It imports as little as possible, because imports delay the first paint.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import signal
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grpo_tui.cli.errors import OK

if TYPE_CHECKING:
    from grpo_tui.ui.requests import ConfigRequest, RewardsRequest


def default_roots() -> list[Path]:
    """Return the default folders with runs: `outputs/` and the current folder."""
    return [path for path in (Path("outputs"), Path(".")) if path.is_dir()]


def show(
    run: Path | None,
    roots: list[Path] | None = None,
    rewards: RewardsRequest | None = None,
    config: ConfigRequest | None = None,
) -> int:
    """Open the screen on a run, rewards or a config, else on the list of runs."""
    return guarded(lambda: _screen(run, roots or default_roots(), rewards, config), lambda: _going_on(run))


def _screen(
    run: Path | None, roots: list[Path], rewards: RewardsRequest | None, config: ConfigRequest | None
) -> int:
    gc.disable()  # imports leave no garbage; looking for it takes a twentieth of the time to the first paint
    from grpo_tui.cli.plain import last_word
    from grpo_tui.ui.app import run_app

    parting = run_app(roots=roots, run=run, rewards=rewards, config=config)
    if parting:
        last_word(parting)
    return OK


def _going_on(run: Path | None) -> str:
    """Return what to say after the screen crashed. Empty if the run is not live."""
    from grpo_tui.core.text import one_line
    from grpo_tui.store.layout import RunFolder
    from grpo_tui.store.replay import is_replayed
    from grpo_tui.store.status import read_status

    if run is None or is_replayed(RunFolder(run).database):
        return "no run was affected. `grpo-tui runs` lists them"
    return (
        (f"training continues. Watch it with `grpo-tui attach {one_line(str(run))}`")
        if read_status(run).live
        else ""
    )


PASSED_ON = (signal.SIGTERM, signal.SIGHUP)
WAITED_FOR = (*PASSED_ON, signal.SIGALRM, signal.SIGCHLD)
LEFT_TO_THE_SCREEN = (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP)
"""The terminal sends these to both processes. The parent ignores them and follows the screen."""
SETTLE_S = 0.05
"""Time for a signal sent to both processes to reach the second."""
LAST_S = 10
"""Time for the screen to exit after a signal. It allows itself three seconds."""
PR_SET_PDEATHSIG = 1


def guarded(screen: Callable[[], int], afterwards: Callable[[], str]) -> int:
    """Run `screen` in a child process and return its exit code.

    Returns in both processes: in the child after `screen`, in the parent after the child has exited. Without
    a terminal, or if the fork fails, `screen` runs in this process.

    Args:
        afterwards: Returns what to say if it ended badly, or an empty string.
    """
    terminal = _terminal()
    if terminal is None:
        return screen()
    sys.stdout.flush()
    sys.stderr.flush()
    guard = os.getpid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # if ignored, waitpid cannot tell how the child ended
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {*WAITED_FOR, *LEFT_TO_THE_SCREEN})
    try:
        child = os.fork()
    except OSError:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        return screen()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        _leave_with(guard)
        return screen()
    for number in LEFT_TO_THE_SCREEN:
        signal.signal(number, signal.SIG_IGN)
    try:
        status = _ended(child, terminal)
    finally:
        for number in (*PASSED_ON, signal.SIGALRM):
            signal.signal(number, signal.SIG_IGN)  # or it would end before it restores the terminal
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return _taken_over(status, terminal, afterwards)


def _ended(child: int, terminal: _Terminal) -> int:
    """Wait for the child and forward signals. Return its status.

    Signals stay blocked and are taken one by one. A handler could run just before the waiting call, which
    would then miss the signal.
    """
    while True:
        pid, status = os.waitpid(child, os.WUNTRACED | os.WNOHANG)
        if pid and not os.WIFSTOPPED(status):
            return status
        if pid:
            _stop_with(child, terminal)
            continue
        number = signal.sigwait(WAITED_FOR)
        if number in PASSED_ON:
            _ask_to_leave(child, number)
        elif number == signal.SIGALRM:
            _send(child, signal.SIGKILL)


def _taken_over(status: int, terminal: _Terminal, afterwards: Callable[[], str]) -> int:
    """Restore the terminal. Return the child's exit code, or 128 + n for signal n."""
    code = os.waitstatus_to_exitcode(status)
    if code == OK:
        terminal.settle()
        return OK
    if code > 0:  # it exited by itself and reported its error
        terminal.give_back(main_screen=False)
        _say_end(f"the screen ended with exit code {code}", afterwards)
        return code
    terminal.give_back(main_screen=True, title=True)
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    _say_end(f"the screen was killed by {name}", afterwards)
    return 128 - code


def _stop_with(child: int, terminal: _Terminal) -> None:
    """Stop like the child, because the shell watches this process. Then continue the child if needed."""
    time.sleep(SETTLE_S)
    if not _is_stopped(child):  # both were continued in the meantime
        return
    terminal.give_back(main_screen=True)  # SIGSTOP gave the screen no time for it
    os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(SETTLE_S)
    if _is_stopped(child):
        _send(child, signal.SIGCONT)


def _is_stopped(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] == "T"
    except (OSError, IndexError):
        return False


def _ask_to_leave(child: int, number: int) -> None:
    """Forward a signal. A screen that does not exit within `LAST_S` is killed."""
    _send(child, number)
    signal.alarm(LAST_S)


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _leave_with(guard: int) -> None:
    """Send SIGTERM to this process when the guard dies, because two processes must not read one terminal.

    Uses `prctl(PR_SET_PDEATHSIG)`, see prctl(2).
    """
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    if os.getppid() != guard:
        os.kill(os.getpid(), signal.SIGTERM)


def _say_end(what: str, afterwards: Callable[[], str]) -> None:
    try:
        more = afterwards()
    except Exception:  # say nothing about a run that cannot be read
        more = ""
    with contextlib.suppress(OSError, ValueError):  # the terminal may be gone
        print(f"grpo-tui: {what}{'; ' if more else ''}{more}", file=sys.stderr, flush=True)


class _Terminal:
    """The state of the terminal before the screen."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._attributes: list[Any] = termios.tcgetattr(descriptor)

    def settle(self) -> None:
        """Restore its line settings."""
        with contextlib.suppress(OSError, termios.error):  # the terminal may be gone
            if self._is_ours() and termios.tcgetattr(self._descriptor) != self._attributes:
                termios.tcsetattr(self._descriptor, termios.TCSANOW, self._attributes)

    def give_back(self, *, main_screen: bool, title: bool = False) -> None:
        """Undo all modes and drop unread mouse reports.

        Args:
            main_screen: Also leave the alternate screen.
            title: Also restore the terminal's title.
        """
        from grpo_tui.ui.restore import MODES, RESTORE, TITLE_BACK

        with contextlib.suppress(OSError, termios.error):
            if self._is_ours():
                undo = (RESTORE if main_screen else MODES) + (TITLE_BACK if title else "")
                os.write(self._descriptor, undo.encode())
                termios.tcflush(self._descriptor, termios.TCIFLUSH)
        self.settle()

    def _is_ours(self) -> bool:
        """Return whether this process is in the foreground. In the background the shell owns the terminal."""
        return os.tcgetpgrp(self._descriptor) == os.getpgrp()


def _terminal() -> _Terminal | None:
    for stream in (sys.__stderr__, sys.__stdin__, sys.__stdout__):
        with contextlib.suppress(OSError, ValueError, AttributeError, termios.error):
            return _Terminal(stream.fileno())  # type: ignore[union-attr]
    return None
