"""The catalogue of metrics: what each key means and how it looks in a run that learns.

`metrics.toml` covers every key that TRL's GRPOTrainer and transformers' Trainer log, and the few computed
here. Of what a reward function or a callback logs under its own key, `describe` can only say that.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path

__all__ = ["COMPUTED", "GROUPS", "METRICS", "Metric", "describe", "is_computed"]


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric as a person is told of it. The key is TRL's unless `computed`."""

    key: str
    title: str
    """What stands over its chart, with the unit after a comma."""
    short: str
    """The title in a word or two, for a narrow column."""
    meaning: str
    """What is measured, in one to three sentences."""
    healthy: str
    """The shape it has in a run that learns, with numbers where a source gives them."""
    unit: str = ""
    group: str = "other"
    """`reward`, `completions`, `policy`, `optimisation`, `time`, `sampling` or `other`."""
    better: str = ""
    """`up`, `down`, or empty when neither direction is good in itself."""
    progress: bool = False
    """True when it tells whether the policy gets better at the task."""
    computed: bool = False
    """True when this program works it out of what was recorded; no trainer logs it under this key."""


def _read() -> tuple[Metric, ...]:
    table = tomllib.loads(Path(__file__).with_name("metrics.toml").read_text(encoding="utf-8"))
    for entry in table.values():
        entry["meaning"] = " ".join(entry["meaning"].split())
        entry["healthy"] = " ".join(entry["healthy"].split())
    return tuple(Metric(key, **entry, computed=key.startswith("grpo_tui/")) for key, entry in table.items())


METRICS: tuple[Metric, ...] = _read()
"""Every entry with a fixed key. Metrics of a reward function and of an evaluation come from `describe`."""
GROUPS = ("reward", "completions", "policy", "optimisation", "time", "sampling", "other")
COMPUTED = tuple(m.key for m in METRICS if m.computed)
"""Keys of what is worked out here from the record; they begin with `grpo_tui/`."""

EVAL = "eval_"
_BY_KEY = {metric.key: metric for metric in METRICS}
_REWARD_FUNCTION = re.compile(r"rewards/(?P<name>.+)/(?P<what>mean|std)", re.DOTALL)


def is_computed(key: str) -> bool:
    """True for a key that no trainer logs and this program works out."""
    return key in COMPUTED


def describe(key: str) -> Metric:
    """What is known of a metric; for a key nobody knows, an entry that says who may have logged it.

    Args:
        key: A key as logged. It may hold anything; texts made of it must be made safe before they are shown.
    """
    if key in _BY_KEY:
        return _BY_KEY[key]
    found = _REWARD_FUNCTION.fullmatch(key)
    if found is not None:
        return _of_function(key, found["name"], found["what"])
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


def _of_evaluation(key: str, trained: Metric) -> Metric:
    """The same metric over the evaluation set."""
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
