r"""The form in which a task wants its answers: between tags, in `\boxed{}`, behind `####`, or plain.

Found in the prompt and in the source of the rewards, so that a probe can be written as the model would write
it. Knows text only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

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
"""What stands in a text that asks for a form without tags, and the form's style."""
_TAG = re.compile(r"</?([A-Za-z][\w-]*)\\?>")


@dataclass(frozen=True, slots=True)
class Form:
    """How a completion is written.

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
        """A completion in this form."""
        return self.thought(reasoning) + self.framed(answer)

    def thought(self, reasoning: str) -> str:
        """The reasoning as it stands before the answer."""
        if self.think is None:
            return f"{reasoning}\n" if reasoning else ""
        opening = "" if self.prefilled else f"<{self.think}>\n"
        return f"{opening}{reasoning}\n</{self.think}>\n"

    def framed(self, answer: str) -> str:
        """The answer as it stands in the end."""
        if self.style == "tags":
            return f"<{self.answer}>{answer}</{self.answer}>"
        if self.style == "boxed":
            return f"The answer is $\\boxed{{{answer}}}$."
        return f"#### {answer}" if self.style == "hashes" else f"The answer is {answer}"


def find_form(prompts: Iterable[str], sources: Iterable[str] = ()) -> Form:
    """The form that prompts ask for; where they say nothing, the one that rewards look for.

    Args:
        prompts: texts of some prompts, the system prompt among them.
        sources: source texts of the reward functions.
    """
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
    """The first of the names that is a tag in the first place that has one, as it is written there."""
    for text in places:
        found = {name.lower(): name for name in _TAG.findall(text)}
        if tag := next((found[name] for name in names if name in found), None):
            return tag
    return None
