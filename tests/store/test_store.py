"""What goes into `run.db` comes out of it, and readers disturb nobody."""

from __future__ import annotations

import math
import shutil
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from grpo_tui.core import records as r
from grpo_tui.store.connection import BUSY_TIMEOUT_MS, RunDatabaseError, open_reader, open_writer
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.mailbox import Mailbox
from grpo_tui.store.read_series import metric_keys, metric_row, metric_rows, read_points
from grpo_tui.store.reader import RunReader
from grpo_tui.store.recorder import Recorder, SpoolRecorder, take_spooled
from grpo_tui.store.writer import Writer
from tests import PATIENCE_S


def _batch(attempt: int, number: int, step: int, text: str = "x", count: int = 2) -> r.GenerationBatch:
    completions = tuple(
        r.Completion(i, f"{text}{i}", (1.0, None), 1.0, 0.5, 3, i == 0, {"extracted": "7"})
        for i in range(count)
    )
    prompt = [{"role": "user", "content": "3+4=?"}]
    group = r.Group(0, prompt, {"answer": "7"}, completions)
    return r.GenerationBatch(attempt, number, 0, "train", step, step, 1.0, (group,))


def _writer(folder: Path) -> Writer:
    return Writer(open_writer(folder / "run.db"))


def test_none_infinity_nan_and_missing_keys_survive(tmp_path: Path) -> None:
    writer = _writer(tmp_path)
    values = {
        "none": None,
        "inf": math.inf,
        "minus": -math.inf,
        "nan": math.nan,
        "int": 3,
        "float": 0.1,
        "text": "a",
    }
    writer.write([r.MetricRow(1, 1, 0.0, values), r.MetricRow(1, 2, 0.0, {"float": 0.2})])
    reader = RunReader(tmp_path / "run.db")
    assert repr(metric_row(reader, 1)) == repr(values)
    assert metric_row(reader, 2) == {"float": 0.2}
    assert [p.value for p in read_points(reader, "float")] == [0.1, 0.2]
    assert [p.step for p in read_points(reader, "none")] == [1]


def test_a_batch_comes_back_as_it_was(tmp_path: Path) -> None:
    batch = _batch(1, 0, 1, "\ud800 lone surrogate, \x1b[31m escape, \x00 nul ")
    _writer(tmp_path).write([batch])
    (group,) = RunReader(tmp_path / "run.db").groups()
    assert group.prompt == [{"role": "user", "content": "3+4=?"}]
    assert group.columns == {"answer": "7"}
    assert [c.rewards for c in group.completions] == [(1.0, None), (1.0, None)]
    assert [c.truncated for c in group.completions] == [True, False]
    assert group.completions[0].extra == {"extracted": "7"}
    assert group.completions[0].text == "? lone surrogate, \x1b[31m escape, \x00 nul 0"


def test_a_failed_transaction_writes_nothing_and_can_be_given_again(tmp_path: Path) -> None:
    writer = _writer(tmp_path)
    writer.write([_batch(1, 0, 1)])
    row = r.MetricRow(1, 1, 0.0, {"new key": 1.0})
    with pytest.raises(sqlite3.IntegrityError):
        writer.write([row, r.LogLine(0.0, "no level", None)])  # type: ignore[arg-type]
    reader = RunReader(tmp_path / "run.db")
    assert metric_keys(reader) == []
    writer.write([row])
    assert read_points(reader, "new key")[0].value == 1.0


def test_a_batch_handed_over_twice_is_stored_once(tmp_path: Path) -> None:
    writer = _writer(tmp_path)
    for _ in range(2):
        writer.write([_batch(1, 0, 1)])
    reader = RunReader(tmp_path / "run.db")
    assert len(reader.groups()) == 1
    assert reader.completion_count() == 2
    rows = sqlite3.connect(tmp_path / "run.db").execute("SELECT count(*) FROM completion").fetchone()
    assert rows == (2,), "none without its group either"


def test_records_of_other_ranks_reach_the_database_once(tmp_path: Path) -> None:
    from dataclasses import replace

    from grpo_tui.store.recorder import SpoolRecorder

    folder = RunFolder(tmp_path)
    other = SpoolRecorder(folder, 1)
    other.start()
    other.put(replace(_batch(0, 0, 1), rank=1))
    other.put(r.MetricRow(0, 1, 0.0, {"reward": 1.0}))
    other.close()
    (folder.spool / "1-9-00000009.records").write_bytes(b"torn")
    recorder = Recorder(folder)
    recorder.start()
    recorder.put(_batch(1, 0, 1))
    recorder.close()
    reader = RunReader(folder.database)
    assert [(g.attempt, g.rank) for g in reader.groups()] == [(1, 0), (1, 1)]
    assert metric_rows(reader) == [], "what every rank logs, the first one records"
    assert not list(folder.spool.iterdir())


def test_a_resume_supersedes_the_steps_it_does_again(tmp_path: Path) -> None:
    writer = _writer(tmp_path)
    writer.write([r.AttemptStarted(1, 0.0, "h", 1)])
    writer.write([_batch(1, s, s + 1) for s in range(4)])
    writer.write([r.MetricRow(1, s, 0.0, {"reward": float(s)}) for s in range(1, 5)])
    writer.write([r.AttemptStarted(2, 0.0, "h", 2, resumed_from=2)])
    writer.write([_batch(2, 0, 3), r.MetricRow(2, 3, 0.0, {"reward": 9.0})])
    reader = RunReader(tmp_path / "run.db")
    assert [(p.step, p.value) for p in read_points(reader, "reward")] == [(1, 1.0), (2, 2.0), (3, 9.0)]
    assert [(g.step, g.attempt) for g in reader.groups()] == [(1, 1), (2, 1), (3, 2)]
    assert len(reader.groups(superseded=True)) == 5


def test_a_training_begun_anew_in_the_same_folder_supersedes_the_earlier_one_once_it_trains(
    tmp_path: Path,
) -> None:
    writer = _writer(tmp_path)
    writer.write([r.AttemptStarted(1, 0.0, "h", 1), r.TotalSteps(1, 2)])
    writer.write([_batch(1, 0, 1), r.MetricRow(1, 1, 0.0, {"reward": 1.0})])
    writer.write([r.AttemptStarted(2, 0.0, "h", 2), r.AttemptEnded(2, 1.0, "crashed", None)])
    reader = RunReader(tmp_path / "run.db")
    assert [(p.step, p.value) for p in read_points(reader, "reward")] == [(1, 1.0)], "it died while loading"
    writer.write([r.AttemptStarted(3, 0.0, "h", 3), r.TotalSteps(3, 2)])
    writer.write([_batch(3, 0, 1), r.MetricRow(3, 1, 0.0, {"reward": 9.0})])
    assert [(p.step, p.value) for p in read_points(reader, "reward")] == [(1, 9.0)]
    assert [group.attempt for group in reader.groups()] == [3]
    assert len(reader.groups(superseded=True)) == 2


def test_changed_tells_when_something_was_written(tmp_path: Path) -> None:
    writer = _writer(tmp_path)
    reader = RunReader(tmp_path / "run.db")
    reader.changed()
    assert not reader.changed()
    writer.write([r.Fact("a", 1)])
    assert reader.changed()
    assert not reader.changed()


def test_copying_run_db_alone_copies_the_run_after_it_was_closed(tmp_path: Path) -> None:
    recorder = Recorder(RunFolder(tmp_path))
    recorder.start()
    recorder.queue.put(_batch(1, 0, 1))
    recorder.close()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.copyfile(tmp_path / "run.db", elsewhere / "run.db")
    assert RunReader(elsewhere / "run.db").completion_count() == 2


def test_a_newer_schema_is_refused_with_the_way_on(tmp_path: Path) -> None:
    connection = open_writer(tmp_path / "run.db")
    connection.execute("PRAGMA user_version=99")
    connection.close()
    for opening in (open_reader, open_writer):
        with pytest.raises(RunDatabaseError, match=r"newer grpo-tui \(schema 99"):
            opening(tmp_path / "run.db")


def test_a_new_record_can_be_read_by_every_version_there_was(tmp_path: Path) -> None:
    with closing(open_writer(tmp_path / "run.db")) as connection:
        assert connection.execute("PRAGMA user_version").fetchone()[0] == 1


@pytest.mark.parametrize("opening", [open_writer, open_reader])
def test_a_file_that_another_program_locks_is_waited_for_a_few_seconds(
    opening: Callable[[Path], sqlite3.Connection], tmp_path: Path
) -> None:
    open_writer(tmp_path / "run.db").close()
    with closing(opening(tmp_path / "run.db")) as connection:
        assert connection.execute("PRAGMA busy_timeout").fetchone()[0] == BUSY_TIMEOUT_MS == 5_000


def test_phases_that_took_no_time_have_no_shares(tmp_path: Path) -> None:
    writer = _writer(tmp_path)
    writer.write([r.PhaseSpan(1, 0, phase, 1, 1.0, 0.0) for phase in ("generate", "update")])
    reader = RunReader(tmp_path / "run.db")
    assert reader.phase_shares() == {}
    writer.write([r.PhaseSpan(1, 0, "load", 1, 1.0, 9.0), r.PhaseSpan(1, 0, "update", 1, 1.0, 0.5)])
    assert reader.phase_shares() == {"generate": 0.0, "update": 1.0}


def test_a_completion_counts_and_a_line_is_a_new_one_unless_said_otherwise(tmp_path: Path) -> None:
    writer = _writer(tmp_path)
    masked = r.Completion(1, "x", (1.0,), 1.0, 0.0, 1, True, masked=True)
    group = r.Group(0, "p", {}, (r.Completion(0, "x", (1.0,), 1.0, 0.0, 1, False), masked))
    writer.write([r.GenerationBatch(1, 0, 0, "train", 1, 1, 1.0, (group,))])
    writer.write([r.LogLine(1.0, "a"), r.LogLine(2.0, "1 %"), r.LogLine(3.0, "2 %", replaces=True)])
    reader = RunReader(tmp_path / "run.db")
    assert [c.masked for c in reader.groups()[0].completions] == [False, True]
    assert [line.text for line in reader.log()] == ["a", "2 %"]


def test_a_reader_never_creates_a_file(tmp_path: Path) -> None:
    with pytest.raises(RunDatabaseError, match=r"no run\.db here"):
        open_reader(tmp_path / "run.db")
    assert list(tmp_path.iterdir()) == []


def test_a_stopped_reader_blocks_no_write(tmp_path: Path) -> None:
    writer = _writer(tmp_path)
    writer.write([_batch(1, n, n + 1) for n in range(50)])
    reader = RunReader(tmp_path / "run.db")
    pages = reader.iter_groups(page=10)
    next(pages)
    writer.write([_batch(1, 99, 99)])
    assert sum(1 for _ in pages) == 50


def test_a_full_queue_loses_text_first_then_batches_and_metrics_last(tmp_path: Path) -> None:
    from grpo_tui.store.recorder import TEXT_PLACEHOLDER, RecordQueue

    queue = RecordQueue(budget_bytes=60_000)
    for number in range(200):
        queue.put(_batch(1, number, number + 1, "y" * 500))
        queue.put(r.MetricRow(1, number + 1, 0.0, {"reward": 1.0}))
    kept = queue.take(10_000, 0)
    batches = [b for b in kept if isinstance(b, r.GenerationBatch)]
    rows = [m for m in kept if isinstance(m, r.MetricRow)]
    texts = [c.text for b in batches for g in b.groups for c in g.completions]
    without = texts.count(TEXT_PLACEHOLDER)
    assert len(rows) == 200
    assert 0 < without < len(texts)
    assert len(batches) < 200
    assert queue.dropped["completion text"] == without
    assert queue.dropped["batches"] == 200 - len(batches)
    assert all(c.rewards == (1.0, None) for b in batches for g in b.groups for c in g.completions)


KINDS: dict[str, r.Record] = {
    "batches": _batch(1, 1, 1, "y"),
    "log lines": r.LogLine(1.0, "a"),
    "timings": r.RewardCall(1, 1, 0, 1.0, 0.1, "ok", ""),
    "metric rows": r.MetricRow(1, 1, 0.0, {"reward": 1.0}),
    "end": r.AttemptEnded(1, 1.0, "complete", 1),
}


@pytest.mark.parametrize(
    ("held", "lost"),
    [
        (90, set()),
        (100, {"completion text"}),
        (199, {"completion text"}),
        (200, {"batches", "log lines", "timings"}),
        (399, {"batches", "log lines", "timings"}),
        (400, {"batches", "log lines", "timings", "metric rows"}),
        (900, {"batches", "log lines", "timings", "metric rows"}),
    ],
)
def test_each_kind_of_record_is_dropped_at_its_own_multiple_of_the_budget(held: int, lost: set[str]) -> None:
    from grpo_tui.store.recorder import RecordQueue

    found: set[str] = set()
    for record in KINDS.values():
        queue = RecordQueue(budget_bytes=100 * 400)
        for attempt in range(held):
            queue.put(r.AttemptEnded(attempt, 1.0, "failed", 1))
        queue.put(record)
        found |= {kind for kind, count in queue.dropped.items() if count}
    assert found == lost


def test_records_given_back_are_taken_again_before_later_ones() -> None:
    from grpo_tui.store.recorder import RecordQueue

    queue = RecordQueue()
    rows = [r.MetricRow(1, step, 0.0, {}) for step in (1, 2, 3)]
    for row in rows:
        queue.put(row)
    queue.give_back(queue.take(2, 0.0))
    assert queue.take(9, 0.0) == rows


def test_records_given_back_count_against_the_budget_and_leave_it_when_they_are_written() -> None:
    from grpo_tui.store.recorder import RecordQueue

    queue = RecordQueue(budget_bytes=3 * 1_000)
    line = r.LogLine(0.0, "y" * 400)
    for _ in range(3):
        queue.put(line)
    for _ in range(50):  # the disk stays full
        queue.give_back(queue.take(9, 0.0))
    for _ in range(9):
        queue.put(line)
    assert (len(queue), queue.dropped["log lines"]) == (6, 6), "twice the budget, as without giving back"
    for _ in range(50):
        queue.give_back(queue.take(9, 0.0))
    assert len(queue.take(9, 0.0)) == 6
    for _ in range(9):
        queue.put(line)
    assert (len(queue), queue.dropped["log lines"]) == (6, 9), "room again, and no more than there was"


def test_a_crash_ends_a_batch_with_the_last_step_that_used_it(tmp_path: Path) -> None:
    """Steps 1 to 8 would have used one batch, 9 to 16 the next: the run died after step 5."""
    recorder = Recorder(RunFolder(tmp_path))
    recorder.start()
    recorder.put(r.AttemptStarted(1, 0.0, "here", 1))
    for number, step in enumerate((1, 9)):
        recorder.put(replace(_batch(1, number, step), last_step=step + 7))
    recorder.put(r.AttemptEnded(1, 1.0, "crashed", 5, -9, None))
    recorder.close()
    groups = RunReader(tmp_path / "run.db").iter_groups()
    assert {(g.step, g.last_step) for g in groups} == {(1, 5), (9, 9)}


def test_what_was_dropped_is_counted_in_the_database(tmp_path: Path) -> None:
    recorder = Recorder(RunFolder(tmp_path))
    recorder.queue.dropped["batches"] = 3
    recorder.start()
    recorder.close()
    assert RunReader(tmp_path / "run.db").dropped() == {"batches": 3}


def test_the_recorder_keeps_what_it_cannot_write_and_writes_it_later(tmp_path: Path) -> None:
    recorder = Recorder(RunFolder(tmp_path))
    blocker = sqlite3.connect(tmp_path / "run.db", isolation_level=None)
    recorder._writer._db.execute("PRAGMA busy_timeout=50")
    blocker.execute("BEGIN IMMEDIATE")
    recorder.start()
    recorder.queue.put(_batch(1, 0, 1))
    end = time.monotonic() + PATIENCE_S
    while not recorder.trouble and time.monotonic() < end:
        time.sleep(0.05)
    assert "locked" in recorder.trouble
    blocker.execute("COMMIT")
    blocker.close()
    recorder.close()
    assert RunReader(tmp_path / "run.db").completion_count() == 2


def test_commands_and_outcomes_become_history(tmp_path: Path) -> None:
    from grpo_tui.core.commands import Outcome

    folder = RunFolder(tmp_path)
    box = Mailbox(folder.commands)
    with pytest.MonkeyPatch.context() as patch:  # a clock that stands still for a moment
        tokens = iter(("ffffff", "000000"))
        patch.setattr("secrets.token_hex", lambda size: next(tokens))
        patch.setattr("grpo_tui.store.mailbox.time.time_ns", lambda: 10**18)
        command = box.submit("set", {"learning_rate": 1e-4})
        waiting = box.submit("pause")
    (folder.commands / "torn.json").write_text('{"kind": "pau')
    assert [c.kind for c in box.pending()] == ["set", "pause"]
    box.finish(command, Outcome(True, 5, "done"))
    box.finish(command, Outcome(False, 6, "a second outcome does not count"))
    recorder = Recorder(folder)
    recorder.start()
    recorder.close()
    history = {c.id: o for c, o in RunReader(folder.database).commands()}
    assert history[waiting.id] is None
    outcome = history[command.id]
    assert outcome is not None
    assert (outcome.applied, outcome.step, outcome.reason) == (True, 5, "done")
    assert box.pending() == [waiting]


class _Unshowable:
    def __repr__(self) -> str:
        raise ValueError("no repr")


def test_values_from_rewards_that_no_column_takes_are_kept_as_near_as_can_be(tmp_path: Path) -> None:
    writer = _writer(tmp_path)
    itself: dict[str, object] = {}
    itself["me"] = itself
    extra = {"tuple key": {(1, 2): 3}, "loop": itself, "object": _Unshowable(), "\ud800": "\udfff"}
    completion = r.Completion(0, "x", (10**30, math.nan), math.nan, math.nan, 3, False, extra)
    group = r.Group(0, "p\ud800", {"a": {1: 2}}, (completion,))
    batch = r.GenerationBatch(1, 0, 0, "train", 1, 1, 1.0, (group,))
    writer.write([
        batch,
        r.RewardFunctionInfo(1, 0, "name\ud800", math.nan, "source", "hash", "text \udc80"),
        r.MetricRow(1, 1, 0.0, {"huge": 10**400, "large": 2**63, "least": -(2**63), "key\ud800": "\ud800"}),
        r.RewardCall(1, 0, 0, 0.0, 0.1, "error", "said \ud800"),
        r.Fact("fact", {(1,): _Unshowable()}),
    ])  # fmt: skip
    reader = RunReader(tmp_path / "run.db")
    stored = reader.groups()[0].completions[0]
    assert stored.rewards[0] == 1e30
    assert [math.isnan(v) for v in (stored.rewards[1] or 0.0, stored.advantage)] == [True, True]
    assert math.isnan(reader.reward_functions()[0].weight)
    assert metric_row(reader, 1) == {"huge": math.inf, "large": 2.0**63, "least": -(2**63), "key?": "?"}


def test_a_record_that_can_never_be_written_is_counted_and_costs_no_other(tmp_path: Path) -> None:
    recorder = Recorder(RunFolder(tmp_path), follow_log=False)
    recorder.put(r.AttemptStarted(1, 0.0, "host", 1))
    recorder.start()
    for step in range(1, 4):
        recorder.put(r.MetricRow(1, step, 0.0, {"reward": 1.0}))
        recorder.put(r.LogLine(0.0, "no level", None))  # type: ignore[arg-type]
        recorder.put(r.MetricRow(1, None, 0.0, {"new": 1.0}))  # type: ignore[arg-type]
    recorder.put(r.AttemptEnded(1, 1.0, "finished", 3))
    recorder.close()
    reader = RunReader(tmp_path / "run.db")
    assert [p.step for p in read_points(reader, "reward")] == [1, 2, 3]
    assert reader.attempts()[0].state == "finished"
    assert reader.dropped() == {"log lines": 3, "metric rows": 3}


def test_a_record_that_cannot_be_handed_over_by_a_rank_is_counted_and_costs_no_other(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    spool = SpoolRecorder(folder, 1)
    spool.start()
    for number in range(3):
        spool.put(_batch(0, number, number + 1))
        spool.put(r.RewardCall(0, number, 0, 0.0, lambda: None, "error"))  # type: ignore[arg-type]
    spool.close()
    records, _ = take_spooled(folder, 1)
    assert [b.batch for b in records if isinstance(b, r.GenerationBatch)] == [0, 1, 2]
    assert sum(d.count for d in records if isinstance(d, r.Dropped)) == 3


def test_a_command_to_a_folder_that_is_gone_is_refused_and_does_not_bring_it_back(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Mailbox(tmp_path / "renamed" / "commands").submit("pause")
    assert list(tmp_path.iterdir()) == []


def test_files_in_the_mailbox_that_are_no_commands_harm_nobody(tmp_path: Path) -> None:
    box = Mailbox(tmp_path / "commands")
    command = box.submit("pause")
    for name, content in (
        ("a", b"{not json"),
        ("b", b"[]"),
        ("c", b"\xff\xfe"),
        ("d", b'{"kind": 5}'),
        ("e", b'{"kind": "pause", "args": 5, "at": "x", "by": null}'),
        ("f", b'{"kind": "pause", "at": 1e999}'),
    ):
        (tmp_path / "commands" / f"{name}.json").write_bytes(content)
    (tmp_path / "commands" / "g.json").mkdir()
    (tmp_path / "commands" / "e.out.json").write_text('{"step": "x", "result": 3}')
    assert command in box.pending()
    assert {c.id for c in box.pending()} == {command.id, "f"}
    assert {c.id for c, _ in box.history(set())} == {command.id, "e", "f"}
