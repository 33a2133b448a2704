"""A GPU with too little memory: which one it was, who holds it, and settings that would fit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from grpo_tui.config.plan.memory import Device
from grpo_tui.config.resolve import inspect_config
from grpo_tui.demo import DEMO_CONFIG
from grpo_tui.preflight.machine import GpuFacts, Machine
from grpo_tui.store.live import Gpu, GpuProcess
from grpo_tui.train import out_of_memory
from grpo_tui.train.out_of_memory import MemoryAdvice, machine_number

GIB = 1 << 30
TORCH = (
    "CUDA out of memory. Tried to allocate {asked}. GPU 0 has a total capacity of 2.00 GiB of which {free} "
    "is free. Process 123 has 1.50 GiB memory in use. Of the allocated memory 1.40 GiB is allocated by "
    "PyTorch."
)
VLLM = (
    "Free memory on device cuda:0 (1.20/2.00 GiB) on startup is less than desired GPU memory utilization "
    "(0.9, 1.8 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes."
)
ANA = GpuProcess(4711, "python train.py", GIB, user="ana")


def advice(*changes: str, held: bool = False) -> MemoryAdvice:
    """That of the demo on GPU 3 of a machine."""
    cards = [
        Gpu(
            3,
            name="a card",
            memory_used_bytes=GIB,
            memory_total_bytes=2 * GIB,
            processes=(ANA,) if held else (),
        )
    ]
    machine = Machine(gpus=(GpuFacts(3, "a card", total_bytes=2 * GIB),))
    config = inspect_config(DEMO_CONFIG, ["use_cpu=false", *changes], world_size=1).config
    assert config is not None  # though vLLM is not installed here
    return MemoryAdvice(config, Path("run"), gpus=lambda: cards, machine=machine)


@pytest.fixture(autouse=True)
def third_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,1")


def test_the_gpu_is_the_machines_and_the_settings_have_values_that_fit() -> None:
    failed = TORCH.format(asked="512.00 MiB", free="100.00 MiB")
    said = advice("gradient_checkpointing=false", held=True).cause(failed, "update")
    assert said == (
        "out of memory on GPU 3 (a card) in the update: it asked for 512.00 MiB, and 100.00 MiB of 2.00 GiB "
        "were free. Process 4711 (python train.py of ana, 1.1 GB) holds memory on it too. Change "
        "per_device_train_batch_size from 64 to 16 with gradient_accumulation_steps from 1 to 4, or "
        "max_completion_length from 40 to 11; or set gradient_checkpointing: true; or set use_peft: true"
    )


def test_a_smaller_batch_is_named_the_more_was_missing() -> None:
    def batch(asked: str) -> int:
        said = advice().cause(TORCH.format(asked=asked, free="100.00 MiB"), "generate")
        assert "while generating" in said
        assert "holds memory" not in said, "it is this process that holds it"
        return int(said.split("per_device_train_batch_size from 64 to ")[1].split()[0])

    assert [batch("100.00 MiB"), batch("1.50 GiB")] == [32, 16]
    said = advice().cause(TORCH.format(asked="99.00 GiB", free="100.00 MiB"), "update")
    assert "No batch size fits by the plan" in said


def test_what_fits_is_planned_for_the_launcher_the_machine_and_the_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[Any, dict[str, Any]]] = []

    def plan(settings: Any, *_: Any, **more: Any) -> Any:
        asked.append((settings, more))
        raise RuntimeError("not planned")

    monkeypatch.setattr(out_of_memory, "plan_of", plan)
    monkeypatch.setattr(out_of_memory, "world_size", lambda: 4)
    found = advice()
    launched = MemoryAdvice(found._config, Path("run"), ("accelerate", "launch"), machine=found._machine)
    said = launched.cause(TORCH.format(asked="512.00 MiB", free="100.00 MiB"), "update")
    assert "Halve per_device_train_batch_size" in said
    (settings, more), *_ = asked
    assert (settings.world_size, more["launcher"]) == (4, ("accelerate", "launch"))
    assert more["device"] == Device("", 2 * GIB)


def test_vllms_share_is_named_where_it_counts() -> None:
    colocated = ("use_vllm=true", "vllm_gpu_memory_utilization=0.9")
    said = advice(*colocated, held=True).cause(VLLM, "load")
    assert said.startswith("GPU 3 (a card) has 1.20 of 2.00 GiB free, less than vLLM's share of it")
    assert "4711" in said
    assert "Set vllm_gpu_memory_utilization: 0.58" in said
    said = advice(*colocated).cause(TORCH.format(asked="1.00 GiB", free="0.00 KiB"), "update")
    assert "vllm_gpu_memory_utilization from 0.9 to 0.8" in said


def test_any_other_failure_is_left_as_it_is() -> None:
    assert advice().cause("index out of range", "update") == ""
    assert advice().cause("CUDA out of memory", "update").startswith("out of memory on GPU 3 (a card)")


@pytest.mark.parametrize(
    ("visible", "named", "number"),
    [
        (0, None, "0"),
        (1, None, "1"),
        (0, "3", "3"),
        (1, "3, 5", "5"),
        (2, "3,5", "2"),
        (0, "GPU-aa", "GPU-aa"),
    ],
)
def test_a_number_that_cuda_counts_is_a_number_of_the_machine(
    visible: int, named: str | None, number: str
) -> None:
    assert machine_number(visible, {} if named is None else {"CUDA_VISIBLE_DEVICES": named}) == number


RANK = """
import os, sys
from grpo_tui.train.out_of_memory import own_processes
processes = own_processes()
print(processes.describe(os.getppid())[2], processes.describe(int(sys.argv[1]))[2])
"""
LAUNCHER = "import subprocess, sys; subprocess.run([sys.executable, '-c', *sys.argv[1:]], check=True)"


def test_what_the_runs_own_ancestors_started_is_not_the_runs() -> None:
    with subprocess.Popen(["sleep", "60"]) as stranger:
        try:
            said = subprocess.run(
                [sys.executable, "-c", LAUNCHER, RANK, str(stranger.pid)],
                env={**os.environ, "GRPO_TUI_RUN": "1-2"},
                capture_output=True,
                text=True,
                check=True,
            )
        finally:
            stranger.kill()
    assert said.stdout.split() == ["True", "False"]
