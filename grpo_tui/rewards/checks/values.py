"""Findings from one function's scores: none, NaN, infinity, constant, of the prompt or the length alone.

Only differences between different completions count: samples that are alike prove nothing. It calls nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from grpo_tui.core.findings import Finding
from grpo_tui.core.statistics import scored
from grpo_tui.core.text import one_line
from grpo_tui.rewards.checks.about import about
from grpo_tui.rewards.checks.correlation import correlation
from grpo_tui.rewards.checks.source_text import Pattern, RewardSource
from grpo_tui.rewards.samples import Sample, groups_of
from grpo_tui.rewards.score_report import FunctionScore

FLAT = 1e-8
LENGTH_CORRELATION = 0.97
_AROUND_TAGS = re.compile(r"\s*(</?\w+>)\s*")


def value_findings(
    result: FunctionScore, samples: Sequence[Sample], *, alone: bool, prompt_tail: str = ""
) -> list[Finding]:
    """Return what one function's scores show.

    Args:
        result: what it gave; a function that failed has no findings here.
        samples: what it was given.
        alone: whether it is the run's only function.
        prompt_tail: the end of a prompt as the chat template writes it.
    """
    if result.failure is not None:
        return []
    found = _not_numbers(result, alone)
    if found and all(s is None for s in result.scores):
        return found
    # A gold answer and a wrong one in one form are alike to all but correctness, which is judged elsewhere.
    paired = all(sample.kind in ("gold", "wrong") for sample in samples)
    other = result.other_shape
    if other is None or not other.varies:
        flat = _constant(result, samples) if not paired else _constant_everywhere(result)
        if flat is not None:
            found += _reasons_for_zero(result, samples, prompt_tail)
            found.append(flat)
    found += _grows_with_length(result, samples)
    return found


def _not_numbers(result: FunctionScore, alone: bool) -> list[Finding]:
    scores = result.scores
    if all(s is None for s in scores):
        text = "abstains (None) on every sample"
        text += (
            ": as the only function it leaves nothing to learn from, and TRL trains on without a reward"
            if alone
            else ", so it adds nothing to the total"
        )
        return [about("rewards.none-everywhere", "error" if alone else "warning", result, text)]
    found = []
    nan = [i for i, s in enumerate(scores) if s is not None and math.isnan(s)]
    if nan:
        text = (
            f"returns NaN for {len(nan)} of {len(scores)} samples (first: sample {nan[0] + 1}); TRL takes it "
            "for None without a word. Return None to abstain, or a number"
        )
        found.append(about("rewards.nan", "warning", result, text))
    infinite = [i for i, s in enumerate(scores) if s is not None and math.isinf(s)]
    if infinite:
        text = (
            f"returns {scores[infinite[0]]} for {len(infinite)} of {len(scores)} samples (first: sample "
            f"{infinite[0] + 1}); one such value takes the signal from its whole group. Clip it"
        )
        found.append(about("rewards.infinite", "error", result, text))
    return found


def _constant(result: FunctionScore, samples: Sequence[Sample]) -> Finding | None:
    pairs = [(i, s) for i, s in enumerate(result.scores) if s is not None and math.isfinite(s)]
    texts = {samples[i].text for i, _ in pairs}
    if len(texts) < 2:
        return None
    values = [s for _, s in pairs]
    if max(values) - min(values) < FLAT:
        text = (
            f"is constant: {values[0]:g} for all {len(values)} samples, {len(texts)} different completions. "
            "A constant has no advantage, so nothing is learnt from it"
        )
        return about("rewards.constant", "warning", result, text)
    groups = [g for g in _scored_groups(result, samples) if len({samples[i].text for i in g}) > 1]
    if not groups or any(_spread(result, group) >= FLAT for group in groups):
        return None
    by_prompt: dict[str, set[float]] = {}
    for i, s in pairs:
        by_prompt.setdefault(samples[i].prompt_key, set()).add(s)
    if all(max(v) - min(v) < FLAT for v in by_prompt.values()):
        text = (
            f"depends on the prompt alone: within each of {len(groups)} groups all completions score the "
            "same. Only differences within a group are learnt from"
        )
        return about("rewards.prompt-only", "warning", result, text)
    text = (
        f"is flat within each of {len(groups)} groups, though it differs between them: no advantage comes "
        "of it"
    )
    return about("rewards.flat-groups", "warning", result, text)


def _constant_everywhere(result: FunctionScore) -> Finding | None:
    """What is told of a function that scores reference and wrong answers alike, and all else made of them."""
    other = result.other_shape
    if other is None or other.constant is None:
        return None
    text = (
        f"is constant: {other.constant:g} for all {other.tried} completions tried. They were reference and "
        "wrong answers, empty, shortened and very long texts. Nothing is learned from a constant"
    )
    return about("rewards.constant", "warning", result, text)


def _scored_groups(result: FunctionScore, samples: Sequence[Sample]) -> list[list[int]]:
    groups = [[i for i in g if result.scores[i] is not None] for g in groups_of(samples)]
    return [g for g in groups if len(g) > 1]


def _spread(result: FunctionScore, group: Sequence[int]) -> float:
    values = scored(result.scores[i] for i in group)
    return max(values) - min(values) if values else 0.0


def _grows_with_length(result: FunctionScore, samples: Sequence[Sample]) -> list[Finding]:
    pairs = [
        (float(len(samples[i].text)), s)
        for i, s in enumerate(result.scores)
        if s is not None and math.isfinite(s)
    ]
    lengths, scores = [p[0] for p in pairs], [p[1] for p in pairs]
    if len(set(lengths)) < 3 or len(set(scores)) < 3 or max(scores) <= 2.0:
        return []
    if correlation(lengths, scores) < LENGTH_CORRELATION:
        return []
    text = (
        f"grows with the length of the completion and without a bound: {min(scores):g} at {min(lengths):.0f} "
        f"characters, {max(scores):g} at {max(lengths):.0f}. The policy will learn to write more and more; "
        "if it is a distance from a length, its sign is wrong"
    )
    return [about("rewards.grows-with-length", "warning", result, text)]


def _reasons_for_zero(result: FunctionScore, samples: Sequence[Sample], prompt_tail: str) -> list[Finding]:
    """Why a format is never met: a pattern that stops at line breaks, an opening tag in the prompt."""
    source = RewardSource(result.info.file_text, result.info.line)
    texts = [sample.text for sample in samples]
    found = []
    for pattern in source.patterns():
        missed = [i for i, text in enumerate(texts) if _breaks_lines_only(pattern, text)]
        if missed:
            message = (
                f"has a pattern that stops at line breaks (line {pattern.line}): it would match "
                f"{len(missed)} of {len(texts)} samples but for them, such as "
                f'"{one_line(texts[missed[0]], 60)}". Add re.DOTALL, and \\s* between the tags'
            )
            found.append(about("rewards.line-breaks", "warning", result, message, pattern.line))
            break
    closed = [text for text in texts if "</think>" in text and "<think>" not in text]
    if source.mentions("<think>") and (closed or prompt_tail.rstrip().endswith("<think>")):
        where = (
            "the chat template ends the prompt with <think>"
            if prompt_tail.rstrip().endswith("<think>")
            else (
                f"{len(closed)} of {len(texts)} completions close <think> without opening it, as when the "
                "chat template has written it into the prompt"
            )
        )
        message = f"asks for <think> in the completion, but {where}. Accept completions that begin after it"
        found.append(about("rewards.prefilled-think", "warning", result, message))
    return found


def _breaks_lines_only(pattern: Pattern, text: str) -> bool:
    """Whether a text would match were it not for its line breaks."""
    if "\n" not in text or len(text) > 20_000:
        return False
    method = pattern.method if pattern.method in ("match", "search", "fullmatch") else "search"
    try:
        plain = re.compile(pattern.text, re.DOTALL if pattern.dotall else 0)
        lenient = re.compile(pattern.text, re.DOTALL)
    except (re.error, RecursionError, OverflowError):
        return False
    if getattr(plain, method)(text) is not None:
        return False
    tight = _AROUND_TAGS.sub(r"\1", text.strip())
    return any(getattr(lenient, method)(form) is not None for form in (text, tight))
