"""What the rules see of a group and of a metric over a run, value by value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from grpo_tui.core.records import Completion
from grpo_tui.health.course import Course
from grpo_tui.health.facts import FunctionFacts, GroupFacts, Repeats, Settings, facts_of, repeats_of

TWO = Settings(weights=(1.0, 0.5), names=("right", "short"))


def one(
    text: str = "a",
    rewards: Sequence[float | None] = (1.0, 0.0),
    total: float | None = 0.0,
    advantage: float | None = 0.0,
    tokens: int = 4,
    truncated: bool = False,
    **more: Any,
) -> Completion:
    return Completion(0, text, tuple(rewards), total, advantage, tokens, truncated, **more)


def facts(*members: Completion, settings: Settings = TWO, **more: Any) -> GroupFacts:
    return facts_of(members, "p", settings, **more)


@pytest.mark.parametrize(
    ("members", "cause"),
    [
        ([one(total=1.0, advantage=1.0), one(total=0.0, advantage=-1.0)], "some"),
        ([one(masked=True), one(masked=True)], "masked"),
        ([one(total=math.nan, advantage=None), one()], "not-finite"),
        ([one(rewards=(math.inf, 0.0)), one()], "not-finite"),
        ([one(rewards=(None, None), total=None), one(rewards=(None, None), total=None)], "unscored"),
        ([one(rewards=(1.0, 0.0)), one(rewards=(0.5, 1.0))], "cancels"),
        ([one(), one()], "identical"),
        ([one(), one("b")], "equal"),
        ([one()], "equal"),
    ],
)
def test_a_group_without_a_signal_has_its_cause(members: list[Completion], cause: str) -> None:
    assert facts(*members).cause == cause


def test_a_function_without_a_weight_does_not_cancel_another() -> None:
    members = [one("a", (0.0, 1.0)), one("b", (0.0, 0.0))]
    assert facts(*members).cause == "cancels"
    assert facts(*members, settings=Settings(weights=(1.0, 0.0), names=("a", "b"))).cause == "equal"


def test_the_extent_of_a_group_leaves_out_what_is_not_finite() -> None:
    found = facts(
        one("a", (1.0, None), total=2.0),
        one("b", (3.0, None), total=math.nan),
        one("c", (None, None), total=5.0),
        one("d", (math.inf, None), total=None),
    )
    assert (found.low, found.high, found.mean, found.size) == (2.0, 5.0, 3.5, 4)
    assert found.functions == (FunctionFacts(1.0, 3.0, 2.0, 1), FunctionFacts(math.inf, -math.inf, None, 4))
    assert [function.varies for function in found.functions] == [True, False]
    none = facts(one(total=None), one(total=math.nan))
    assert (none.low, none.high, none.mean) == (None, None, None)
    assert (found.prompt, found.columns[0]) == ("p", (1.0, 3.0, None, math.inf))


def test_a_completion_with_fewer_scores_than_functions_has_none_of_the_others() -> None:
    found = facts(one(rewards=(1.0,)), one(rewards=(2.0, 3.0)))
    assert [list(column) for column in found.columns] == [[1.0, 2.0], [None, 3.0]]


@pytest.mark.parametrize(
    ("text", "answered"),
    [
        ("</answer>" + "x" * 20, 1),
        ("x" * 20 + "</answer>", 0),
        ("#### 4" + "x" * 20, 1),
        ("\\boxed{4}" + "x" * 20, 1),
        ("<answer>" + "x" * 20, 0),
        ("x" * 2_000 + "#### 4" + "x" * 9_000, 0),
        ("x" * 1_900 + "#### 4" + "x" * 9_000, 1),
    ],
)
def test_a_truncated_completion_has_answered_if_its_first_half_holds_an_answer(
    text: str, answered: int
) -> None:
    found = facts(one(text, truncated=True), one(text))
    assert (found.truncated, found.answered) == (1, answered)


def test_lengths_and_texts_of_a_group() -> None:
    found = facts(
        one("a", tokens=2, total=1.0),
        one("b", tokens=4, total=0.0),
        one("a", tokens=9, total=5.0),
        one("", tokens=9, total=None),
        one("", tokens=9, total=math.nan),
    )
    assert found.tokens == 6.6
    assert found.lengths == (26.0, 14.0, 17.0)
    assert (found.different, list(found.same)) == (True, [[0, 2]])
    assert facts(one("a"), one("a")).different is False
    assert facts().lengths == (0.0, 0.0, 0.0)
    assert facts().tokens == 0.0
    spoken = one("a", messages=[{"role": "assistant", "content": "a"}])
    assert list(facts(spoken, one("a"), one("a")).same) == [[1, 2]]
    long = "x" * 2_000
    assert facts(one(long + "a"), one(long + "b")).different is False, "only the beginning is compared"


@pytest.mark.parametrize(
    ("text", "checked", "repeated"),
    [
        ("a b c d " * 5, True, True),
        ("a b c d " * 5, False, None),
        ("short", True, None),
        ("a b c d e f g h i j k", True, False),
    ],
)
def test_the_first_text_is_checked_for_repetition_if_it_is_long_enough(
    text: str, checked: bool, repeated: bool | None
) -> None:
    found = facts(one(text), one("other"), repetition=checked).repeated
    assert (None if found is None else found > 0.2) is repeated


def test_scores_of_equal_texts_are_compared_with_those_of_all() -> None:
    group = facts(
        one("a", (0.0, 0.0)), one("a", (2.0, 0.0)), one("b", (4.0, None)), one("c", (math.nan, 1.0))
    )
    found = repeats_of([group, group], 0)
    assert found == Repeats(4.0, 2, 16.0, 4)
    assert found.share == 0.5
    assert repeats_of([group], 1) == Repeats(0.0, 1, pytest.approx(2 / 3), 2)
    assert (Repeats().share, Repeats(1.0, 1, 0.0, 2).share) == (0.0, 0.0)


def course_of(*values: float, every: int = 1) -> Course:
    course = Course()
    for place, value in enumerate(values, 1):
        course.add(every * place, value)
    return course


def test_a_course_begins_with_its_first_values_and_knows_its_extent() -> None:
    course = course_of(3.0, 1.0, math.nan, 2.0, 8.0, 9.0, -5.0)
    assert (course.count, course.low, course.high, course.span) == (6, -5.0, 9.0, 14.0)
    assert (course.start, course.opening, course.first) == (3.0, 3.0, 3.0)
    assert course_of(1.0, 4.0).first == 4.0
    assert math.isnan(course_of(1.0).first)
    none = Course()
    assert all(math.isnan(value) for value in (none.start, none.opening, none.level(3), none.middle(3)))
    assert (none.span, none.noise, none.newest(3), none.turned()) == (0.0, 0.0, [], None)


def test_the_newest_values_of_a_course_are_as_many_as_are_asked_for() -> None:
    course = course_of(*(float(n) for n in range(60)))
    assert course.newest(3) == [57.0, 58.0, 59.0]
    assert len(course.newest(500)) == 50
    assert (course.level(4), course.middle(3), course.level(2.9)) == (57.5, 58.0, 58.5)
    assert course_of(1.0, 2.0, 9.0).middle(3) == 2.0
    assert (course.window(3), course.window(49), course.window(50)) == (58, 12, None)
    assert (course.above(57.0, 3), course.above(57.0, 1), course.above(99.0, 9)) == (59, 60, None)
    assert course.above(0.0, 500) == 11, "the older ones are not kept"


def test_the_best_level_of_a_course_is_that_of_ten_values_and_the_step_where_they_end() -> None:
    rising = course_of(*(float(n) for n in range(9)))
    assert (rising.best, rising.best_step) == (-math.inf, 0)
    course = course_of(*[0.0] * 10, *[1.0] * 10, *[0.5] * 10, every=5)
    assert (course.best, course.best_step) == (1.0, 100)


def test_the_noise_of_a_course_is_that_of_consecutive_values() -> None:
    course = course_of(0.0, 1.0, 0.0, 3.0)
    assert course.noise == pytest.approx(1 / 0.954)
    assert course.error(4) == pytest.approx(0.5 / 0.954)
    course.add(5, 13.0)
    assert course.noise == pytest.approx(2 / 0.954)


def test_steps_without_a_finite_value_are_counted_among_the_newest() -> None:
    course = Course()
    for step, (value, missing) in enumerate(
        [(math.nan, False), (1.0, True), (1.0, False), (math.inf, False)]
    ):
        course.add(step, value, missing=missing)
    assert [course.missing(n) for n in (1, 2, 3, 4, 9)] == [1, 1, 2, 3, 3]


def test_a_change_is_found_between_the_earlier_and_the_present_level() -> None:
    gradual = course_of(*[0.0] * 10, 0.2, 0.4, 0.6, 0.8, *[1.0] * 6)
    assert gradual.turned() == 13
    assert gradual.turned(part=0.1) == 11
    assert gradual.turned(2.0) is None, "all of them are nearer to the present level"
    assert course_of(*[1.0] * 10, *[0.0] * 4).turned() == 11
