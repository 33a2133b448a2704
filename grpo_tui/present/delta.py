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
from grpo_tui.present.step_looks import StepLook, StepLooks
from grpo_tui.store.reader import Attempt, Point, RunReader, SeriesStart, StoredGroup
from grpo_tui.store.series import TOKENS_PER_SECOND

NEWEST_GROUPS = 64
NEW_PAGE = 256
FIRST_KEYS = (
    "reward", "completions/mean_length", "completions/clipped_ratio", "entropy", "kl", "grad_norm",
    "step_time", "learning_rate", "loss", "num_tokens", TOKENS_PER_SECOND,
)  # fmt: skip
"""What the first look brings, with the means of the reward functions; the other metrics follow in pages."""
KEYS_PAGE = 8
FACTS = ("config", "before_after")


@dataclass(frozen=True, slots=True)
class RunDelta:
    """One look at a run. Lists that are short by nature are whole; the others hold what is new."""

    fresh: bool
    """True when what was folded before must be forgotten."""
    attempts: tuple[Attempt, ...] = ()
    functions: tuple[RewardFunctionInfo, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    starts: Mapping[str, SeriesStart] = field(default_factory=dict)
    """Metrics that this look brings for the first time, whole."""
    points: Mapping[str, tuple[Point, ...]] = field(default_factory=dict)
    """New values of the metrics known before."""
    groups: tuple[StoredGroup, ...] = ()
    """New groups, in order of recording."""
    steps: StepLook | None = None
    """Figures of the groups by step, None when no group is new."""
    commands: tuple[tuple[Command, Outcome | None], ...] = ()
    settings: tuple[SettingChanged, ...] = ()
    checkpoints: tuple[CheckpointSaved, ...] = ()
    phase_shares: Mapping[str, float] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)
    more: bool = False
    """True when another page is still to come."""


class DeltaReader:
    """Follows one run through a reader; use it from one thread."""

    def __init__(self, reader: RunReader) -> None:
        self._reader = reader
        self._attempt: int | None = None
        self._begin()

    def _begin(self) -> None:
        self._row: int | None = None
        self._covered: dict[str, int] = {}
        self._waiting: list[str] = []
        self._newest_group: int | None = None
        self._steps = StepLooks(self._reader)
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
        groups = self._groups()
        points, whole = self._points()
        return RunDelta(
            fresh=fresh,
            attempts=attempts,
            functions=tuple(reader.reward_functions()),
            facts={key: value for key in FACTS if (value := reader.fact(key)) is not None},
            starts=self._starts(fresh),
            points=points,
            groups=groups,
            steps=self._steps.look(groups, fresh=fresh),
            commands=tuple(reader.commands(50)),
            settings=tuple(reader.settings()),
            checkpoints=tuple(reader.checkpoints()),
            phase_shares=reader.phase_shares(),
            dropped=reader.dropped(),
            more=bool(self._waiting) or not whole or len(groups) >= NEW_PAGE,
        )

    def _points(self) -> tuple[dict[str, tuple[Point, ...]], bool]:
        """New values of the metrics that are known, and whether there are no more of them."""
        if self._row is None:
            self._row = self._reader.last_metric_row_id()
            keys = self._reader.metric_keys()
            if "num_tokens" in keys:
                keys.append(TOKENS_PER_SECOND)
            self._waiting = sorted(keys, key=lambda key: not _comes_first(key))
            return {}, True
        before = self._row
        self._row, found = self._reader.new_points(before)
        for key in found:
            if key not in self._covered and key not in self._waiting:
                self._covered[key] = 0
        points = {
            key: tuple(p for p in values if p.row > self._covered[key])
            for key, values in found.items()
            if key in self._covered
        }
        return {key: values for key, values in points.items() if values}, len(found) == 0 or self._caught_up()

    def _caught_up(self) -> bool:
        return self._row == self._reader.last_metric_row_id()

    def _starts(self, fresh: bool) -> dict[str, SeriesStart]:
        """A page of the metrics that no look has brought yet."""
        page = sum(map(_comes_first, self._waiting)) if fresh else KEYS_PAGE
        now, self._waiting = self._waiting[:page], self._waiting[page:]
        found = {key: self._reader.series_start(key) for key in now}
        self._covered |= {key: start.row for key, start in found.items()}
        return found

    def _groups(self) -> tuple[StoredGroup, ...]:
        if self._newest_group is None:
            found = self._reader.groups(newest_first=True, limit=NEWEST_GROUPS)[::-1]
        else:
            found = self._reader.groups(after_id=self._newest_group, limit=NEW_PAGE)
        if found:
            self._newest_group = found[-1].id
        elif self._newest_group is None:
            self._newest_group = 0
        return tuple(found)


def _comes_first(key: str) -> bool:
    return key in FIRST_KEYS or (key.startswith("rewards/") and key.endswith("/mean"))
