"""Group statistics agree with torch and with the definition of a variance share."""

from __future__ import annotations

import math

import pytest

from grpo_tui.core.statistics import (
    column_covariances,
    distinct_share,
    group_covariances,
    is_flat,
    is_number,
    kind_of_group,
    mean,
    repeated_share,
    signal_of,
    std,
    variance_shares,
)


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


@pytest.mark.parametrize(
    ("totals", "advantages", "masked", "signal"),
    [
        ([2.0, 2.0], [-0.8, 1.1], [], "some"),  # normalize_then_sum
        ([0.0, 1.0], [0.0, 0.0], [], "none"),  # two functions cancel once they are normalized
        ([1e-5, 3e-5], [-1e-5, 1e-5], [], "some"),  # scale_rewards: none leaves small rewards small
        ([0.1, 0.1], [7.4e-5, 7.4e-5], [], "none"),  # what float32 leaves of equal totals
        ([1000.1] * 2, [0.37, 0.37], [], "some"),  # and what TRL really trains on
        ([None, None], [0.0, 0.0], [], "none"),
        ([0.0, 1.0], [-0.9, 0.9], [True, True], "masked"),
        ([0.0, 1.0, 1.0], [-0.9, 0.0, 0.0], [True, False, False], "none"),
        ([0.0, 1.0, 1.0], [-0.9, 0.5, 0.5], [True, False, False], "some"),
        ([0.0, 1.0], None, [], "some"),  # probe prompts have no advantages
        ([1.0, 1.0], None, [], "none"),
        ([1.0, None], [math.nan, 0.0], [], "none"),
    ],
)
def test_a_group_teaches_when_an_advantage_reaches_the_loss(
    totals: list[float | None], advantages: list[float] | None, masked: list[bool], signal: str
) -> None:
    assert signal_of(totals, advantages, masked) == signal


@pytest.mark.parametrize(
    ("totals", "ends", "kind"),
    [
        ([3.0, 3.0], (0.0, 3.0), "all right"),
        ([0.0, 0.0], (0.0, 3.0), "all wrong"),
        ([1.5, 1.5], (0.0, 3.0), "flat"),
        ([3.0, None], (0.0, 3.0), "all right"),
        ([0.0, 3.0], (0.0, 3.0), "flat"),
        ([3.0, 3.0], None, "flat"),
        ([None, math.inf], (0.0, 3.0), "unscored"),
    ],
)
def test_all_right_and_all_wrong_are_told_apart(
    totals: list[float | None], ends: tuple[float, float] | None, kind: str
) -> None:
    assert kind_of_group(totals, ends, "none") == kind
    assert kind_of_group(totals, ends, "some") == "mixed"
    assert kind_of_group(totals, ends, "masked") == "masked"


def test_normalized_functions_count_by_their_weights_alone() -> None:
    group = [[0.0, 2.0], [1.0, 0.0], [1.0, 0.0], [0.0, 2.0]]
    assert variance_shares([group], [2.0, 1.0]) == [None, None]
    assert variance_shares([group], [2.0, 1.0], normalized=True) == pytest.approx([2.0, -1.0], abs=1e-3)
    abstains = [[0.0, None], [10.0, None]]
    assert variance_shares([abstains], [1.0, 1.0], normalized=True) == pytest.approx([1.0, 0.0])


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("", 0.0),
        ("a b c d", 0.0),
        ("a b c d e f g h", 0.0),
        ("a b c d a b c d", 1 - 4 / 5),
        ("A b c d a B c d", 1 - 4 / 5),
        ("!!!!!!!!", 1 - 1 / 5),
        ("abcdefgh", 0.0),
        ("!!!", 0.0),
    ],
)
def test_the_share_of_runs_of_four_words_that_come_again(text: str, share: float) -> None:
    assert repeated_share(text) == pytest.approx(share)


def test_repetition_in_runs_of_other_lengths_and_different_texts() -> None:
    assert repeated_share("a b a b", 2) == pytest.approx(1 / 3)
    assert [distinct_share(texts) for texts in ((), ("a",), ("a", "b", "a", "a"))] == [1.0, 1.0, 0.5]


def test_without_functions_or_without_a_second_completion_nothing_varies() -> None:
    assert group_covariances([], [1.0]) == group_covariances([(0.5,)], [1.0]) == [0.0, 0.0]
    assert column_covariances([], []) == [0.0]
