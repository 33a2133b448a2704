"""Rows of the list of runs: one look at each folder, kept small.

Knows how a run is summed up; knows nothing of lists on screen.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo_tui.core.text import one_line
from grpo_tui.present.series import Series
from grpo_tui.store.catalog import last_written_at
from grpo_tui.store.connection import RunDatabaseError
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.reader import RunReader
from grpo_tui.store.status import Status, read_status

CURVE_POINTS = 48


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run in the list."""

    path: Path
    name: str
    state: str
    live: bool = False
    model: str = ""
    step: int = 0
    total_steps: int | None = None
    reward: float | None = None
    curve: tuple[float | None, ...] = ()
    seen_at: float | None = None
    """Its last sign of life, seconds since the epoch."""
    config: str = ""
    trouble: str = ""
    """Why it cannot be read, empty when it can."""

    def matches(self, words: str) -> bool:
        """True when every word stands somewhere in the row's texts."""
        text = f"{self.name} {self.state} {self.model} {self.config} {self.path}".lower()
        return all(word in text for word in words.lower().split())


def read_run_row(path: Path, name: str | None = None) -> RunRow:
    """Look at one run folder; what is wrong with it becomes its row's trouble, never an exception."""
    shown = one_line(name or path.name, 60)
    folder = RunFolder(path)
    try:
        reader = RunReader(folder.database) if folder.database.exists() else None
    except RunDatabaseError as error:
        return _unreadable(path, shown, error)
    try:
        status = read_status(path, reader)
        return _row(path, shown, folder, status, reader)
    except Exception as error:  # one broken folder must not empty the list
        return _unreadable(path, shown, error)
    finally:
        if reader is not None:
            reader.close()


def _unreadable(path: Path, name: str, error: Exception) -> RunRow:
    trouble = one_line(str(error), 200)
    return RunRow(path, name, "broken", seen_at=changed_at(RunFolder(path)), trouble=trouble)


def _row(path: Path, name: str, folder: RunFolder, status: Status, reader: RunReader | None) -> RunRow:
    config: Mapping[str, Any] = {}
    reward: float | None = None
    curve: tuple[float | None, ...] = ()
    if reader is not None:
        fact = reader.fact("config")
        config = fact if isinstance(fact, Mapping) else {}
        series = Series()
        for point in reader.series("reward"):
            series.append(point.step, point.value)
        reward = series.last
        curve = _thinned([bucket.mean for bucket in series.buckets])
    return RunRow(
        path=path,
        name=name,
        state=status.state,
        live=status.live,
        model=_short_model(str(config.get("model") or "")),
        step=status.step,
        total_steps=status.total_steps,
        reward=reward,
        curve=curve,
        seen_at=time.time() if status.live and status.supervised else changed_at(folder),
        config=one_line(Path(str(config["path"])).name, 40) if config.get("path") else "",
    )


def changed_at(folder: RunFolder) -> float | None:
    """When anything in a run folder was written last, None when nothing can be looked at."""
    files = (folder.heartbeat, folder.database, folder.root / "run.db-wal", folder.log, folder.spec)
    return last_written_at(files) or None


def ordered(rows: Iterable[RunRow]) -> list[RunRow]:
    """Running ones on top, then the newest sign of life first."""
    return sorted(rows, key=lambda row: (not row.live, -(row.seen_at or 0.0), row.name))


NAMES_OF_ANY_RUN = frozenset({"run", "out", "output", "outputs", "trainer_output", "results", "model"})


def run_names(paths: Sequence[Path]) -> dict[Path, str]:
    """A name for each folder: its own, with the parent's before it where that does not tell runs apart."""
    counts: dict[str, int] = {}
    for path in paths:
        counts[path.name] = counts.get(path.name, 0) + 1
    return {
        path: path.name
        if counts[path.name] == 1 and path.name.lower() not in NAMES_OF_ANY_RUN
        else f"{path.parent.name}/{path.name}"
        for path in paths
    }


def _short_model(model: str) -> str:
    """A model id, or the last part of a folder's path."""
    is_folder = model.startswith(("/", "~", "."))
    return one_line(Path(model).name if is_folder else model, 40)


def _thinned(values: Sequence[float | None]) -> tuple[float | None, ...]:
    if len(values) <= CURVE_POINTS:
        return tuple(values)
    return tuple(values[i * len(values) // CURVE_POINTS] for i in range(CURVE_POINTS))
