"""Find folders of completions that TRL or verl logged. Knows names of files, not what they hold.

TRL writes `OUTPUT_DIR/completions/completions_00040.parquet`, verl `DIR/40.jsonl` with its own keys.
"""

from __future__ import annotations

import json
import os
import re
import stat
from codecs import BOM_UTF8
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from grpo_tui.store.json_file import open_regular
from grpo_tui.store.layout import RunFolder

MAX_DEPTH = 4
_PARQUET = re.compile(r"completions_(\d+)\.parquet")
_JSONL = re.compile(r"(\d+)\.jsonl")
_VERL_KEYS = {"input", "output"}
LAST_STEP = 2**62
"""A file whose name says more than the database holds is none of a step."""
LINE_BYTES = 4_000_000
"""A first line that is longer is not read to know what a file is."""


@dataclass(frozen=True, slots=True)
class Source:
    """A folder of logged completions."""

    kind: Literal["trl", "verl"]
    root: Path
    """The folder that stands for the run: TRL's `output_dir`, or verl's folder of steps."""
    folder: Path
    """Where the files are."""

    def files(self) -> list[tuple[int, Path]]:
        """Step and path of each file, by step."""
        pattern = _PARQUET if self.kind == "trl" else _JSONL
        found = []
        for path in self.folder.iterdir():
            match = pattern.fullmatch(path.name)
            if match is not None and int(match[1]) <= LAST_STEP and stat.S_ISREG(path.lstat().st_mode):
                found.append((int(match[1]), path))
        return sorted(found)


def source_at(path: Path) -> Source | None:
    """The logged completions that a folder stands for: itself, or the `completions` folder within it."""
    try:
        for folder in (path, path / "completions"):
            names = {entry.name for entry in os.scandir(folder)} if folder.is_dir() else set()
            if any(_PARQUET.fullmatch(name) for name in names):
                return Source("trl", folder.parent if folder.name == "completions" else folder, folder)
        steps = sorted((int(m[1]), m[0]) for entry in os.scandir(path) if (m := _JSONL.fullmatch(entry.name)))
    except OSError:
        return None
    if steps and _is_verl(path / steps[0][1]):
        return Source("verl", path, path)
    return None


def find_sources(roots: Iterable[Path]) -> list[Source]:
    """Every folder of logged completions under some folders, none within a run of ours or a checkpoint."""
    found: dict[Path, Source] = {}
    for root in roots:
        _walk(Path(os.path.abspath(root)), MAX_DEPTH, found)
    return list(found.values())


def _walk(folder: Path, depth: int, found: dict[Path, Source]) -> None:
    if RunFolder(folder).exists():
        return
    source = source_at(folder)
    if source is not None:
        found.setdefault(source.folder.resolve(), source)
    if depth == 0:
        return
    try:
        inner = [Path(entry.path) for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return
    for path in sorted(inner):
        if not path.name.startswith((".", "checkpoint-", "__")) and path.name not in (
            "completions", "node_modules", "site-packages",
        ):  # fmt: skip
            _walk(path, depth - 1, found)


def _is_verl(path: Path) -> bool:
    try:
        with open_regular(path) as file:
            row = json.loads(file.readline(LINE_BYTES).removeprefix(BOM_UTF8))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(row, dict) and row.keys() >= _VERL_KEYS
