from __future__ import annotations

import re

import pytest

from grpo_tui.store.query import (
    DEEPEST,
    EVERYTHING,
    LONGEST,
    And,
    Between,
    Comparison,
    Field,
    Flag,
    Has,
    Is,
    Matches,
    Not,
    Or,
    QueryError,
    leaves,
    quoted,
    read_query,
)
from grpo_tui.store.query_functions import compare
from grpo_tui.store.query_sql import demanded
from grpo_tui.store.search import SortKey, bucket_width, read_sort

TRUNCATED = Flag(Field("truncated"))
REWARD = Comparison(Field("reward"), "<", 0.2)


@pytest.mark.parametrize("op", ["==", "!=", "<", "<=", ">", ">="])
@pytest.mark.parametrize("value", [None, "nan", "NaN", float("nan"), "", "word", [], [1], {}, {"a": 1}])
@pytest.mark.parametrize("wanted", [0.0, 1.0, float("inf")])
def test_what_is_no_number_compares_with_none_in_any_way(op: str, value: object, wanted: float) -> None:
    assert not compare(value, op, wanted)


@pytest.mark.parametrize("value", [1, 1.0, True, "1", " 1.0 ", "1e0"])
def test_a_number_counts_however_it_is_spelled(value: object) -> None:
    holds = [op for op in ("==", "!=", "<", "<=", ">", ">=") if compare(value, op, 1.0)]
    assert holds == ["==", "<=", ">="]


def without_places(query: object) -> object:
    """The query with every place in the line set to 0."""
    text = re.sub(r"at=\d+", "at=0", repr(query))
    return eval(text, {**globals(), "inf": float("inf")})  # a repr of this module's own dataclasses


@pytest.mark.parametrize(
    ("line", "query"),
    [
        ("", EVERYTHING),
        ("  ", EVERYTHING),
        ("reward<0.2", REWARD),
        (" reward < .2 ", REWARD),
        ("(reward<0.2)", REWARD),
        ("REWARD<2e-1", REWARD),
        ("reward = -1_000", Comparison(Field("reward"), "==", -1000.0)),
        ("advantage > -inf", Comparison(Field("advantage"), ">", float("-inf"))),
        ("length>=40", Comparison(Field("tokens"), ">=", 40.0)),
        ("reward<0.2 and truncated", And((REWARD, Flag(Field("truncated"))))),
        ("reward<0.2 truncated", And((REWARD, Flag(Field("truncated"))))),
        ("truncated or mixed reward<0.2", Or((TRUNCATED, And((Flag(Field("mixed")), REWARD))))),
        ("not (truncated or mixed)", Not(Or((Flag(Field("truncated")), Flag(Field("mixed")))))),
        ("not not truncated", Not(Not(Flag(Field("truncated"))))),
        ("truncated == false", Not(Flag(Field("truncated")))),
        ("truncated != no", Flag(Field("truncated"))),
        ("step 40..60", Between(Field("step"), 40.0, 60.0)),
        ("step 40:60", Between(Field("step"), 40.0, 60.0)),
        ("step==40..60", Between(Field("step"), 40.0, 60.0)),
        ("step=40:60", Between(Field("step"), 40.0, 60.0)),
        ("step :60", Between(Field("step"), None, 60.0)),
        ("0.2>reward", REWARD),
        ("reward≥−1", Comparison(Field("reward"), ">=", -1.0)),
        ("reward ≠ 1", Comparison(Field("reward"), "!=", 1.0)),
        ("“wait”", Has(Field("completion"), "wait")),
        ("extra.acc==true", Comparison(Field("extra", "acc"), "==", 1.0)),
        ("40<=step<60", And((Comparison(Field("step"), ">=", 40.0), Comparison(Field("step"), "<", 60.0)))),
        ("tokens>1.5k", Comparison(Field("tokens"), ">", 1500.0)),
        ("tokens>1,000", Comparison(Field("tokens"), ">", 1000.0)),
        ("reward>+50%", Comparison(Field("reward"), ">", 0.5)),
        ("reward>1.", Comparison(Field("reward"), ">", 1.0)),
        ("reward <> 1", Comparison(Field("reward"), "!=", 1.0)),
        ("!truncated && (mixed || reward<0.2)", And((Not(TRUNCATED), Or((Flag(Field("mixed")), REWARD))))),
        ('text contains "wait"', Has(Field("completion"), "wait")),
        ("reward is null", Is(Field("reward"), "none")),
        ("step 40..", Between(Field("step"), 40.0, None)),
        ("advantage ..-.5", Between(Field("advantage"), None, -0.5)),
        ("mode==EVAL", Comparison(Field("mode"), "==", "eval")),
        ("rewards.format==0", Comparison(Field("rewards", "format"), "==", 0.0)),
        ("rewards.0==0", Comparison(Field("rewards", "0"), "==", 0.0)),
        ('rewards."a b.c" is not none', Not(Is(Field("rewards", "a b.c"), "none"))),
        ("rewards.org/model-1 is nan", Is(Field("rewards", "org/model-1"), "nan")),
        ('extra.x == "23"', Comparison(Field("extra", "x"), "==", "23")),
        ("columns.answer != 22", Comparison(Field("column", "answer"), "!=", 22.0)),
        ('"wait"', Has(Field("completion"), "wait")),
        ("'it is \"so\"'", Has(Field("completion"), 'it is "so"')),
        (r'"a \" b \d"', Has(Field("completion"), r'a " b \d')),
        ('prompt has "x"', Has(Field("prompt"), "x")),
        (r'text ~ "\d+\s"', Matches(Field("completion"), r"\d+\s")),
        ('text !~ "a"', Not(Matches(Field("completion"), "a"))),
        ('completion == "4"', Comparison(Field("completion"), "==", "4")),
    ],
)  # fmt: skip
def test_a_line_is_read(line: str, query: object) -> None:
    assert without_places(read_query(line)) == query


@pytest.mark.parametrize(
    ("line", "column", "words"),
    [
        ("stp>3", 1, "did you mean step?"),
        ("reward<1 and rewrads.x==1", 14, "did you mean rewards.?"),
        ("zebra", 1, "put search text in quotes"),
        ("reward", 7, "reward is a number: reward<0.5"),
        ("reward <", 9, "compare reward with a number"),
        ("reward 3", 8, "missing operator"),
        ("reward < none", 10, "write reward is none"),
        ("reward < high", 10, "compare reward with a number, such as reward<0.5"),
        ('reward < "a"', 10, '"a" is not'),
        ("step 60..40", 6, "runs backwards"),
        ("step ..", 6, "a range needs an end"),
        ("(reward<1", 1, "this bracket is not closed"),
        ("reward<1)", 9, "unexpected )"),
        ('truncated "abc', 11, "this quote is not closed"),
        ('""', 1, "nothing between these quotes"),
        ('tokens has "a"', 12, "tokens is not text"),
        ("text has abc", 10, "expected text in quotes"),
        ("completion", 11, 'completion has "…"'),
        ("rewards==1", 1, "needs a name after a dot"),
        ("rewards.a.b==1", 10, "put a name with dots in quotes"),
        ("mode==test", 7, "eval or probe"),
        ("truncated > 1", 13, "true or false"),
        ('text < "a"', 6, "==, !=, has or ~"),
        ("not", 4, "expected a field at the end of the query"),
        ("reward<1 or or truncated", 13, "expected a field before or"),
        ('text ~ "(a"', 9, "missing )"),
        ("truncated is none", 14, "is none"),
        ("truncated ; mixed", 11, "unexpected ;"),
        ("step>=3, step<=5", 8, "unexpected ,; write and"),
        ("3 and truncated", 1, "expected a field before 3"),
        ("3<truncated", 1, "truncated is not a number"),
        ("reward!=null", 9, "write reward is not none"),
        ("tokens>2x", 9, "unknown field x"),
        ("answer==3", 1, "unknown field answer; a column of the data is column.answer"),
        ("(" * (DEEPEST + 1) + "truncated" + ")" * (DEEPEST + 1), DEEPEST + 1, "nots are nested too deep"),
        ("x" * (LONGEST + 1), 1, "the limit is"),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_said_in_a_sentence_with_its_column(
    line: str, column: int, words: str
) -> None:
    with pytest.raises(QueryError) as caught:
        read_query(line)
    assert words in str(caught.value)
    assert caught.value.at + 1 == column
    assert f"column {column}: " in caught.value.sentence
    assert "\n" not in caught.value.sentence
    if len(line) < LONGEST:
        assert caught.value.marked().splitlines() == [line, " " * (column - 1) + "^"]


def test_a_reward_function_needs_no_rewards_before_it() -> None:
    names = ("correctness", "Form", "step", "org/model")
    assert without_places(read_query("correctness<1 and Form is none", names)) == And(
        (Comparison(Field("rewards", "correctness"), "<", 1.0), Is(Field("rewards", "Form"), "none"))
    )
    assert without_places(read_query("step 1..2", names)) == Between(Field("step"), 1, 2)
    assert [str(key) for key in read_sort("-correctness", names)] == ["-rewards.correctness"]
    for line, meant in (
        ("corectness<1", "rewards.correctness"),
        ("stp>3", "step"),
        ("form<1", "rewards.Form"),
    ):
        with pytest.raises(QueryError, match=f"did you mean {meant}\\?"):
            read_query(line, names)


@pytest.mark.parametrize("text", ["plain", 'a "quoted" one', "it's", "both ' and \"", "back\\slash"])
def test_a_quoted_text_is_read_back(text: str) -> None:
    assert [leaf.text for leaf in leaves(read_query(quoted(text)))] == [text]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        (r"<answer>\d+</answer>", ("</answer>",)),
        (r"\bwait\b", ("wait",)),
        (r"\\boxed\{\d+\}", ("\\boxed{",)),
        (r"ten|unit\d", ("ten", "unit")),
        (r"ten|\d", ()),
        (r"ab?c*de+f{0,2}", ("de",)),
        (r"x(?:ten|unit)yz", ("yz",)),
        (r"(?:abc)*\d", ()),
        (r"(?i)hello there", ("hello there",)),
        (r"(?i)kiss me", (" me",)),
        (r"(?i:mask)ing", ("ing",)),
        (r"[ab]c[^]d]e|a{b|c}", ("c", "a{b", "c}")),
        (r"\w+@\w+", ("@",)),
        (r"\d+", ()),
        (r"\x41b", ()),
        (r"(?x) ab # cd", ()),
        (r"(?!abc)xyz", ("xyz",)),
        (r"é+straße", ("straße",)),
    ],
)
def test_what_a_pattern_demands(pattern: str, texts: tuple[str, ...]) -> None:
    assert demanded(pattern) == texts


def test_sort_keys_are_read_and_written() -> None:
    keys = read_sort('-reward, step,+rewards."a b",-extra.x')
    assert [str(key) for key in keys] == ["-reward", "step", 'rewards."a b"', "-extra.x"]
    assert read_sort("") == (SortKey(Field("step"), descending=True),)
    with pytest.raises(QueryError, match="did you mean reward") as caught:
        read_sort("step,-rewad")
    assert caught.value.at == 6
    others = read_sort("reward desc, step:asc,rewards.'a,b' DESC,−tokens,-index desc")
    assert [str(key) for key in others] == ["-reward", "step", '-rewards."a,b"', "-tokens", "index"]
    with pytest.raises(QueryError, match="not closed") as caught:
        read_sort('step,rewards."a')
    assert caught.value.at == 5


@pytest.mark.parametrize(
    ("first", "last", "buckets", "width"),
    [(1, 1, 1, 1), (0, 40, 40, 2), (0, 39, 40, 1), (1, 1580, 40, 50), (0, 9999, 10, 1000)],
)
def test_the_width_of_buckets_is_round_and_there_are_not_too_many(
    first: int, last: int, buckets: int, width: int
) -> None:
    assert bucket_width(first, last, buckets) == width
