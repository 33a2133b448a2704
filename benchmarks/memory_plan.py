"""What the plan says of memory against what runs really take.

    python benchmarks/memory_plan.py [--only NAME]     on the CPU: models of some ten million weights
    python benchmarks/memory_plan.py --cuda            on a GPU: models of half a billion and more

Models of random weights are made and trained for two steps, each in a process of its own, and the peak of its
memory is compared with the plan: resident memory, with what the C allocator keeps, or what torch has reserved
on the GPU and the driver's context. The last column compares the run's own: without the libraries, on a GPU
without the context, the allocator's share and what torch reserves and does not use.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo_tui.cli.smoke import taken_bytes
from grpo_tui.config.plan.making import Plan, Surroundings, plan
from grpo_tui.config.plan.memory import Device
from grpo_tui.config.plan.model import read_shape
from grpo_tui.config.resolve import load_config
from grpo_tui.demo import DEMO_CONFIG
from grpo_tui.store.reader import RunReader

STEPS = 2
PROMPT = "What is 7 + 15? " * 8
REWARDS = "def length(completions, **kwargs):\n    return [float(len(str(c)) % 7) for c in completions]\n"
COMMON: dict[str, Any] = {
    "max_steps": STEPS,
    "save_strategy": "no",
    "report_to": "none",
    "logging_steps": 1,
    "num_generations": 4,
    "per_device_train_batch_size": 8,
    "learning_rate": 1e-6,
}
SHORT: dict[str, Any] = {"use_cpu": True}
LONG: dict[str, Any] = {"bf16": True, "max_completion_length": 512, "num_generations": 8}
ADAPTER: dict[str, Any] = {"dtype": "bfloat16", "use_peft": True, "lora_target_modules": ["all-linear"]}


@dataclass(frozen=True, slots=True)
class Trial:
    """One model and one config."""

    name: str
    model: dict[str, int]
    config: dict[str, Any]


def sizes(hidden: int, layers: int, vocab: int) -> dict[str, int]:
    """A decoder of the usual proportions."""
    return {
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": hidden // 64,
        "num_key_value_heads": max(1, hidden // 128),
        "intermediate_size": 3 * hidden,
        "vocab_size": vocab,
    }


TRIALS = (
    Trial(
        "float32, all trained",
        sizes(512, 8, 8_000),
        {"bf16": False, "gradient_checkpointing": False, "max_completion_length": 64},
    ),
    Trial(
        "float32, checkpointing, reference",
        sizes(512, 8, 8_000),
        {"bf16": False, "max_completion_length": 96, "beta": 0.04, "gradient_accumulation_steps": 2},
    ),
    Trial(
        "float32 under bf16, large vocabulary",
        sizes(384, 6, 48_000),
        {"bf16": True, "max_completion_length": 32},
    ),
    Trial(
        "bfloat16, LoRA",
        sizes(640, 8, 16_000),
        {
            "dtype": "bfloat16",
            "bf16": True,
            "use_peft": True,
            "lora_target_modules": ["all-linear"],
            "max_completion_length": 32,
        },
    ),
)


CUDA_TRIALS = (
    Trial("float32 under bf16, checkpointing", sizes(896, 24, 151_936), LONG),
    Trial(
        "the same without checkpointing, batch 16",
        sizes(896, 24, 151_936),
        {**LONG, "gradient_checkpointing": False, "per_device_train_batch_size": 16},
    ),
    Trial(
        "bfloat16, reference, accumulated",
        sizes(896, 24, 151_936),
        {**LONG, "dtype": "bfloat16", "beta": 0.04, "gradient_accumulation_steps": 2},
    ),
    Trial("bfloat16, LoRA, checkpointing", sizes(1536, 28, 151_936), {**LONG, **ADAPTER}),
    Trial(
        "bfloat16, LoRA, without, batch 16",
        sizes(1536, 28, 151_936),
        {**LONG, **ADAPTER, "gradient_checkpointing": False, "per_device_train_batch_size": 16},
    ),
)


def make_model(folder: Path, body: dict[str, int]) -> None:
    """Write random weights with the tokenizer of the demonstration; a process of its own imports torch."""
    code = (
        "import sys, json, torch; from transformers import LlamaConfig, LlamaForCausalLM;"
        "m = LlamaForCausalLM(LlamaConfig(**json.loads(sys.argv[2]), tie_word_embeddings=True,"
        " max_position_embeddings=2048)); m.save_pretrained(sys.argv[1])"
    )
    subprocess.run([sys.executable, "-c", code, str(folder), json.dumps(body)], check=True)
    for file in (DEMO_CONFIG.parent / "model").iterdir():
        if file.name.startswith(("tokenizer", "special", "chat")):
            shutil.copy(file, folder)


def run(trial: Trial, root: Path, common: dict[str, Any]) -> tuple[Plan, dict[str, Any]]:
    """Plan a trial and train it; returns the plan and what was measured."""
    model = root / "model"
    make_model(model, trial.model)
    (root / "rewards.py").write_text(REWARDS)
    rows = [json.dumps({"prompt": f"{PROMPT}{i}"}) for i in range(16)]
    (root / "rows.jsonl").write_text("\n".join(rows))
    section = {"dataset": "rows.jsonl", "rewards": [{"source": "rewards.py:length"}]}
    config = root / "trial.yaml"  # JSON is YAML
    config.write_text(
        json.dumps({**common, **trial.config, "model_name_or_path": "model", "grpo_tui": section})
    )
    folder = root / "run"
    words = [sys.executable, "-m", "grpo_tui", "train", config, "--run-dir", folder, "--headless", "--force"]
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{trial.name}: {done.stdout}{done.stderr}")
    reader = RunReader(folder / "run.db")
    measured, prompt = reader.fact("peak_memory"), len(PROMPT) + 2
    reader.close()
    on_gpu = measured["device"] == "cuda"
    device = Device(measured["name"], measured["total_bytes"]) if on_gpu else Device("CPU", 1 << 40, "cpu")
    around = Surroundings(model=read_shape(str(model)), prompt_tokens=prompt, device=device)
    return plan(load_config(config), around), measured


def main() -> None:
    """Print planned and measured memory of each trial."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", help="trials whose name holds this")
    parser.add_argument("--parts", action="store_true", help="each part of the plan too")
    parser.add_argument("--cuda", action="store_true", help="on the GPU, with models that fill it")
    parsed = parser.parse_args()
    print(f"{'':42} parameters    planned   measured   ratio  the run's own")
    for trial in CUDA_TRIALS if parsed.cuda else TRIALS:
        if not parsed.only or parsed.only in trial.name:
            with tempfile.TemporaryDirectory() as folder:
                made, measured = run(trial, Path(folder), COMMON if parsed.cuda else {**COMMON, **SHORT})
            show(trial.name, made, measured, parts=parsed.parts)


def show(name: str, made: Plan, measured: dict[str, Any], *, parts: bool) -> None:
    """Print one trial's line, and the parts of its plan."""
    memory, model = made.memory, made.model
    assert memory is not None
    assert model is not None
    planned, taken = memory.peak_bytes, taken_bytes(measured, made)
    assert taken is not None
    on_gpu = measured["device"] == "cuda"
    not_own = ("process", "allocator") if on_gpu else ("process",)
    own = planned - sum(part.bytes for part in memory.parts if part.name in not_own)
    alone = (measured["peak_bytes"] if on_gpu else taken - measured["libraries_bytes"]) / own
    print(
        f"{name:42} {model.parameters / 1e6:8.1f} M {planned / 1e6:7.0f} MB {taken / 1e6:7.0f} MB"
        f" {taken / planned:7.2f} {alone:14.2f}",
        flush=True,
    )
    if not parts:
        return
    print(f"    libraries {measured['libraries_bytes'] / 1e6:.0f} MB; peak {memory.peak_moment}")
    for part in memory.parts:
        print(f"    {part.name:14} {part.bytes / 1e6:8.1f} MB  {' '.join(part.moments)}")


if __name__ == "__main__":
    main()
