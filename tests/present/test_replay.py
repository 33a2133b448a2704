"""A replayed run is folded, judged and described as it was at each of its steps, and nothing is written."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grpo_tui.core import records as r
from grpo_tui.core.commands import Command, Outcome
from grpo_tui.core.findings import Finding, Remedy
from grpo_tui.core.schedule import FACT as SCHEDULE
from grpo_tui.core.schedule import Scheduled, to_json
from grpo_tui.core.stages import FACT as STAGE
from grpo_tui.core.stages import StageNow
from grpo_tui.health.live import LiveVerdict
from grpo_tui.present.checkpoint_list import list_checkpoints
from grpo_tui.present.replay import start_replay
from grpo_tui.present.run_findings import read_findings
from grpo_tui.present.run_state import DeltaReader, RunState
from grpo_tui.present.train_view import TrainView
from grpo_tui.store import connection
from grpo_tui.store import replay as module
from grpo_tui.store.connection import RunDatabaseError
from grpo_tui.store.importers.copies import open_copy, source_at
from grpo_tui.store.mailbox import Mailbox
from grpo_tui.store.reader import RunReader
from grpo_tui.store.replay import Replay, end
from grpo_tui.store.search import Search
from grpo_tui.store.status import Status, read_status
from tests.ship.folders import checkpoint
from tests.ui.recorded_run import NOW, RecordedRun


@pytest.fixture(autouse=True)
def _no_replay_is_left() -> Iterator[None]:
    yield
    module._replays.clear()


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RecordedRun]:
    made = RecordedRun(tmp_path / "run", total=30)
    yield made
    made.writer._db.close()


def look(run: RecordedRun, now: float = NOW) -> tuple[TrainView, Status, dict[str, Any]]:
    """The view of a run, its status, and what other readers say of it."""
    with closing(RunReader(run.folder.database)) as reader, closing(Search(run.folder.database)) as search:
        state, deltas, more = RunState("run", str(run.folder.root)), DeltaReader(reader), True
        while more:
            delta = deltas.read()
            state.fold(delta)
            more = delta.more
        status = read_status(run.folder.root, reader)
        others = {
            "completions": reader.completion_count(),
            "found": len(search.find("reward>=1").ids),
            "log": [line.text for line in reader.log()],
            "commands": reader.commands(),
            "attempts": reader.attempts(),
        }
        view = state.view(status, now)
        # What only the live process knows, and a replay does not.
        return replace(view, phase="", ranks=()), replace(status, metrics=dict(status.metrics)), others


def hashes(folder: Path) -> dict[str, str]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_forward_and_back_the_fold_at_each_step_is_the_one_there_was(run: RecordedRun) -> None:
    then = {}
    for step in range(1, 21):
        run.advance(1)
        if step == 7:
            run.write(r.SettingChanged(1, 7, run.at(7.1), "learning_rate", 5e-4, 2e-4))
        if step == 9:
            run.write(
                r.CheckpointSaved(1, 9, str(run.folder.root / "checkpoint-9"), run.at(9.1), True, False, 3)
            )
            command = Command("1", "set", {"beta": 1.0}, run.at(9.2))
            run.write((command, Outcome(False, 9, "no", {}, run.at(9.3))))
        run.write(r.LogLine(run.at(step + 0.1), f"line {step}"))
        run.now("update")
        then[step] = look(run)
    run.end("stopped")
    replayed = start_replay(run.folder.root)
    for step in [*range(1, 20), *range(18, 0, -1), 12, 3, 17]:
        replayed.go(step - 1)
        view, status, others = look(run)
        assert view == then[step][0]
        assert others == then[step][2]
        assert (status.step, status.state, status.metrics) == (step, "training", then[step][1].metrics)
        assert {one.step for one in status.checkpoints} == ({9} if step >= 9 else set())
    replayed.go(19)
    assert look(run)[1].state == "stopped", "the last step shows how the run ended"
    end(run.folder.database)
    assert look(run)[2]["completions"] == 20 * 32


def test_a_resumed_run_is_shown_with_the_attempt_and_the_superseded_steps_of_the_time(
    run: RecordedRun,
) -> None:
    run.advance(8)
    run.end("stopped")
    started = run.at(20)
    run.write(r.AttemptStarted(2, started, "here", run.pid, 5, 30))
    run.step = 5
    for _ in range(5):
        run.step += 1
        batch = replace(run._batch(run.step), attempt=2, at=started + run.step)
        run.write(batch, replace(run._row(batch, False), attempt=2, at=started + run.step))
    replayed = start_replay(run.folder.root)
    seen = {}
    for place in range(10):
        replayed.go(place)
        with closing(RunReader(run.folder.database)) as reader:
            every = reader.completion_count(superseded=True) // 32
            seen[place + 1] = (
                read_status(run.folder.root, reader).attempt,
                reader.completion_count() // 32,
                every,
            )
    assert replayed.steps == tuple(range(1, 11))
    assert seen[5] == (1, 5, 5)
    assert seen[6] == (2, 6, 9), "three steps of the first attempt are superseded by then"
    assert seen[10] == (2, 10, 13)


def test_a_reader_that_stays_open_follows_the_replay_and_the_next_one(run: RecordedRun) -> None:
    run.advance(9)
    replayed = start_replay(run.folder.root)
    with closing(RunReader(run.folder.database)) as reader:

        def seen() -> int:
            return reader.completion_count() // 32

        for place in (0, 6, 2):
            replayed.go(place)
            assert seen() == place + 1
        first = start_replay(run.folder.root, 8)
        for _ in range(replayed.version):
            first.version += 1  # as many moves as the earlier one
        assert seen() == 8
        end(run.folder.database)
        assert seen() == 9


@pytest.mark.parametrize(("step", "number"), [(1, 1), (4, 1), (6, 1), (7, 2), (9, 2), (10, 3)])
def test_a_replayed_step_is_of_the_stage_that_trained_it(run: RecordedRun, step: int, number: int) -> None:
    run.advance(10)
    now = StageNow(("format", "correctness", "long"), (0, 6, 9), 20)
    run.write(r.Fact(STAGE, now.to_fact()))
    start_replay(run.folder.root, step)
    stage = look(run)[1].stage
    assert stage == {"name": now.names[number - 1], "number": number, "count": 3}


def test_a_finding_is_as_it_was_although_its_text_has_changed_since(run: RecordedRun) -> None:
    judge, told = LiveVerdict(run.folder), {}
    for step in range(1, 31):
        run.step = step
        batch = run._batch(step)
        equal = {"total": 0.5, "rewards": (0.5,) * 3, "advantage": 0.0}
        groups = (
            replace(group, completions=tuple(replace(c, **equal) for c in group.completions))
            for group in batch.groups
        )
        batch = replace(batch, groups=tuple(groups))
        written = [batch, *run._phases(), run._row(batch, False)]
        run.write(*written)
        run.write(
            *(replace(one, at=run.at(step)) for one in judge(written) if isinstance(one, r.OpenFindings))
        )
        told[step] = [(one.id, one.message, one.last_step) for one in read_status(run.folder.root).findings]
    assert told[29]
    assert told[29] != told[12]
    replayed = start_replay(run.folder.root)
    for step in (3, 5, 12, 28, 12):
        replayed.go(step - 1)
        found = read_status(run.folder.root).findings
        assert [(one.id, one.message, one.last_step) for one in found] == told[step]
    with closing(RunReader(run.folder.database)) as reader:
        listed = read_findings(run.folder.root, reader)
    assert [one.finding.id for one in listed if one.open] == [name for name, _, _ in told[12]]


def test_a_finding_that_ended_is_open_before_its_end_and_absent_before_it_was_found(run: RecordedRun) -> None:
    run.advance(12)
    finding = Finding(
        "policy.kl", "warning", None, None, "KL.", first_step=4, last_step=6, remedies=(Remedy("x"),)
    )
    run.write(r.OpenFindings(run.at(6.5), (finding,)), r.OpenFindings(run.at(9.5), ()))
    replayed = start_replay(run.folder.root)

    def ids(step: int) -> tuple[list[str], list[str]]:
        replayed.go(step - 1)
        with closing(RunReader(run.folder.database)) as reader:
            found = read_findings(run.folder.root, reader)
        return [f.finding.id for f in found if f.open], [f.finding.id for f in found if not f.open]

    assert ids(5) == ([], [])
    assert ids(7) == (["policy.kl"], [])
    assert ids(11) == ([], ["policy.kl"])


def test_plans_and_evaluations_are_those_of_the_time(run: RecordedRun) -> None:
    run.advance(10)
    done = Scheduled(4, {"beta": 0.1}, run.at(2.5), state="applied", decided_at=run.at(4.5))
    never = Scheduled(8, {"beta": 9.0}, run.at(2.6), state="rejected", decided_at=run.at(8.5), reason="no")
    run.write(
        r.Fact(SCHEDULE, to_json([done, never])),
        r.Fact("evaluations", {"done": [{"step": 0}, {"step": 5}, {"step": 10}]}),
    )
    replayed = start_replay(run.folder.root)

    def facts(step: int) -> tuple[list[Any], list[int]]:
        replayed.go(step - 1)
        with closing(RunReader(run.folder.database)) as reader:
            planned, evaluated = reader.fact(SCHEDULE), reader.fact("evaluations")["done"]
            assert reader.fact("config")["model"] == "/models/adder-0.8M"
            decided = [(one["state"], one["reason"], one["decided_at"] > 0) for one in planned]
            return decided, [one["step"] for one in evaluated]

    waits = ("waiting", "", False)
    assert facts(2) == ([], [0])
    assert facts(3) == ([waits, waits], [0])
    assert facts(6) == ([("applied", "", True), waits], [0, 5])
    assert facts(10) == ([("applied", "", True), ("rejected", "no", True)], [0, 5, 10])


def test_how_a_run_ended_is_not_known_at_an_earlier_step(run: RecordedRun) -> None:
    run.advance(6)
    run.write(r.AttemptEnded(1, run.at(7), "failed", 6, 1, {"cause": "it raised"}))
    now = look(run)[1]
    assert (now.state, bool(now.error)) == ("failed", True)
    replayed = start_replay(run.folder.root, 3)
    for step, state in ((3, "training"), (5, "training"), (6, "failed")):
        replayed.go(step - 1)
        then = look(run)[1]
        assert (then.state, then.step, bool(then.error), then.hardware) == (state, step, step == 6, None)
        assert then.supervised


def test_a_replay_writes_nothing_sends_no_command_and_leaves_other_threads_the_present(
    run: RecordedRun,
) -> None:
    run.advance(6)
    run.end("finished")
    run.close()
    before = hashes(run.folder.root)
    replayed = start_replay(run.folder.root, 3)
    assert look(run)[1].step == 3
    replayed.go(0)
    assert look(run)[1].step == 1
    with pytest.raises(PermissionError, match="This is a replay"):
        Mailbox(run.folder.commands).submit("stop")
    assert hashes(run.folder.root) == before


@pytest.mark.parametrize("mode", [0o555, 0o755])
def test_imported_logs_and_folders_that_cannot_be_written_are_replayed(tmp_path: Path, mode: int) -> None:
    logs = tmp_path / "rollouts"
    logs.mkdir()
    for step in (1, 2, 3):
        rows = [{"input": f"q{n}", "output": f"a{n} {step}", "score": n % 2, "step": step} for n in range(4)]
        (logs / f"{step}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = source_at(logs)
    assert source is not None
    root = open_copy(source)
    root.chmod(mode)
    try:
        replayed = start_replay(root, 2)
        with closing(RunReader(root / "run.db")) as reader:
            assert reader.completion_count() == 8
            assert read_status(root, reader).step == 2
            replayed.go(2)
            assert reader.completion_count() == 12
    finally:
        root.chmod(0o755)


def test_a_step_without_a_row_shows_the_newest_before_it() -> None:
    replayed = Replay(None, lambda reader: [])
    replayed.steps = (10, 20, 30)
    assert [replayed.place_of(step) for step in (1, 10, 19, 20, 99)] == [0, 0, 0, 1, 2]


def test_text_where_a_number_belongs_never_becomes_part_of_a_statement(run: RecordedRun) -> None:
    run.advance(5)
    for table in ("metric_row", "generation_group"):
        run.writer._db.execute(f"UPDATE {table} SET attempt = '1) OR (1', at = '0 OR 1' WHERE step = 3")
        run.writer._db.execute(f"UPDATE {table} SET step = '4) OR (1' WHERE step = 4")
    replayed = start_replay(run.folder.root)
    with closing(RunReader(run.folder.database)) as reader:
        for place in range(len(replayed.steps) or 1):
            replayed.go(place)
            assert reader.completion_count() <= 5 * 32
            moment = reader.moment
            assert moment is not None
            assert all(
                isinstance(one, int) for one in (moment.step, moment.attempt, moment.row, moment.group)
            )
            assert isinstance(moment.before, float)


def test_checkpoints_that_were_saved_later_are_not_listed(run: RecordedRun) -> None:
    run.advance(6)
    for step in (2, 5):
        checkpoint(run.folder.root, step)
    assert [one.step for one in list_checkpoints(run.folder.root).checkpoints] == [2, 5]
    start_replay(run.folder.root, 3)
    assert [one.step for one in list_checkpoints(run.folder.root).checkpoints] == [2]


def test_ids_that_only_another_program_can_have_written_are_an_error_with_a_reason(run: RecordedRun) -> None:
    run.advance(3)
    run.close()
    with closing(sqlite3.connect(run.folder.database)) as db, db:
        db.execute("DELETE FROM log")
        for number in (-(2**63), 2**63 - 1):
            db.execute("INSERT INTO log VALUES (?, 1.0, 'info', 'x')", (number,))
    start_replay(run.folder.root, 2)
    with (
        pytest.raises(RunDatabaseError, match="its ids or times are not numbers"),
        closing(RunReader(run.folder.database)) as reader,
    ):
        reader.settings()


def test_the_replay_of_a_live_run_on_a_network_file_system_is_read_like_the_run_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "filesystem_type", lambda path: "nfs")
    run = RecordedRun(tmp_path / "run", total=30)
    run.advance(3)
    start_replay(run.folder.root, 3)
    count = "SELECT count(*) FROM main.metric_row"
    with closing(connection.open_reader(run.folder.database)) as db:
        assert db.execute(count).fetchone()[0] == 3
        run.advance(2)
        assert db.execute(count).fetchone()[0] == 5
    run.close()
