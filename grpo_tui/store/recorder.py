"""Record what a training process produces: the first rank into `run.db`, the others through small files.

One thread drains the queue, follows `train.log`, and adds commands and outcomes to the history. It never
blocks the trainer. Records that cannot be written now are kept and retried, within the queue's budget. A
record that can never be written is counted as lost, without affecting others.

Ranks other than the first write files, which need no connection between ranks and survive the death of either
side. The files are JSON, written beside and renamed, and removed once they are in the database. Records of an
unknown shape are counted as lost.
"""

from __future__ import annotations

import math
import os
import sqlite3
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields, replace
from json import dumps, loads
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from grpo_tui.core import records as r
from grpo_tui.core.exchange import as_json, rebuilt, to_json
from grpo_tui.core.records import Record
from grpo_tui.store.connection import RunDatabaseError, open_writer
from grpo_tui.store.json_file import read_regular, write_bytes
from grpo_tui.store.layout import RunFolder, where
from grpo_tui.store.log_lines import LogTail
from grpo_tui.store.mailbox import Mailbox
from grpo_tui.store.values import from_json
from grpo_tui.store.writer import LOG_POSITION, Writer

TEXT_PLACEHOLDER = "\u2026 text not kept: the recorder could not keep up \u2026"


class Wake:
    """Wakes one thread. A signal handler may set it while its own thread is inside `set` or `wait`.

    A `threading.Event` would block there for ever, because its lock is not re-entrant.
    """

    def __init__(self) -> None:
        self._calls: SimpleQueue[None] = SimpleQueue()

    def set(self) -> None:
        """End the present `wait` or the next one."""
        if self._calls.empty():
            self._calls.put(None)

    def wait(self, timeout_s: float) -> None:
        """Wait for `set`, at most `timeout_s`. Returns at once if it was called since the last wait."""
        with suppress(Empty):
            self._calls.get(timeout=timeout_s)
            self.clear()

    def clear(self) -> None:
        """Forget earlier calls."""
        with suppress(Empty):
            while True:
                self._calls.get_nowait()


class RecordQueue:
    """A queue of records with a byte budget. `put` never blocks and never raises.

    Everything dropped is counted.

    Args:
        budget_bytes: Above it, completion text is dropped. Above twice of it, whole generation batches,
            phases and log lines; above four times, metrics too.
    """

    def __init__(self, budget_bytes: int = 256 * 1024 * 1024) -> None:
        self._budget = budget_bytes
        self._records: deque[tuple[r.Record, int]] = deque()
        self._bytes = 0
        # Re-entrant: a signal handler may put a last record while its own thread is inside `put`.
        self._lock = threading.RLock()
        self._arrived = Wake()
        self.dropped: Counter[str] = Counter()
        """Number of dropped items by kind, such as `completion text`, `batches` or `log lines`."""

    def put(self, record: r.Record) -> None:
        """Add a record, or as much of it as fits."""
        size = _size(record)
        with self._lock:
            if self._bytes + size > self._budget:
                kept = self._squeeze(record)
                if kept is None:
                    return
                record, size = kept, _size(kept)
            self._records.append((record, size))
            self._bytes += size
        self._arrived.set()

    def take(self, limit: int, timeout_s: float) -> list[r.Record]:
        """Return up to `limit` records in order, waiting at most `timeout_s` for the first."""
        if not self._records:
            self._arrived.wait(timeout_s)
        with self._lock:
            taken = [self._records.popleft() for _ in range(min(limit, len(self._records)))]
            self._bytes -= sum(size for _, size in taken)
            if not self._records:
                self._arrived.clear()
        return [record for record, _ in taken]

    def give_back(self, records: list[r.Record]) -> None:
        """Put records that could not be written back to the front."""
        with self._lock:
            for record in reversed(records):
                size = _size(record)
                self._records.appendleft((record, size))
                self._bytes += size
        # Not marked as arrived: the recorder should wait a moment before it retries them.

    def wake(self) -> None:
        """End a waiting `take` at once."""
        self._arrived.set()

    @contextmanager
    def frozen(self) -> Iterator[list[r.Record]]:
        """Take everything and block `put` meanwhile, because the process is about to end."""
        with self._lock:
            yield self.take(len(self._records), 0.0)

    def __len__(self) -> int:
        return len(self._records)

    def _squeeze(self, record: r.Record) -> r.Record | None:
        """Return what is kept of a record when the budget is spent. Called with the lock held."""
        if isinstance(record, r.GenerationBatch) and self._bytes < 2 * self._budget:
            self.dropped["completion text"] += sum(len(g.completions) for g in record.groups)
            return _without_text(record)
        kind = kind_of(record)
        if self._bytes < _DROPPED_AT.get(kind, math.inf) * self._budget:
            return record
        self.dropped[kind] += 1
        return None


def _without_text(batch: r.GenerationBatch) -> r.GenerationBatch:
    groups = tuple(
        replace(
            group,
            completions=tuple(
                replace(c, text=TEXT_PLACEHOLDER, messages=None, extra={}) for c in group.completions
            ),
        )
        for group in batch.groups
    )
    return replace(batch, groups=groups)


def _size(record: r.Record) -> int:
    if isinstance(record, r.GenerationBatch):
        return sum(
            600 + len(str(g.prompt)) + sum(400 + 2 * len(c.text) for c in g.completions)
            for g in record.groups
        )
    if isinstance(record, r.LogLine):
        return 200 + 2 * len(record.text)
    if isinstance(record, r.MetricRow):
        return 200 + 100 * len(record.values)
    return 400


DRAIN_S = 0.2
"""Interval of the drain, and the longest a record waits in the queue."""
CLOSING_S = 20.0
"""How long writing the last records is retried at the end of a run."""
RETRY_S = 0.5
FLUSH_S = 3.0
"""How long a save waits for the records put before it. A full disk or a locked file stops no training."""
LEAVING_S = 10.0
END = "end"
_KINDS: dict[type, str] = {
    r.GenerationBatch: "batches",
    r.MetricRow: "metric rows",
    r.LogLine: "log lines",
    r.RewardCall: "timings",
    r.PhaseSpan: "timings",
    r.AttemptEnded: END,
}


_DROPPED_AT = {"batches": 2, "log lines": 2, "timings": 2, "metric rows": 4}
"""Kinds that are dropped when the queue is full, and at how many times its budget."""


def kind_of(record: object) -> str:
    """Return the kind under which a lost record is counted."""
    return _KINDS.get(type(record), "records")


class Drain(ABC):
    """The queue, and the thread that empties it."""

    def __init__(self) -> None:
        self.queue = RecordQueue()
        self.on_trouble: Callable[[str], None] = lambda reason: None
        """Called with the reason when nothing can be written, and with an empty text when it can again."""
        self.on_lost: Callable[[Mapping[str, int]], None] = lambda counts: None
        """Called with the number of records by kind that could not be written before the thread ended."""
        self.say: Callable[[str], None] = lambda text: None
        """Called with the same as text, for the log."""
        self.patience_s = CLOSING_S
        self._closing = False
        self._hurry = Wake()
        self._flushes: list[Wake] = []
        self._give_up_at = 0.0
        self._warned = False
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)

    def put(self, record: Record) -> None:
        """Queue a record without blocking. After `close`, records are ignored."""
        if not self._closing:
            self.queue.put(record)

    def start(self) -> None:
        """Start draining."""
        self._thread.start()

    def flush(self) -> None:
        """Wait until everything put before is written, at most `FLUSH_S` or until a write fails."""
        if self._thread.is_alive():
            written = Wake()
            self._flushes.append(written)
            self._hurry.set()
            self.queue.wake()
            written.wait(FLUSH_S)

    def _flushed(self, asked: list[Wake], done: bool) -> None:
        """End the flushes that were asked for before the last records were taken, if they are done."""
        for flush in asked if done else ():
            self._flushes.remove(flush)
            flush.set()

    def close(self) -> None:
        """Write what is left, retrying for `patience_s`, and end the thread."""
        self._give_up_at = time.monotonic() + self.patience_s
        self._closing = True
        self._hurry.set()
        self.queue.wake()
        if self._thread.is_alive():
            self._thread.join(self.patience_s + LEAVING_S)

    def _rest(self, seconds: float) -> None:
        """Wait before the next drain, unless a flush or the end is asked for."""
        if not self._closing and not self._flushes:
            self._hurry.wait(seconds)

    def _try_again(self, reason: str) -> bool:
        """Wait before retrying the last records. Return False when it is time to give up."""
        if time.monotonic() >= self._give_up_at:
            return False
        if not self._warned:
            self._warned = True
            self.say(f"the last records cannot be written yet, retrying for {self.patience_s:g} s: {reason}")
        time.sleep(RETRY_S)
        return True

    def _lose(self, reason: str, more: Mapping[str, int]) -> None:
        counts = Counter(self.queue.dropped) + Counter(more)
        while taken := self.queue.take(limit=512, timeout_s=0.0):
            counts.update(kind_of(record) for record in taken)
        counts.pop(END, None)  # the rank file reports it
        if counts:
            what = ", ".join(f"{kind} ({count})" for kind, count in sorted(counts.items()))
            self.say(f"could not be recorded: {what}; {reason}")
            self.on_lost(dict(counts))

    @abstractmethod
    def _run(self) -> None:
        """Drain until `_closing` is set and the queue is empty."""


SPOOLED = (r.GenerationBatch, r.RewardCall, r.PhaseSpan, r.Dropped)
KINDS: dict[str, type[Any]] = {kind.__name__: kind for kind in SPOOLED}
LARGEST_BYTES = 1 << 30
Judge = Callable[[Sequence[Any]], list[Any]]
"""Takes the records that were just written, and returns records to write, such as findings."""


class SpoolRecorder(Drain):
    """The recorder of a rank other than the first."""

    attempt = 0
    """Filled in by the first rank's recorder."""

    def __init__(self, folder: RunFolder, rank: int) -> None:
        super().__init__()
        self._folder, self._rank = folder.spool, rank
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._number = 0
        self._trouble = ""

    def put(self, record: r.Record) -> None:
        """Queue a record local to this rank, ignore others."""
        if isinstance(record, SPOOLED):
            super().put(record)

    def _run(self) -> None:
        while True:
            closing, asked = self._closing, list(self._flushes)
            taken = self.queue.take(limit=512, timeout_s=0.0 if closing else DRAIN_S)
            written = not taken or self._write(taken)
            if not written:
                self.queue.give_back(taken)
            self._flushed(asked, not written or not self.queue)
            if closing and not self.queue:
                return
            if closing and not written and not self._try_again(self._trouble):
                self._lose(self._trouble, {})
                return
            self._rest(DRAIN_S)

    def _write(self, taken: list[r.Record]) -> bool:
        self._number += 1
        path = self._folder / f"{self._rank}-{os.getpid()}-{self._number:08d}.records"
        data = f"[{','.join(_written(record) for record in taken)}]".encode("ascii")
        try:
            write_bytes(path, data, mode=0o600)
        except OSError as error:
            self._trouble = f"{error.strerror}: {self._folder}"
            return False
        return True


def _written(record: r.Record) -> str:
    """Return a record as JSON. One that cannot be written becomes a count of lost records."""
    for convert in (_plain, _shown):
        try:
            return dumps({"kind": type(record).__name__, "record": record}, default=convert)
        except (TypeError, ValueError, RecursionError):
            continue  # columns and extras can contain anything
    return _written(r.Dropped(0, "records", 1))


def _plain(value: Any) -> Any:
    """Return a record's fields, or the database's form of a value that JSON lacks."""
    if isinstance(value, (*SPOOLED, r.Group, r.Completion)):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    return as_json(value)


def _shown(value: Any) -> Any:
    """Do the same, converting each column and extra value separately."""
    body = _plain(value)
    for name in ("columns", "extra"):
        if isinstance(value, r.Group | r.Completion) and name in body:
            body[name] = {str(key): from_json(to_json(item)) for key, item in body[name].items()}
    return body


def take_spooled(folder: RunFolder, attempt: int) -> tuple[list[r.Record], list[Path]]:
    """Return the records of other ranks, and the files to remove once they are written."""
    try:
        paths = sorted(folder.spool.glob("*.records"))
    except OSError:
        return [], []
    records: list[r.Record] = []
    taken: list[Path] = []
    for path in paths:
        try:
            data = read_regular(path, below=folder.root, largest=LARGEST_BYTES)
        except OSError:
            continue
        records += [replace(record, attempt=attempt) for record in _read(data)]
        taken.append(path)
    return records, taken


def _read(data: bytes) -> list[Any]:
    try:
        bodies = loads(data)
    except (ValueError, RecursionError):
        bodies = None
    found: list[Any] = []
    for body in bodies if isinstance(bodies, list) else [{}]:
        try:
            found.append(rebuilt(KINDS[body["kind"]], body["record"]))
        except (ValueError, TypeError, KeyError):
            found.append(r.Dropped(0, "records", 1))
    return found


def remove(paths: list[Path]) -> None:
    """Remove files whose records are in the database."""
    for path in paths:
        path.unlink(missing_ok=True)


class Recorder(Drain):
    """Drains the queue into `run.db` and merges the write-ahead log at the end."""

    def __init__(self, folder: RunFolder, *, follow_log: bool = True, judge: Judge | None = None) -> None:
        super().__init__()
        self.judges: dict[Judge, str] = {judge: "looks for no more findings"} if judge is not None else {}
        """Called in turn. A judge that raises is removed, and its text here is logged."""
        self._folder = folder
        self._name = where(folder.root) or folder.root
        self._writer = Writer(open_writer(RunFolder(self._name).database))
        self.attempt = self._writer.next_attempt()
        self._mailbox = Mailbox(folder.commands)
        self._seen: set[str] = set()
        self._tail = LogTail(folder.log, self._writer.log_position()) if follow_log else None
        self.on_stop_now: Callable[[], None] = lambda: None
        """Called in the recorder's thread, after everything is written, when the run must end at once."""
        self._stop_now = False
        self._pending_side: list[Any] = []
        self._spooled: list[Path] = []
        self.trouble: str = ""
        """Why nothing can be written at the moment; empty when all is well."""

    def _run(self) -> None:
        while True:
            closing, asked = self._closing, list(self._flushes)
            taken = self.queue.take(limit=512, timeout_s=0.0 if closing else DRAIN_S)
            self._follow()
            try:
                self._pending_side += self._side_records(closing)
            except Exception as error:  # recording continues without the log or the mailbox
                self._set_trouble(f"the log and the commands cannot be read: {error}")
            written = self._write(taken)
            self._flushed(asked, not written or not self.queue)
            if closing and written and not self.queue and not self._pending_side:
                break
            if closing and not written:
                if self._try_again(self.trouble):
                    continue
                self._lose(self.trouble, self._uncounted())
                break
            if self._stop_now and written:
                with self.queue.frozen() as rest:
                    if self._write(rest):
                        self._writer.close()
                        self.on_stop_now()
                        return
            # One transaction for what arrives together: fewer wake-ups and syncs, at most DRAIN_S later.
            self._rest(DRAIN_S if written else 1.0)
        self._writer.close()

    def _follow(self) -> None:
        """Reopen `run.db` after the folder was renamed, because SQLite opens files by name."""
        name = where(self._folder.root)
        if name is None or name == self._name:
            return
        try:
            earlier, self._writer = self._writer, Writer(open_writer(RunFolder(name).database))
            earlier.close()
        except (sqlite3.Error, RunDatabaseError) as error:
            self._set_trouble(f"run.db cannot be opened in {name}: {error}")
            return
        self._name = name

    def _uncounted(self) -> Counter[str]:
        """Return losses not counted yet. Other pending records are also in files and not lost."""
        counts: Counter[str] = Counter()
        for record in self._pending_side:
            if isinstance(record, r.Dropped):
                counts[record.kind] += record.count
        return counts

    def _side_records(self, closing: bool) -> list[Any]:
        found: list[Any] = []
        if self._tail is not None and len(self._pending_side) < 10_000:
            before = self._tail.position
            found += self._tail.read()
            if closing:
                found += self._tail.flush()
            if self._tail.position != before:
                found.append(r.Fact(LOG_POSITION, self._tail.position))
        commands = self._mailbox.history(self._seen)
        self._stop_now |= any(c.kind == "stop_now" and outcome is None for c, outcome in commands)
        found += commands
        if not self._spooled:
            records, self._spooled = take_spooled(self._folder, self.attempt)
            found += records
        for kind in list(self.queue.dropped):
            count = self.queue.dropped.pop(kind)
            found.append(r.Dropped(self.attempt, kind, count))
        return found

    def _set_trouble(self, reason: str) -> None:
        if reason != self.trouble:
            self.trouble = reason
            self.on_trouble(reason)

    def _write(self, taken: list[r.Record]) -> bool:
        if not taken and not self._pending_side:
            return True
        records = [*taken, *self._pending_side]
        try:
            self._writer.write(records)
        except Exception as error:
            if may_pass(error):
                self._set_trouble(f"nothing can be recorded at the moment: {error}")
                self.queue.give_back(taken)
                return False
            if not self._write_each(records):
                self.queue.give_back(taken)
                return False
        else:
            self._set_trouble("")
        remove(self._spooled)
        self._spooled = []
        self._pending_side = self._judged(records)
        return True

    def _judged(self, records: Sequence[Any]) -> list[Any]:
        found: list[Any] = []
        for judge, gone in list(self.judges.items()):
            try:
                found += judge(records)
            except Exception as error:  # recording continues without the rule
                del self.judges[judge]
                self.say(f"{gone}: {type(error).__name__}: {error}")
        return found

    def _write_each(self, records: list[Any]) -> bool:
        """Write each record separately. One that cannot be written is counted as lost.

        Returns:
            False when nothing can be written at all. Every record can then be retried.
        """
        lost: Counter[str] = Counter()
        try:
            self._writer.write_each(records, lambda record: lost.update([kind_of(record)]), may_pass)
            self._writer.write([r.Dropped(self.attempt, kind, count) for kind, count in lost.items()])
        except Exception as error:
            self._set_trouble(f"nothing can be recorded at the moment: {error}")
            return False
        return True


def may_pass(error: Exception) -> bool:
    """Return True for trouble with the file (locked, full, gone), False for trouble with a record."""
    passing = (sqlite3.OperationalError, RunDatabaseError, OSError)
    return isinstance(error, passing) or type(error) is sqlite3.DatabaseError
