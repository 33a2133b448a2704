"""The tables of `run.db`, their version, and summaries of stretches of metric rows.

With summaries, a long run can be shown without reading all of it. Rows form blocks by id, in two sizes. A
full block gets one summary per metric, written in the transaction that filled it.
"""

from __future__ import annotations

import sqlite3

SCHEMA_VERSION = 1

# `value` columns have no type on purpose: SQLite would turn NaN into NULL in a numeric column, and
# NULL already means that TRL logged None. NaN is stored as the text 'nan'.
TABLES = """
CREATE TABLE fact (key TEXT PRIMARY KEY, value TEXT NOT NULL, at REAL NOT NULL);

CREATE TABLE attempt (
    attempt INTEGER PRIMARY KEY, started_at REAL NOT NULL, host TEXT NOT NULL, pid INTEGER NOT NULL,
    resumed_from INTEGER, total_steps INTEGER,
    ended_at REAL, state TEXT, step INTEGER, exit_code INTEGER, error TEXT);

CREATE TABLE metric_key (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE);
CREATE TABLE metric_row (
    id INTEGER PRIMARY KEY, attempt INTEGER NOT NULL, step INTEGER NOT NULL, at REAL NOT NULL,
    superseded INTEGER NOT NULL DEFAULT 0);
CREATE TABLE metric (key INTEGER NOT NULL, row INTEGER NOT NULL, value, PRIMARY KEY (key, row)) WITHOUT ROWID;

CREATE TABLE reward_function (
    attempt INTEGER NOT NULL, idx INTEGER NOT NULL, name TEXT NOT NULL, weight REAL NOT NULL,
    source TEXT NOT NULL, sha256 TEXT NOT NULL, text TEXT NOT NULL, PRIMARY KEY (attempt, idx));

CREATE TABLE generation_group (
    id INTEGER PRIMARY KEY, attempt INTEGER NOT NULL, batch INTEGER NOT NULL, rank INTEGER NOT NULL,
    idx INTEGER NOT NULL, mode TEXT NOT NULL, step INTEGER NOT NULL, last_step INTEGER NOT NULL,
    at REAL NOT NULL, prompt TEXT NOT NULL, prompt_key TEXT NOT NULL, columns TEXT NOT NULL,
    mean REAL, std REAL, superseded INTEGER NOT NULL DEFAULT 0, low REAL, high REAL, signal TEXT,
    UNIQUE (attempt, batch, rank, idx));
CREATE INDEX group_by_step ON generation_group (step, id);
CREATE INDEX group_by_prompt ON generation_group (prompt_key, step);

CREATE TABLE completion (
    id INTEGER PRIMARY KEY, group_id INTEGER NOT NULL REFERENCES generation_group (id),
    idx INTEGER NOT NULL, text TEXT NOT NULL, messages TEXT, total, advantage REAL NOT NULL,
    tokens INTEGER NOT NULL, truncated INTEGER NOT NULL, extra TEXT, masked INTEGER,
    UNIQUE (group_id, idx));
CREATE TABLE reward (
    completion_id INTEGER NOT NULL, function INTEGER NOT NULL, value,
    PRIMARY KEY (completion_id, function)) WITHOUT ROWID;

CREATE TABLE reward_call (
    id INTEGER PRIMARY KEY, attempt INTEGER NOT NULL, batch INTEGER NOT NULL, function INTEGER NOT NULL,
    started_at REAL NOT NULL, duration_s REAL NOT NULL, outcome TEXT NOT NULL, error TEXT NOT NULL,
    rank INTEGER NOT NULL);

CREATE TABLE phase (
    id INTEGER PRIMARY KEY, attempt INTEGER NOT NULL, rank INTEGER NOT NULL, phase TEXT NOT NULL,
    step INTEGER NOT NULL, started_at REAL NOT NULL, duration_s REAL NOT NULL);

CREATE TABLE checkpoint (
    step INTEGER PRIMARY KEY, attempt INTEGER NOT NULL, path TEXT NOT NULL, at REAL NOT NULL,
    complete INTEGER NOT NULL, requested INTEGER NOT NULL, size_bytes INTEGER NOT NULL);

CREATE TABLE command (
    id TEXT PRIMARY KEY, kind TEXT NOT NULL, args TEXT NOT NULL, by TEXT NOT NULL, at REAL NOT NULL,
    applied INTEGER, step INTEGER, reason TEXT, result TEXT, decided_at REAL);

CREATE TABLE setting (
    id INTEGER PRIMARY KEY, attempt INTEGER NOT NULL, step INTEGER NOT NULL, at REAL NOT NULL,
    name TEXT NOT NULL, old TEXT NOT NULL, new TEXT NOT NULL, by TEXT NOT NULL, because TEXT,
    undoes INTEGER);

CREATE TABLE log (id INTEGER PRIMARY KEY, at REAL NOT NULL, level TEXT NOT NULL, text TEXT NOT NULL);

CREATE TABLE dropped (
    attempt INTEGER NOT NULL, kind TEXT NOT NULL, count INTEGER NOT NULL, PRIMARY KEY (attempt, kind));
"""

INDEXES = """
CREATE INDEX IF NOT EXISTS group_spread
    ON generation_group (mode, superseded, step, std, low, high, at, signal);
CREATE INDEX IF NOT EXISTS group_masked ON generation_group (id) WHERE signal = 'masked';
CREATE INDEX IF NOT EXISTS metric_row_superseded ON metric_row (id) WHERE superseded = 1;
CREATE INDEX IF NOT EXISTS completion_figures
    ON completion (group_id, idx, total, advantage, tokens, truncated, masked);
CREATE INDEX IF NOT EXISTS completion_nul ON completion (id) WHERE instr(text, char(0)) > 0;
"""
"""Indexes that speed up reading a long run. A writer adds missing ones; readers work without."""

LATER_COLUMNS = (
    ("generation_group", "low", "REAL"),
    ("generation_group", "high", "REAL"),
    ("generation_group", "signal", "TEXT"),
    ("completion", "masked", "INTEGER"),
    ("setting", "because", "TEXT"),
    ("setting", "undoes", "INTEGER"),
    ("reloaded_function", "name", "TEXT"),
    ("reloaded_function", "weight", "REAL"),
)
"""Columns that a file may lack. A writer adds them, a reader treats them as NULL."""

JSON_COLUMNS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("fact", "value", ()),
    ("attempt", "error", ("object",)),
    ("generation_group", "prompt", ("text", "array")),
    ("generation_group", "columns", ("object",)),
    ("completion", "messages", ("array",)),
    ("completion", "extra", ("object",)),
    ("command", "args", ("object",)),
    ("command", "result", ("object",)),
    ("setting", "old", ()),
    ("setting", "new", ()),
)
"""Columns that hold JSON, with the allowed types as `json_type` names them; empty for any."""


LEVELS = (16, 256)
"""Rows per block: the finer for runs of a few thousand rows, the coarser for longer ones."""

SPANS = """
CREATE TABLE IF NOT EXISTS metric_span (
    level INTEGER NOT NULL, key INTEGER NOT NULL, block INTEGER NOT NULL,
    step INTEGER NOT NULL, last_step INTEGER NOT NULL, at REAL NOT NULL, last_at REAL NOT NULL,
    count INTEGER NOT NULL, known INTEGER NOT NULL, low REAL, high REAL, mean REAL,
    PRIMARY KEY (level, key, block)) WITHOUT ROWID;
"""

LATER_TABLES = """
CREATE TABLE IF NOT EXISTS finding (
    rule TEXT NOT NULL, first_step INTEGER NOT NULL, last_step INTEGER NOT NULL, severity TEXT NOT NULL,
    message TEXT NOT NULL, evidence TEXT NOT NULL, remedies TEXT NOT NULL,
    opened_at REAL NOT NULL, changed_at REAL NOT NULL, closed_at REAL, PRIMARY KEY (rule, first_step));

CREATE TABLE IF NOT EXISTS reloaded_function (
    attempt INTEGER NOT NULL, since_step INTEGER NOT NULL, idx INTEGER NOT NULL, at REAL NOT NULL,
    source TEXT NOT NULL, sha256 TEXT NOT NULL, text TEXT NOT NULL, name TEXT, weight REAL,
    PRIMARY KEY (attempt, since_step, idx)) WITHOUT ROWID;
"""
"""Tables that a file may lack. A writer adds them; readers work without.

`finding` has the findings made while training. `reloaded_function` has reward functions reloaded while
training, from the first step that they scored. A list of other functions has numbers of its own (`idx`),
above all earlier ones of the attempt, so that (attempt, idx) is one name.
"""

NUMBER = "CASE WHEN typeof({0}) IN ('real', 'integer') AND abs({0}) < 9e999 THEN {0} END"
"""SQL for a finite number, or NULL when the value is missing, infinite, NaN or a text."""

_SUMMARISE = f"""
INSERT OR REPLACE INTO metric_span
SELECT :level, key, :block, min(step), max(step), min(at), max(at), count(*), count(n), min(n), max(n), avg(n)
FROM (SELECT k.id AS key, r.step, r.at, {NUMBER.format("m.value")} AS n
      FROM metric_key k CROSS JOIN metric m ON m.key = k.id AND m.row > :block * :level
                           AND m.row <= (:block + 1) * :level
      CROSS JOIN metric_row r ON r.id = m.row AND r.superseded = 0)
GROUP BY key
"""


def row_written(db: sqlite3.Connection, row: int) -> None:
    """Summarise the blocks that this row fills. Call in the row's own transaction."""
    for level in LEVELS:
        if row % level == 0:
            db.execute(_SUMMARISE, {"level": level, "block": row // level - 1})


def rows_superseded(db: sqlite3.Connection, first: int, last: int) -> None:
    """Recompute the summaries of all blocks with a row between these ids."""
    newest = _newest_row(db)
    for level in LEVELS:
        from_block, to_block = (first - 1) // level, (last - 1) // level
        db.execute(
            "DELETE FROM metric_span WHERE level = ? AND key IN (SELECT id FROM metric_key)"
            " AND block BETWEEN ? AND ?",
            (level, from_block, to_block),
        )
        _make_spans(db, level, from_block, min(to_block, newest // level - 1))


def prepare_spans(db: sqlite3.Connection) -> None:
    """Create the table, and the missing summaries of full blocks."""
    db.execute("BEGIN IMMEDIATE")
    try:
        db.execute(SPANS)
        newest = _newest_row(db)
        for level in LEVELS:
            done = db.execute("SELECT max(block) FROM metric_span WHERE level = ?", (level,)).fetchone()[0]
            _make_spans(db, level, 0 if done is None else done + 1, newest // level - 1)
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _newest_row(db: sqlite3.Connection) -> int:
    return int(db.execute("SELECT coalesce(max(id), 0) FROM metric_row").fetchone()[0])


def _make_spans(db: sqlite3.Connection, level: int, first: int, last: int) -> None:
    for block in range(first, last + 1):
        db.execute(_SUMMARISE, {"level": level, "block": block})
