"""The files that a check of a config reads, and what tells that a file has changed.

Looks at names, times and sizes; opens nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from grpo_tui.config.paths import split_file_source
from grpo_tui.config.run_config import RunConfig

Stamp = tuple[int, int, int]
GONE: Stamp = (0, 0, 0)


def stamp(file: str | Path) -> Stamp:
    """When a file was written, when it was touched at all, and its size; `GONE` when there is none.

    The second tells of a file that is copied over with the older one's time.
    """
    try:
        status = os.stat(file)
    except OSError:
        return GONE
    return (status.st_mtime_ns, status.st_ctime_ns, status.st_size)


def files_of(config: RunConfig, *, rewards: bool = True) -> Iterator[Path]:
    """The files that a check of a config reads: data, the model's, rewards with the modules beside them.

    Args:
        config: the run's.
        rewards: whether the rewards count; without, a saved reward changes nothing of the data.
    """
    sources = [config.section.dataset, config.section.eval_dataset]
    if rewards:
        sources += [entry.source for entry in config.section.rewards]
    for source in filter(None, sources):
        parts = split_file_source(source)
        file = Path(parts[0] if parts is not None else source)
        if file.suffix == ".py" and rewards:
            yield from sorted(file.parent.glob("*.py"))
        elif os.path.isdir(file):
            yield from sorted(child for child in file.iterdir() if child.is_file())
        elif os.path.isfile(file):
            yield file
    for name in (config.script.get("dataset_name"), config.model):
        folder = Path(str(name or ""))
        if name and os.path.isdir(folder):
            yield from sorted(file for file in folder.iterdir() if file.is_file())
        elif name and os.path.isfile(folder):
            yield folder


def stamps_of(config: RunConfig, *, rewards: bool = True) -> list[tuple[str, Stamp]]:
    """Name and stamp of each of these files, by which a change is known."""
    found = [(str(file), stamp(file)) for file in files_of(config, rewards=rewards)]
    return [(name, known) for name, known in found if known != GONE]
