"""A run of the demo goes through everything that comes after training, by the commands that a user types."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from grpo_tui.demo import DEMO_CONFIG
from tests.processes.runs import SMALL, end, grpo_tui

pytestmark = pytest.mark.slow

SETTINGS = (
    *SMALL, "max_steps=6", "save_steps=3", "use_peft=true", "learning_rate=0.001",
    "grpo_tui.evaluate={every: 3, rows: 32, samples: 2}",
)  # fmt: skip


def test_a_run_of_the_demo_is_compared_asked_merged_described_and_reproduced(tmp_path: Path) -> None:
    def said(*words: str, check: int | None = 0, place: Path = tmp_path) -> str:
        return grpo_tui(*words, check=check, cwd=place).stdout

    words = [word for pair in SETTINGS for word in ("--set", pair)]
    trained = grpo_tui("train", DEMO_CONFIG, "--run-dir", tmp_path / "first", "--headless", *words).stdout
    assert "on 32 prompts at step 6" in trained
    assert re.search(r"What is 1 \+ 5\? +gold 6 +before \S", trained)
    compared = json.loads(said("compare", "first", "--rows", "8", "--samples", "2", "--json", check=None))
    assert [policy["name"] for policy in compared["policies"]] == ["base", "first"]
    listed = json.loads(said("checkpoints", "first", "--json"))
    assert [one["step"] for one in listed["checkpoints"]] == [3, 6]
    (answer,) = json.loads(said("chat", "first", "--prompt", "What is 3 + 4?", "--json"))["answers"]
    assert set(answer["rewards"]) == {"correctness", "format", "incremental"}
    assert "same top token" in said("merge", "first", "merged")
    assert (tmp_path / "merged" / "model.safetensors").is_file()
    assert "8 held-out prompts" in said("card", "first")
    assert "## Reward: correctness" in said("report", "first", "--format", "md")
    said("export", "first", "--format", "bundle", "-o", "first.zip")
    other = tmp_path / "other"
    other.mkdir()
    shutil.move(tmp_path / "first.zip", other)
    end(tmp_path / "first")
    verified = said("reproduce", "first.zip", "--verify", "--steps", "2", "--trust", place=other)
    for run in (other / "outputs").glob("*"):
        end(run)
    assert "equal bit for bit" in verified
