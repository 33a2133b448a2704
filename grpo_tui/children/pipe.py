"""One child process and its pipes: JSON lines, each with a time limit.

The child has its own session. Killing it also kills everything it started, including what has left the
session.
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
"""How often a silent child is checked: a process it forked can keep its end of the pipe open."""
END_S = 1.0
"""How long to wait for a child to end after its pipe closes, which happens slightly earlier."""


class StartError(RuntimeError):
    """A child cannot be started. The message says why."""


class Starter(Protocol):
    """Starts children, either by forking or as new processes."""

    def fork(self, folder: str, requests: int, answers: int, output: int) -> int:
        """Start a child in a session of its own and return its process id.

        It reads requests from one descriptor and writes answers to another; `output` is its stdout and
        stderr.

        Raises:
            StartError: It cannot be started.
        """
        ...

    def exit_code(self, pid: int) -> int:
        """Wait for a child to end and return its exit code, negative for a signal as in `subprocess`."""
        ...


class ModuleStarter:
    """Starts one child as a new process: `python -m MODULE FOLDER REQUESTS ANSWERS`.

    A forked child could not use a GPU, and would keep its parent's imports in memory. `-P` keeps it from
    importing from the working folder before it is asked to load user code.
    """

    def __init__(self, module: str) -> None:
        self._module = module
        self._process: subprocess.Popen[bytes] | None = None

    def fork(self, folder: str, requests: int, answers: int, output: int) -> int:
        """Start the child, as in `Starter.fork`."""
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
        """Wait for the child to end, as in `Starter.exit_code`."""
        assert self._process is not None
        return self._process.wait()


class ChildGoneError(RuntimeError):
    """The child ended by itself."""


class ChildHungError(RuntimeError):
    """The child did not respond in time, and was killed. `output` is the last part of what it printed."""

    def __init__(self, message: str, output: str = "") -> None:
        super().__init__(message)
        self.output = output


class ChildPipe:
    """A child process, started at once in a working folder, and its pipes.

    Raises:
        StartError: It cannot be started.
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
            ChildGoneError, ChildHungError: The child does not read it.
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
            ChildGoneError: The child ended, or its message is not valid.
            ChildHungError: Nothing arrived within `limit_s` seconds. The child has been killed.
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
            self.kill()  # a reward changed the child's protocol code, or wrote into the pipe
            raise ChildGoneError("it changed the program itself, so that no answer came through") from None

    def ready(self, within_s: float) -> bool:
        """Return whether the child says something or ends within this time. Does not kill it."""
        return b"\n" in self._unread or bool(select.select([self._answers], [], [], within_s)[0])

    @property
    def killed(self) -> bool:
        """Whether `kill` was called."""
        return self._killed

    def mark(self, start: int) -> None:
        """Set the byte of the child's output at which `output` begins."""
        self._call_start = start

    def output(self) -> str:
        """Return what was printed since the last mark, at most the last 4000 bytes."""
        descriptor = self._printed.fileno()
        size = os.fstat(descriptor).st_size
        start = min(max(self._call_start, size - 4000), size)
        return os.pread(descriptor, size - start, start).decode("utf-8", "replace")

    def kill(self) -> None:
        """Kill the child and everything it started."""
        if self._killed:  # once only: the pid may be reused later
            return
        self._killed = True
        with contextlib.suppress(OSError):
            os.killpg(self.pid, signal.SIGSTOP)  # so that it starts nothing while its children are listed
        family = []
        with contextlib.suppress(psutil.Error):
            family = [child.pid for child in psutil.Process(self.pid).children(recursive=True)]
        with contextlib.suppress(OSError):
            os.killpg(self.pid, signal.SIGKILL)
        for pid in (self.pid, *family):  # the child too: it may not lead its session yet
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)

    def close(self) -> None:
        """Kill the child, wait for it to end and close the pipes."""
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
        lived = not self._ended(END_S)  # it closed its pipe but is still running
        output = self.output().strip()
        self.kill()  # including what it started
        code = self._exit_code()
        names = {int(number): number.name for number in signal.Signals}
        how = f"exit code {code}"
        if lived and code == -signal.SIGKILL:
            how = "it closed its connection to grpo-tui, and was killed"
        elif code is None or code < 0:
            how = f"killed by {names.get(-(code or 0), f'signal {-(code or 0)}')}"
        last = output.splitlines()[-1] if output else ""
        return ChildGoneError(how + (f"; it said: {last[:300]}" if last else ""))
