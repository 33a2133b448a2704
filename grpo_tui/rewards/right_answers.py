"""Find the reward that decides whether an answer is right, and those that look only at the format.

Each function scores right, wrong, unformatted and long completions made from some rows' reference answers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from grpo_tui.config.run_config import RunConfig
from grpo_tui.core.text import whole_text
from grpo_tui.rewards.answer_format import REASONING, find_form, forms_for, short_answer, wrong_answers
from grpo_tui.rewards.generating import DatasetRow
from grpo_tui.rewards.lab import Lab
from grpo_tui.rewards.samples import Sample
from grpo_tui.rewards.score_report import FunctionScore

EPSILON = 1e-6
MEASURED_ROWS = 4
LONG_REASONING = " ".join([REASONING] * 12)
ANY_ANSWER = "42"
"""Answer to use without an answer column. Format rewards can still be found."""
_TWINS = (("right", "wrong"), ("formless", "formless wrong"), ("other", "other wrong"))
_ASKED = re.compile(r"(?P<name>.+?)\s*(?:>=\s*(?P<least>[-+.\deE]+))?\s*")


class JudgeError(ValueError):
    """No function has the requested name. The message lists the known ones."""


@dataclass(frozen=True, slots=True)
class Judge:
    """Function with the lowest score that it gives to right answers."""

    index: int
    name: str
    least: float
    why: str

    def says_yes(self, score: float | None) -> bool:
        """Return whether a completion with this score is right."""
        return score is not None and score >= self.least - EPSILON


@dataclass(frozen=True, slots=True)
class Measures:
    """Scores of made-up completions of some rows.

    Attributes:
        samples: with `kind` `right`, `wrong`, `long` (right, with long reasoning), `formless` (right, without
            the format) or `other` (right, in another format); the last two also with ` wrong` appended.
        gold: whether the right ones contain a reference answer.
    """

    samples: tuple[Sample, ...]
    functions: tuple[FunctionScore, ...]
    gold: bool


def measured(
    lab: Lab, config: RunConfig, rows: Sequence[DatasetRow], column: str | None, only: Sequence[int]
) -> Measures:
    """Score made-up completions of some rows.

    Raises:
        LabError: scoring is not possible.
    """
    samples = made_of(rows[:MEASURED_ROWS], config, column, [f.file_text for f in lab.functions])
    scored = lab.score(samples, only=only, repeat_limit_s=0.0)
    return Measures(tuple(samples), scored.functions, column is not None)


def made_of(
    rows: Sequence[DatasetRow], config: RunConfig, column: str | None, sources: Sequence[str]
) -> list[Sample]:
    """Return the completions that show what a function looks at, grouped by row."""
    answers = [short_answer(row.columns.get(column)) if column is not None else ANY_ANSWER for row in rows]
    wrongs = wrong_answers(answers)
    form = find_form([whole_text(row.prompt) for row in rows], sources)
    samples = []
    for row, answer, wrong in zip(rows, answers, wrongs, strict=True):
        texts = [
            ("right", form.write(REASONING, answer)),
            ("wrong", form.write(REASONING, wrong)),
            ("long", form.write(LONG_REASONING, answer)),
            ("formless", answer),
            ("formless wrong", wrong),
        ]
        for other in forms_for(config.section.system_prompt):
            texts += [("other", other.write(answer)), ("other wrong", other.write(wrong))]
        samples += [Sample(row.prompt, text, row.columns, row.group, kind) for kind, text in texts]
    return samples


def find_judge(
    measures: Measures, results: Sequence[FunctionScore], asked: str | None = None
) -> Judge | None:
    """Return the function that decides what is right: the requested one, or one that detects wrong answers.

    Of several, the one with the largest weight is used. Without any, a function with two or three different
    scores on the model's own completions is used, at its highest score.

    Args:
        asked: `NAME` or `NAME>=X`.

    Raises:
        JudgeError: no function has that name.
    """
    if asked is not None:
        return _wanted(measures, results, asked)
    heaviest = sorted(results, key=lambda r: -abs(r.info.weight))
    for result in heaviest:
        if result.failure is None and (found := _by_gold(measures, result.info.index)) is not None:
            return found
    forms = {judge.index for judge in find_forms(measures)}
    for result in heaviest:
        seen = _seen(result)
        if result.failure is None and result.info.index not in forms and 1 < len(seen) <= 3:
            return Judge(result.info.index, result.info.name, max(seen), "the highest score seen")
    return None


def find_forms(measures: Measures) -> list[Judge]:
    """Return the functions that look only at the format, each with its score for the whole format.

    Such a function scores right, wrong and long completions in the format equally, and unformatted ones
    lower.
    """
    found = []
    for result in measures.functions:
        if result.failure is not None:
            continue
        rows = _by_row(measures, result.info.index)
        form = [_form_score(row) for row in rows]
        if rows and all(score is not None for score in form):
            least = min(score for score in form if score is not None)
            found.append(Judge(result.info.index, result.info.name, least, "the score of the right format"))
    return found


def _form_score(row: Mapping[str, Sequence[float | None]]) -> float | None:
    """Return the score of the format in a row. None when the function looks at anything else too."""
    (right,), (wrong,), (long,), (formless,) = (row[k] for k in ("right", "wrong", "long", "formless"))
    if right is None or formless is None or right <= formless + EPSILON:
        return None
    same = all(other is not None and abs(other - right) <= EPSILON for other in (wrong, long))
    return right if same else None


def _by_gold(measures: Measures, index: int) -> Judge | None:
    """Return the function as a judge by its scores of reference answers. None if wrong ones score as high."""
    if not measures.gold or measures.functions[index].failure is not None:
        return None
    best, rows = [], _by_row(measures, index)
    for row in rows:
        pairs = [
            (gold, wrong)
            for kind, twin in _TWINS
            for gold, wrong in zip(row[kind], row[twin], strict=True)
            if gold is not None and wrong is not None and gold > wrong + EPSILON
        ]
        if pairs:
            best.append(max(gold for gold, _ in pairs))
    if len(best) * 2 <= len(rows):  # a wrong number may just be longer than the right one
        return None
    return Judge(index, measures.functions[index].info.name, min(best), "the reference answer's score")


def _wanted(measures: Measures, results: Sequence[FunctionScore], asked: str) -> Judge | None:
    parts = _ASKED.fullmatch(asked)
    name = parts["name"] if parts is not None else asked
    result = next((r for r in results if r.info.name == name), None)
    if result is None:
        names = ", ".join(r.info.name for r in results)
        raise JudgeError(f"--correct {asked}: the rewards are {names}; write NAME or NAME>=SCORE")
    index = result.info.index
    if parts is not None and parts["least"] is not None:
        try:
            return Judge(index, name, float(parts["least"]), "as given")
        except ValueError:
            raise JudgeError(f"--correct {asked}: {parts['least']} is not a number") from None
    by_gold = _by_gold(measures, index)
    if by_gold is not None:
        return by_gold
    seen = _seen(result)
    if not seen:
        return None
    if len(seen) == 1:  # all equal, so accept any score above 0
        return Judge(index, name, max(max(seen), EPSILON * 2), "any score above 0")
    return Judge(index, name, max(seen), "the highest score seen")


def _by_row(measures: Measures, index: int) -> list[dict[str, list[float | None]]]:
    rows: dict[str, dict[str, list[float | None]]] = {}
    scores = measures.functions[index].scores
    for sample, score in zip(measures.samples, scores, strict=True):
        rows.setdefault(sample.group, {}).setdefault(sample.kind, []).append(score)
    return list(rows.values())


def _seen(result: FunctionScore) -> set[float]:
    return {score for score in result.scores if score is not None}
