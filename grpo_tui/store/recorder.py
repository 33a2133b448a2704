"""The one thread that writes `run.db` while a run trains.

It drains the queue, follows `train.log`, and takes commands and outcomes into the history. It never
stops the trainer: what cannot be written now is kept and tried again, within the queue's budget;
a record that can never be written is counted as lost and costs no other.
Knows nothing of TRL.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from grpo_tui.core import records as r
from grpo_tui.store.connection import RunDatabaseError, open_writer
from grpo_tui.store.drain import DRAIN_S, Drain, kind_of
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.logtail import LogTail
from grpo_tui.store.mailbox import Mailbox
from grpo_tui.store.place import where
from grpo_tui.store.spool import remove, take_spooled
from grpo_tui.store.writer import LOG_POSITION, Writer


class Recorder(Drain):
    """The drain into `run.db`; its end folds the write-ahead log in."""

    def __init__(self, folder: RunFolder, *, follow_log: bool = True) -> None:
        super().__init__()
        self._folder = folder
        self._name = where(folder.root) or folder.root
        self._writer = Writer(open_writer(RunFolder(self._name).database))
        self.attempt = self._writer.next_attempt()
        self._mailbox = Mailbox(folder.commands)
        self._seen: set[str] = set()
        self._tail = LogTail(folder.log, self._writer.log_position()) if follow_log else None
        self.on_stop_now: Callable[[], None] = lambda: None
        """Called from the recorder's thread, after everything is written, when the run must end at once."""
        self._stop_now = False
        self._pending_side: list[Any] = []
        self._spooled: list[Path] = []
        self.trouble: str = ""
        """Why nothing can be written at the moment; empty when all is well."""

    def _run(self) -> None:
        while True:
            closing = self._closing.is_set()
            taken = self.queue.take(limit=512, timeout_s=0.0 if closing else DRAIN_S)
            self._follow()
            try:
                self._pending_side += self._side_records(closing)
            except Exception as error:  # the log or the mailbox must not cost the record
                self._set_trouble(f"the log and the commands cannot be read: {error}")
            written = self._write(taken)
            if closing and written and not self.queue:
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
            # One transaction for what arrives together: fewer wake-ups and syncs, later by DRAIN_S at most.
            self._closing.wait(DRAIN_S if written else 1.0)
        self._writer.close()

    def _follow(self) -> None:
        """Open `run.db` anew under the folder's new name when it was renamed: SQLite goes by names."""
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
        """Losses that wait beside the queue to be counted; what else waits there is in files and stays."""
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
        self._pending_side = []
        remove(self._spooled)
        self._spooled = []
        return True

    def _write_each(self, records: list[Any]) -> bool:
        """Write what can be written when a record cannot: that one is lost and counted, the rest is kept.

        Returns:
            False when nothing can be written at all; every record can then be given again.
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
    """True for trouble with the file (locked, full, gone), False for trouble with a record."""
    passing = (sqlite3.OperationalError, RunDatabaseError, OSError)
    return isinstance(error, passing) or type(error) is sqlite3.DatabaseError
