"""Reports as the lab gives them, built by hand: the same numbers every time, and no process."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from grpo_tui.core.findings import Finding
from grpo_tui.rewards.checks.together import shares_of
from grpo_tui.rewards.lab import Aggregation, Scored
from grpo_tui.rewards.samples import Sample, groups_of
from grpo_tui.rewards.score_report import Aggregate, Failure, FunctionInfo, FunctionScore, GroupScore
from grpo_tui.rewards.scoring import Report

HOSTILE = "[/INST] [@click=app.quit]x[/] \x1b]52;c;x\x07"
NAMES = (("correctness", 2.0), ("format", 0.5), ("incremental", 0.5))


def samples(groups: int = 2) -> list[Sample]:
    """A gold, a wrong and a formless completion for each question."""
    found = []
    for number in range(groups):
        prompt = [{"role": "user", "content": f"What is {number} + 7?"}]
        columns = {"answer": f"a long way #### {number + 7}"}
        for kind, answer in (("gold", number + 7), ("wrong", number + 8)):
            text = f"<think>\nI work it out.\n</think>\n<answer>{answer}</answer>"
            found.append(Sample(prompt, text, columns, kind=kind))
        found.append(Sample(prompt, f"I think {number + 7} {HOSTILE}", columns))
    return found


def scores_of(batch: Sequence[Sample]) -> list[list[float | None]]:
    """What the three functions gave: right, in form, and some of the form; the last abstains where it can."""
    kinds = [sample.kind for sample in batch]
    return [
        [1.0 if kind == "gold" else 0.0 for kind in kinds],
        [1.0 if kind else 0.0 for kind in kinds],
        [1.0 if kind else None for kind in kinds],
    ]


def made_report(
    batch: Sequence[Sample] | None = None,
    scores: Sequence[Sequence[float | None]] | None = None,
    *,
    failure: Failure | None = None,
    findings: Sequence[Finding] = (),
    weights: Sequence[float] = (2.0, 0.5, 0.5),
) -> Report:
    """A report; with `failure` the first function gave nothing."""
    batch = samples() if batch is None else batch
    given = [list(row) for row in (scores or scores_of(batch))]
    results = []
    for k, (name, weight) in enumerate(NAMES):
        info = FunctionInfo(
            k, name, weight, "function", f"rewards.py:{name}", "/tasks/rewards.py", 10 * k + 8
        )
        if failure is not None and k == 0:
            given[0] = [None] * len(batch)
            results.append(FunctionScore.failed(info, len(batch), failure, "before it fell\n"))
            continue
        extra = {"extracted": ["7"] * len(batch), "gold": ["7"] * len(batch)} if k == 0 else {}
        results.append(FunctionScore(info, tuple(given[k]), 0.004 * (k + 1), log_extra=extra))
    totals = [
        sum(w * (row[i] or 0.0) for w, row in zip(weights, given, strict=True)) for i in range(len(batch))
    ]
    groups = tuple(_group(indices, totals) for indices in groups_of(batch))
    return Report(
        Scored(tuple(batch), tuple(results)),
        Aggregate(tuple(totals), groups, statistics.fmean(totals), _std(totals), 0.0),
        tuple(weights),
        Aggregation(),
        tuple(findings),
        tuple(shares_of(results, batch, weights)),
        8,
    )


def _group(indices: Sequence[int], totals: Sequence[float]) -> GroupScore:
    mine = [totals[i] for i in indices]
    mean, std = statistics.fmean(mine), _std(mine)
    advantages = [(t - mean) / (std + 1e-4) if std else 0.0 for t in mine]
    return GroupScore(tuple(indices), mean, std, tuple(advantages))


def _std(values: Sequence[float]) -> float:
    known = [value for value in values if math.isfinite(value)]
    return statistics.stdev(known) if len(known) > 1 else 0.0
