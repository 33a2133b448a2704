"""Score the reference answer of one row, and a wrong one.

The answer is written in every common format, and each function is shown the one in which it distinguishes
right from wrong best.
"""

from __future__ import annotations

from dataclasses import dataclass

from grpo_tui.preflight.facts import RowView
from grpo_tui.rewards.answer_format import GoldForm, forms_for
from grpo_tui.rewards.lab import Lab
from grpo_tui.rewards.samples import gold_and_wrong
from grpo_tui.rewards.score_report import FunctionInfo, FunctionScore


@dataclass(frozen=True, slots=True)
class GoldReward:
    """Scores of one function.

    Attributes:
        right: score of the reference answer, or None.
        wrong: score of a wrong answer, or None.
        failure: why it has no scores, or empty.
        skipped: why it was not called, or empty.
    """

    name: str
    weight: float
    right: float | None
    wrong: float | None
    form: str
    failure: str = ""
    skipped: str = ""


def gold_rewards(lab: Lab, row: RowView) -> tuple[GoldReward, ...]:
    """Score the reference answer of a row with the loaded rewards. Empty when the row has none.

    Raises:
        LabError: scoring is not possible at all. A single failing function does not raise.
    """
    if row.prompt is None or not row.answer_column or lab.config is None:
        return ()
    forms = forms_for(lab.config.section.system_prompt)
    samples = gold_and_wrong([{"prompt": row.prompt, "columns": row.columns}], forms, row.answer_column)
    if not samples:
        return ()
    asked = [info.index for info in lab.functions if info.kind != "model"]
    if not asked:
        return tuple(_unasked(info) for info in lab.functions)
    return tuple(
        _best(result, forms) for result in lab.score(samples, only=asked, repeat_limit_s=0.0).functions
    )


def _unasked(info: FunctionInfo) -> GoldReward:
    skipped = "a reward model, which is not loaded for a look"
    return GoldReward(info.name, info.weight, None, None, "", skipped=skipped)


def _best(result: FunctionScore, forms: tuple[GoldForm, ...]) -> GoldReward:
    """Return the format with the largest difference, then the highest score. Samples come in pairs."""
    if result.info.kind == "model":
        return _unasked(result.info)
    name, weight = result.info.name, result.info.weight
    if result.failure is not None:
        return GoldReward(name, weight, None, None, "", result.failure.text)
    pairs = [
        (form.name, right, wrong)
        for form, right, wrong in zip(forms, result.scores[::2], result.scores[1::2], strict=True)
    ]

    def worth(pair: tuple[str, float | None, float | None]) -> tuple[float, float]:
        _, right, wrong = pair
        low = float("-inf")
        return (low, low) if right is None else (right - (wrong or 0.0), right)

    form, right, wrong = max(pairs, key=worth)
    return GoldReward(name, weight, right, wrong, form)
