"""What a reward has learned goes back to the reward that learned it."""

from __future__ import annotations

import math
import random
from collections import defaultdict, deque
from pathlib import Path
from typing import Any

import numpy as np
import torch

from grpo_tui.train.checkpoints import plain_states, restore_reward_states, reward_states


class Learner:
    """A reward that keeps one number."""

    def __init__(self, learned: int = 0) -> None:
        self.learned = learned

    def __call__(self, completions: Any, **kwargs: Any) -> list[float]:
        return [float(self.learned)] * len(completions)

    def state_dict(self) -> dict[str, int]:
        return {"learned": self.learned}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.learned = state["learned"]


def _plain(completions: Any, **kwargs: Any) -> list[float]:
    return [0.0] * len(completions)


def test_a_state_goes_by_the_name_of_its_function_whatever_the_order_of_the_resume() -> None:
    states = reward_states(["form", "plain", "speed"], [Learner(3), _plain, Learner(5)])
    form, speed, added = Learner(), Learner(), Learner(9)
    restore_reward_states(["added", "speed", "form"], [added, speed, form], states)
    assert (form.learned, speed.learned, added.learned) == (3, 5, 9)


def test_of_several_rewards_of_one_name_each_gets_its_own_state_back() -> None:
    states = reward_states(["same", "same"], [Learner(1), Learner(2)])
    first, second = Learner(), Learner()
    restore_reward_states(["same", "same"], [first, second], states)
    assert (first.learned, second.learned) == (1, 2)


def test_a_checkpoint_that_keeps_no_state_changes_nothing() -> None:
    kept = Learner(4)
    restore_reward_states(["form"], [kept], ())
    assert kept.learned == 4


def test_a_checkpoint_keeps_plain_data_and_tensors_and_names_what_it_cannot_keep(tmp_path: Path) -> None:
    given = {
        "n": np.float64(0.5),
        "counts": deque([np.int64(2), 3]),
        "by": defaultdict(list, {("a", 1): [None, True, b"x", math.inf]}),
        "random": random.Random(0).getstate(),
        "weights": torch.nn.Parameter(torch.ones(2)),
        "torch": torch.get_rng_state(),
    }
    said: list[str] = []
    states = [("good", given), ("bad", {"seen": [1, {"at": object()}]}), ("array", {"m": np.zeros(2)})]
    (kept,) = plain_states(states, said.append)
    torch.save(kept, tmp_path / "state.pt")
    name, back = torch.load(tmp_path / "state.pt", weights_only=True)
    assert name == "good"
    assert back["random"] == given["random"]
    assert torch.equal(back["weights"], torch.ones(2))
    assert torch.equal(back["torch"], given["torch"])
    assert (back["n"], back["counts"], back["by"]) == (0.5, [2, 3], {("a", 1): [None, True, b"x", math.inf]})
    assert "reward function bad" in said[0]
    assert "['seen'][1]['at'] is builtins.object." in said[0]
    assert "['m'] is numpy.ndarray." in said[1]
