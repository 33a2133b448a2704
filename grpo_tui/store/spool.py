"""How ranks other than the first hand their records over: small files that the recorder takes in.

Files, because they need no connection between ranks and survive the death of either side. Written
beside and renamed, removed once they are in the database. Only this program's own processes write
into the folder, so the files may be unpickled. Knows records, not what they say.
"""

from __future__ import annotations

import os
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

from grpo_tui.core import records as r
from grpo_tui.store.drain import DRAIN_S, Drain
from grpo_tui.store.layout import RunFolder

SPOOLED = (r.GenerationBatch, r.RewardCall, r.PhaseSpan, r.Dropped)
"""What is local to a rank; everything else the first rank records for all."""


class SpoolRecorder(Drain):
    """Stands where the recorder stands on the first rank."""

    attempt = 0
    """Filled in by the recorder that takes the records in."""

    def __init__(self, folder: RunFolder, rank: int) -> None:
        super().__init__()
        self._folder, self._rank = folder.spool, rank
        self._folder.mkdir(parents=True, exist_ok=True)
        self._number = 0
        self._trouble = ""

    def put(self, record: r.Record) -> None:
        """Queue what is local to this rank, pass over the rest."""
        if isinstance(record, SPOOLED):
            super().put(record)

    def _run(self) -> None:
        while True:
            closing = self._closing.is_set()
            taken = self.queue.take(limit=512, timeout_s=0.0 if closing else DRAIN_S)
            written = not taken or self._write(taken)
            if not written:
                self.queue.give_back(taken)
            if closing and not self.queue:
                return
            if closing and not written and not self._try_again(self._trouble):
                self._lose(self._trouble, {})
                return
            self._closing.wait(DRAIN_S)

    def _write(self, taken: list[r.Record]) -> bool:
        self._number += 1
        path = self._folder / f"{self._rank}-{os.getpid()}-{self._number:08d}.records"
        beside = path.with_suffix(".new")
        try:
            beside.write_bytes(_pickled(taken))
            os.replace(beside, path)
        except OSError as error:
            self._trouble = f"{error.strerror}: {self._folder}"
            return False
        return True


def _pickled(taken: list[r.Record]) -> bytes:
    """The records as bytes; one that cannot be turned into any is counted instead."""
    try:
        return pickle.dumps(taken)
    except Exception:  # columns and extras hold whatever a dataset or a reward put there
        kept: list[r.Record] = []
        for record in taken:
            try:
                pickle.dumps(record)
            except Exception:
                kept.append(r.Dropped(0, "records", 1))
            else:
                kept.append(record)
        return pickle.dumps(kept)


def take_spooled(folder: RunFolder, attempt: int) -> tuple[list[r.Record], list[Path]]:
    """Records other ranks have handed over, and the files to remove once they are written."""
    try:
        paths = sorted(folder.spool.glob("*.records"))
    except OSError:
        return [], []
    records: list[r.Record] = []
    for path in paths:
        try:
            found: list[Any] = pickle.loads(path.read_bytes())
        except (OSError, EOFError, pickle.UnpicklingError):
            continue
        records += [replace(record, attempt=attempt) for record in found]
    return records, paths


def remove(paths: list[Path]) -> None:
    """Remove files whose records are in the database."""
    for path in paths:
        path.unlink(missing_ok=True)
