"""Findings from scoring reference answers, which a sound correctness reward scores above wrong ones.

Each row's reference answer and a wrong one are scored in several formats. It is enough if the reference
answer wins in one of them. Only functions that read the answer column are judged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from grpo_tui.core.findings import Finding, Fix, Severity
from grpo_tui.core.text import one_line
from grpo_tui.rewards.answer_format import short_answer
from grpo_tui.rewards.checks.source_text import RewardSource
from grpo_tui.rewards.samples import Sample
from grpo_tui.rewards.score_report import FunctionInfo, FunctionScore


@dataclass(frozen=True, slots=True)
class _Row:
    number: int
    verdict: str  # above, below, alike, abstains
    gold: float | None
    wrong: float | None
    answer: Any


def reads_column(info: FunctionInfo, column: str) -> bool:
    """Return whether a function reads a column, as a parameter or from its keyword arguments."""
    if any(p.name == column for p in info.parameters or ()):
        return True
    return RewardSource(info.file_text, info.line).names(column)


WHOLE, LOWER, NUMBER = "the text of a whole number", "text in small letters", "a number"
_CALLS = {WHOLE: "str(int(…))", LOWER: "str(…).lower()", NUMBER: "float(…)"}
_TYPES = {"bool": "true and false", "int": "integers", "float": "numbers", "str": "text"}


@dataclass(frozen=True, slots=True)
class Retyped:
    """Results with the answer column converted to another type."""

    words: str
    results: Sequence[FunctionScore]


def retypings(values: Sequence[Any]) -> dict[str, list[Any]]:
    """Return the values of an answer column in other plausible types, by the words for the type."""
    known = [value for value in values if value is not None]
    if not known or any(isinstance(value, list | dict) for value in known):
        return {}

    def each(change: Callable[[Any], Any]) -> list[Any]:
        return [None if value is None else change(value) for value in values]

    if all(isinstance(value, str) for value in known):
        return {} if any(_as_number(value) is None for value in known) else {NUMBER: each(_as_number)}
    if all(isinstance(value, float) and value.is_integer() for value in known):
        return {WHOLE: each(lambda value: str(int(value)))}
    found = {"text": each(str)}
    if all(isinstance(value, bool) for value in known):
        found[LOWER] = each(lambda value: str(value).lower())
    return found


def _as_number(text: str) -> int | float | None:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return None


def gold_findings(
    results: Sequence[FunctionScore],
    samples: Sequence[Sample],
    column: str,
    retyped: Sequence[Retyped] = (),
) -> list[Finding]:
    """Report functions that do not score reference answers, as of `gold_and_wrong`, above wrong ones."""
    found = []
    for place, result in enumerate(results):
        if result.failure is None and reads_column(result.info, column):
            rows = _rows(result, samples, column)
            finding = _judge(result, rows, column)
            if finding is not None and finding.id == "rewards.gold-not-above-wrong":
                others = [(other.words, other.results[place]) for other in retyped]
                finding = _by_type(result, rows, column, samples, others) or finding
            if finding is not None:
                found.append(finding)
    return found


def _rows(result: FunctionScore, samples: Sequence[Sample], column: str) -> list[_Row]:
    by_row: dict[str, list[tuple[float | None, float | None]]] = {}
    answers: dict[str, Any] = {}
    for i in range(0, len(samples), 2):
        row = samples[i].group
        by_row.setdefault(row, []).append((result.scores[i], result.scores[i + 1]))
        answers[row] = samples[i].columns.get(column)
    return [_row(n, pairs, answers[row]) for n, (row, pairs) in enumerate(by_row.items(), 1)]


def _row(number: int, pairs: Sequence[tuple[float | None, float | None]], answer: Any) -> _Row:
    known = [(g, w) for g, w in pairs if g is not None and w is not None]
    if not known:
        return _Row(number, "abstains", None, None, answer)
    best = max(known, key=lambda pair: pair[0] - pair[1])
    if best[0] > best[1]:
        return _Row(number, "above", *best, answer)
    worst = min(known, key=lambda pair: pair[0] - pair[1])
    verdict = "below" if worst[0] < worst[1] else "alike"
    return _Row(number, verdict, *worst, answer)


def _judge(result: FunctionScore, rows: Sequence[_Row], column: str) -> Finding | None:
    info = result.info
    judged = [row for row in rows if row.verdict != "abstains"]
    bad = [row for row in judged if row.verdict != "above"]

    def finding(rule: str, message: str, fix: Fix | None = None) -> Finding:
        severity: Severity = "warning" if len(bad) < len(judged) or not judged else "error"
        return Finding(
            f"rewards.{rule}", severity, info.name, info.line, f"reward '{info.name}' {message}", fix
        )

    if not judged:
        return finding(
            "gold-abstains",
            f"returns None for the reference answer in all {len(rows)} rows. "
            f'It may be unable to read {column}: "{_shown(rows[0])}"',
        )
    if not bad:
        return None
    first = bad[0]
    below = [row for row in bad if row.verdict == "below"]
    if len(below) == len(judged):
        return finding(
            "gold-below-wrong",
            f"scores the reference answer below a wrong one in all {len(judged)} rows ({_pair(first)}). "
            "Flip its sign",
        )
    raw = first.answer if isinstance(first.answer, str) else ""
    if len(bad) == len(judged) and raw and short_answer(first.answer) != raw.strip():
        kind = "gsm8k" if "####" in raw else "boxed"
        fix = Fix("grpo_tui.answer", {"from": column, "kind": kind, "to": column})
        return finding(
            "gold-format",
            f"never scores the reference answer above a wrong one. {column} holds a whole solution "
            f'("{_shown(first)}") and the function compares with all of it, so '
            f'"{short_answer(first.answer)}" scores '
            f"{_number(first.gold)} like a wrong answer. Extract the answer with grpo_tui.answer: {kind}",
            fix,
        )
    if len(bad) == len(judged):
        return finding(
            "gold-not-above-wrong",
            "never scores a reference answer above a wrong one, in any of the answer formats tried "
            f"({_pair(first)}, {len(judged)} rows)",
        )
    empty = [row for row in bad if not str(row.answer or "").strip()]
    why = f", {len(empty)} of them with an empty {column}" if empty else ""
    return finding(
        "gold-unusable",
        f"gives reference and wrong answers the same score in {len(bad)} of {len(judged)} rows{why} "
        f"(first: row {first.number}, {_pair(first)}). Return None where the reference answer cannot be "
        "used",
    )


def _by_type(
    result: FunctionScore,
    rows: Sequence[_Row],
    column: str,
    samples: Sequence[Sample],
    others: Sequence[tuple[str, FunctionScore]],
) -> Finding | None:
    for words, other in others:
        given = [] if other.failure is not None else _rows(other, samples, column)
        judged = [row.verdict for row in given if row.answer is not None]
        if not judged or any(verdict != "above" for verdict in judged):
            continue
        name, value = result.info.name, next(row.answer for row in rows if row.answer is not None)
        kind = _TYPES.get(type(value).__name__, f"{type(value).__name__} objects")
        message = (
            f"reward '{name}' never scores a right answer above a wrong one, because the column {column} "
            f"holds {kind} ({one_line(repr(value), 40)}) and the function compares it with {words}. Write "
            f"{_CALLS.get(words, 'str(…)')} around the column's value in the function"
        )
        fix = None
        if words not in (NUMBER, LOWER):
            pattern = r"^(.+?)(?:\.0)?$" if words == WHOLE else ".+"
            message += ", or convert the column to text with grpo_tui.answer"
            fix = Fix("grpo_tui.answer", {"from": column, "kind": "regex", "pattern": pattern, "to": column})
        return Finding("rewards.gold-type", "error", name, result.info.line, message, fix)
    return None


def _pair(row: _Row) -> str:
    return f'"{_shown(row)}": right {_number(row.gold)}, wrong {_number(row.wrong)}'


def _shown(row: _Row) -> str:
    return one_line("" if row.answer is None else str(row.answer), 60)


def _number(value: float | None) -> str:
    return "None" if value is None else f"{value:g}"
