"""A process that has imported a program and only forks, so that a child is available at once.

Importing torch and transformers takes seconds, a fork milliseconds. A child that hangs is killed and the next
one forked. User code never runs in the forker itself. All users of a program in this process share one
forker. It ends with the last of them, or when this process is gone.

The first half is the parent's side. The program itself runs `fork_children`.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

import psutil

from grpo_tui.children.pipe import END_S, StartError
from grpo_tui.children.serving import Send, leave_with_parent, serve

_MESSAGE_BYTES = 1 << 20
_WAIT_S = 2.0
"""How long to wait for killed orphans."""
_PR_SET_CHILD_SUBREAPER = 36
_lock = threading.RLock()
_shared: dict[str, Forker] = {}


class Forker:
    """A forking process. Get one with `acquire` and return it with `release`."""

    def __init__(self, module: str) -> None:
        self.users = 0
        self._module = module
        self._printed = tempfile.TemporaryFile("a+b")  # noqa: SIM115 - closed by close()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-u", "-P", "-m", module, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=self._printed,
                stderr=subprocess.STDOUT,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        self._ready = False

    @classmethod
    def acquire(cls, module: str, limit_s: float) -> Forker:
        """Return the forker of a program, starting it if needed, once its imports are done.

        Raises:
            StartError: It ended, or was not ready within the limit.
        """
        with _lock:
            forker = _shared.get(module)
            if forker is None or not forker.lives():
                forker = _shared[module] = cls(module)
            forker.users += 1
            try:
                forker._await_ready(limit_s)
            except StartError:
                forker.close()
                raise
        return forker

    def release(self) -> None:
        """Return the forker. It ends with its last user."""
        with _lock:
            self.users -= 1
            if self.users <= 0:
                self.close()

    def close(self) -> None:
        """End the forker."""
        with _lock:
            if _shared.get(self._module) is self:
                del _shared[self._module]
            self._socket.close()
            if self._process.poll() is None:
                self._process.kill()
            self._process.wait()
            self._printed.close()

    def lives(self) -> bool:
        """Return whether it can fork."""
        return self._socket.fileno() >= 0 and self._process.poll() is None

    def fork(self, folder: str, requests: int, answers: int, output: int) -> int:
        """Fork a child, as in `Starter.fork`. Raises StartError when the forker is gone."""
        message = {"do": "fork", "folder": folder, "environment": dict(os.environ)}
        return int(self._ask(message, [requests, answers, output]))

    def exit_code(self, pid: int) -> int:
        """Wait for a child to end, as in `Starter.exit_code`."""
        return int(self._ask({"do": "wait", "pid": pid}))

    def _ask(self, message: dict[str, Any], descriptors: list[int] | None = None) -> str:
        with _lock:
            try:
                socket.send_fds(self._socket, [json.dumps(message).encode()], descriptors or [])
                answer = self._socket.recv(_MESSAGE_BYTES)
            except OSError as error:
                raise StartError(self._last_words()) from error
        if not answer:
            raise StartError(self._last_words())
        return answer.decode()

    def _await_ready(self, limit_s: float) -> None:
        if self._ready:
            return
        self._socket.settimeout(limit_s)
        try:
            answer = self._socket.recv(_MESSAGE_BYTES)
        except OSError as error:
            raise StartError(f"it was not ready within {limit_s:g} s") from error
        self._socket.settimeout(None)
        if not answer:
            raise StartError(self._last_words())
        self._ready = True

    def _last_words(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(END_S)
        descriptor = self._printed.fileno()
        size = os.fstat(descriptor).st_size
        text = os.pread(descriptor, min(size, 4000), max(0, size - 4000)).decode("utf-8", "replace").strip()
        return text.splitlines()[-1] if text else f"it ended with code {self._process.poll()}"


def fork_children(descriptor: int, prepare: Callable[[], None], child_of: Callable[[Send], Any]) -> None:
    """Fork a child for each request on the parent's socket `descriptor`, until the parent closes its end.

    `prepare` imports what every child needs. `child_of` is as in `serve`.
    """
    control = socket.socket(fileno=descriptor)
    control.set_inheritable(False)
    gc.disable()  # collecting the imported objects, which all stay, would take a tenth of the time
    prepare()
    gc.collect()
    gc.freeze()  # keeps imported objects shared with the children
    gc.enable()
    adopt_orphans()
    children: set[int] = set()
    control.send(b"ready")
    while True:
        data, descriptors, _, _ = socket.recv_fds(control, _MESSAGE_BYTES, 3)
        if not data:
            return _end_orphans()
        request = json.loads(data)
        if request["do"] == "wait":
            code = 0
            with contextlib.suppress(ChildProcessError):
                code = os.waitstatus_to_exitcode(os.waitpid(request["pid"], 0)[1])
            children.discard(request["pid"])
            _end_orphans(children)
            control.send(str(code).encode())
            continue
        forker = os.getpid()
        pid = os.fork()
        if pid == 0:
            control.close()
            _become_child(request, descriptors, forker, child_of)
        children.add(pid)
        for theirs in descriptors:
            os.close(theirs)
        control.send(str(pid).encode())


def adopt_orphans() -> None:
    """Become the parent of orphaned descendants, even in other sessions (prctl(2), Linux)."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _end_orphans(but: Collection[int] = ()) -> None:
    """Kill and reap this process's children and their descendants, except those in `but`."""
    end = time.monotonic() + _WAIT_S
    while left := [child for child in psutil.Process().children() if child.pid not in but]:
        for child in left:
            with contextlib.suppress(psutil.Error):
                for process in (*child.children(recursive=True), child):
                    process.kill()
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child.pid, os.WNOHANG)
        if time.monotonic() > end:
            return  # it respawns faster than it is killed, or cannot be killed
        time.sleep(0.002)


def _become_child(
    request: Mapping[str, Any], descriptors: list[int], forker: int, child_of: Callable[[Send], Any]
) -> None:
    requests, answers, output = descriptors
    os.setsid()
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    sys.path.insert(0, request["folder"])
    leave_with_parent(forker)
    try:
        serve(requests, answers, child_of)
    finally:
        os._exit(0)  # even if a reward left threads running
