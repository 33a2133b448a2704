"""Rewards of a run from its beginning to its end: each function and the weighted total."""

from __future__ import annotations

from dataclasses import dataclass

from grpo_tui.core.statistics import mean
from grpo_tui.present.series import KEPT_OPENING, Series
from grpo_tui.store.read_series import metric_keys, series_start
from grpo_tui.store.reader import RunReader

TOTAL = "reward"
"""TRL's key of the weighted sum of the rewards."""


@dataclass(frozen=True, slots=True)
class Reward:
    """A reward over the run, or the `total`, with the means of its first and last values."""

    key: str
    name: str
    weight: float | None
    start: float | None
    end: float | None
    series: Series


def series_of(reader: RunReader, key: str) -> Series:
    """Return one metric of a run."""
    return Series.of(series_start(reader, key))


def function_of(key: str) -> str:
    """Return the name of the reward function that a metric is the mean of."""
    return key.removeprefix("rewards/").removesuffix("/mean")


def read_rewards(reader: RunReader) -> tuple[int, tuple[Reward, ...]]:
    """Return over how many logged steps `start` and `end` are averaged, and the rewards that have a value."""
    weights: dict[str, float | None] = {one.name: one.weight for one in reader.reward_functions()}
    for key in metric_keys(reader):
        name = function_of(key)
        if key == f"rewards/{name}/mean":
            weights.setdefault(name, None)
    named = [(f"rewards/{name}/mean", name, weight) for name, weight in weights.items()]
    found = [(*one, series_of(reader, one[0])) for one in (*named, (TOTAL, "total", None))]
    averaged = min(KEPT_OPENING, max(1, found[-1][3].count // 2))
    return averaged, tuple(
        Reward(
            key,
            name,
            weight,
            mean(series.opening[:averaged]),
            mean([recent.value for recent in series.recent][-averaged:]),
            series,
        )
        for key, name, weight, series in found
        if series.count
    )
