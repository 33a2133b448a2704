"""The baseline: what the model does with some rows before any training, as figures.

Made of completions and their scores; pure. What follows from the figures is `baseline_findings`'s, asking the
model `generating`'s, and which function says what is right `right_answers`'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import comb
from typing import Any

from grpo_tui.core.findings import Finding
from grpo_tui.core.statistics import mean, signal_of, std
from grpo_tui.core.text import completion_text, prompt_text
from grpo_tui.rewards.generating import Generated
from grpo_tui.rewards.right_answers import Judge
from grpo_tui.rewards.samples import groups_of
from grpo_tui.rewards.score_report import Aggregate, FunctionScore
from grpo_tui.store.values import finite_json

GROUP_SIZES = (4, 8, 16, 32)


@dataclass(frozen=True, slots=True)
class FormShare:
    """A function that looks at the form alone, and the share of completions that have the whole form."""

    name: str
    least: float
    share: float


@dataclass(frozen=True, slots=True)
class Mixed:
    """How many groups of a size hold right and wrong answers.

    Attributes:
        size: completions in a group.
        alike: share if every row were answered right with the same probability (see `mixed_share`).
        drawn: share as drawn from the groups that were seen (see `drawn_share`); None for larger groups.
    """

    size: int
    alike: float
    drawn: float | None


@dataclass(frozen=True, slots=True)
class RowResult:
    """What came of one row.

    Attributes:
        row: the name of its group, `row 12`.
        prompt: its readable part.
        right: right completions, None when no function says what is right.
        of: completions.
        mean: mean total.
        std: standard deviation of the totals (divisor n - 1).
        flat: whether all advantages are 0, so that nothing is learnt from it.
        truncated: completions that were cut off.
    """

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
    """What the model does before any training. Shares are from 0 to 1.

    Attributes:
        model: id or folder.
        device: where it ran.
        rows: rows asked.
        group: completions of each.
        seed: of the choice of rows and of the sampling.
        temperature: the sampling temperature.
        max_tokens: the length limit.
        judge: the function that says what is right, None when none does.
        pass_rate: share of right completions, None without a judge.
        mixed: share of groups with right and wrong completions; `all_right`, `all_wrong` are the others.
        flat: share of groups whose advantages are all 0, so that they teach nothing.
        truncated: share of completions that were cut off at the limit.
        forms: functions that look at the form, each with its share.
        reward: mean total; `reward_std` its standard deviation over all completions, `group_std` the mean of
            those within the groups.
        tokens: mean length in tokens; `tokens_most` the longest.
        seconds: generating took; `load_s` loading the model.
        tokens_per_s: tokens a second, padding left out.
        distinct: share of different texts within a group, mean over the groups.
        group_sizes: mixed groups to be expected for `GROUP_SIZES`; empty without a judge.
        results: by row.
        failed: reward functions that gave no scores, with the reason.
        notes: sentences on what was left out.
        findings: what follows, errors first.
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
        """How many there are."""
        return sum(result.of for result in self.results)

    @property
    def right(self) -> int | None:
        """How many are right."""
        counts = [result.right for result in self.results if result.right is not None]
        return sum(counts) if counts else None

    @property
    def form(self) -> float | None:
        """Share of completions in the whole form, by the strictest function; None when none looks at it."""
        return min((form.share for form in self.forms), default=None)

    def to_json(self) -> dict[str, Any]:
        """Return the shape that `grpo-tui baseline --json` prints."""
        data = asdict(self)
        data["failed"] = [{"name": name, "error": error} for name, error in self.failed]
        data["findings"] = [finding.to_json() for finding in self.findings]
        return finite_json({**data, "completions": self.completions, "right": self.right, "form": self.form})


def mixed_share(p: float, size: int) -> float:
    """Share of groups of `size` that hold right and wrong answers: 1 - p^G - (1-p)^G.

    The binomial distribution's, for answers that are right with probability `p` independently of each other
    and alike in every row. Rows that differ give fewer mixed groups than this.
    """
    return 1 - p**size - (1 - p) ** size


def drawn_share(right: Sequence[int], of: Sequence[int], size: int) -> float | None:
    """Share of mixed groups among all groups of `size` that could be drawn from those seen.

    Without bias: 1 - C(k,G)/C(n,G) - C(n-k,G)/C(n,G), k of n right (hypergeometric, as in pass@k of Chen et
    al. 2021, https://arxiv.org/abs/2107.03374), the mean over the rows.

    Args:
        right: right completions of each row.
        of: completions of each row.
        size: the group's.

    Returns:
        None when a row has fewer completions.
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
    """Compute the figures; `findings` stays empty.

    Args:
        generated: the completions.
        functions: what each reward gave for them.
        aggregate: their totals.
        judge: the function that says what is right.
        forms: those that look at the form.
        model: id or folder.
        seed: what the rows were chosen with and the completions sampled.
        notes: sentences on what was left out.
    """
    samples, tokens = generated.samples, generated.tokens
    groups = groups_of(samples)
    verdict = None if judge is None else [judge.says_yes(s) for s in functions[judge.index].scores]
    advantages = aggregate.advantages()
    results = tuple(_row(generated, indices, aggregate, advantages, verdict) for indices in groups)
    rate = sum(verdict) / len(samples) if verdict is not None else None
    mixed, all_right, all_wrong = _kinds(results)
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
        mixed=mixed,
        all_right=all_right,
        all_wrong=all_wrong,
        flat=sum(result.flat for result in results) / len(results),
        truncated=sum(sample.truncated for sample in samples) / len(samples),
        forms=tuple(_form(functions[form.index], form) for form in forms),
        reward=mean(aggregate.totals),
        reward_std=std(aggregate.totals),
        group_std=mean(result.std for result in results),
        tokens=sum(tokens) / len(tokens),
        tokens_most=max(tokens),
        seconds=generated.seconds,
        load_s=generated.load_s,
        tokens_per_s=sum(tokens) / generated.seconds if generated.seconds > 0 else None,
        distinct=_distinct(generated, groups),
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


def _kinds(results: Sequence[RowResult]) -> tuple[float | None, float | None, float | None]:
    """Shares of groups that are mixed, all right and all wrong; None without a judge."""
    known = [(result.right, result.of) for result in results if result.right is not None]
    if not known:
        return None, None, None
    right = sum(k == n for k, n in known) / len(known)
    wrong = sum(k == 0 for k, _ in known) / len(known)
    return sum(0 < k < n for k, n in known) / len(known), right, wrong


def _form(result: FunctionScore, form: Judge) -> FormShare:
    whole = sum(form.says_yes(score) for score in result.scores)
    return FormShare(form.name, form.least, whole / len(result.scores))


def _distinct(generated: Generated, groups: Sequence[Sequence[int]]) -> float:
    shares = [
        len({completion_text(generated.samples[i].completion) for i in indices}) / len(indices)
        for indices in groups
    ]
    return sum(shares) / len(shares)


def _sizes(rate: float, results: Sequence[RowResult]) -> tuple[Mixed, ...]:
    right, of = [result.right or 0 for result in results], [result.of for result in results]
    return tuple(Mixed(size, mixed_share(rate, size), drawn_share(right, of, size)) for size in GROUP_SIZES)
