"""Read the recorded answers to held prompts, before and after training.

Knows the fact `before_after` as the demonstration writes it; knows no model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from grpo_tui.core.statistics import is_number
from grpo_tui.core.text import one_line, prompt_text
from grpo_tui.present.train_view import AnswerPair, BeforeAfter


def read_before_after(value: Any, training_gain: float | None = None) -> BeforeAfter | None:
    """The fact as rows, None when it is absent or of another shape.

    Args:
        value: The fact `before_after`.
        training_gain: Gain in reward over the training steps, used when the fact names none.
    """
    body: Mapping[str, Any] = value if isinstance(value, Mapping) else {"rows": value}
    rows = body.get("rows")
    if not isinstance(rows, list):
        return None
    pairs = tuple(_pair(row) for row in rows if isinstance(row, Mapping))
    if not pairs:
        return None
    before, after = _number(body.get("before_reward")), _number(body.get("after_reward"))
    gain = _number(body.get("gain"))
    if gain is None and before is not None and after is not None:
        gain = after - before
    return BeforeAfter(pairs, training_gain if gain is None else gain, before, after)


def _pair(row: Mapping[str, Any]) -> AnswerPair:
    gold = row.get("gold")
    gold_text = "" if gold is None else one_line(str(gold))
    before, after = str(row.get("before", "")), str(row.get("after", ""))
    return AnswerPair(
        prompt=one_line(prompt_text(row.get("prompt", ""))),
        gold=gold_text,
        before=one_line(before),
        after=one_line(after),
        before_right=_right(row.get("before_right"), before, gold),
        after_right=_right(row.get("after_right"), after, gold),
        before_reward=_number(row.get("before_reward")),
        after_reward=_number(row.get("after_reward")),
    )


FORMS = ("<answer>{}</answer>", ">{}<", "\\boxed{{{}}}", "#### {}")
"""How an answer is usually asked for; a right number said in passing earns no reward and is not counted."""


def _right(told: Any, text: str, gold: Any) -> bool | None:
    if isinstance(told, bool):
        return told
    if gold is None or gold == "":
        return None
    asked = str(gold).strip()
    return text.strip() == asked or any(form.format(asked) in text for form in FORMS)


def _number(value: Any) -> float | None:
    return float(value) if is_number(value) else None
