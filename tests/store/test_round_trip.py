"""Whatever a run records or is started from comes back with every value in its place."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path

from grpo_tui.core import records as r
from grpo_tui.core.commands import Command, Outcome
from grpo_tui.store.connection import open_writer
from grpo_tui.store.layout import MAX_DEPTH, RunFolder, find_runs
from grpo_tui.store.live import (
    RankFile,
    await_error,
    forget_errors,
    lost_ranks,
    read_errors,
    read_rank,
    write_error,
)
from grpo_tui.store.reader import Attempt, RunReader
from grpo_tui.store.spec import RunSpec, read_spec
from grpo_tui.store.writer import Writer

ERROR = {"type": "ValueError", "message": "no", "cause": "why"}
STARTED = r.AttemptStarted(3, 1.5, "host", 77, 4, 90)
ENDED = r.AttemptEnded(3, 2.5, "failed", 12, -9, ERROR)
FUNCTIONS = [
    r.RewardFunctionInfo(3, n, f"name {n}", n / 4, f"a.py:{n}", f"hash {n}", f"text {n}") for n in (0, 1)
]
SAVED = [
    r.CheckpointSaved(3, 8, "/run/checkpoint-8", 5.5, True, False, 1234),
    r.CheckpointSaved(2, 6, "/run/checkpoint-6", 4.5, False, True, 99),
]
SET = [
    r.SettingChanged(3, 7, 6.5, "learning_rate", 1e-4, 2e-4, "resume"),
    r.SettingChanged(3, 9, 7.5, "reward_weights", [1.0], [2.0]),
    r.SettingChanged(3, 9, 7.5, "delta", 1.5, None, "ana", "no use", 2),
]
CALL = r.RewardCall(3, 5, 1, 1.25, 0.75, "error", "said", rank=2)
SPANS = [
    r.PhaseSpan(3, 2, phase, 4, 3.25, took)
    for phase, took in (("update", 3.0), ("wait", 9.0), ("load", 9.0), ("reward", 1.0))
]
COMPLETIONS = tuple(
    r.Completion(
        n,
        f"text {n}",
        (0.25, None),
        0.5 + n,
        1.5 - n,
        10 + n,
        n == 1,
        {"kept": n},
        [{"role": "tool"}],
        n == 0,
    )
    for n in (0, 1)
)
BATCH = r.GenerationBatch(3, 5, 2, "eval", 6, 8, 11.5, (r.Group(4, "prompt", {"answer": "4"}, COMPLETIONS),))
COMMAND = Command("0001", "set", {"temperature": 1.2}, 12.5, "SIGTERM")
OUTCOME = Outcome(True, 13, "done", {"new": 1.2}, 14.5)


def test_every_record_comes_back_with_every_value_in_its_place(tmp_path: Path) -> None:
    database = tmp_path / "run.db"
    with closing(Writer(open_writer(database))) as writer:
        writer.write([STARTED, *FUNCTIONS, *SAVED, *SET, CALL, *SPANS, BATCH])
        writer.write(
            [r.Fact("key", {"a": [1]}), r.LogLine(15.5, "said", "error"), r.Dropped(3, "batches", 2)]
        )
        writer.write([ENDED, r.AttemptEnded(3, 9.0, "crashed", 1), (COMMAND, OUTCOME)])
        writer.write([r.Dropped(3, "batches", 3), (replace(COMMAND, id="0002"), None)])
    with closing(RunReader(database)) as reader:
        assert reader.attempts() == [Attempt(3, 1.5, "host", 77, 4, 90, 2.5, "failed", 12, -9, ERROR)]
        assert reader.reward_functions() == FUNCTIONS
        assert reader.checkpoints() == [SAVED[1], SAVED[0]]
        assert reader.settings() == SET
        assert reader.phase_shares() == {"update": 0.75, "reward": 0.25}
        assert reader.fact("key") == {"a": [1]}
        assert reader.log() == [r.LogLine(15.5, "said", "error")]
        assert reader.dropped() == {"batches": 5}
        assert reader.commands() == [(COMMAND, OUTCOME), (replace(COMMAND, id="0002"), None)]
        (group,) = reader.groups()
        assert (group.attempt, group.batch, group.rank, group.index) == (3, 5, 2, 4)
        assert (group.mode, group.step, group.last_step, group.at) == ("eval", 6, 8, 11.5)
        assert (group.prompt, group.columns, group.mean) == ("prompt", {"answer": "4"}, 1.0)
        assert group.completions == COMPLETIONS
    with closing(sqlite3.connect(database)) as plain:
        plain.row_factory = sqlite3.Row
        assert dict(plain.execute("SELECT * FROM reward_call").fetchone()) == asdict(CALL) | {"id": 1}
        span = dict(plain.execute("SELECT * FROM phase").fetchone())
        assert span == asdict(SPANS[0]) | {"id": 1}


def test_pages_of_groups_keep_their_bounds_their_mode_and_their_order(tmp_path: Path) -> None:
    database = tmp_path / "run.db"
    with closing(Writer(open_writer(database))) as writer:
        for step in range(1, 7):
            mode = "eval" if step == 4 else "train"
            writer.write([replace(BATCH, batch=step, step=step, last_step=step, mode=mode)])
    with closing(RunReader(database)) as reader:

        def steps(**query: object) -> list[int]:
            return [group.step for group in reader.groups(**query)]  # type: ignore[arg-type]

        assert steps(first_step=2, last_step=5) == [2, 3, 4, 5]
        assert steps(mode="train") == [1, 2, 3, 5, 6]
        assert steps(mode="eval") == [4]
        assert steps(newest_first=True, limit=2) == [6, 5]
        assert steps(after_id=4) == [5, 6]
        assert [g.step for g in reader.groups_by_id([5, 99, 2])] == [5, 2]
        assert [g.step for g in reader.iter_groups(page=2, first_step=3)] == [3, 4, 5, 6]
        assert [g.step for g in reader.older_groups(6, limit=3)] == [5, 3, 2], "of training"
        assert reader.newer_groups(3) == 2


def test_a_start_is_read_as_it_was_written(tmp_path: Path) -> None:
    spec = RunSpec(
        {"a": 1}, "checkpoint-4", ("a note",), ("accelerate", "launch"), ("max_steps",),
        ("folder.run: there is one",), ("3", "1"), "/parent/checkpoint-4", True, True, "nan", 7,
        ("grpo_tui.rewards.0.weight=2",), attempts_before=3,
    )  # fmt: skip
    spec.write(tmp_path / "run.json")
    assert read_spec(tmp_path / "run.json") == spec
    RunSpec({}).write(tmp_path / "run.json")
    assert read_spec(tmp_path / "run.json") == RunSpec({})


def test_what_is_empty_in_a_spec_edited_by_hand_is_its_default(tmp_path: Path) -> None:
    edited = {"config": {}, "notes": None, "launcher": None, "forked_from": "", "gpus": [], "smoke": False}
    (tmp_path / "run.json").write_text(json.dumps(edited))
    assert read_spec(tmp_path / "run.json") == RunSpec({})


def test_the_rank_that_failed_first_is_told_and_those_that_are_gone_are_known(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    for rank, at in ((1, 20.0), (2, 10.0), (3, 30.0)):
        write_error(folder, rank, ERROR | {"message": f"message {rank}"})
        body = folder.error(rank).read_text()
        assert '"at": ' in body
        folder.error(rank).write_text(body.replace('"at": ', f'"at": {at}, "was": '))
    first = {"type": "ValueError", "message": "message 2", "cause": "rank 2: why"}
    assert read_errors(folder) == await_error(folder) == first
    forget_errors(folder)
    assert read_errors(folder) is None
    for rank, pid in ((0, os.getpid()), (1, 2**22 + 1), (2, os.getpid())):
        file = RankFile(folder.rank(rank), pid)
        file.update(step=1)
        file.close()
        assert read_rank(folder.rank(rank)) is not None
    assert lost_ranks(folder, 0) == [1]
    assert lost_ranks(folder, 1) == []


def test_runs_are_found_newest_first_and_not_deeper_than_looked_for(tmp_path: Path) -> None:
    at = {"old": 1_000, "new": 3_000, "middle": 2_000}
    nested = "/".join(["deep"] * MAX_DEPTH)
    for name in (*at, nested, f"{nested}/deeper"):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
    for name, when in {**at, nested: 500}.items():
        (tmp_path / name / "run.json").write_text("{}")
        os.utime(tmp_path / name / "run.json", (when, when))
    wanted = [tmp_path / name for name in ("new", "middle", "old", nested)]
    assert find_runs([tmp_path]) == wanted
    (tmp_path / nested / "run.json").rename(tmp_path / nested / "deeper" / "run.json")
    assert find_runs([tmp_path]) == wanted[:3]
    assert find_runs([tmp_path, tmp_path / "deep"])[3] == tmp_path / nested / "deeper"
