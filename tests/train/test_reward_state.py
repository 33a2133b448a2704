"""What a reward has learned goes back to the reward that learned it."""

from __future__ import annotations

from typing import Any

from grpo_tui.train.reward_state import restore_reward_states, reward_states


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
