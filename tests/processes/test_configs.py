"""Configs as people write them train for real: LoRA, evaluation on held-out rows, too few rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from grpo_tui.demo import DEMO_DIR, DEMO_MODEL
from grpo_tui.store.reader import RunReader
from tests.processes.runs import PACED, SMALL, at_step, command, grpo_tui, left, state

pytestmark = pytest.mark.slow

BASE = """\
model_name_or_path: {model}
dtype: float32
use_cpu: true
bf16: false
gradient_checkpointing: false
learning_rate: 1e-4
"""


def test_lora_trains_changes_temperature_stops_and_resumes_and_rows_held_out_are_evaluated_alone(
    run: Path, tmp_path: Path
) -> None:
    config = tmp_path / "lora.yaml"
    config.write_text(
        BASE.format(model=DEMO_MODEL)
        + "use_peft: true\nlora_r: 4\nlora_target_modules: q_proj,v_proj\nbeta: 0.01\nmax_steps: 4000\n"
        + "logging_steps: 1\neval_strategy: steps\neval_steps: 2\nper_device_eval_batch_size: 8\n"
        + f"grpo_tui:\n  dataset: {DEMO_DIR / 'task.py'}:train_rows\n  holdout: 4\n  rewards:\n"
        + f"    - {{name: correctness, source: '{PACED}', weight: 2.0}}\n"
    )
    words = [word for pair in SMALL for word in ("--set", pair)]
    grpo_tui("train", config, "--run-dir", run, "--detach", *words)
    at_step(run, 2)
    assert command(run, "set", "temperature=1.3")["result"]["temperature"]["new"] == 1.3
    assert len(command(run, "sample", "3+4=?", "--count", "2")["result"]["completions"]) == 2
    command(run, "stop")
    stopped = state(run, "stopped").step
    left(run)
    resumed = grpo_tui("train", run, "--resume", "--headless", "--set", f"max_steps={stopped + 2}")
    assert "eval_reward" in resumed.stdout
    ended = state(run, "finished")
    assert ended.step == stopped + 2
    assert "kl" in ended.metrics
    assert (run / "adapter_model.safetensors").exists()
    reader = RunReader(run / "run.db")
    assert any(s.by == "resume" and s.name == "temperature" for s in reader.settings())
    groups = list(reader.iter_groups())
    held = {g.prompt_key for g in groups if g.mode == "eval"}
    assert len(held) == 4
    assert held.isdisjoint({g.prompt_key for g in groups if g.mode == "train"})
    evaluated = {g.step for g in groups if g.mode == "eval"}
    # Every second step, and, as transformers does it, the last one.
    assert evaluated - {stopped} == {*range(2, ended.step, 2), ended.step} - {stopped}


def test_a_dataset_too_small_for_one_step_is_no_success(run: Path, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"prompt": "1+1=?", "answer": "2"}\n')
    config = tmp_path / "small.yaml"
    config.write_text(
        BASE.format(model=DEMO_MODEL)
        + f"max_steps: 4\ngrpo_tui:\n  dataset: {tmp_path / 'rows.jsonl'}\n  chat: true\n  rewards:\n"
        + f"    - {{name: correctness, source: {DEMO_DIR / 'rewards.py'}:correctness}}\n"
    )
    words = [word for pair in SMALL for word in ("--set", pair)]
    done = grpo_tui("train", config, "--run-dir", run, "--headless", *words, check=1)
    assert "a generation batch takes 4 prompts, and the dataset has 1. Add rows" in done.stdout
    assert state(run, "failed").step == 0
