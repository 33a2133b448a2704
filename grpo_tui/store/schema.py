"""The tables of `run.db` and the version they belong to.

Knows the shape of the data, not who writes or reads it.
"""

from __future__ import annotations

SCHEMA_VERSION = 1

# `value` columns carry no type on purpose: SQLite would turn NaN into NULL in a numeric column, and
# NULL already means that TRL logged None. NaN is kept as the text 'nan'.
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
    name TEXT NOT NULL, old TEXT NOT NULL, new TEXT NOT NULL, by TEXT NOT NULL);

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
"""What makes a long run quick to look at. A writer adds them where they lack; readers do without."""

LATER_COLUMNS = (
    ("generation_group", "low", "REAL"),
    ("generation_group", "high", "REAL"),
    ("generation_group", "signal", "TEXT"),
    ("completion", "masked", "INTEGER"),
)
"""Columns that a file may lack: a writer adds them, a reader takes them as NULL."""

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
"""Columns that hold JSON, with the kinds of value as `json_type` names them; any kind when empty."""
