"""What is said of each setting that a rule is about, whole: its place, its sentence and its fix."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from grpo_tui.config.fields import default_in_words, field_values, group_of, kind_in_words
from grpo_tui.config.resolve import inspect_config
from grpo_tui.core.findings import Finding
from grpo_tui.demo import DEMO_MODEL
from tests.config import test_rule_borders as borders
from tests.stable import given, stable, table

Stored = Callable[[str, str], None]
EVERY = (
    borders.grpo_findings, borders.lora_findings, borders.training_findings, borders.vllm_findings,
    borders.nested_findings, borders.sharded_findings,
)  # fmt: skip


def said(change: dict[str, Any], world_size: int = 1) -> list[Finding]:
    settings = borders.settings(change, world_size)
    return [found for rule in EVERY for found in rule(settings)]


def settings() -> Iterator[tuple[str, list[Finding]]]:
    for speaking, silent in borders.BORDERS.values():
        for change in (*speaking, *silent):
            yield str(change), said(change)
    for change, size, *_ in given(borders.test_a_rule_about_processes_counts_them):
        yield f"{size} processes: {change}", said(change, size)
    for change, *_ in given(borders.test_a_key_that_nothing_reads_is_told_until_something_does):
        yield str(change), said(change)


def test_what_the_rules_say_of_settings_is_what_is_stored(stored: Stored) -> None:
    stored("rules", stable(table(settings())))


def test_the_fields_of_a_config_are_what_is_stored(stored: Stored, tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    lines = [
        "model_name_or_path: a",
        "learning_rate: 1e-5",
        "beta: 0",
        "use_peft: false",
        "lora_target_modules: []",
    ]
    file.write_text(
        "\n".join([*lines, "report_to: none", "max_steps: x", "grpo_tui: {dataset: a, chat: true}", ""])
    )
    preset = {"learning_rate": 1e-5, "max_steps": 3}
    told = []
    for name, field in field_values(inspect_config(file, ["seed=7"]), ["seed=7"], preset).items():
        where = f"{field.origin} {field.line or ''} differs {field.differs}"
        usual = f"{kind_in_words(field.info.annotation)}, {default_in_words(field.info)}, {group_of(name)}"
        told.append(f"{name} {field.value!r} ({where}; {usual}; {field.choices})")
    stored("fields", "\n".join(told) + "\n")


BODY = f"model_name_or_path: {DEMO_MODEL}\nreward_funcs: [accuracy_reward]\n"
WRITTEN = """
learning_rate: 1e-5
learning_rate: fast
learning_rate: '1e-5'
learning_rate: [1]
learning_rate: .nan
learnin_rate: 1
max_steps: 1.5
max_steps: 10.0
max_steps: '10'
max_steps: true
bf16: 1
bf16: 'yes'
loss_type: gpo
loss_type: Grpo
scale_rewards: none
scale_rewards: 3
num_generations: 1
num_generations: 3
generation_batch_size: 7
per_device_train_batch_size: 0
steps_per_generation: 3
temperature: 0
temperature: -1
top_p: 1.5
epsilon: -0.1
report_to: wandbb
report_to: [none, wandb]
optim: adam
lr_scheduler_type: cosin
save_strategy: sometimes
reward_weights: [1, 2]
reward_weights: 2
generation_kwargs: 3
generation_kwargs: {tempratur: 1}
deepspeed: {a: 1
grpo_tui: 3
grpo_tui: {datset: a}
grpo_tui: {dataset: 3}
grpo_tui: {dataset: rows.jsonl, holdout: -1}
grpo_tui: {dataset: rows.jsonl, holdout: half}
grpo_tui: {dataset: rows.jsonl, columns: {prompt: [1]}}
grpo_tui: {dataset: rows.jsonl, columns: {promt: a}}
grpo_tui: {dataset: rows.jsonl, answer: gsm8kk}
grpo_tui: {dataset: rows.jsonl, answer: {column: a, kind: numbr}}
grpo_tui: {dataset: rows.jsonl, filters: {min_length: 3}}
grpo_tui: {dataset: rows.jsonl, filters: {drop_null: maybe}}
grpo_tui: {dataset: rows.jsonl, rewards: a.py:f}
grpo_tui: {dataset: rows.jsonl, rewards: [{name: a}]}
grpo_tui: {dataset: rows.jsonl, rewards: [{name: a, source: a}]}
grpo_tui: {dataset: rows.jsonl, rewards: [{name: a, source: 'a.py:f', wieght: 2}]}
grpo_tui: {dataset: rows.jsonl, rewards: [{name: a, source: 'a.py:f', weight: x}]}
grpo_tui: {dataset: rows.jsonl, rewards: [{name: a, source: 'a.py:f'}, {name: a, source: 'a.py:g'}]}
grpo_tui: {dataset: rows.jsonl, gpus: [a, -1]}
grpo_tui: {dataset: rows.jsonl, launcher: accelerat launch}
grpo_tui: {dataset: rows.jsonl, launcher: accelerate launch --num_proceses 2}
grpo_tui: {dataset: rows.jsonl, seeds: [1, 1]}
grpo_tui: {dataset: rows.jsonl, probe_prompts: 3}
grpo_tui: {dataset: rows.jsonl, probe_prompts: [a], probe_every: 0}
grpo_tui: {dataset: rows.jsonl, diagnosis: {policy.kl: {level: x}}}
grpo_tui: {dataset: rows.jsonl, diagnosis: {policy.kll: {level: 1}}}
grpo_tui: {dataset: rows.jsonl, diagnosis: {policy.kl: false}}
grpo_tui: {dataset: rows.jsonl, evaluation: {rows: 0}}
grpo_tui: {dataset: rows.jsonl, stages: [{steps: 3}]}
grpo_tui: {dataset: rows.jsonl, stages: [{name: a, max_steps: 3}, {name: a, max_steps: x}]}
- a
: b
a: [
\tx: 1
"""


def written(folder: Path) -> Iterator[tuple[str, tuple[Finding, ...]]]:
    (folder / "rows.jsonl").write_text('{"prompt": "q", "solution": "1"}\n' * 40)
    for number, line in enumerate(WRITTEN.strip().splitlines()):
        body = BODY if "rewards" not in line else BODY.splitlines()[0] + "\n"
        file = folder / f"{number}.yaml"
        file.write_text(f"{body}{line}\n")
        yield line, inspect_config(file, world_size=1).findings
        file.unlink()
    file = folder / "all.yaml"
    keys = [line for line in WRITTEN.splitlines() if line and line[0].isalpha() and "{a: 1" not in line]
    whole: dict[str, Any] = {}
    for line in keys:
        try:
            whole.update(yaml.safe_load(line))
        except yaml.YAMLError:
            continue
    file.write_text(BODY + yaml.safe_dump(whole))
    yield "all at once", inspect_config(file, world_size=1).findings


def test_what_is_said_of_a_line_of_a_config_is_what_is_stored(stored: Stored, tmp_path: Path) -> None:
    stored("lines", stable(table(written(tmp_path)), tmp_path))
