"""Baseline: sample completions of some rows without training, score them, and judge the result.

`ask_baseline` blocks, reports progress, and can be cancelled from another thread. Each finding has its
numbers and the smallest change that would help. Sources of the thresholds:

- `FEW`, `MOST`: a pass rate of 15 % or less is too hard, 85 % or more too easy (rldoctor's split of zero-std
  groups).
- `FLAT`: half of the groups have zero std (rldoctor's warning; axolotl's healthy runs stay below 80 % of
  `frac_reward_zero_std`, rlprobe reports from 40 %).
- `CUT`: 20 % truncated (between rldoctor's 15 % and axolotl's 30 % of `completions/clipped_ratio`).
- `ALIKE`: half of the texts of a group are copies, so the temperature is too low. No source: at this point a
  group of 8 is worth as much as a group of 4.
- Rule of three: none of n seen means less than 3/n with 95 % confidence (Hanley and Lippman-Hand 1983).
- Remedies: guides to GRPO with TRL. They recommend partial credit, groups of 8 to 16, more diverse
  completions where all of a group are equal, and SFT before GRPO where nothing is right.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from math import comb
from typing import Any

from grpo_tui.config.run_config import RunConfig
from grpo_tui.core.exchange import finite_json
from grpo_tui.core.findings import Finding, Fix, Severity, errors_first
from grpo_tui.core.statistics import distinct_share, mean, signal_of, std
from grpo_tui.core.text import completion_text, prompt_text
from grpo_tui.rewards.generating import CancelledError, Generated, Generator, Progress, Tell
from grpo_tui.rewards.lab import Lab
from grpo_tui.rewards.right_answers import Judge, find_forms, find_judge, measured
from grpo_tui.rewards.samples import groups_of
from grpo_tui.rewards.score_report import Aggregate, FunctionScore
from grpo_tui.rewards.scoring import gold_column_of, quick

GROUP_SIZES = (4, 8, 16, 32)


@dataclass(frozen=True, slots=True)
class FormShare:
    """Format reward, and the fraction of completions that score at least `least`: the whole format."""

    name: str
    least: float
    share: float


@dataclass(frozen=True, slots=True)
class Mixed:
    """Expected fraction of groups of one size with both right and wrong answers.

    Attributes:
        alike: assuming that all rows are equally hard (see `mixed_share`).
        drawn: drawing from the completions that were sampled (see `drawn_share`). None for larger groups.
    """

    size: int
    alike: float
    drawn: float | None


@dataclass(frozen=True, slots=True)
class RowResult:
    """Figures of one row. `std` has the divisor n - 1; `flat` is whether all advantages are 0."""

    row: str
    prompt: str
    right: int | None
    of: int
    mean: float | None
    std: float | None
    flat: bool
    truncated: int


@dataclass(frozen=True, slots=True)
class Baseline:
    """Figures of a baseline. Fractions are from 0 to 1.

    Attributes:
        mixed: fraction of groups with both right and wrong completions; the rest is `all_right` or
            `all_wrong`.
        flat: fraction of groups whose advantages are all 0.
        reward: mean total; `reward_std` its standard deviation over all completions, `group_std` the mean
            standard deviation within groups.
        tokens: mean length in tokens; `tokens_most` is the longest.
        seconds: duration of generating; `load_s` of loading the model.
        tokens_per_s: without padding.
        distinct: fraction of distinct texts within a group, averaged over groups.
    """

    model: str
    device: str
    rows: int
    group: int
    seed: int
    temperature: float
    max_tokens: int
    judge: Judge | None
    pass_rate: float | None
    mixed: float | None
    all_right: float | None
    all_wrong: float | None
    flat: float
    truncated: float
    forms: tuple[FormShare, ...]
    reward: float | None
    reward_std: float | None
    group_std: float | None
    tokens: float
    tokens_most: int
    seconds: float
    load_s: float
    tokens_per_s: float | None
    distinct: float
    group_sizes: tuple[Mixed, ...]
    results: tuple[RowResult, ...]
    failed: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def completions(self) -> int:
        """Number of completions."""
        return sum(result.of for result in self.results)

    @property
    def right(self) -> int | None:
        """Number of right completions, None without a judge."""
        counts = [result.right for result in self.results if result.right is not None]
        return sum(counts) if counts else None

    @property
    def form(self) -> float | None:
        """Fraction of completions in the whole format, by the strictest format reward. None without one."""
        return min((form.share for form in self.forms), default=None)

    def to_json(self) -> dict[str, Any]:
        """Return the shape that `grpo-tui baseline --json` prints."""
        data = asdict(self)
        data["failed"] = [{"name": name, "error": error} for name, error in self.failed]
        data["findings"] = [finding.to_json() for finding in self.findings]
        return finite_json({**data, "completions": self.completions, "right": self.right, "form": self.form})


def mixed_share(p: float, size: int) -> float:
    """Return the fraction of groups of `size` with both right and wrong answers: 1 - p^G - (1-p)^G.

    Binomial, for answers that are right with probability `p`, independently and equally in every row. Rows
    that differ in difficulty give fewer mixed groups.
    """
    return 1 - p**size - (1 - p) ** size


def drawn_share(right: Sequence[int], of: Sequence[int], size: int) -> float | None:
    """Return the fraction of mixed groups among all groups of `size` that can be drawn from the completions.

    Unbiased: 1 - C(k,G)/C(n,G) - C(n-k,G)/C(n,G), with k of n right (hypergeometric, as in pass@k of Chen et
    al. 2021, https://arxiv.org/abs/2107.03374), averaged over the rows.

    Returns:
        None when a row has fewer completions than `size`.
    """
    if not of or min(of) < size:
        return None
    shares = [1 - (comb(k, size) + comb(n - k, size)) / comb(n, size) for k, n in zip(right, of, strict=True)]
    return sum(shares) / len(shares)


def baseline_of(
    generated: Generated,
    functions: Sequence[FunctionScore],
    aggregate: Aggregate,
    judge: Judge | None,
    forms: Sequence[Judge],
    *,
    model: str,
    seed: int,
    notes: Sequence[str] = (),
) -> Baseline:
    """Compute the figures. `findings` stays empty."""
    samples, tokens = generated.samples, generated.tokens
    groups = groups_of(samples)
    verdict = None if judge is None else [judge.says_yes(s) for s in functions[judge.index].scores]
    advantages = aggregate.advantages()
    results = tuple(_row(generated, indices, aggregate, advantages, verdict) for indices in groups)
    rate = sum(verdict) / len(samples) if verdict is not None else None
    counts = [(result.right, result.of) for result in results if result.right is not None]
    return Baseline(
        model=model,
        device=generated.device,
        rows=len(groups),
        group=generated.count,
        seed=seed,
        temperature=generated.temperature,
        max_tokens=generated.max_tokens,
        judge=judge,
        pass_rate=rate,
        mixed=mean(0 < right < of for right, of in counts),
        all_right=mean(right == of for right, of in counts),
        all_wrong=mean(right == 0 for right, _ in counts),
        flat=sum(result.flat for result in results) / len(results),
        truncated=sum(sample.truncated for sample in samples) / len(samples),
        forms=tuple(
            FormShare(f.name, f.least, mean(map(f.says_yes, functions[f.index].scores)) or 0.0) for f in forms
        ),
        reward=mean(aggregate.totals),
        reward_std=std(aggregate.totals),
        group_std=mean(result.std for result in results),
        tokens=sum(tokens) / len(tokens),
        tokens_most=max(tokens),
        seconds=generated.seconds,
        load_s=generated.load_s,
        tokens_per_s=sum(tokens) / generated.seconds if generated.seconds > 0 else None,
        distinct=mean(
            distinct_share([completion_text(samples[i].completion) for i in indices]) for indices in groups
        )
        or 0.0,
        group_sizes=() if rate is None else _sizes(rate, results),
        results=results,
        failed=tuple((f.info.name, f.failure.text) for f in functions if f.failure is not None),
        notes=tuple(notes),
    )


def _row(
    generated: Generated,
    indices: Sequence[int],
    aggregate: Aggregate,
    advantages: Sequence[float],
    verdict: Sequence[bool] | None,
) -> RowResult:
    totals = [aggregate.totals[i] for i in indices]
    first = generated.samples[indices[0]]
    return RowResult(
        row=first.group,
        prompt=prompt_text(first.prompt),
        right=None if verdict is None else sum(verdict[i] for i in indices),
        of=len(indices),
        mean=mean(totals),
        std=std(totals),
        flat=signal_of(totals, [advantages[i] for i in indices]) == "none",
        truncated=sum(generated.samples[i].truncated for i in indices),
    )


def _sizes(rate: float, results: Sequence[RowResult]) -> tuple[Mixed, ...]:
    right, of = [result.right or 0 for result in results], [result.of for result in results]
    return tuple(Mixed(size, mixed_share(rate, size), drawn_share(right, of, size)) for size in GROUP_SIZES)


FEW, MOST = 0.15, 0.85
FLAT = 0.5
CUT = 0.2
ALIKE = 0.5
SHORT = 16
"""In tokens. Shorter completions may well repeat each other."""
MOST_TEMPERATURE = 1.2
"""Models write gibberish above this, so no higher temperature is suggested."""


def with_findings(found: Baseline) -> Baseline:
    """Return the baseline with its findings, errors first."""
    findings = [finding for rule in _RULES for finding in [rule(found)] if finding is not None]
    findings[:0] = [
        Finding("baseline.reward-failed", "error", name, None, f"the reward {name} gave no scores: {why}")
        for name, why in found.failed
    ]
    return replace(found, findings=tuple(errors_first(findings)))


def _finding(
    rule: str, severity: Severity, message: str, field: str | None = None, fix: object = None
) -> Finding:
    change = Fix(field, fix) if field is not None and fix is not None else None
    return Finding(f"baseline.{rule}", severity, field, None, message, change)


def _right(found: Baseline) -> Finding | None:
    if found.judge is None or found.pass_rate is None:
        return _finding(
            "no-judge",
            "info",
            "no reward separates right from wrong answers here, so there is no pass rate. Name one with "
            "--correct NAME>=SCORE",
        )
    name, count, right = found.judge.name, found.completions, found.right or 0
    if right == 0:
        learns = _still_learns(found)
        return _finding(
            "nothing-right",
            "error",
            f"none of {count} completions is right by {name}; the pass rate is likely below "
            f"{_percent(min(1.0, 3 / count))}. {learns}Use easier rows, warm the model up with SFT on a "
            "few right answers, or add a reward with partial credit",
        )
    if right == count:
        return _finding(
            "all-right",
            "error",
            f"all {count} completions are right by {name}: there is nothing left to learn. Use harder "
            "rows, or another task",
        )
    if found.pass_rate <= FEW:
        return _finding(
            "few-right",
            "warning",
            f"{right} of {count} completions are right by {name} ({_percent(found.pass_rate)}), so most "
            f"groups of {found.group} contain no right answer. Start with easier rows, warm up with SFT, "
            "use larger groups, or add partial credit",
        )
    if found.pass_rate >= MOST:
        return _finding(
            "most-right",
            "warning",
            f"{right} of {count} completions are right by {name} ({_percent(found.pass_rate)}): little is "
            f"left to learn, and in most groups of {found.group} every answer is right. Remove the rows "
            "that are always right",
        )
    return None


def _still_learns(found: Baseline) -> str:
    teaching = 1 - found.flat
    if teaching == 0:
        return ""
    return f"The rewards do differ in {_percent(teaching)} of the groups, but not because answers are right. "


def _flat(found: Baseline) -> Finding | None:
    if found.flat < FLAT:
        return None
    severity: Severity = "error" if found.flat == 1.0 else "warning"
    message = f"{_percent(found.flat)} of the groups have zero std: every completion gets advantage 0"
    if found.pass_rate in (0.0, 1.0):
        return _finding("flat-groups", severity, message)  # the finding on the pass rate says why
    if _repeats(found):
        hotter = _hotter(found)
        message += (
            f". Within a group {_percent(1 - found.distinct)} of the texts repeat others: raise temperature"
        )
        return _finding("flat-groups", severity, message, "temperature" if hotter else None, hotter)
    larger = _larger_group(found)
    if larger is not None:
        size, share = larger
        message += (
            f". With groups of {size}, about {_percent(share)} of the rows would have mixed groups, if all "
            "rows are equally hard"
        )
        return _finding("flat-groups", severity, message, "num_generations", size)
    message += ". Their texts differ: a reward with partial credit could rank them"
    return _finding("flat-groups", severity, message)


def _larger_group(found: Baseline) -> tuple[int, float] | None:
    """Return the next group size with at least half of the groups mixed, and that fraction, or None."""
    if found.pass_rate is None or found.pass_rate in (0.0, 1.0):
        return None
    for mixed in found.group_sizes:
        if (
            mixed.size > found.group
            and mixed.alike >= 0.5
            and mixed.alike > mixed_share(found.pass_rate, found.group)
        ):
            return mixed.size, mixed.alike
    return None


def _hotter(found: Baseline) -> float | None:
    hotter = round(min(found.temperature + 0.2, MOST_TEMPERATURE), 2)
    return hotter if hotter > found.temperature else None


def _alike(found: Baseline) -> Finding | None:
    """Report repeated completions, unless zero-std groups report them already."""
    if not _repeats(found) or found.flat >= FLAT:
        return None
    hotter = _hotter(found)
    return _finding(
        "alike",
        "warning",
        f"{_percent(1 - found.distinct)} of the completions are exact copies of another one in their "
        f"group, so groups of {found.group} give no more signal than smaller ones. Raise temperature "
        f"({found.temperature:g})",
        "temperature" if hotter else None,
        hotter,
    )


def _repeats(found: Baseline) -> bool:
    """Whether completions repeat that are long enough to differ. Single letters and numbers repeat anyway."""
    return found.distinct <= ALIKE and found.tokens >= SHORT


def _cut(found: Baseline) -> Finding | None:
    limit = f"max_completion_length ({found.max_tokens} tokens)"
    if found.truncated == 1.0:
        return _finding(
            "never-ends",
            "error",
            f"no completion ends before {limit}. The model may never write its end token: check its chat "
            "template, and eos_token in its tokenizer and generation_config. A base model without a chat "
            "template needs an example that shows how to end. If it only thinks for long, raise the limit",
            "max_completion_length",
            found.max_tokens * 2,
        )
    if found.truncated <= CUT:
        return None
    return _finding(
        "truncated",
        "warning",
        f"{_percent(found.truncated)} of the completions are truncated at {limit}, before their answer. "
        "Raise it, or add a length reward",
        "max_completion_length",
        found.max_tokens * 2,
    )


def _form(found: Baseline) -> Finding | None:
    never = [form.name for form in found.forms if form.share == 0]
    if not never or len(never) < len(found.forms):
        return None
    return _finding(
        "no-format",
        "warning",
        f"No completion matches the format that {' and '.join(never)} requires. Describe it in the system "
        "prompt with an example, or reward its parts one by one",
    )


_RULES: tuple[Callable[[Baseline], Finding | None], ...] = (_right, _flat, _alike, _cut, _form)


def _percent(share: float) -> str:
    return f"{share * 100:.2g} %" if share < 0.095 else f"{share * 100:.0f} %"


ROWS = 16
SCORING = "scoring"
MADE_UP = 80
"""Approximate number of made-up completions that show what a function looks at."""


@dataclass(frozen=True, slots=True)
class BaselineOptions:
    """What to sample in a baseline.

    Attributes:
        held: whether to use held-out rows instead of training rows.
        correct: `NAME` or `NAME>=SCORE` of the function that decides what is right. Detected when None.
    """

    rows: int = ROWS
    group: int | None = None
    seed: int | None = None
    held: bool = False
    correct: str | None = None


def ask_baseline(
    lab: Lab,
    config: RunConfig,
    options: BaselineOptions,
    tell: Tell | None = None,
    cancel: threading.Event | None = None,
) -> tuple[Baseline, Generated]:
    """Sample completions and return the baseline with them.

    Args:
        cancel: setting it raises `CancelledError` and leaves nothing running.

    Raises:
        GenerateError: the model or the data cannot be used, or the user cancelled.
        LabError: the rewards cannot be called at all. A single failing function does not raise.
        JudgeError: no function has the name in `options.correct`.
    """
    seed = options.seed if options.seed is not None else int(config.setting("seed"))
    count = options.group or group_size(config)
    with Generator(config, tell, cancel) as generator:
        chosen = generator.rows(options.rows, seed, held=options.held)
        generated = generator.answers(chosen.rows, count, seed)
    if tell is not None:
        tell(Progress(SCORING, len(generated.samples), len(generated.samples)))
    if cancel is not None and cancel.is_set():
        raise CancelledError("cancelled")
    scored = lab.score(generated.samples, repeat_limit_s=0.0)
    column = gold_column_of(config, list(chosen.rows[0].columns))
    measures = measured(lab, config, chosen.rows, column, quick(scored.functions, MADE_UP))
    found = baseline_of(
        generated,
        scored.functions,
        lab.aggregate(scored),
        find_judge(measures, scored.functions, options.correct),
        find_forms(measures),
        model=config.model,
        seed=seed,
        notes=[*chosen.notes, *_notes(config, options, len(chosen.rows), generated.engine)],
    )
    return with_findings(found), generated


def group_size(config: RunConfig) -> int:
    """Return the config's `num_generations`."""
    return int(config.setting("num_generations"))


def _notes(config: RunConfig, options: BaselineOptions, rows: int, engine: str) -> list[str]:
    notes = []
    if rows < options.rows:
        notes.append(f"the dataset has only {rows} rows")
    if config.grpo.get("use_vllm") and engine != "vllm":
        notes.append("use_vllm is set, but transformers generated these completions, with the same settings")
    if config.model_args.get("use_peft"):
        notes.append("the adapter was left out: a new LoRA adapter changes nothing before the first step")
    return notes
