"""What follows from a baseline, each with its numbers and the smallest change that would help.

Thresholds, and where they come from:

- `FEW`, `MOST`: at most 15 % right is too hard, at least 85 % too easy (rldoctor's split of flat groups).
- `FLAT`: half of the groups flat (rldoctor's warning; axolotl's healthy runs stay below 80 % of
  `frac_reward_zero_std`, rlprobe speaks from 40 % on).
- `CUT`: 20 % cut off (between rldoctor's 15 % and axolotl's 30 % of `completions/clipped_ratio`).
- `ALIKE`: half of the texts of a group are copies of others: then the sampling is too cold. No source: it is
  where a group of 8 has the worth of one of 4.
- Rule of three: none of n seen means less than 3/n with 95 % confidence (Hanley and Lippman-Hand 1983).
- Remedies: guides to GRPO with TRL, which ask for partial credit, groups of 8 to 16, more diverse completions
  where a group is all alike, and SFT before GRPO where nothing is right.

Pure: it knows the figures alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from grpo_tui.core.findings import Finding, Fix, Severity, errors_first
from grpo_tui.rewards.baseline import Baseline, mixed_share

FEW, MOST = 0.15, 0.85
FLAT = 0.5
CUT = 0.2
ALIKE = 0.5
SHORT = 16
"""Tokens; shorter completions may well repeat."""
MOST_TEMPERATURE = 1.2
"""Beyond it models write what nobody would; no higher one is proposed."""


def with_findings(found: Baseline) -> Baseline:
    """Return the baseline with what follows from it, errors first."""
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
    """Nothing, little, most or all right."""
    if found.judge is None or found.pass_rate is None:
        return _finding(
            "no-judge",
            "info",
            "no reward tells right from wrong here, so there is no pass rate; name one with "
            "--correct NAME>=SCORE",
        )
    name, count, right = found.judge.name, found.completions, found.right or 0
    if right == 0:
        learns = _still_learns(found)
        return _finding(
            "nothing-right",
            "error",
            f"none of {count} completions is right by {name}; the pass rate is likely below "
            f"{_percent(min(1.0, 3 / count))}. {learns}Take easier rows, warm the model up with SFT on a few "
            "right answers, or give partial credit on the way to a right one",
        )
    if right == count:
        return _finding(
            "all-right",
            "error",
            f"all {count} completions are right by {name}: there is nothing left to learn here. Take harder "
            "rows, or another task",
        )
    if found.pass_rate <= FEW:
        return _finding(
            "few-right",
            "warning",
            f"{right} of {count} completions are right by {name} ({_percent(found.pass_rate)}), so most "
            f"groups of {found.group} have nothing to prefer. Easier rows first, a warm-up by SFT, larger "
            "groups or partial credit help",
        )
    if found.pass_rate >= MOST:
        return _finding(
            "most-right",
            "warning",
            f"{right} of {count} completions are right by {name} ({_percent(found.pass_rate)}): little is "
            f"left to learn, and most groups of {found.group} are right as a whole. Leave out the rows that "
            "are always right",
        )
    return None


def _still_learns(found: Baseline) -> str:
    teaching = 1 - found.flat
    if teaching == 0:
        return ""
    return f"What differs in {_percent(teaching)} of the groups is not about being right. "


def _flat(found: Baseline) -> Finding | None:
    """Groups whose totals are all the same."""
    if found.flat < FLAT:
        return None
    severity: Severity = "error" if found.flat == 1.0 else "warning"
    message = (
        f"{_percent(found.flat)} of the groups are flat: all {found.group} completions get the advantage 0, "
        "and nothing is learnt from them"
    )
    if found.pass_rate in (0.0, 1.0):
        return _finding("flat-groups", severity, message)  # the rows are at fault, which is said already
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
            f". Groups of {size} would be mixed in about {_percent(share)} of the rows if all were alike"
        )
        return _finding("flat-groups", severity, message, "num_generations", size)
    message += ". Their texts differ: a reward with partial credit would tell them apart"
    return _finding("flat-groups", severity, message)


def _larger_group(found: Baseline) -> tuple[int, float] | None:
    """The smallest larger group of which at least half would be mixed; None when that is out of reach."""
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
    """Completions that repeat each other, where groups are not flat enough to say so already."""
    if not _repeats(found) or found.flat >= FLAT:
        return None
    hotter = _hotter(found)
    return _finding(
        "alike",
        "warning",
        f"within a group {_percent(1 - found.distinct)} of the completions repeat others word for word, so "
        f"that groups of {found.group} are worth smaller ones. Raise temperature ({found.temperature:g})",
        "temperature" if hotter else None,
        hotter,
    )


def _repeats(found: Baseline) -> bool:
    """Whether texts repeat that are long enough to differ: of single letters and numbers most are alike."""
    return found.distinct <= ALIKE and found.tokens >= SHORT


def _cut(found: Baseline) -> Finding | None:
    """Completions that reach the length limit."""
    limit = f"max_completion_length ({found.max_tokens} tokens)"
    if found.truncated == 1.0:
        return _finding(
            "never-ends",
            "error",
            f"no completion ends before {limit}. The model may never write its end token: look at its chat "
            "template and at eos_token in its tokenizer and generation_config; a base model without a chat "
            "template needs an example to end like. If it only thinks long, raise the limit",
            "max_completion_length",
            found.max_tokens * 2,
        )
    if found.truncated <= CUT:
        return None
    return _finding(
        "truncated",
        "warning",
        f"{_percent(found.truncated)} of the completions are cut off at {limit}, before their answer. Raise "
        "it, or add a reward for length",
        "max_completion_length",
        found.max_tokens * 2,
    )


def _form(found: Baseline) -> Finding | None:
    """A form that the model never writes."""
    never = [form.name for form in found.forms if form.share == 0]
    if not never or len(never) < len(found.forms):
        return None
    return _finding(
        "no-format",
        "warning",
        f"no completion has the whole form that {' and '.join(never)} asks for. Describe it in the system "
        "prompt with an example, or reward its parts one by one",
    )


_RULES: tuple[Callable[[Baseline], Finding | None], ...] = (_right, _flat, _alike, _cut, _form)


def _percent(share: float) -> str:
    return f"{share * 100:.2g} %" if share < 0.095 else f"{share * 100:.0f} %"
