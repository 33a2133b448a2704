"""Find what other tools logged, and keep a copy of each run as a `run.db` in the cache.

TRL writes `OUTPUT_DIR/completions/completions_00040.parquet`, verl `DIR/40.jsonl` with its own keys, the
others what `recordings` says. Unchanged files are not read again. `copy_child` reads the files.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import select
import stat
import subprocess
import sys
import time
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from grpo_tui.store.connection import RunDatabaseError, open_reader
from grpo_tui.store.importers.formats import read_state
from grpo_tui.store.importers.recordings import (
    LAST_STEP,
    is_rlprobe,
    prime_metrics,
    prime_steps,
    rlprobe_files,
    trackio_runs,
)
from grpo_tui.store.json_file import open_regular
from grpo_tui.store.layout import MAX_DEPTH, RunFolder, inner_folders, own_folder

_PARQUET = re.compile(r"completions_(\d+)\.parquet")
_JSONL = re.compile(r"(\d+)\.jsonl")
_VERL_KEYS = {"input", "output"}
LINE_BYTES = 4_000_000
"""Bytes of a first line that are read to recognize a file."""


@dataclass(frozen=True, slots=True)
class LogSource:
    """A folder of logged completions, or another recording of a run."""

    kind: Literal["trl", "verl", "rlprobe", "trackio", "prime-rl"]
    root: Path
    """Path that represents the run: TRL's `output_dir`, verl's folder of steps, trackio's FILE.db or
    FILE.db/RUN, or the folder of a recording."""
    folder: Path

    def files(self) -> list[tuple[int, Path]]:
        """Return step and path of each file, by step; step 0 for a file about all of them."""
        if self.kind == "rlprobe":
            return [(0, path) for path in rlprobe_files(self.folder)]
        if self.kind == "prime-rl":
            return [*((0, path) for path in prime_metrics(self.folder)), *prime_steps(self.folder)]
        if self.kind == "trackio":
            file = self.folder if self.folder.is_file() else self.folder.parent
            return [(0, path) for path in (file, Path(f"{file}-wal")) if path.is_file()]
        pattern = _PARQUET if self.kind == "trl" else _JSONL
        found = []
        for path in self.folder.iterdir():
            match = pattern.fullmatch(path.name)
            if match is not None and int(match[1]) <= LAST_STEP and stat.S_ISREG(path.lstat().st_mode):
                found.append((int(match[1]), path))
        return sorted(found)


def source_at(path: Path, *, metrics: bool = True) -> LogSource | None:
    """Return the logged completions or the recording at a path; None without any.

    A path of trackio is the file of a project, or `FILE.db/RUN`.

    Args:
        metrics: Accept an output folder of TRL that has only metrics, which takes reading them.
    """
    if trackio_runs(path) is not None or trackio_runs(path.parent) is not None:
        return LogSource("trackio", path, path)
    try:
        if is_rlprobe(path):
            return LogSource("rlprobe", path, path)
        if prime_steps(path):
            return LogSource("prime-rl", path, path)
        for folder in (path, path / "completions"):
            names = {entry.name for entry in os.scandir(folder)} if folder.is_dir() else set()
            if any(_PARQUET.fullmatch(name) for name in names):
                return LogSource("trl", folder.parent if folder.name == "completions" else folder, folder)
        steps = sorted((int(m[1]), m[0]) for entry in os.scandir(path) if (m := _JSONL.fullmatch(entry.name)))
    except OSError:
        return None
    if steps and _is_verl(path / steps[0][1]):
        return LogSource("verl", path, path)
    logged = read_state(path).history if metrics else ()
    return LogSource("trl", path, path) if any("reward" in row for row in logged) else None


def find_sources(roots: Iterable[Path]) -> list[LogSource]:
    """Return every folder of logged completions under the roots, except in recorded runs and checkpoints."""
    found: dict[Path, LogSource] = {}
    for root in roots:
        _walk(Path(os.path.abspath(root)), MAX_DEPTH, found)
    return list(found.values())


def _walk(folder: Path, depth: int, found: dict[Path, LogSource]) -> None:
    if RunFolder(folder).exists():
        return
    source = source_at(folder, metrics=False)
    if source is not None:
        found.setdefault(source.folder.resolve(), source)
    if depth == 0:
        return
    try:
        inner = sorted(map(Path, inner_folders(os.scandir(folder))))
    except OSError:
        return
    for path in inner:
        if path.name != "completions":
            _walk(path, depth - 1, found)


def _is_verl(path: Path) -> bool:
    try:
        with open_regular(path) as file:
            row = json.loads(file.readline(LINE_BYTES).removeprefix(BOM_UTF8))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(row, dict) and row.keys() >= _VERL_KEYS


MOMENT_S = 1.5
"""How long a screen waits for a copy to be complete."""
LIMIT_S = 1800.0
"""Time limit of the first copy of a very large folder."""


class LogFolderError(Exception):
    """Logged completions cannot be opened; the message says why and what to do."""


def copy_root(source: LogSource) -> Path:
    """Return the run folder of the copy, which has the name of the original folder."""
    place = os.fspath(source.folder.resolve())
    key = hashlib.blake2b(place.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()
    return own_folder("cache") / "logs" / key / (source.root.resolve().name or "logs")


def open_copy(source: LogSource) -> Path:
    """Update the copy and return the folder with its `run.db`.

    Raises:
        LogFolderError: pyarrow is missing, nothing can be read, or there is no space.
    """
    with follow(source, whole=True) as root:
        return root


@contextlib.contextmanager
def follow(source: LogSource, *, whole: bool = False) -> Iterator[Path]:
    """Keep the copy up to date while the folder grows. The child process ends with this process.

    A first copy that takes longer than `MOMENT_S` continues while it is shown, unless `whole`.

    Raises:
        LogFolderError: As `open_copy`.
    """
    root = copy_root(source)
    try:
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", "grpo_tui.store.importers.copy_child", str(source.root.absolute())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )
    except OSError as error:
        raise LogFolderError(f"{source.folder}: {error}") from error
    try:
        _begun(child, source, root, whole=whole)
        yield root
    finally:
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(1.0)
        child.kill()
        child.wait()


def _begun(child: subprocess.Popen[bytes], source: LogSource, root: Path, *, whole: bool) -> None:
    """Wait until the copy is complete, or for `MOMENT_S` once it can be read unless `whole`."""
    assert child.stdout is not None
    until = time.monotonic() + (LIMIT_S if whole else MOMENT_S)
    while not select.select([child.stdout], [], [], 0.05)[0]:
        if time.monotonic() < until:
            continue
        if whole:
            raise LogFolderError(f"{source.folder}: its copy took more than {LIMIT_S:g} s")
        if _can_be_read(RunFolder(root).database):
            return
    answer: Any = None
    while not isinstance(answer, dict):  # a line of the interpreter's own start may come first
        line = child.stdout.readline()
        if not line:
            answer = {"error": "the process that reads it ended without an error message"}
            break
        with contextlib.suppress(ValueError):
            answer = json.loads(line)
    if "error" in answer:
        raise LogFolderError(f"{source.folder}: {answer['error']}")


def _can_be_read(database: Path) -> bool:
    try:
        open_reader(database).close()
    except RunDatabaseError:
        return False
    return True
