"""Run the program's commands in forks of a process that has imported TRL, for tests of what a run does.

The import takes a trainer three of its five seconds. A fork has a process id, a session and signals of its
own, as a new process has; its command line, and the environment that others can read, are its parent's.
What cannot be forked, for another environment, a thread or an open database, is executed as ever.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import io
import itertools
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
import warnings
import weakref
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests import PATIENCE_S

ROOT = Path(__file__).parents[1]
IMPORTED = (
    "trl.trainer.grpo_trainer", "datasets", "peft", "grpo_tui.train.build", "grpo_tui.train.devices",
    "grpo_tui.train.drills", "grpo_tui.train.resume", "grpo_tui.train.session", "grpo_tui.train.worker",
    "grpo_tui.data.load", "grpo_tui.rewards.loading", "grpo_tui.supervisor.watch", "grpo_tui.cli.start",
    "grpo_tui.cli.headless", "grpo_tui.cli.look", "grpo_tui.cli.steer", "grpo_tui.preflight.run",
    "accelerate.commands.launch", "torch.distributed.run",
)  # fmt: skip
PROGRAMS = ("grpo_tui", "accelerate.commands.launch")
"""Beginnings of the modules that can be forked."""
HARMLESS = (
    "GRPO_TUI_", "PYTEST_", "COLUMNS", "LINES", "PYTHONUNBUFFERED", "ACCELERATE_", "TORCHELASTIC_",
    "TORCH_NCCL_", "MASTER_", "WORLD_SIZE", "RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_", "ROLE_",
)  # fmt: skip
"""Beginnings of names in the environment that nothing reads while it is imported."""
WITHOUT_THREADS = {"JE_ARROW_MALLOC_CONF": "background_thread:false", "OPENBLAS_NUM_THREADS": "1"}
"""Keeps pyarrow from starting a thread, which would not be in a fork."""
HOLDING_NOTHING = {"MainThread", "hardware"}
"""Threads beside which a fork works: a supervisor's samples hold no lock that a trainer takes."""
_BYTES = 1 << 20
wanted = False
"""Whether `run` forks."""


def run(
    command: Sequence[str], cwd: Path | None = None, timeout_s: float = PATIENCE_S
) -> subprocess.CompletedProcess[str]:
    """Run `python COMMAND`, a module or a script, as `subprocess.run` does."""
    environment = dict(os.environ)
    if not wanted or not alike(environment, (server := _server()).environment):
        return subprocess.run(
            [sys.executable, *command], capture_output=True, text=True, timeout=timeout_s,
            stdin=subprocess.DEVNULL, cwd=cwd, check=False,
        )  # fmt: skip
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        ours, theirs = os.pipe()
        with open(ours, "rb") as told:
            os.umask(mask := os.umask(0))
            request = {"command": command, "cwd": str(cwd or Path.cwd()), "environment": environment}
            request["umask"] = mask
            descriptors = [out.fileno(), err.fileno(), theirs]
            socket.send_fds(server.control, [json.dumps(request).encode()], descriptors)
            os.close(theirs)
            pid = int(told.readline())
            if not select.select([told], [], [], timeout_s)[0]:
                os.kill(pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(command, timeout_s)
            code = int(told.readline() or -signal.SIGKILL)
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(command, code, out.read().decode(), err.read().decode())


def alike(environment: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Return whether what is imported in one environment is as if it were in the other."""
    changed = {name for name, _ in environment.items() ^ other.items()}
    return all(name.startswith(HARMLESS) for name in changed)


class _Server:
    """The process that has imported TRL. It ends with this one."""

    def __init__(self) -> None:
        self.environment = dict(os.environ)
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.forked", str(theirs.fileno()), "grpo_tui.train.worker"],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                cwd=ROOT,
                env={**self.environment, **WITHOUT_THREADS},
            )
        assert self.control.recv(_BYTES), "TRL was not imported"


@functools.cache
def _server() -> _Server:
    return _Server()


# -- the process that forks ----------------------------------------------------------------------


def _serve(control: socket.socket) -> None:
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    subprocess.Popen = _Forking  # type: ignore[misc] # before torch takes it from its module
    gc.disable()
    from grpo_tui.data.transformers_import import import_transformers

    import_transformers()
    for name in IMPORTED:
        importlib.import_module(name)
    gc.freeze()
    gc.enable()
    assert len(os.listdir("/proc/self/task")) == 1, "a thread would not be in the forks"
    sys.path[:] = [path for path in sys.path if path not in ("", str(ROOT))] + [str(ROOT)]
    atexit.register = _register_here  # type: ignore[assignment]
    control.send(b"ready")
    while True:
        data, descriptors, _, _ = socket.recv_fds(control, _BYTES, 3)
        if not data:
            return
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if os.fork():
            for descriptor in descriptors:
                os.close(descriptor)
            continue
        request, (out, err, told) = json.loads(data), descriptors
        os.write(told, b"%d\n" % os.getpid())
        os.chdir(request["cwd"])
        os.umask(request["umask"])
        _become(request["command"], request["environment"], (_null(), out, err), (told,), told)


def _register_here(function: Any, *args: Any, register: Any = atexit.register, **kwargs: Any) -> Any:
    """Register what to do at the end of this process, and not of its forks."""
    owner = os.getpid()
    register(lambda: function(*args, **kwargs) if os.getpid() == owner else None)
    return function


class _Forking(subprocess.Popen):  # type: ignore[type-arg]
    """A `Popen` that forks this program's modules where it can."""

    def _execute_child(self, args: Any, executable: Any, preexec_fn: Any, close_fds: Any, pass_fds: Any,
                       cwd: Any, env: Any, startupinfo: Any, creationflags: Any, shell: Any, *more: Any
                       ) -> None:  # fmt: skip
        p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite, *others = more
        environment = dict(os.environ if env is None else env)
        if shell or cwd is not None or not _can_fork(args, environment):
            super()._execute_child(  # type: ignore[misc]
                args, executable, preexec_fn, close_fds, pass_fds, cwd, env, startupinfo, creationflags,
                shell, *more,
            )  # fmt: skip
            return
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        self.pid = os.fork()
        if self.pid == 0:
            if others[-2]:
                os.setsid()
            for descriptor in pass_fds:
                os.set_inheritable(descriptor, True)
            streams = (p2cread, c2pwrite, errwrite)
            _become(args[1:], environment, [n if s == -1 else s for n, s in enumerate(streams)], pass_fds)
        self._child_created = True
        self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)  # type: ignore[attr-defined]


def _can_fork(args: Any, environment: Mapping[str, str]) -> bool:
    """Return whether a program is one of this package's, and this process such that its fork works."""
    words = list(map(str, args)) if isinstance(args, list | tuple) else []
    at = words.index("-m") if "-m" in words else 0
    if words[:1] != [sys.executable] or not at or any(not word.startswith("-") for word in words[1:at]):
        return False
    open_files = []
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            open_files.append(os.readlink(f"/proc/self/fd/{number}"))
    return (
        words[at + 1].startswith(PROGRAMS)
        and alike(environment, _BEGAN)
        and {thread.name for thread in threading.enumerate()} <= HOLDING_NOTHING
        and not any(".db" in name for name in open_files)
    )


_BEGAN = {name: value for name, value in os.environ.items() if name not in WITHOUT_THREADS}


def _null() -> int:
    return os.open(os.devnull, os.O_RDONLY)


def _become(
    command: Sequence[str],
    environment: Mapping[str, str],
    streams: Sequence[int],
    kept: Collection[int] = (),
    told: int | None = None,
) -> None:
    """Run `python COMMAND` in this fork, and end it as Python ends.

    Args:
        streams: Descriptors that become its standard streams.
        kept: Others that stay open.
        told: One that the exit code is written to.
    """
    gc.freeze()  # what closes a file in its last moment must not close one of these
    copies = [os.dup(stream) for stream in streams]
    for number, copy in enumerate(copies):
        os.dup2(copy, number)
    for name in os.listdir("/proc/self/fd"):
        if (number := int(name)) > 2 and number not in kept:
            with contextlib.suppress(OSError):
                os.close(number)
    os.environ.clear()
    os.environ.update(environment)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):  # what is ignored stays so in a new process too
            signal.signal(number, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    weakref.finalize._registry.clear()  # type: ignore[attr-defined]
    flags = list(itertools.takewhile(lambda word: word.startswith("-"), command))
    name, *words = command[len(flags) :]
    if "-m" not in flags:
        sys.path.insert(0, os.path.dirname(name))
    elif "-P" not in flags:
        sys.path.insert(0, os.getcwd())
    raw = "PYTHONUNBUFFERED" in environment or "-u" in flags
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = sys.__stdout__ = _stream(1, "strict", raw)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _stream(2, "backslashreplace", True)  # type: ignore[misc]
    sys.argv = [name, *words]
    code = 0
    try:
        if "-m" in flags:
            runpy.run_module(name, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(name, run_name="__main__")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    with contextlib.suppress(BaseException):
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    if told is not None:
        os.write(told, b"%d\n" % code)
    os._exit(code)


def _stream(number: int, errors: str, raw: bool) -> io.TextIOWrapper:
    binary: Any = open(number, "wb", 0 if raw else -1, closefd=False)  # noqa: SIM115
    return io.TextIOWrapper(binary, encoding="utf-8", errors=errors, write_through=raw)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
