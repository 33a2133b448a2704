"""Show a run as it was after one of its steps, by views that hide from every reader what was recorded later.

The steps are those of the final line of the run. Steps that a resume repeated are superseded at every moment
of this line, so what a reader calls superseded needs no change.
"""

from __future__ import annotations

import math
import sqlite3
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grpo_tui.core.evaluations import FACT as EVALUATIONS
from grpo_tui.core.schedule import FACT as SCHEDULE
from grpo_tui.core.stages import FACT as STAGE

if TYPE_CHECKING:
    from grpo_tui.core.findings import Finding
    from grpo_tui.store.reader import RunReader

SPEED = 10.0
NEAR_SPANS = 64
"""Spans of phases searched for the beginning of the next step."""
LONGEST_S = 60.0
"""Most recorded seconds between two steps that a replay waits. A pause can last for days."""


@dataclass(frozen=True, slots=True)
class Moment:
    """What was recorded by the end of a step, before the next one began.

    Attributes:
        row: Id of the newest metric row; `group`, `span` and `line` likewise.
        at: When the step was logged.
        before: When the next step began; infinite at the last one. Anything recorded later is hidden.
        wait_s: Recorded seconds until the next step was logged, at most `LONGEST_S`.
    """

    step: int
    attempt: int
    row: int
    group: int
    span: int
    line: int
    at: float
    before: float
    wait_s: float

    @property
    def now(self) -> float:
        """The time at the moment."""
        return self.before if math.isfinite(self.before) else self.at

    def fact(self, key: str, value: Any) -> Any:
        """Return the value that a fact had. Those that never change later are returned as they are."""
        if self.before == math.inf:
            return value
        if key == EVALUATIONS and isinstance(value, dict) and isinstance(value.get("done"), list):
            return {**value, "done": [one for one in value["done"] if _number(one, "step") <= self.step]}
        if key == STAGE and isinstance(value, dict) and isinstance(value.get("starts"), list):
            starts = value["starts"]  # each is the step after which a stage began
            begun = [one for one in starts if isinstance(one, int) and one < self.step]
            return {**value, "starts": begun or starts[:1]}
        if key == SCHEDULE and isinstance(value, list):
            known = (one for one in value if _number(one, "asked_at") < self.before)
            later = {"state": "waiting", "decided_at": 0.0, "reason": ""}
            return [one if _number(one, "decided_at") < self.before else {**one, **later} for one in known]
        return value

    def views(self) -> dict[str, str]:
        """Return the SQL of a view for each table of which a part is hidden."""
        before = repr(self.before).replace("inf", "9e999")
        # The `+` keeps SQLite on the index that it would use without the view.
        line = f"(+step <= {self.step} OR +attempt < {self.attempt})"
        ended = _until("ended_at", before, "ended_at", "state", "step", "exit_code", "error")
        decided = _until("decided_at", before, "applied", "step", "reason", "result", "decided_at")
        found = "rule, first_step, last_step, severity, message, evidence, remedies, opened_at, changed_at"
        return {
            "metric_row": f"* FROM main.metric_row WHERE id <= {self.row}",
            "metric_key": "* FROM main.metric_key k WHERE EXISTS"
            f" (SELECT 1 FROM main.metric m WHERE m.key = k.id AND m.row <= {self.row})",
            "generation_group": f"* FROM main.generation_group WHERE id <= {self.group} AND {line}",
            "reward_function": f"* FROM main.reward_function WHERE attempt <= {self.attempt}",
            "reloaded_function": f"* FROM main.reloaded_function WHERE at < {before}",
            "phase": f"* FROM main.phase WHERE id <= {self.span}",
            "log": f"* FROM main.log WHERE id <= {self.line}",
            "checkpoint": f"* FROM main.checkpoint WHERE at < {before}",
            "setting": f"* FROM main.setting WHERE at < {before}",
            "dropped": f"* FROM main.dropped WHERE attempt < {self.attempt} OR {before} = 9e999",
            "attempt": f"attempt, started_at, host, pid, resumed_from, total_steps, {ended}"
            f" FROM main.attempt WHERE attempt <= {self.attempt}",
            "command": f"id, kind, args, by, at, {decided} FROM main.command WHERE at < {before}",
            "finding": f"{found}, {_until('closed_at', before, 'closed_at')}"
            f" FROM main.finding WHERE opened_at < {before}",
        }


def _until(time: str, before: str, *columns: str) -> str:
    return ", ".join(f"CASE WHEN {time} < {before} THEN {column} END AS {column}" for column in columns)


def _number(entry: Any, key: str) -> float:
    value = entry.get(key) if isinstance(entry, dict) else None
    return float(value) if isinstance(value, int | float) else 0.0


class Replay:
    """A run shown as of one of its steps, `at` or the first. Safe from any thread.

    Args:
        judge: Returns the findings that were open, for those whose text has changed since.
        speed: Factor by which it plays faster than the run trained.
    """

    def __init__(
        self, at: int | None, judge: Callable[[RunReader], Iterable[Finding]], speed: float = SPEED
    ) -> None:
        self.judge, self.speed, self.playing = judge, speed, True
        self.steps: tuple[int, ...] = ()
        """All steps of the final line, in order; step 0 without any. Empty until the run is read."""
        self.recorded = False
        """Whether the run was read and has steps."""
        self.version = 0
        self.place = 0
        """Position of the step in `steps`."""
        self.moment: Moment | None = None
        """What is shown; None until a reader has looked."""
        self._at = at
        self._lock = threading.RLock()

    def go(self, place: int) -> None:
        """Show the step at a place, or the nearest one there is."""
        with self._lock:
            place = max(0, min(place, len(self.steps) - 1))
            if place != self.place:
                self.place, self.moment = place, None
                self.version += 1

    def place_of(self, step: int) -> int:
        """Return the place of the newest step up to this one; that of the first before it."""
        return max(0, bisect_right(self.steps, step) - 1)

    def show(self, db: sqlite3.Connection) -> tuple[int, Moment]:
        """Make a connection show the moment. Return the version shown."""
        with self._lock:
            if not self.steps:
                found = tuple(row[0] for row in db.execute(_STEPS))
                self.recorded, self.steps = bool(found), found or (0,)
                self.place = 0 if self._at is None else self.place_of(self._at)
            if self.moment is None:
                try:
                    self.moment = _moment(db, self.steps[self.place])
                except (OverflowError, TypeError, ValueError) as error:  # only another program writes these
                    raise sqlite3.DatabaseError("its ids or times are not numbers") from error
            moment, version = self.moment, self.version
        hide(db)
        tables = {row[0] for row in db.execute("SELECT name FROM main.sqlite_master WHERE type = 'table'")}
        for table, select in moment.views().items():
            if table in tables:
                db.execute(f"CREATE TEMP VIEW {table} AS SELECT {select}")
        return version, moment


def hide(db: sqlite3.Connection) -> None:
    """Remove the views from a connection."""
    db.execute("PRAGMA temp_store=MEMORY")
    for (name,) in db.execute("SELECT name FROM temp.sqlite_master WHERE type = 'view'").fetchall():
        db.execute(f"DROP VIEW temp.{name}")


# Another program may have written the file, so what becomes part of a statement is cast to a number.
_STEPS = (
    "SELECT CAST(step AS INTEGER) FROM main.metric_row WHERE superseded = 0 UNION"
    " SELECT CAST(step AS INTEGER) FROM main.generation_group WHERE mode = 'train' AND superseded = 0"
    " ORDER BY 1"
)


def _moment(db: sqlite3.Connection, step: int) -> Moment:
    row = _newest(db, "metric_row", step)
    group = _newest(db, "generation_group", step)
    here = max(row, group, key=lambda one: (one[2], one[1]))
    next_row, next_group = (
        db.execute(
            f"SELECT CAST(at AS REAL) FROM main.{table} WHERE id > ? ORDER BY id LIMIT 1", (newest[0],)
        ).fetchone()
        for table, newest in (("metric_row", row), ("generation_group", group))
    )
    begins = [one[0] for one in (next_row, next_group) if one is not None]
    starts = "SELECT CAST(min(started_at) AS REAL) FROM main.attempt WHERE attempt > ?"
    before = min([*begins, math.inf])
    again = db.execute(starts, (here[2],)).fetchone()[0]
    if again is not None:
        before = min(before, again)
    span = _until_time(db, "phase", "started_at", before)
    generating = db.execute(
        f"SELECT CAST(min(started_at) AS REAL) FROM (SELECT * FROM main.phase WHERE id <= ? ORDER BY id DESC"
        f" LIMIT {NEAR_SPANS}) WHERE rank = 0 AND phase = 'generate' AND started_at > ?",
        (span, here[1]),
    ).fetchone()[0]
    if generating is not None and begins:
        before = min(before, generating)
        span = _until_time(db, "phase", "started_at", before)
    gap = max(0.0, (next_row or next_group or (here[1],))[0] - here[1])
    line = _until_time(db, "log", "at", before)
    return Moment(step, here[2], row[0], group[0], span, line, here[1], before, min(gap, LONGEST_S))


def _newest(db: sqlite3.Connection, table: str, step: int) -> tuple[int, float, int]:
    """Return id, time and attempt of the newest row up to a step; zeros without any."""
    row = db.execute(
        f"SELECT id, CAST(at AS REAL), CAST(attempt AS INTEGER) FROM main.{table}"
        " WHERE +step <= ? AND superseded = 0 ORDER BY id DESC LIMIT 1",
        (step,),
    ).fetchone()
    return (0, 0.0, 0) if row is None else tuple(row)


def _until_time(db: sqlite3.Connection, table: str, column: str, before: float) -> int:
    """Return the id of the last row before a time, of a table whose rows are in the order of time."""
    first, last = db.execute(f"SELECT min(id), max(id) FROM main.{table}").fetchone()
    if last is None or before == math.inf:
        return last or 0

    def time_of(number: int) -> float:
        found = db.execute(
            f"SELECT CAST({column} AS REAL) FROM main.{table} WHERE id >= ? ORDER BY id LIMIT 1", (number,)
        ).fetchone()
        return float(found[0])

    numbers = range(first, last + 1)
    return first - 1 + bisect_left(numbers, before, key=time_of)


_replays: dict[Path, Replay] = {}
_thread = threading.local()


def begin(database: Path, replay: Replay) -> None:
    """Show the run with this `run.db` as of the moment of a replay, to every reader of this process."""
    _replays[database.absolute()] = replay


def end(database: Path) -> None:
    """Show the run as it is now."""
    _replays.pop(database.absolute(), None)


def is_replayed(database: Path) -> bool:
    """Return whether a run is replayed in this process, in whatever thread."""
    return database.absolute() in _replays


def replay_of(database: Path) -> Replay | None:
    """Return the replay of a run in this process, or None."""
    if not _replays or getattr(_thread, "sees_present", False):
        return None
    return _replays.get(database.absolute())


def see_present() -> None:
    """Show this thread every run as it is now."""
    _thread.sees_present = True
