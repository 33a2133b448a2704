"""The catalogue of metrics: what each key means and what it looks like in a healthy run.

`metrics.toml` has every key that TRL's GRPOTrainer and transformers' Trainer log, and those computed here.
For a key that a reward function or a callback logs, `describe` returns a generic entry.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path

from grpo_tui.core.evaluations import GAIN, HIGH, LOW, PREFIX, WITHOUT_GAIN
from grpo_tui.core.records import TOOLS

__all__ = ["COMPUTED", "GROUPS", "METRICS", "Metric", "describe", "is_computed"]


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. The key is TRL's unless `computed`."""

    key: str
    title: str
    """Title of its chart, with the unit after a comma."""
    short: str
    """The title in one or two words, for a narrow column."""
    meaning: str
    healthy: str
    """Its shape in a run that learns, with numbers where a source gives them."""
    unit: str = ""
    group: str = "other"
    better: str = ""
    """`up`, `down`, or empty when neither direction is better in itself."""
    progress: bool = False
    """Whether it measures progress at the task."""
    computed: bool = False
    """Whether this program computes it from the record. No trainer logs it."""


def _read() -> tuple[Metric, ...]:
    table = tomllib.loads(Path(__file__).with_name("metrics.toml").read_text(encoding="utf-8"))
    for entry in table.values():
        entry["meaning"] = " ".join(entry["meaning"].split())
        entry["healthy"] = " ".join(entry["healthy"].split())
    return tuple(Metric(key, **entry, computed=key.startswith("grpo_tui/")) for key, entry in table.items())


METRICS: tuple[Metric, ...] = _read()
"""Every metric with a fixed key. `describe` makes those of reward functions and evaluations."""
GROUPS = ("reward", "completions", "policy", "optimisation", "time", "sampling", "other")
COMPUTED = tuple(m.key for m in METRICS if m.computed)
"""Keys computed here, which begin with `grpo_tui/`."""

EVAL = "eval_"
EVALUATED = PREFIX
"""Prefix of the metrics of `grpo_tui.evaluate`. TRL's own evaluation has `EVAL`."""
_BY_KEY = {metric.key: metric for metric in METRICS}
_REWARD_FUNCTION = re.compile(r"rewards/(?P<name>.+)/(?P<what>mean|std)", re.DOTALL)


def is_computed(key: str) -> bool:
    """Return whether the metric is computed here and logged by no trainer."""
    return key in COMPUTED


def describe(key: str) -> Metric:
    """Return the entry of a metric. An unknown key gets an entry that says who may have logged it.

    Args:
        key: The key as logged. It may hold any text, so make the entry's texts safe before you show them.
    """
    if key in _BY_KEY:
        return _BY_KEY[key]
    found = _REWARD_FUNCTION.fullmatch(key)
    if found is not None:
        return _of_function(key, found["name"], found["what"])
    if key.startswith(TOOLS) and "/" in key[len(TOOLS) :]:
        return _of_tool(key, *key[len(TOOLS) :].rsplit("/", 1))
    if key.startswith(EVALUATED) and len(key) > len(EVALUATED):
        return _of_own_evaluation(key, key[len(EVALUATED) :])
    if key.startswith(EVAL) and len(key) > len(EVAL):
        return _of_evaluation(key, describe(key[len(EVAL) :]))
    return Metric(
        key,
        key,
        key,
        "Logged by a reward function (`log_metric`) or a callback of this run; TRL knows no metric "
        "of this name. A value that a reward function logs is averaged over each logging step.",
        "Only who logs it can say.",
    )


def _of_function(key: str, name: str, what: str) -> Metric:
    if what == "mean":
        return Metric(
            key,
            f"{name}, mean",
            name,
            f"Mean of what the reward function {name} gave, before its weight. Completions for which "
            f"it returned None are left out.",
            "Rises, or stays high. For a reward of 0 or 1, above 0.15 within the first 20 steps; one "
            "that stays at 0 is too hard to hit at random, or broken.",
            group="reward",
            better="up",
            progress=True,
        )
    return Metric(
        key,
        f"{name}, std over the batch",
        f"{name} std",
        f"Standard deviation over the whole batch of what the reward function {name} gave, not inside "
        f"a group.",
        "Above 0; at 0 it gives every completion the same and teaches nothing.",
        group="reward",
    )


def _of_tool(key: str, name: str, what: str) -> Metric:
    told = {"failed": "calls that raised", "seconds": "seconds in calls that returned"}.get(what, what)
    return Metric(
        key,
        f"{name}, {told}",
        f"{name} {what}",
        f"Computed here: {told} of the tool {name} since the last logged step, on the first GPU.",
        "Failed calls fall while the policy learns to use the tool. Divide them by the calls for a rate, "
        "and the seconds by those that did not fail.",
        unit="s" if what == "seconds" else "calls",
        group="completions",
    )


def _of_own_evaluation(key: str, name: str) -> Metric:
    """Return the entry for a measure of `grpo_tui.evaluate`, or for its gain over the first evaluation."""
    if key == WITHOUT_GAIN:
        return Metric(
            key,
            "evaluations without a gain",
            "no gain",
            "Evaluations since the last gain: one that was shown to be better than the gain before it, or "
            "than the first evaluation. The 95 % interval of a gain, paired by prompt, lies above 0.",
            "Returns to 0 while the policy gets better. A rule can stop the run when it grows.",
            group="reward",
            better="down",
        )
    for ending, what in ((LOW, "gain, low end"), (HIGH, "gain, high end"), (GAIN, "gain")):
        if name.endswith(ending):
            measure = name.removesuffix(ending)
            end = {
                GAIN: "",
                LOW: ": the low end of its 95 % interval",
                HIGH: ": the high end of that interval",
            }
            return Metric(
                key,
                f"{measure} in evaluation, {what}",
                f"{measure} {what}",
                f"How far {measure} lies above the first evaluation, paired by prompt{end[ending]}.",
                "Above 0. The policy is shown to be better when the low end is above 0.",
                group="reward",
                better="up",
            )
    up = name.startswith(("pass@", "reward/")) or name == "total"
    return Metric(
        key,
        f"{name.removeprefix('reward/')} in evaluation",
        f"eval {name.removeprefix('reward/')}",
        f"{_evaluated(name)}, on the held-out prompts of grpo_tui.evaluate: a mean over the prompts.",
        "Rises, and stays above the first evaluation." if up else "No direction is good in itself.",
        group="reward" if up else "completions",
        better="up" if up else "",
        progress=up,
    )


def _evaluated(name: str) -> str:
    if name.startswith("pass@"):
        count = name.removeprefix("pass@")
        if count == "1":
            return "Chance that a completion is right"
        return f"Chance that at least one of {count} completions is right, estimated without bias"
    named = {
        "total": "Weighted sum of all rewards",
        "length": "Length of a completion in tokens",
        "truncated": "Fraction of completions that were cut off at the length limit",
    }
    return named.get(name, f"What the reward function {name.removeprefix('reward/')} gave, before its weight")


def _of_evaluation(key: str, trained: Metric) -> Metric:
    unit = f", {trained.unit}" if trained.unit else ""
    name = trained.title.removesuffix(unit)
    return replace(
        trained,
        key=key,
        title=f"{name} in evaluation{unit if name != trained.title else ''}",
        short=f"eval {trained.short}",
        meaning=f"On the evaluation set, no gradient taken. {trained.meaning}",
        computed=False,
    )
