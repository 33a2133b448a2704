"""Score samples and check the rewards, for commands and panes.

Combines scores, TRL's aggregation, and the findings of every check.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from grpo_tui.config.batch import generation_batch_size
from grpo_tui.config.paths import split_file_source
from grpo_tui.config.run_config import RunConfig
from grpo_tui.config.section import RewardEntry, Section
from grpo_tui.config.trl_fields import FieldsUnavailableError
from grpo_tui.core.exchange import finite_json
from grpo_tui.core.findings import Finding, errors_first
from grpo_tui.rewards.answer_format import forms_for, gold_column
from grpo_tui.rewards.checks import together
from grpo_tui.rewards.checks.function import (
    call_findings,
    signature_findings,
    source_findings,
    value_findings,
)
from grpo_tui.rewards.checks.gold import Retyped, gold_findings, retypings
from grpo_tui.rewards.lab import REPEAT_LIMIT_S, Aggregation, Lab, Scored
from grpo_tui.rewards.samples import Sample, gold_and_wrong
from grpo_tui.rewards.score_report import Aggregate, FunctionScore

MOST_GOLD_ROWS = 16
GOLD_LIMIT_S = 10.0
"""Functions that would take longer for the reference answers are not tried on them."""
BATCH_METRICS = ("reward", "reward_std", "frac_reward_zero_std")
BEYOND = "A model writes such texts too, and one exception ends the run. Return a score or None for each"
"""Appended for functions that scored the samples but failed on an answer in another format."""


@dataclass(frozen=True, slots=True)
class Report:
    """Scores and findings of some samples and rewards.

    Attributes:
        shares: each function's share of the variance of the total within groups, None without variance.
        batch: completions that a training step scores at once, 0 without a config.
    """

    scored: Scored
    aggregate: Aggregate
    weights: tuple[float, ...]
    aggregation: Aggregation
    findings: tuple[Finding, ...]
    shares: tuple[float | None, ...]
    batch: int = 0
    gold: Scored | None = None
    notes: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether a function has no scores."""
        return any(result.failure is not None for result in self.scored.functions)

    def to_json(self) -> dict[str, Any]:
        """Return the shape that `grpo-tui score --json` prints. NaN and infinities are null."""
        return finite_json(
            {
                "functions": [self._function(i, r) for i, r in enumerate(self.scored.functions)],
                "totals": self.aggregate.totals,
                "groups": [asdict(group) for group in self.aggregate.groups],
                "findings": [finding.to_json() for finding in self.findings],
                "samples": [_sample(sample) for sample in self.scored.samples],
                "aggregation": asdict(self.aggregation),
                **{key: getattr(self.aggregate, key) for key in BATCH_METRICS},
                "notes": list(self.notes),
            }
        )

    def _function(self, index: int, result: FunctionScore) -> dict[str, Any]:
        info, failure = result.info, result.failure
        return {
            "name": info.name,
            "weight": self.weights[index],
            "scores": list(result.scores),
            "seconds": result.seconds,
            "error": failure.text if failure is not None else None,
            **{key: getattr(info, key) for key in ("kind", "source", "file", "line")},
            "coverage": result.coverage,
            "not_finite": {
                str(i): str(s) for i, s in enumerate(result.scores) if s is not None and not math.isfinite(s)
            },
            "share": self.shares[index],
            "seconds_per_batch": together.seconds_per_batch(result, self.batch) if self.batch else None,
            "output": result.output,
            "failure": None if failure is None else asdict(failure),
            "log_extra": dict(result.log_extra),
            "metrics": dict(result.metrics),
        }


def _sample(sample: Sample) -> dict[str, Any]:
    columns, recorded = dict(sample.columns), sample.recorded
    shown = {key: getattr(sample, key) for key in ("prompt", "completion", "kind", "tags")}
    return {**shown, "columns": columns, "recorded": None if recorded is None else dict(recorded)}


@dataclass(frozen=True, slots=True)
class Dataset:
    """First rows of a config's dataset, as training sees them: `{"prompt", "columns"}`."""

    rows: tuple[Mapping[str, Any], ...] = ()
    columns: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @classmethod
    def of_samples(cls, samples: Sequence[Sample]) -> Dataset:
        """Reconstruct a dataset from samples, with each prompt once."""
        rows = {s.prompt_key: {"prompt": s.prompt, "columns": dict(s.columns)} for s in samples}
        names = dict.fromkeys(["prompt", *(name for s in samples for name in s.columns)])
        return cls(tuple(rows.values()), tuple(names))


@dataclass(frozen=True, slots=True)
class ScoreOptions:
    """How to score. `repeat` calls functions again: are they deterministic, and what do they swallow?"""

    weights: Sequence[float] | None = None
    aggregation: Aggregation | None = None
    gold: bool = True
    repeat: bool = True
    tell: Callable[[str, str], None] | None = field(default=None, compare=False)


def report(
    lab: Lab,
    samples: Sequence[Sample],
    dataset: Dataset | None = None,
    options: ScoreOptions | None = None,
    scored: Scored | None = None,
) -> Report:
    """Score samples with the loaded rewards and run every check.

    Args:
        dataset: the config's rows. Reconstructed from the samples when None.
        scored: scores of an earlier call, to skip scoring.

    Raises:
        LabError: scoring is not possible at all. A single failing function does not raise.
    """
    options = options or ScoreOptions()
    assert lab.config is not None
    data = dataset or Dataset.of_samples(samples)
    if scored is None:
        limit_s = REPEAT_LIMIT_S if options.repeat else 0.0
        scored = lab.score(samples, tell=options.tell, repeat_limit_s=limit_s)
    results = scored.functions
    weights = [r.info.weight for r in results] if options.weights is None else options.weights
    found = unchecked(lab, scored, weights, aggregation=options.aggregation)
    gold = _try_gold(lab, results, data, options) if options.gold else None
    findings = _findings(results, scored, data)
    findings += together.names_findings(results)
    if lab.config.model:  # without a run, the user chose how many
        findings += together.count_findings(results)
    findings += _of_weights(found, weights)
    findings += together.cost_findings(results, found.batch)
    column = gold_column_of(lab.config, data.columns)
    if gold is not None and column is not None:
        findings = _with_gold(findings, lab, gold, column, options, all(s.paired for s in samples))
    return replace(found, findings=tuple(errors_first(findings)), gold=gold)


def _of_weights(found: Report, weights: Sequence[float], muted: Collection[int] = ()) -> Iterator[Finding]:
    """Yield the findings of `OF_WEIGHTS`. Muted functions have weight 0."""
    results, samples, mode = found.scored.functions, found.scored.samples, found.aggregation
    yield from together.pair_findings(results, samples, weights, normalized=mode.normalized)
    yield from together.share_findings(results, samples, weights, normalized=mode.normalized)
    audible = [i for i in range(len(results)) if i not in muted]
    heard = [results[i] for i in audible]
    yield from together.unscored_findings(heard, found.aggregate)
    if not mode.normalized:
        loud = [weights[i] for i in audible]
        yield from together.float32_findings(heard, loud, found.aggregate, mode.scale_rewards)


def _findings(results: Sequence[FunctionScore], scored: Scored, data: Dataset) -> list[Finding]:
    found = []
    for result in results:
        signature = signature_findings(result.info, data.columns) if result.info.failure is None else []
        found += signature
        refused = any(finding.severity == "error" for finding in signature)
        called = call_findings(result, scored.samples)
        # A signature error is not reported a second time as the TypeError that it causes.
        found += [f for f in called if not (refused and f.id in ("rewards.raises", "rewards.shape"))]
        found += source_findings(result)
        found += value_findings(
            result, scored.samples, alone=len(results) == 1, prompt_tail=scored.prompt_tail
        )
    return _loads_joined(found)


def _loads_joined(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings with one for all functions that cannot be loaded for the same reason."""
    reasons = [
        f.message.partition(" cannot be loaded: ")[2] if f.id == "rewards.load" else "" for f in findings
    ]
    found = []
    for at, (finding, reason) in enumerate(zip(findings, reasons, strict=True)):
        if reason and reason in reasons[:at]:
            continue
        names = [
            f"'{f.field}'" for f, other in zip(findings, reasons, strict=True) if reason and other == reason
        ]
        if len(names) > 1:
            listed = f"{', '.join(names[:-1])} and {names[-1]}"
            finding = replace(finding, message=f"rewards {listed} cannot be loaded: {reason}")
        found.append(finding)
    return found


def gold_column_of(config: RunConfig, columns: Sequence[str]) -> str | None:
    """Return the column with the right answer: that of `grpo_tui.answer`, or else one with a usual name."""
    answer = config.section.answer
    if answer is not None and answer.to in columns:
        return answer.to
    return gold_column(columns)


def _try_gold(
    lab: Lab, results: Sequence[FunctionScore], data: Dataset, options: ScoreOptions
) -> Scored | None:
    assert lab.config is not None
    column = gold_column_of(lab.config, data.columns)
    if column is None:
        return None
    forms = forms_for(lab.config.section.system_prompt)
    samples = gold_and_wrong(data.rows[:MOST_GOLD_ROWS], forms, column)
    asked = quick(results, len(samples))
    if not samples or not asked:
        return None
    return lab.score(samples, only=asked, tell=options.tell, repeat_limit_s=0.0)


def quick(results: Sequence[FunctionScore], completions: int) -> list[int]:
    """Return the functions that work and would score this many completions within `GOLD_LIMIT_S`."""
    return [
        r.info.index
        for r in results
        if r.failure is None and together.seconds_per_batch(r, completions) <= GOLD_LIMIT_S
    ]


def _with_gold(
    findings: list[Finding], lab: Lab, gold: Scored, column: str, options: ScoreOptions, paired: bool
) -> list[Finding]:
    """Add findings on the reference answers, of which `paired` samples consist. One cause is told once."""
    told = gold_findings(gold.functions, gold.samples, column)
    if any(finding.id == "rewards.gold-not-above-wrong" for finding in told):
        told = gold_findings(gold.functions, gold.samples, column, _retyped(lab, gold, column, options))
    confused = {f.field for f in findings if f.id == "rewards.shape" and f.severity == "error"}
    told = [finding for finding in told if finding.field not in confused]
    told += [
        replace(f, message=f"{f.message}. {BEYOND}")
        for result in gold.functions
        if result.failure is not None and result.failure.kind == "raised"
        for f in call_findings(result, gold.samples)
    ]
    explained = {finding.field for finding in told if finding.severity == "error"}
    if paired:
        explained |= {result.info.name for result in gold.functions if len(set(result.scores) - {None}) > 1}
    return [f for f in findings if not (f.id == "rewards.constant" and f.field in explained)] + told


def _retyped(lab: Lab, gold: Scored, column: str, options: ScoreOptions) -> list[Retyped]:
    asked = [result.info.index for result in gold.functions if result.failure is None]
    found = []
    for words, values in retypings([sample.columns.get(column) for sample in gold.samples]).items():
        samples = [
            replace(sample, columns={**sample.columns, column: value})
            for sample, value in zip(gold.samples, values, strict=True)
        ]
        scored = lab.score(samples, only=asked, tell=options.tell, repeat_limit_s=0.0)
        found.append(Retyped(words, scored.functions))
    return found


def completions_at_once(config: RunConfig) -> int:
    """Return how many completions one process scores at a time, 0 without a run's config."""
    if not config.model:
        return 0
    try:
        return generation_batch_size(config.setting, 1)
    except FieldsUnavailableError:
        return 0


def config_of_functions(sources: Sequence[str]) -> RunConfig:
    """Return a config with these rewards, given by their sources, and nothing else."""
    entries = []
    for source in sources:
        parts = split_file_source(source)
        if parts is not None:
            path = Path(parts[0]).expanduser().absolute()
            entries.append(RewardEntry(parts[1].rpartition(".")[2], f"{path}:{parts[1]}"))
        else:
            name = source.rstrip("/").replace(":", ".").replace("/", ".").rpartition(".")[2]
            name = name or Path(source).absolute().name or source  # for a folder such as `.`
            entries.append(RewardEntry(name, source))
    section = Section(rewards=tuple(entries))
    return RunConfig(None, "", {}, {}, {}, {}, section, cwd=os.getcwd())


OF_WEIGHTS = ("rewards.cancel", "rewards.same", "rewards.drowns", "rewards.unscored", "rewards.float32")
"""Findings that depend on the weights."""


def unchecked(
    lab: Lab,
    scored: Scored,
    weights: Sequence[float],
    findings: Sequence[Finding] = (),
    aggregation: Aggregation | None = None,
) -> Report:
    """Return scores, totals and advantages without running the slower checks.

    Raises:
        LabError: the weights do not fit.
    """
    assert lab.config is not None
    mode = aggregation or Aggregation.of(lab.config)
    shares = together.shares_of(scored.functions, scored.samples, weights, normalized=mode.normalized)
    batch = completions_at_once(lab.config)
    aggregate = lab.aggregate(scored, weights, mode)
    return Report(scored, aggregate, tuple(weights), mode, tuple(findings), tuple(shares), batch)


def reweighed(
    lab: Lab,
    report: Report,
    weights: Sequence[float],
    muted: Collection[int] = (),
    aggregation: Aggregation | None = None,
) -> Report:
    """Return the report for other weights.

    Raises:
        LabError: the weights or modes do not fit.
    """
    mode = aggregation or report.aggregation
    heard = [0.0 if i in muted else w for i, w in enumerate(weights)]
    shares = together.shares_of(
        report.scored.functions, report.scored.samples, heard, normalized=mode.normalized
    )
    aggregate = lab.aggregate(report.scored, weights, mode, muted)
    now = replace(report, aggregate=aggregate, weights=tuple(weights), aggregation=mode, shares=tuple(shares))
    kept = [f for f in report.findings if f.id not in OF_WEIGHTS]
    return replace(now, findings=tuple(errors_first([*kept, *_of_weights(now, heard, muted)])))
