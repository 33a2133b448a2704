"""YAML with lines, and its traps refused."""

from __future__ import annotations

import pytest
import yaml

from grpo_tui.config.document import apply_overrides
from grpo_tui.config.yaml_lines import YamlError, parse_mapping, parse_value


def test_every_key_and_item_has_its_line() -> None:
    document = parse_mapping("a: 1\nb:\n  c: 2\n  d:\n    - x\n    - y: 3\n")
    assert document.line("a") == 1
    assert document.line("b", "c") == 3
    assert document.line("b", "d", 0) == 5
    assert document.line("b", "d", 1, "y") == 6
    assert document.line("b", "nowhere") == 2
    assert document.line("nowhere") is None


def test_values_are_those_of_pyyaml_as_trl_reads_them() -> None:
    text = "a: 1e-5\nb: 1.0e-5\nc: no\nd: 010\ne: [1, 'x', null]\nf: &k {g: 1}\nh: {<<: *k, i: 2}\n"
    assert parse_mapping(text).values == yaml.safe_load(text)


@pytest.mark.parametrize(
    ("text", "line", "word"),
    [
        ("beta: 0.1\nlearning_rate: 1\nbeta: 0.2\n", 3, r"duplicate key beta \(lines 1 and 3\)"),
        ("grpo_tui:\n  holdout: 1\n  holdout: 2\n", 3, "duplicate key holdout"),
        ("a: 1\ngrpo_tui:\n\tholdout: 1\n", 3, "tab"),
        ("a: [1, 2\nb: 3\n", 2, "invalid YAML"),
        ("- a\n- b\n", 1, "must be a mapping"),
        ("a: 1\n1: b\n", 2, "not as text"),
        ("a: !!python/object:os.system x\n", 1, "invalid YAML"),
        ("a: 1\nb: x\x1b[31m\n", 2, r"control character U\+001B"),
        ("a: 1\nb: x\0\n", 2, r"control character U\+0000"),
        ("a: 1\nb: 2024-13-45\n", 2, "cannot be read"),
        ("a: 1\nb: " + "9" * 5000 + "\n", 2, "cannot be read"),
        ("a: 1\nb: [0, -" + "9" * 400 + "]\n", 2, "cannot be read: int too large to convert to float"),
        ("a: " + "[" * 3000 + "]" * 3000, None, "nested too deeply"),
    ],
)
def test_a_trap_is_refused_with_its_line(text: str, line: int, word: str) -> None:
    with pytest.raises(YamlError, match=word) as caught:
        parse_mapping(text)
    assert caught.value.line == line


def test_aliases_that_stand_for_billions_of_values_are_refused_at_once() -> None:
    text = "a: &a [x, x, x, x, x, x, x, x, x]\n"
    text += "".join(
        f"{new}: &{new} [{', '.join(['*' + old] * 9)}]\n"
        for old, new in zip("abcdefgh", "bcdefghi", strict=True)
    )
    with pytest.raises(YamlError, match="aliases expand to more"):
        parse_mapping(text)


def test_an_empty_file_is_an_empty_mapping() -> None:
    assert parse_mapping("# only a comment\n").values == {}


def test_quoted_and_plain_values_are_told_apart() -> None:
    document = parse_mapping("a: 1e-5\nb: '1e-5'\n")
    assert ("a",) in document.plain
    assert ("b",) not in document.plain


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("8", 8),
        ("true", True),
        ("[a, b]", ["a", "b"]),
        ("{x: 1}", {"x": 1}),
        ("", ""),
        ("null", None),
        ("a b", "a b"),
    ],
)
def test_an_override_is_read_as_yaml(text: str, value: object) -> None:
    assert parse_value(text)[0] == value


def test_on_is_a_key_in_a_value_of_the_section() -> None:
    document = parse_mapping("")
    assert apply_overrides(document, ["grpo_tui.notify={on: [end], command: say}"]) == []
    assert document.values == {"grpo_tui": {"notify": {"on": ["end"], "command": "say"}}}
