"""What a trial says of what it measured, and what it keeps: no process runs."""

from __future__ import annotations

import io
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grpo_tui.cli import smoke
from grpo_tui.cli.smoke import Seen, taken_bytes
from grpo_tui.config.plan.memory import Device
from grpo_tui.config.resolve import load_config
from grpo_tui.demo import DEMO_CONFIG
from grpo_tui.present.known_rates import machine_name
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.live import RankFile
from grpo_tui.store.spec import RunSpec
from grpo_tui.store.status import Status
from grpo_tui.store.trials import read_trials

ROWS = (
    (1, {"reward": 1.0, "loss": 0.5, "step_time": 9.0, "completions/max_length": 12}),
    (2, {"reward": 1.25, "loss": 0.25, "step_time": 0.5, "completions/max_length": 17}),
    (2, {"reward": None, "step_time": "odd"}),
)
MEMORY = {"device": "cpu", "resident_bytes": 500_000_000}
FIRST = Seen(ROWS, MEMORY, 19)


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRPO_TUI_CACHE_DIR", str(tmp_path / "cache"))


def report(first: Seen = FIRST, again: Seen = FIRST, *overrides: str) -> list[str]:
    config = load_config(DEMO_CONFIG, list(overrides))
    return smoke._report(config, RunSpec(config.to_json()), first, again, 130.0)


def test_a_trial_says_what_it_measured_and_keeps_it(tmp_path: Path) -> None:
    trained, reloaded, memory, rate, kept = report()
    assert trained == (
        "trained   2 steps on prompts of 19 tokens, completions up to 17 of 40; 2m10s with loading and saving"
    )
    assert reloaded == "reloaded  checkpoint-1, and step 2 gave the same again (reward 1.25, loss 0.25)"
    assert memory.startswith("memory    500.0 MB at the peak, planned ")
    assert rate == "rate      0.50 s/step in the second step"
    (trial,) = read_trials()
    assert memory.endswith(f" for these lengths: {500_000_000 / trial.planned_bytes:.2f} ×")
    file = tmp_path / "cache" / "trials.json"
    assert kept == f"kept      in {file}: the next plan for this model on this machine uses it"
    assert (trial.model, trial.kind) == (str(DEMO_CONFIG.parent / "model"), "full")
    assert trial.machine == machine_name(Device("CPU", 1, "cpu"))
    assert (trial.measured_bytes, trial.step_s, trial.completions) == (500_000_000, 0.5, 64)
    assert (trial.max_completion_length, trial.world_size) == (17, 1)
    assert (trial.device, trial.use_vllm) == ("cpu", False)
    assert trial.at > 1e9


def test_a_step_that_comes_out_otherwise_is_told_with_both_figures() -> None:
    other = replace(FIRST, rows=((2, {"reward": 1.5, "loss": 0.25}),))
    told = "not quite the same again (reward 1.50, was 1.25 before, loss 0.25)"
    assert report(FIRST, other)[1] == f"reloaded  checkpoint-1, and step 2 gave {told}"
    assert report(replace(FIRST, rows=()), replace(FIRST, rows=()))[1].endswith("(no figures)")


def test_what_was_not_measured_is_left_out_and_nothing_of_it_kept() -> None:
    bare = replace(FIRST, rows=ROWS[:1], memory={}, prompt_tokens=None)
    assert [line.split()[0] for line in report(bare)] == ["trained", "reloaded"]
    assert report(bare)[0].startswith("trained   2 steps on prompts, completions up to 12 of 40; ")
    assert ", completions" not in report(replace(bare, rows=()))[0]
    unknown = report(FIRST, FIRST, "model_name_or_path=org/model")
    assert unknown[2] == "memory    500.0 MB at the peak; not planned, since the model's sizes are unknown"
    assert unknown[3:] == ["rate      0.50 s/step in the second step"]
    assert read_trials() == ()
    lora = report(FIRST, FIRST, "use_peft=true")
    assert lora[-1].startswith("kept")
    assert [trial.kind for trial in read_trials()] == ["lora"]


def test_on_a_gpu_the_peak_is_what_torch_reserved_and_the_context() -> None:
    cuda = {
        "device": "cuda",
        "reserved_bytes": 7_000,
        "name": "H100",
        "total_bytes": 80_000,
        "resident_bytes": 1,
    }
    assert smoke._device(cuda) == Device("H100", 80_000)
    assert smoke._device(MEMORY).kind == "cpu"
    config = load_config(DEMO_CONFIG, ["use_cpu=false"])
    made = smoke._planned(config, RunSpec(config.to_json()), replace(FIRST, memory=cuda), smoke._device(cuda))
    assert made is not None
    assert made.memory is not None
    process = sum(part.bytes for part in made.memory.parts if part.name == "process")
    assert process > 0
    assert taken_bytes(cuda, made) == 7_000 + process
    assert taken_bytes(cuda, None) == 7_000
    assert taken_bytes({**cuda, "reserved_bytes": None}, made) is None
    assert taken_bytes({"resident_bytes": "odd"}, made) is None


def test_the_plan_of_a_trial_has_its_lengths_and_its_ranks() -> None:
    config = load_config(DEMO_CONFIG)
    seen = replace(FIRST, memory={**MEMORY, "world_size": 2})
    made = smoke._planned(config, RunSpec(config.to_json()), seen, smoke._device(MEMORY))
    assert made is not None
    assert (made.batches.world_size, made.batches.completions_per_step) == (2, 128)
    assert made.to_json()["tokens_per_step_at_most"] == 128 * (17 + 19)


@pytest.mark.parametrize(
    ("status", "stage"),
    [
        (None, "starting"),
        (Status("starting", phase="load"), "loading the weights"),
        (Status("training", phase="generate", step=0), "step 1 of 2: generating"),
        (Status("training", phase="update", step=2), "step 2 of 2: updating the policy"),
        (Status("training", phase="odd", step=1), "step 2 of 2: odd"),
        (Status("finished", phase="update", step=2), "ending"),
    ],
)
def test_the_stage_of_a_trial_is_told(
    status: Status | None, stage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = RunFolder(tmp_path)
    if status is not None:
        rank = RankFile(folder.rank(0), 1)
        rank.update(phase="load", loads="loading the weights")
        rank.close()
    assert smoke._stage(folder, status) == stage
    stages = smoke._Stages("trial: ")
    for said in (stage, stage, "next"):
        stages.say(said)
    assert capsys.readouterr().err == f"trial: {stage}\ntrial: next\n"


class Terminal(io.StringIO):
    """What is printed on a terminal."""

    def isatty(self) -> bool:
        return True


def test_the_line_of_a_stage_is_gone_before_anything_else_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = iter([Status("training", phase="update", step=1), Status("finished")])
    monkeypatch.setattr(smoke, "read_status", lambda root: next(looks))
    monkeypatch.setattr(smoke, "POLL_S", 0.0)
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert smoke.wait(RunFolder(tmp_path), "trial: ").state == "finished"
    said = sys.stderr.getvalue()
    assert said == "\r\x1b[Ktrial: step 2 of 2: updating the policy… 0 s\r\x1b[K"


@pytest.mark.parametrize(
    ("error", "cause"),
    [({"cause": "no 7", "message": "m"}, ["  no 7"]), ({"message": "m\nn"}, ["  m⏎n"]), (None, [])],
)
def test_a_trial_that_failed_says_why_and_where_to_read(
    error: dict[str, Any] | None, cause: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = RunFolder(tmp_path)
    assert smoke._failed(folder, Status("crashed", error=error), "it did not train") == 1
    assert capsys.readouterr().err.splitlines() == [
        "the trial failed: it did not train (crashed)",
        *cause,
        f"  Run it again with --keep and read {folder.log.name} for details",
    ]
