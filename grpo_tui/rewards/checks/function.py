"""Findings about a single function: its parameters, behavior and scores.

Rules for parameters are in `contract.signature_faults`, which training applies too. Everything else comes
from scoring. Only differences between different completions count: equal samples prove nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Sequence

from grpo_tui.config.meant import nearest
from grpo_tui.core.findings import Finding, Fix, Severity
from grpo_tui.core.statistics import correlation, scored
from grpo_tui.core.text import completion_text, one_line, shorten
from grpo_tui.rewards.checks.source_text import Pattern, RewardSource
from grpo_tui.rewards.contract import ALWAYS, NOT_PASSED, near_column, signature_faults
from grpo_tui.rewards.samples import Sample, groups_of
from grpo_tui.rewards.score_report import BLANK, Failure, FunctionInfo, FunctionScore


def about(
    rule: str, severity: Severity, result: FunctionScore, message: str, line: int | None = None
) -> Finding:
    """Return a finding whose message starts with the function's name, by default at the function's line."""
    name = result.info.name
    return Finding(rule, severity, name, line or result.info.line, f"reward '{name}' {message}")


def signature_findings(info: FunctionInfo, columns: Collection[str]) -> list[Finding]:
    """Return problems with a function's parameters, given the columns of the dataset or of the samples."""
    if info.parameters is None:
        return []
    parameters = {p.name: p for p in info.parameters}
    found = [
        Finding(
            f"rewards.{fault.rule}",
            "error" if fault.fatal else "warning",
            info.name,
            info.line,
            fault.message,
            Fix("grpo_tui.columns", {fault.parameter: fault.near}) if fault.near else None,
        )
        for fault in signature_faults(info.name, parameters, columns, _place(info))
    ]
    return [*found, *_unfilled(info, columns)]


def _unfilled(info: FunctionInfo, columns: Collection[str]) -> Iterator[Finding]:
    """Report defaults and keyword arguments that no column fills, although one has a similar name."""
    others = [column for column in columns if column not in NOT_PASSED]
    rule = "rewards.unfilled-default"
    for p in info.parameters or ():
        if p.default in (..., BLANK) and p.name not in others and p.name not in info.params:
            blank = p.default == BLANK
            near = near_column(p.name, columns) if blank else nearest(p.name, others, cutoff=0.75)
            if near is not None:
                message = (
                    f"reward '{info.name}': its parameter {p.name} keeps its default, for the dataset has no "
                    f"such column; the nearest is {near}"
                )
                fix = Fix("grpo_tui.columns", {p.name: near})
                yield Finding(rule, "warning", info.name, info.line, message, fix)
    source = RewardSource(info.file_text, info.line) if info.file_text else None
    for key, line in source.keys_of_kwargs().items() if source is not None else ():
        near = None if key in others or key in ALWAYS else near_column(key, columns)
        if near is not None:
            message = (
                f"reward '{info.name}' reads {key} from its keyword arguments, but the dataset has no such "
                f"column; the nearest is {near}"
            )
            yield Finding(rule, "warning", info.name, line, message, Fix("grpo_tui.columns", {key: near}))


def _place(info: FunctionInfo) -> str:
    return f" ({info.file.rpartition('/')[2]}:{info.line})" if info.file and info.line else ""


_FAILED = {
    "load": ("rewards.load", "cannot be loaded"),
    "hung": ("rewards.hangs", ""),
    "died": ("rewards.ends-process", ""),
    "returned": ("rewards.return", ""),
    "raised": ("rewards.raises", "raises"),
}
_TEXTS = "treats completions as text, but the prompts are lists of messages, and so is each completion"
_MESSAGES = "treats completions as lists of messages, but the prompts are text, and so is each completion"
_TEXTS_FIX = 'Read the text as completion[-1]["content"]'
_MESSAGES_FIX = "Use the completion as text, or set grpo_tui.chat: true to turn the prompts into messages"


def call_findings(result: FunctionScore, samples: Sequence[Sample]) -> Iterator[Finding]:
    """Yield findings on how one function behaved when called."""
    failure = result.failure
    if failure is not None and failure.kind == "skipped":
        return
    shape = _shape(result)
    if shape is not None:
        yield shape
    elif failure is not None:
        yield _failure(result, failure, samples)
    yield from _repeat(result)
    for item in result.swallowed:
        what = f"{item.type}: {shorten(one_line(item.message), 80)}" if item.message else item.type
        text = (
            f"catches an exception and returns a constant instead: {what} "
            f"({item.file.rpartition('/')[2]}:{item.line}), {item.count} times in this call. Catch only "
            "what you expect, or return None for that sample"
        )
        yield about("rewards.swallows", "warning", result, text, item.line)
    if result.changed:
        text = (
            f"changes its arguments ({', '.join(result.changed)}), and TRL passes the same objects on, so "
            "later functions and TRL's log see the change. Work on a copy: list(completions)"
        )
        yield about("rewards.changes-arguments", "warning", result, text)
    yield from (about("rewards.changes-process", "warning", result, text) for text in result.left)


def source_findings(result: FunctionScore) -> Iterator[Finding]:
    """Yield findings on the source of one function."""
    if not result.info.file_text:
        return
    source = RewardSource(result.info.file_text, result.info.line)
    alarm = source.alarm_line()
    if alarm is not None:
        text = (
            f"uses signals (line {alarm}), which work only in a process's main thread. "
            "grpo-tui calls rewards there. In another thread the call raises, and a broad `except` would "
            "turn that into a silent 0"
        )
        yield about("rewards.main-thread", "info", result, text, alarm)
    distance = source.distance_line()
    if distance is not None and not any(s is not None and s < 0 for s in result.scores):
        text = (
            f"returns a distance, abs(a - b), as the score (line {distance}), so a "
            "larger error scores higher. Negate it"
        )
        yield about("rewards.distance", "warning", result, text, distance)


def _failure(result: FunctionScore, failure: Failure, samples: Sequence[Sample]) -> Finding:
    rule, verb = _FAILED[failure.kind]
    if failure.kind == "returned":
        return Finding(rule, "error", result.info.name, failure.line or result.info.line, failure.message)
    text = f"{verb}: {failure.text}" if verb else failure.text
    if failure.sample is not None:
        words = one_line(completion_text(samples[failure.sample].completion), 80)
        text += f', on sample {failure.sample + 1}, the completion "{words}"'
    return about(rule, "error", result, text, failure.line)


def _shape(result: FunctionScore) -> Finding | None:
    other, failure = result.other_shape, result.failure
    failed = failure is not None and failure.kind == "raised"
    if other is None or not other.works or not (failed or other.varies):
        return None
    wrong, fix = (_TEXTS, _TEXTS_FIX) if other.given == "messages" else (_MESSAGES, _MESSAGES_FIX)
    if failed and failure is not None:
        return about("rewards.shape", "error", result, f"{wrong}: {failure.text}. {fix}", failure.line)
    use = None
    if failure is None and result.info.file_text and other.given == "messages":
        use = RewardSource(result.info.file_text, result.info.line).text_use()
    named = f", as in `{one_line(use[0], 60)}`" if use is not None else ""
    text = f"{wrong}{named}. It gives all completions of a prompt the same score. {fix}"
    return about("rewards.shape", "error", result, text, use[1] if use is not None else None)


def _repeat(result: FunctionScore) -> Iterator[Finding]:
    repeat = result.repeat
    if repeat is None or not repeat.differs or (repeat.fresh_repeats and result.info.saves_state):
        return
    count = f"{len(repeat.differs)} of {len(result.scores)} samples get a different score in a second call"
    if repeat.fresh_repeats:
        text = (
            f"keeps state between calls: {count}, and a fresh copy repeats both results. The state is lost "
            "at a resume, and each process of a run has its own"
        )
        yield about("rewards.keeps-state", "warning", result, text)
    else:
        text = f"is not deterministic: {count} with the same arguments, so part of the advantage is random"
        yield about("rewards.not-deterministic", "warning", result, text)


FLAT = 1e-8
LENGTH_CORRELATION = 0.97
_AROUND_TAGS = re.compile(r"\s*(</?\w+>)\s*")


def value_findings(
    result: FunctionScore, samples: Sequence[Sample], *, alone: bool, prompt_tail: str = ""
) -> list[Finding]:
    """Return findings on the scores of one function. A function that failed has none."""
    if result.failure is not None:
        return []
    found = list(_not_numbers(result, alone))
    if found and all(s is None for s in result.scores):
        return found
    # Only correctness tells a reference answer from a wrong one in the same format, which `gold` judges.
    paired = all(sample.paired for sample in samples)
    other = result.other_shape
    if other is None or not other.varies:
        flat = _constant(result, samples) if not paired else _constant_everywhere(result)
        if flat is not None:
            found += [*_reasons_for_zero(result, samples, prompt_tail), flat]
    return [*found, *_grows_with_length(result, samples)]


def _not_numbers(result: FunctionScore, alone: bool) -> Iterator[Finding]:
    scores = result.scores
    if all(s is None for s in scores):
        text = "abstains (None) on every sample"
        text += (
            ": as the only function it leaves nothing to learn from, and TRL keeps training without a reward"
            if alone
            else ", so it adds nothing to the total"
        )
        yield about("rewards.none-everywhere", "error" if alone else "warning", result, text)
    nan = [i for i, s in enumerate(scores) if s is not None and math.isnan(s)]
    if nan:
        text = (
            f"returns NaN for {len(nan)} of {len(scores)} samples (first: sample {nan[0] + 1}); TRL "
            "silently treats it as None. Return None to abstain, or a number"
        )
        yield about("rewards.nan", "warning", result, text)
    infinite = [i for i, s in enumerate(scores) if s is not None and math.isinf(s)]
    if infinite:
        text = (
            f"returns {scores[infinite[0]]} for {len(infinite)} of {len(scores)} samples (first: sample "
            f"{infinite[0] + 1}); one such value ruins the advantages of its whole group. Clip it"
        )
        yield about("rewards.infinite", "error", result, text)


def _constant(result: FunctionScore, samples: Sequence[Sample]) -> Finding | None:
    pairs = [(i, s) for i, s in enumerate(result.scores) if s is not None and math.isfinite(s)]
    texts = {samples[i].text for i, _ in pairs}
    if len(texts) < 2:
        return None
    values = [s for _, s in pairs]
    if max(values) - min(values) < FLAT:
        text = (
            f"is constant: {values[0]:g} for all {len(values)} samples, {len(texts)} different completions. "
            "A constant gives advantage 0, so nothing is learned from it"
        )
        return about("rewards.constant", "warning", result, text)
    groups = []
    for group in groups_of(samples):
        known = [i for i in group if result.scores[i] is not None]
        if len({samples[i].text for i in known}) > 1:
            groups.append(scored(result.scores[i] for i in known))
    if not groups or any(max(group) - min(group) >= FLAT for group in groups if group):
        return None
    by_prompt: dict[str, set[float]] = {}
    for i, s in pairs:
        by_prompt.setdefault(samples[i].prompt_key, set()).add(s)
    if all(max(v) - min(v) < FLAT for v in by_prompt.values()):
        text = (
            f"depends only on the prompt: in each of {len(groups)} groups all completions score the same. "
            "GRPO learns only from differences within a group"
        )
        return about("rewards.prompt-only", "warning", result, text)
    text = (
        f"is constant within each of {len(groups)} groups, though it differs between them, so every "
        "advantage is 0"
    )
    return about("rewards.flat-groups", "warning", result, text)


def _constant_everywhere(result: FunctionScore) -> Finding | None:
    """Report a function that scores reference answers, wrong answers and texts derived from them equally."""
    other = result.other_shape
    if other is None or other.constant is None:
        return None
    text = (
        f"is constant: {other.constant:g} for all {other.tried} completions tried. They were reference and "
        "wrong answers, empty, shortened and very long texts. Nothing is learned from a constant"
    )
    return about("rewards.constant", "warning", result, text)


def _grows_with_length(result: FunctionScore, samples: Sequence[Sample]) -> Iterator[Finding]:
    pairs = [
        (float(len(samples[i].text)), s)
        for i, s in enumerate(result.scores)
        if s is not None and math.isfinite(s)
    ]
    lengths, scores = [p[0] for p in pairs], [p[1] for p in pairs]
    if len(set(lengths)) < 3 or len(set(scores)) < 3 or max(scores) <= 2.0:
        return
    if correlation(lengths, scores) < LENGTH_CORRELATION:
        return
    text = (
        f"grows with the length of the completion, without limit: {min(scores):g} at {min(lengths):.0f} "
        f"characters, {max(scores):g} at {max(lengths):.0f}. The model will learn to write longer and "
        "longer texts. If this is meant as a distance from a target length, its sign is wrong"
    )
    yield about("rewards.grows-with-length", "warning", result, text)


def _reasons_for_zero(
    result: FunctionScore, samples: Sequence[Sample], prompt_tail: str
) -> Iterator[Finding]:
    """Explain why a format is never matched: a pattern that stops at line breaks, a tag in the prompt."""
    source = RewardSource(result.info.file_text, result.info.line)
    texts = [sample.text for sample in samples]
    for pattern in source.patterns():
        missed = [i for i, text in enumerate(texts) if _breaks_lines_only(pattern, text)]
        if missed:
            message = (
                f"has a pattern that stops at line breaks (line {pattern.line}): without them it would "
                f'match {len(missed)} of {len(texts)} samples, such as "{one_line(texts[missed[0]], 60)}". '
                "Add re.DOTALL, and \\s* between the tags"
            )
            yield about("rewards.line-breaks", "warning", result, message, pattern.line)
            break
    closed = [text for text in texts if "</think>" in text and "<think>" not in text]
    if "<think>" in source.text and (closed or prompt_tail.rstrip().endswith("<think>")):
        where = (
            "the chat template ends the prompt with <think>"
            if prompt_tail.rstrip().endswith("<think>")
            else (
                f"{len(closed)} of {len(texts)} completions close <think> without opening it, as when the "
                "chat template has written it into the prompt"
            )
        )
        message = f"asks for <think> in the completion, but {where}. Accept completions that begin after it"
        yield about("rewards.prefilled-think", "warning", result, message)


def _breaks_lines_only(pattern: Pattern, text: str) -> bool:
    """Whether a text would match without its line breaks."""
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
