"""Findings of a run that trains: recorded within two steps, kept over a resume, read by every viewer."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from grpo_tui.cli.look import describe
from grpo_tui.cli.main import main
from grpo_tui.core import records as r
from grpo_tui.health import live
from grpo_tui.health.doctor import Doctor
from grpo_tui.health.facts import Settings
from grpo_tui.health.live import LiveVerdict
from grpo_tui.health.reading import begin, diagnose, doctor_before, settings_of
from grpo_tui.store.connection import open_writer
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.live import Gpu, Hardware, RankFile, write_hardware
from grpo_tui.store.read_health import phase_seconds, rank_seconds
from grpo_tui.store.read_series import metric_rows
from grpo_tui.store.reader import RunReader
from grpo_tui.store.recorder import Recorder
from grpo_tui.store.status import read_status
from grpo_tui.store.writer import Writer

REWARDS = {"mixed": (0.0, 1.0, 0.0, 1.0), "equal": (0.5, 0.5, 0.5, 0.5), "unscored": (None,) * 4}


def step_records(attempt: int, step: int, kind: str) -> list[r.Record]:
    """What is recorded of a step with four groups of a kind, in its order."""
    rewards = REWARDS[kind]
    members = tuple(
        r.Completion(n, f"{step} {n}", (value,), value, 0.0 if value is None else value - 0.5, 9, False)
        for n, value in enumerate(rewards)
    )
    groups = tuple(r.Group(n, f"prompt {n}", {}, members) for n in range(4))
    return [
        r.GenerationBatch(attempt, step, 0, "train", step, step, 0.0, groups),
        r.PhaseSpan(attempt, 0, "update", step, 0.0, 0.1),
        r.MetricRow(attempt, step, 0.0, {"reward": None if kind == "unscored" else 0.5}),
    ]


class Training:
    """A run that is written and judged step by step."""

    def __init__(self, folder: Path, *, attempt: int = 1, resumed_from: int | None = None) -> None:
        self.folder, self.attempt, self.step = RunFolder(folder), attempt, resumed_from or 0
        self.writer = Writer(open_writer(self.folder.database))
        self.judge = LiveVerdict(self.folder)
        self.write(
            [
                r.AttemptStarted(attempt, 0.0, "host", 1, resumed_from),
                r.RewardFunctionInfo(attempt, 0, "correct", 1.0),
                r.TotalSteps(attempt, 400),
            ]
        )

    def write(self, records: Sequence[Any]) -> None:
        self.writer.write(records)
        self.writer.write(self.judge(records))

    def go(self, kind: str, steps: int) -> None:
        for _ in range(steps):
            self.step += 1
            self.write(step_records(self.attempt, self.step, kind))

    def ids(self) -> list[str]:
        return [finding.id for finding in read_status(self.folder.root).findings]

    def end(self) -> None:
        self.write([r.AttemptEnded(self.attempt, 1.0, "finished", self.step)])
        self.writer.close()


def machine(ram: int, gpu: int) -> Hardware:
    """A machine with two GPUs, of which the second is the run's."""
    gpus = (Gpu(0, pci_bus_id="A", memory_used_bytes=99, memory_total_bytes=100),
            Gpu(1, pci_bus_id="B", memory_used_bytes=gpu, memory_total_bytes=100))  # fmt: skip
    return Hardware(at=0.0, ram_used_bytes=ram, ram_total_bytes=200, gpus=gpus)


@pytest.mark.parametrize(
    ("ram", "gpu", "releases", "told"),
    [
        (2, 0, 0, "97.5 % of the machine's memory is in use, 54 % at the start."),
        (0, 45, 1, "95 % of the GPU's memory is in use, and in 19 of the last 20 steps torch"),
        (0, 35, 1, ""),
        (0, 45, 0, ""),
    ],
)
def test_memory_is_judged_while_the_run_trains_and_told_by_doctor(
    training: Training, monkeypatch: pytest.MonkeyPatch, ram: int, gpu: int, releases: int, told: str
) -> None:
    """`ram` and `releases` are added at each step, `gpu` once."""
    monkeypatch.setattr(live, "SAMPLE_S", 0.0)
    rank = RankFile(training.folder.rank(0), 1)
    for step in range(1, 61):
        rank.update(gpu="b", cache_releases=releases * step)
        write_hardware(training.folder.hardware, machine(min(195, 100 + ram * step), 50 + gpu))
        training.go("mixed", 1)
    rank.close()
    training.end()
    with closing(RunReader(training.folder.database)) as reader:
        messages = [one.message for one in diagnose(reader).findings if one.id == "machine.memory"]
    assert len(messages) == (told != "")
    assert told in "".join(messages)
    assert ("machine.memory" in training.ids()) == (told != "")


def test_a_rank_that_lags_is_named_by_what_each_rank_recorded(training: Training) -> None:
    for step in range(1, 31):
        training.write([r.PhaseSpan(1, n, r.ALONE, step, 0.0, 2.0 + 2.0 * (n == 1)) for n in range(3)])
        training.go("mixed", 1)
    assert training.ids() == ["machine.lagging-rank"]
    training.end()
    with closing(RunReader(training.folder.database)) as reader:
        (finding,) = diagnose(reader).findings
        assert reader.phase_shares() == {"update": 1.0}
        assert reader.last_phase() == ("update", 0.0)
    assert "Rank 1 generates for 4 s a step, the others for 2 s" in finding.message
    assert (finding.first_step, finding.evidence["rank"]) == (1, 1)


@pytest.fixture
def training(tmp_path: Path) -> Training:
    return Training(tmp_path)


def rows(folder: RunFolder) -> list[tuple[Any, ...]]:
    columns = "rule, first_step, last_step, severity, closed_at IS NOT NULL"
    return sqlite3.connect(folder.database).execute(f"SELECT {columns} FROM finding ORDER BY 1, 2").fetchall()


def test_a_finding_opens_goes_on_and_closes(training: Training) -> None:
    training.go("unscored", 5)
    assert training.ids() == []
    training.go("unscored", 1)  # 16 groups are known after 4 steps, three of them hold at step 6
    assert training.ids() == []
    training.go("unscored", 1)
    assert training.ids() == ["signal.unscored"]
    assert rows(training.folder) == [("signal.unscored", 1, 6, "error", 0)]
    training.go("mixed", 30)
    assert training.ids() == []
    assert [row[4] for row in rows(training.folder)] == [1]


def test_the_last_step_is_judged_at_the_end(training: Training) -> None:
    training.go("unscored", 6)
    training.end()
    assert rows(training.folder) == [("signal.unscored", 1, 6, "error", 0)]


def test_groups_that_ranks_recorded_in_parts_are_judged_as_one(training: Training) -> None:
    for step in range(1, 9):
        batch, *rest = step_records(1, step, "equal")
        assert isinstance(batch, r.GenerationBatch)
        low = tuple(
            r.Group(g.index, g.prompt, {}, (r.Completion(8, "low", (0.0,), 0.0, -1.0, 9, False),))
            for g in batch.groups
        )
        training.write([batch])
        training.write([r.GenerationBatch(1, step, 1, "train", step, step, 0.0, low), *rest])
    assert training.ids() == []


@pytest.mark.parametrize(("reward_s", "found"), [(2.0, []), (6.0, ["machine.slow-reward"])])
def test_the_ranks_of_a_step_take_their_time_beside_each_other(
    reward_s: float, found: list[str], training: Training
) -> None:
    """As `doctor` reads it afterwards."""
    for step in range(1, 30):
        batch, *rest = step_records(1, step, "mixed")
        spans = [r.PhaseSpan(1, rank, "reward", step, 0.0, reward_s) for rank in range(4)]
        log = r.MetricRow(1, step, 0.0, {"reward": 0.5, "step_time": 10.0})
        training.write([batch, *spans, *rest[:-1], log])
    assert training.ids() == found
    training.end()
    with closing(RunReader(training.folder.database)) as reader:
        assert [finding.id for finding in diagnose(reader).findings] == found


def test_steps_repeated_after_a_resume_take_the_time_of_the_newest_attempt(
    training: Training, tmp_path: Path
) -> None:
    def go(run: Training, steps: range) -> None:
        for step in steps:
            batch, *rest = step_records(run.attempt, step, "mixed")
            spans = [
                r.PhaseSpan(run.attempt, rank, phase, step, 0.0, 2.0)
                for phase in ("generate", "update", r.ALONE)
                for rank in range(2)
            ]
            log = {"reward": 0.5, "step_time": 4.0, "completions/mean_length": 9.0}
            run.write([batch, *spans, *rest[:-1], r.MetricRow(run.attempt, step, 0.0, log)])

    go(training, range(1, 121))
    training.writer.close()
    again = Training(tmp_path, attempt=2, resumed_from=60)
    go(again, range(61, 121))
    assert again.ids() == []
    again.end()
    with closing(RunReader(again.folder.database)) as reader:
        assert [finding.id for finding in diagnose(reader).findings] == []
        assert {seconds for _, phase, seconds in phase_seconds(reader, 1, 1) if phase == "generate"} == {2.0}
        assert {seconds for _, _, seconds in rank_seconds(reader, 1, 1)} == {2.0}


def test_a_resume_goes_on_from_what_was_recorded(training: Training, tmp_path: Path) -> None:
    training.go("mixed", 30)
    training.go("equal", 14)
    training.writer.close()
    assert training.ids() == ["signal.equal"]
    first = rows(training.folder)[0][1]

    again = Training(tmp_path, attempt=2, resumed_from=42)
    again.go("equal", 3)
    assert again.ids() == ["signal.equal"]
    assert [(row[1], row[4]) for row in rows(again.folder)] == [(first, 0)]
    again.writer.close()

    earlier = Training(tmp_path, attempt=3, resumed_from=20)
    assert earlier.ids() == [], "those steps are done again"
    earlier.go("mixed", 5)
    assert earlier.ids() == []


def test_a_skipped_step_is_judged_at_once(training: Training) -> None:
    training.go("mixed", 4)
    training.write([r.MetricRow(1, 4, 0.0, {"grad_norm": math.nan, r.SKIPPED: 1.0})])
    assert training.ids() == ["policy.gradient-nan"]


def test_the_config_changes_limits_and_turns_rules_off(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(name: str, health: object) -> list[str]:
        training = Training(tmp_path / name)
        training.write([r.Fact("config", {"section": {"health": health}})])
        training.go("unscored", 6)
        training.end()
        return training.ids()

    assert run("off", {"signal.unscored": None}) == []
    assert main(["doctor", str(tmp_path / "off")]) == 0
    said = capsys.readouterr().out
    assert "turned off by the config: signal.unscored" in said
    assert "[signal.unscored]" not in said
    assert run("limits", {"signal.unscored": {"groups": 24.0}}) == []
    assert main(["doctor", str(tmp_path / "limits")]) == 0
    assert run("foreign", {"signal.unscored": {"groups": "many", "x": 1}, "other": 3}) == ["signal.unscored"]


def test_every_face_of_status_tells_them(training: Training, capsys: pytest.CaptureFixture[str]) -> None:
    training.go("unscored", 6)
    training.end()
    (alert,) = read_status(training.folder.root).to_json()["alerts"]
    assert (alert["id"], alert["severity"], alert["first_step"]) == ("signal.unscored", "error", 1)
    assert alert["evidence"]["completions"] == "step 1..6 and reward is none"
    assert alert["remedies"][0].keys() == {"text", "field", "value", "live"}
    said = [line for line in describe(read_status(training.folder.root)) if "signal.unscored" in line]
    assert said[0].startswith("error: since step 1: No completion is scored. ")
    assert main(["status", str(training.folder.root), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["alerts"] == [json.loads(json.dumps(alert))]


def test_a_judge_that_breaks_costs_no_record(tmp_path: Path) -> None:
    said: list[str] = []

    def judge(records: Sequence[Any]) -> list[Any]:
        raise KeyError("a rule")

    recorder = Recorder(RunFolder(tmp_path), follow_log=False, judge=judge)
    recorder.say = said.append
    recorder.start()
    for step in range(1, 4):
        recorder.put(r.MetricRow(1, step, 0.0, {"reward": 1.0}))
    recorder.close()
    assert [step for _, step, _ in metric_rows(RunReader(tmp_path / "run.db"))] == [1, 2, 3]
    assert said == ["looks for no more findings: KeyError: 'a rule'"]


def test_the_recorder_writes_what_the_judge_says_of_the_last_records(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    recorder = Recorder(folder, follow_log=False, judge=LiveVerdict(folder))
    recorder.put(r.AttemptStarted(1, 0.0, "host", 1))
    recorder.put(r.RewardFunctionInfo(1, 0, "correct", 1.0))
    for step in range(1, 7):
        for record in step_records(1, step, "unscored"):
            recorder.put(record)
    recorder.put(r.AttemptEnded(1, 1.0, "finished", 6))
    recorder.start()
    recorder.close()
    assert [finding.id for finding in read_status(tmp_path).findings] == ["signal.unscored"]


def test_files_without_findings_and_findings_that_cannot_be_read_are_survived(training: Training) -> None:
    training.go("unscored", 6)
    training.end()
    database = sqlite3.connect(training.folder.database)
    for column, value in (
        ("evidence", b"\xff"),
        ("first_step", "x"),
        ("severity", "bad"),
        ("remedies", "[1]"),
    ):
        with database:
            database.execute("INSERT INTO finding SELECT 'other', 3, last_step, severity, message, evidence,"
                             " remedies, opened_at, changed_at, closed_at FROM finding")  # fmt: skip
            database.execute(f"UPDATE finding SET {column} = ? WHERE rule = 'other'", (value,))
        assert "signal.unscored" in training.ids()
        with database:
            database.execute("DELETE FROM finding WHERE rule = 'other'")
    with database:
        database.execute("ALTER TABLE finding ADD COLUMN later TEXT")
    again = Training(training.folder.root, attempt=2, resumed_from=6)
    again.go("unscored", 2)
    assert again.ids() == ["signal.unscored"]
    again.writer.close()
    with database:
        database.execute("DROP TABLE finding")
    assert training.ids() == []


def test_prompts_that_were_never_solved_are_named_while_the_run_trains(training: Training) -> None:
    """Of four prompts, three always get the lowest total, and one of them is solved later."""

    def go(steps: int, solved: int) -> None:
        for _ in range(steps):
            training.step += 1
            batch, *rest = step_records(1, training.step, "mixed")
            assert isinstance(batch, r.GenerationBatch)
            wrong = tuple(replace(one, rewards=(0.0,), total=0.0) for one in batch.groups[0].completions)
            groups = tuple(
                group if n <= solved else replace(group, completions=wrong)
                for n, group in enumerate(batch.groups)
            )
            training.write([replace(batch, groups=groups), *rest])

    go(9, solved=0)
    assert "signal.prompts-unsolved" not in training.ids()
    go(3, solved=0)
    found = next(
        one for one in read_status(training.folder.root).findings if one.id == "signal.prompts-unsolved"
    )
    assert found.severity == "info"
    assert found.evidence["names"] == ["prompt 1", "prompt 2", "prompt 3"]
    assert "3 of 4 prompts" in found.message
    assert "prompt 1; prompt 2; prompt 3" in found.message
    with closing(RunReader(training.folder.database)) as reader:
        again = next(one for one in diagnose(reader).findings if one.id == found.id)
    assert (
        str(again.evidence["completions"]).split(" and ")[1]
        == str(found.evidence["completions"]).split(" and ")[1]
    )
    go(20, solved=1)
    assert "signal.prompts-unsolved" not in training.ids()  # fewer than three are left


@pytest.mark.parametrize(("outcome", "counts"), [("ok", False), ("error", True), ("aborted", True)])
def test_calls_that_gave_no_scores_are_counted_live_and_afterwards(
    outcome: Any, counts: bool, training: Training
) -> None:
    assert {"ok", "error", "aborted"} == set(get_args(get_type_hints(r.RewardCall)["outcome"]))
    for step in range(1, 16):
        batch, *rest = step_records(1, step, "mixed")
        training.write([r.RewardCall(1, step, 0, 0.0, 0.1, outcome), batch, *rest])
    found = ["machine.reward-fails"] if counts else []
    assert training.ids() == found
    training.step = 15
    training.end()
    with closing(RunReader(training.folder.database)) as reader:
        assert [finding.id for finding in diagnose(reader).findings] == found


def test_only_the_stage_that_trains_is_judged(training: Training) -> None:
    for step, to in ((5, "b"), (9, "c")):
        training.go("unscored", step - training.step)
        training.write([r.SettingChanged(1, step, 0.0, "stage", "a", to)])
    training.go("mixed", 6)
    with closing(RunReader(training.folder.database)) as reader:
        _, observations = begin(reader)
        seen = [(one.first_step, len(one.groups)) for one in observations]
        resumed = doctor_before(reader, 13)
    assert seen == [(step, 4) for step in range(10, 16)]
    assert (resumed.state.step, resumed.state.courses["reward"].count) == (12, 3)
    assert "signal.unscored" not in [one.id for one in resumed.open_findings()]


@pytest.mark.parametrize(
    ("before", "is_cause"), [(-1, False), (0, False), (1, True), (10, True), (11, False)]
)
def test_a_change_is_a_cause_only_of_what_begins_soon_after_it(before: int, is_cause: bool) -> None:
    """A setting changed after step 20 is in force from step 21 on."""
    doctor = Doctor(Settings())
    doctor.changes += [r.SettingChanged(1, 20, 0.0, "beta", 0.0, 0.1)]
    assert (doctor._cause("policy.kl", 20 + before) is not None) == is_cause
    assert doctor._cause("machine.slow-step", 20 + before) is None


@pytest.mark.parametrize(
    ("grpo", "high"),
    [({}, 0.2), ({"epsilon_high": None, "epsilon": 0.1}, 0.1), ({"epsilon_high": 5, "epsilon": 0.1}, 5.0)],
)
def test_epsilon_high_is_epsilon_where_it_is_not_set(
    training: Training, grpo: dict[str, Any], high: float
) -> None:
    training.write([r.Fact("config", {"grpo": {"loss_type": "cispo", **grpo}})])
    with closing(RunReader(training.folder.database)) as reader:
        assert settings_of(reader, logged=True).epsilon_high == high
