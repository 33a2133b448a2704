"""Findings from how a function behaved: it failed, hung, took the wrong form, swallowed, varied.

It computes no score and calls nothing; all evidence is in the lab's results.
"""

from __future__ import annotations

from collections.abc import Sequence

from grpo_tui.core.findings import Finding
from grpo_tui.core.text import completion_text, one_line, shorten
from grpo_tui.rewards.checks.about import about
from grpo_tui.rewards.checks.source_text import RewardSource
from grpo_tui.rewards.samples import Sample
from grpo_tui.rewards.score_report import Failure, FunctionScore

_FAILED = {
    "load": ("rewards.load", "cannot be loaded"),
    "hung": ("rewards.hangs", ""),
    "died": ("rewards.ends-process", ""),
    "returned": ("rewards.return", ""),
    "raised": ("rewards.raises", "raises"),
}
_TEXTS = "takes completions for texts, but the prompts are lists of messages, so each completion is one too"
_MESSAGES = (
    "takes completions for lists of messages, but the prompts are texts, so each completion is one too"
)
_TEXTS_FIX = 'Read the text as completion[-1]["content"]'
_MESSAGES_FIX = "Take the completion as it is, or set grpo_tui.chat: true to make messages of the prompts"


def call_findings(result: FunctionScore, samples: Sequence[Sample]) -> list[Finding]:
    """Return what one function's behaviour shows.

    Args:
        result: what it gave.
        samples: what it was given.
    """
    if result.failure is not None and result.failure.kind == "skipped":
        return []  # nobody called it
    found = []
    shape = _shape(result)
    if shape is not None:
        found.append(shape)
    elif result.failure is not None:
        found.append(_failure(result, result.failure, samples))
    found += _repeat(result)
    found += _swallowed(result)
    if result.changed:
        text = (
            f"changes its arguments ({', '.join(result.changed)}), which TRL passes on: the functions "
            "after it and TRL's own log see what it left. Work on a copy, as list(completions)"
        )
        found.append(about("rewards.changes-arguments", "warning", result, text))
    found += [about("rewards.changes-process", "warning", result, text) for text in result.left]
    return found


def source_findings(result: FunctionScore) -> list[Finding]:
    """Return what the text of one function shows without a call."""
    info = result.info
    if not info.file_text:
        return []
    source = RewardSource(info.file_text, info.line)
    found = []
    alarm = source.alarm_line()
    if alarm is not None:
        message = (
            f"reward '{info.name}' uses signals (line {alarm}), which work only in the main thread of a "
            "process. grpo-tui calls rewards there; in a thread of your own script it raises, and a broad "
            "`except` would make a silent 0 of that"
        )
        found.append(Finding("rewards.main-thread", "info", info.name, alarm, message))
    distance = source.distance_line()
    if distance is not None and not any(s is not None and s < 0 for s in result.scores):
        message = (
            f"reward '{info.name}' gives a distance, abs(a - b), as the score (line {distance}): the further "
            "off, the better. Write a minus before it"
        )
        found.append(Finding("rewards.distance", "warning", info.name, distance, message))
    return found


def _failure(result: FunctionScore, failure: Failure, samples: Sequence[Sample]) -> Finding:
    rule, verb = _FAILED[failure.kind]
    if failure.kind in ("returned", "load"):
        own = failure.text if failure.kind == "load" else failure.message
        return Finding(rule, "error", result.info.name, failure.line or result.info.line, own)
    text = f"{verb}: {failure.text}" if verb else failure.text
    if failure.sample is not None:
        sample = samples[failure.sample]
        words = one_line(completion_text(sample.completion), 80)
        text += f', on sample {failure.sample + 1}, the completion "{words}"'
    return about(rule, "error", result, text, failure.line)


def _shape(result: FunctionScore) -> Finding | None:
    other = result.other_shape
    use = None
    if result.failure is None and result.info.file_text and other is not None and other.given == "messages":
        use = RewardSource(result.info.file_text, result.info.line).text_use()
    if other is None or not other.works:
        return None
    failed = result.failure is not None and result.failure.kind == "raised"
    if not failed and not other.varies:
        return None
    wrong, fix = (_TEXTS, _TEXTS_FIX) if other.given == "messages" else (_MESSAGES, _MESSAGES_FIX)
    if failed and result.failure is not None:
        return about(
            "rewards.shape", "error", result, f"{wrong}: {result.failure.text}. {fix}", result.failure.line
        )
    named = f", as in `{one_line(use[0], 60)}`" if use is not None else ""
    text = f"{wrong}{named}. It gives all completions of a prompt the same score. {fix}"
    return about("rewards.shape", "error", result, text, use[1] if use is not None else None)


def _repeat(result: FunctionScore) -> list[Finding]:
    repeat = result.repeat
    if repeat is None or not repeat.differs:
        return []
    count = f"{len(repeat.differs)} of {len(result.scores)} samples score otherwise in a second call"
    if repeat.fresh_repeats and result.info.saves_state:
        return []
    if repeat.fresh_repeats:
        text = (
            f"keeps state between calls: {count}, and a fresh copy does the same twice over. After a resume "
            "it starts anew, and each process of a run has its own"
        )
        return [about("rewards.keeps-state", "warning", result, text)]
    text = f"is not deterministic: {count} with the same arguments, so part of the advantage is chance"
    return [about("rewards.not-deterministic", "warning", result, text)]


def _swallowed(result: FunctionScore) -> list[Finding]:
    found = []
    for item in result.swallowed:
        what = f"{item.type}: {shorten(one_line(item.message), 80)}" if item.message else item.type
        text = (
            f"swallows an exception and goes on with a constant: {what} ({item.file.rpartition('/')[2]}:"
            f"{item.line}), {item.count} times in this call. Catch only what you expect, or return None for "
            "that sample"
        )
        found.append(about("rewards.swallows", "warning", result, text, item.line))
    return found
