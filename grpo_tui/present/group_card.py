"""One group as it is debugged: prompt, right answer, columns, every completion with its parts; or as a line.

Texts of a card are as the run has them, for places in them count: whoever paints them makes them safe.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from grpo_tui.core.statistics import (
    SAME,
    GroupKind,
    distinct_share,
    group_covariances,
    kind_of_group,
    mean,
    scored,
    shares_of,
)
from grpo_tui.core.text import message_text, one_line, prompt_text, safe, transcript
from grpo_tui.present.glyphs import spark
from grpo_tui.present.train_view import CompletionRow, GroupView
from grpo_tui.store.reader import StoredGroup

KEPT_GROUPS = 64
LATELY, FEWEST_GROUPS = 3, 8
"""Steps, and at least so many groups, in which a function must differ to have a contribution."""
SHOWN_GROUPS = 12
MOST_TEXT = 6_000
"""Characters of a completion that are shown in a group."""
GOLD_COLUMNS = ("answer", "solution", "ground_truth", "target", "gold", "label")


class GroupFold:
    """Groups of the training batches, folded in order of recording."""

    def __init__(self) -> None:
        self._newest: deque[StoredGroup] = deque(maxlen=KEPT_GROUPS)
        self._views: dict[int, GroupView] = {}
        self._weights: list[float] = []
        self._covariances: dict[int, list[float]] = {}

    def add(self, groups: Iterable[StoredGroup]) -> None:
        """Take in groups that came after all others."""
        for group in groups:
            if group.mode == "train":
                self._newest.append(group)

    @property
    def newest_prompt(self) -> Any:
        """The prompt of the newest group, as the dataset gave it."""
        return self._newest[-1].prompt if self._newest else None

    def newest_step(self) -> list[StoredGroup]:
        """The groups of the newest step."""
        if not self._newest:
            return []
        return [group for group in self._newest if group.step == self._newest[-1].step]

    def spread_now(self) -> float | None:
        """Mean spread inside a group at the newest step."""
        return mean(group.std for group in self.newest_step())

    def flat_share(self) -> float | None:
        """Share of the newest step's groups that teach nothing."""
        return mean(group.signal != "some" for group in self.newest_step())

    def masked_share(self) -> float | None:
        """Share of the newest step's completions that the loss leaves out."""
        return mean(c.masked for group in self.newest_step() for c in group.completions)

    def function_means(self, count: int) -> list[float | None]:
        """Per reward function, the mean over the completions of the newest step."""
        rows = [c.rewards for group in self.newest_step() for c in group.completions]
        return [mean(row[k] for row in rows if k < len(row)) for k in range(count)]

    def shares(self, weights: list[float], *, normalized: bool = False) -> list[float | None]:
        """Per reward function, its share of the within-group variance over the newest groups.

        It is None for a function that has told no completions of a group apart lately.
        """
        width = len(weights)
        # Another start of the run may have had fewer functions than this one.
        blank = (None,) * width
        if weights != self._weights:
            self._weights, self._covariances = list(weights), {}
        known = self._covariances
        self._covariances = {
            group.id: known.get(group.id)
            or group_covariances(
                [(*c.rewards, *blank)[:width] for c in group.completions], weights, normalized=normalized
            )
            for group in self._newest
        }
        shares = shares_of(list(self._covariances.values()), width)
        varied = self._varied(width)
        return [share if varies else None for share, varies in zip(shares, varied, strict=True)]

    def _varied(self, width: int) -> list[bool]:
        """Per reward function, whether it differs within a group of the newest steps."""
        steps = sorted({group.step for group in self._newest})[-LATELY:]
        late = [group for group in self._newest if steps and group.step >= steps[0]]
        late = late if len(late) >= FEWEST_GROUPS else list(self._newest)[-FEWEST_GROUPS:]
        return [any(_varies(group, k) for group in late) for k in range(width)]

    def views(self) -> tuple[GroupView, ...]:
        """The newest groups, newest first; those of one step in the order of its batch."""
        ordered = sorted(self._newest, key=lambda g: (-g.attempt, -g.batch, g.rank, g.index))
        known, shown = self._views, ordered[:SHOWN_GROUPS]
        self._views = {group.id: known.get(group.id) or group_view(group) for group in shown}
        return tuple(self._views.values())


def _varies(group: StoredGroup, function: int) -> bool:
    given = scored([c.rewards[function] for c in group.completions if function < len(c.rewards)])
    return bool(given) and max(given) - min(given) >= SAME


def gold_of(columns: Mapping[str, Any]) -> str | None:
    """The right answer a dataset row carries, as one safe line, None when no column is known to hold it."""
    for name in GOLD_COLUMNS:
        value = columns.get(name)
        if value is not None and value != "":
            return one_line(value if isinstance(value, str) else str(value), 60)
    return None


def group_view(group: StoredGroup) -> GroupView:
    """A group as it is shown, its texts safe."""
    return GroupView(
        id=group.id,
        step=group.step,
        mode=group.mode,
        prompt=one_line(prompt_text(group.prompt).strip(), 160),
        gold=gold_of(group.columns or {}),
        mean=group.mean,
        spread=group.std,
        signal=group.signal,
        completions=tuple(
            CompletionRow(
                safe(c.text[:MOST_TEXT]), c.total, c.advantage, c.tokens, c.truncated, c.rewards, c.masked
            )
            for c in group.completions
        ),
    )


MOST_COLUMN = 20_000
"""Characters of a dataset column that are shown."""


@dataclass(frozen=True, slots=True)
class CardRow:
    """One completion of the group.

    Attributes:
        index: its place in the group, from 0.
        tokens, truncated: None when somebody else's log does not say.
        rewards: what each function returned, in their order; None where one abstained.
        same_as: place of the first completion with the same text, None for a text that comes first.
        extra: what the functions said of it through `log_extra`.
        masked: whether the loss leaves it out.
    """

    index: int
    text: str
    total: float | None
    advantage: float
    tokens: int | None
    truncated: bool | None
    rewards: tuple[float | None, ...]
    same_as: int | None = None
    extra: tuple[tuple[str, str], ...] = ()
    masked: bool = False


@dataclass(frozen=True, slots=True)
class GroupCard:
    """One group.

    Attributes:
        messages: the prompt as (role, text); one with an empty role for a string prompt.
        columns: every column of the dataset row but the prompt, spelled.
        kind: whether it teaches, and if not, why.
        distinct: share of different texts, 1 when no two are the same.
        best, worst: places of the highest and the lowest total; None when none is scored.
    """

    id: int
    attempt: int
    step: int
    last_step: int
    mode: str
    prompt: str
    prompt_key: str
    messages: tuple[tuple[str, str], ...]
    gold: str | None
    columns: tuple[tuple[str, str], ...]
    mean: float | None
    spread: float | None
    kind: GroupKind
    distinct: float
    truncated: int
    best: int | None
    worst: int | None
    rows: tuple[CardRow, ...]


def group_card(
    group: StoredGroup, totals: tuple[float, float] | None, absent: Collection[str] = ()
) -> GroupCard:
    """Fold a group.

    Args:
        group: the stored group.
        totals: lowest and highest total of the run, for its kind.
        absent: fields that the log this was copied from does not have.
    """
    values = [completion.total for completion in group.completions]
    first: dict[str, int] = {}
    rows = []
    for completion in group.completions:
        place = first.setdefault(completion.text, completion.index)
        rows.append(
            CardRow(
                completion.index,
                transcript(completion.messages) if completion.messages else completion.text,
                completion.total,
                completion.advantage,
                None if "tokens" in absent else completion.tokens,
                None if "truncated" in absent else completion.truncated,
                completion.rewards,
                None if place == completion.index else place,
                _spelled(completion.extra),
                completion.masked,
            )
        )
    known = [n for n, value in enumerate(values) if scored([value])]
    return GroupCard(
        id=group.id,
        attempt=group.attempt,
        step=group.step,
        last_step=group.last_step,
        mode=group.mode,
        prompt=prompt_text(group.prompt),
        prompt_key=group.prompt_key,
        messages=_messages(group.prompt),
        gold=gold_of(group.columns or {}),
        columns=_spelled(group.columns or {}),
        mean=group.mean,
        spread=group.std,
        kind=kind_of_group(values, totals, group.signal),
        distinct=distinct_share([completion.text for completion in group.completions]),
        truncated=sum(bool(row.truncated) for row in rows),
        best=max(known, key=lambda n: values[n], default=None),  # type: ignore[arg-type,return-value]
        worst=min(known, key=lambda n: values[n], default=None),  # type: ignore[arg-type,return-value]
        rows=tuple(rows),
    )


def _messages(prompt: Any) -> tuple[tuple[str, str], ...]:
    if isinstance(prompt, list):
        return tuple(
            (str(message.get("role", "")), message_text(message.get("content")))
            for message in prompt
            if isinstance(message, Mapping)
        )
    return (("", prompt if isinstance(prompt, str) else str(prompt)),)


def _spelled(values: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple((str(name), spelled(value)) for name, value in values.items())


def spelled(value: Any) -> str:
    """A value of a column as text: a string as it is, the rest as JSON."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= MOST_COLUMN else text[: MOST_COLUMN - 1] + "…"


KINDS: Mapping[GroupKind, tuple[str, str]] = {
    "mixed": ("mixed", "text"),
    "all right": ("✓ all right", "good"),
    "all wrong": ("✗ all wrong", "bad"),
    "flat": ("● zero std", "attention"),
    "unscored": ("⚠ unscored", "attention"),
    "masked": ("✂ masked", "attention"),
}
"""A group's kind in words and the role of its colour."""
MEANINGS: Mapping[GroupKind, str] = {
    "mixed": "its advantages differ, so it teaches",
    "all right": "every completion has the highest total of the run: it teaches nothing",
    "all wrong": "every completion has the lowest total of the run: it teaches nothing",
    "flat": "every advantage is 0: it teaches nothing",
    "unscored": "no completion has a finite total: it teaches nothing",
    "masked": "every completion was truncated and is masked, so the loss leaves it out: it teaches nothing",
}
MOST_BARS = 16
LEAST_SHARED = 24
"""Characters from which on what all prompts begin with is left out of a line."""


@dataclass(frozen=True, slots=True)
class SharedBeginning:
    """What every prompt seen so far begins with: instructions, which do not tell one prompt from another."""

    words: str | None = None
    several: bool = False
    """Whether two prompts that differ were seen."""

    def seen(self, prompt: str) -> SharedBeginning:
        """With one prompt more; what is shared only grows shorter, so that lines keep what they say."""
        if self.words is None:
            return SharedBeginning(prompt)
        if prompt == self.words or (self.several and prompt.startswith(self.words)):
            return self
        pairs = enumerate(zip(self.words, prompt, strict=False))
        differ = next((at for at, (a, b) in pairs if a != b), min(len(self.words), len(prompt)))
        return SharedBeginning(prompt[:differ], several=True)

    def left_out(self, prompt: str) -> str:
        """The prompt from the word on in which prompts differ; whole where they share little."""
        words = self.words
        if words is None or not self.several or len(words) < LEAST_SHARED or not prompt.startswith(words):
            return prompt
        cut = max(words.rfind(" "), words.rfind("\n")) + 1
        return f"…{prompt[cut:]}" if cut and prompt[cut:].strip() else prompt


def bars(card: GroupCard, totals: tuple[float, float] | None, width: int = MOST_BARS) -> str:
    """The totals as blocks, best first, on the scale of the run; where there are many, some share one."""
    values = sorted(scored(row.total for row in card.rows), reverse=True)
    if totals is None:
        return "▄" * min(len(values), width)
    return spark(values, width, *totals)
