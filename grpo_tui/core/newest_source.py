"""Imports from a person's own folders by compiling the source, never by a byte code file beside it.

Python trusts `__pycache__` when a source's time in whole seconds and its size are those it had: whoever saves
twice within a second would go on with the older text. What is installed, and this program itself, is left to
Python. It runs nothing by itself and knows no reward.
"""

from __future__ import annotations

import linecache
import os
import sys
import sysconfig
from functools import cache
from importlib.machinery import (
    BYTECODE_SUFFIXES,
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    SourceFileLoader,
    SourcelessFileLoader,
)
from pathlib import Path
from types import CodeType

_INSTALLED_NAMES = {"site-packages", "dist-packages"}
_roots: set[str] = set()


class NewestSource(SourceFileLoader):
    """Loads a module from the text that its file has now."""

    def get_code(self, fullname: str) -> CodeType:
        """Compile the source; a traceback then shows these lines too."""
        path = self.get_filename(fullname)
        linecache.cache.pop(path, None)
        return self.source_to_code(self.get_data(path), path)


def import_newest_from(folder: str | Path) -> None:
    """Let modules in a folder, and below it, be imported from their source alone from now on."""
    root = os.path.realpath(folder)
    if root in _roots:
        return
    _roots.add(root)
    if _finder_of not in sys.path_hooks:
        sys.path_hooks.insert(0, _finder_of)
    for path in list(sys.path_importer_cache):
        if _is_persons(path):
            sys.path_importer_cache.pop(path, None)


@cache
def installed_folders() -> tuple[str, ...]:
    """Folders of the interpreter's library and of installed packages."""
    paths = sysconfig.get_paths()
    return tuple(
        sorted({os.path.realpath(paths[key]) for key in ("stdlib", "platstdlib", "purelib", "platlib")})
    )


def within(path: str, folder: str) -> bool:
    """Return whether a resolved path is a folder or lies in it."""
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def _is_persons(path: str) -> bool:
    resolved = os.path.realpath(path)
    if _INSTALLED_NAMES & set(Path(resolved).parts):
        return False
    ours = str(Path(__file__).resolve().parents[1])
    if any(within(resolved, folder) for folder in (*installed_folders(), ours)):
        return False
    return any(within(resolved, root) for root in _roots)


def _finder_of(path: str) -> FileFinder:
    if not os.path.isdir(path or ".") or not _is_persons(path or "."):
        raise ImportError("not a person's folder", path=path)
    return FileFinder(
        path,
        (ExtensionFileLoader, EXTENSION_SUFFIXES),
        (NewestSource, SOURCE_SUFFIXES),
        (SourcelessFileLoader, BYTECODE_SUFFIXES),
    )
