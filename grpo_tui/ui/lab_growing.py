"""What the lab's thread does to let a rewards file grow: try what there is, and load what was added.

Mixed into the lab's worker. Knows messages, and no widget.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from grpo_tui.core.text import one_line
from grpo_tui.rewards.next_reward import Growth, add_to_file, growth, put_into_config, section, with_reward
from grpo_tui.rewards.samples import SampleError
from grpo_tui.rewards.templates import Stage
from grpo_tui.ui.lab_messages import GrowthSeen, LabTrouble, RewardAdded

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from textual.message import Message

    from grpo_tui.config.run_config import RunConfig
    from grpo_tui.rewards.lab import Lab
    from grpo_tui.rewards.scoring import Dataset, Report


class Growing:
    """The jobs that add a reward."""

    _lab: Lab
    _config: RunConfig | None
    _dataset: Dataset | None
    _report: Report | None
    _title: str
    _ask: Callable[..., None]
    _post: Callable[[Message], object]
    _tell: Callable[[str, str], None]
    _doing: Callable[[str], None]
    _reload: Callable[[str], None]

    # -- asked by the screen; returns at once ------------------------------------------------------

    def grow(self) -> None:
        """Try the rewards there are, and say which comes next."""
        self._ask("grow", self._grow)

    def add(self, seen: Growth, stage: Stage, config: Path | None) -> None:
        """Add a reward to the file, and to a config's file where one is given; load it and score."""
        self._ask("add", lambda: self._add(seen, stage, config))

    # -- in the thread ---------------------------------------------------------------------------

    def _grow(self) -> None:
        if self._config is None or self._report is None:
            raise SampleError("no rewards are loaded yet")
        self._doing("trying the rewards, to see which comes next")
        findings = self._report.findings
        seen = growth(self._lab, self._config, self._dataset, findings, self._tell)
        stage = seen.advice.stage
        self._post(GrowthSeen(seen, section_for(self._config, seen, stage) if stage is not None else ""))

    def _add(self, seen: Growth, stage: Stage, config: Path | None) -> None:
        assert self._config is not None
        add_to_file(seen.file, stage, seen.task)
        before = self._config
        if not before.model:  # functions alone have the weights that one begins with
            before = _weighted(before, seen.advice.weights or {})
        self._config = with_reward(before, seen.file, stage)
        trouble = ""
        if config is not None:
            try:
                put_into_config(config, seen.file, stage)
            except (OSError, ValueError) as error:
                trouble = f"{stage.name} is in {seen.file.name}, but not in {config.name}: {error}"
        if before.model and (config is None or trouble):
            self._title = f"{self._title} + {stage.name}"
        self._post(RewardAdded(seen.file, stage.name, None if trouble else config))
        self._reload(f"{stage.name} added")
        if trouble:
            self._post(LabTrouble(one_line(trouble, 600)))


def section_for(config: RunConfig, seen: Growth, stage: Stage) -> str:
    """The section of a config with one reward more, for a person to copy."""
    if not config.model:
        config = _weighted(config, seen.advice.weights or {})
    folder = config.path.parent if config.path is not None else seen.file.absolute().parent
    rewards = [
        replace(entry, source=os.path.relpath(entry.source, folder)) if os.path.isabs(entry.source) else entry
        for entry in with_reward(config, seen.file, stage).section.rewards
    ]
    return section(rewards, seen.task)


def _weighted(config: RunConfig, weights: Mapping[str, float]) -> RunConfig:
    rewards = tuple(
        replace(entry, weight=weights.get(entry.name, entry.weight)) if entry.weight is None else entry
        for entry in config.section.rewards
    )
    return replace(config, section=replace(config.section, rewards=rewards))
