"""Answer questions about a run from its `run.db`, in bounded pages.

No cursor stays open between calls, so a reader suspended with Ctrl-Z blocks nobody.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from grpo_tui.core.commands import Command, Outcome
from grpo_tui.core.exchange import mapping
from grpo_tui.core.records import (
    CheckpointSaved,
    Completion,
    LogLine,
    RewardFunctionInfo,
    SettingChanged,
)
from grpo_tui.core.schedule import FACT, scheduled_from, without_left
from grpo_tui.core.statistics import Signal, mean, signal_of, std
from grpo_tui.store.connection import DamagedError, RunDatabaseError, RunFile
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.schema import JSON_COLUMNS, TABLES
from grpo_tui.store.values import from_column, from_json, messages_from, object_from, prompt_from

T = TypeVar("T")
MOST_VISITS = 2_000
_GROUP = (
    "SELECT id, attempt, batch, rank, idx AS 'index', mode, step, last_step, at, prompt, prompt_key, columns,"
    " mean, std FROM generation_group"
)
_NOTHING = object()
_JSON_VALUES = " UNION ALL ".join(
    f"SELECT * FROM (SELECT '{table}{' ' if table == 'fact' else f'.{column}'}' || {name} AS place,"
    f" {column} AS value, '{' '.join(kinds)}' AS kinds FROM main.{table} ORDER BY rowid DESC LIMIT ?)"
    for table, column, kinds in JSON_COLUMNS
    for name in ("key" if table == "fact" else "''",)
)
"""The newest values of every JSON column, with their place and the allowed JSON types."""
_NO_NUMBER = "typeof({0}) NOT IN ('integer', 'real', 'null') AND {0} IS NOT 'nan'"
_WRONG = {
    "INTEGER": "typeof({0}) NOT IN ('integer', 'null')", "REAL": _NO_NUMBER,
    "TEXT": "typeof({0}) NOT IN ('text', 'null')", "": "typeof({0}) = 'blob'",
    "reward.value": _NO_NUMBER, "completion.total": _NO_NUMBER,
}  # fmt: skip
"""Conditions for values that no writer stores, by declared type or column name."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One start of the run, as recorded."""

    attempt: int
    started_at: float
    host: str
    pid: int
    resumed_from: int | None
    total_steps: int | None
    ended_at: float | None
    state: str | None
    step: int | None
    exit_code: int | None
    error: Mapping[str, Any] | None


def lasting(changes: Iterable[SettingChanged], attempts: Sequence[Attempt]) -> list[SettingChanged]:
    """Return changed settings, without those undone by a resume from an earlier step."""
    return [
        change
        for change in changes
        if all(
            one.resumed_from is None or one.resumed_from >= change.step
            for one in attempts
            if one.attempt > change.attempt
        )
    ]


@dataclass(frozen=True, slots=True)
class StoredGroup:
    """A group of completions, and where and when it was generated."""

    id: int
    attempt: int
    batch: int
    rank: int
    index: int
    mode: str
    step: int
    last_step: int
    at: float
    prompt: Any
    prompt_key: str
    columns: Mapping[str, Any]
    mean: float | None
    std: float | None
    completions: tuple[Completion, ...]
    functions: tuple[str, ...] = ()
    """Distinct names of the functions that scored it, in the order of `Completion.rewards`."""

    @property
    def signal(self) -> Signal:
        """What the loss gets from the group."""
        members = self.completions
        given = None if self.mode == "probe" else [c.advantage for c in members]
        return signal_of([c.total for c in members], given, [c.masked for c in members])


@dataclass(frozen=True, slots=True)
class Visit:
    """One appearance of a prompt, with the text of the completion with the highest total.

    Mean, std and best are None when no completion was scored.
    """

    group: int
    step: int
    attempt: int
    mode: str
    mean: float | None
    std: float | None
    best: str | None
    best_total: float | None


class RunReader(RunFile):
    """Reads one run: attempts, reward functions, groups with completions, and events.

    `store.read_series` reads metrics, `store.rollouts` reads single completions.

    Raises:
        RunDatabaseError: From the constructor, when there is no readable `run.db`.
    """

    # -- the run ---------------------------------------------------------------------------------

    def attempts(self) -> list[Attempt]:
        """Return every start of the run, oldest first."""
        rows = self.all("SELECT * FROM attempt ORDER BY attempt")
        return [Attempt(**{**dict(row), "error": from_json(row["error"], dict)}) for row in rows]

    def fact(self, key: str) -> Any:
        """Return a named value such as `config` or `reproduction`; None when it was not recorded."""
        row = self.one("SELECT value FROM fact WHERE key = ?", key)
        value = None if row is None else from_json(row["value"])
        return value if self.moment is None else self.moment.fact(key, value)

    def config(self, *path: str) -> Any:
        """Return a value of the run's config by its keys; None when there is none."""
        found = self.fact("config")
        for key in path:
            found = found.get(key) if isinstance(found, Mapping) else None
        return found

    def unreadable(self, newest: int = 64) -> dict[str, int]:
        """Count unreadable values by place, such as `fact reproduction` or `setting.new`."""
        rows = self.all(
            "SELECT place, value, kind FROM (SELECT *, CASE WHEN json_valid(value) THEN json_type(value) END"
            f" AS kind FROM ({_JSON_VALUES})) WHERE value IS NOT NULL"
            " AND (kind IS NULL OR (kinds <> '' AND instr(kinds || 'null', kind) = 0))",
            *[newest] * len(JSON_COLUMNS),
        )
        # SQLite does not accept NaN and infinities as JSON. Python writes and reads them.
        return Counter(
            place
            for place, value, kind in rows
            if kind is not None or from_json(value, otherwise=_NOTHING) is _NOTHING
        )

    def wrong_types(self, *tables: str) -> list[str]:
        """Return the columns of these tables, or of all, that hold a value no writer stores."""
        return [
            f"{table}.{column}"
            for table, column, wrong in _wrong_values()
            if (not tables or table in tables)
            and self.has(table, column)
            and self.one(f"SELECT 1 FROM {table} WHERE {wrong} LIMIT 1")
        ]

    def reward_functions(self) -> list[RewardFunctionInfo]:
        """Return the reward functions of the newest attempt, in TRL's order, as they were last reloaded."""
        rows = self.all(
            "SELECT * FROM reward_function WHERE attempt = (SELECT max(attempt) FROM reward_function)"
            " ORDER BY idx"
        )
        found = [_made(RewardFunctionInfo, r, index=r["idx"], weight=from_column(r["weight"])) for r in rows]
        newer = [new for new in self.reloaded_functions() if found and new.attempt == found[0].attempt]
        last = max((new.at for new in newer), default=0.0)
        newest = [new for new in newer if new.at == last]
        # Of the list that the attempt began with, the weights are those that it began with.
        return [
            replace(new, name=found[new.index].name, weight=found[new.index].weight)
            if new.index < len(found)
            else new
            for new in newest
        ] or found

    def function_names(self) -> dict[int, dict[int, str]]:
        """Return distinct names of the reward functions by attempt and index: a second one is `name#2`."""
        found: dict[int, dict[int, str]] = {}
        for attempt, _, names in self._function_lists():
            known = zip(names, distinct_names(names.values()), strict=True)
            found.setdefault(attempt, {}).update(known)
        return found

    def rewards_began(self) -> int:
        """Return the step after which the current list of reward functions scored; 0 from the start."""
        lists = self._function_lists()
        since, last = 0, list[str]()
        for one in self.attempts():
            resumed = one.resumed_from or 0
            since = min(since, resumed)
            for attempt, first, names in lists:
                if attempt == one.attempt and list(names.values()) != last:
                    since = (first - 1 if first else resumed) if last else 0
                    last = list(names.values())
        return since

    def _function_lists(self) -> list[tuple[int, int, dict[int, str]]]:
        """Return attempt, first step (0 from the start) and names by index of each list, in order."""
        lists: dict[tuple[int, float], tuple[int, dict[int, str]]] = {}
        for row in self.all("SELECT attempt, idx, name FROM reward_function ORDER BY attempt, idx"):
            lists.setdefault((row["attempt"], 0.0), (0, {}))[1][row["idx"]] = row["name"]
        for new in self.reloaded_functions():
            if new.name:
                lists.setdefault((new.attempt, new.at), (new.since_step, {}))[1][new.index] = new.name
        return [(attempt, *lists[attempt, at]) for attempt, at in sorted(lists)]

    def reloaded_functions(self) -> list[RewardFunctionInfo]:
        """Return what was reloaded while training, oldest first. An older file has no names and weights."""
        if not self.has("reloaded_function", "since_step"):
            return []
        named = self.has("reloaded_function", "name")
        return [
            _made(
                RewardFunctionInfo,
                r,
                index=r["idx"],
                name=(named and r["name"]) or "",
                weight=from_column(r["weight"]) if named and r["name"] else 0.0,
            )
            for r in self.all("SELECT * FROM reloaded_function ORDER BY attempt, at, idx")
        ]

    def dropped(self) -> dict[str, int]:
        """Return the number of records that could not be kept, by kind."""
        return {
            r["kind"]: r["n"] for r in self.all("SELECT kind, sum(count) AS n FROM dropped GROUP BY kind")
        }

    # -- generations -----------------------------------------------------------------------------

    def groups(
        self,
        *,
        first_step: int | None = None,
        last_step: int | None = None,
        mode: str | None = None,
        after_id: int = 0,
        newest_first: bool = False,
        superseded: bool = False,
        limit: int = 100,
    ) -> list[StoredGroup]:
        """Return a page of groups with their completions.

        Args:
            first_step: Lower bound on the step the batch was generated for; both bounds are inclusive.
            mode: `train`, `eval`, `probe`, or None for all.
            superseded: Include steps that a resume has repeated.
        """
        where, values = ["id > ?"], [after_id]
        # The `+` keeps SQLite from an index with which it would sort the whole run by id.
        for clause, value in (("step >= ?", first_step), ("step <= ?", last_step), ("+mode = ?", mode)):
            if value is not None:
                where.append(clause)
                values.append(value)  # type: ignore[arg-type]
        if not superseded:
            where.append("+superseded = 0")
        order = "DESC" if newest_first else "ASC"
        rows = self.all(f"{_GROUP} WHERE {' AND '.join(where)} ORDER BY id {order} LIMIT ?", *values, limit)
        return self._groups_of(rows)

    def groups_by_id(self, ids: Sequence[int]) -> list[StoredGroup]:
        """Return the groups with these numbers, in that order. Missing ones are left out."""
        rows = list(self.among(f"{_GROUP} WHERE id IN (?)", ids))
        found = {group.id: group for group in self._groups_of(rows)}
        return [found[one] for one in ids if one in found]

    def whole_groups(self, ids: Sequence[int]) -> list[StoredGroup]:
        """Return the groups with these numbers, each merged from its parts on all ranks.

        When a rank gets fewer completions than a group has, TRL divides the group and each rank records its
        part. A merged group has the number and the rank of its first part.
        """
        rows = self.among(
            "SELECT g.id, p.id FROM generation_group g CROSS JOIN generation_group p"
            " ON p.attempt = g.attempt AND p.batch = g.batch AND p.idx = g.idx"
            " WHERE g.id IN (?) ORDER BY p.rank",
            ids,
        )
        parts: dict[int, list[int]] = {}
        for group, part in rows:
            parts.setdefault(group, []).append(part)
        wanted = dict.fromkeys(part for group in ids for part in parts.get(group, ()))
        return joined_parts(self.groups_by_id(list(wanted)))

    def older_groups(self, group: int, limit: int = 100) -> list[StoredGroup]:
        """Return the training groups that follow this one when the newest batch comes first."""
        key = self.one("SELECT attempt, batch, rank, idx FROM generation_group WHERE id = ?", group)
        if key is None:
            return []
        rows = self.all(
            # The `+` keeps SQLite on the index with this order, however long the run is.
            f"{_GROUP} WHERE +mode = 'train' AND +superseded = 0"
            " AND (attempt, batch) <= (?, ?)"
            " AND ((attempt, batch) < (?, ?) OR (rank, idx) > (?, ?))"
            " ORDER BY attempt DESC, batch DESC, rank, idx LIMIT ?",
            *tuple(key)[:2],
            *key,
            limit,
        )
        return self._groups_of(rows)

    def newer_groups(self, group: int) -> int:
        """Count the training groups of later batches than this one's."""
        return int(
            self.one(
                "SELECT count(*) FROM generation_group g, (SELECT * FROM generation_group WHERE id = ?) k"
                " WHERE g.mode = 'train' AND g.superseded = 0"
                " AND (g.attempt, g.batch) > (k.attempt, k.batch)",
                group,
            )[0]
        )

    def visits(self, prompt_key: str, *, limit: int = MOST_VISITS) -> list[Visit]:
        """Return the appearances of a prompt, oldest first, without superseded steps."""
        rows = self.all(
            "SELECT g.id, g.step, g.attempt, g.mode, g.mean, g.std, b.text, b.total FROM"
            " (SELECT * FROM generation_group WHERE prompt_key = ? AND superseded = 0"
            "  ORDER BY step DESC, id DESC LIMIT ?) g"
            " LEFT JOIN completion b ON b.id = (SELECT c.id FROM completion c WHERE c.group_id = g.id"
            "  AND typeof(c.total) IN ('real', 'integer') ORDER BY c.total DESC, c.idx LIMIT 1)"
            " ORDER BY g.step, g.id",
            prompt_key,
            limit,
        )
        return [Visit(*tuple(row)) for row in rows]

    def groups_in_turn(self, group: int) -> tuple[int | None, int | None]:
        """Return the first group of the previous step and of the next step, seen from a group.

        Of a step that a resume has repeated only the newest version counts.
        """
        here = self.one("SELECT step, mode FROM generation_group WHERE id = ?", group)
        if here is None:
            return None, None
        step, mode = here
        found = []
        for compared, end in (("<", "max"), (">", "min")):
            row = self.one(
                f"SELECT min(id) FROM generation_group WHERE mode = ? AND superseded = 0 AND step ="
                f" (SELECT {end}(step) FROM generation_group"
                f"  WHERE step {compared} ? AND mode = ? AND superseded = 0)",
                mode,
                step,
                mode,
            )
            found.append(row[0])
        return found[0], found[1]

    def completion_count(self, *, superseded: bool = False) -> int:
        """Return the number of completions recorded."""
        clause = "" if superseded else " WHERE g.superseded = 0"
        return int(
            self.one(
                f"SELECT count(*) FROM completion c JOIN generation_group g ON g.id = c.group_id{clause}"
            )[0]
        )

    def iter_groups(self, page: int = 200, **query: Any) -> Iterator[StoredGroup]:
        """Yield all groups of a query, page by page, in order of recording."""
        last = 0
        while found := self.groups(after_id=last, limit=page, **query):
            yield from found
            last = found[-1].id

    def _groups_of(self, rows: Sequence[sqlite3.Row]) -> list[StoredGroup]:
        names = self.function_names() if rows else {}
        completions = self._completions([row["id"] for row in rows])
        return [_group(row, *completions.get(row["id"], ([], ())), names) for row in rows]

    def _completions(self, group_ids: Sequence[int]) -> dict[int, tuple[list[Completion], Sequence[int]]]:
        """Return the completions of each group, and the indices of the functions that scored them."""
        found: dict[int, tuple[list[Completion], Sequence[int]]] = {}
        known = self.has("completion", "masked")
        rewards: dict[int, dict[int, Any]] = {}
        for row in self.among(
            "SELECT w.completion_id, w.function, w.value FROM completion c"
            " CROSS JOIN reward w ON w.completion_id = c.id"
            " WHERE c.group_id IN (?) ORDER BY w.completion_id, w.function",
            group_ids,
        ):
            rewards.setdefault(row["completion_id"], {})[row["function"]] = from_column(row["value"])
        for row in self.among(
            "SELECT * FROM completion WHERE group_id IN (?) ORDER BY group_id, idx", group_ids
        ):
            given = rewards.get(row["id"], {})
            found.setdefault(row["group_id"], ([], tuple(given)))[0].append(
                _completion(row, list(given.values()), masked=bool(known and row["masked"]))
            )
        return found

    # -- what happened ---------------------------------------------------------------------------

    def commands(self, limit: int = 200) -> list[tuple[Command, Outcome | None]]:
        """Return the newest commands with their outcome (None while waiting), oldest first."""
        rows = self.all("SELECT * FROM (SELECT * FROM command ORDER BY id DESC LIMIT ?) ORDER BY id", limit)
        return [_command(row) for row in rows]

    def lasting_settings(self) -> list[SettingChanged]:
        """Return `settings` without scheduled changes that a resume has left, since they wait again."""
        return without_left(self.settings(), scheduled_from(self.fact(FACT)))

    def settings(self) -> list[SettingChanged]:
        """Return the settings changed while training, oldest first."""
        rows = self.all("SELECT * FROM setting ORDER BY id")
        known = self.has("setting", "undoes")
        return [
            _made(
                SettingChanged,
                r,
                old=from_json(r["old"]),
                new=from_json(r["new"]),
                because=str((known and r["because"]) or ""),
                undoes=int((known and r["undoes"]) or 0),
            )
            for r in rows
        ]

    def checkpoints(self) -> list[CheckpointSaved]:
        """Return checkpoints as recorded, by step. Rotation may have removed a folder since."""
        return [
            _made(CheckpointSaved, r, complete=bool(r["complete"]), requested=bool(r["requested"]))
            for r in self.all("SELECT * FROM checkpoint ORDER BY step")
        ]

    def last_phase(self) -> tuple[str, float] | None:
        """Return the newest phase of the first rank and when it began; None without any."""
        row = self.one(
            "SELECT phase, started_at FROM phase WHERE rank = 0 AND phase != 'alone' ORDER BY id DESC LIMIT 1"
        )
        return None if row is None else (str(row[0]), float(row[1]))

    def phase_shares(self, spans: int = 60) -> dict[str, float]:
        """Return the fraction of time per phase over the newest spans, without loading and waiting."""
        rows = self.all(
            "SELECT phase, sum(duration_s) AS total FROM (SELECT phase, duration_s FROM phase"
            " WHERE phase NOT IN ('load', 'wait', 'alone') ORDER BY id DESC LIMIT ?) GROUP BY phase",
            spans,
        )
        whole = sum(row["total"] for row in rows)
        return {row["phase"]: row["total"] / whole for row in rows} if whole > 0 else {}

    def log(self, limit: int = 500) -> list[LogLine]:
        """Return the newest lines of output, oldest first."""
        rows = self.all("SELECT * FROM (SELECT * FROM log ORDER BY id DESC LIMIT ?) ORDER BY id", limit)
        return [LogLine(at=r["at"], text=r["text"], level=r["level"]) for r in rows]


def joined_parts(groups: Iterable[StoredGroup]) -> list[StoredGroup]:
    """Merge groups recorded in parts on several ranks, in the order of their first part."""
    parts: dict[tuple[int, int, int], list[StoredGroup]] = {}
    for group in groups:
        parts.setdefault((group.attempt, group.batch, group.index), []).append(group)
    return [found[0] if len(found) == 1 else _joined(found) for found in parts.values()]


def _joined(parts: Sequence[StoredGroup]) -> StoredGroup:
    first = min(parts, key=lambda part: part.rank)
    completions = sorted((c for part in parts for c in part.completions), key=lambda c: c.index)
    totals = [completion.total for completion in completions]
    return replace(first, mean=mean(totals), std=std(totals), completions=tuple(completions))


def distinct_names(names: Iterable[str]) -> tuple[str, ...]:
    """Make names of reward functions distinct: a second one of a name is `name#2`."""
    taken: list[str] = []
    for name in names:
        number, found = 1, name
        while found in taken:
            number += 1
            found = f"{name}#{number}"
        taken.append(found)
    return tuple(taken)


def _made(kind: type[T], row: sqlite3.Row, **given: Any) -> T:
    """Build a record from the columns with the names of its fields, and from what is given instead."""
    columns = dict(row)
    names = [one.name for one in fields(kind) if one.name in columns]  # type: ignore[arg-type]
    return kind(**{name: columns[name] for name in names} | given)


def _group(
    row: sqlite3.Row,
    completions: Sequence[Completion],
    functions: Sequence[int],
    names: Mapping[int, Mapping[int, str]],
) -> StoredGroup:
    known = names.get(row["attempt"], {})
    found = {
        **dict(row),
        "prompt": prompt_from(row["prompt"]),
        "columns": object_from(row["columns"]),
        "completions": tuple(completions),
        "functions": tuple(known.get(one, str(one)) for one in functions),
    }
    return StoredGroup(**found)


def _completion(row: sqlite3.Row, rewards: Sequence[Any], *, masked: bool) -> Completion:
    return Completion(
        index=row["idx"],
        text=row["text"],
        rewards=tuple(rewards),
        total=from_column(row["total"]),
        advantage=from_column(row["advantage"]),
        tokens=row["tokens"],
        truncated=bool(row["truncated"]),
        extra=object_from(row["extra"]),
        messages=messages_from(row["messages"]),
        masked=masked,
    )


def _command(row: sqlite3.Row) -> tuple[Command, Outcome | None]:
    command = Command(row["id"], row["kind"], object_from(row["args"]), row["at"], row["by"])
    if row["applied"] is None:
        return command, None
    result = object_from(row["result"])
    return command, Outcome(bool(row["applied"]), row["step"], row["reason"], result, row["decided_at"])


@cache
def _wrong_values() -> tuple[tuple[str, str, str], ...]:
    """Return every table and column, with the condition that its values are wrong."""
    with closing(sqlite3.connect(":memory:")) as sound:
        sound.executescript(TABLES)
        columns = sound.execute(
            'SELECT m.name, c.name, c.type, c."notnull"'
            " FROM sqlite_master AS m, pragma_table_info(m.name) AS c WHERE m.type = 'table'"
        ).fetchall()
    return tuple(
        (
            table,
            column,
            _WRONG.get(f"{table}.{column}", _WRONG[kind]).format(f'"{column}"')
            + (f" OR typeof(\"{column}\") = 'null'" if needed else ""),  # in a damaged file
        )
        for table, column, kind, needed in columns
    )


def wrong_types(database: Path) -> str | None:
    """Return a sentence about damage or wrong types in a `run.db`; None when there are none."""
    try:
        with closing(RunReader(database)) as reader:
            places = reader.wrong_types()
    except DamagedError as error:
        return str(error)
    except RunDatabaseError:
        return None
    if not places:
        return None
    more = f" and {len(places) - 3} more" if len(places) > 3 else ""
    return (
        f"{database}: values of the wrong type in {', '.join(places[:3])}{more}. "
        "Another program changed this file; restore it from a copy."
    )


def script_arguments(folder: RunFolder) -> Mapping[str, Any] | None:
    """Return the trainer's arguments that a run of a script recorded; None for other runs.

    A run of `grpo-tui train` records the path of its config, also when its `run.json` is lost.
    """
    try:
        with closing(RunReader(folder.database)) as reader:
            config = mapping(reader.config())
    except RunDatabaseError:
        return None
    return mapping(config.get("grpo")) if config and "path" not in config else None
