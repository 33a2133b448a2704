"""What is new in a run since the last look, fetched in bounded pages.

Knows where the last look ended (a row per metric, a group) and asks the store for the rest. When the run was
started again, steps may have been superseded: it then begins anew and says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from grpo_tui.core.commands import Command, Outcome
from grpo_tui.core.records import CheckpointSaved, RewardFunctionInfo, SettingChanged
from grpo_tui.store.reader import Attempt, Point, RunReader, StoredGroup

NEWEST_GROUPS = 64
NEW_PAGE = 256
OLDER_PAGE = 128
MOST_OLDER = 4_096
"""Groups before the first look whose spread is still fetched, a page at each look."""
FACTS = ("config", "before_after")


@dataclass(frozen=True, slots=True)
class RunDelta:
    """One look at a run. Lists that are short by nature are whole; the others hold what is new."""

    fresh: bool
    """True when what was folded before must be forgotten."""
    attempts: tuple[Attempt, ...] = ()
    functions: tuple[RewardFunctionInfo, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    points: Mapping[str, tuple[Point, ...]] = field(default_factory=dict)
    groups: tuple[StoredGroup, ...] = ()
    """New groups, in order of recording."""
    older_groups: tuple[StoredGroup, ...] = ()
    """A page of groups before the first look, newest first."""
    commands: tuple[tuple[Command, Outcome | None], ...] = ()
    settings: tuple[SettingChanged, ...] = ()
    checkpoints: tuple[CheckpointSaved, ...] = ()
    phase_shares: Mapping[str, float] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)
    more: bool = False
    """True when an older page is still to come."""


class DeltaReader:
    """Follows one run through a reader; use it from one thread."""

    def __init__(self, reader: RunReader) -> None:
        self._reader = reader
        self._attempt: int | None = None
        self._begin()

    def _begin(self) -> None:
        self._rows: dict[str, int] = {}
        self._newest_group: int | None = None
        self._oldest_step: int | None = None
        self._older_left = MOST_OLDER
        self._fresh = True

    def read(self) -> RunDelta:
        """What came since the last call."""
        reader = self._reader
        attempts = tuple(reader.attempts())
        newest = attempts[-1].attempt if attempts else None
        if newest != self._attempt:
            self._begin()
            self._attempt = newest
        fresh, self._fresh = self._fresh, False
        older = () if fresh else self._older()
        groups = self._groups()
        return RunDelta(
            fresh=fresh,
            attempts=attempts,
            functions=tuple(reader.reward_functions()),
            facts={key: value for key in FACTS if (value := reader.fact(key)) is not None},
            points=self._points(),
            groups=groups,
            older_groups=older,
            commands=tuple(reader.commands(50)),
            settings=tuple(reader.settings()),
            checkpoints=tuple(reader.checkpoints()),
            phase_shares=reader.phase_shares(),
            dropped=reader.dropped(),
            more=self._oldest_step is not None or len(groups) >= NEW_PAGE,
        )

    def _points(self) -> dict[str, tuple[Point, ...]]:
        found: dict[str, tuple[Point, ...]] = {}
        for key in self._reader.metric_keys():
            points = self._reader.series(key, self._rows.get(key, 0))
            if points:
                self._rows[key] = points[-1].row
                found[key] = tuple(points)
        return found

    def _groups(self) -> tuple[StoredGroup, ...]:
        if self._newest_group is None:
            found = self._reader.groups(newest_first=True, limit=NEWEST_GROUPS)[::-1]
            if len(found) == NEWEST_GROUPS:
                self._oldest_step = found[0].step
        else:
            found = self._reader.groups(after_id=self._newest_group, limit=NEW_PAGE)
        if found:
            self._newest_group = found[-1].id
        elif self._newest_group is None:
            self._newest_group = 0
        return tuple(found)

    def _older(self) -> tuple[StoredGroup, ...]:
        if self._oldest_step is None:
            return ()
        found = self._reader.groups(
            last_step=self._oldest_step - 1, mode="train", newest_first=True, limit=OLDER_PAGE
        )
        self._older_left -= len(found)
        if len(found) < OLDER_PAGE or self._older_left <= 0:
            self._oldest_step = None
        elif found[-1].step == found[0].step:
            self._oldest_step = found[-1].step  # one step fills the page: what is left of it is passed over
        else:
            # The last step of a page may be cut in the middle; it is asked for again, whole.
            cut = found[-1].step
            found = [group for group in found if group.step != cut]
            self._oldest_step = cut + 1
        return tuple(found)
