"""One group as a person debugs it: prompt, right answer, columns, and every completion with its parts.

Knows stored groups. Texts leave here as the run has them, for places in them count: whoever paints them makes
them safe.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from grpo_tui.core.repetition import distinct_share
from grpo_tui.core.statistics import GroupKind, kind_of_group, scored
from grpo_tui.core.text import message_text, prompt_text, transcript
from grpo_tui.present.group_fold import gold_of
from grpo_tui.store.reader import StoredGroup

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
