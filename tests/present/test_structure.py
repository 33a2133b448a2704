"""The structure of completions: blocks that fold, marks that are coloured."""

from __future__ import annotations

import itertools
import random

import pytest

from grpo_tui.present.reading import blocks, marks


def _told(text: str) -> list[tuple[str, str, str, bool]]:
    return [(b.kind, b.name, text[b.start : b.end], b.closed) for b in blocks(text)]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", [("text", "", "", True)]),
        ("plain", [("text", "", "plain", True)]),
        (
            "<think>a</think>\n<answer>b</answer>",
            [
                ("tag", "think", "<think>a</think>", True),
                ("text", "", "\n", True),
                ("tag", "answer", "<answer>b</answer>", True),
            ],
        ),
        ("<think>never ends", [("tag", "think", "<think>never ends", False)]),
        ("a <br> b", [("text", "", "a <br> b", True)]),
        (
            "<a><a>x</a></a>y",
            [("tag", "a", "<a><a>x</a></a>", True), ("text", "", "y", True)],
        ),
        ("<a><a>x</a>y", [("tag", "a", "<a><a>x</a>", True), ("text", "", "y", True)]),
        ("</think>x", [("text", "", "</think>x", True)]),
        (
            "see\n```python\nprint('<b>')\n```\nend",
            [
                ("text", "", "see\n", True),
                ("code", "python", "```python\nprint('<b>')\n```", True),
                ("text", "", "\nend", True),
            ],
        ),
        ("```\nopen", [("code", "", "```\nopen", False)]),
        ("```\n<a>\n</a>", [("code", "", "```\n<a>\n</a>", False)]),
        ("<a>\n```\n</a>\n", [("tag", "a", "<a>\n```\n</a>", True), ("text", "", "\n", True)]),
    ],
)
def test_blocks(text: str, wanted: list[tuple[str, str, str, bool]]) -> None:
    assert _told(text) == wanted


def test_blocks_spell_the_text_and_marks_do_not_overlap() -> None:
    chance = random.Random(5)
    parts = ["<think>", "</think>", "<answer>", "</answer>", "\n", "```", "x", "$y$", "\\boxed{", "}", '"k":']
    for _ in range(400):
        text = "".join(chance.choices(parts, k=chance.randrange(14)))
        found = blocks(text)
        assert "".join(text[b.start : b.end] for b in found) == text
        assert all(b.start <= b.inner[0] <= b.inner[1] <= b.end for b in found)
        coloured = marks(text)
        assert all(one.end <= other.start for one, other in itertools.pairwise(coloured))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("<answer>1</answer>", [("tag", "<answer>"), ("tag", "</answer>")]),
        (r"so \boxed{\frac{1}{2}} it is", [("boxed", r"\boxed{\frac{1}{2}}")]),
        ("costs $5 or $x^2$", [("math", "$5 or $")]),
        ("$$a\n+b$$", [("math", "$$a\n+b$$")]),
        (r"\(a+b\) and \[c\]", [("math", r"\(a+b\)"), ("math", r"\[c\]")]),
        ('{"name": "a: b", "n": 1}', [("key", '"name"'), ("key", '"n"')]),
        ("```json\n{}\n```", [("fence", "```json"), ("fence", "```")]),
    ],
)
def test_marks(text: str, wanted: list[tuple[str, str]]) -> None:
    assert [(mark.role, text[mark.start : mark.end]) for mark in marks(text)] == wanted


@pytest.mark.parametrize("piece", ["<a>", "$", '"', "\\boxed{", "```\n", "</a>", '"\\', "\\["])
def test_a_hundred_thousand_of_anything_is_read(piece: str) -> None:
    text = piece * (100_000 // len(piece))
    assert blocks(text)[-1].end == len(text)
    marks(text)
