"""Turn records into rows. A run has only one writer at a time."""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, fields
from typing import Any

from grpo_tui.core import records as r
from grpo_tui.core.commands import Command, Outcome
from grpo_tui.core.exchange import clean, to_json
from grpo_tui.core.statistics import mean, scored, signal_of, std
from grpo_tui.store.schema import row_written, rows_superseded
from grpo_tui.store.values import from_json, to_column

LOG_POSITION = "log_position"
"""Key of a fact: the byte position in `train.log` up to which lines are in the database."""
_REPLACE = "INSERT OR REPLACE"
_FLAT: dict[type, tuple[str, str]] = {
    r.RewardCall: ("reward_call", "INSERT"),
    r.PhaseSpan: ("phase", "INSERT"),
    r.CheckpointSaved: ("checkpoint", _REPLACE),
    r.SettingChanged: ("setting", "INSERT"),
}
"""Records whose fields are the columns of a table."""
_JSON = frozenset({"old", "new", "args", "result"})
"""Fields that are stored as JSON."""
_CHANGING = ("last_step", "severity", "message")
"""Fields of an open finding that change."""


def _columns(record: Any) -> dict[str, Any]:
    """Return the fields of a record as a table stores them."""
    values = {one.name: getattr(record, one.name) for one in fields(record)}
    return {
        name: to_json(dict(value) if isinstance(value, Mapping) else value)
        if name in _JSON
        else to_column(value)
        for name, value in values.items()
    }


def prompt_key(prompt: r.Prompt) -> str:
    """Return a short stable key that identifies a prompt across steps."""
    return hashlib.blake2b(to_json(prompt).encode("utf-8", "replace"), digest_size=8).hexdigest()


class Writer:
    """Writes records into an open database, one transaction per batch."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection
        self._keys: dict[str, int] = dict(connection.execute("SELECT key, id FROM metric_key"))
        self._open_line: int | None = None
        self._apply: dict[type, Callable[[Any], None]] = {
            r.AttemptStarted: self._attempt_started,
            r.AttemptEnded: self._attempt_ended,
            r.TotalSteps: self._total_steps,
            r.Fact: self._fact,
            r.MetricRow: self._metric_row,
            r.GenerationBatch: self._batch,
            r.RewardFunctionInfo: self._reward_function,
            r.LogLine: self._log,
            r.Dropped: self._dropped,
            r.OpenFindings: self._findings,
        }

    def write(self, batch: Iterable[r.Record | tuple[Command, Outcome | None]]) -> None:
        """Write records, and commands with their outcome, in one transaction.

        Raises:
            sqlite3.Error: Nothing was written. The batch can be retried.
        """
        with self._transaction():
            for record in batch:
                self._take(record)

    def write_each(
        self,
        batch: Iterable[r.Record | tuple[Command, Outcome | None]],
        lost: Callable[[Any], None],
        fatal: Callable[[Exception], bool],
    ) -> None:
        """Write every record that can be written, in one transaction. `lost` gets the others.

        Raises:
            sqlite3.Error: An error for which `fatal` is True, not caused by a record; nothing was written.
        """
        with self._transaction():
            for record in batch:
                self._db.execute("SAVEPOINT one")
                try:
                    self._take(record)
                except Exception as error:
                    if fatal(error):
                        raise
                    self._db.execute("ROLLBACK TO one")
                    self._keys = dict(self._db.execute("SELECT key, id FROM metric_key"))
                    lost(record)
                self._db.execute("RELEASE one")

    def _take(self, record: r.Record | tuple[Command, Outcome | None]) -> None:
        if isinstance(record, tuple):
            self._command(*record)
        elif type(record) in _FLAT:
            table, how = _FLAT[type(record)]
            self._insert(table, _columns(record), how)
        else:
            self._apply[type(record)](record)

    def _insert(self, table: str, values: Mapping[str, Any], how: str, conflict: str = "") -> None:
        marks = ", ".join("?" * len(values))
        names = ", ".join(values)
        self._db.execute(f"{how} INTO {table} ({names}) VALUES ({marks}) {conflict}", tuple(values.values()))

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        open_line = self._open_line
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            self._open_line = open_line
            self._keys = dict(self._db.execute("SELECT key, id FROM metric_key"))
            raise

    def next_attempt(self) -> int:
        """Return the number of the run's next attempt, from 1."""
        return int(self._db.execute("SELECT coalesce(max(attempt), 0) + 1 FROM attempt").fetchone()[0])

    def last_start_at(self) -> float:
        """Return when the newest attempt started; 0 without one."""
        return float(self._db.execute("SELECT coalesce(max(started_at), 0) FROM attempt").fetchone()[0])

    def log_position(self) -> int:
        """Return the byte position up to which `train.log` was read."""
        row = self._db.execute("SELECT value FROM fact WHERE key = ?", (LOG_POSITION,)).fetchone()
        return 0 if row is None else from_json(row[0], int, 0)

    def close(self) -> None:
        """Merge the write-ahead log into `run.db`, so that copying that file copies the run."""
        try:
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            self._db.close()

    def _attempt_started(self, record: r.AttemptStarted) -> None:
        self._insert("attempt", _columns(record), _REPLACE)
        if record.resumed_from is not None:
            self._supersede(record.attempt, record.resumed_from)

    def _supersede(self, attempt: int, step: int) -> None:
        """Mark earlier attempts' steps after this one as superseded. They stay, but queries skip them."""
        again, bounds = "step > ? AND attempt < ? AND superseded = 0", (step, attempt)
        rows = self._db.execute(f"SELECT min(id), max(id) FROM metric_row WHERE {again}", bounds).fetchone()
        for table in ("metric_row", "generation_group"):
            self._db.execute(f"UPDATE {table} SET superseded = 1 WHERE {again}", bounds)
        if rows[0] is not None:
            rows_superseded(self._db, *rows)
        self._db.execute(
            "UPDATE finding SET closed_at = ? WHERE closed_at IS NULL AND first_step > ?", (time.time(), step)
        )

    def _attempt_ended(self, record: r.AttemptEnded) -> None:
        first = self._db.execute(
            "UPDATE attempt SET ended_at = ?, state = ?, step = ?, exit_code = ?, error = ?"
            " WHERE attempt = ? AND state IS NULL",
            (
                record.ended_at,
                record.state,
                record.step,
                record.exit_code,
                None if record.error is None else to_json(record.error),
                record.attempt,
            ),
        )
        if record.step is not None and first.rowcount:  # a later end changes nothing
            self._db.execute(
                "UPDATE generation_group SET last_step = max(step, ?) WHERE attempt = ? AND last_step > ?",
                (record.step, record.attempt, record.step),
            )

    def _total_steps(self, record: r.TotalSteps) -> None:
        self._db.execute(
            "UPDATE attempt SET total_steps = ? WHERE attempt = ?", (record.total_steps, record.attempt)
        )
        # A script can train from scratch into the folder of an earlier run. An attempt that dies while
        # loading leaves the earlier run as it is.
        anew = "SELECT 1 FROM attempt WHERE attempt = ? AND resumed_from IS NULL"
        if self._db.execute(anew, (record.attempt,)).fetchone():
            self._supersede(record.attempt, -1)

    def _fact(self, record: r.Fact) -> None:
        values = {"key": record.key, "value": to_json(record.value), "at": time.time()}
        self._insert("fact", values, _REPLACE)

    def _metric_row(self, record: r.MetricRow) -> None:
        row = self._db.execute(
            "INSERT INTO metric_row (attempt, step, at) VALUES (?, ?, ?)",
            (record.attempt, record.step, record.at),
        ).lastrowid
        self._db.executemany(
            "INSERT INTO metric (key, row, value) VALUES (?, ?, ?)",
            [(self._key(key), row, to_column(value)) for key, value in record.values.items()],
        )
        row_written(self._db, row or 0)

    def _key(self, key: str) -> int:
        number = self._keys.get(key)
        if number is None:
            number = self._db.execute("INSERT INTO metric_key (key) VALUES (?)", (clean(key),)).lastrowid or 0
            self._keys[key] = number
        return number

    def _batch(self, record: r.GenerationBatch) -> None:
        for group in record.groups:
            totals = [completion.total for completion in group.completions]
            known = scored(totals)
            # Probe prompts are answered outside training: TRL gives them no advantages.
            given = None if record.mode == "probe" else [c.advantage for c in group.completions]
            inserted = self._db.execute(
                "INSERT OR IGNORE INTO generation_group"
                " (attempt, batch, rank, idx, mode, step, last_step, at, prompt, prompt_key,"
                " columns, mean, std, low, high, signal)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    record.attempt,
                    record.batch,
                    record.rank,
                    group.index,
                    record.mode,
                    record.step,
                    record.last_step,
                    record.at,
                    to_json(group.prompt),
                    prompt_key(group.prompt),
                    to_json(group.columns),
                    mean(known),
                    std(known),
                    min(known, default=None),
                    max(known, default=None),
                    signal_of(totals, given, [c.masked for c in group.completions]),
                ),
            )
            if inserted.rowcount == 0:
                continue  # a duplicate from a rank whose file could not be removed
            for completion in group.completions:
                self._completion(inserted.lastrowid or 0, completion, record.first_function)

    def _completion(self, group_id: int, completion: r.Completion, first: int) -> None:
        completion_id = self._db.execute(
            "INSERT INTO completion"
            " (group_id, idx, text, messages, total, advantage, tokens, truncated, extra, masked)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                group_id,
                completion.index,
                clean(completion.text),
                None if completion.messages is None else to_json(completion.messages),
                to_column(completion.total),
                to_column(completion.advantage),
                completion.tokens,
                int(completion.truncated),
                to_json(completion.extra) if completion.extra else None,
                int(completion.masked),
            ),
        ).lastrowid
        self._db.executemany(
            "INSERT INTO reward (completion_id, function, value) VALUES (?, ?, ?)",
            [(completion_id, n, to_column(value)) for n, value in enumerate(completion.rewards, first)],
        )

    def _reward_function(self, record: r.RewardFunctionInfo) -> None:
        values = _columns(record)
        values["idx"] = values.pop("index")
        if not record.since_step:
            del values["since_step"], values["at"]
        table = "reloaded_function" if record.since_step else "reward_function"
        self._insert(table, values, _REPLACE)

    def _log(self, record: r.LogLine) -> None:
        text = clean(record.text)
        if record.replaces and self._open_line is not None:
            self._db.execute(
                "UPDATE log SET at = ?, level = ?, text = ? WHERE id = ?",
                (record.at, record.level, text, self._open_line),
            )
            return
        self._open_line = self._db.execute(
            "INSERT INTO log (at, level, text) VALUES (?, ?, ?)", (record.at, record.level, text)
        ).lastrowid

    def _dropped(self, record: r.Dropped) -> None:
        self._db.execute(
            "INSERT INTO dropped VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET count = count + excluded.count",
            (record.attempt, record.kind, record.count),
        )

    def _findings(self, record: r.OpenFindings) -> None:
        self._db.execute("UPDATE finding SET closed_at = ? WHERE closed_at IS NULL", (record.at,))
        for finding in record.findings:
            values = {
                **{name: to_column(getattr(finding, name)) for name in ("first_step", *_CHANGING)},
                "rule": finding.id,
                "evidence": to_json(finding.evidence),
                "remedies": to_json([asdict(remedy) for remedy in finding.remedies]),
                "opened_at": record.at,
                "changed_at": record.at,
            }
            changing = (*_CHANGING, "evidence", "remedies", "changed_at")
            changes = ", ".join(f"{name} = excluded.{name}" for name in changing)
            self._insert(
                "finding", values, "INSERT", f"ON CONFLICT DO UPDATE SET {changes}, closed_at = NULL"
            )

    def _command(self, command: Command, outcome: Outcome | None) -> None:
        values = _columns(command)
        if outcome is not None:
            values |= _columns(outcome) | {"at": values["at"], "decided_at": outcome.at}
        self._insert("command", values, _REPLACE)
