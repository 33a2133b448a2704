"""What TRL asks of a reward is told before and after its first call, with its name and the fix."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from grpo_tui.rewards.contract import RewardContractError, check_call, checked, copied, signature_faults


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (None, "ends without `return`"),
        (1.0, "1.0, which is one number for all"),
        ([1.0, 0.0], "returned 2 values; TRL wants one number (or None) for each of the 3"),
        ([1.0, 0.0, 0.0, 0.0], "returned 4 values; TRL wants one number (or None) for each of the 3"),
        ([], "returned 0 values"),
        ({"score": [1.0]}, "of type dict"),
        ("1.0", "which is a text"),
        (["1.0", 1.0, 1.0], "'1.0', a text, for completion 1"),
        ([1.0, (1.0, "ok"), 1.0], "(1.0, 'ok'), of type tuple, for completion 2"),
        ([1.0, 1.0, 10**400], "too large a number, for completion 3"),
        ([1.0, [1.0, 2.0], 1.0], "of type list, for completion 2"),
    ],
)
def test_a_return_value_trl_cannot_use_is_refused_with_the_value(result: Any, words: str) -> None:
    with pytest.raises(RewardContractError) as caught:
        checked("mine", result, 3)
    assert words in str(caught.value)
    assert str(caught.value).startswith("reward function 'mine' returned")


def test_what_trl_can_use_passes_as_it_is() -> None:
    import numpy
    import torch

    for result in (
        [1.0, None, float("nan")],
        [True, False, 3],
        (1.0, 2.0, 3.0),
        numpy.arange(3),
        torch.arange(3.0),
        [torch.tensor(1.0), numpy.float32(2), 3],
    ):
        assert checked("mine", result, 3) is result

    def generated() -> Iterator[float]:
        yield from (1.0, 2.0, 3.0)

    assert checked("mine", generated(), 3) == [1.0, 2.0, 3.0]
    with pytest.raises(RewardContractError, match="single value"):
        checked("mine", torch.tensor(1.0), 3)


def _bare(prompts: Any, completions: Any) -> list[float]:
    return [0.5 for _ in completions]


def _needs(completions: Any, solution: Any, **kwargs: Any) -> list[float]:
    return [0.5 for _ in completions]


def _may(completions: Any, solution: Any = None, scale: float = 1.0, **kwargs: Any) -> list[float]:
    return [0.5 for _ in completions]


def _all(prompts, completions, completion_ids, trainer_state, log_extra, log_metric, answer):  # type: ignore[no-untyped-def]
    return [0.5 for _ in completions]


def _only(completions: Any, /, **kwargs: Any) -> list[float]:
    return [0.5 for _ in completions]


class _Judge:
    def score(self, completions: Any, **kwargs: Any) -> list[float]:
        return [0.5 for _ in completions]


NO_KWARGS = (
    "does not accept completion_ids, which TRL passes with every call. Write it as `(prompts, "
    "completions, **kwargs)` (test_contract.py:"
)
NO_COLUMN = (
    "needs solution, which is not a column of the dataset. The columns are answer, prompt. "
    "If it means answer: `grpo_tui.columns: {solution: answer}`"
)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (_bare, NO_KWARGS),
        (_needs, NO_COLUMN),
        (_only, "takes completions by position only, and TRL passes everything by name. Remove the `/` from"),
        (_Judge.score, "needs self: it is a method without an object"),
        (
            lambda prompt, **kw: [],
            "needs prompt, a column that TRL does not pass on. TRL passes prompts",
        ),
        (lambda *a: [], "Write it as `(*a, **kwargs)`"),
        (lambda *, completions: [], "Write it as `(*, completions, **kwargs)`"),
    ],
)
def test_a_call_that_would_fail_is_refused_before_a_model_is_loaded(
    function: Callable[..., Any], words: str
) -> None:
    with pytest.raises(RewardContractError) as caught:
        check_call("mine", function, ["prompt", "answer"])
    assert words in str(caught.value)


def test_each_fault_of_a_signature_is_told_and_the_slash_once() -> None:
    def faults(function: Callable[..., Any]) -> list[tuple[str, str]]:
        parameters = inspect.signature(function).parameters
        return [(one.rule, one.parameter) for one in signature_faults("f", parameters, ["answer"], "")]

    def told(prompts: Any, completions: Any, gold: Any, /, **kwargs: Any) -> None: ...

    def lacks(completions: Any, gold: Any, level: Any, hint: Any = None) -> None: ...

    assert faults(told) == [("positional-only", "prompts")]
    assert faults(lacks) == [
        ("missing-column", "gold"),
        ("missing-column", "level"),
        ("missing-kwargs", "prompts"),
        ("unfilled-default", "hint"),
    ]


def test_a_parameter_that_no_column_fills_is_a_warning() -> None:
    (warning,) = check_call("mine", _may, ["prompt", "answer"])
    assert "parameter solution stays None" in warning
    assert "{solution: answer}" in warning
    assert check_call("mine", _may, ["prompt", "solution"]) == []


def test_every_shape_trl_can_call_passes() -> None:
    class Judge:
        async def __call__(self, completions: Any, **kwargs: Any) -> list[float]:
            return [0.5 for _ in completions]

    columns = ["prompt", "answer"]
    for function in (_all, Judge(), lambda completions, **kw: [0.0], lambda **kw: [0.0], lambda *a, **k: []):
        assert check_call("mine", function, columns) == []


def test_what_a_function_edits_in_place_is_its_own_at_every_depth() -> None:
    given = [[{"role": "user", "content": [{"type": "text", "text": "a"}]}], [1, 2], "text"]
    mine = copied(given)
    mine[0][0]["content"][0]["text"] = "b"
    mine[0][0]["role"] = "tool"
    mine[1].append(3)
    mine.pop()
    assert given == [[{"role": "user", "content": [{"type": "text", "text": "a"}]}], [1, 2], "text"]
    assert copied({"a": [1]}) == {"a": [1]}
