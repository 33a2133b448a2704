"""Rewards for `gsm8k.yaml` and its kin: is the answer right, is the format kept, how far is it kept.

A reward gets the completions of one batch and every column of the dataset as a keyword, each a list of the
same length, and returns one number per completion (None abstains). A chat prompt gives completions
`[{"role", "content"}]`, a text prompt gives texts; `text_of` takes both. `**kwargs` takes what a reward does
not use: leave it in. Nothing here needs more than Python itself.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any

# `.` must match line breaks, or a reasoning of two lines scores 0 for ever: hence DOTALL.
WHOLE = re.compile(r"\s*<think>.+?</think>\s*<answer>.+?</answer>\s*", re.DOTALL)
ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")
# The same with a fraction or a unit: `7/2`, `3 apples`. Words before it, or another number behind it, make
# another answer of it: "not 42", "42 or 43".
ANSWERED = re.compile(r"\s*([-−]?\d[\d,]*(?:\.\d+)?)(?:/([1-9]\d*))?(?: ?[^\W\d_]+)?")
GROUPED = re.compile(
    r"(?<=\d)[\u00a0\u2007\u2009\u202f](?=\d{3}(?!\d))"
)  # 2 500 with a space that keeps it together
FRACTION = re.compile(r"\\frac\{(\d+)\}\{(\d+)\}")
TAGS = ("<think>", "</think>", "<answer>", "</answer>")


def text_of(completion: str | list[dict[str, str]]) -> str:
    """Return the text of a completion in either of TRL's two forms."""
    return completion if isinstance(completion, str) else completion[-1]["content"]


def number_of(answer: str) -> float | None:
    """Return the number that an answer is: `**$1,200.**` gives 1200. One that says more gives None."""
    same = unicodedata.normalize("NFKC", GROUPED.sub("", answer))  # full-width digits become plain ones
    plain = FRACTION.sub(r"\1/\2", same).strip(" \n\t$*").removeprefix("\\boxed{").rstrip(" \n\t$*}.")
    found = ANSWERED.fullmatch(plain)
    if found is None:
        return None
    return float(found[1].replace(",", "").replace("−", "-")) / float(found[2] or 1)


def correct(completions: list[Any], answer: list[str], **kwargs: Any) -> list[float | None]:
    """1 for the right number inside the only `<answer>`, else 0. A gold answer that is no number abstains."""
    scores: list[float | None] = []
    for completion, gold in zip(completions, answer, strict=True):
        wanted = number_of(gold.rpartition("####")[2])  # GSM8K writes the number behind it
        tagged = ANSWER.findall(text_of(completion))
        given = number_of(tagged[0]) if len(tagged) == 1 else None
        scores.append(None if wanted is None else float(given == wanted))
    return scores


def same_words(completions: list[Any], answer: list[str], **kwargs: Any) -> list[float]:
    """1 where the only `<answer>` says the gold answer, else 0; capitals, marks and a full stop are free.

    A gold answer that is a number is compared as one: `1,440 minutes` is 1440.
    """
    scores = []
    for completion, gold in zip(completions, answer, strict=True):
        tagged = ANSWER.findall(text_of(completion))
        read = plain if number_of(str(gold)) is None else number_of
        scores.append(float(len(tagged) == 1 and read(tagged[0]) == read(str(gold))))
    return scores


def plain(answer: str) -> str:
    """Return an answer's words alone: `**Paris.**` gives paris."""
    return " ".join(
        answer.strip(" \n\t*$").removeprefix("\\boxed{").rstrip("}").strip(" \n\t*$.").casefold().split()
    )


def strict_format(completions: list[Any], **kwargs: Any) -> list[float]:
    """1 for `<think>…</think><answer>…</answer>` and nothing else, else 0.

    Each tag must stand exactly once, so that writing the form twice does not count.
    """
    scores = []
    for completion in completions:
        text = text_of(completion)
        once = all(text.count(tag) == 1 for tag in TAGS)
        scores.append(float(once and WHOLE.fullmatch(text) is not None))
    return scores


def steps_to_format(completions: list[Any], **kwargs: Any) -> list[float]:
    """A quarter for each tag that stands exactly once, less what is written after the answer.

    A closing tag counts only with something before it. A model that never meets the whole
    format has nothing to climb with `strict_format` alone; here it has.
    """
    scores = []
    for completion in completions:
        text = text_of(completion)
        score = sum(
            0.25 for tag in TAGS if text.count(tag) == 1 and not (tag[1] == "/" and hollow(text, tag))
        )
        if text.count("</answer>") == 1:
            score -= 0.001 * len(text.rpartition("</answer>")[2].strip())
        scores.append(max(score, 0.0))
    return scores


def hollow(text: str, closing: str) -> bool:
    """Return whether nothing stands before a closing tag, back to its opening one."""
    return not text.partition(closing)[0].rpartition(closing.replace("/", ""))[2].strip()


def answer_is_a_number(completions: list[Any], **kwargs: Any) -> list[float]:
    """1 when `<answer>` holds one number and nothing else, right or wrong."""
    scores = []
    for completion in completions:
        tagged = ANSWER.findall(text_of(completion))
        scores.append(float(bool(tagged) and NUMBER.fullmatch(tagged[-1].strip()) is not None))
    return scores
