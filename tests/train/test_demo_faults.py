"""The faults of the demonstration that end no process do to the policy what they say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from grpo_tui.config import load_config
from grpo_tui.data.load import load_prompts
from grpo_tui.demo import DEMO_CONFIG
from grpo_tui.demo.faults import FAULTS
from grpo_tui.rewards.loading import load_rewards
from grpo_tui.train.build import build_trainer

pytestmark = pytest.mark.slow


def rows(folder: Path, fault: str, steps: int) -> list[dict[str, Any]]:
    """Train the demonstration with a fault; what TRL logs of each step."""
    config = load_config(DEMO_CONFIG, (f"max_steps={steps}", *FAULTS[fault].overrides_in(folder)))
    trainer = build_trainer(config, load_rewards(config), load_prompts(config), folder)
    trainer.train()
    return [row for row in trainer.state.log_history if "reward" in row]


def test_flat_rewards_teach_nothing_while_their_spread_over_the_batch_looks_alive(tmp_path: Path) -> None:
    found = rows(tmp_path, "flat-rewards", 3)
    assert len(found) == 3
    assert all(row["frac_reward_zero_std"] == 1 and row["grad_norm"] == 0 for row in found)
    assert max(row["reward_std"] for row in found) > 0.1


def test_truncated_completions_teach_nothing_while_no_group_is_called_flat(tmp_path: Path) -> None:
    found = rows(tmp_path, "truncated", 3)
    assert len(found) == 3
    assert all(row["completions/clipped_ratio"] == 1 and row["grad_norm"] == 0 for row in found)
    assert all(row["frac_reward_zero_std"] < 1 for row in found)


def test_a_learning_rate_too_high_destroys_the_policy(tmp_path: Path) -> None:
    found = rows(tmp_path, "lr-too-high", 4)
    assert found[-1]["reward"] < found[0]["reward"] / 5
    assert found[-1]["completions/clipped_ratio"] > found[0]["completions/clipped_ratio"] + 0.5
