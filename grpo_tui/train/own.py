"""Protect this program's modules and output from other code in the training process.

A reward may replace `json.dumps`, `time.time` or `open` there. To keep the record unaffected, this program's
modules get copies of the modules they use, which keep the original functions. Changes inside a class or
function of the standard library still reach the copies. On a full disk or a closed pipe, output is lost but
training continues.
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

_copies: dict[str, ModuleType] = {}


def keep() -> None:
    """Give the copies to every loaded module of this program. The first call makes them.

    Call it again after importing more modules of this program.
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
    """Return the watched functions that were replaced, each with the place of its replacement.

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
    file = getattr(module, "__file__", None) or ""
    return file.startswith(os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep)


def _place(function: object) -> str:
    code = getattr(function, "__code__", None)
    return f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}" if code is not None else ""


class Unbreakable:
    """A text stream that ignores write errors and can copy its output to a log."""

    def __init__(self, stream: TextIO, copy_to: TextIO | None = None) -> None:
        self._stream, self._copy = stream, copy_to

    def write(self, text: str) -> int:
        """Write to both streams, ignoring errors."""
        for stream in (self._copy, self._stream):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.write(text)
        if self._copy is not None:
            with contextlib.suppress(OSError):
                self._copy.flush()
        return len(text)

    def flush(self) -> None:
        """Flush, ignoring errors."""
        with contextlib.suppress(OSError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
