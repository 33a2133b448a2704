"""Every query finds what a plain filter in Python over all completions finds."""

from __future__ import annotations

import itertools
import json
import math
import operator
import random
import re
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from grpo_tui.core import records as r
from grpo_tui.store.connection import open_writer
from grpo_tui.store.query import QueryError
from grpo_tui.store.query_sql import RARE
from grpo_tui.store.rollouts import Rollout, rollouts_of
from grpo_tui.store.search import Found, Scan, Search
from grpo_tui.store.writer import Writer
from tests import PATIENCE_S

NAN, INF = math.nan, math.inf
TEXTS = (
    "the answer is 22", "Wait, 4 + 18 = 22", "wait\nwait", "", "\n\n", "50% _off_ \\ \"so\"", "É l'été ÇA",
    "a\0b wait",
    "x" * 5000 + "END", "[bold]markup[/] \x1b]52;c;aGk=\x07", "<answer>22</answer>", "Kelvin \u212a and ſ",
)  # fmt: skip
VALUES = (0.0, 1.0, 0.5, None, NAN, INF, -INF, -0.25)


def group(number: int, rewards: int, *, flat: float | None = None) -> r.Group:
    """Four completions whose figures go through all kinds of values."""
    completions = []
    for index in range(4):
        n = number * 4 + index
        values = tuple(VALUES[(n + 3 * k) % len(VALUES)] if flat is None else flat for k in range(rewards))
        total = VALUES[(n * 5) % len(VALUES)] if flat is None else flat
        extra = {"x": (n % 5, str(n % 5), None, [1, 2], NAN)[n % 5], "a b.c": n} if n % 3 else {}
        advantage = 0.0 if flat is not None else NAN if n % 11 == 0 else (n % 7) / 3 - 1
        text = TEXTS[n % len(TEXTS) if flat is None else n % 2]
        completions.append(r.Completion(index, text, values, total, advantage, 10 * n, n % 4 == 0, extra))
    prompt: Any = (
        f"What is {number} + 4?\nThink." if number % 2 else [{"role": "user", "content": f'Say "{number}"'}]
    )
    return r.Group(
        number % 2,
        prompt,
        {"answer": (str(number), number, None)[number % 3], "level": number},
        tuple(completions),
    )


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two attempts, the second with other reward functions; steps 7 and later were done again."""
    path = tmp_path_factory.mktemp("queries") / "run.db"
    writer = Writer(open_writer(path))
    writer.write([r.AttemptStarted(1, 0.0, "here", 1)])
    writer.write([r.RewardFunctionInfo(1, i, name, 1.0) for i, name in enumerate(("format", "correct"))])
    for step in range(1, 11):
        flat = {2: 1.0, 3: -0.25, 4: 0.5}.get(step)
        mode = "eval" if step % 5 == 0 else "train"
        groups = (group(2 * step, 2, flat=flat), group(2 * step + 1, 2))
        writer.write([r.GenerationBatch(1, step, 0, mode, step, step + 1, float(step), groups)])
    writer.write([r.AttemptStarted(2, 20.0, "here", 1, resumed_from=6)])
    names = ("correct", "my reward", "correct")
    writer.write([r.RewardFunctionInfo(2, i, name, 1.0) for i, name in enumerate(names)])
    for step in range(7, 13):
        groups = (group(2 * step, 3), group(2 * step + 1, 3, flat=-0.25 if step == 9 else None))
        writer.write([r.GenerationBatch(2, step, 1, "train", step, step, float(step), groups)])
    writer.close()
    return path


@pytest.fixture(scope="module")
def search(database: Path) -> Iterator[Search]:
    """A search that goes through the run in many small blocks, two at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("grpo_tui.store.search.FIRST_BLOCK", 8)
        patch.setattr("grpo_tui.store.search.BLOCK", 12)
        opened = Search(database, scans=2)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def everything(search: Search) -> list[Rollout]:
    """All completions, superseded ones too, in order of recording."""
    found = search.find("", "step", superseded=True)
    return sorted(rollouts_of(search.run, found.ids), key=lambda row: row.id)


def num(value: Any) -> float | None:
    """A value that can be compared with a number, else None."""
    if isinstance(value, str):
        value = float(value) if re.fullmatch(r"-?\d+(\.\d+)?", value) else None
    return None if value is None or isinstance(value, list) or value != value else float(value)


def less(value: Any, than: float) -> bool:
    number = num(value)
    return number is not None and number < than


def scored(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None and math.isfinite(value)]


def flat(rows: list[Rollout]) -> bool:
    return not any(abs(row.advantage) > 0 for row in rows)


def isnan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def found_in(pattern: str, text: Any) -> bool:
    return text is not None and re.search(pattern, str(text)) is not None


def has(text: str, wanted: str) -> bool:
    flags = re.IGNORECASE | re.ASCII if wanted.isascii() else re.IGNORECASE
    return re.search(re.escape(wanted), text, flags) is not None


def prompt_of(row: Rollout) -> str:
    return row.prompt if isinstance(row.prompt, str) else row.prompt[0]["content"]


PLAIN: dict[str, Callable[[Rollout], bool]] = {
    "": lambda c: True,
    "reward<0.2": lambda c: less(c.reward, 0.2),
    "reward<0.2 and tokens>400": lambda c: less(c.reward, 0.2) and c.tokens > 400,
    "reward>0.2": lambda c: num(c.reward) is not None and c.reward > 0.2,
    "reward != 1": lambda c: num(c.reward) is not None and c.reward != 1,
    "not reward == 1": lambda c: c.reward != 1,
    "reward is none": lambda c: c.reward is None,
    "reward is nan": lambda c: c.reward is not None and c.reward != c.reward,
    "reward == inf": lambda c: c.reward == INF,
    "reward -1..0.5": lambda c: num(c.reward) is not None and -1 <= c.reward <= 0.5,
    "advantage>0.5": lambda c: c.advantage > 0.5,
    "advantage is nan": lambda c: c.advantage != c.advantage,
    "rewards.format==0": lambda c: c.rewards.get("format") == 0,
    "rewards.format is none": lambda c: c.rewards.get("format") is None,
    "rewards.correct>0": lambda c: num(c.rewards.get("correct")) is not None and c.rewards["correct"] > 0,
    "rewards.correct is not nan": lambda c: not isnan(c.rewards["correct"]),
    'rewards."my reward" < 1': lambda c: less(c.rewards.get("my reward"), 1),
    'rewards."correct#2" is none': lambda c: c.rewards.get("correct#2") is None,
    "rewards.0 == 1": lambda c: next(iter(c.rewards.values())) == 1,
    "truncated": lambda c: c.truncated,
    "not truncated": lambda c: not c.truncated,
    "truncated or not mode==train": lambda c: c.truncated or c.mode == "eval",
    "step 3..5": lambda c: 3 <= c.step <= 5,
    "step>=9 rank==1": lambda c: c.step >= 9 and c.rank == 1,
    "mode==eval": lambda c: c.mode == "eval",
    "attempt==1 and index==2": lambda c: c.attempt == 1 and c.index == 2,
    "last_step==6 or batch==2": lambda c: c.last_step == 6 or c.batch == 2,
    "group 5..8": lambda c: 5 <= c.group <= 8,
    "mean > 0 std<0.3": lambda c: c.group_mean is not None and c.group_mean > 0 and c.group_std < 0.3,
    '"wait"': lambda c: has(c.completion, "wait"),
    'not "wait"': lambda c: not has(c.completion, "wait"),
    '"50% _off_ \\ "': lambda c: "50% _off_ \\ " in c.completion,
    '"_"': lambda c: "_" in c.completion,
    '"end"': lambda c: has(c.completion, "end"),
    '"b WAIT"': lambda c: has(c.completion, "b wait"),
    '"ÉTÉ ça"': lambda c: has(c.completion, "été ça"),
    '"kelvin K"': lambda c: has(c.completion, "kelvin K"),
    'completion == "\n\n"': lambda c: c.completion == "\n\n",
    'text != ""': lambda c: c.completion != "",
    r'text ~ "\d+ \+ \d+"': lambda c: re.search(r"\d+ \+ \d+", c.completion) is not None,
    r'text ~ "^wait$" and reward<1': lambda c: found_in("^wait$", c.completion) and less(c.reward, 1),
    r'text ~ "(?m)^wait$"': lambda c: re.search("(?m)^wait$", c.completion) is not None,
    r'text ~ "b wait|22"': lambda c: re.search("b wait|22", c.completion) is not None,
    r'text ~ "(?i)KELVIN \w"': lambda c: re.search(r"(?i)KELVIN \w", c.completion) is not None,
    r'text ~ "\w+@|,\s"': lambda c: found_in(r"\w+@|,\s", c.completion),
    **{
        f"text ~ '{pattern}'": lambda c, pattern=pattern: re.search(pattern, c.completion) is not None
        for pattern in (
            r"[A-Z]{3}", r"^[A-Z]\w+,", r"\d{2}\Z", r"(?<=[+=] )\d{2}", r"(?<!\d)\d\s", r"(?s)t.w", r"t.w",
            r"(?i)[\u017fk]", r"(\w)\1x", r"(\d)\1(?!<)", r"\W{2}", r"[^ -~]{2}",
        )
    },
    r'text !~ "[a-z]"': lambda c: re.search("[a-z]", c.completion) is None,
    r'"wait" or text ~ "x{3}" truncated': (
        lambda c: has(c.completion, "wait") or ("xxx" in c.completion and c.truncated)
    ),
    'prompt has "what IS"': lambda c: has(prompt_of(c), "what is"),
    'prompt has "\nthink"': lambda c: has(prompt_of(c), "\nthink"),
    'prompt has "user"': lambda c: has(prompt_of(c), "user"),
    r'prompt ~ "Say .\d"': lambda c: re.search(r"Say .\d", prompt_of(c)) is not None,
    "extra.x == 1": lambda c: num(c.extra.get("x")) == 1,
    'extra.x == "1"': lambda c: c.extra.get("x") is not None and str(c.extra["x"]) == "1",
    "extra.x is none": lambda c: c.extra.get("x") is None,
    "extra.x is nan": lambda c: isinstance(c.extra.get("x"), float) and math.isnan(c.extra["x"]),
    'extra."a b.c" > 40': lambda c: num(c.extra.get("a b.c")) is not None and c.extra["a b.c"] > 40,
    'extra.x has "1,2"': lambda c: c.extra.get("x") == [1, 2],
    'column.answer == "22"': lambda c: c.columns["answer"] in ("22", 22),
    "column.answer >= 20": lambda c: num(c.columns["answer"]) is not None and num(c.columns["answer"]) >= 20,
    "column.answer is none": lambda c: c.columns["answer"] is None,
    "column.missing is none": lambda c: True,
    r'column.answer ~ "^2"': lambda c: found_in("^2", c.columns["answer"]),
    "superseded": lambda c: c.superseded,
    "superseded or not superseded": lambda c: True,
}  # fmt: skip


@pytest.mark.parametrize("line", PLAIN)
def test_a_query_finds_what_a_plain_filter_finds(
    line: str, search: Search, everything: list[Rollout]
) -> None:
    visible = everything if "superseded" in line else [row for row in everything if not row.superseded]
    kept = sorted(filter(PLAIN[line], visible), key=lambda row: (row.step, row.group))
    wanted = [row.id for row in kept]
    found = search.find(line, "step,group")
    assert list(found.ids) == wanted
    assert found.complete
    assert not found.trouble
    assert found.searched == found.of == len(visible)
    assert found.groups == len({row.group for row in visible if row.id in set(wanted)})
    assert sum(bucket.hits for bucket in found.over_steps) == len(wanted)
    assert sum(bucket.of for bucket in found.over_steps) == len(visible)


def joined(numbers: random.Random, depth: int) -> tuple[str, Callable[[Rollout], bool]]:
    """A line made of lines of the table, and the filter that it stands for."""
    if depth == 0:
        line = numbers.choice([line for line in PLAIN if line and "superseded" not in line])
        return f"({line})", PLAIN[line]
    first, one = joined(numbers, depth - 1)
    second, other = joined(numbers, depth - numbers.randint(1, depth))
    return {
        "not": (f"not {first}", lambda c: not one(c)),
        "and": (f"({first} and {second})", lambda c: one(c) and other(c)),
        "beside": (f"({first} {second})", lambda c: one(c) and other(c)),
        "or": (f"({first} or {second})", lambda c: one(c) or other(c)),
    }[numbers.choice(("not", "and", "beside", "or"))]


@pytest.mark.parametrize("seed", range(40))
def test_joined_queries_find_what_joined_filters_find(
    seed: int, search: Search, everything: list[Rollout]
) -> None:
    line, holds = joined(random.Random(seed), 1 + seed % 4)
    wanted = {row.id for row in everything if not row.superseded and holds(row)}
    assert set(search.find(line, "-reward").ids) == wanted, line


def test_a_run_that_trains_is_searched_as_it_is_at_that_moment(tmp_path: Path) -> None:
    writer = Writer(open_writer(tmp_path / "run.db"))
    writer.write([r.AttemptStarted(1, 0.0, "here", 1), r.RewardFunctionInfo(1, 0, "format", 1.0)])
    search = Search(tmp_path / "run.db", scans=2)
    counts = []
    for step in range(1, 4):
        writer.write([r.GenerationBatch(1, step, 0, "train", step, step, 0.0, (group(step, 1),))])
        counts.append((search.find("").count, search.find('text ~ "wait|answer"').of))
    assert counts == [(4, 4), (8, 8), (12, 12)]
    search.close()
    writer.close()


def test_the_table_of_queries_tells_completions_apart(search: Search) -> None:
    counts = {line: search.find(line).count for line in PLAIN}
    assert min(counts.values()) == 0
    assert len({line for line, count in counts.items() if count == 0}) <= 4, counts


@pytest.mark.parametrize(
    ("line", "pattern"),
    [
        # A letter in very many texts is not looked for first, so nothing is, though the other one is rare.
        ('text ~ "_off_|n"', "_off_|n"),
        ('text ~ "(?:END|é)"', "END|é"),
        ('"_off_"', "_off_"),
    ],
)
def test_no_text_is_lost_or_won_by_what_is_looked_for_first(
    line: str, pattern: str, search: Search, everything: list[Rollout]
) -> None:
    assert search.run_names().frequent["n"] >= RARE
    wanted = [row.id for row in everything if not row.superseded and re.search(pattern, row.completion)]
    assert list(search.find(line, "step,group").ids) == wanted


@pytest.mark.parametrize("line", ["zero_std", "mixed", "all_right", "all_wrong", "duplicate"])
def test_kinds_of_groups(line: str, search: Search, everything: list[Rollout]) -> None:
    rows = [row for row in everything if not row.superseded]
    groups = {row.group: [other for other in rows if other.group == row.group] for row in rows}
    ends = {mode: scored(row.reward for row in rows if row.mode == mode) for mode in ("train", "eval")}

    def holds(row: Rollout) -> bool:
        own = groups[row.group]
        kept = scored(other.reward for other in own)
        return {
            "zero_std": flat(own),
            "mixed": not flat(own),
            "all_right": flat(own) and kept[:1] == [max(ends[row.mode])],
            "all_wrong": flat(own) and kept[:1] == [min(ends[row.mode])],
            "duplicate": sum(other.completion == row.completion for other in own) > 1,
        }[line]

    wanted = [row.id for row in rows if holds(row)]
    assert list(search.find(line, "step,group").ids) == wanted
    assert 0 < len(wanted) < len(rows)


READ: dict[str, Callable[[Rollout], Any]] = {
    "reward": lambda c: c.reward,
    "rewards.correct": lambda c: c.rewards["correct"],
    "advantage": lambda c: c.advantage,
    "tokens": lambda c: c.tokens,
    "extra.x": lambda c: c.extra.get("x"),
    "column.answer": lambda c: c.columns["answer"],
    "step": lambda c: c.step,
    "mode": lambda c: c.mode,
    "index": lambda c: c.index,
    "truncated": lambda c: c.truncated,
    "completion": lambda c: c.completion[:80],
}
SORTS = (
    "reward", "-reward", "rewards.correct", "-advantage,tokens", "-extra.x", "column.answer", "-step",
    "mode,-index", "completion", "truncated", "-column.answer,extra.x",
)  # fmt: skip


@pytest.mark.parametrize("sort", SORTS)
def test_rows_come_sorted_with_a_stable_end_and_without_a_value_last(
    sort: str, search: Search, everything: list[Rollout]
) -> None:
    rows = [row for row in everything if not row.superseded]
    for key in reversed(sort.split(",")):
        value, down = READ[key.lstrip("-")], key.startswith("-")
        missing = [row for row in rows if value(row) is None or isnan(value(row))]
        numbers = [row for row in rows if row not in missing and isinstance(value(row), int | float)]
        texts = [row for row in rows if row not in missing and row not in numbers]
        numbers.sort(key=value, reverse=down)
        texts.sort(key=lambda row, value=value: spelled(value(row)), reverse=down)
        rows = numbers + texts + missing
    assert [row.id for row in rollouts_of(search.run, search.find("", sort).ids)] == [row.id for row in rows]


def spelled(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


LINES_OF_OLD = (
    "zero_std", "mixed and reward>0.2", '"answer" not truncated', "rewards.correct is none",
    'text ~ "(?m)^wait$"',
)  # fmt: skip


@pytest.mark.parametrize("line", LINES_OF_OLD)
def test_a_file_from_before_these_indexes_and_columns_is_searched_too(
    line: str, database: Path, search: Search, tmp_path: Path
) -> None:
    old = tmp_path / "run.db"
    shutil.copyfile(database, old)
    connection = sqlite3.connect(old)
    for name in ("completion_figures", "completion_nul", "group_spread"):
        connection.execute(f"DROP INDEX {name}")
    connection.execute("DROP INDEX group_masked")
    for name in ("low", "high", "signal"):
        connection.execute(f"ALTER TABLE generation_group DROP COLUMN {name}")
    connection.execute("ALTER TABLE completion DROP COLUMN masked")
    connection.close()
    opened = Search(old, scans=1)
    found = opened.find(line, "step")
    assert list(found.ids) == list(search.find(line, "step").ids)
    assert found.count > 0
    assert opened.find("all_right or all_wrong").count == 0, "which end it is was not recorded"
    opened.close()


def test_an_unknown_reward_is_an_error_with_its_place_and_what_there_is(search: Search) -> None:
    with pytest.raises(QueryError, match="unknown reward function corect; there is correct") as caught:
        search.find("truncated and rewards.corect==1")
    assert caught.value.at == 14


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('column.anser == "22"', "has column.anser. It has column.answer"),
        ('truncated and extra.zzz has "1"', 'has extra.zzz. It has extra."a b.c", extra.x'),
        ('column.answer == "nowhere"', ""),
        ("tokens > 1e9", "tokens ranges from "),
        ("truncated and index==77", "index ranges from 0 to "),
        ("rewards.correct==7", ""),  # between the lowest and the highest
        ("step 400..", "step ranges from 1 to "),
        ('tokens < 0 or column.answer == "nowhere"', "tokens ranges from "),
        ("column.zzz is none", ""),  # it finds all
    ],
)
def test_a_query_that_finds_nothing_says_which_name_is_not_there(
    line: str, words: str, search: Search
) -> None:
    said = search.find(line).hint
    assert words in said
    assert bool(words) == bool(said)


OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq,
    "!=": operator.ne,
}  # fmt: skip


@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize("name", ["step", "tokens", "index"])
def test_the_range_of_a_field_is_told_where_no_value_of_it_can_fit(
    name: str, op: str, search: Search
) -> None:
    values = sorted({getattr(row, name) for row in rollouts_of(search.run, search.find("").ids)})
    low, high = values[0], values[-1]
    for wanted in (low - 1, low, (low + high) / 2, high, high + 1):
        reachable = any(OPERATORS[op](value, wanted) for value in values)
        if op == "==" and low <= wanted <= high:
            reachable = True  # the range does not say why it is not there
        said = search.find(f"{name} {op} {wanted!r}").hint
        assert bool(said) == (not reachable), (wanted, said)


def test_the_histogram_says_when_it_began(search: Search) -> None:
    began = search.find("step>=9 and index==0").began
    assert began is not None
    assert (began.first_step, began.last_step, began.hits, began.of) == (9, 9, 2, 8)
    assert search.find('"nowhere"').began is None


def test_only_what_came_later_is_searched_when_asked(search: Search, everything: list[Rollout]) -> None:
    found = search.find("", "step", after_group=search.find("").newest_group - 2)
    assert {row.step for row in rollouts_of(search.run, found.ids)} == {12}
    assert found.of == 8


def test_a_pattern_that_never_ends_is_given_up_and_can_be_cancelled(tmp_path: Path) -> None:
    writer = Writer(open_writer(tmp_path / "run.db"))
    completions = tuple(r.Completion(i, "a" * 60 + "!", (), 0.0, 0.0, 1, False) for i in range(40))
    writer.write(
        [
            r.AttemptStarted(1, 0.0, "here", 1),
            r.GenerationBatch(1, 1, 0, "train", 1, 1, 0.0, (r.Group(0, "p", {}, completions),)),
        ]
    )
    writer.close()
    search = Search(tmp_path / "run.db", scans=1)
    try:
        found = search.find(r'text ~ "(a|aa)+$"')
        assert (found.complete, found.count) == (False, 0)
        assert "the pattern is too slow" in found.trouble
        cancel = threading.Event()
        threading.Timer(0.3, cancel.set).start()
        found = search.find(r'text ~ "(a|aa)+$"', cancel=cancel)
        assert (found.complete, found.trouble) == (False, ""), "before the pattern was given up"
        assert search.find(r'text ~ "a!$"').count == 40, "the search that was stopped is of use again"
        assert search.find(r'text ~ "(a|aa)+$"', limit_s=0.3).trouble.startswith(
            "the search was stopped after"
        )
    finally:
        search.close()


def test_parts_are_told_on_the_way_and_the_last_one_is_the_whole(search: Search) -> None:
    parts: list[Found] = []
    whole = search.find("", on_part=parts.append)
    assert parts
    assert all(list(part.ids) == list(whole.ids)[: part.count] for part in parts)
    assert whole.complete
    assert not parts[0].complete


@pytest.mark.parametrize("sort", ["step", "-step"])
def test_a_part_of_a_later_block_waits_for_those_before_it(
    sort: str, search: Search, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The block that holds the first page comes back last."""
    rows, others, lock, calls = Scan.rows, threading.Event(), threading.Lock(), itertools.count()
    whole = search.find("", sort)
    first = 1 if sort == "step" else whole.newest_group
    held = []

    def late(scan: Scan, sql: str, values: Sequence[Any], patterns: Sequence[str]) -> Any:
        with lock:
            call = next(calls)
        if first in values[:2]:  # the two that begin at once may do so in either order
            held.append(call)
            assert others.wait(PATIENCE_S)
        found = rows(scan, sql, values, patterns)
        if call == 2:  # begun when the one before it had been taken
            others.set()
        return found

    monkeypatch.setattr(Scan, "rows", late)
    parts: list[Found] = []
    assert list(search.find("", sort, on_part=parts.append).ids) == list(whole.ids)
    assert len(held) == 1
    assert held[0] < 2
    assert parts
    assert all(list(part.ids) == list(whole.ids)[: part.count] for part in parts)


@pytest.mark.parametrize("line", ["", '"wait"', 'text ~ "wait"'])
def test_a_search_that_is_cancelled_has_what_it_has(line: str, search: Search) -> None:
    cancel = threading.Event()
    cancel.set()
    part, whole = search.find(line, cancel=cancel), search.find(line)
    assert (part.complete, part.trouble) == (False, "")
    assert part.searched < part.of == whole.searched
    assert set(part.ids) < set(whole.ids)


@pytest.mark.parametrize("sort", ["step", "-step"])
def test_a_limit_ends_the_search_with_the_first_of_the_order(sort: str, search: Search) -> None:
    whole, part = search.find("index==1", sort), search.find("index==1", sort, limit=3)
    assert 3 <= part.count < whole.count
    assert list(part.ids) == list(whole.ids)[: part.count]
    assert (part.complete, part.trouble) == (False, "")
    assert search.find("index==1", "-reward", limit=3).count == whole.count, "another order needs all of them"


def test_a_text_with_wildcards_of_sql_is_taken_as_it_is(tmp_path: Path) -> None:
    texts = ("4 + 18", "4_+ 18", "50 off", "50% off", r"a\_b", "a__b", "axb")
    writer = Writer(open_writer(tmp_path / "run.db"))
    done = tuple(r.Completion(i, text, (), 0.0, 0.0, 1, False) for i, text in enumerate(texts))
    group = r.Group(0, "p", {}, done)
    writer.write([r.AttemptStarted(1, 0.0, "here", 1)])
    writer.write([r.GenerationBatch(1, 1, 0, "train", 1, 1, 0.0, (group,))])
    writer.close()
    search = Search(tmp_path / "run.db")
    for line in ("4_+", "50%", "a__b", "_", "%", r"\_"):
        found = rollouts_of(search.run, search.find(f'"{line}"', "step").ids)
        assert [row.completion for row in found] == [text for text in texts if line in text], line
    search.close()


def test_a_run_without_completions_has_nothing_to_find(tmp_path: Path) -> None:
    open_writer(tmp_path / "run.db").close()
    search = Search(tmp_path / "run.db")
    found = search.find('truncated or text ~ "a"')
    search.close()
    assert (found.count, found.of, found.over_steps, found.complete) == (0, 0, (), True)
