"""Format the result of a comparison: verdict, measures, wins, and each policy's worst prompts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from grpo_tui.core.statistics import FEWEST_PROMPTS
from grpo_tui.core.text import filled, one_line, wrapped
from grpo_tui.present.formatting import MISSING, fixed, plural
from grpo_tui.store.comparisons import BASE

MOST_WIDTH = 120
NAME, VALUE = 15, 12
PRINTED_WORST = 3
Body = Mapping[str, Any]


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
    for at, policy in enumerate(body["policies"][1:], 1):
        yield ""
        yield from _table(body, at)
        won = next(one for one in body["wins"] if one["policy"] == policy["name"])
        yield ""
        yield from wrapped(_wins(body, won), width)
        if worst:
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
    found = difference(_measure(body, body["deciding"]), name)
    who = f"{one_line(name, 40)}: " if len(body["verdict"]) > 1 else ""
    if found is None:
        return f"{who}not shown: no prompt was scored for both"
    by = f"{body['deciding']} {_interval(found)} on {_prompts(body)}"
    if word != "not shown":
        return f"{who}{word} than {_called(body['policies'][0]['name'])}: {by}"
    if body["rows"] < FEWEST_PROMPTS:
        return f"{who}not shown: at least {FEWEST_PROMPTS} prompts are needed. {by}"
    if found["low"] == found["high"]:
        return f"{who}not shown: the difference is the same on every prompt. {by}"
    return f"{who}not shown: {by}"


def _called(name: str) -> str:
    return "the base" if name == BASE else one_line(name, 40)


def _interval(found: Body) -> str:
    if found["low"] is None:
        return signed([found["mean"]])[0]
    middle, low, high = signed([found["mean"], found["low"], found["high"]])
    return f"{middle} (95 %: {low} to {high})"


def signed(values: Sequence[float]) -> list[str]:
    """Format values with a sign, with as many decimals as the largest needs."""
    digits = digits_of(values)
    return [f"{value:+.{digits}f}" for value in values]


def digits_of(values: Sequence[float | None]) -> int:
    """Return the decimals that give the largest value three significant digits."""
    largest = max((abs(value) for value in values if value is not None), default=0.0)
    return 3 if largest < 1 else 2 if largest < 10 else 1


def _measure(body: Body, name: str) -> Body:
    found: Body = next(one for one in body["measures"] if one["name"] == name)
    return found


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


def _table(body: Body, at: int) -> Iterator[str]:
    base, policy = body["policies"][0], body["policies"][at]
    heads = "".join(f"{one_line(head(one), VALUE):>{VALUE + 2}}" for one in (base, policy))
    yield f"{'':{NAME}}{heads}   difference   95 % interval"
    for measure in body["measures"]:
        found = difference(measure, policy["name"])
        values = [measure["values"][0], measure["values"][at]]
        cells = "".join(f"{fixed(value, digits_of(values)):>{VALUE + 2}}" for value in values)
        row = f"{filled(one_line(measure['name'], NAME), NAME)}{cells}"
        if found is None:
            yield f"{row}{MISSING:>13}"
        elif found["low"] == found["high"] == 0:
            yield f"{row}{'same':>13}"
        elif found["low"] is None:
            yield f"{row}{signed([found['mean']])[0]:>13}"
        else:
            middle, low, high = signed([found["mean"], found["low"], found["high"]])
            yield f"{row}{middle:>13}   {low} to {high}"


def head(policy: Body) -> str:
    """Return the column head of a policy: its name, or the last part of a path."""
    return Path(policy["name"]).name or str(policy["name"])


def _wins(body: Body, won: Body) -> str:
    return (
        f"Better on {plural(won['win'], 'prompt')}, the same on {won['tie']:,}, worse on {won['loss']:,} "
        f"(by {body['deciding']})"
    )


def _worst(body: Body, policy: str, width: int) -> Iterator[str]:
    found = [one for one in body["worst"] if one["name"] == policy]
    if not found:
        return
    yield ""
    yield f"Worse than {_called(body['policies'][0]['name'])} on these:"
    heads = [
        one_line(head(one), VALUE)
        for one in (body["policies"][0], next(p for p in body["policies"] if p["name"] == policy))
    ]
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
