"""Rewards for format, length, repetition, and diversity within a group.

A `<think>` that the chat template has already written is passed as `prefilled`. A length reward alone only
teaches length, so combine it with a correctness reward and give it a small weight. A group is a run of
completions of the same prompt, in TRL's order. If a group is spread over several ranks, each rank sees its
part.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from grpo_tui.core.statistics import repeated_share
from grpo_tui.core.text import completion_text
from grpo_tui.rewards.library.base import Reward, TextReward, require

TAGS = ("think", "answer")


class TagFormat(TextReward):
    """1 if every tag appears exactly once, in order, closed and not empty, else 0.

    Args:
        tags: names of the tags, in order.
        strict: whether to allow only white space outside the tags.
        prefilled: what the chat template writes at the start of the completion, such as `<think>`.
    """

    def __init__(
        self, *, tags: Sequence[str] = TAGS, strict: bool = True, prefilled: str = "", name: str | None = None
    ) -> None:
        super().__init__(name=name)
        self.tags, self.strict, self.prefilled = _named(tags), strict, prefilled
        inside = rf"(?:(?!</?(?:{'|'.join(map(re.escape, self.tags))})>).)"
        between = r"\s*" if strict else rf"{inside}*"
        parts = [rf"<{re.escape(tag)}>(?!\s*</){inside}+</{re.escape(tag)}>" for tag in self.tags]
        self._whole = re.compile(between + between.join(parts) + between, re.DOTALL)

    def score(self, text: str) -> float:
        """See `TextReward.score`."""
        return float(self._whole.fullmatch(self.prefilled + text) is not None)


class FullPattern(TextReward):
    """1 if a regular expression matches the whole completion, including line breaks, else 0.

    Args:
        pattern: the expression. `.` matches a line break.
        anywhere: whether to accept a match of any part of the completion.
        prefilled: see `TagFormat`.
    """

    def __init__(
        self, *, pattern: str, anywhere: bool = False, prefilled: str = "", name: str | None = None
    ) -> None:
        super().__init__(name=name)
        self._pattern = re.compile(pattern, re.DOTALL)
        self.anywhere, self.prefilled = anywhere, prefilled

    def score(self, text: str) -> float:
        """See `TextReward.score`."""
        match = self._pattern.search if self.anywhere else self._pattern.fullmatch
        return float(match(self.prefilled + text) is not None)


class JsonFormat(TextReward):
    """1 if the completion is one JSON value and nothing else, else 0.

    Args:
        kind: `object`, `array` or `any`.
        fence: whether to accept a Markdown fence around it.
    """

    def __init__(self, *, kind: str = "object", fence: bool = False, name: str | None = None) -> None:
        super().__init__(name=name)
        require(kind in ("object", "array", "any"), f"kind is object, array or any, not {kind!r}")
        self.kind, self.fence = kind, fence

    def score(self, text: str) -> float:
        """See `TextReward.score`."""
        if self.fence and (inside := re.fullmatch(r"\s*```(?:json)?\n(.*)\n```\s*", text, re.DOTALL)):
            text = inside[1]
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return 0.0
        wanted = {"object": dict, "array": list, "any": object}[self.kind]
        return float(isinstance(value, wanted))


class IncrementalTags(TextReward):
    """Fraction of the tags that appear exactly once and in order, minus a penalty for trailing text.

    A model that never writes the whole format learns nothing from `TagFormat`. Here every tag counts. A
    closing tag counts only after some text, so an empty pair is worth its opening tag. Text after the last
    tag has a cost, because otherwise the model would learn to keep writing.

    Args:
        tags: names of the tags, in order.
        trailing: cost of each character after the last closing tag, except white space.
        most_trailing: maximum cost of trailing text.
        prefilled: see `TagFormat`. Tags written by the template earn nothing.

    Range: `-most_trailing` to 1.
    """

    def __init__(
        self,
        *,
        tags: Sequence[str] = TAGS,
        trailing: float = 0.001,
        most_trailing: float = 0.5,
        prefilled: str = "",
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        require(trailing >= 0 and most_trailing >= 0, "a penalty is given as a positive number")
        self.tags, self.prefilled = _named(tags), prefilled
        self.trailing, self.most_trailing = trailing, most_trailing
        marks = [mark for tag in self.tags for mark in (f"<{tag}>", f"</{tag}>")]
        self._given = {mark for mark in marks if mark in prefilled}
        self._marks = tuple(marks)

    def score(self, text: str) -> float:
        """See `TextReward.score`."""
        whole = self.prefilled + text
        counted, reached = 0, 0
        for mark in self._marks:
            place = whole.find(mark)
            empty = mark.startswith("</") and not whole[reached:place].strip()
            if whole.count(mark) == 1 and place >= reached and not empty:
                counted, reached = counted + (mark not in self._given), place + len(mark)
        share = counted / max(1, len(self._marks) - len(self._given))
        _, last, after = whole.rpartition(self._marks[-1])
        extra = len(re.sub(r"\s", "", after)) if last else 0
        return share - min(self.most_trailing, self.trailing * extra)


def _named(tags: Sequence[str]) -> tuple[str, ...]:
    names = (tags,) if isinstance(tags, str) else tuple(tags)
    names = tuple(tag.strip("<>/ ") for tag in names)
    require(bool(names) and all(names), "a format needs the name of a tag")
    require(len(set(names)) == len(names), f"a tag is named twice: {', '.join(names)}")
    return names


UNITS = ("tokens", "words", "characters")


class _Length(Reward):
    def __init__(self, *, unit: str, name: str | None) -> None:
        super().__init__(name=name)
        require(unit in UNITS, f"unit is one of {', '.join(UNITS)}, not {unit!r}")
        self.unit = unit

    def of_length(self, length: int) -> float:
        """Return the value of a length."""
        raise NotImplementedError

    def __call__(self, completions: Sequence[Any], **kwargs: Any) -> list[float | None]:
        """See `Reward.__call__`.

        Raises:
            ValueError: the unit is tokens and `completion_ids` is missing.
        """
        if self.unit == "tokens":
            ids = kwargs.get("completion_ids")
            if ids is None:
                raise ValueError(
                    f"the reward {self.__name__} counts tokens and was called without completion_ids; "
                    "TRL passes them, elsewhere choose unit='words'"
                )
            return [self.of_length(len(tokens)) for tokens in ids]
        texts = [completion_text(completion) for completion in completions]
        return [self.of_length(len(text.split() if self.unit == "words" else text)) for text in texts]


class TargetLength(_Length):
    """1 within `slack` of the target length, falling linearly to 0 at a distance of `reach`.

    Args:
        target: desired length.
        slack: distance without a penalty.
        reach: distance at which the value is 0. The target itself by default.
        unit: `tokens`, `words` or `characters`.

    Range: 0 to 1.
    """

    def __init__(
        self,
        *,
        target: int,
        slack: int = 0,
        reach: int | None = None,
        unit: str = "tokens",
        name: str | None = None,
    ) -> None:
        super().__init__(unit=unit, name=name)
        self.target, self.slack, self.reach = target, slack, target if reach is None else reach
        require(target > 0 and slack >= 0, "a target is above 0 and a slack not below it")
        require(self.reach > slack, f"reach ({self.reach}) lies beyond slack ({slack})")

    def of_length(self, length: int) -> float:
        """See `_Length.of_length`."""
        beyond = max(0, abs(length - self.target) - self.slack)
        return max(0.0, 1.0 - beyond / (self.reach - self.slack))


class SoftLengthLimit(_Length):
    """0 up to `start`, falling linearly to -1 at `limit` and beyond.

    The soft overlong punishment of DAPO (Yu et al. 2025, arXiv:2503.14476, equation 13), with both ends as
    parameters.

    Args:
        limit: length with the full penalty. Use `max_completion_length` with tokens.
        start: largest length without a penalty. Four fifths of the limit by default.
        unit: `tokens`, `words` or `characters`.

    Range: -1 to 0.
    """

    def __init__(
        self, *, limit: int, start: int | None = None, unit: str = "tokens", name: str | None = None
    ) -> None:
        super().__init__(unit=unit, name=name)
        self.limit, self.start = limit, limit * 4 // 5 if start is None else start
        require(0 <= self.start < limit, f"start ({self.start}) lies below limit ({limit})")

    def of_length(self, length: int) -> float:
        """See `_Length.of_length`."""
        return -min(1.0, max(0, length - self.start) / (self.limit - self.start))


class Repetition(TextReward):
    """0 if no sequence of `ngram` words repeats, down to `-most` if nearly all of them do.

    The fraction of repeated n-grams, `1 - distinct / all`, as in the repetition penalty of Yeo et al. 2025
    (arXiv:2502.03373); see `core.statistics.repeated_share`.

    Args:
        ngram: words per sequence.
        most: largest penalty.

    Range: `-most` to 0.
    """

    def __init__(self, *, ngram: int = 4, most: float = 1.0, name: str | None = None) -> None:
        super().__init__(name=name)
        require(ngram >= 1, f"a run has at least one word, not {ngram}")
        require(most >= 0, "a penalty is given as a positive number")
        self.ngram, self.most = ngram, most

    def score(self, text: str) -> float:
        """See `TextReward.score`."""
        return -self.most * repeated_share(text, self.ngram)


class ForbiddenWords(TextReward):
    """0 without any of the words, minus `penalty` for each distinct one, but at least `-worst`.

    Args:
        words: matched as whole words, ignoring case.
        penalty: cost of each distinct word found.
        worst: maximum total cost.

    Range: `-worst` to 0.
    """

    def __init__(
        self, *, words: Sequence[str], penalty: float = 0.5, worst: float = 0.5, name: str | None = None
    ) -> None:
        super().__init__(name=name)
        words = [words] if isinstance(words, str) else list(words)
        require(bool(words) and all(words), "name at least one word")
        require(penalty >= 0 and worst >= 0, "a penalty is given as a positive number")
        self.penalty, self.worst = penalty, worst
        self._patterns = [re.compile(rf"(?<!\w){re.escape(word)}(?!\w)", re.IGNORECASE) for word in words]

    def score(self, text: str) -> float:
        """See `TextReward.score`."""
        found = sum(pattern.search(text) is not None for pattern in self._patterns)
        return -min(self.worst, self.penalty * found)


class GroupDiversity(Reward):
    """Diversity within a group: 0 for a copy, 1 for a completion that shares nothing with the others.

    1 minus the mean Jaccard similarity of its word n-grams with those of each other completion of the group.

    Args:
        ngram: words per n-gram.

    Range: 0 to 1, None for a completion that is alone in its group.
    """

    def __init__(self, *, ngram: int = 2, name: str | None = None) -> None:
        super().__init__(name=name)
        require(ngram >= 1, f"a run has at least one word, not {ngram}")
        self.ngram = ngram

    def __call__(self, completions: Sequence[Any], **kwargs: Any) -> list[float | None]:
        """See `Reward.__call__`."""
        texts = [completion_text(completion) for completion in completions]
        found: list[float | None] = []
        for first, last in groups(kwargs["prompts"]):
            found += self._of_group([self._runs(text) for text in texts[first:last]])
        return found

    def _of_group(self, members: list[frozenset[tuple[str, ...]]]) -> list[float | None]:
        if len(members) < 2:
            return [None] * len(members)
        total = [0.0] * len(members)
        for i, one in enumerate(members):
            for j in range(i):
                alike = _jaccard(one, members[j])
                total[i] += alike
                total[j] += alike
        return [1.0 - alike / (len(members) - 1) for alike in total]

    def _runs(self, text: str) -> frozenset[tuple[str, ...]]:
        words = text.lower().split()
        size = min(self.ngram, len(words))
        return frozenset(tuple(words[i : i + size]) for i in range(len(words) - size + 1))


def groups(prompts: Sequence[Any]) -> Iterator[tuple[int, int]]:
    """Yield first index and end index (exclusive) of each run of equal prompts."""
    first = 0
    for place in range(1, len(prompts) + 1):
        if place == len(prompts) or prompts[place] != prompts[first]:
            yield first, place
            first = place


def _jaccard(a: frozenset[Any], b: frozenset[Any]) -> float:
    both = len(a | b)
    return len(a & b) / both if both else 1.0
