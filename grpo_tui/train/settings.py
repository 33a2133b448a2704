"""Change learning rate, temperature and reward weights while a run trains.

A change takes effect in generation and gradient alike, or is refused.
"""

from __future__ import annotations

import difflib
import json
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from grpo_tui.core.records import Record, SettingChanged
from grpo_tui.present.formatting import setting as shown
from grpo_tui.train import compat

NAMES = ("learning_rate", "temperature", "reward_weights")
FLOAT32 = 3.4e38
"""Above this, a value is infinite in TRL's float32 tensors."""
MOST_TURNS = 3
"""Turning points of a schedule that a message lists."""
LEAST_TEMPERATURE, MOST_TEMPERATURE = 0.01, 100.0


class Refused(Exception):
    """A setting cannot be changed this way; the message says why and what to do instead."""


class NotYet(Exception):
    """A change has to wait for the next generation."""


class LiveSettings:
    """Settings of one trainer that can change while it trains."""

    def __init__(self, trainer: Any, put: Callable[[Record], None], attempt: int) -> None:
        self._trainer, self._put, self._attempt = trainer, put, attempt
        self.rate_factor = 1.0
        """Product of all changes to the learning rate in this run, relative to the config."""
        self.on_change: Callable[[], None] = lambda: None

    def apply(self, changes: Mapping[str, Any], *, by: str = "you") -> dict[str, Any]:
        """Apply all changes, or none.

        Args:
            changes: Name to value. `reward_weights` takes a list in TRL's order, or a mapping from
                function name to weight.
            by: Who asked, for the history.

        Returns:
            Name to `{"old", "new"}`.

        Raises:
            Refused: A name or value is wrong, or this trainer cannot change it safely.
            NotYet: The change needs a generation boundary. Ask again at the next safe point.
        """
        wanted = {name: self._parse(name, value) for name, value in self._merged(changes).items()}
        if not wanted:
            raise Refused(f"nothing to set; the settings are {', '.join(NAMES)}")
        if "temperature" in wanted:
            try:
                compat.temperature_cells(self._trainer)
            except LookupError as error:
                raise Refused(
                    f"temperature cannot change during this run: {error}. Resume with --set"
                ) from error
            if not compat.at_generation_boundary(self._trainer):
                raise NotYet
        return {name: self._set(name, value, by) for name, value in wanted.items()}

    def current(self) -> dict[str, Any]:
        """Return all settings by name."""
        return {name: self.value(name) for name in NAMES}

    def in_force(self) -> dict[str, Any]:
        """Return what a resume from a checkpoint saved now needs besides the config."""
        names = ("temperature", "reward_weights")
        return {"rate_factor": self.rate_factor} | {name: self.value(name) for name in names}

    def value(self, name: str) -> Any:
        """Return the current value of a setting."""
        if name == "learning_rate":
            return compat.learning_rate(self._trainer)
        if name == "temperature":
            return float(self._trainer.temperature)
        return [round(float(w), 7) for w in self._trainer.reward_weights.tolist()]

    def _merged(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        if "reward_weights" in changes and any(name.startswith("reward_weights.") for name in changes):
            raise Refused("reward_weights is given both as a list and by function. Give only one")
        merged = {name: value for name, value in changes.items() if not name.startswith("reward_weights.")}
        single = {
            name.split(".", 1)[1]: v for name, v in changes.items() if name.startswith("reward_weights.")
        }
        if single:
            merged["reward_weights"] = single
        return merged

    def _parse(self, name: str, value: Any) -> Any:
        if name not in NAMES:
            raise Refused(self._why_not(name))
        if name == "reward_weights":
            return self._parse_weights(value)
        number = _number(name, value)
        if name == "temperature" and not LEAST_TEMPERATURE <= number <= MOST_TEMPERATURE:
            raise Refused(
                f"temperature must be from {LEAST_TEMPERATURE:g} to {MOST_TEMPERATURE:g}, not {value}: "
                "beyond that the probabilities become NaN, and the run would fail"
            )
        if number <= 0:
            held = ". To hold training, use `pause`" if number == 0 else ""
            raise Refused(f"{name} must be above 0, not {value}{held}")
        if name == "learning_rate" and compat.learning_rate(self._trainer) == 0:
            raise Refused(
                "the schedule is currently at 0 (warm-up, or its end), so there is nothing to scale"
            )
        return number

    def _why_not(self, name: str) -> str:
        if hasattr(self._trainer.args, name):
            return f"{name} cannot change in a run, only {', '.join(NAMES)} can. Resume with --set {name}=…"
        near = difflib.get_close_matches(name.lower(), NAMES, n=1)
        meant = f"did you mean {near[0]}?" if near else f"the settings are {', '.join(NAMES)}"
        return f"unknown setting {name}; {meant}"

    def _parse_weights(self, value: Any) -> list[float]:
        names = list(self._trainer.reward_func_names)
        count = f"{len(names)} number{'' if len(names) == 1 else 's'}"
        if isinstance(value, str):
            try:
                value = json.loads(value if value.strip().startswith(("[", "{")) else f"[{value}]")
            except ValueError:
                raise Refused(f"reward_weights takes {count}, not {value!r}") from None
        if isinstance(value, Mapping):
            there = f"{'there is' if len(names) == 1 else 'there are'} {', '.join(names)}"
            if not value:
                raise Refused(f"reward_weights does not name a reward function; {there}")
            unknown = [name for name in value if name not in names]
            if unknown:
                near = difflib.get_close_matches(str(unknown[0]), names, n=1)
                meant = f"did you mean {near[0]}?" if near else there
                raise Refused(f"unknown reward function {unknown[0]}; {meant}")
            old = self.value("reward_weights")
            value = [value.get(name, weight) for name, weight in zip(names, old, strict=True)]
        if not isinstance(value, list) or len(value) != len(names):
            raise Refused(f"reward_weights takes {count}, in the order {', '.join(names)}")
        return [_number("reward_weights", weight) for weight in value]

    def _set(self, name: str, value: Any, by: str) -> dict[str, Any]:
        old = self.value(name)
        if name == "learning_rate":
            try:
                compat.scale_learning_rate(self._trainer, value / old)
            except LookupError as error:
                raise Refused(f"learning_rate cannot change here: {error}") from error
            self.rate_factor *= value / old
        elif name == "temperature":
            compat.set_temperature(self._trainer, value)
        else:
            import torch

            weights = self._trainer.reward_weights
            self._trainer.reward_weights = torch.tensor(value, dtype=weights.dtype, device=weights.device)
        step = int(self._trainer.state.global_step)
        self._put(SettingChanged(self._attempt, step, time.time(), name, old, value, by))
        self.on_change()
        return {"old": old, "new": value}


def describe_schedule(trainer: Any) -> str:
    """Describe the learning rate from the next step to the last: where it starts, turns and ends."""
    points = compat.future_rates(trainer)
    if not points:
        return ""
    (first, rate), *rest = points
    if all(later == rate for _, later in rest):
        return f" from step {first} to the end"
    turns = [*rest[:-1][:MOST_TURNS], rest[-1]]
    return f" at step {first}, " + ", ".join(f"{short(later)} at step {step}" for step, later in turns)


def short(rate: float) -> str:
    """Format a learning rate with three significant digits."""
    return shown(float(f"{rate:.3g}"))


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool):
        raise Refused(f"{name} takes a number, not {str(value).lower()}")
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise Refused(f"{name} takes a number, not {value!r}") from None
    if not math.isfinite(number) or abs(number) > FLOAT32:
        raise Refused(f"{name} takes a finite number, not {value!r}")
    return number
