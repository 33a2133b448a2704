"""How ranks other than the first hand their records over: small files that the recorder takes in.

Files, because they need no connection between ranks and survive the death of either side. Written beside
and renamed, removed once they are in the database. They are JSON; a record of another
shape is counted as lost.
"""

from __future__ import annotations

import os
from dataclasses import fields, replace
from json import dumps, loads
from pathlib import Path
from typing import Any

from grpo_tui.core import records as r
from grpo_tui.core.exchange import rebuilt
from grpo_tui.store.drain import DRAIN_S, Drain
from grpo_tui.store.json_file import read_regular
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.values import as_json, from_json, to_json

SPOOLED = (r.GenerationBatch, r.RewardCall, r.PhaseSpan, r.Dropped)
"""What is local to a rank; everything else the first rank records for all."""
KINDS: dict[str, type[Any]] = {kind.__name__: kind for kind in SPOOLED}
LARGEST_BYTES = 1 << 30


class SpoolRecorder(Drain):
    """Stands where the recorder stands on the first rank."""

    attempt = 0
    """Filled in by the recorder that takes the records in."""

    def __init__(self, folder: RunFolder, rank: int) -> None:
        super().__init__()
        self._folder, self._rank = folder.spool, rank
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
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
            descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                file.write(f"[{','.join(_written(record) for record in taken)}]")
            os.replace(beside, path)
        except OSError as error:
            self._trouble = f"{error.strerror}: {self._folder}"
            return False
        return True


def _written(record: r.Record) -> str:
    """Return a record as JSON; one that cannot be written is counted instead."""
    for convert in (_plain, _shown):
        try:
            return dumps({"kind": type(record).__name__, "record": record}, default=convert)
        except (TypeError, ValueError, RecursionError):
            continue  # columns and extras hold whatever a dataset or a reward put there
    return _written(r.Dropped(0, "records", 1))


def _plain(value: Any) -> Any:
    """Return a record's fields, or what the database would keep of a value that JSON does not have."""
    if isinstance(value, (*SPOOLED, r.Group, r.Completion)):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    return as_json(value)


def _shown(value: Any) -> Any:
    """Return the same with everything from outside as the database would keep it by itself."""
    body = _plain(value)
    for name in ("columns", "extra"):
        if isinstance(value, r.Group | r.Completion) and name in body:
            body[name] = {str(key): from_json(to_json(item)) for key, item in body[name].items()}
    return body


def take_spooled(folder: RunFolder, attempt: int) -> tuple[list[r.Record], list[Path]]:
    """Records other ranks have handed over, and the files to remove once they are written."""
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
    """Return the records of a file; what is not one is counted."""
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
