"""The copy of somebody's logged completions as a `run.db` in the user's cache: where it is, how it is made.

Files that have not changed are not read again. Knows folders and a child process; what is in the files is
read by `copy_child`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from grpo_tui.store.connection import RunDatabaseError, open_reader
from grpo_tui.store.importers.sources import Source
from grpo_tui.store.layout import RunFolder

FOLDER_VARIABLE = "GRPO_TUI_CACHE_DIR"
MOMENT_S = 1.5
"""So long a screen waits for a copy to be whole."""
LIMIT_S = 1800.0
"""A first copy of a very large folder may take so long."""


class LogFolderError(Exception):
    """Logged completions cannot be opened; the message says why and what to do."""


def cache_folder(environment: Mapping[str, str] | None = None) -> Path:
    """The folder of this program's copies, which may be deleted at any time."""
    chosen = (os.environ if environment is None else environment).get(FOLDER_VARIABLE)
    if chosen:
        return Path(chosen)
    from platformdirs import user_cache_path

    return user_cache_path("grpo-tui", appauthor=False)


def copy_root(source: Source) -> Path:
    """The run folder of the copy; it has the name of the folder that it stands for."""
    place = os.fspath(source.folder.resolve())
    key = hashlib.blake2b(place.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()
    return cache_folder() / "logs" / key / (source.root.resolve().name or "logs")


def opened(source: Source) -> Path:
    """Bring the copy up to date.

    Returns:
        The folder with its `run.db`.

    Raises:
        LogFolderError: pyarrow is missing, or nothing can be read, or there is no room.
    """
    try:
        done = subprocess.run(
            _words(source),
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=LIMIT_S,
            check=False,
            env=_environment(),
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LogFolderError(f"{source.folder}: {error}") from error
    answer = _answer(done.stdout)
    if "error" in answer:
        raise LogFolderError(f"{source.folder}: {answer['error']}")
    return copy_root(source)


@contextlib.contextmanager
def follow(source: Source) -> Iterator[Path]:
    """Keep the copy up to date while the folder grows; the child ends with this process at the latest.

    A first copy that takes longer than a moment goes on while it is looked at.

    Raises:
        LogFolderError: As `opened`.
    """
    root = copy_root(source)
    child = subprocess.Popen(
        [*_words(source), "--follow"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=_environment(),
    )
    try:
        _begun(child, source, root)
        yield root
    finally:
        if child.stdin is not None:
            child.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(1.0)
        child.kill()
        child.wait()
        if child.stdout is not None:
            child.stdout.close()


def _begun(child: subprocess.Popen[bytes], source: Source, root: Path) -> None:
    """Wait until the copy is whole, or for a moment when there is something to look at."""
    assert child.stdout is not None
    until = time.monotonic() + MOMENT_S
    while not select.select([child.stdout], [], [], 0.05)[0]:
        if time.monotonic() > until and _can_be_read(RunFolder(root).database):
            return
    answer = _answer(child.stdout.readline())
    if "error" in answer:
        raise LogFolderError(f"{source.folder}: {answer['error']}")


def _can_be_read(database: Path) -> bool:
    try:
        open_reader(database).close()
    except RunDatabaseError:
        return False
    return True


def _words(source: Source) -> list[str]:
    root = os.fspath(source.root.absolute())
    return [sys.executable, "-P", "-m", "grpo_tui.store.importers.copy_child", root]


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def _answer(output: bytes) -> dict[str, str]:
    lines = output.splitlines()
    try:
        found = json.loads(lines[-1]) if lines else None
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"error": "the process that reads it ended without a word"}
