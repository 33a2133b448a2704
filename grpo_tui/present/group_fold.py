"""Fold groups of completions: the newest ones, whole.

Knows stored groups and group statistics; text leaves here safe to show.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from grpo_tui.core.statistics import group_covariances, mean, shares_of
from grpo_tui.core.text import one_line, prompt_text, safe
from grpo_tui.present.train_view import CompletionRow, GroupView
from grpo_tui.store.reader import StoredGroup

KEPT_GROUPS = 64
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
        """Per reward function, its share of the within-group variance over the newest groups."""
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
        return shares_of(list(self._covariances.values()), width)

    def views(self) -> tuple[GroupView, ...]:
        """The newest groups, newest first; those of one step in the order of its batch."""
        ordered = sorted(self._newest, key=lambda g: (-g.attempt, -g.batch, g.rank, g.index))
        known, shown = self._views, ordered[:SHOWN_GROUPS]
        self._views = {group.id: known.get(group.id) or group_view(group) for group in shown}
        return tuple(self._views.values())


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
