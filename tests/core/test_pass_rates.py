"""The share of mixed groups at another size, from groups of the size that was recorded."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from grpo_tui.health.remedies import mixed_share, pass_rates

GRADED: Callable[[random.Random], float] = lambda chance: chance.betavariate(0.2, 0.4)  # noqa: E731
IN_TWO: Callable[[random.Random], float] = lambda chance: chance.choice([0.0, 0.0, 0.5, 0.5, 0.5])  # noqa: E731
HARD: Callable[[random.Random], float] = lambda chance: 0.05  # noqa: E731


def simulated(
    rate: Callable[[random.Random], float], prompts: int, visits: int
) -> tuple[float, float, float]:
    """The true share of mixed groups of 16, that from each prompt's own rate, and the estimate."""
    chance = random.Random(11)
    rates = [rate(chance) for _ in range(prompts)]
    of = 8 * visits
    seen = [(sum(chance.random() < one for _ in range(of)), of) for one in rates]
    true = sum(mixed_share({one: 1.0}, 16) for one in rates) / prompts
    own = sum(mixed_share({right / of: 1.0}, 16) for right, _ in seen) / prompts
    return true, own, mixed_share(pass_rates(seen), 16)


@pytest.mark.parametrize(("visits", "within"), [(1, 0.03), (3, 0.02)])
@pytest.mark.parametrize("rate", [GRADED, IN_TWO, HARD], ids=["graded", "in-two", "hard"])
def test_the_estimate_is_near_the_true_share(
    rate: Callable[[random.Random], float], visits: int, within: float
) -> None:
    true, _, estimated = simulated(rate, 2_000, visits)
    assert abs(estimated - true) < within, (true, estimated)


def test_the_own_rate_of_a_prompt_after_one_visit_says_too_little() -> None:
    true, own, estimated = simulated(GRADED, 2_000, 1)
    assert own < true - 0.1
    assert abs(estimated - true) < 0.02


def test_the_recorded_size_is_predicted_as_recorded() -> None:
    chance = random.Random(3)
    rates = [GRADED(chance) for _ in range(1_000)]
    seen = [(sum(chance.random() < one for _ in range(8)), 8) for one in rates]
    recorded = sum(0 < right < of for right, of in seen) / len(seen)
    assert abs(mixed_share(pass_rates(seen), 8) - recorded) < 0.01


def test_many_different_prompts_are_read_evenly() -> None:
    """More kinds of (right, all) than are used, and more completions than a float holds ways to order."""
    seen = [(right, 2_000) for right in range(0, 2_001, 2)]
    found = pass_rates(seen)
    assert sum(found.values()) == pytest.approx(1)
    assert sum(rate * share for rate, share in found.items()) == pytest.approx(0.5, abs=0.02)
    assert sum(pass_rates([]).values()) == pytest.approx(1)
