"""Summaries of stretches of metric rows, by which a long run is looked at without reading all of them.

Rows are taken in blocks by id, at two sizes; a block that is full gets one summary per metric, written in the
transaction that filled it. Knows how summaries are made, not how they are read.
"""

from __future__ import annotations

import sqlite3

LEVELS = (16, 256)
"""Rows to a block. The finer one serves runs of some thousand rows, the coarser one the long ones."""

TABLE = """
CREATE TABLE IF NOT EXISTS metric_span (
    level INTEGER NOT NULL, key INTEGER NOT NULL, block INTEGER NOT NULL,
    step INTEGER NOT NULL, last_step INTEGER NOT NULL, at REAL NOT NULL, last_at REAL NOT NULL,
    count INTEGER NOT NULL, known INTEGER NOT NULL, low REAL, high REAL, mean REAL,
    PRIMARY KEY (level, key, block)) WITHOUT ROWID;
"""

NUMBER = "CASE WHEN typeof({0}) IN ('real', 'integer') AND abs({0}) < 9e999 THEN {0} END"
"""SQL for a value when it is a finite number, NULL when it is missing, infinite, NaN or a text."""

_INSERT = f"""
INSERT OR REPLACE INTO metric_span
SELECT :level, key, :block, min(step), max(step), min(at), max(at), count(*), count(n), min(n), max(n), avg(n)
FROM (SELECT k.id AS key, r.step, r.at, {NUMBER.format("m.value")} AS n
      FROM metric_key k CROSS JOIN metric m ON m.key = k.id AND m.row > :block * :level
                           AND m.row <= (:block + 1) * :level
      CROSS JOIN metric_row r ON r.id = m.row AND r.superseded = 0)
GROUP BY key
"""


def row_written(db: sqlite3.Connection, row: int) -> None:
    """Summarise the blocks that this row fills; to be called in the row's own transaction."""
    for level in LEVELS:
        if row % level == 0:
            db.execute(_INSERT, {"level": level, "block": row // level - 1})


def rows_superseded(db: sqlite3.Connection, first: int, last: int) -> None:
    """Make the summaries of all blocks anew that hold a row between these ids."""
    newest = _newest(db)
    for level in LEVELS:
        from_block, to_block = (first - 1) // level, (last - 1) // level
        db.execute(
            "DELETE FROM metric_span WHERE level = ? AND key IN (SELECT id FROM metric_key)"
            " AND block BETWEEN ? AND ?",
            (level, from_block, to_block),
        )
        _make(db, level, from_block, min(to_block, newest // level - 1))


def prepare(db: sqlite3.Connection) -> None:
    """Give a file the table, and summaries of all full blocks that lack them."""
    db.execute("BEGIN IMMEDIATE")
    try:
        db.execute(TABLE)
        newest = _newest(db)
        for level in LEVELS:
            done = db.execute("SELECT max(block) FROM metric_span WHERE level = ?", (level,)).fetchone()[0]
            _make(db, level, 0 if done is None else done + 1, newest // level - 1)
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _newest(db: sqlite3.Connection) -> int:
    return int(db.execute("SELECT coalesce(max(id), 0) FROM metric_row").fetchone()[0])


def _make(db: sqlite3.Connection, level: int, first: int, last: int) -> None:
    for block in range(first, last + 1):
        db.execute(_INSERT, {"level": level, "block": block})
