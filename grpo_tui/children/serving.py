"""The child's side of the pipe: JSON lines in, events and replies out."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

from grpo_tui.core.exchange import to_json

NICENESS = 10
"""Of child processes that give way to training on the same cores."""

Send = Callable[[dict[str, Any]], None]


def stand_back() -> None:
    """Lower the priority of this process, in favor of training on the same cores."""
    os.nice(max(0, NICENESS - os.getpriority(os.PRIO_PROCESS, 0)))


def serve(requests: int, answers: int, child_of: Callable[[Send], Any]) -> None:
    """Answer requests until the parent closes its end.

    Args:
        child_of: Makes the object whose methods are called. Gets the function that sends events.
    """
    for descriptor in (requests, answers):
        os.set_inheritable(descriptor, False)  # not for processes that a reward starts
    sys.dont_write_bytecode = True
    reading = os.fdopen(requests, "rb")
    writing = os.fdopen(answers, "wb", buffering=0)
    lock = threading.Lock()

    def send(message: dict[str, Any]) -> None:
        data = (to_json(message) + "\n").encode("utf-8", "replace")
        with lock:
            while data:
                data = data[writing.write(data) or 0 :]

    child = child_of(send)
    for line in reading:
        request = json.loads(line)
        command = getattr(child, request.pop("do"))
        try:
            send({"reply": command(**request)})
        except Exception as error:
            traceback.print_exc()
            send({"refused": message_of(error), "type": type(error).__name__})


def serve_alone(child_of: Callable[[Send], Any]) -> None:
    """Run the child started by `pipe.ModuleStarter`. `child_of` is as in `serve`."""
    folder, requests, answers = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    gc.set_threshold(50_000, 20, 50)  # torch and transformers import a fifth faster
    leave_with_parent(os.getppid())
    os.chdir(folder)
    sys.path.insert(0, folder)  # under `-P` the first entry can be one of PYTHONPATH
    try:
        serve(requests, answers, child_of)
        _end_session()
    finally:
        os._exit(0)  # even if a library left threads running


def message_of(error: BaseException) -> str:
    """Return an exception's message, shortened. A user's exception class may fail even at that."""
    try:
        return str(error)[:2000] or type(error).__name__
    except Exception:
        return f"a {type(error).__name__} that cannot be shown"


def leave_with_parent(parent: int) -> None:
    """End this process's session when the parent is gone, even if something hangs. Returns at once."""
    threading.Thread(target=_wait_for_end, args=(parent,), daemon=True).start()


def _wait_for_end(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1.0)
    _end_session()


def _end_session() -> None:
    """Kill this process and everything it started that has not left its session."""
    with contextlib.suppress(OSError):
        os.killpg(os.getpgid(0), signal.SIGKILL)
