"""The paired interval holds the truth as often as it says, and the words follow from it."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

from grpo_tui.core.paired import Difference, difference, pass_at, sizes_of, t_quantile, wins

PROMPTS, SAMPLES, TIMES = 100, 8, 1000


def _share(chance: random.Random, rate: float) -> float:
    return sum(chance.random() < rate for _ in range(SAMPLES)) / SAMPLES


def test_the_interval_covers_the_truth_of_all_prompts_of_which_these_were_drawn() -> None:
    """Difficulty as Beta(0.3, 0.3): most prompts are nearly always or nearly never answered."""
    chance = random.Random(20)
    a = b = 0.3
    truth = a * b / ((a + b) * (a + b + 1))  # the mean of p (1 - p), which is what q = 1 - (1 - p)² gains
    covered = 0
    for _ in range(TIMES):
        rates = [chance.betavariate(a, b) for _ in range(PROMPTS)]
        base = [_share(chance, p) for p in rates]
        policy = [_share(chance, 1 - (1 - p) ** 2) for p in rates]
        found = difference(base, policy)
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= truth <= found.high
    assert 0.93 <= covered / TIMES <= 0.97


@pytest.mark.parametrize(
    ("freedom", "table"),
    [(1, 12.706), (2, 4.303), (2.5, 3.575), (3, 3.182), (4, 2.776), (5, 2.571), (10, 2.228), (29, 2.045),
     (99, 1.984), (10_000, 1.960)],
)  # fmt: skip
def test_the_quantile_is_that_of_the_tables(freedom: float, table: float) -> None:
    assert t_quantile(freedom) == pytest.approx(table, abs=1e-3)


@pytest.mark.parametrize("right", range(6))
@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_pass_at_k_counts_the_draws_that_hold_a_right_one(right: int, k: int) -> None:
    draws = list(combinations([True] * right + [False] * (5 - right), k))
    assert pass_at(k, right, 5) == pytest.approx(sum(map(any, draws)) / len(draws))


@pytest.mark.parametrize(("samples", "sizes"), [(1, (1,)), (2, (1, 2)), (5, (1, 2, 4, 5)), (8, (1, 2, 4, 8))])
def test_the_sizes_end_with_the_samples(samples: int, sizes: tuple[int, ...]) -> None:
    assert sizes_of(samples) == sizes


def _found(gains: list[float]) -> Difference:
    found = difference([1.0] * len(gains), [1.0 + gain for gain in gains])
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("gains", "word"),
    [
        ([0.0, 0.5] * 15, "better"),
        ([0.0, -0.5] * 15, "worse"),
        ([0.5, -0.5] * 15, "not shown"),
        ([0.0, 0.5] * 14 + [0.5], "not shown"),  # 29 prompts
        ([0.5] * 40, "not shown"),  # no width
        ([0.0] * 40, "not shown"),
        ([0.5], "not shown"),
    ],
)
def test_the_word(gains: list[float], word: str) -> None:
    assert _found(gains).word == word


def test_prompts_without_a_score_are_left_out() -> None:
    found = difference([1.0, None, 0.0], [2.0, 5.0, None])
    assert found is not None
    assert (found.mean, found.low, found.prompts) == (1.0, None, 1)
    assert difference([None], [1.0]) is None
    counted = wins([0.0, 0.5, 1.0, None], [1.0, 0.5, 0.0, 1.0])
    assert (counted.win, counted.tie, counted.loss) == (1, 1, 1)
