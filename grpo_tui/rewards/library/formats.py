"""Has the completion the form that was asked for? Tags, a whole pattern, JSON, and partial credit.

Knows text only. Tag names are parameters; `<think>` that the chat template has written already is given by
`prefilled`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from grpo_tui.rewards.library.base import TextReward, require

TAGS = ("think", "answer")


class TagFormat(TextReward):
    """1 where every tag stands once, in its order, closed, with something in it; else 0.

    Args:
        tags: names of the tags, in the order in which they must stand.
        strict: whether nothing but white space may stand outside of them.
        prefilled: what the chat template has written at the start of the completion, such as `<think>`.
        name: see `Reward`.
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
    """1 where a regular expression fits the whole completion, line breaks included; else 0.

    Args:
        pattern: the expression; `.` matches a line break.
        anywhere: whether it may fit a part of the completion.
        prefilled: see `TagFormat`.
        name: see `Reward`.
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
    """1 where the completion is one JSON value and nothing else; else 0.

    Args:
        kind: `object`, `array` or `any`.
        fence: whether a Markdown fence around it is forgiven.
        name: see `Reward`.
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
    """The share of the tags that stand exactly once and in order, less a penalty for trailing text.

    A closing tag counts only with something before it: an empty pair is worth its opening tag.

    A model that never writes the whole format learns nothing from `TagFormat`; here every tag counts, and
    text after the last one costs, or a model would learn to go on for ever.

    Args:
        tags: names of the tags, in their order.
        trailing: what each character after the last closing tag costs, white space left out.
        most_trailing: the most that trailing text costs.
        prefilled: see `TagFormat`; what the template wrote earns nothing.
        name: see `Reward`.

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
