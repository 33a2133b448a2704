"""Keep the standard library and the output of the training process usable, whatever else runs in it.

A reward runs in the training process and may replace `json.dumps`, `time.time` or `open` there. The record
must not change with it, so the modules of this program get copies of the modules that they use: a copy holds
the functions as they were, whatever the original holds later. What is changed inside a class or inside a
function of the standard library reaches the copies too. A full disk or a closed pipe swallows text, not the
training.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib
import os
import sys
from types import ModuleType
from typing import Any, TextIO

KEPT = (
    "io", "json", "logging", "math", "os", "queue", "shutil", "signal", "socket", "sqlite3", "statistics",
    "struct", "subprocess", "threading", "time",
)  # fmt: skip
"""Modules that are copied."""
KEPT_BUILTINS = ("open", "print")
WATCHED = {
    "builtins": ("open", "print"),
    "io": ("open",),
    "json": ("dump", "dumps", "load", "loads"),
    "logging": ("getLogger",),
    "math": ("exp", "fsum", "isclose", "isfinite", "isinf", "isnan", "log", "sqrt"),
    "os": ("fdopen", "kill", "makedirs", "open", "remove", "rename", "replace", "stat", "unlink", "write"),
    "queue": ("Queue", "SimpleQueue"),
    "sqlite3": ("connect",),
    "threading": ("Event", "Lock", "Thread", "current_thread", "main_thread"),
    "time": ("monotonic", "perf_counter", "sleep", "time"),
}
"""Functions whose replacement is reported."""

_copies: dict[str, ModuleType] = {}


def keep() -> None:
    """Give every loaded module of this program the copies; the first call makes them.

    Call it again when more modules of this program have been imported.
    """
    if not _copies:
        for name in ("builtins", *KEPT):
            _copies[name] = copy = ModuleType(name)
            vars(copy).update(vars(importlib.import_module(name)))
    by_module = {id(sys.modules[name]): _copies[name] for name in KEPT if name in sys.modules}
    for module in filter(_is_ours, list(sys.modules.values())):
        space = vars(module)
        space |= {key: by_module[id(value)] for key, value in space.items() if id(value) in by_module}
        space |= {name: getattr(_copies["builtins"], name) for name in KEPT_BUILTINS}


def replaced() -> dict[str, str]:
    """Return the watched functions that are no longer those that were kept, each with where the new one is.

    Empty before the first `keep`.
    """
    found = {}
    for module, names in WATCHED.items() if _copies else ():
        now = builtins if module == "builtins" else sys.modules.get(module)
        for name in names:
            new = getattr(now, name, None)
            if new is not getattr(_copies[module], name):
                found[name if module == "builtins" else f"{module}.{name}"] = _place(new)
    return found


def _is_ours(module: ModuleType) -> bool:
    """Return whether it is a module of this program."""
    file = getattr(module, "__file__", None) or ""
    return file.startswith(os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep)


def _place(function: object) -> str:
    code = getattr(function, "__code__", None)
    return f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}" if code is not None else ""


class Unbreakable:
    """A text stream whose write errors are swallowed, and which may copy what it is given into a log."""

    def __init__(self, stream: TextIO, copy_to: TextIO | None = None) -> None:
        self._stream, self._copy = stream, copy_to

    def write(self, text: str) -> int:
        """Write, as far as it goes."""
        for stream in (self._copy, self._stream):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.write(text)
        if self._copy is not None:
            with contextlib.suppress(OSError):
                self._copy.flush()
        return len(text)

    def flush(self) -> None:
        """Flush, as far as it goes."""
        with contextlib.suppress(OSError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
