"""Rewards for `gsm8k.yaml` and similar configs: correct answer, exact format, partial format.

A reward gets the completions of one batch, and every dataset column as a keyword argument with a list of the
same length. It returns one number per completion, None to abstain. Completions of a chat prompt are
`[{"role", "content"}]`, those of a text prompt are texts. `text_of` accepts both. Keep `**kwargs`, which
takes the arguments that a reward does not use. Only Python's standard library is needed.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any

# DOTALL, because `.` must match line breaks. Otherwise two lines of reasoning would always score 0.
WHOLE = re.compile(r"\s*<think>.+?</think>\s*<answer>.+?</answer>\s*", re.DOTALL)
ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")
# A number with an optional fraction or unit: `7/2`, `3 apples`. Words before it or a number after it make
# it a different answer: "not 42", "42 or 43".
ANSWERED = re.compile(r"\s*([-−]?\d[\d,]*(?:\.\d+)?)(?:/([1-9]\d*))?(?: ?[^\W\d_]+)?")
GROUPED = re.compile(r"(?<=\d)[\u00a0\u2007\u2009\u202f](?=\d{3}(?!\d))")  # 2 500 with a non-breaking space
FRACTION = re.compile(r"\\frac\{(\d+)\}\{(\d+)\}")
TAGS = ("<think>", "</think>", "<answer>", "</answer>")


def text_of(completion: str | list[dict[str, str]]) -> str:
    """Return the text of a completion in either of TRL's two forms."""
    return completion if isinstance(completion, str) else completion[-1]["content"]


def number_of(answer: str) -> float | None:
    """Return the number of an answer: 1200 for `**$1,200.**`. None if the answer says anything else."""
    same = unicodedata.normalize("NFKC", GROUPED.sub("", answer))  # full-width digits become plain ones
    plain = FRACTION.sub(r"\1/\2", same).strip(" \n\t$*").removeprefix("\\boxed{").rstrip(" \n\t$*}.")
    found = ANSWERED.fullmatch(plain)
    if found is None:
        return None
    return float(found[1].replace(",", "").replace("−", "-")) / float(found[2] or 1)


def correct(completions: list[Any], answer: list[str], **kwargs: Any) -> list[float | None]:
    """1 for the right number in the only `<answer>`, else 0. None if the reference answer is not a number."""
    scores: list[float | None] = []
    for completion, gold in zip(completions, answer, strict=True):
        wanted = number_of(gold.rpartition("####")[2])  # in GSM8K the number follows ####
        tagged = ANSWER.findall(text_of(completion))
        given = number_of(tagged[0]) if len(tagged) == 1 else None
        scores.append(None if wanted is None else float(given == wanted))
    return scores


def same_words(completions: list[Any], answer: list[str], **kwargs: Any) -> list[float]:
    """1 if the only `<answer>` equals the reference answer, else 0. Ignores case, marks and a final period.

    Numeric answers are compared as numbers: `1,440 minutes` is 1440.
    """
    scores = []
    for completion, gold in zip(completions, answer, strict=True):
        tagged = ANSWER.findall(text_of(completion))
        read = plain if number_of(str(gold)) is None else number_of
        scores.append(float(len(tagged) == 1 and read(tagged[0]) == read(str(gold))))
    return scores


def plain(answer: str) -> str:
    """Return only the words of an answer: paris for `**Paris.**`."""
    return " ".join(
        answer.strip(" \n\t*$").removeprefix("\\boxed{").rstrip("}").strip(" \n\t*$.").casefold().split()
    )


def strict_format(completions: list[Any], **kwargs: Any) -> list[float]:
    """1 for `<think>…</think><answer>…</answer>` and nothing else, else 0.

    Each tag must appear exactly once, so writing the format twice does not count.
    """
    scores = []
    for completion in completions:
        text = text_of(completion)
        once = all(text.count(tag) == 1 for tag in TAGS)
        scores.append(float(once and WHOLE.fullmatch(text) is not None))
    return scores


def steps_to_format(completions: list[Any], **kwargs: Any) -> list[float]:
    """0.25 for each tag that appears exactly once, minus a penalty for text after the answer.

    A closing tag counts only after some text. A model that never matches the whole format learns nothing from
    `strict_format` alone. Here it gets partial credit.
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
    """Return whether there is nothing between a closing tag and its opening tag."""
    return not text.partition(closing)[0].rpartition(closing.replace("/", ""))[2].strip()


def answer_is_a_number(completions: list[Any], **kwargs: Any) -> list[float]:
    """1 if `<answer>` contains exactly one number and nothing else, right or wrong."""
    scores = []
    for completion in completions:
        tagged = ANSWER.findall(text_of(completion))
        scores.append(float(bool(tagged) and NUMBER.fullmatch(tagged[-1].strip()) is not None))
    return scores
