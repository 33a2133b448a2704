"""Copy logged completions in a child process: `-m grpo_tui.store.importers.copy_child DIR`.

Reads what is new or changed since the last time, writes it with the store's own writer, and answers with a
line of JSON. Repeats this every few seconds until its input ends.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import select
import sqlite3
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from grpo_tui.children.serving import stand_back
from grpo_tui.core.exchange import to_json
from grpo_tui.core.records import AttemptStarted, Fact, GenerationBatch, MetricRow, RewardFunctionInfo
from grpo_tui.core.text import one_line
from grpo_tui.store.connection import RunDatabaseError, open_writer
from grpo_tui.store.importers import formats
from grpo_tui.store.importers.copies import LogSource, copy_root, source_at
from grpo_tui.store.importers.recordings import Recording, read_prime, read_rlprobe, read_trackio
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.rollouts import IMPORTED
from grpo_tui.store.values import from_json
from grpo_tui.store.writer import Writer

VERSION = 3
"""Version of the copy's content. A copy of another version is remade."""
EVERY_S = 2.0
NO_PYARROW = "reading parquet files needs pyarrow: pip install pyarrow (it comes with grpo-tui[train])"


class Copy:
    """The copy of one folder, held open."""

    def __init__(self, source: LogSource) -> None:
        self._source = source
        root = copy_root(source)
        root.mkdir(parents=True, exist_ok=True)
        self._lock = (root / "copy.lock").open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)  # processes that copy the same folder take turns
        self._db = open_writer(RunFolder(root).database)
        self._writer = Writer(self._db)
        self._known = self._read_known()

    def close(self) -> None:
        """Close the database and release the lock."""
        self._writer.close()
        self._lock.close()

    def update(self) -> str:
        """Copy what is new. Return why a file could not be read, or an empty string.

        Raises:
            ImportError: pyarrow is not installed.
            OSError: The folder or the cache cannot be used.
        """
        if self._source.kind in READERS:
            self._copy_recording(READERS[self._source.kind])
            return ""
        unread: dict[str, str] = {}
        trl = self._source.kind == "trl"
        state = formats.read_state(self._source.root) if trl else formats.TrainerState()
        changed = False
        files = self._source.files()
        for step, path in files:
            stat = path.stat()
            mark = [stat.st_size, stat.st_mtime_ns]
            if self._known["files"].get(path.name) == mark:
                continue
            try:
                if not trl:
                    self._copy_lines(step, path, stat.st_mtime)
                elif not self._copy_parquet(step, path, stat.st_mtime, state):
                    continue
            except (ImportError, sqlite3.Error):
                raise
            except Exception as error:  # the file can contain anything; read the others anyway
                unread[path.name] = f"{path.name} cannot be read: {one_line(str(error), 200)}"
                continue
            self._known["files"][path.name] = mark
            changed = True
        rows = state.metric_rows(self._known["metric_rows"])
        self._known["metric_rows"] += len(rows)
        if changed or rows or unread != self._known.get("unread", {}):
            self._known["unread"] = unread
            self._writer.write([*rows, Fact(IMPORTED, self._known)])
            self._end(state, files)
        return next(reversed(unread.values()), "")

    def begins_anew(self) -> bool:
        """Return whether reward names or group size turned out different, so that all must be read again."""
        return bool(self._known.pop("again", False))

    def _copy_recording(self, read: Callable[[Path], Recording]) -> None:
        """Copy a run that another tool recorded, whole, if a file has changed."""
        files = self._source.files()
        marks = {str(path): [path.stat().st_size, path.stat().st_mtime_ns] for _, path in files}
        if marks == self._known["files"]:
            return
        found = read(self._source.root)
        self._empty()
        at = max((path.stat().st_mtime for _, path in files), default=0.0)
        self._functions(found.names)
        for batch in found.batches:
            self._writer.write([replace(batch, at=at)])
        rows = [MetricRow(1, step, at, values) for step, values in sorted(found.rows.items())]
        self._known |= {
            "files": marks, "absent": list(found.absent), "notes": found.notes, "settings": found.settings,
            "broken": found.broken,
        }  # fmt: skip
        self._writer.write([*rows, Fact(IMPORTED, self._known)])
        steps = [*found.rows, *(batch.step for batch in found.batches)]
        total = found.settings.get("max_steps")
        state = formats.TrainerState(
            (), max(steps, default=0), total if isinstance(total, int) and total > 0 else None
        )
        self._end(state, files)

    # -- one file --------------------------------------------------------------------------------

    def _copy_lines(self, step: int, path: Path, at: float) -> None:
        rows, broken = formats.read_verl(path)
        if broken:
            several = f" and {len(broken) - 1} more" if len(broken) > 1 else ""
            where = f"line {broken[0]}{several} of {path.name}"
            self._known["broken"] = {**self._known.get("broken", {}), path.name: where}
        else:
            self._known.get("broken", {}).pop(path.name, None)
        self._note(ADVANTAGES)
        self._functions((formats.VERL_REWARD,))
        self._replace(formats.verl_batch(step, at, rows, self._source.root.name))

    def _copy_parquet(self, step: int, path: Path, at: float, state: formats.TrainerState) -> bool:
        """Copy a file of TRL. Return False when all files must be read again from the start."""
        names = self._known["names"]
        rows = formats.read_trl(path)
        found = formats.reward_columns(rows, state.reward_names())
        size = formats.size_in(rows, self._known["group_size"])
        if (names and list(found) != list(names)) or (self._known["group_size"] not in (0, size)):
            self._empty("reward_function")
            again = {"files": {}, "group_size": size, "names": list(found), "last": None, "again": True}
            self._known |= again
            return False
        self._known["group_size"] = size
        self._functions(found)
        texts = to_json([[row["prompt"], row["completion"]] for row in rows])
        digest = hashlib.blake2b(texts.encode(), digest_size=8).hexdigest()
        last = self._known["last"]
        if last and last[0] == digest and last[1] < step:
            # Logged again because nothing was generated since: the same batch, used for more steps.
            self._db.execute("UPDATE generation_group SET last_step = ? WHERE batch = ?", (step, last[1]))
            return True
        self._known["last"] = [digest, step]
        self._replace(formats.trl_batch(step, at, rows, found, size))
        if formats.weights_differ(rows, found, state.row_at(step)):
            self._note(WEIGHTS)
        if any(row.get("advantage") is None for row in rows):
            self._note(ADVANTAGES)
        return True

    def _note(self, text: str) -> None:
        self._known["notes"] = list(dict.fromkeys([*self._known["notes"], text]))

    def _replace(self, batch: GenerationBatch) -> None:
        self._delete("WHERE batch = ?", batch.batch)
        self._writer.write([batch])

    def _delete(self, which: str, *values: Any) -> None:
        groups = f"SELECT id FROM generation_group {which}"
        completions = f"SELECT id FROM completion WHERE group_id IN ({groups})"
        self._db.execute(f"DELETE FROM reward WHERE completion_id IN ({completions})", values)
        self._db.execute(f"DELETE FROM completion WHERE group_id IN ({groups})", values)
        self._db.execute(f"DELETE FROM generation_group {which}", values)

    def _empty(self, *tables: str) -> None:
        self._delete("")
        for table in tables or ("metric", "metric_row", "reward_function"):
            self._db.execute(f"DELETE FROM {table}")

    def _functions(self, names: Sequence[str]) -> None:
        if list(names) != self._known["names"] or not self._known["begun"]:
            self._known |= {"names": list(names), "begun": True}
            self._writer.write([RewardFunctionInfo(1, i, name, 1.0) for i, name in enumerate(names)])

    # -- the run ---------------------------------------------------------------------------------

    def _read_known(self) -> dict[str, Any]:
        row = self._db.execute("SELECT value FROM fact WHERE key = ?", (IMPORTED,)).fetchone()
        known = None if row is None else from_json(row[0], dict)
        if isinstance(known, dict) and known.get("version") == VERSION:
            return known
        self._empty()
        self._db.execute("DELETE FROM attempt")
        files = self._source.files()
        began = min((path.stat().st_mtime for _, path in files), default=time.time())
        self._writer.write([AttemptStarted(1, began, "", 0)])
        self._end(formats.TrainerState(), files)
        absent = {"trl": formats.TRL_ABSENT, "verl": formats.VERL_ABSENT}.get(self._source.kind, ())
        return {
            "version": VERSION,
            "kind": self._source.kind,
            "from": str(self._source.root),
            "absent": list(absent),
            "notes": [],
            "files": {},
            "names": [],
            "begun": False,
            "group_size": 0,
            "last": None,
            "metric_rows": 0,
        }

    def _end(self, state: formats.TrainerState, files: Sequence[tuple[int, Path]]) -> None:
        """Record the progress of the run. The files do not say how it ended, unless it finished all steps."""
        step = max([state.step, *(number for number, _ in files)])
        finished = state.total_steps is not None and state.step >= state.total_steps
        cause = f"copied from {self._source.root}. Its files do not say whether the run has ended, or how"
        error: Mapping[str, Any] = {"type": "", "message": cause, "cause": cause}
        self._db.execute(
            "UPDATE attempt SET ended_at = ?, state = ?, step = ?, total_steps = ?, error = ?",
            (
                max((path.stat().st_mtime for _, path in files), default=time.time()),
                "finished" if finished else "stopped",
                step,
                state.total_steps,
                None if finished else to_json(error),
            ),
        )


def _trackio(root: Path) -> Recording:
    return read_trackio(root, None) if root.is_file() else read_trackio(root.parent, root.name)


READERS: Mapping[str, Callable[[Path], Recording]] = {
    "rlprobe": read_rlprobe,
    "prime-rl": read_prime,
    "trackio": _trackio,
}
ADVANTAGES = "These files contain no advantages. They are computed from each group's totals here"
WEIGHTS = (
    "TRL logged a different mean reward: these files do not contain the weights, so totals are plain sums"
)


def update(source: LogSource) -> str:
    """Update the copy of a folder. Return what could not be read, or an empty string."""
    with closing(Copy(source)) as copy:
        trouble = copy.update()
        for _ in range(3):
            if copy.begins_anew():
                trouble = copy.update()
    return trouble


def main() -> None:
    """Copy, and repeat until the input ends."""
    stand_back()
    source = source_at(Path(sys.argv[1]))
    said: dict[str, str] | None = None
    while True:
        answer: dict[str, str] = {"error": "the logged completions are gone"}
        if source is not None:
            try:
                answer = {"trouble": update(source)}
            except ImportError:
                answer = {"error": NO_PYARROW}
            except (OSError, ValueError, sqlite3.Error, RunDatabaseError) as error:
                answer = {"error": str(error)}
        if answer != said:  # only the first lines are read
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()
            said = answer
        if select.select([sys.stdin], [], [], EVERY_S)[0]:
            return


if __name__ == "__main__":
    main()
