"""The faults of the demonstration that end no process do to the policy what they say."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from grpo_tui.config.resolve import load_config
from grpo_tui.data.load import load_prompts
from grpo_tui.demo import DEMO_CONFIG
from grpo_tui.demo.faults import FAULTS, RATE_ENDS_AT
from grpo_tui.rewards.loading import load_rewards
from grpo_tui.train.build import build_trainer

pytestmark = pytest.mark.slow


SMALL = ("per_device_train_batch_size=4", "num_generations=4", "max_completion_length=4")
"""A step as short as it can be, where a fault does not depend on what is learned in it."""


def rows(folder: Path, fault: str, steps: int, overrides: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """Train the demonstration with a fault; what TRL logs of each step."""
    settings = (f"max_steps={steps}", *FAULTS[fault].overrides_in(folder), *overrides)
    config = load_config(DEMO_CONFIG, settings)
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


def test_rewards_that_cancel_leave_no_total_and_no_gradient(tmp_path: Path) -> None:
    found = rows(tmp_path, "rewards-cancel", 2)
    assert all(row["reward"] == 0 and row["grad_norm"] == 0 for row in found)
    assert max(row["rewards/correctness/std"] for row in found) > 0.1


def test_an_infinite_reward_makes_the_reward_infinite(tmp_path: Path) -> None:
    assert math.isinf(rows(tmp_path, "infinite-reward", 1)[0]["reward"])


def test_a_reward_without_its_column_gives_no_reward(tmp_path: Path) -> None:
    reward = rows(tmp_path, "unscored", 1)[0]["reward"]
    assert reward is None or math.isnan(reward)


def test_without_an_end_token_every_completion_is_truncated(tmp_path: Path) -> None:
    (row,) = rows(tmp_path, "no-end-token", 1)
    assert (row["completions/clipped_ratio"], row["completions/mean_length"]) == (1, 40)


def test_a_temperature_near_zero_gives_groups_of_one_text(tmp_path: Path) -> None:
    assert all(row["frac_reward_zero_std"] == 1 for row in rows(tmp_path, "low-temperature", 2))


def test_a_schedule_that_ends_early_leaves_the_last_steps_without_a_rate(tmp_path: Path) -> None:
    rate = [row["learning_rate"] for row in rows(tmp_path, "lr-ended", RATE_ENDS_AT + 2, SMALL)]
    assert rate[0] == 2e-4
    assert 0 < rate[RATE_ENDS_AT - 1] < 2e-4
    assert rate[RATE_ENDS_AT:] == [0, 0]
