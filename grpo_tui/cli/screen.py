"""Open the screen in a child, so that something is left to mend the terminal whatever ends the screen.

The parent does nothing but wait: it passes signals on, stops when the screen stops, and takes over the
screen's exit code. Imports as little as it can: whatever it imports, the first paint waits for.
"""

from __future__ import annotations

import contextlib
import ctypes
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
    """Where runs are looked for: `outputs/` and the current folder."""
    return [path for path in (Path("outputs"), Path(".")) if path.is_dir()]


def show(
    run: Path | None,
    roots: list[Path] | None = None,
    rewards: RewardsRequest | None = None,
    config: ConfigRequest | None = None,
) -> int:
    """Open the screen on what is given, else on the list; what ends it badly leaves the terminal whole."""
    return guarded(lambda: _screen(run, roots or default_roots(), rewards, config), lambda: _going_on(run))


def _screen(
    run: Path | None, roots: list[Path], rewards: RewardsRequest | None, config: ConfigRequest | None
) -> int:
    from grpo_tui.cli.plain import last_word
    from grpo_tui.ui.app import run_app

    parting = run_app(roots=roots, run=run, rewards=rewards, config=config)
    if parting:
        last_word(parting)
    return OK


def _going_on(run: Path | None) -> str:
    """What a screen that broke leaves behind, in a sentence; empty when nothing goes on."""
    from grpo_tui.core.text import one_line
    from grpo_tui.store.status import read_status

    if run is None:
        return "no run was affected. `grpo-tui runs` lists them"
    return (
        (f"training continues. Watch it with `grpo-tui attach {one_line(str(run))}`")
        if read_status(run).live
        else ""
    )


# -- the guard --------------------------------------------------------------------------------------

PASSED_ON = (signal.SIGTERM, signal.SIGHUP)
WAITED_FOR = (*PASSED_ON, signal.SIGALRM, signal.SIGCHLD)
LEFT_TO_THE_SCREEN = (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP)
"""The terminal sends them to both; the parent follows what the screen makes of them."""
SETTLE_S = 0.05
"""How long a signal sent to both may take to reach the second one."""
LAST_S = 10
"""How long a screen may take to leave after a signal; it gives itself three seconds."""
PR_SET_PDEATHSIG = 1


def guarded(screen: Callable[[], int], afterwards: Callable[[], str]) -> int:
    """Run `screen` in a child of this process and return its exit code.

    Returns in both processes: in the child with what `screen` returned, in the parent when the child has
    ended. Without a terminal, or when no process can be started, `screen` runs here.

    Args:
        screen: Shows the screen until it is left.
        afterwards: What a person should know when it ended badly, in a sentence; empty when nothing.
    """
    terminal = _terminal()
    if terminal is None:
        return screen()
    sys.stdout.flush()
    sys.stderr.flush()
    guard = os.getpid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # where it is ignored, nobody is told of a child's end
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
            signal.signal(number, signal.SIG_IGN)  # one that comes now would end this process before its work
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return _taken_over(status, terminal, afterwards)


def _ended(child: int, terminal: _Terminal) -> int:
    """Wait for the child's end, and do what signals ask for meanwhile; its status.

    They stay blocked and are taken one by one: a handler's signal could come right before the call that
    waits, and would be seen only after it.
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
    """Leave a clean terminal, and the child's exit code or 128 + n for a signal n."""
    code = os.waitstatus_to_exitcode(status)
    if code == OK:
        terminal.settle()
        return OK
    if code > 0:  # it left by its own way, and has said what was wrong
        terminal.give_back(main_screen=False)
        _say_end(f"the screen ended with exit code {code}", afterwards)
        return code
    terminal.give_back(main_screen=True, title=True)
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    _say_end(f"the screen was killed by {name}", afterwards)
    return 128 - code


def _stop_with(child: int, terminal: _Terminal) -> None:
    """Stop as the child did, for the shell looks at this process; continue the child when continued alone."""
    time.sleep(SETTLE_S)
    if not _is_stopped(child):  # both were continued before this process looked
        return
    terminal.give_back(main_screen=True)  # SIGSTOP left the screen no time to do it
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
    """Pass a signal on; a screen that has not left some seconds later is ended, or it would stay for ever."""
    _send(child, number)
    signal.alarm(LAST_S)


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _leave_with(guard: int) -> None:
    """Have SIGTERM sent to this process when the guard dies: two must not read one terminal.

    `prctl(PR_SET_PDEATHSIG)`, see prctl(2).
    """
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    if os.getppid() != guard:
        os.kill(os.getpid(), signal.SIGTERM)


def _say_end(what: str, afterwards: Callable[[], str]) -> None:
    try:
        more = afterwards()
    except Exception:  # what cannot be read is not said to go on
        more = ""
    with contextlib.suppress(OSError, ValueError):  # the terminal may be gone
        print(f"grpo-tui: {what}{'; ' if more else ''}{more}", file=sys.stderr, flush=True)


class _Terminal:
    """The terminal as it was before the screen."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._attributes: list[Any] = termios.tcgetattr(descriptor)

    def settle(self) -> None:
        """Put its line settings back, should they have changed."""
        with contextlib.suppress(OSError, termios.error):  # the terminal may be gone
            if self._is_ours() and termios.tcgetattr(self._descriptor) != self._attributes:
                termios.tcsetattr(self._descriptor, termios.TCSANOW, self._attributes)

    def give_back(self, *, main_screen: bool, title: bool = False) -> None:
        """Undo every mode and drop mouse reports that nobody read.

        Args:
            main_screen: Leave the alternate screen too.
            title: Put the terminal's title back too.
        """
        from grpo_tui.ui.restore import MODES, RESTORE, TITLE_BACK

        with contextlib.suppress(OSError, termios.error):
            if self._is_ours():
                undo = (RESTORE if main_screen else MODES) + (TITLE_BACK if title else "")
                os.write(self._descriptor, undo.encode())
                termios.tcflush(self._descriptor, termios.TCIFLUSH)
        self.settle()

    def _is_ours(self) -> bool:
        """False in the background, where the terminal is the shell's to set."""
        return os.tcgetpgrp(self._descriptor) == os.getpgrp()


def _terminal() -> _Terminal | None:
    for stream in (sys.__stderr__, sys.__stdin__, sys.__stdout__):
        with contextlib.suppress(OSError, ValueError, AttributeError, termios.error):
            return _Terminal(stream.fileno())  # type: ignore[union-attr]
    return None
