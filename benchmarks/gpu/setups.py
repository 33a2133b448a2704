"""What is trained in each scenario: config, prompts, launcher, and which GPUs it sees.

SmolLM2-135M-Instruct with LoRA on sums in words; with `cpu` the shipped demo model on its own sums. Knows
TRL's settings; knows nothing of what is checked.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from grpo_tui.demo import DEMO_DIR, DEMO_MODEL

HERE = Path(__file__).parent
COMPLETIONS, GROUP, TOKENS = 64, 8, 64
"""A step on a GPU: completions over all ranks, how many per prompt, and the most tokens of one."""
ROWS = 4096
PORT = 8123
VLLM = {
    "use_vllm": True,
    "vllm_mode": "colocate",
    "vllm_gpu_memory_utilization": 0.3,
    "vllm_max_model_length": 512,
}
SERVER = {
    "use_vllm": True,
    "vllm_mode": "server",
    "vllm_server_host": "127.0.0.1",
    "vllm_server_port": PORT,
}
PROBES = {"source": "holdout", "every": 2, "prompts": 2, "count": 4}
LOOKED_AT = ("look", "look-vllm")
NAMES = ("generate", "vllm-colocate", "ddp", "vllm-server", *LOOKED_AT, "ratio", "ratio-vllm")


@dataclass(frozen=True, slots=True)
class Setup:
    """One scenario."""

    name: str
    limit_s: float
    settings: dict[str, Any]
    """What differs from the settings all scenarios share."""
    gpus: int = 1
    ranks: int = 1
    launcher: str = ""
    pause_s: float = 4.0
    """How long the pause is held."""
    load_s: float = 150.0
    """Most seconds from the start to the second step."""
    server: bool = False
    needs: str = ""
    """A package without which it is skipped."""
    changes: dict[str, str] = field(default_factory=dict)
    """Environment variables of the run."""


def setups(cpu: bool) -> dict[str, Setup]:
    """Every scenario by name."""
    launcher = (
        f"accelerate launch {'--multi_gpu ' if cpu else ''}--num_processes 2 --num_machines 1 "
        f"--mixed_precision {'no' if cpu else 'bf16'} --dynamo_backend no --main_process_port 0"
    )
    two = {"ddp_timeout": 20, "per_device_train_batch_size": 8 if cpu else COMPLETIONS // 2}
    if cpu:
        two["ddp_backend"] = "gloo"
    # Every completion runs to its limit, so that a step is the same work on both sides.
    short = {"max_completion_length": 16, "generation_kwargs": {"min_new_tokens": 16}, "max_steps": 1_000_000}
    full = {"generation_kwargs": {"min_tokens": TOKENS}, "max_steps": 1_000_000}
    found = (
        Setup("generate", 240, {}),
        Setup("vllm-colocate", 300, VLLM, needs="vllm", load_s=180),
        Setup("ddp", 270, two, gpus=2, ranks=2, launcher=launcher, pause_s=32.0),
        Setup("vllm-server", 300, SERVER, gpus=2, server=True, needs="vllm"),
        Setup("look", 300, {}),
        Setup("look-vllm", 420, VLLM, needs="vllm", load_s=180),
        Setup("ratio", 420, short),
        Setup("ratio-vllm", 480, {**VLLM, **full}, needs="vllm"),
    )
    return {setup.name: setup for setup in found}


def write_config(setup: Setup, folder: Path, model: str, cpu: bool) -> Path:
    """Write the config of a scenario, and its prompts, into a folder; returns the config."""
    folder.mkdir(parents=True, exist_ok=True)
    values: dict[str, Any] = {
        "model_name_or_path": str(DEMO_MODEL) if cpu else model,
        "dtype": "float32" if cpu else "bfloat16",
        "bf16": not cpu,
        "use_cpu": cpu,
        "use_peft": True,
        "lora_r": 16,
        "lora_alpha": 32,
        "gradient_checkpointing": False,
        "per_device_train_batch_size": 16 if cpu else COMPLETIONS,
        "num_generations": 4 if cpu else GROUP,
        "max_completion_length": 20 if cpu else TOKENS,
        "learning_rate": 1e-5,
        "max_steps": 100_000,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "seed": 42,
        **setup.settings,
    }
    dataset = f"{DEMO_DIR / 'task.py'}:train_rows" if cpu else str(_write_prompts(folder / "prompts.jsonl"))
    params = {"hang_file": str(folder / "hang"), "hang_rank": setup.ranks - 1}
    rewards = HERE / "rewards.py"
    values["grpo_tui"] = {
        "dataset": dataset,
        "rewards": [
            {"name": "right", "source": f"{rewards}:right"},
            {"name": "in_main_thread", "source": f"{rewards}:in_main_thread"},
            {"name": "patient", "source": f"{rewards}:patient", "params": params},
        ],
    }
    if setup.name in LOOKED_AT:
        values["grpo_tui"] |= {"holdout": 16, "probe_prompts": PROBES}
    path = folder / f"{setup.name}.yaml"
    path.write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
    return path


def visible_gpus() -> list[str]:
    """The GPUs this process may use, as `CUDA_VISIBLE_DEVICES` names them; all of the host by default."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is None:
        words = ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"]
        try:
            named = subprocess.run(words, capture_output=True, text=True, check=False).stdout
        except OSError:
            return []
    return [name.strip() for name in named.replace("\n", ",").split(",") if name.strip()]


def gpus_of(pids: Iterable[int]) -> dict[int, list[str]]:
    """The GPUs each process holds memory on, as the end of their ids; empty where nvidia-smi cannot tell."""
    words = ["nvidia-smi", "--query-compute-apps=pid,gpu_uuid", "--format=csv,noheader"]
    try:
        said = subprocess.run(words, capture_output=True, text=True, check=False).stdout
    except OSError:
        said = ""
    pairs = {tuple(part.strip() for part in line.split(",")) for line in said.splitlines() if "," in line}
    return {pid: sorted(gpu[-6:] for number, gpu in pairs if number == str(pid)) for pid in pids}


def _write_prompts(path: Path) -> Path:
    """Sums told as small stories, as chat prompts with their answers."""
    generator = random.Random(0)
    people = ("Tom", "Ada", "Mia", "Ben", "Noor", "Ravi")
    things = ("apples", "stamps", "marbles", "books", "shells")
    with path.open("w", encoding="utf-8") as file:
        for _ in range(ROWS):
            first, second, third = (generator.randint(2, 40) for _ in range(3))
            who, what = generator.choice(people), generator.choice(things)
            text = (
                f"{who} has {first} {what}, buys {second} more and is given {third}. How many {what} does "
                f"{who} have now? Answer in one sentence that ends with the number."
            )
            row = {"prompt": [{"role": "user", "content": text}], "answer": str(first + second + third)}
            file.write(json.dumps(row) + "\n")
    return path
