"""Other weights over scores that are there already: totals, advantages and what is to be said of the weights.

No function is called again; the lab's child aggregates as TRL does.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from grpo_tui.core.findings import Finding, errors_first
from grpo_tui.rewards.checks.together import (
    float32_findings,
    pair_findings,
    share_findings,
    shares_of,
    unscored_findings,
)
from grpo_tui.rewards.lab import Aggregation, Lab, Scored
from grpo_tui.rewards.scoring import Report, completions_at_once

OF_WEIGHTS = ("rewards.cancel", "rewards.same", "rewards.drowns", "rewards.unscored", "rewards.float32")
"""Findings that other weights can change."""


def unchecked(
    lab: Lab,
    scored: Scored,
    weights: Sequence[float],
    findings: Sequence[Finding] = (),
    aggregation: Aggregation | None = None,
) -> Report:
    """Return scores, totals and advantages at once; what is wrong with them takes longer to find.

    Args:
        lab: with the config loaded.
        scored: what the functions gave.
        weights: one per function.
        findings: what was found before, to stand until the checks have ended.
        aggregation: the modes; the config's when None.

    Raises:
        LabError: the weights do not fit.
    """
    assert lab.config is not None
    mode = aggregation or Aggregation.of(lab.config)
    shares = shares_of(scored.functions, scored.samples, weights, normalized=mode.normalized)
    return Report(
        scored,
        lab.aggregate(scored, weights, mode),
        tuple(weights),
        mode,
        tuple(findings),
        tuple(shares),
        completions_at_once(lab.config),
    )


def reweighed(
    lab: Lab,
    report: Report,
    weights: Sequence[float],
    muted: Collection[int] = (),
    aggregation: Aggregation | None = None,
) -> Report:
    """Return the report as it is with other weights.

    Args:
        lab: aggregates; nothing need be loaded.
        report: what was scored.
        weights: one per function.
        muted: indices of functions that are left out, as if the run did not have them.
        aggregation: the modes; the report's own when None.

    Raises:
        LabError: the weights or modes do not fit.
    """
    mode = aggregation or report.aggregation
    aggregate = lab.aggregate(report.scored, weights, mode, muted)
    results, samples = report.scored.functions, report.scored.samples
    heard = [0.0 if i in muted else w for i, w in enumerate(weights)]
    audible = [r for i, r in enumerate(results) if i not in muted]
    found: list[Finding] = [f for f in report.findings if f.id not in OF_WEIGHTS]
    found += pair_findings(results, samples, heard, normalized=mode.normalized)
    found += share_findings(results, samples, heard, normalized=mode.normalized)
    found += unscored_findings(audible, aggregate)
    if not mode.normalized:
        loud = [w for i, w in enumerate(weights) if i not in muted]
        found += float32_findings(audible, loud, aggregate, mode.scale_rewards)
    return replace(
        report,
        aggregate=aggregate,
        weights=tuple(weights),
        aggregation=mode,
        findings=tuple(errors_first(found)),
        shares=tuple(shares_of(results, samples, heard, normalized=mode.normalized)),
    )
