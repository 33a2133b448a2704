"""Loads a named object from a person's own Python file or module, with errors that say where it went wrong.

Used for reward functions and dataset functions alike. It runs the file, once for each content.

A file becomes a module below this one. Its name says file and content, so that another process with the same
`sys.path` finds it by that name: a class of it can be pickled for a pool of processes.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib
import linecache
import os
import re
import sys
import sysconfig
import traceback
from functools import cache
from importlib.machinery import (
    BYTECODE_SUFFIXES,
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    ModuleSpec,
    SourceFileLoader,
    SourcelessFileLoader,
)
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

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


__path__: list[str] = []
"""Makes this module a package, whose modules `_UserFiles` finds."""
FILE_MODULES = f"{__name__}."
"""How the names of modules made from a file begin."""
_DIGITS = 12


class UserCodeError(Exception):
    """A person's file cannot be used; `file` and `line` say where, as far as that is known."""

    def __init__(self, message: str, file: str | None = None, line: int | None = None) -> None:
        self.file = file
        self.line = line
        place = f"{file}:{line}: " if file and line else f"{file}: " if file else ""
        super().__init__(place + message)


def load_from_file(path: str | Path, name: str) -> Any:
    """Run a Python file and return the object of that name (dotted for an attribute of one).

    The working folder joins `sys.path` at its front and the file's folder at its end, so that the file can
    import its neighbours. A file whose text is unchanged is run only once in a process. No byte code file is
    read.

    Raises:
        UserCodeError: no such file, an error while it runs, or no such name in it.
    """
    file = Path(path).absolute()
    try:
        source = file.read_bytes()
    except OSError as error:
        raise UserCodeError(f"cannot be read: {error.strerror}", str(file)) from error
    module_name = f"{FILE_MODULES}{_mark(file)}{_digest(source)}"
    module = sys.modules.get(module_name)
    if module is None:
        module = _run_file(file, module_name)
    return _attribute(module, name, str(file))


def load_dotted(source: str, folder: str | None = None) -> Any:
    """Import `pkg.mod:name` or `pkg.mod.name` and return the object.

    Args:
        source: the path; the last dot parts module and name when there is no colon.
        folder: joins `sys.path` at its front, as TRL does with the working folder.

    Raises:
        UserCodeError: the module cannot be imported or has no such name.
    """
    module_name, _, name = source.partition(":") if ":" in source else source.rpartition(".")
    if not module_name or not name:
        raise UserCodeError(f"'{source}' does not name a function. Write it as package.module.function")
    if folder and folder not in sys.path:
        sys.path.insert(0, folder)
    import_newest_from(folder or Path.cwd())
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise UserCodeError(
                f"there is no module {error.name} for '{source}' (looked in {folder or Path.cwd()} and the "
                "installed packages)"
            ) from error
        raise _failure(error, None, f"importing {module_name}") from error
    except BaseException as error:
        raise _failure(error, None, f"importing {module_name}") from error
    return _attribute(module, name, getattr(module, "__file__", None) or module_name)


def _run_file(file: Path, module_name: str) -> ModuleType:
    if os.getcwd() not in sys.path:  # first, as `python -m` has it in training
        sys.path.insert(0, os.getcwd())
    if str(file.parent) not in sys.path:
        sys.path.append(str(file.parent))
    try:
        return importlib.import_module(module_name)
    except BaseException as error:
        raise _failure(error, file, "running it") from error


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:_DIGITS]


def _mark(file: Path) -> str:
    """Return the part of a module's name that says which file it is."""
    return f"{re.sub('[^0-9A-Za-z_]', '_', file.stem)}_{_digest(os.fsencode(file))}"


class _UserFiles:
    """Finds the file of such a module in the folders of `sys.path`, whatever its content is now."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Return how to load such a module, None for any other."""
        if not name.startswith(FILE_MODULES):
            return None
        wanted = name.removeprefix(FILE_MODULES)[:-_DIGITS]
        for folder in map(Path, sys.path):
            try:
                files = [file for file in folder.absolute().iterdir() if _mark(file) == wanted]
            except OSError:
                continue
            for file in files:
                import_newest_from(file.parent)
                return spec_from_file_location(name, file, loader=NewestSource(name, str(file)))
        return None


sys.meta_path.append(_UserFiles)


def forget_module(name: str) -> None:
    """Take a module out of the interpreter, so that the next import runs its file again."""
    sys.modules.pop(name, None)
    if name.startswith(FILE_MODULES):
        globals().pop(name.removeprefix(FILE_MODULES), None)


def _failure(error: BaseException, file: Path | None, doing: str) -> BaseException:
    """Name the line of the person's own code where an import broke; let an interrupt through."""
    if isinstance(error, (KeyboardInterrupt, GeneratorExit)):
        return error
    if isinstance(error, SyntaxError):
        return UserCodeError(f"{error.msg}", error.filename or (str(file) if file else None), error.lineno)
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "importlib" not in f.filename]
    frames = [f for f in frames if f.filename != __file__]
    own = [f for f in frames if file is not None and f.filename == str(file)] or frames
    where = own[-1] if own else None
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, ModuleNotFoundError):
        what = f"it imports {error.name}, which is not installed"
    elif isinstance(error, ImportError) and "no known parent package" in str(error):
        what = (
            "it imports with a leading dot, and a file by itself is in no package. Import its neighbours "
            "without the dot, or name it as package.module.function"
        )
    return UserCodeError(
        f"{doing} failed: {what}", where.filename if where else str(file), where.lineno if where else None
    )


def _attribute(module: ModuleType, name: str, place: str) -> Any:
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            own = [n for n, v in vars(found).items() if callable(v) and not n.startswith("_")]
            near = difflib.get_close_matches(part, own, n=1)
            hint = (
                f"Did you mean {near[0]}?" if near else f"It has {', '.join(sorted(own)) or 'no functions'}"
            )
            raise UserCodeError(f"there is no {name} in it. {hint}", place)
        found = getattr(found, part)
    return found
