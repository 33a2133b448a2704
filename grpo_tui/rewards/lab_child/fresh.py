"""Forget the modules of a person's own folders, so that the next import runs their newest text.

A module is the person's when its file lies in one of the given folders and belongs neither to the
installation nor to this program. It imports none of them itself.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable
from pathlib import Path

from grpo_tui.core.newest_source import installed_folders, within
from grpo_tui.core.user_code import FILE_MODULES, forget_module

_OURS = "grpo_tui"


class PersonsModules:
    """Knows which modules are a person's own.

    Args:
        kept: names of modules that are never forgotten, those the child needs itself.
    """

    def __init__(self, kept: Iterable[str]) -> None:
        self._kept = frozenset(kept)
        self.roots: set[str] = set()
        """Folders whose modules are the person's."""

    def files(self) -> list[str]:
        """Files of the person's modules that are loaded now, sorted."""
        return sorted({file for _, file in self._loaded()})

    def is_own(self, file: str) -> bool:
        """Return whether a source file is the person's."""
        resolved = str(Path(file).resolve())
        if any(within(resolved, folder) for folder in installed_folders()):
            return False
        return any(within(resolved, root) for root in self.roots)

    def forget(self) -> None:
        """Take every module of the person out of the interpreter."""
        for name, _ in self._loaded():
            forget_module(name)
        importlib.invalidate_caches()

    def _loaded(self) -> list[tuple[str, str]]:
        found = []
        for name, module in sys.modules.copy().items():  # an import can happen meanwhile
            file = getattr(module, "__file__", None)
            if not isinstance(file, str) or not file.endswith(".py") or name in self._kept:
                continue
            ours = name == _OURS or name.startswith(f"{_OURS}.")
            own = not ours and name != "__main__" and self.is_own(file)
            if name.startswith(FILE_MODULES) or own:
                found.append((name, file))
        return found
