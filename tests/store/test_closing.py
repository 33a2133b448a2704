"""At the end of a run that cannot be written: tried for a while, then counted and said."""

from __future__ import annotations

import os
import sqlite3
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any

from grpo_tui.core import records as r
from grpo_tui.core.records import AttemptEnded, AttemptStarted
from grpo_tui.store.connection import open_writer
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.live import RankFile
from grpo_tui.store.mailbox import Mailbox
from grpo_tui.store.read_series import last_metric_row_id, metric_rows
from grpo_tui.store.reader import RunReader
from grpo_tui.store.recorder import Recorder, SpoolRecorder
from grpo_tui.store.status import read_status
from grpo_tui.store.writer import Writer
from tests import PATIENCE_S


def _blocked(folder: RunFolder) -> tuple[Recorder, sqlite3.Connection, list[str], list[dict[str, int]]]:
    """A recorder with a batch and a row to write, which another writer keeps out."""
    recorder = Recorder(folder)
    recorder.start()
    recorder.put(AttemptStarted(1, 0.0, "host", 1))
    while not RunReader(folder.database).attempts():
        time.sleep(0.05)
    recorder._writer._db.execute("PRAGMA busy_timeout=20")
    blocker = sqlite3.connect(folder.database, isolation_level=None, check_same_thread=False)
    blocker.execute("BEGIN IMMEDIATE")
    said: list[str] = []
    lost: list[dict[str, int]] = []
    recorder.say, recorder.on_lost = said.append, lambda counts: lost.append(dict(counts))
    group = r.Group(0, "p", {}, (r.Completion(0, "x", (1.0,), 1.0, 0.0, 1, False),))
    recorder.queue.dropped["completion text"] = 4
    for step in (1, 2):
        recorder.put(r.GenerationBatch(1, step, 0, "train", step, step, 0.0, (group,)))
        recorder.put(r.MetricRow(1, step, 0.0, {"reward": 1.0}))
    recorder.put(AttemptEnded(1, 1.0, "finished", 2))
    return recorder, blocker, said, lost


def test_what_cannot_be_written_at_the_end_is_tried_then_counted_and_said(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    recorder, blocker, said, lost = _blocked(folder)
    recorder.patience_s = 1.5
    recorder.close()
    assert said[0].startswith("the last records cannot be written yet, retrying for 1.5 s")
    assert said[1].startswith("could not be recorded: batches (2), completion text (4), metric rows (2); ")
    assert "locked" in said[1]
    assert lost == [{"batches": 2, "completion text": 4, "metric rows": 2}]
    blocker.close()
    rank = RankFile(folder.rank(0), os.getpid())
    rank.update(attempt=1, lost=lost[0])
    rank.close()
    assert read_status(tmp_path).dropped == 8
    writer = Writer(open_writer(folder.database))  # as the supervisor writes at the end what the rank told
    writer.write([*(r.Dropped(1, kind, count) for kind, count in lost[0].items())])
    writer.write([AttemptEnded(1, 1.0, "crashed", 2)])
    writer.close()
    assert read_status(tmp_path).dropped == 8, "once each"


def test_room_made_while_a_run_ends_costs_no_record(tmp_path: Path) -> None:
    recorder, blocker, said, lost = _blocked(RunFolder(tmp_path))
    recorder.say = lambda text: (said.append(text), threading.Timer(0.1, blocker.close).start())  # type: ignore[func-returns-value,assignment,return-value]
    recorder.close()
    assert len(said) == 1
    assert lost == []
    reader = RunReader(tmp_path / "run.db")
    assert reader.attempts()[0].state == "finished"
    assert [step for _, step, _ in metric_rows(reader)] == [1, 2]
    assert reader.dropped() == {"completion text": 4}


def test_what_another_rank_cannot_hand_over_is_counted_too(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    spool = SpoolRecorder(folder, 1)
    folder.spool.rmdir()
    folder.spool.write_text("in the way")
    lost: list[dict[str, int]] = []
    spool.on_lost, spool.patience_s = lambda counts: lost.append(dict(counts)), 0.2
    spool.start()
    spool.put(r.RewardCall(0, 0, 0, 0.0, 0.1, "ok"))
    spool.close()
    assert lost == [{"timings": 1}]


def test_a_run_that_ends_at_once_leaves_no_record_behind(tmp_path: Path) -> None:
    """Whoever adds records while the process is about to end waits, and so can tell of none that is lost."""
    folder = RunFolder(tmp_path)
    recorder = Recorder(folder, follow_log=False)
    recorder.put(AttemptStarted(1, 0.0, "host", 1))
    put: list[int] = []
    left = threading.Event()

    def add() -> None:
        while not left.is_set():
            recorder.put(r.MetricRow(1, len(put) + 1, 0.0, {"reward": 1.0}))
            put.append(1)
            time.sleep(0.0005)

    def leave() -> None:
        told.append(len(put))
        told.append(last_metric_row_id(RunReader(folder.database)))
        left.set()

    told: list[int] = []
    recorder.on_stop_now = leave
    trainer = threading.Thread(target=add)
    recorder.start()
    trainer.start()
    Mailbox(folder.commands).submit("stop_now")
    assert left.wait(PATIENCE_S)
    trainer.join()
    assert told[0] > 0
    assert told[1] >= told[0]


def test_a_signal_inside_a_wake_up_can_end_the_record(tmp_path: Path) -> None:
    """A handler runs between two lines of the thread that it interrupts, here between all of `set`."""
    folder = RunFolder(tmp_path)
    recorder = Recorder(folder, follow_log=False)
    recorder.start()
    recorder.put(AttemptStarted(1, 0.0, "host", 1))
    lines: set[int] = set()

    def handle(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_name == "set" and event == "line" and frame.f_lineno not in lines:
            lines.add(frame.f_lineno)
            recorder.put(AttemptEnded(1, 1.0, "stopped", 0))
            recorder.close()
        return handle

    def flush() -> None:
        sys.settrace(handle)
        recorder.flush()

    interrupted = threading.Thread(target=flush, daemon=True)
    interrupted.start()
    interrupted.join(20.0)
    assert lines
    assert not interrupted.is_alive()
    assert RunReader(folder.database).attempts()[0].state == "stopped"


def test_a_reader_keeps_the_newest_rows_of_a_killed_run_where_they_are(tmp_path: Path) -> None:
    (tmp_path / "killed").mkdir()
    writer = Writer(open_writer(tmp_path / "run.db"))
    writer.write([AttemptStarted(1, 0.0, "host", 1)])
    for name in ("run.db", "run.db-wal"):
        (tmp_path / "killed" / name).write_bytes((tmp_path / name).read_bytes())
    writer.close()
    kept = {path.name: path.read_bytes() for path in (tmp_path / "killed").iterdir()}
    reader = RunReader(tmp_path / "killed" / "run.db")
    assert reader.attempts() != []
    reader.close()
    assert {name: (tmp_path / "killed" / name).read_bytes() for name in kept} == kept
