"""What `grpo-tui status` says of the machine, and the shape other programs rely on."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from grpo_tui.cli import look
from grpo_tui.cli.look import describe
from grpo_tui.cli.main import main
from grpo_tui.store.layout import remember
from grpo_tui.store.live import Gpu, GpuProcess, Hardware
from grpo_tui.store.status import CheckpointNow, RankNow, Status
from tests.processes.hostile import HostileRun, Weaver

GIB = 1 << 30
RANKS = (
    RankNow(0, 4713, "update", 0.4, 57, "00000000:4F:00.0", None, 1.0),
    RankNow(1, 4714, "generate", 12.0, 57, "GPU-b", "extra", 1.0),
)
GPUS = (
    Gpu(
        0, pci_bus_id="00000000:4F:00.0", name="H100", use_percent=87.0, memory_used_bytes=41 * GIB,
        memory_total_bytes=80 * GIB, temperature_c=63.0, power_w=612.3, power_limit_w=700.0,
        throttle=("heat",), processes=(GpuProcess(4713, "python", 40 * GIB, True, "me"),),
    ),
    Gpu(1, uuid="GPU-b", name="H100"),
)  # fmt: skip
LOOK = Status(
    "training", step=57, phase="update", ranks=RANKS, hardware=Hardware(at=1.0, cpu_percent=92.0, gpus=GPUS)
)


def test_status_has_a_line_per_gpu_and_per_rank() -> None:
    text = "\n".join(describe(LOOK))
    assert "GPU 0  H100  87 %  41 of 80 GB  63 °C  612 of 700 W  rank 0  clocks lowered: heat" in text
    assert "GPU 1  H100  –  –  –  –  rank 1" in text
    assert "attention: GPU 0 is slowed down: heat" in text
    assert "rank 0  pid 4713  step 57  update for" in text
    assert "rank 1  pid 4714  step 57  generate for" in text
    assert "on GPU 1" in text
    assert "  in extra  on GPU 1" in text, "the reward that runs there"


def test_a_run_on_the_cpu_tells_processor_and_memory() -> None:
    on_cpu = replace(LOOK, ranks=(), hardware=Hardware(at=1.0, cpu_percent=92.0, run_rss_bytes=2 * GIB))
    assert "CPU 92 %   RAM 2.0 GB   GPU none" in describe(on_cpu)


def test_status_says_all_that_a_user_has_to_know(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(look.time, "time", lambda: 100.0)
    live = Status(
        "training", step=57, total_steps=120, phase="reward", phase_s=3.25, reward_func="judge", attempt=2,
        metrics={"kl": 0.012345, "loss": 1.0, "reward": 2.5}, dropped=3, progress_at=88.0, supervised=False,
        checkpoints=(CheckpointNow(40, "a", True), CheckpointNow(50, "b", False)),
        error={"message": "m", "cause": "c"}, alerts=({"message": "make room"},),
    )  # fmt: skip
    assert describe(live) == [
        "training  step 57 of 120  attempt 2",
        "phase reward for 3.2 s, running reward function judge",
        "no supervisor: training and recording continue, but abort-reward and stop --now do not work",
        "attention: make room",
        "reward 2.5  kl 0.01235",
        "checkpoints 40, 50 (incomplete)",
        "3 records could not be saved",
        "cause: c",
        "last step ended 12 s ago",
    ]
    assert describe(Status("stalled", phase="generate"))[-1] == "no step has ended yet"
    ended = describe(replace(live, state="failed", error={"message": "m"}))
    assert ended[1] == "attention: make room"
    assert ended[-1] == "cause: m"


def test_nothing_is_said_of_the_machine_of_an_ended_run() -> None:
    assert "GPU" not in "\n".join(describe(replace(LOOK, state="finished", ranks=(), hardware=None)))


def test_the_json_has_the_machine_and_the_gpu_of_each_rank() -> None:
    body = json.loads(json.dumps(LOOK.to_json()))
    assert body["hardware"]["gpus"][0]["processes"][0]["ours"] is True
    assert body["ranks"][1] == {
        "rank": 1, "pid": 4714, "phase": "generate", "phase_s": 12.0, "step": 57, "gpu": "GPU-b",
        "reward_func": "extra",
    }  # fmt: skip
    assert Status("finished").to_json()["hardware"] is None


@pytest.mark.parametrize(
    ("words", "told"), [(("stop", "--now"), True), (("stop",), True), (("pause",), False)]
)
def test_a_run_that_cannot_be_asked_to_stop_is_ended_by_its_pid(
    words: tuple[str, ...], told: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = HostileRun(tmp_path / "run", Weaver(3))
    remember(run.folder.root)
    run.folder.commands.touch()  # a file where the mailbox should be, as a full disk lets nothing be written
    assert main([words[0], str(run.folder.root), *words[1:]]) == 3
    run.close()
    said = capsys.readouterr().err
    assert "cannot write a command here: commands is not a folder" in said
    assert (f"To end it at once: `kill -9 {run.pid}`" in said) is told
