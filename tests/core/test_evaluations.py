"""What a series of evaluations shows: the best one, the gain over the first, and how long there was none."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from grpo_tui.core.evaluations import Evaluation, Evaluations, Means
from grpo_tui.core.paired import difference


def series(*by_prompt: list[float | None], first_step: int = 0) -> Evaluations:
    """Evaluations of some prompts, ten steps apart."""
    done = []
    for number, means in enumerate(by_prompt):
        known = [value for value in means if value is not None]
        value = math.fsum(known) / len(known) if known else None
        done.append(Evaluation(first_step + 10 * number, value, tuple(means)))
    first = (Means("pass@1", tuple(by_prompt[0])),)
    return Evaluations("key", "pass@1", 0, "correct", 1.0, (1.0,), 4, first, tuple(done))


def rising(by: float, prompts: int = 40) -> list[float | None]:
    return [by + 0.1 * (place % 3) for place in range(prompts)]


def test_the_best_is_the_highest_and_of_equal_ones_the_earliest() -> None:
    found = series([0.1, 0.2], [0.5, 0.5], [None, None], [0.4, 0.6])
    assert found.best is found.done[1]
    assert series([None]).best is None
    assert series([0.0], [-0.5], [-1.0]).best.step == 0  # type: ignore[union-attr]
    assert found.at(10) is found.done[1]
    assert found.at(5) is None


def test_the_gain_is_paired_by_prompt_and_leaves_out_what_was_not_scored_both_times() -> None:
    found = series([0.0, 0.5, None, 0.2], [0.5, 0.75, 1.0, None])
    assert found.gain(found.done[1]) == difference([0.0, 0.5], [0.5, 0.75])
    assert found.gain(found.done[0]) is None


def test_only_a_gain_whose_interval_lies_above_zero_counts() -> None:
    noisy = [value + (-1) ** place * 0.4 for place, value in enumerate(rising(0.05))]  # type: ignore[operator]
    flat = rising(0.0)
    better = [value + 0.3 + 0.01 * (place % 2) for place, value in enumerate(flat)]  # type: ignore[operator]
    assert series(flat, noisy, noisy).without_gain == 2
    assert series(flat, noisy, better).without_gain == 0
    assert series(flat, better, flat, noisy).without_gain == 2
    between = [value + 0.1 + 0.01 * (place % 5) for place, value in enumerate(flat)]  # type: ignore[operator]
    assert series(flat, better, better, between).without_gain == 2, "the first is no longer what counts"
    assert series(flat, between, better, better).without_gain == 1


def test_a_small_gain_each_time_counts_once_it_is_shown_against_the_last_best() -> None:
    def means(number: int) -> list[float | None]:
        return [0.02 * number + 0.05 * ((place * 7 + number * 3) % 5 - 2) for place in range(40)]

    found = series(*(means(number) for number in range(6)))
    assert found.without_gain < 5


def test_under_30_prompts_nothing_counts() -> None:
    few, better = rising(0.0, 29), [0.5 + 0.1 * (place % 3) + 0.01 * (place % 2) for place in range(29)]
    assert series(few, better).without_gain == 1  # type: ignore[arg-type]


def test_they_are_read_back_as_they_were_written() -> None:
    found = series([0.1, None], [0.25, 0.5])
    assert Evaluations.from_json(json.loads(json.dumps(found.to_json()))) == found


@pytest.mark.parametrize(
    "change",
    [
        {"done": []},
        {"done": [{"step": "x", "value": 1.0, "by_prompt": []}]},
        {"done": [{"step": 1, "value": 1.0, "by_prompt": [float("nan")]}]},
        {"done": [{"step": 1, "value": 10**400, "by_prompt": [1.0]}]},
        {"first": 5},
        {"deciding": None},
    ],
)
def test_a_fact_of_another_shape_shows_no_evaluations(change: dict[str, Any]) -> None:
    assert Evaluations.from_json({**series([0.1]).to_json(), **change}) is None
    assert Evaluations.from_json(5) is None


def test_evaluations_of_other_numbers_of_prompts_are_not_compared() -> None:
    found = series([0.1, 0.2], [0.5])
    assert found.gain(found.done[1]) is None
    assert found.without_gain == 1
