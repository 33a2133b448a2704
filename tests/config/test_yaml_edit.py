"""An edit changes its own lines and nothing else, whatever the file looks like."""

from __future__ import annotations

import difflib
import random
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from ruamel.yaml import YAML

from grpo_tui.config import yaml_lines
from grpo_tui.config.yaml_edit import (
    EditError,
    get_value,
    remove_value,
    rename_key,
    same,
    set_value,
    split_key,
)
from grpo_tui.config.yaml_edit_values import entry, inline, scalar

SET = {
    "a number keeps its comment and the comment its column": (
        "a: 8      # eight\nb: 1\n", "a", 16, "a: 16     # eight\nb: 1\n",
    ),
    "a comment that is pushed keeps two blanks": ("a: 8  # x\n", "a", 123456, "a: 123456  # x\n"),
    "single quotes stay": ("a: 'x'\n", "a", "it's", "a: 'it''s'\n"),
    "double quotes stay": ('a: "x"  # c\n', "a", 'é "q"', 'a: "é \\"q\\""  # c\n'),
    "a plain text stays plain": ("a: x\n", "a", "new words", "a: new words\n"),
    "a text that would be a truth value is quoted": ("a: x\n", "a", "no", "a: 'no'\n"),
    "a text that would be a number is quoted": ("a: x\n", "a", "1e-5", "a: '1e-5'\n"),
    "a text that would be nothing is quoted": ("a: x\n", "a", "null", "a: 'null'\n"),
    "a small number has its dot": ("a: 1\n", "a", 1e-6, "a: 1.0e-6\n"),
    "a rate is written as one": ("a: 1\n", "a", 0.0002, "a: 2.0e-4\n"),
    "with all its digits": ("a: 1\n", "a", 0.00012345678, "a: 1.2345678e-4\n"),
    "a number loses the quotes of a text": ('a: "8"\n', "a", 8, "a: 8\n"),
    "an empty value": ("a:\nb: 1\n", "a", 2, "a: 2\nb: 1\n"),
    "an empty value with a comment": ("a:   # none yet\n", "a", 2, "a: 2  # none yet\n"),
    "the last line without its end": ("a: 1\nb: 2", "b", 3, "a: 1\nb: 3"),
    "a new key after a last line without its end": ("a: 1", "b", 2, "a: 1\nb: 2"),
    "line ends of Windows": ("a: 1\r\nb: 2\r\n", "c", 3, "a: 1\r\nb: 2\r\nc: 3\r\n"),
    "line ends of Windows in a block": ("a: |\r\n  x\r\n", "a", "y\nz\n", "a: |\r\n  y\r\n  z\r\n"),
    "a byte order mark": ("\ufeffa: 1\n", "a", 2, "\ufeffa: 2\n"),
    "a byte order mark and nothing else": ("\ufeff", "a", 2, "\ufeffa: 2\n"),
    "an empty file": ("", "a.b", 1, "a:\n  b: 1\n"),
    "a file of comments": ("# only this\n", "a", 1, "# only this\na: 1\n"),
    "tabs in a text": ("a: |\n  x\ty\t\nb: 1\n", "b", 2, "a: |\n  x\ty\t\nb: 2\n"),
    "other scripts": ("名: 数  # 注\n", "名", "値", "名: 値  # 注\n"),
    "inside a flow mapping": ("a: {b: 1, c: [x, y]}  # c\n", "a.c.1", "no", "a: {b: 1, c: [x, 'no']}  # c\n"),
    "a question inside a flow list": ("a: [x]\n", "a.1", "why?", "a: [x, 'why?']\n"),
    "a key into a flow mapping": ("a: {b: 1}\n", "a.c", "x,y", "a: {b: 1, c: 'x,y'}\n"),
    "a key into an empty flow mapping": ("a: {}\n", "a.c", 1, "a: {c: 1}\n"),
    "JSON": ('{"a": 1,\n "b": 2}\n', "b", 3, '{"a": 1,\n "b": 3}\n'),
    "a flow list that grows": ("a: [1, 2]  # c\n", "a", [1, 2, 3], "a: [1, 2, 3]  # c\n"),
    "a block list item by item": (
        "a:\n  - 1  # one\n  - 2\n", "a", [1, 3, 4], "a:\n  - 1  # one\n  - 3\n  - 4\n",
    ),
    "a block list that shrinks": ("a:\n- x\n- y  # y\n- z\nb: 1\n", "a", ["x", "z"], "a:\n- x\n- z\nb: 1\n"),
    "an item before the first": ("a:\n  - 2\n", "a", [1, 2], "a:\n  - 1\n  - 2\n"),
    "deep in a list": (
        "g:\n  r:\n    - {n: a, w: 2.0}\n    - n: b   # c\n      w: 1\n", "g.r.1.w", 0.5,
        "g:\n  r:\n    - {n: a, w: 2.0}\n    - n: b   # c\n      w: 0.5\n",
    ),
    "one item more": (
        "g:\n  r:\n    - {k: a}\n", "g.r.1", {"k": "b"}, "g:\n  r:\n    - {k: a}\n    - {k: b}\n",
    ),
    "a mapping key by key": (
        "m:\n    a: 1  # one\n    b: 2\nz: 0\n", "m", {"a": 1, "b": 3, "c": 4},
        "m:\n    a: 1  # one\n    b: 3\n    c: 4\nz: 0\n",
    ),
    "the indentation of the file": ("m:\n    a: 1\n", "p.b", 1, "m:\n    a: 1\np:\n    b: 1\n"),
    "a section that holds nothing yet": ("g:  # mine\n", "g.h", 8, "g:  # mine\n  h: 8\n"),
    "a block scalar": ("a: |  # c\n  old\n\n  text\nb: 1\n", "a", "new\n", "a: |  # c\n  new\nb: 1\n"),
    "a block scalar that begins with a line of blanks": (
        "m:\n    a: |\n     \n        old\n", "m.a", "new\n", "m:\n    a: |\n        new\n",
    ),
    "a block scalar of another indentation": (
        "a: |\n    old\nb: 1\n", "a", "p\nq\n", "a: |\n    p\n    q\nb: 1\n",
    ),
    "a flow list that becomes too long for a block value": (
        "a: [1]  # c\n", "a", ["x" * 60, "y" * 60], f"a: [{'x' * 60}, {'y' * 60}]  # c\n",
    ),
    "a text of lines where a flow list was": ("a: [1]\nb: 1\n", "a", "p\nq\n", "a: |\n  p\n  q\nb: 1\n"),
    "a text of lines where one line was": ("a: x  # c\nb: 1\n", "a", "p\nq\n", "a: |  # c\n  p\n  q\nb: 1\n"),
    "a text of lines that begins with a blank": ("a: x\n", "a", "  p\nq", "a: |2-\n    p\n  q\n"),
    "a text of lines in a flow mapping": ("a: {b: x}\n", "a.b", "p\nq", 'a: {b: "p\\nq"}\n'),
    "a mapping becomes a value": ("a:   # c\n  b: 1\nz: 0\n", "a", None, "a: null   # c\nz: 0\n"),
    "a value becomes a mapping": ("a: x   # c\nz: 0\n", "a", {"b": 1}, "a:   # c\n  b: 1\nz: 0\n"),
    "an anchor stays": ("a: &x 1\nb: 2\n", "a", 3, "a: &x 3\nb: 2\n"),
    "an alias is replaced by a value": ("a: &x 1\nb: *x\n", "b", 3, "a: &x 1\nb: 3\n"),
    "an alias of a list is replaced by a list": (
        "a: &x [1, 2]\nb: *x  # c\n", "b", [1, 3], "a: &x [1, 2]\nb: [1, 3]  # c\n",
    ),
    "quotes in a flow mapping stay": ("a: {b: \"y\"}\n", "a.b", "z", "a: {b: \"z\"}\n"),
    "a value on a line of its own": ("a:  # c\n  x  # d\n", "a", 5, "a:  # c\n  5  # d\n"),
    "a plain text over lines": ("a: x\n  y  # c\nb: 1\n", "a", "z", "a: z  # c\nb: 1\n"),
    "a list in a list": ("a:\n- - 1\n  - 2\n- - 3\n", "a.0.1", 5, "a:\n- - 1\n  - 5\n- - 3\n"),
    "before the end of the document": ("---\na: 1\n...\n# x\n", "b", 3, "---\na: 1\nb: 3\n...\n# x\n"),
    "a merged key is overridden": (
        "a: &x {p: 1}\nb:\n  <<: *x\n  q: 2\n", "b.p", 5, "a: &x {p: 1}\nb:\n  <<: *x\n  q: 2\n  p: 5\n",
    ),
    "a key that needs quotes": ("e:\n  A: 1\n", "e.on", "x", "e:\n  A: 1\n  'on': x\n"),
    "a quoted key": ("'a': 1\n", "a", 2, "'a': 2\n"),
    "blank lines at the end": ("a:\n  b: 1\n\n\n# end\n", "a.c", 2, "a:\n  b: 1\n  c: 2\n\n\n# end\n"),
}  # fmt: skip

REMOVE = {
    "a key with its comment": ("a: 1  # one\nb: 2\n", "a", "b: 2\n"),
    "the last key": ("# head\na: 1\n", "a", "# head\n"),
    "the last line without its end": ("a: 1\nb: 2", "b", "a: 1"),
    "line ends of Windows": ("a: 1\r\nb: 2\r\n", "a", "b: 2\r\n"),
    "after a byte order mark": ("\ufeffa: 1\nb: 2\n", "a", "\ufeffb: 2\n"),
    "a block": ("a:\n  b:\n    - 1\n    - 2\nz: 0\n", "a.b", "z: 0\n"),
    "a block scalar": ("a: |\n  x\n\nb: 1\n", "a", "\nb: 1\n"),
    "the first key behind a dash": ("r:\n  - n: a\n    w: 1\n", "r.0.n", "r:\n  - w: 1\n"),
    "the only key behind a dash": ("r:\n  - n: a\n  - n: b\n", "r.0.n", "r:\n  - {}\n  - n: b\n"),
    "a list item": ("r:\n  - a\n  - b  # b\n  - c\n", "r.1", "r:\n  - a\n  - c\n"),
    "the first of a flow": ("r: [a, b, c]\n", "r.0", "r: [b, c]\n"),
    "the last of a flow": ("r: {a: 1, b: 2}  # c\n", "r.b", "r: {a: 1}  # c\n"),
    "comments above stay": ("# about a\na: 1\n# about b\nb: 2\n", "a", "# about a\n# about b\nb: 2\n"),
    "the only key of a document that was begun": ("---\na: 1\n", "a", "---\n{}\n"),
}

REFUSED = {
    "an anchor that others use": ("a: &x 1\nb: *x\n", "a", 2, "a cannot be edited here"),
    "below a single value": ("a: 1\n", "a.b", 2, "a is a single value and has no b"),
    "beyond a list": ("a: [1]\n", "a.5", 2, "a is a list of 1 and has no item 5"),
    "no YAML": ("a: [1\n", "b", 2, "the text cannot be read on line 1"),
    "a duplicate key": ("a: 1\na: 2\n", "a", 3, "duplicate key a "),
}


@pytest.mark.parametrize(("before", "key", "value", "after"), SET.values(), ids=SET)
def test_a_value_is_set_and_every_other_byte_stays(before: str, key: str, value: Any, after: str) -> None:
    assert set_value(before, split_key(key), value) == after
    assert same(get_value(yaml_lines.parse_mapping(after).values, split_key(key)), value)
    assert set_value(after, split_key(key), value) == after  # once more changes nothing


@pytest.mark.parametrize(("before", "key", "after"), REMOVE.values(), ids=REMOVE)
def test_a_key_is_removed_and_every_other_byte_stays(before: str, key: str, after: str) -> None:
    assert remove_value(before, split_key(key)) == after


@pytest.mark.parametrize(("text", "key", "value", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_set_alone_is_refused_with_the_reason(
    text: str, key: str, value: Any, reason: str
) -> None:
    with pytest.raises(EditError, match=reason):
        set_value(text, split_key(key), value)


def test_removing_an_anchor_that_is_used_or_a_key_that_is_not_there_is_refused() -> None:
    with pytest.raises(EditError, match="a cannot be edited here"):
        remove_value("a: &x 1\nb: *x\n", ("a",))
    with pytest.raises(EditError, match="there is no b"):
        remove_value("a: 1\n", ("b",))


def test_a_key_is_renamed_where_it_stands() -> None:
    assert rename_key("x: 1\nlr: 1.0e-6   # rate\n", ("lr",), "learning_rate") == (
        "x: 1\nlearning_rate: 1.0e-6   # rate\n"
    )
    with pytest.raises(EditError, match="cannot be renamed"):
        rename_key("a: 1\nb: 2\n", ("a",), "b")


def test_a_new_key_stands_behind_the_best_of_the_keys_that_are_there() -> None:
    text = "a: 1\n# about b\nb:\n  c: 1\n\nz: 0\n"
    assert set_value(text, ("p",), 2, after=["q", "b", "z"]) == "a: 1\n# about b\nb:\n  c: 1\np: 2\n\nz: 0\n"


TEXTS = [
    "abc", "no", "on", "Yes", "n", "~", "null", "", "1e-5", "1.0e-5", "0o17", "0x1f", "017",
    "1_000", ".5", "5.", "1:30", "2024-01-01", "+1", ".nan", ".inf", "nan", "true", "a: b",
    "a #b", "#x", "it's", '"q"', "é ü", "日本", "- x", "-", "?", "[a", "{b", "a,b", "x]", "a\nb",
    "a\n\nb\n", "\n", "  lead\nx", "trail ", "tab\tin", "\x07", "\u2028", "\x85", "\ufeffx",
    "😀", "=", "<<", "&a", "*b", "!x", "%d", "@x", "`y", "--- x", "...", "a\r\nb", "a:", ":x",
    "C:\\x", "\\d+(\\s)", "{{a}}", ".*(q|v)_proj$", "'", '"', "|", ">",
]  # fmt: skip
NUMBERS = [
    0,
    -5,
    10**20,
    1e-5,
    1.0,
    1e20,
    -0.0,
    3.25e-300,
    1e16,
    float("inf"),
    float("nan"),
    None,
    True,
    False,
]


@pytest.mark.parametrize("value", [*TEXTS, *NUMBERS], ids=repr)
def test_yaml_1_1_and_1_2_read_the_same_value(value: Any) -> None:
    modern = YAML(typ="safe", pure=True)  # YAML 1.2
    lines = "\n".join(entry("a:", value, 0, 2))
    for text, wanted in (
        (f"a: {scalar(value)}\n", value),
        (f"a: {inline([value])}\n", [value]),
        (f"{lines}\n", value),
    ):
        for read in (yaml.safe_load(text)["a"], modern.load(text)["a"]):
            assert same(read, wanted), text


def _value(rng: random.Random, depth: int = 0) -> Any:
    kind = rng.random()
    if depth < 3 and kind < 0.15:
        return [_value(rng, depth + 1) for _ in range(rng.randint(0, 4))]
    if depth < 3 and kind < 0.3:
        keys = rng.sample(["a", "b", "c", "no", "x y", "é", "k#", "a:b"], rng.randint(0, 3))
        return {key: _value(rng, depth + 1) for key in keys}
    return rng.choice(NUMBERS) if kind < 0.5 else rng.choice(TEXTS)


def _document(rng: random.Random) -> str:
    """A config as people write them: blocks, flows, quotes, comments, odd ends."""
    lines = ["---"] if rng.random() < 0.2 else []
    for key in rng.sample(
        ["learning_rate", "beta", "m", "n", "o", "grpo_tui", "report_to"], rng.randint(0, 7)
    ):
        data = {key: _value(rng)}
        if rng.random() < 0.3:
            lines.append(rng.choice(["", "# comment"]))
        style = rng.random()
        if style < 0.6:
            flow = rng.choice([False, None])
            text = yaml.safe_dump(
                data, allow_unicode=True, default_flow_style=flow, indent=rng.choice([2, 4])
            )
            written = text.rstrip("\n").split("\n")
        else:
            written = entry(f"{key}:", data[key], 0, rng.choice([2, 4]))
        if len(written) == 1:
            written[0] += rng.choice(["", "", "  # c", "   # it's: x"])
        lines += written
    newline = rng.choice(["\n", "\n", "\r\n"])
    text = newline.join(lines) + (newline if rng.random() < 0.8 else "")
    return ("\ufeff" if rng.random() < 0.1 else "") + text


def _paths(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if path:
        yield path
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        yield from _paths(inner, (*path, key))


def _is_one_line(value: Any) -> bool:
    return not isinstance(value, (dict, list)) and not set(str(value)) & set("\n\r\x85\u2028")


def test_any_edit_of_any_file_changes_one_value_or_is_refused() -> None:
    edits, refused, single = 0, 0, 0
    for seed in range(400):
        rng = random.Random(seed)
        text = _document(rng)
        try:
            values = yaml_lines.parse_mapping(text).values
        except yaml_lines.YamlError:
            continue
        paths = list(_paths(values))
        for _ in range(3):
            new = _value(rng)
            path = rng.choice(paths) if paths and rng.random() < 0.7 else (rng.choice(["new", "seed", "no"]),)
            old = get_value(values, path)
            edits += 1
            try:
                changed = set_value(text, path, new)
            except EditError:
                refused += 1
                continue
            assert same(get_value(yaml_lines.parse_mapping(changed).values, path), new), (seed, path)
            before, after = text.split("\n"), changed.split("\n")
            if path in paths and _is_one_line(old) and _is_one_line(new):
                single += 1
                differ = sum(one != two for one, two in zip(before, after, strict=True))
                assert differ <= 1, (seed, path, list(difflib.unified_diff(before, after, lineterm="")))
    assert edits > 600
    assert single > 100
    assert refused <= edits // 100


@pytest.mark.parametrize(
    ("first", "second", "alike"),
    [
        ({}, {}, True),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, False),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ([], [], True),
        ([1, 2], [1, 3], False),
        ([1, 2], [1], False),
        ({"a": [{"b": 1}]}, {"a": [{"b": True}]}, False),
        (1, 1.0, False),
        (float("nan"), float("nan"), True),
        (float("nan"), 1.0, False),
        (1.0, float("nan"), False),
        ("1", 1, False),
        (None, None, True),
    ],
)
def test_values_are_the_same_with_their_types_at_every_depth(first: Any, second: Any, alike: bool) -> None:
    assert same(first, second) is alike
