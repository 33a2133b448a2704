"""List the checkpoints of a run: size, reward at their step, and which can be used or deleted."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from grpo_tui.core.evaluations import Evaluations
from grpo_tui.core.stages import stage_start
from grpo_tui.core.text import one_line
from grpo_tui.present.evaluation_text import read_evaluations
from grpo_tui.present.formatting import fixed, plural, size
from grpo_tui.store.checkpoints import MARKER, WEIGHTS, is_held, judge
from grpo_tui.store.connection import RunDatabaseError
from grpo_tui.store.json_file import read_object
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.read_series import last_training_row
from grpo_tui.store.reader import RunReader, lasting
from grpo_tui.store.spec import spec_or_none
from grpo_tui.store.status import final_step, read_status

UNFINISHED = "it is being written, or its save did not finish"


@dataclass(frozen=True, slots=True)
class ListedCheckpoint:
    """One checkpoint folder.

    Attributes:
        reason: Why it is not complete; empty when it is.
        requested: Whether a user requested it, so that rotation keeps it.
        metrics: Training metrics of its step, or of the last logged step before it.
        best_evaluation: Whether that is the best evaluation so far, so that rotation keeps it.
    """

    step: int
    path: str
    size_bytes: int
    complete: bool
    reason: str
    requested: bool
    metrics: Mapping[str, Any] = field(default_factory=dict)
    metrics_step: int | None = None
    newest: bool = False
    best: bool = False
    evaluation: float | None = None
    best_evaluation: bool = False

    @property
    def reward(self) -> float | None:
        """Mean reward of the step; None when unknown."""
        value = self.metrics.get("reward")
        return float(value) if isinstance(value, int | float) and math.isfinite(value) else None

    @property
    def marks(self) -> list[str]:
        """What makes it worth keeping."""
        marks = {
            "newest": self.newest,
            "best reward": self.best,
            "best evaluation": self.best_evaluation,
            "requested": self.requested,
        }
        return [name for name, holds in marks.items() if holds]


@dataclass(frozen=True, slots=True)
class FinalModel:
    """The model of a finished run; `size_bytes` is that of its weights."""

    step: int
    path: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class CheckpointList:
    """The checkpoints of a run, by step. A `starting` run may be loading one.

    Attributes:
        references: Steps from whose checkpoint a stage of the unfinished run measures its KL.
    """

    run: str
    checkpoints: tuple[ListedCheckpoint, ...]
    final: FinalModel | None
    live: bool
    starting: bool
    free_bytes: int
    deciding: str = ""
    references: tuple[int, ...] = ()

    @property
    def disk_bytes(self) -> int:
        """Size of the checkpoints and the final model."""
        return sum(c.size_bytes for c in self.checkpoints) + (self.final.size_bytes if self.final else 0)

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON shape."""
        listed = [{**asdict(one), "reward": one.reward} for one in self.checkpoints]
        final = asdict(self.final) if self.final is not None else None
        return {
            "run": self.run,
            "checkpoints": listed,
            "final": final,
            "deciding": self.deciding or None,
            "disk_bytes": self.disk_bytes,
            "free_bytes": self.free_bytes,
        }

    def kept_from_deletion(self, steps: Iterable[int]) -> str:
        """Return why checkpoints of these steps cannot be deleted; empty when they can."""
        known = {one.step: one for one in self.checkpoints}
        if missing := [str(step) for step in steps if step not in known]:
            there = ", ".join(map(str, known)) or "none"
            return f"there is no checkpoint of step {', '.join(missing)}. Steps with a checkpoint: {there}"
        if self.starting:
            return "the run is starting and may be loading a checkpoint. Wait until it trains"
        for one in map(known.__getitem__, steps):
            if is_held(Path(one.path)):
                return f"step {one.step} is in use, such as by a race. Wait until that has ended"
            if one.step in self.references:
                return f"a stage measures the KL from step {one.step}, so the run needs it to continue"
            if not self.live:
                continue
            if one.newest:
                return f"step {one.step} is the newest checkpoint of a live run, which would resume from it"
            if not one.complete:
                return f"step {one.step} may still be incomplete: the run is live"
        return ""


def list_checkpoints(root: Path) -> CheckpointList:
    """Return the checkpoints in a run's folder.

    Raises:
        RunDatabaseError: The folder holds no run.
    """
    status = read_status(root)
    found = [_listed(path, live=status.live) for path in RunFolder(root).checkpoints()]
    final = final_step(root, status)
    files = () if final is None else (file for pattern in WEIGHTS for file in root.glob(pattern))
    weights = sum(file.lstat().st_size for file in files)  # those of a live run may vanish meanwhile
    evaluations = read_evaluations(root)
    if evaluations is not None:
        found = [_evaluated(one, evaluations) for one in found]
    spec = spec_or_none(RunFolder(root)) if final is None else None
    return CheckpointList(
        run=str(root),
        checkpoints=_marked(*_with_metrics(root, found)),
        final=None if final is None else FinalModel(final, str(root), weights),
        live=status.live,
        starting=status.state == "starting",
        free_bytes=shutil.disk_usage(root).free,
        deciding=evaluations.deciding if evaluations is not None else "",
        references=spec.stage.references if spec is not None and spec.stage is not None else (),
    )


def lines(found: CheckpointList) -> Iterator[str]:
    """Yield the list as a table with a total below."""
    columns = [_column("reward", [fixed(one.reward) for one in found.checkpoints])]
    if found.deciding:
        values = [fixed(one.evaluation, 3) for one in found.checkpoints]
        columns.append(_column(one_line(found.deciding, 20), values))
    heads, *rows = ["  ".join(cells) for cells in zip(*columns, strict=True)]
    yield f"{'step':>8}  {'size':>9}  {heads}"
    for one, row in zip(found.checkpoints, rows, strict=True):
        marks = ", ".join(one.marks) if one.complete else f"incomplete: {one.reason}"
        yield f"{one.step:>8}  {size(one.size_bytes):>9}  {row}  {marks}".rstrip()
    if found.final is not None:
        yield f"{found.final.step:>8}  {size(found.final.size_bytes):>9}  {'':>{len(heads)}}  final model"
    also = " and the final model" if found.final is not None else ""
    count = plural(len(found.checkpoints), "checkpoint")
    yield f"{count}{also}: {size(found.disk_bytes)}; {size(found.free_bytes)} free"


def _column(head: str, values: Sequence[str]) -> list[str]:
    width = max(len(head), *map(len, values)) if values else len(head)
    return [f"{text:>{width}}" for text in (head, *values)]


def _listed(path: Path, *, live: bool) -> ListedCheckpoint:
    verdict = judge(path)
    marker = read_object(path / MARKER)
    complete = verdict.usable and not (live and marker is None)
    reason = "" if complete else UNFINISHED if verdict.usable else verdict.reason
    size_bytes = sum(file.lstat().st_size for file in path.rglob("*") if file.is_file())
    requested = bool((marker or {}).get("requested"))
    return ListedCheckpoint(verdict.step, str(path), size_bytes, complete, reason, requested)


def _evaluated(one: ListedCheckpoint, evaluations: Evaluations) -> ListedCheckpoint:
    found, best = evaluations.at(one.step), evaluations.best
    value = found.value if found is not None else None
    return replace(one, evaluation=value, best_evaluation=best is not None and best.step == one.step)


def _with_metrics(root: Path, found: Sequence[ListedCheckpoint]) -> tuple[list[ListedCheckpoint], int]:
    """Return the checkpoints with their metrics, and the step after which the current rewards scored."""
    try:
        reader = RunReader(RunFolder(root).database)
    except RunDatabaseError:
        return list(found), 0
    with closing(reader):
        if (moment := reader.moment) is not None:  # a replay does not show what was saved later
            found = [one for one in found if one.step <= moment.step]
        rows = [last_training_row(reader, one.step) for one in found]
        since = max(stage_start(lasting(reader.settings(), reader.attempts())), reader.rewards_began())
    whole = [
        replace(one, metrics_step=row[0], metrics=row[1]) if row is not None else one
        for one, row in zip(found, rows, strict=True)
    ]
    return whole, since


def _marked(found: Sequence[ListedCheckpoint], since: int) -> tuple[ListedCheckpoint, ...]:
    """Mark the newest checkpoint, and the best by the rewards that scored after the step `since`."""
    complete = [one for one in found if one.complete]
    newest = complete[-1].step if complete else None
    rewards = [(one.reward, one.step) for one in complete if one.reward is not None and one.step > since]
    best = max(rewards)[1] if rewards else None
    return tuple(replace(one, newest=one.step == newest, best=one.step == best) for one in found)
