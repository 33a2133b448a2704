"""An interval between two sets of seeds says how much of a difference is chance, with as few as two seeds."""

from __future__ import annotations

import random

import pytest

from grpo_tui.core.seed_noise import pairs_of, seed_difference

TIMES = 1000
TRUTH = 0.5


def _covered(chance: random.Random, base: range, other: range, spreads: tuple[float, float]) -> bool:
    """One comparison, in which a seed moves both sets by the same amount."""
    common = {seed: chance.gauss(0, 2) for seed in {*base, *other}}
    found = seed_difference(
        {seed: common[seed] + chance.gauss(0, spreads[0]) for seed in base},
        {seed: common[seed] + chance.gauss(TRUTH, spreads[1]) for seed in other},
    )
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    return found.low <= TRUTH <= found.high


@pytest.mark.parametrize(
    ("base", "other", "spreads"),
    [
        (range(2), range(2), (1.0, 1.0)),
        (range(3), range(3), (1.0, 1.0)),
        (range(5), range(5), (1.0, 4.0)),
        (range(5), range(2), (1.0, 1.0)),
        (range(3), range(10, 13), (1.0, 1.0)),
        (range(5), range(10, 15), (1.0, 1.0)),
        (range(3), range(10, 15), (1.0, 3.0)),
    ],
)
def test_the_interval_holds_the_true_difference_as_often_as_it_says(
    base: range, other: range, spreads: tuple[float, float]
) -> None:
    chance = random.Random(17)
    covered = sum(_covered(chance, base, other, spreads) for _ in range(TIMES)) / TIMES
    assert 0.93 <= covered <= 0.98


def test_two_sets_of_the_same_kind_are_told_apart_in_one_of_twenty() -> None:
    chance = random.Random(23)
    wrong = 0
    for _ in range(TIMES):
        base, other = ({seed: chance.gauss(0, 1) for seed in range(3)} for _ in range(2))
        found = seed_difference(base, other)
        assert found is not None
        wrong += found.word in ("better", "worse")
    assert 0.03 <= wrong / TIMES <= 0.07


def test_pairing_by_seed_takes_out_what_the_seed_does_to_both() -> None:
    base = {1: 0.1, 2: 0.5, 3: 0.9}
    other = {1: 0.15, 2: 0.56, 3: 0.94}
    paired = seed_difference(base, other)
    apart = seed_difference(base, {seed + 10: value for seed, value in other.items()})
    assert paired is not None
    assert apart is not None
    assert (paired.word, paired.paired, paired.seeds) == ("better", True, (3, 3))
    assert (apart.word, apart.paired) == ("within noise", False)
    assert paired.mean == pytest.approx(apart.mean) == pytest.approx(0.05)
    # t = 4.303 with two degrees of freedom, s = 0.01
    assert paired.low == pytest.approx(0.05 - 4.303 * 0.01 / 3**0.5, abs=1e-5)


def test_too_few_seeds_or_equal_values_have_no_interval() -> None:
    for base, other in (
        ({1: 0.1}, {1: 0.9}),
        ({1: 0.1, 2: 0.2, 3: 0.3}, {1: 0.9}),
        ({1: 0.5, 2: 0.5}, {1: 1.0, 2: 1.0}),
        ({1: 0.5, 2: 0.5}, {3: 1.0, 4: 1.0}),
    ):
        found = seed_difference(base, other)
        assert found is not None
        assert (found.low, found.high, found.word) == (None, None, "unknown")
    assert seed_difference({}, {1: 0.9}) is None


def test_runs_are_paired_only_when_one_set_holds_all_seeds_of_the_other() -> None:
    assert pairs_of([3, 1, 2], [2, 3, 1]) == [1, 2, 3]
    assert pairs_of([1, 2, 3], [2, 3]) == [2, 3]
    assert pairs_of([1, 2, 3], [2, 3, 4]) == []
    assert pairs_of([1], [1]) == []
