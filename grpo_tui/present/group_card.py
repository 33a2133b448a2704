"""One group for debugging: prompt, reference answer, columns and every completion in detail, or one line.

Texts of a card are exactly as recorded, because positions in them matter. Whoever paints them makes them
safe.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from grpo_tui.core.statistics import (
    GroupKind,
    distinct_share,
    group_covariances,
    is_flat,
    kind_of_group,
    mean,
    scored,
    shares_of,
)
from grpo_tui.core.text import message_text, one_line, prompt_text, safe, transcript
from grpo_tui.present.glyphs import spark
from grpo_tui.store.reader import StoredGroup

KEPT_GROUPS = 64
LATELY, FEWEST_GROUPS = 3, 8
"""A function needs different values within a group in this many steps, or groups, to have a contribution."""
SHOWN_GROUPS = 12
MOST_TEXT = 6_000
GOLD_COLUMNS = ("answer", "solution", "ground_truth", "target", "gold", "label")


class GroupFold:
    """Accumulates training groups in order of recording."""

    def __init__(self) -> None:
        self._newest: deque[StoredGroup] = deque(maxlen=KEPT_GROUPS)
        self._views: dict[int, StoredGroup] = {}
        self._weights: list[float] = []
        self._covariances: dict[int, list[float]] = {}

    def add(self, groups: Iterable[StoredGroup]) -> None:
        """Add groups that came after all others."""
        for group in groups:
            if group.mode == "train":
                self._newest.append(group)

    @property
    def newest_prompt(self) -> Any:
        """Prompt of the newest group, as in the dataset."""
        return self._newest[-1].prompt if self._newest else None

    def newest_step(self) -> list[StoredGroup]:
        """Return the groups of the newest step."""
        if not self._newest:
            return []
        return [group for group in self._newest if group.step == self._newest[-1].step]

    def spread_now(self) -> float | None:
        """Return the mean group std at the newest step."""
        return mean(group.std for group in self.newest_step())

    def flat_share(self) -> float | None:
        """Return the fraction of the newest step's groups without a signal."""
        return mean(group.signal != "some" for group in self.newest_step())

    def masked_share(self) -> float | None:
        """Return the fraction of the newest step's completions that the loss leaves out."""
        return mean(c.masked for group in self.newest_step() for c in group.completions)

    def function_means(self, names: Sequence[str]) -> list[float | None]:
        """Return each reward function's mean over the completions of the newest step, by distinct names."""
        newest = [group for group in self.newest_step() if group.functions == tuple(names)]
        rows = [c.rewards for group in newest for c in group.completions]
        return [mean(row[k] for row in rows) for k in range(len(names))]

    def shares(
        self, names: Sequence[str], weights: list[float], *, normalized: bool = False
    ) -> list[float | None]:
        """Return each reward function's contribution to the variance within the newest groups.

        None for a function that recently gave all completions of a group the same value. Groups that other
        functions scored do not count.
        """
        newest = [group for group in self._newest if group.functions == tuple(names)]
        if weights != self._weights:
            self._weights, self._covariances = list(weights), {}
        known = self._covariances
        self._covariances = {
            group.id: known.get(group.id)
            or group_covariances([c.rewards for c in group.completions], weights, normalized=normalized)
            for group in newest
        }
        shares = shares_of(list(self._covariances.values()), len(weights))
        varied = _varied(newest, len(weights))
        return [share if varies else None for share, varies in zip(shares, varied, strict=True)]

    def views(self) -> tuple[StoredGroup, ...]:
        """Return the newest groups, newest batch first, in batch order within a step."""
        ordered = sorted(self._newest, key=lambda g: (-g.attempt, -g.batch, g.rank, g.index))
        known, shown = self._views, ordered[:SHOWN_GROUPS]
        self._views = {group.id: known.get(group.id) or group_view(group) for group in shown}
        return tuple(self._views.values())


def _varied(newest: list[StoredGroup], width: int) -> list[bool]:
    steps = sorted({group.step for group in newest})[-LATELY:]
    late = [group for group in newest if steps and group.step >= steps[0]]
    late = late if len(late) >= FEWEST_GROUPS else newest[-FEWEST_GROUPS:]
    return [
        any(not is_flat([c.rewards[k] for c in group.completions]) for group in late) for k in range(width)
    ]


def gold_of(columns: Mapping[str, Any]) -> str | None:
    """Return a dataset row's reference answer as one safe line; None without a known column."""
    for name in GOLD_COLUMNS:
        value = columns.get(name)
        if value is not None and value != "":
            return one_line(value if isinstance(value, str) else str(value), 60)
    return None


def group_view(group: StoredGroup) -> StoredGroup:
    """Return a group with texts that are safe to show: the beginning of each, the prompt on one line.

    What is not shown is left out, because many groups are kept.
    """
    gold = gold_of(group.columns)
    return replace(
        group,
        prompt=one_line(prompt_text(group.prompt).strip(), 160),
        columns={} if gold is None else {GOLD_COLUMNS[0]: gold},
        completions=tuple(
            replace(c, text=safe(c.text[:MOST_TEXT]), extra={}, messages=None) for c in group.completions
        ),
        functions=tuple(one_line(name, 60) for name in group.functions),
    )


MOST_COLUMN = 20_000


@dataclass(frozen=True, slots=True)
class CardRow:
    """One completion of a group.

    Attributes:
        tokens: None, like `truncated`, when imported logs do not say.
        same_as: Position of the first completion with the same text; None for the first itself.
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
        messages: The prompt as (role, text); a string prompt has one with an empty role.
        columns: Every dataset column except the prompt, as text.
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
    functions: tuple[str, ...] = ()
    """Names of the functions that scored it, in order."""


def group_card(
    group: StoredGroup, totals: tuple[float, float] | None, absent: Collection[str] = ()
) -> GroupCard:
    """Build the card of a group, whose kind depends on the lowest and highest total of the run."""
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
        functions=tuple(one_line(name, 60) for name in group.functions),
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
    """Return a column's value as text: strings unchanged, the rest as JSON."""
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
MOST_BARS = 16
LEAST_SHARED = 24
"""Minimum length of a shared beginning that is left out of a line."""


@dataclass(frozen=True, slots=True)
class SharedBeginning:
    """The beginning shared by all prompts so far: instructions that do not help to identify a prompt."""

    words: str | None = None
    several: bool = False

    def seen(self, prompt: str) -> SharedBeginning:
        """Return the beginning shared with one more prompt. It can only get shorter."""
        if self.words is None:
            return SharedBeginning(prompt)
        if prompt == self.words or (self.several and prompt.startswith(self.words)):
            return self
        pairs = enumerate(zip(self.words, prompt, strict=False))
        differ = next((at for at, (a, b) in pairs if a != b), min(len(self.words), len(prompt)))
        return SharedBeginning(prompt[:differ], several=True)

    def left_out(self, prompt: str) -> str:
        """Return the prompt from the first word that differs, or all of it when little is shared."""
        words = self.words
        if words is None or not self.several or len(words) < LEAST_SHARED or not prompt.startswith(words):
            return prompt
        cut = max(words.rfind(" "), words.rfind("\n")) + 1
        return f"…{prompt[cut:]}" if cut and prompt[cut:].strip() else prompt


def bars(card: GroupCard, totals: tuple[float, float] | None, width: int = MOST_BARS) -> str:
    """Draw the totals as blocks, best first, on the run's scale. Many totals share blocks."""
    values = sorted(scored(row.total for row in card.rows), reverse=True)
    if totals is None:
        return "▄" * min(len(values), width)
    return spark(values, width, *totals)
