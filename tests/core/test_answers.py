"""Gold answers are cut out of solutions, and what is not there is None."""

from __future__ import annotations

import pytest

from grpo_tui.core.answers import extract


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Two and two make four.\n#### 4", "4"),
        ("#### 1,234,567", "1234567"),
        ("#### $1,200", "1200"),
        ("#### $18", "18"),
        ("#### -3.5\n", "-3.5"),
        ("#### 1\nno\n#### 2\nrest", "2"),
        ("#### a, b", "a, b"),
        ("####", None),
        ("no mark 4", None),
    ],
)
def test_gsm8k(text: str, answer: str | None) -> None:
    assert extract(text, "gsm8k") == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"so \boxed{4}.", "4"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{1} then \boxed{ 2 }", "2"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\fbox{3}", "3"),
        (r"\boxed{1} then \boxed{2", "1"),
        (r"\boxed{}", None),
        ("boxed{4}", None),
    ],
)
def test_boxed(text: str, answer: str | None) -> None:
    assert extract(text, "boxed") == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<answer>4</answer>", "4"),
        ("<answer>\n4\n5\n</answer>", "4\n5"),
        ("<answer>1</answer><answer>2</answer>", "2"),
        ("<answer> <answer>2</answer>", "2"),
        ("<answer>4", None),
        ("<result>4</result>", None),
    ],
)
def test_tag(text: str, answer: str | None) -> None:
    assert extract(text, "tag", tag="answer") == answer


@pytest.mark.parametrize(
    ("text", "pattern", "answer"),
    [
        ("A: 4 B: 5", r"B: (\d)", "5"),
        ("answer 42", r"\d+", "42"),
        ("none", r"\d+", None),
        ("ac", r"a(b)?c", None),
    ],
)
def test_regex(text: str, pattern: str, answer: str | None) -> None:
    assert extract(text, "regex", pattern=pattern) == answer


def test_an_unknown_kind_is_an_error() -> None:
    with pytest.raises(ValueError, match="gsm9k"):
        extract("x", "gsm9k")


@pytest.mark.parametrize(
    ("text", "kind", "answer"),
    [
        ("#### １，２００", "gsm8k", "1200"),
        ("#### −5", "gsm8k", "-5"),
        ("#### 1\u00a0200\u00a0", "gsm8k", "1200"),
        (r"\boxed{−３}", "boxed", "-3"),
        ("<answer>\u00a0４２</answer>", "tag", "42"),
        ("<answer>Ａ・Ｂ</answer>", "tag", "Ａ・Ｂ"),
        ("<answer>x−1</answer>", "tag", "x−1"),
    ],
)
def test_a_number_is_cut_out_in_plain_characters_and_a_text_as_it_stands(
    text: str, kind: str, answer: str
) -> None:
    assert extract(text, kind, tag="answer") == answer


@pytest.mark.parametrize(("tag", "answer"), [(None, "4"), ("answer", "4"), ("final", "9")])
def test_the_tag_is_answer_unless_another_one_is_named(tag: str | None, answer: str) -> None:
    assert extract("<final>9</final> <answer>4</answer>", "tag", tag) == answer
