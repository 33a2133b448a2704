"""A process that has torch imported and does nothing but fork: so that a lab's child is there at once.

Importing torch and transformers takes seconds, a fork takes milliseconds. A child that hung is killed and the
next one forked; nothing of the person's code ever runs in the nursery itself. All labs of this process share
one; it ends with the last of them, and by itself when this process is gone.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from typing import Any

_MESSAGE_BYTES = 1 << 20
_lock = threading.RLock()
_shared: list[Nursery] = []


class NurseryError(RuntimeError):
    """The nursery cannot start or is gone; the message says what it printed last."""


class Nursery:
    """One such process; take it with `acquire`, give it back with `release`."""

    def __init__(self) -> None:
        self.users = 0
        self._printed = tempfile.TemporaryFile("a+b")  # noqa: SIM115 - closed by close()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-u", "-P", "-m", "grpo_tui.rewards.lab_child", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=self._printed,
                stderr=subprocess.STDOUT,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        self._ready = False

    @classmethod
    def acquire(cls, limit_s: float) -> Nursery:
        """Return the nursery of this process, started when there is none, once its imports are done.

        Raises:
            NurseryError: it ended, or was not ready within the limit.
        """
        with _lock:
            if not _shared or not _shared[0].lives():
                _shared[:] = [cls()]
            nursery = _shared[0]
            nursery.users += 1
            try:
                nursery._await_ready(limit_s)
            except NurseryError:
                nursery.close()
                raise
        return nursery

    def release(self) -> None:
        """Give it back; the last user's ends it."""
        with _lock:
            self.users -= 1
            if self.users <= 0:
                self.close()

    def close(self) -> None:
        """End it."""
        with _lock:
            if self in _shared:
                _shared.remove(self)
            self._socket.close()
            if self._process.poll() is None:
                self._process.kill()
            self._process.wait()
            self._printed.close()

    def lives(self) -> bool:
        """Return whether it can fork."""
        return self._socket.fileno() >= 0 and self._process.poll() is None

    def fork(self, folder: str, requests: int, answers: int, output: int) -> int:
        """Start a child in a session of its own and return its process id.

        Args:
            folder: its working folder.
            requests: descriptor that it reads requests from.
            answers: descriptor that it writes answers to.
            output: its standard output and error.

        Raises:
            NurseryError: the nursery is gone.
        """
        message = {"do": "fork", "folder": folder, "environment": dict(os.environ)}
        return int(self._ask(message, [requests, answers, output]))

    def exit_code(self, pid: int) -> int:
        """Wait for a child's end; return its exit code, negative for a signal as `subprocess` has it."""
        return int(self._ask({"do": "wait", "pid": pid}))

    def _ask(self, message: dict[str, Any], descriptors: list[int] | None = None) -> str:
        with _lock:
            try:
                socket.send_fds(self._socket, [json.dumps(message).encode()], descriptors or [])
                answer = self._socket.recv(_MESSAGE_BYTES)
            except OSError as error:
                raise NurseryError(self._last_words()) from error
        if not answer:
            raise NurseryError(self._last_words())
        return answer.decode()

    def _await_ready(self, limit_s: float) -> None:
        if self._ready:
            return
        self._socket.settimeout(limit_s)
        try:
            answer = self._socket.recv(_MESSAGE_BYTES)
        except OSError as error:
            raise NurseryError(f"it was not ready within {limit_s:g} s") from error
        self._socket.settimeout(None)
        if not answer:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(5)
            raise NurseryError(self._last_words())
        self._ready = True

    def _last_words(self) -> str:
        descriptor = self._printed.fileno()
        size = os.fstat(descriptor).st_size
        text = os.pread(descriptor, min(size, 4000), max(0, size - 4000)).decode("utf-8", "replace").strip()
        return text.splitlines()[-1] if text else f"it ended with code {self._process.poll()}"
