"""Several faults in one file, and their fixes applied as offered: after few rounds nothing is left."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from grpo_tui.config.draft import Draft
from grpo_tui.config.resolve import inspect_config
from grpo_tui.demo import DEMO_MODEL
from grpo_tui.preflight.run import QUICK, check
from grpo_tui.preflight.static import Launch
from tests.preflight.machines import A100, machine

FAULTS = (
    "per_device_train_batch_size: 6",
    "num_generations: 1",
    "log_completions: maybe",
    "max_prompt_length: 512",
    "warmup_ratio: 0.1",
    "learning_rte: 1.0e-5",
    "num-generations: 4",
    "trainer:\n  beta: 0.04\n  seed: 3",
    "loss_type: gspo",
    "optim: AdamW",
    "scale_rewards: never",
    "temperature: 0",
    "top_p: 2",
    "generation_kwargs: {temprature: 1}",
    "model_init_kwargs: {torch_dtype: bf16}",
    "lr_scheduler_type: cosine_with_min_lr",
    "eval_steps: 5",
    "sync_ref_model: true",
    "load_best_model_at_end: true",
    "vllm_mode: bogus",
    "gradient_checkpointing_kwargs: {use_reentrant: 'false'}",
    "remove_unused_columns: true",
    "evaluation_strategy: 'no'",
    "peft_config: {r: 8}",
    "epsilon_high: 0.1",
    "delta: 1.0",
    "fp16: true\nbf16: true",
    "reward_weights: [1, 2]",
    "adam_beta1: 1",
    "group_size: 4",
    "wandb_project: mine",
    "save_steps: 10.5",
    "logging_steps: 0",
)
SECTION = "grpo_tui:\n  dataset: rows.jsonl\n  rewards: own.py:right\n  max_steps: 20\n"
AT_ONCE = 7
ROUNDS = 4


@pytest.mark.parametrize("seed", range(10))
def test_fixes_applied_as_they_are_offered_leave_nothing(seed: int, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"prompt": "q", "answer": "1"}\n' * 40)
    (tmp_path / "own.py").write_text("def right(completions, **kw):\n    return [1.0] * len(completions)\n")
    body = "\n".join(random.Random(seed).sample(FAULTS, AT_ONCE))
    file = tmp_path / "c.yaml"
    file.write_text(f"model_name_or_path: {DEMO_MODEL}\n{body}\n{SECTION}")
    for _ in range(ROUNDS):
        seen = check(
            inspect_config(file), Launch(root=tmp_path / "run"), parts=QUICK, machine=machine(A100, vllm=None)
        )
        said = [finding for finding in seen.findings if finding.severity != "info"]
        assert all(finding.fix is not None for finding in said), [(f.id, f.field) for f in said]
        if not said:
            return
        draft = Draft.open(file)
        for finding in said:
            draft.apply(finding)
        file.write_text(draft.text)
    raise AssertionError(f"{[(f.id, f.field) for f in said]} are left of\n{body}\nin\n{file.read_text()}")
