"""Load a named object from a user's Python file or module, with errors that name the failing line.

A file is run once per content, as a submodule of this module. The submodule's name encodes file and content,
so that another process with the same `sys.path` can import it by name, as pickle requires.
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
    """Loads a module from its current source, never from cached byte code."""

    def get_code(self, fullname: str) -> CodeType:
        """Compile the source, and drop it from `linecache` so that tracebacks show the current lines."""
        path = self.get_filename(fullname)
        linecache.cache.pop(path, None)
        return self.source_to_code(self.get_data(path), path)


def import_newest_from(folder: str | Path) -> None:
    """Make imports from a folder and its subfolders read the source, never cached byte code."""
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
    """Return the folders of the standard library and of installed packages."""
    paths = sysconfig.get_paths()
    return tuple(
        sorted({os.path.realpath(paths[key]) for key in ("stdlib", "platstdlib", "purelib", "platlib")})
    )


def within(path: str, folder: str) -> bool:
    """Return whether a resolved path is a folder or inside it."""
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
"""Makes this module a package. `_UserFiles` finds its submodules."""
FILE_MODULES = f"{__name__}."
_DIGITS = 12


class UserCodeError(Exception):
    """The user's file cannot be used, for `reason`. `file` and `line` are the place, None where unknown."""

    def __init__(self, message: str, file: str | None = None, line: int | None = None) -> None:
        self.reason = message
        self.file = file
        self.line = line
        place = f"{file}:{line}: " if file and line else f"{file}: " if file else ""
        super().__init__(place + message)


def load_from_file(path: str | Path, name: str) -> Any:
    """Run a Python file and return the object with a name, which may be dotted.

    The working folder is added to the front of `sys.path` and the file's folder to its end, so that the file
    can import its neighbours. A file is run once per process until its text changes. Byte code is not read.

    Raises:
        UserCodeError: The file is missing, raises an error, or does not define the name.
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
        source: The path. Without a colon, its last dot separates module and name.
        folder: Added to the front of `sys.path`, as TRL adds the working folder.

    Raises:
        UserCodeError: The module cannot be imported or does not define the name.
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
    return f"{re.sub('[^0-9A-Za-z_]', '_', file.stem)}_{_digest(os.fsencode(file))}"


class _UserFiles:
    """Finds the file of a user module in the folders of `sys.path`, whatever its current content."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Return how to load a user module, None for any other."""
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


def cut_short(error: BaseException) -> str:
    """Say which compiled file ends too early, as after a full disk, and what to do; "" for another error."""
    for frame, _ in traceback.walk_tb(error.__traceback__ if isinstance(error, EOFError) else None):
        path = frame.f_locals.get("bytecode_path")  # of Python's import
        if isinstance(path, str):
            return (
                f"{path} is incomplete, probably because the disk was full. Delete it; Python writes it again"
            )
    return ""


def forget_module(name: str) -> None:
    """Remove a module from the interpreter, so that the next import runs its file again."""
    sys.modules.pop(name, None)
    if name.startswith(FILE_MODULES):
        globals().pop(name.removeprefix(FILE_MODULES), None)


def _failure(error: BaseException, file: Path | None, doing: str) -> BaseException:
    """Return an error that names the user's line where an import failed. Interrupts pass unchanged."""
    if isinstance(error, (KeyboardInterrupt, GeneratorExit)):
        return error
    if isinstance(error, SyntaxError):
        code = f": `{error.text.strip()}`" if error.text and error.text.strip() else ""
        place = error.filename or (str(file) if file else None)
        return UserCodeError(f"{error.msg}{code}", place, error.lineno)
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
            names = [n for n, v in vars(found).items() if callable(v) and not n.startswith("_")]
            home = found.__name__ if isinstance(found, ModuleType) else getattr(found, "__module__", "")
            own = [n for n in names if getattr(vars(found)[n], "__module__", home) == home] or names
            near = difflib.get_close_matches(part, names, n=1)
            hint = (
                f"Did you mean {near[0]}?" if near else f"It has {', '.join(sorted(own)) or 'no functions'}"
            )
            raise UserCodeError(f"there is no {name} in it. {hint}", place)
        found = getattr(found, part)
    return found
