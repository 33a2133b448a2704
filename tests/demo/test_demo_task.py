"""The demonstration's dataset and config."""

from __future__ import annotations

import subprocess
import sys

from grpo_tui.config.resolve import load_config
from grpo_tui.demo import DEMO_CONFIG, DEMO_DIR, DEMO_MODEL
from grpo_tui.demo.task import all_rows, train_rows


def test_the_rows_are_every_sum_once_with_its_answer() -> None:
    rows = all_rows()
    asked = {row["prompt"][0]["content"]: row["answer"] for row in rows}
    assert len(rows) == len(asked) == 400
    assert asked["What is 7 + 15?"] == "22"
    assert asked["What is 20 + 20?"] == "40"
    first = {question.split()[2] for question in list(asked)[:20]}
    assert len(first) > 5, "mixed: not 1 + 1, 1 + 2, 1 + 3"


def test_the_dataset_has_the_columns_that_trl_and_the_rewards_read() -> None:
    rows = train_rows()
    assert rows.column_names == ["prompt", "answer"]
    assert {"prompt": [{"role": "user", "content": "What is 1 + 1?"}], "answer": "2"} in list(rows)
    assert list(rows) == all_rows() == all_rows()


def test_the_demo_package_imports_without_the_machine_learning_stack() -> None:
    code = (
        "import sys, grpo_tui.demo, grpo_tui.demo.task, grpo_tui.demo.rewards\n"
        "print([m for m in ('torch', 'transformers', 'trl', 'datasets', 'numpy') if m in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"


def test_the_demo_config_resolves_from_any_working_folder(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = load_config(DEMO_CONFIG)
    assert [f for f in config.findings if f.severity != "info"] == []
    assert config.model == str(DEMO_MODEL)
    assert config.section.dataset == f"{DEMO_DIR / 'task.py'}:train_rows"
    assert [(r.name, r.weight) for r in config.section.rewards] == [
        ("correctness", 2.0),
        ("format", 0.5),
        ("incremental", 0.5),
    ]
    assert config.section.holdout == 40
    assert (config.grpo["num_generations"], config.grpo["per_device_train_batch_size"]) == (8, 64)
    assert config.grpo["max_steps"] == 120
