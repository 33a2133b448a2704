"""Rows of the list of runs, each from one look at its folder, and offers to resume ended runs."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo_tui.core.statistics import is_number, mean
from grpo_tui.core.text import one_line, shell_word
from grpo_tui.present.formatting import IN_SCRIPT, from_here, moment
from grpo_tui.store.checkpoints import newest_usable
from grpo_tui.store.connection import DamagedError, RunDatabaseError
from grpo_tui.store.layout import RunFolder, last_written_at
from grpo_tui.store.read_health import resume_options
from grpo_tui.store.read_series import sample_series
from grpo_tui.store.reader import RunReader, wrong_types
from grpo_tui.store.spec import checkpoint_forked
from grpo_tui.store.status import ENDED, Status, read_status

CURVE_POINTS = 48
CAUSE_CHARACTERS = 400


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
    """Last heartbeat or write, in seconds since the epoch."""
    config: str = ""
    trouble: str = ""
    """Why it cannot be read; empty when it can."""
    cause: str = ""
    """Why it failed, or what needs attention while it is live, as a sentence."""
    checkpoints: tuple[int, ...] = ()
    torn: tuple[int, ...] = ()
    attempt: int = 0
    started_at: float | None = None
    """When its newest attempt began, in seconds since the epoch."""
    phase: str = ""
    model_path: str = ""
    config_path: str = ""
    forked_from: Path | None = None
    """The checkpoint of another run that it was forked from."""
    generation: int = 0
    """1 where it is listed as a fork of the run above, 2 as a fork of that."""

    @property
    def ended(self) -> bool:
        """Whether it is over, for any reason."""
        return self.state in ENDED


def read_run_row(path: Path, name: str | None = None) -> RunRow:
    """Return the row of a run folder. Problems end up in its `trouble`, never in an exception."""
    return read_run(path, name)[0]


def read_run(path: Path, name: str | None = None) -> tuple[RunRow, Status | None]:
    """Return the row of a run folder, and its status; None when that cannot be read."""
    shown = one_line(name or path.name, 60)
    folder = RunFolder(path)
    try:
        reader = RunReader(folder.database) if folder.database.exists() else None
    except RunDatabaseError as error:
        return _unreadable(path, shown, error), None
    try:
        status = read_status(path, reader)
        if reader is not None and reader.wrong_types("attempt", "checkpoint"):
            raise DamagedError("values of the wrong type")
        return _row(path, shown, folder, status, reader), status
    except Exception as error:  # one broken folder must not empty the list
        return _unreadable(path, shown, wrong_types(folder.database) or error), None
    finally:
        if reader is not None:
            reader.close()


def _unreadable(path: Path, name: str, error: Exception | str) -> RunRow:
    trouble = one_line(str(error), 200)
    return RunRow(path, name, "broken", seen_at=changed_at(RunFolder(path)), trouble=trouble)


def _row(path: Path, name: str, folder: RunFolder, status: Status, reader: RunReader | None) -> RunRow:
    reward: float | None = None
    curve: tuple[float | None, ...] = ()
    fact = reader.fact("config") if reader is not None else None
    config: Mapping[str, Any] = fact if isinstance(fact, Mapping) else {}
    if reader is not None:
        stretches = [
            [v for v in stretch if is_number(v)] for stretch in sample_series(reader, "reward", CURVE_POINTS)
        ]
        curve = tuple(map(mean, stretches))
        reward = next((known[-1] for known in reversed(stretches) if known), None)
    model = str(config.get("model") or "")
    return RunRow(
        path=path,
        name=name,
        state=status.state,
        live=status.live,
        model=one_line(Path(model).name if model.startswith(("/", "~", ".")) else model, 40),
        step=status.step,
        total_steps=status.total_steps,
        reward=reward,
        curve=curve,
        seen_at=time.time() if status.live and status.supervised else changed_at(folder),
        config=one_line(Path(str(config["path"])).name, 40) if config.get("path") else "",
        cause=_cause(status),
        checkpoints=tuple(c.step for c in status.checkpoints if c.complete),
        torn=tuple(c.step for c in status.checkpoints if not c.complete),
        attempt=status.attempt,
        started_at=status.started_at,
        phase=status.phase if status.live else "",
        model_path=one_line(model, 200),
        config_path=one_line(str(config.get("path") or ""), 200),
        forked_from=checkpoint_forked(folder),
    )


def _cause(status: Status) -> str:
    if status.error and status.state in ("failed", "crashed"):
        return one_line(str(status.error.get("cause") or status.error.get("message") or ""), CAUSE_CHARACTERS)
    return one_line(str(status.alerts[0]["message"]), CAUSE_CHARACTERS) if status.alerts else ""


def changed_at(folder: RunFolder) -> float | None:
    """Return when a run folder was last written; None when it cannot be read."""
    return last_written_at(_signs(folder)) or None


def fingerprint(folder: RunFolder) -> tuple[tuple[int, int] | None, ...]:
    """Return time and size of the files with a run's state. Equal values mean that nothing was written.

    An empty file counts as missing: reading `run.db` leaves an empty write-ahead log behind.
    """
    found: list[tuple[int, int] | None] = []
    for path in _signs(folder):
        try:
            stat = path.stat()
        except OSError:
            found.append(None)
        else:
            found.append((stat.st_mtime_ns, stat.st_size) if stat.st_size else None)
    return tuple(found)


def _signs(folder: RunFolder) -> tuple[Path, ...]:
    return (folder.heartbeat, folder.database, folder.root / "run.db-wal", folder.log, folder.spec)


def ordered(rows: Iterable[RunRow]) -> list[RunRow]:
    """Sort live runs first, then by last heartbeat, newest first."""
    return sorted(rows, key=lambda row: (not row.live, -(row.seen_at or 0.0), row.name))


NAMES_OF_ANY_RUN = frozenset({"run", "out", "output", "outputs", "trainer_output", "results", "model"})


def run_names(paths: Sequence[Path]) -> dict[Path, str]:
    """Return a name for each folder, prefixed with its parent's where the name alone is ambiguous."""
    counts: dict[str, int] = {}
    for path in paths:
        counts[path.name] = counts.get(path.name, 0) + 1
    return {
        path: path.name
        if counts[path.name] == 1 and path.name.lower() not in NAMES_OF_ANY_RUN
        else f"{path.parent.name}/{path.name}"
        for path in paths
    }


@dataclass(frozen=True, slots=True)
class ResumeOffer:
    """A possible resume; `refusal` says why there is none, and what to do instead."""

    path: Path
    name: str
    checkpoint: str = ""
    lines: tuple[str, ...] = ()
    refusal: str = ""


def read_offer(row: RunRow) -> ResumeOffer:
    """Find the checkpoint from which a run would continue."""
    if RunFolder(row.path).of_script:
        why = f"{row.name} was trained by a script. Start the script again with {IN_SCRIPT}."
        return ResumeOffer(row.path, row.name, refusal=one_line(why, 300))
    best, passed = newest_usable(RunFolder(row.path))
    if best is None:
        torn = "; ".join(f"{v.path.name}: {v.reason}" for v in passed[:2])
        why = f" ({torn})" if torn else ""
        return ResumeOffer(
            row.path, row.name,
            refusal=one_line(f"{row.name} has no complete checkpoint to resume from{why}.", 300),
        )  # fmt: skip
    total = f" of {row.total_steps:,}" if row.total_steps else ""
    saved = moment(_written_at(best.path), time.time())
    lines = [f"Continues from {best.path.name}, saved {saved}. The next step is {best.step + 1:,}{total}."]
    again = row.step - best.step
    if again == 1:
        lines.append(f"Step {row.step:,} is repeated; its record stays, marked superseded.")
    elif again > 1:
        lines.append(
            f"Steps {best.step + 1:,} to {row.step:,} are repeated; their record stays, marked superseded."
        )
    if best.reason:
        lines.append(f"Not exact: {best.reason}.")
    lines += _passed_by(row.path, best.step)
    lines += [f"Skipped: {v.path.name}, {v.reason}." for v in passed[:2]]
    return ResumeOffer(row.path, row.name, best.path.name, tuple(one_line(line, 200) for line in lines))


def _passed_by(path: Path, step: int) -> Iterator[str]:
    """Yield a warning if the checkpoint is from after a finding about the policy, with the better command."""
    try:
        findings = read_status(path).findings
    except RunDatabaseError:
        return
    for finding in findings:
        options, first = resume_options(finding), finding.first_step or 0
        if options is not None and step >= first - 1:
            title = finding.message.partition(". ")[0]
            yield f"{title} at step {first:,}, before this checkpoint was saved."
            back = f"grpo-tui train {shell_word(from_here(path))} {options}"
            yield f"To go back: {back}" if options else "There is no checkpoint from before. Start a new run."
            return


def _written_at(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except OSError:
        return None


def resume_command(path: Path | str) -> str:
    """Return the command that resumes a run, or the call with which its script does."""
    if RunFolder(Path(path)).of_script:
        return IN_SCRIPT
    return f"grpo-tui train {shell_word(path)} --resume"
