"""Rules about the signal: groups that teach nothing, reward functions, prompts."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from grpo_tui.core.findings import Severity
from grpo_tui.core.statistics import SAME
from grpo_tui.health.facts import Repeats
from grpo_tui.health.state import (
    NO_SIGNAL,
    ZERO_STD,
    Found,
    FunctionState,
    Limits,
    RunState,
    number,
    percent,
)

_EQUAL = ("equal", "all-correct", "all-wrong")
FORMAT = re.compile(r"format|tag|xml|structure|template", re.IGNORECASE)
CORRECT = re.compile(r"correct|accura|answer|solution|exact|verif|result|right|math|gsm|solve", re.IGNORECASE)
MEAN = re.compile(r"rewards/(.+)/mean", re.DOTALL)
"""TRL's key of the mean of a reward function."""
NAMED = 3
_QUERIES = {
    "masked": "masked",
    "all-correct": "all_right",
    "all-wrong": "all_wrong",
    "unscored": "reward is none",
}
_SENTENCES = {
    "masked": "Every completion is truncated in {most}, so nothing is learned from them",
    "unscored": "No reward function scored {most}",
    "cancels": "Scores differ and totals do not in {most}",
    "identical": "All completions are the same text in {most}",
    "constant": "Every completion of the run got {high}, so no group has a signal",
    "prompt-only": "Completions of one prompt always get the same score, although their texts differ",
    "all-wrong": "All completions got the lowest total of the run, {low}, in {most}",
    "all-correct": "All completions got the highest total of the run, {high}, in {most}",
    "equal": "Totals are equal in {most}, so these have no signal",
}


def _no_signal(cause: str, state: RunState, limits: Limits) -> Found | None:
    counts = state.causes(limits["steps"])
    if cause == "equal" and not state.groups:
        return _zero_std(state, limits)
    total, none = counts.total(), counts.total() - counts["some"]
    if total < limits["groups"] or not none or none < limits["share"] * total:
        return None
    if _main_cause(state, counts) != cause:
        return None
    of_all = cause in ("constant", "prompt-only", "equal")
    explained = sum(counts[one] for one in _EQUAL) if of_all else counts[cause]
    steps = min(limits["steps"], state.observations)
    most = f"{percent(explained / total)} of the groups of the last {steps:g} steps"
    told = _SENTENCES[cause].format(most=most, low=number(state.low), high=number(state.high))
    evidence: dict[str, object] = {"groups": total, "no_signal": none / total, cause: explained / total}
    learned = state.high - state.course("reward").start > limits.get("easy", 1.0) * (state.high - state.low)
    solved = cause == "all-correct" and state.had_signal and learned
    query = _QUERIES.get(cause, "zero_std")
    severity: Severity | None = "info" if solved else None
    return Found(f"{told}.", evidence, query, severity=severity, changed=state.course(NO_SIGNAL))


def _zero_std(state: RunState, limits: Limits) -> Found | None:
    """Judge by the logged share of groups without a signal, when no groups were recorded."""
    course, steps = state.course(ZERO_STD), limits["steps"]
    level = course.level(steps)
    if course.count < steps or not level >= limits["share"]:
        return None
    said = f"{ZERO_STD} is {percent(level)} on average over the last {steps:g} steps."
    return Found(said, {"no_signal": level}, changed=course)


def _not_finite(state: RunState, limits: Limits) -> Found | None:
    counts = state.causes(limits["steps"])
    lost = counts["not-finite"]
    if lost < max(limits["groups"], limits["share"] * counts.total()):
        return None
    share = lost / counts.total()
    said = (
        f"They leave {percent(share)} of the groups of the last {limits['steps']:g} steps without a signal."
    )
    since = state.first(lambda seen: seen.causes["not-finite"], limits["steps"])
    return Found(said, {"groups": counts.total(), "not-finite": share}, "zero_std", since=since)


def _main_cause(state: RunState, counts: dict[str, int]) -> str:
    """Return the most frequent cause of groups without a signal; `equal` for a mix of equal totals."""
    none = {cause: count for cause, count in counts.items() if cause != "some"}
    if 2 * sum(none.get(cause, 0) for cause in _EQUAL) >= sum(none.values()):
        if state.high - state.low < SAME:
            return "constant"
        if state.texts_differed >= 40 and not any(function.ever_varied for function in state.functions):
            return "prompt-only"
    cause, count = max(none.items(), key=lambda one: one[1])
    return "equal" if cause in _EQUAL and 2 * count < sum(none.values()) else cause


def _stuck(state: RunState, limits: Limits) -> Found | None:
    used = state.used
    if state.observations < limits["steps"] or not any(function.span >= SAME for _, _, function in used):
        return None
    for name, _, function in used:
        if function.values >= limits["completions"] and function.span < SAME:
            value = function.high
            said = f"{name} gave {number(value)} to each of {function.values:,} completions."
            severity: Severity | None = None if abs(value) < SAME else "info"
            return Found(said, {"function": name, "value": value, "completions": function.values},
                         severity=severity)  # fmt: skip
    return None


def _random(state: RunState, limits: Limits) -> Found | None:
    if state.again(limits["steps"]) < max(1, limits["repeats"]):
        return None
    for index, (name, weight) in enumerate(zip(state.settings.names, state.settings.weights, strict=True)):
        seen = state.repeated(index, limits["steps"]) if weight else Repeats()
        if seen.again >= limits["repeats"] and seen.share >= limits["share"]:
            said = (
                f"{name} gave different scores to {seen.again:,} completions that repeat a text of their "
                f"group. Their variance is {percent(min(1.0, seen.share))} of the variance within groups."
            )
            return Found(said, {"function": name, "repeated": seen.again, "share": seen.share})
    return None


def _drowned(state: RunState, limits: Limits) -> Found | None:
    used = state.used
    if state.settings.normalized or len(used) < 2 or state.observations < limits["steps"]:
        return None
    name, weight, loud = max(used, key=lambda one: abs(one[1]) * one[2].span)
    highest = abs(weight) * loud.span
    groups = max(1, state.causes(limits["steps"]).total())
    for other, its_weight, one in used:
        span = abs(its_weight) * one.span
        if one is loud or span < SAME or highest < limits["ratio"] * span:
            continue
        share = state.contributions(limits["steps"])[state.functions.index(one)]
        moves = one.moved(limits["steps"]) / groups
        if share is not None and share < limits["contribution"] and moves >= limits["moves"]:
            said = (
                f"{name} spans {number(highest)} after its weight, {other} only "
                f"{number(span)}. {other} contributes {percent(max(0.0, share))} of the variance."
            )
            evidence = {"function": other, "drowned_by": name, "ratio": highest / span, "contribution": share}
            return Found(said, evidence)
    return None


def _saturated(state: RunState, limits: Limits) -> Found | None:
    groups = state.causes(limits["steps"]).total() if state.observations >= limits["steps"] else 0
    for name, _, function in state.used if groups else ():
        if function.span < SAME or function.moved(limits["steps"]) > limits["moves"] * groups:
            continue
        level = function.course.level(limits["steps"])
        if level >= function.high - limits["margin"] * function.span:
            said = f"{name} is {number(level)} on average, and its highest value is "
            return Found(
                f"{said}{number(function.high)}.", {"function": name, "mean": level, "highest": function.high}
            )
    return None


def _scored_by(state: RunState, limits: Limits) -> list[tuple[str, FunctionState]]:
    """Return the functions that moved; of logs without completions, by their logged means.

    The range of a logged mean is taken as 0 to 1, or wider where the means are.
    """
    if state.groups:
        least = 2 * limits["steps"]
        return [(name, one) for name, _, one in state.used if one.span >= SAME and one.course.count >= least]
    found = ((MEAN.fullmatch(key), course) for key, course in state.courses.items())
    return [
        (name[1], FunctionState(course, min(0.0, course.low), max(1.0, course.high)))
        for name, course in found
        if name is not None and course.count >= limits["rows"]
    ]


def _format_only(state: RunState, limits: Limits) -> Found | None:
    steps, used = limits["steps"], _scored_by(state, limits)
    forms = [(name, one) for name, one in used if FORMAT.search(name)]
    others = [(name, one) for name, one in used if not FORMAT.search(name)]
    others = [(name, one) for name, one in others if CORRECT.search(name)] or others
    if not forms or not others:
        return None
    for _, one in others:
        share = (one.course.level(steps) - one.low) / one.span
        if share >= limits["solved"] or one.rose(limits["gain"], steps):
            return None
    for name, one in forms:
        level, start = one.course.level(steps), one.course.start
        lowest = min(one.course.newest(steps))
        if (
            level - start >= limits["rise"] * one.span
            and lowest >= one.low + limits["ceiling"] * one.span - 2 * one.course.noise
            and level >= one.low + limits["ceiling"] * one.span
        ):
            other, its = others[0]
            stayed = its.course.level(steps)
            said = f"{name} rose from {number(start)} to {number(level)}, {other} stayed at {number(stayed)}."
            evidence = {"function": name, "start": start, "level": level, "other": other, "stayed": stayed}
            return Found(said, evidence)
    return None


def _prompts(solved: bool, state: RunState, limits: Limits) -> Found | None:
    if state.high - state.low < SAME or not state.had_signal:
        return None
    found = [
        key
        for key, seen in state.prompts.items()
        if seen.count >= limits["visits"]
        and (seen.low > state.high - SAME if solved else seen.high < state.low + SAME)
    ]
    if len(found) < limits["prompts"]:
        return None
    visited = sum(seen.count >= limits["visits"] for seen in state.prompts.values())
    what = "the highest total in every completion" if solved else "the lowest total in every completion"
    said = f"{len(found)} of {visited} prompts visited at least {limits['visits']:g} times got {what}."
    return Found(said, {"prompts": len(found), "visited": visited, "keys": sorted(found)[:NAMED]})


RULES: dict[str, Callable[[RunState, Limits], Found | None]] = {
    "signal.masked": partial(_no_signal, "masked"),
    "signal.not-finite": _not_finite,
    **{f"signal.{cause}": partial(_no_signal, cause) for cause in list(_SENTENCES)[1:]},
    "signal.reward-stuck": _stuck,
    "signal.reward-random": _random,
    "signal.reward-drowned": _drowned,
    "signal.reward-saturated": _saturated,
    "signal.format-only": _format_only,
    "signal.prompts-unsolved": partial(_prompts, False),
    "signal.prompts-solved": partial(_prompts, True),
}
