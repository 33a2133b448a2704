"""The light colouring of YAML, and text that is safe to edit and comes back byte for byte."""

from __future__ import annotations

import pytest

from grpo_tui.present.config_yaml import MOST_LINES, from_edit, glyphs, pieces, to_edit


def coloured(line: str) -> list[tuple[str, str]]:
    return [(line[start:end], role) for start, end, role in pieces([line])[0]]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("learning_rate: 1.0e-6   # slow", [("learning_rate", "accent"), (":", "dim"), ("1.0e-6", "line3"),
                                            ("# slow", "dim")]),
        ("bf16: true", [("bf16", "accent"), (":", "dim"), ("true", "line3")]),
        ("note: 8 GPUs", [("note", "accent"), (":", "dim")]),
        ("url: http://x:8000/y#z", [("url", "accent"), (":", "dim")]),
        ("x: 'it''s # no' # yes", [("x", "accent"), (":", "dim"), ("# yes", "dim")]),
        ("- {a: b, c: 2}", [("- ", "dim"), ("{", "dim"), ("a", "accent"), (":", "dim"), (",", "dim"),
                            ("c", "accent"), (":", "dim"), ("2", "line3"), ("}", "dim")]),
        ("# all of it: 3", [("# all of it: 3", "dim")]),
        ("", []),
    ],
)  # fmt: skip
def test_a_line_is_coloured_by_its_parts(line: str, found: list[tuple[str, str]]) -> None:
    assert coloured(line) == found


def test_a_block_of_text_is_text_until_its_indentation_ends() -> None:
    lines = ["prompt: |", "  # no comment: 3", "", "  more: text", "seed: 3"]
    roles = [[role for _, _, role in line] for line in pieces(lines)]
    assert roles == [["accent", "dim", "dim"], [], [], [], ["accent", "dim", "line3"]]


def test_a_very_long_text_stays_plain() -> None:
    assert pieces(["a: 1"] * (MOST_LINES + 1))[0] == []


@pytest.mark.parametrize(
    "text",
    [
        "a: 1\n",
        "a: 1\r\nb: 2\r\n",
        "a\rb\n",
        "x\u2028y\x85z\x0c",
        "\x1b]52;c;\x07",
        "\ufeffa: ü\n",
        "a\r\r\n",
    ],
)
def test_a_text_comes_back_as_it_was(text: str) -> None:
    carried = to_edit(text)
    assert from_edit(carried) == text
    lines = carried.replace("\r\n", "\n").split("\n")
    assert carried.replace("\r\n", "\n").splitlines() in (lines, lines[:-1])  # an editor sees the same lines


def test_what_a_terminal_would_obey_is_shown_sign_for_sign() -> None:
    text = "\x1b]52;c;x\x07\u202e"
    assert glyphs(to_edit(text)) == glyphs(text) == "␛]52;c;x␇�"
