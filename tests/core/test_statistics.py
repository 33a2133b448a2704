"""Group statistics agree with torch and with the definition of a variance share."""

from __future__ import annotations

import math

import pytest

from grpo_tui.core.statistics import is_flat, is_number, mean, std, variance_shares


def test_only_finite_numbers_are_numbers() -> None:
    assert not any(map(is_number, (None, True, math.nan, math.inf, -math.inf, "1", [], 10**400)))
    assert all(map(is_number, (0, -1, 0.5, 10**300)))


def test_mean_and_deviation_leave_out_what_was_not_scored() -> None:
    torch = pytest.importorskip("torch")
    values = [1.0, None, 3.5, math.nan, 2.0]
    known = torch.tensor([1.0, 3.5, 2.0])
    assert mean(values) == pytest.approx(known.mean().item())
    assert std(values) == pytest.approx(known.std().item())
    assert mean([None]) is None
    assert std([None]) is None
    assert std([4.0]) == 0.0


def test_a_group_without_spread_or_scores_is_flat() -> None:
    assert is_flat([1.0, 1.0, None])
    assert is_flat([None, None])
    assert not is_flat([1.0, 1.0001])


def test_variance_shares_sum_to_one_and_follow_the_weights() -> None:
    groups = [[[1.0, 0.0], [0.0, 0.0], [0.0, 1.0], [1.0, 1.0]]]
    assert variance_shares(groups, [1.0, 1.0]) == pytest.approx([0.5, 0.5])
    assert variance_shares(groups, [2.0, 1.0]) == pytest.approx([0.8, 0.2])
    assert variance_shares([[[1.0, 2.0], [1.0, 2.0]]], [1.0, 1.0]) == [None, None]


def test_a_completion_with_fewer_rewards_than_functions_counts_as_abstained() -> None:
    whole = [[[1.0, 0.0], [0.0, None], [0.0, 1.0]]]
    assert variance_shares([[[1.0, 0.0], [0.0], [0.0, 1.0, 9.0]]], [1.0, 1.0]) == variance_shares(
        whole, [1.0, 1.0]
    )
