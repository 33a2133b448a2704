"""`grpo-tui compare`: is the trained model better than the base, by how much, and on what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from grpo_tui.cli.errors import FAILED, OK, CommandError, reported
from grpo_tui.cli.plain import complain, print_json, print_text, show_progress, terminal_width
from grpo_tui.cli.score import wanted_config
from grpo_tui.config.run_config import RunConfig
from grpo_tui.core.text import filled, one_line, wrapped
from grpo_tui.present.baseline_text import progress
from grpo_tui.present.formatting import MISSING, fixed, plural
from grpo_tui.rewards.generating import GenerateError, Progress
from grpo_tui.rewards.lab import Lab, LabError
from grpo_tui.rewards.right_answers import JudgeError
from grpo_tui.ship import compare as ship
from grpo_tui.ship.kept import KeptError
from grpo_tui.ship.paired import FEWEST
from grpo_tui.ship.policies import BASE, Policy, PolicyError, base_policy, resolve
from grpo_tui.store.layout import RunFolder

INTERRUPTED = 130


def compare(parsed: Any) -> int:
    """`grpo-tui compare POLICY…`: exit 1 when one of them is worse than the first."""
    words = list(parsed.policies)
    source = parsed.config or _run_of(words)
    if source is None:
        raise CommandError("Name a config or a run with --config: data and rewards come from there")
    config = wanted_config([str(source)], [*parsed.overrides, *_prompts_of(parsed.prompts)], None)
    policies = _policies(words, config)
    run = next((policy.run for policy in reversed(policies) if policy.run is not None), None)
    prompts = None if parsed.prompts is None else str(parsed.prompts)
    options = ship.CompareOptions(
        parsed.rows, parsed.samples, parsed.seed, parsed.held, parsed.correct, prompts
    )
    names = [policy.name for policy in policies]

    def tell(name: str, now: Progress) -> None:
        show_progress(f"{name} ({names.index(name) + 1} of {len(names)}): {progress(now)}")

    try:
        with reported(LabError, GenerateError, JudgeError, KeptError), Lab(limit_s=parsed.timeout) as lab:
            show_progress("loading torch…")
            body = ship.compare(lab, config, policies, options, run, tell)
    except KeyboardInterrupt:
        show_progress("")
        complain("interrupted. What was generated is kept: the same command continues")
        return INTERRUPTED
    finally:
        show_progress("")
    if parsed.json:
        print_json(body)
    else:
        print_text(report(body, terminal_width()))
    return FAILED if any(one["word"] == "worse" for one in body["verdict"]) else OK


def _run_of(words: Sequence[str]) -> Path | None:
    """The first run among the words, whose config is used."""
    for word in words:
        path, root = Path(word).expanduser(), Path(word.rpartition("@")[0]).expanduser()
        if RunFolder(path).exists():
            return path
        if path.name.startswith("checkpoint-") and RunFolder(path.parent).exists():
            return path.parent
        if "@" in word and not path.exists() and RunFolder(root).exists():
            return root
    return None


def _prompts_of(file: Path | None) -> list[str]:
    """What `--set` says so that a file's rows are asked instead of the config's, all of them."""
    if file is None:
        return []
    if not file.exists():
        raise CommandError(f"--prompts {file}: no such file")
    own = {"dataset": file.absolute(), "holdout": 0, "probe_prompts": "null"}
    return [*(f"grpo_tui.{key}={value}" for key, value in own.items()), "eval_strategy='no'"]


def _policies(words: Sequence[str], config: RunConfig) -> list[Policy]:
    """The policies that are compared, the base before one that is named alone."""
    with reported(PolicyError):
        if len(words) == 1:
            if words[0] == BASE:
                raise CommandError("compare base with what? Name a run, or a model or adapter folder too")
            return [base_policy(config), resolve(words[0])]
        if twice := next((word for at, word in enumerate(words) if word in words[:at]), None):
            raise CommandError(f"{twice} is named twice")
        return [
            base_policy(config) if word == BASE and not Path(word).exists() else resolve(word)
            for word in words
        ]


# -- the report --------------------------------------------------------------------------------------

MOST_WIDTH = 120
NAME, VALUE = 15, 12
"""Cells of a measure's name and of a column."""
PRINTED_WORST = 3
Body = Mapping[str, Any]


def report(body: Body, width: int) -> Iterator[str]:
    """Return the whole report as lines: verdict, measures, wins, and where each policy is worst."""
    width = min(width, MOST_WIDTH)
    for verdict in body["verdict"]:
        yield from wrapped(sentence(body, verdict), width)
    yield ""
    yield from wrapped(_asked(body), width)
    judge = body["judge"]
    if judge is None:
        yield from wrapped(
            "No reward separates right from wrong, so the total decides. Name one with --correct NAME>=SCORE",
            width,
        )
    else:
        yield f"Right is {one_line(judge['name'], 40)} ≥ {judge['least']:g} ({judge['why']})"
    for note in body["notes"]:
        yield from wrapped(f"Note: {one_line(note)}", width)
    for at, policy in enumerate(body["policies"][1:], 1):
        yield ""
        yield from _table(body, at)
        wins = next(one for one in body["wins"] if one["policy"] == policy["name"])
        yield ""
        yield from wrapped(_wins(body, wins), width)
        yield from _worst(body, policy["name"], width)


def sentence(body: Body, verdict: Body) -> str:
    """Return the verdict on one policy in words."""
    name, word = verdict["policy"], verdict["word"]
    found = _difference(_measure(body, body["deciding"]), name)
    who = f"{one_line(name, 40)}: " if len(body["verdict"]) > 1 else ""
    if found is None:
        return f"{who}not shown: no prompt was scored for both"
    by = f"{body['deciding']} {_interval(found)} on {_prompts(body)}"
    if word != "not shown":
        return f"{who}{word} than {_called(body['policies'][0]['name'])}: {by}"
    if body["rows"] < FEWEST:
        return f"{who}not shown: at least {FEWEST} prompts are needed. {by}"
    if found["low"] == found["high"]:
        return f"{who}not shown: the difference is the same on every prompt. {by}"
    return f"{who}not shown: {by}"


def _called(name: str) -> str:
    return "the base" if name == BASE else one_line(name, 40)


def _interval(found: Body) -> str:
    if found["low"] is None:
        return _signed([found["mean"]])[0]
    middle, low, high = _signed([found["mean"], found["low"], found["high"]])
    return f"{middle} (95 %: {low} to {high})"


def _signed(values: Sequence[float]) -> list[str]:
    digits = _digits(values)
    return [f"{value:+.{digits}f}" for value in values]


def _digits(values: Sequence[float | None]) -> int:
    """Decimals that show three figures of the largest value."""
    largest = max((abs(value) for value in values if value is not None), default=0.0)
    return 3 if largest < 1 else 2 if largest < 10 else 1


def _measure(body: Body, name: str) -> Body:
    found: Body = next(one for one in body["measures"] if one["name"] == name)
    return found


def _difference(measure: Body, policy: str) -> Body | None:
    return next((one for one in measure["differences"] if one["policy"] == policy), None)


def _prompts(body: Body) -> str:
    part = "" if body["prompts"] else "held-out " if body["held"] else "training "
    return plural(body["rows"], f"{part}prompt")


def _asked(body: Body) -> str:
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
    """The measures of the first policy and of another side by side."""
    base, policy = body["policies"][0], body["policies"][at]
    heads = "".join(f"{one_line(_head(one), VALUE):>{VALUE + 2}}" for one in (base, policy))
    yield f"{'':{NAME}}{heads}   difference   95 % interval"
    for measure in body["measures"]:
        found = _difference(measure, policy["name"])
        values = [measure["values"][0], measure["values"][at]]
        cells = "".join(f"{fixed(value, _digits(values)):>{VALUE + 2}}" for value in values)
        row = f"{filled(one_line(measure['name'], NAME), NAME)}{cells}"
        if found is None:
            yield f"{row}{MISSING:>13}"
        elif found["low"] == found["high"] == 0:
            yield f"{row}{'same':>13}"
        elif found["low"] is None:
            yield f"{row}{_signed([found['mean']])[0]:>13}"
        else:
            middle, low, high = _signed([found["mean"], found["low"], found["high"]])
            yield f"{row}{middle:>13}   {low} to {high}"


def _head(policy: Body) -> str:
    """A policy's name over its column: of a path the end."""
    return Path(policy["name"]).name or str(policy["name"])


def _wins(body: Body, wins: Body) -> str:
    return (
        f"Better on {plural(wins['win'], 'prompt')}, the same on {wins['tie']:,}, worse on {wins['loss']:,} "
        f"(by {body['deciding']})"
    )


def _worst(body: Body, policy: str, width: int) -> Iterator[str]:
    """The prompts on which a policy falls behind the first most, with a completion of each."""
    found = [one for one in body["worst"] if one["name"] == policy]
    if not found:
        return
    yield ""
    yield f"Worse than {_called(body['policies'][0]['name'])} on these:"
    heads = [
        one_line(_head(one), VALUE)
        for one in (body["policies"][0], next(p for p in body["policies"] if p["name"] == policy))
    ]
    cells = max(map(len, heads))
    for one in found[:PRINTED_WORST]:
        before, after = one["values"]
        digits = _digits([before, after])
        change = f"{body['deciding']} {fixed(before, digits)} → {fixed(after, digits)}"
        yield f"  {one_line(one['prompt'], max(20, width - len(change) - 5))}   {change}"
        for head, text in zip(heads, (one["base"], one["policy"]), strict=True):
            yield f"    {filled(head, cells)}  {one_line(text, max(20, width - cells - 6))}"
    if len(found) > PRINTED_WORST:
        yield "  --json lists more, with whole texts"
