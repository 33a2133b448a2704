"""The files that a check of a config reads, and what tells that one of them has changed.

Looks at names, times and sizes; opens nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from grpo_tui.config.paths import split_file_source
from grpo_tui.config.run_config import RunConfig


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


def stamps_of(config: RunConfig, *, rewards: bool = True) -> list[tuple[str, int, int]]:
    """Name, time and size of each of these files, by which a change is known."""
    found = []
    for file in files_of(config, rewards=rewards):
        try:
            status = os.stat(file)
        except OSError:
            continue
        found.append((str(file), status.st_mtime_ns, status.st_size))
    return found
