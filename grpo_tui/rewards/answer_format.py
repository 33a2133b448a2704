r"""Answer formats of a task, with right and wrong answers written in them.

A format uses tags, `\boxed{}`, `####`, or plain text. It is detected in the prompts and in the source of the
rewards. Wrong answers are derived: a number becomes the next one, a letter its neighbor, yes becomes no. For
other texts, the answer of another row is used. A sound reward scores the reference answer higher in at least
one format.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from grpo_tui.core.answers import after_hashes, last_boxed

THINK_TAGS = (
    "think",
    "thinking",
    "reasoning",
    "reason",
    "thought",
    "scratchpad",
    "plan",
    "analysis",
    "working",
)
ANSWER_TAGS = ("answer", "final_answer", "final", "solution", "result", "output", "response", "reply")
SIGNS = {"boxed": "boxed", "####": "hashes"}
"""Marks of a format without tags, mapped to its style."""
_TAG = re.compile(r"</?([A-Za-z][\w-]*)\\?>")


@dataclass(frozen=True, slots=True)
class Form:
    """Answer format of a completion.

    Attributes:
        style: `tags`, `boxed`, `hashes` or `plain`.
        think: name of the tag around the reasoning, None without one.
        answer: name of the tag around the answer, for `tags`.
        prefilled: whether the prompt ends with the opening think tag, so that a completion begins inside it.
    """

    style: str = "plain"
    think: str | None = None
    answer: str = "answer"
    prefilled: bool = False

    def write(self, reasoning: str, answer: str) -> str:
        """Return a completion in this format."""
        return self.thought(reasoning) + self.framed(answer)

    def thought(self, reasoning: str) -> str:
        """Return the reasoning part of a completion."""
        if self.think is None:
            return f"{reasoning}\n" if reasoning else ""
        opening = "" if self.prefilled else f"<{self.think}>\n"
        return f"{opening}{reasoning}\n</{self.think}>\n"

    def framed(self, answer: str) -> str:
        """Return the answer part of a completion."""
        if self.style == "tags":
            return f"<{self.answer}>{answer}</{self.answer}>"
        if self.style == "boxed":
            return f"The answer is $\\boxed{{{answer}}}$."
        return f"#### {answer}" if self.style == "hashes" else f"The answer is {answer}"


def find_form(prompts: Iterable[str], sources: Iterable[str] = ()) -> Form:
    """Return the format that prompts ask for, or else the one that rewards look for."""
    asked = list(prompts)
    places = ("\n".join(asked), "\n".join(sources))
    think = _first_tag(THINK_TAGS, places)
    ends = [prompt.rstrip() for prompt in asked]
    prefilled = think is not None and bool(ends) and all(end.endswith(f"<{think}>") for end in ends)
    for text in places:
        if answer := _first_tag(ANSWER_TAGS, [text]):
            return Form("tags", think, answer, prefilled)
        if style := next((style for sign, style in SIGNS.items() if sign in text), None):
            return Form(style, think, prefilled=prefilled)
    return Form("plain", think, prefilled=prefilled)


def _first_tag(names: Iterable[str], places: Iterable[str]) -> str | None:
    """Return the first of the names that is a tag in the first text with any, in the text's letter case."""
    for text in places:
        found = {name.lower(): name for name in _TAG.findall(text)}
        if tag := next((found[name] for name in names if name in found), None):
            return tag
    return None


GOLD_COLUMNS = (
    "answer",
    "solution",
    "gold",
    "ground_truth",
    "target",
    "expected",
    "final_answer",
    "correct_answer",
    "reference",
    "label",
)
"""Common names of the column with the right answer, likeliest first."""

REASONING = "I work it out step by step."
NO_ANSWER = "something else"
ASKED = "as the system prompt asks"
_HERE = "\0"
_NUMBER = re.compile(r"([-+]?)(\$?)(\d[\d,]*)(\.\d+)?(.*)", re.DOTALL)
_FRACTION = re.compile(r"([-+]?\d+)\s*/\s*(\d+)")
_OPPOSITES = {"yes": "no", "no": "yes", "true": "false", "false": "true"}
_OPENING_TAG = re.compile(r"<([A-Za-z_][\w-]*)>")


@dataclass(frozen=True, slots=True)
class GoldForm:
    """Format that writes text before and after the answer."""

    name: str
    before: str
    after: str

    def write(self, answer: str) -> str:
        """Return the answer as a completion."""
        return f"{self.before}{answer}{self.after}"


PLAIN = GoldForm("plain", "", "")
TAGGED = GoldForm("tagged", f"<think>\n{REASONING}\n</think>\n<answer>\n", "\n</answer>")
FORMS = (
    PLAIN,
    GoldForm("a sentence", "The answer is ", "."),
    TAGGED,
    GoldForm("tagged on one line", f"<think>{REASONING}</think><answer>", "</answer>"),
    GoldForm("boxed", f"{REASONING} The answer is $\\boxed{{", "}$."),
    GoldForm("after ####", f"{REASONING}\n#### ", ""),
    GoldForm("after </think>", f"<think>\n{REASONING}\n</think>\n\nThe answer is $\\boxed{{", "}$."),
)
"""Common formats. A correctness reward accepts at least one."""


def forms_for(system_prompt: str | None) -> tuple[GoldForm, ...]:
    """Return the common formats, preceded by one with the tags that a system prompt asks for."""
    tags = list(dict.fromkeys(_OPENING_TAG.findall(system_prompt or "")))
    tags = [tag for tag in tags if f"</{tag}>" in (system_prompt or "")]
    if not tags or tags == ["think", "answer"]:
        return FORMS
    before = "".join(f"<{tag}>\n{REASONING}\n</{tag}>\n" for tag in tags[:-1]) + f"<{tags[-1]}>\n"
    return (GoldForm(ASKED, before, f"\n</{tags[-1]}>"), *FORMS)


def likely_form(source_texts: Iterable[str], forms: Sequence[GoldForm]) -> GoldForm:
    """Return the format that the system prompt asks for, or else the one that the sources look for."""
    if forms[0].name == ASKED:
        return forms[0]
    texts = list(source_texts)
    form = find_form((), texts)
    if form.style == "plain" and any("LatexExtraction" in text for text in texts):
        form = replace(form, style="boxed")
    if form.style == "plain" and form.think is None:
        return PLAIN
    thought, gap = form.thought(REASONING), "\n" if form.style == "tags" else ""
    before, _, after = form.framed(f"{gap}{_HERE}{gap}").partition(_HERE)
    return GoldForm("as the rewards look for it", thought + before, after)


def gold_column(names: Sequence[str]) -> str | None:
    """Return the column with the right answer, judged by its name, or None."""
    return next((name for name in GOLD_COLUMNS if name in names), None)


def short_answer(value: Any) -> str:
    r"""Return the text after `####` or in the last `\boxed{}`, or else the whole text."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # integers in a column with an empty cell are read as 5.0
    text = "" if value is None else str(value)
    found = after_hashes(text) or last_boxed(text)
    return (found or text).strip()


def wrong_answers(answers: Sequence[str]) -> list[str]:
    """Return a wrong answer for each right one."""
    return [wrong_answer(answer, answers) for answer in answers]


def wrong_answer(answer: str, others: Sequence[str] = ()) -> str:
    """Return an answer that is certainly wrong but looks similar, or else one of `others`, or none."""
    if answer.lower() in _OPPOSITES:
        other = _OPPOSITES[answer.lower()]
        return other.capitalize() if answer[:1].isupper() else other
    fraction = _FRACTION.fullmatch(answer)
    if fraction:
        return f"{int(fraction[1]) + int(fraction[2])}/{fraction[2]}"
    number = _NUMBER.fullmatch(answer)
    if number:
        return _next_number(*number.groups(default=""))
    if re.fullmatch(r"\(?[A-Za-z]\)?", answer):
        letter = next(c for c in answer if c.isalpha())
        return answer.replace(
            letter, "B" if letter == "A" else "b" if letter == "a" else chr(ord(letter) - 1)
        )
    for other in others:
        if other and other not in answer and answer not in other:
            return other
    return NO_ANSWER


def _next_number(sign: str, currency: str, whole: str, decimals: str, unit: str) -> str:
    value = int(whole.replace(",", "")) + 1
    grouped = f"{value:,}" if "," in whole else str(value)
    return f"{sign}{currency}{grouped}{decimals}{unit}"
