"""Rewards around another reward: clipping, a gate, a weight that follows the step or the success rate.

The inner reward is a callable, or what a config can contain: `grpo_tui.rewards.library.TagFormat`,
`file.py:function`, or `{source: …, params: {…}}`. An adaptive weight is saved with the checkpoints of a run
and restored by a resume.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from grpo_tui.rewards.library.base import Reward, require
from grpo_tui.rewards.loading import callable_name, is_async

Inner = Callable[..., Any] | str | Mapping[str, Any]


class Wrapper(Reward):
    """Reward that modifies the values of an inner one.

    Args:
        reward: the inner reward.
        name: by default the inner reward's name, whose place it takes.
    """

    def __init__(self, reward: Inner, *, name: str | None = None) -> None:
        self.reward = inner_reward(reward)
        super().__init__(name=name or callable_name(self.reward))

    def values(self, completions: Sequence[Any], **kwargs: Any) -> list[float | None]:
        """Return the inner reward's values, with None for NaN."""
        found = self.reward(completions=completions, **kwargs)
        return [None if value is None or value != value else float(value) for value in found]


class Clip(Wrapper):
    """The inner reward, clipped to bounds.

    Args:
        low, high: the bounds. None for no bound.
    """

    def __init__(
        self, reward: Inner, *, low: float | None = None, high: float | None = None, name: str | None = None
    ) -> None:
        super().__init__(reward, name=name)
        require(low is not None or high is not None, "a clip needs low, high or both")
        require(low is None or high is None or low < high, f"low ({low}) lies below high ({high})")
        self.low, self.high = low, high

    def __call__(self, completions: Sequence[Any], **kwargs: Any) -> list[float | None]:
        """See `Reward.__call__`."""
        return [self._clipped(value) for value in self.values(completions, **kwargs)]

    def _clipped(self, value: float | None) -> float | None:
        if value is None:
            return None
        value = value if self.low is None else max(self.low, value)
        return value if self.high is None else min(self.high, value)


class Gate(Wrapper):
    """The inner reward where another reward reaches a threshold, otherwise a fixed value.

    Use it to count the format only for right answers, or a right answer only in the right format.

    Args:
        when: reward that opens the gate. None from it closes the gate.
        at_least: threshold that opens the gate.
        otherwise: value behind a closed gate. None abstains.
    """

    def __init__(
        self,
        reward: Inner,
        *,
        when: Inner,
        at_least: float = 1.0,
        otherwise: float | None = 0.0,
        name: str | None = None,
    ) -> None:
        super().__init__(reward, name=name)
        self.when, self.at_least, self.otherwise = inner_reward(when), at_least, otherwise

    def __call__(self, completions: Sequence[Any], **kwargs: Any) -> list[float | None]:
        """See `Reward.__call__`."""
        opened = self.when(completions=completions, **kwargs)
        values = self.values(completions, **kwargs)
        return [
            value if key is not None and key >= self.at_least else self.otherwise
            for value, key in zip(values, opened, strict=True)
        ]


class ScheduledWeight(Wrapper):
    """The inner reward times a weight that depends on the training step, linear between points.

    Args:
        points: (step, weight) pairs. The weight is constant before the first and after the last.
        name: see `Wrapper`. The weight is logged as `weight/<name>`.
    """

    def __init__(self, reward: Inner, *, points: Sequence[Sequence[float]], name: str | None = None) -> None:
        super().__init__(reward, name=name)
        require(bool(points) and all(len(point) == 2 for point in points), "points are [step, weight] pairs")
        self.points = sorted((float(step), float(weight)) for step, weight in points)
        steps = [step for step, _ in self.points]
        require(len(set(steps)) == len(steps), "a step has two weights")

    def weight_at(self, step: int) -> float:
        """Return the weight at a training step."""
        before = [point for point in self.points if point[0] <= step]
        after = [point for point in self.points if point[0] > step]
        if not before or not after:
            return (before[-1] if before else after[0])[1]
        (left, low), (right, high) = before[-1], after[0]
        return low + (high - low) * (step - left) / (right - left)

    def __call__(self, completions: Sequence[Any], **kwargs: Any) -> list[float | None]:
        """See `Reward.__call__`."""
        weight = self.weight_at(step_of(kwargs))
        log_weight(self.__name__, weight, kwargs)
        return [None if v is None else weight * v for v in self.values(completions, **kwargs)]


class AdaptiveWeight(Wrapper):
    """The inner reward times a weight that rises while the model fails and falls once it succeeds.

    After each batch, a success rate below `low` multiplies the weight by `up`, and one above `high` by
    `down`, within bounds. A batch is scored with the weight from the batches before it. Evaluation batches
    change the weight too, because TRL does not say which batches are for training.

    Args:
        initial: first weight.
        low, high: success rates between which the weight does not change.
        up, down: factors.
        minimum, maximum: bounds of the weight.
        success: smallest value of the inner reward that counts as a success.
        name: see `Wrapper`. The weight is logged as `weight/<name>`.
    """

    def __init__(
        self,
        reward: Inner,
        *,
        initial: float = 1.0,
        low: float = 0.3,
        high: float = 0.8,
        up: float = 1.2,
        down: float = 0.9,
        minimum: float = 0.1,
        maximum: float = 5.0,
        success: float = 1.0,
        name: str | None = None,
    ) -> None:
        super().__init__(reward, name=name)
        require(0 <= low < high <= 1, f"low ({low}) and high ({high}) are rates, low the lower one")
        require(up >= 1 >= down > 0, f"up ({up}) is at least 1, down ({down}) at most 1 and above 0")
        require(minimum <= initial <= maximum, f"initial ({initial}) lies between minimum and maximum")
        self.low, self.high, self.up, self.down = low, high, up, down
        self.minimum, self.maximum, self.success = minimum, maximum, success
        self.weight = initial
        self._untouched = True

    def state_dict(self) -> dict[str, float]:
        """Return the state for a checkpoint."""
        return {"weight": self.weight}

    def load_state_dict(self, state: Mapping[str, float]) -> None:
        """Restore the state of a checkpoint."""
        self.weight = min(self.maximum, max(self.minimum, float(state["weight"])))
        self._untouched = False

    def __call__(self, completions: Sequence[Any], **kwargs: Any) -> list[float | None]:
        """See `Reward.__call__`."""
        if self._untouched:
            self._remember(kwargs.get("trainer_state"))
        values = self.values(completions, **kwargs)
        weight = self.weight
        log_weight(self.__name__, weight, kwargs)
        known = [value for value in values if value is not None]
        if known:
            self._adapt(sum(value >= self.success for value in known) / len(known))
        return [None if value is None else weight * value for value in values]

    def _adapt(self, rate: float) -> None:
        factor = self.up if rate < self.low else self.down if rate > self.high else 1.0
        self.weight = min(self.maximum, max(self.minimum, self.weight * factor))

    def _remember(self, state: Any) -> None:
        """In a resumed run of a plain TRL script, restore the last logged weight."""
        self._untouched = False
        for row in reversed(getattr(state, "log_history", None) or []):
            if isinstance(row.get(f"weight/{self.__name__}"), int | float):
                self.load_state_dict({"weight": row[f"weight/{self.__name__}"]})
                return


def step_of(kwargs: Mapping[str, Any]) -> int:
    """Return the optimizer step of TRL's `trainer_state`, 0 without one."""
    return int(getattr(kwargs.get("trainer_state"), "global_step", 0) or 0)


def log_weight(name: str, weight: float, kwargs: Mapping[str, Any]) -> None:
    """Log a weight as `weight/<name>` if TRL passes `log_metric`."""
    log = kwargs.get("log_metric")
    if log is not None:
        log(f"weight/{name}", weight)


def inner_reward(reward: Inner) -> Callable[..., Any]:
    """Return the callable for a wrapper's parameter.

    Raises:
        RewardLoadError: its source cannot be loaded.
        TypeError: it is asynchronous, a class, or not callable.
    """
    if isinstance(reward, str | Mapping):
        found = _loaded({"source": reward} if isinstance(reward, str) else reward)
    else:
        found = reward
    if inspect.isclass(found) or not callable(found):
        raise TypeError(f"a wrapper goes around a reward function or object, not around {found!r}")
    if is_async(found):
        raise TypeError(f"{callable_name(found)} is asynchronous, and a wrapper cannot wait for it")
    return found


def _loaded(entry: Mapping[str, Any]) -> Callable[..., Any]:
    from grpo_tui.config.section import RewardEntry
    from grpo_tui.rewards.loading import RewardLoadError, load_entry

    unknown = set(entry) - {"source", "params", "name"}
    source = entry.get("source")
    if unknown or not isinstance(source, str):
        raise TypeError("a reward inside a wrapper is {source: …, params: {…}, name: …}")
    name = str(entry.get("name") or source.rpartition(":")[2].rpartition(".")[2])
    loaded = load_entry(RewardEntry(name, source, params=dict(entry.get("params") or {})))
    if isinstance(loaded.func, str):
        raise RewardLoadError(name, "a wrapper cannot go around a reward model, which TRL runs itself")
    return loaded.func
