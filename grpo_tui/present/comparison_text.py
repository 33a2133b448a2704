"""Format the result of a comparison: verdict, measures, wins, and each policy's worst prompts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo_tui.core.statistics import FEWEST_PROMPTS
from grpo_tui.core.text import filled, one_line, wrapped
from grpo_tui.present.formatting import MISSING, fixed, plural
from grpo_tui.present.train_view import Span
from grpo_tui.store.comparisons import BASE

MOST_WIDTH = 120
NAME, VALUE = 15, 12
PRINTED_WORST = 3
NEITHER = frozenset({"length"})
"""Kinds of measures where more is neither better nor worse. For `truncated` less is better."""
Body = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Change:
    """How far one policy is above the first. More is `better` (1), less is (-1), or neither (0)."""

    mean: float
    low: float | None
    high: float | None
    better: int

    @property
    def role(self) -> str:
        """Color role: good or bad when the interval excludes zero."""
        if self.low == self.high == 0:
            return "dim"
        if self.low is None or self.high is None or not self.better or self.low <= 0 <= self.high:
            return "text"
        return "good" if (self.low > 0) == (self.better > 0) else "bad"

    @property
    def words(self) -> tuple[str, str]:
        """The difference, and its interval, which is empty when there is none."""
        if self.low is None or self.high is None:
            return signed([self.mean])[0], ""
        if self.low == self.high == 0:
            return "same", ""
        middle, low, high = signed([self.mean, self.low, self.high])
        return middle, f"{low} to {high}"


@dataclass(frozen=True, slots=True)
class Measure:
    """One figure of all policies. There is no change for the first, or where nothing was scored for both."""

    name: str
    values: tuple[float | None, ...]
    changes: tuple[Change | None, ...]


def measures_of(body: Body) -> tuple[Measure, ...]:
    """Return the measures of a comparison, the deciding one first."""
    return tuple(_read(one, [policy["name"] for policy in body["policies"]]) for one in body["measures"])


def _read(body: Body, policies: Sequence[str]) -> Measure:
    better = -1 if body["kind"] == "truncated" else 0 if body["kind"] in NEITHER else 1
    found = [difference(body, name) if at else None for at, name in enumerate(policies)]
    changes = [
        Change(float(one["mean"]), _number(one["low"]), _number(one["high"]), better) if one else None
        for one in found
    ]
    values = tuple(map(_number, body["values"][: len(policies)]))
    return Measure(one_line(body["name"], NAME), values, tuple(changes))


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def report(body: Body, width: int) -> Iterator[str]:
    """Yield the whole report: verdict, measures, wins, and each policy's worst prompts."""
    width = min(width, MOST_WIDTH)
    for verdict in body["verdict"]:
        yield from wrapped(sentence(body, verdict), width)
    yield ""
    yield from measured(body, width)


def measured(body: Body, width: int, *, worst: bool = True) -> Iterator[str]:
    """Yield what was compared and the results; `worst` adds each policy's worst prompts."""
    yield from wrapped(asked(body), width)
    yield from wrapped(judged(body), width)
    for note in body["notes"]:
        yield from wrapped(f"Note: {one_line(note)}", width)
    several = len(body["policies"]) > 2
    for chosen in columns(body, width) if several else [[1]]:
        yield ""
        table = side_by_side(body, chosen) if several else _table(body, 1)
        yield from ("".join(text for text, _ in row).rstrip() for row in table)
    yield ""
    for won in body["wins"]:
        yield from wrapped(_wins(body, won), width)
    for policy in body["policies"][1:] if worst else ():
        yield from _worst(body, policy["name"], width)


def judged(body: Body) -> str:
    """Return which completions count as right."""
    judge = body["judge"]
    if judge is None:
        return (
            "No reward separates right from wrong, so the total decides. Name one with --correct NAME>=SCORE"
        )
    return f"Right means {one_line(judge['name'], 40)} ≥ {judge['least']:g} ({judge['why']})"


def sentence(body: Body, verdict: Body) -> str:
    """Return the verdict on one policy as a sentence."""
    name, word = verdict["policy"], verdict["word"]
    deciding = next(one for one in body["measures"] if one["name"] == body["deciding"])
    found = difference(deciding, name)
    who = f"{one_line(name, 40)}: " if len(body["verdict"]) > 1 else ""
    if found is None:
        return f"{who}not shown: no prompt was scored for both"
    words = interval_words(found["mean"], found["low"], found["high"])
    wins = next(one for one in body["wins"] if one["policy"] == name)
    counted = int(wins["win"] + wins["tie"] + wins["loss"])
    some = f"{counted:,} of " if counted < body["rows"] else ""  # the others have no score
    by = f"{body['deciding']} {words} on {some}{_prompts(body)}"
    if word != "not shown":
        return f"{who}{word} than {_called(body['policies'][0]['name'])}: {by}"
    if counted < FEWEST_PROMPTS:
        return f"{who}not shown: at least {FEWEST_PROMPTS} prompts are needed. {by}"
    if found["low"] == found["high"]:
        return f"{who}not shown: the difference is the same on every prompt. {by}"
    return f"{who}not shown: {by}"


def _called(name: str) -> str:
    return "the base" if name == BASE else one_line(name, 40)


def interval_words(middle: float, low: float | None, high: float | None) -> str:
    """Return a difference, with its 95 % interval if it has one."""
    if low is None or high is None:
        return signed([middle])[0]
    by, least, most = signed([middle, low, high])
    return f"{by} (95 %: {least} to {most})"


def signed(values: Sequence[float]) -> list[str]:
    """Format values with a sign, with as many decimals as the largest needs."""
    digits = digits_of(values)
    return [f"{value:+.{digits}f}" for value in values]


def digits_of(values: Sequence[float | None]) -> int:
    """Return the decimals that give the largest value three significant digits."""
    largest = max((abs(value) for value in values if value is not None), default=0.0)
    return 3 if largest < 1 else 2 if largest < 10 else 1


def difference(measure: Body, policy: str) -> Body | None:
    """Return a policy's difference from the first in a measure; None when no prompt was scored for both."""
    return next((one for one in measure["differences"] if one["policy"] == policy), None)


def _prompts(body: Body) -> str:
    part = "" if body["prompts"] else "held-out " if body["held"] else "training "
    return plural(body["rows"], f"{part}prompt")


def asked(body: Body) -> str:
    """Return what all policies were asked, and how."""
    sampling = body["sampling"]
    engine = " with vLLM" if sampling["engine"] == "vllm" else ""
    seen = (
        ""
        if body["held"]
        else ". Training may have seen these prompts: set grpo_tui.holdout to keep some apart"
    )
    where = f" of {body['prompts']}" if body["prompts"] else ""
    return (
        f"{_prompts(body)}{where} × {plural(body['samples'], 'completion')}, temperature "
        f"{sampling['temperature']:g}, at most {sampling['max_tokens']:,} tokens, seed {body['seed']}, on "
        f"{sampling['device']}{engine}{'' if where else seen}"
    )


def _table(body: Body, at: int) -> Iterator[list[Span]]:
    heads = "".join(f"{one_line(head(body['policies'][one]), VALUE):>{VALUE + 2}}" for one in (0, at))
    yield [(f"{'':{NAME}}{heads}   difference   95 % interval", "dim")]
    for measure in measures_of(body):
        values = [measure.values[0], measure.values[at]]
        cells = "".join(f"{fixed(value, digits_of(values)):>{VALUE + 2}}" for value in values)
        change = measure.changes[at]
        middle, ends = change.words if change is not None else (MISSING, "")
        yield [(f"{filled(measure.name, NAME)}{cells}{middle:>13}   {ends}", "text")]


def side_by_side(
    body: Body, chosen: Sequence[int], shown: int = 0, *, brief: bool = False
) -> list[list[Span]]:
    """Return a table with one column for the first policy and each chosen one, heading first.

    A measure has two rows: values with their differences from the first, and the intervals of these. With
    `brief`, only the deciding measure has its intervals. The heading of the policy `shown` is highlighted.
    """
    first, *widths = _widths(body, chosen)
    heads = [one_line(head(body["policies"][at]), VALUE) for at in (0, *chosen)]
    rows: list[list[Span]] = [
        [(filled("measure", NAME), "title"), (filled(heads[0], first, right=True), "dim")]
    ]
    for at, name, width in zip(chosen, heads[1:], widths, strict=True):
        rows[0].append((filled(name, width, right=True), "strong" if at == shown else "dim"))
    for measure in measures_of(body):
        base, *cells = _cells(measure, chosen)
        values: list[Span] = [(filled(measure.name, NAME), "strong"), (f"{base[0]:>{first}}", "text")]
        ends: list[Span] = [(filled("  95 % interval", NAME + first), "dim")]
        for at, (value, middle, interval), width in zip(chosen, cells, widths, strict=True):
            change = measure.changes[at]
            values += [
                (f"{value:>{width - len(middle) - 1}} ", "text"),
                (middle, change.role if change is not None else "dim"),
            ]
            ends.append((f"{interval:>{width}}", "dim"))
        rows += [values, ends] if any(one[2] for one in cells) and not (brief and rows[1:]) else [values]
    return rows


def _cells(measure: Measure, chosen: Sequence[int]) -> list[tuple[str, str, str]]:
    digits = digits_of([measure.values[at] for at in (0, *chosen)])
    changes = [measure.changes[at] for at in chosen]
    words = [("", ""), *(one.words if one is not None else (MISSING, "") for one in changes)]
    return [(fixed(measure.values[at], digits), *both) for at, both in zip((0, *chosen), words, strict=True)]


def _widths(body: Body, chosen: Sequence[int]) -> list[int]:
    heads = [len(one_line(head(body["policies"][at]), VALUE)) for at in (0, *chosen)]
    cells = [_cells(measure, chosen) for measure in measures_of(body)]
    needed = [[max(len(one[0]) + len(one[1]) + 1, len(one[2])) for one in row] for row in cells]
    return [2 + max(each) for each in zip(heads, *needed, strict=True)]


def columns(body: Body, width: int) -> list[list[int]]:
    """Divide the policies after the first among tables that fit the width."""
    tables: list[list[int]] = [[]]
    for at in range(1, len(body["policies"])):
        if tables[-1] and NAME + sum(_widths(body, [*tables[-1], at])) > width:
            tables.append([])
        tables[-1].append(at)
    return tables


def chosen_columns(body: Body, width: int, shown: int) -> list[int]:
    """Return the policies that fit beside the first: the one shown, the newest, the best, then the others."""
    others = range(1, len(body["policies"]))
    values = next(iter(measures_of(body))).values
    newest = max(others, key=lambda at: (body["policies"][at]["step"] or -1, at))
    best = max(others, key=lambda at: -math.inf if (value := values[at]) is None else value)
    found: list[int] = []
    for at in dict.fromkeys((shown, newest, best, *others)):
        wider = sorted([*found, at])
        if not found or NAME + sum(_widths(body, wider)) <= width:
            found = wider
    return found


def head(policy: Body) -> str:
    """Return the column head of a policy: its name, or the last part of a path."""
    return Path(policy["name"]).name or str(policy["name"])


def _wins(body: Body, won: Body) -> str:
    better = f"{one_line(head({'name': won['policy']}), 40)}: better" if len(body["wins"]) > 1 else "Better"
    return (
        f"{better} on {plural(won['win'], 'prompt')}, the same on {won['tie']:,}, worse on {won['loss']:,} "
        f"(by {body['deciding']})"
    )


def _worst(body: Body, policy: str, width: int) -> Iterator[str]:
    found = [one for one in body["worst"] if one["name"] == policy]
    if not found:
        return
    yield ""
    yield f"Worse than {_called(body['policies'][0]['name'])} on these:"
    heads = [one_line(head(one), VALUE) for one in (body["policies"][0], {"name": policy})]
    cells = max(map(len, heads))
    for one in found[:PRINTED_WORST]:
        before, after = one["values"]
        digits = digits_of([before, after])
        change = f"{body['deciding']} {fixed(before, digits)} → {fixed(after, digits)}"
        yield f"  {one_line(one['prompt'], max(20, width - len(change) - 5))}   {change}"
        for name, text in zip(heads, (one["base"], one["policy"]), strict=True):
            yield f"    {filled(name, cells)}  {one_line(text, max(20, width - cells - 6))}"
    if len(found) > PRINTED_WORST:
        yield "  --json lists more, with whole texts"
