"""Findings from comparing functions: names, cancellation, redundancy, dominance, cost, float32.

Everything is judged within groups, because only differences there become advantages.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence

from grpo_tui.core.findings import Finding
from grpo_tui.core.statistics import both_finite, standardized, variance_shares, within_groups
from grpo_tui.rewards.samples import Sample, groups_of
from grpo_tui.rewards.score_report import Aggregate, FunctionScore

SAME = 0.995
LEAST_PAIRS = 6
"""Minimum number of samples in groups for a statement about two functions."""
DROWNS = 0.95
SLOW_S = 2.0
FEWEST, MOST = 3, 5
"""Recommended number of rewards."""


def names_findings(results: Sequence[FunctionScore]) -> Iterator[Finding]:
    """Report names shared by several functions."""
    for name, count in Counter(result.info.name for result in results).items():
        if count > 1:
            message = (
                f"{count} reward functions are called {name}. TRL logs them as one metric, "
                f"rewards/{name}/mean, the average of all, and its table of completions keeps only the last "
                "one's scores. Give each a name under grpo_tui.rewards"
            )
            yield Finding("rewards.duplicate-name", "error", name, None, message)


def count_findings(results: Sequence[FunctionScore]) -> Iterator[Finding]:
    """Report fewer than three rewards or more than five. A reward model may be the only one."""
    if all(result.info.kind == "model" for result in results):
        return
    if len(results) < FEWEST:
        message = (
            "Consider 3 to 5 small rewards: partial credit helps a model that rarely gets the whole answer "
            "right"
        )
        yield Finding("rewards.few", "info", None, None, message)
    elif len(results) > MOST:
        message = (
            "With more than 5 rewards it is hard to tell which one is learned. Remove those that contribute "
            "least"
        )
        yield Finding("rewards.many", "info", None, None, message)


def pair_findings(
    results: Sequence[FunctionScore],
    samples: Sequence[Sample],
    weights: Sequence[float],
    *,
    normalized: bool = False,
) -> Iterator[Finding]:
    """Report functions that cancel each other or measure the same, each over its std if `normalized`."""
    groups = [g for g in groups_of(samples) if len(g) > 1]
    usable = [(i, r) for i, r in enumerate(results) if r.failure is None and weights[i]]
    for (i, a), (j, b) in itertools.combinations(usable, 2):
        pairs = [both_finite(a.scores, b.scores, group) for group in groups]
        left, right = (
            [
                [value * weight for value in (standardized(side) if normalized else side)]
                for side in (pair[at] for pair in pairs)
            ]
            for at, weight in ((0, weights[i]), (1, weights[j]))
        )
        if sum(len(group) for group in left) < LEAST_PAIRS:
            continue
        coefficient = within_groups(left, right)
        names = f"{a.info.name} and {b.info.name}"
        if coefficient < -SAME and _sum_is_flat(left, right):
            message = (
                f"{names} cancel each other: with their weights {weights[i]:g} and {weights[j]:g} their sum "
                "is the same for every completion of a group, so neither is learned. Change a sign or a "
                "weight"
            )
            yield Finding("rewards.cancel", "error", a.info.name, None, message)
        elif coefficient > SAME:
            message = (
                f"{names} measure the same on these samples (correlation {coefficient:.3f} within groups): "
                "here they act as one function of the summed weight. If they should differ, score more "
                "varied completions"
            )
            yield Finding("rewards.same", "info", a.info.name, None, message)


def _sum_is_flat(left: Sequence[Sequence[float]], right: Sequence[Sequence[float]]) -> bool:
    spread_sum = spread_left = 0.0
    for a, b in zip(left, right, strict=True):
        if a:
            sums = [x + y for x, y in zip(a, b, strict=True)]
            spread_sum = max(spread_sum, max(sums) - min(sums))
            spread_left = max(spread_left, max(a) - min(a))
    return spread_sum < 0.05 * spread_left


def share_findings(
    results: Sequence[FunctionScore],
    samples: Sequence[Sample],
    weights: Sequence[float],
    *,
    normalized: bool = False,
) -> list[Finding]:
    """Report a function that causes nearly all of the variance within groups, while others vary too."""
    shares = shares_of(results, samples, weights, normalized=normalized)
    varied = [
        i for i, r in enumerate(results) if r.failure is None and weights[i] and len({*r.scores} - {None}) > 1
    ]
    if len(varied) < 2 or len(samples) < LEAST_PAIRS:
        return []
    for i in varied:
        share = shares[i]
        if share is not None and share > DROWNS:
            others = ", ".join(results[k].info.name for k in varied if k != i)
            name = results[i].info.name
            scale = ", scale it to 0 … 1, or use multi_objective_aggregation: normalize_then_sum"
            message = (
                f"{name} dominates: it causes {min(1.0, share):.0%} of the differences within groups, so "
                f"{others} hardly matters. Lower its weight ({weights[i]:g}){'' if normalized else scale}"
            )
            return [Finding("rewards.drowns", "warning", name, results[i].info.line, message)]
    return []


def shares_of(
    results: Sequence[FunctionScore],
    samples: Sequence[Sample],
    weights: Sequence[float],
    *,
    normalized: bool = False,
) -> list[float | None]:
    """Return each function's share of the variance of the weighted total within groups. They sum to 1."""
    groups = [[[r.scores[i] for r in results] for i in group] for group in groups_of(samples)]
    return variance_shares(groups, weights, normalized=normalized)


def unscored_findings(results: Sequence[FunctionScore], aggregate: Aggregate) -> list[Finding]:
    """Report samples that no function scored, in groups with scored samples.

    Abstaining from a whole group, as for a row without a usable answer, is fine.
    """
    totals = aggregate.totals
    missing = [
        i
        for group in aggregate.groups
        if any(totals[k] is not None for k in group.indices)
        for i in group.indices
        if totals[i] is None
    ]
    if not missing or any(r.failure for r in results):
        return []
    message = (
        f"{len(missing)} of {len(totals)} samples get no score from any function (first: sample "
        f"{missing[0] + 1}); TRL gives them the advantage 0 and leaves them out of their group's mean"
    )
    return [Finding("rewards.unscored", "warning", None, None, message)]


def float32_findings(
    results: Sequence[FunctionScore], weights: Sequence[float], aggregate: Aggregate, mode: str
) -> list[Finding]:
    """Report a group with equal totals but nonzero advantages, because float32 cannot represent the total."""
    if mode == "none":
        return []
    for group in aggregate.groups:
        exact = [
            sum(w * s for w, r in zip(weights, results, strict=True) if (s := r.scores[i]) is not None)
            for i in group.indices
        ]
        if len(exact) < 2 or not all(math.isfinite(e) for e in exact):
            continue
        noise = max(abs(a) for a in group.advantages)
        if max(exact) - min(exact) < 1e-9 * max(1.0, abs(exact[0])) and noise > 0.01:
            message = (
                f"the totals of a group are equal ({exact[0]:g}), yet TRL computes advantages up to "
                f"{noise:.2f}: in float32 their mean is rounded, and the rounding error is divided by a std "
                "of 0. Use smaller scores, or scores that float32 represents exactly"
            )
            return [Finding("rewards.float32", "warning", None, None, message)]
    return []


def seconds_per_batch(result: FunctionScore, completions: int) -> float:
    """Return the estimated duration of a call with this many completions, assuming linear growth."""
    return result.seconds / max(len(result.scores), 1) * completions


def cost_findings(results: Sequence[FunctionScore], completions: int) -> Iterator[Finding]:
    """Report functions that are slow for the config's batch."""
    for result in results:
        seconds = seconds_per_batch(result, completions)
        if result.failure is None and seconds > SLOW_S:
            message = (
                f"reward '{result.info.name}' takes {result.seconds / max(len(result.scores), 1):.3f} s a "
                f"completion: about {seconds:.1f} s for the {completions} completions of a generation batch, "
                "while the GPU waits"
            )
            yield Finding("rewards.slow", "warning", result.info.name, result.info.line, message)
