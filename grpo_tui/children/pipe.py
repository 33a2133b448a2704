"""One child process and the pipes to it: lines of JSON, each awaited no longer than allowed.

The child has a session of its own; killing it kills all that it started, also what left the session.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from typing import Any, Protocol

import psutil

_CHUNK = 1 << 20
LOOK_S = 0.5
"""How often a silent child is looked at: what it has forked can hold its end of the pipe open."""
END_S = 1.0
"""How long a child's end is awaited once its pipe is closed: a killed one's is closed before it has ended."""


class StartError(RuntimeError):
    """A child cannot be started; the message says why."""


class Starter(Protocol):
    """What starts children: by a fork, or afresh."""

    def fork(self, folder: str, requests: int, answers: int, output: int) -> int:
        """Start a child in a session of its own and return its process id.

        Args:
            folder: its working folder.
            requests: descriptor that it reads requests from.
            answers: descriptor that it writes answers to.
            output: its standard output and error.

        Raises:
            StartError: it cannot be started.
        """
        ...

    def exit_code(self, pid: int) -> int:
        """Wait for a child's end; return its exit code, negative for a signal as `subprocess` has it."""
        ...


class ModuleStarter:
    """Starts one child afresh as `python -m MODULE FOLDER REQUESTS ANSWERS`.

    What was forked could not use a GPU, and would hold what its parent has imported. With `-P` it imports
    nothing from the working folder before it is asked to load the user's code.

    Args:
        module: the child's package.
    """

    def __init__(self, module: str) -> None:
        self._module = module
        self._process: subprocess.Popen[bytes] | None = None

    def fork(self, folder: str, requests: int, answers: int, output: int) -> int:
        """See `Starter.fork`."""
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-u", "-P", "-m", self._module, folder, str(requests), str(answers)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=(requests, answers),
                start_new_session=True,
            )
        except OSError as error:
            raise StartError(str(error)) from error
        return self._process.pid

    def exit_code(self, pid: int) -> int:
        """See `Starter.exit_code`."""
        assert self._process is not None
        return self._process.wait()


class ChildGoneError(RuntimeError):
    """The child ended by itself."""


class ChildHungError(RuntimeError):
    """The child gave no sign within its time, and was killed.

    Attributes:
        output: the end of what it had printed.
    """

    def __init__(self, message: str, output: str = "") -> None:
        super().__init__(message)
        self.output = output


class ChildPipe:
    """Starts the child at once.

    Args:
        starter: starts it.
        folder: its working folder.

    Raises:
        StartError: it cannot be started.
    """

    def __init__(self, starter: Starter, folder: str) -> None:
        self._starter = starter
        self._printed = tempfile.TemporaryFile("a+b")  # noqa: SIM115 - closed by close()
        child_reads, self._requests = os.pipe()
        self._answers, child_writes = os.pipe()
        try:
            self.pid = starter.fork(folder, child_reads, child_writes, self._printed.fileno())
        finally:
            os.close(child_reads)
            os.close(child_writes)
        os.set_blocking(self._requests, False)
        self._unread = bytearray()
        self._call_start = 0
        self._killed = False
        self._code: int | None = None

    def send(self, message: Mapping[str, Any], limit_s: float) -> None:
        """Write one message.

        Raises:
            ChildGoneError, ChildHungError: the child does not take it.
        """
        self.mark(os.fstat(self._printed.fileno()).st_size)
        data = memoryview((json.dumps(message, default=str) + "\n").encode())
        end = time.monotonic() + limit_s
        while data:
            try:
                data = data[os.write(self._requests, data) :]
            except BlockingIOError:
                if not select.select([], [self._requests], [], max(0.0, end - time.monotonic()))[1]:
                    raise self._hung() from None
            except OSError:
                raise self._gone() from None

    def receive(self, limit_s: float) -> dict[str, Any]:
        """Read one message.

        Raises:
            ChildGoneError: the child ended, or what it says cannot be read.
            ChildHungError: nothing came within `limit_s` seconds; the child has been killed.
        """
        end = time.monotonic() + limit_s
        searched = 0
        while (newline := self._unread.find(b"\n", searched)) < 0:
            searched = len(self._unread)
            left = max(0.0, end - time.monotonic())
            if not select.select([self._answers], [], [], min(left, LOOK_S))[0]:
                if self._ended():
                    raise self._gone()
                if left <= LOOK_S:
                    raise self._hung()
                continue
            chunk = os.read(self._answers, _CHUNK)
            if not chunk:
                raise self._gone()
            self._unread += chunk
        line = bytes(self._unread[:newline])
        del self._unread[: newline + 1]
        try:
            return dict(json.loads(line))
        except ValueError:
            self.kill()  # a reward has changed what the child speaks with, or wrote in between
            raise ChildGoneError("it changed the program itself, so that no answer came through") from None

    def ready(self, within_s: float) -> bool:
        """Return whether the child has said something, or ended, within some seconds; it is not killed."""
        return b"\n" in self._unread or bool(select.select([self._answers], [], [], within_s)[0])

    @property
    def killed(self) -> bool:
        """Whether `kill` was called."""
        return self._killed

    def mark(self, start: int) -> None:
        """Let `output` begin at this byte of what was printed."""
        self._call_start = start

    def output(self) -> str:
        """Return what was printed since the last mark."""
        descriptor = self._printed.fileno()
        size = os.fstat(descriptor).st_size
        start = min(max(self._call_start, size - 4000), size)
        return os.pread(descriptor, size - start, start).decode("utf-8", "replace")

    def kill(self) -> None:
        """Kill the child and everything it started."""
        if self._killed:  # once only: later the number can belong to someone else
            return
        self._killed = True
        with contextlib.suppress(OSError):
            os.killpg(self.pid, signal.SIGSTOP)  # so that it starts nothing while its children are counted
        family = []
        with contextlib.suppress(psutil.Error):
            family = [child.pid for child in psutil.Process(self.pid).children(recursive=True)]
        with contextlib.suppress(OSError):
            os.killpg(self.pid, signal.SIGKILL)
        for pid in (self.pid, *family):  # itself too: it may not have come to lead a session yet
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)

    def close(self) -> None:
        """Kill the child, wait for its end and close the pipes."""
        self.kill()
        self._exit_code()
        for descriptor in (self._requests, self._answers):
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self._printed.close()

    def _ended(self, within_s: float = 0.0) -> bool:
        until = time.monotonic() + within_s
        with contextlib.suppress(psutil.Error):  # no such process any more
            while psutil.Process(self.pid).status() != psutil.STATUS_ZOMBIE:
                if time.monotonic() >= until:
                    return False
                time.sleep(0.01)
        return True

    def _exit_code(self) -> int | None:
        if self._code is None:
            with contextlib.suppress(StartError):
                self._code = self._starter.exit_code(self.pid)
        return self._code

    def _hung(self) -> ChildHungError:
        output = self.output().strip()
        self.kill()
        return ChildHungError("no answer in time", output)

    def _gone(self) -> ChildGoneError:
        lived = not self._ended(END_S)  # it has closed its pipe and lives on
        output = self.output().strip()
        self.kill()  # and what it started goes too
        code = self._exit_code()
        names = {int(number): number.name for number in signal.Signals}
        how = f"exit code {code}"
        if lived and code == -signal.SIGKILL:
            how = "it closed its connection to grpo-tui, and was killed"
        elif code is None or code < 0:
            how = f"killed by {names.get(-(code or 0), f'signal {-(code or 0)}')}"
        last = output.splitlines()[-1] if output else ""
        return ChildGoneError(how + (f"; it said: {last[:300]}" if last else ""))
