"""Change settings while a run trains, and undo changes.

A change takes effect in generation and gradient alike, or is refused. `config/live_settings.py` and
`train/settable.py` list the settings.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import groupby
from typing import Any

from grpo_tui.config.live_settings import FLOAT32, LIVE, far_from, live_value, unlike
from grpo_tui.config.meant import nearest
from grpo_tui.core.records import Record, SettingChanged, TotalSteps
from grpo_tui.present.formatting import plural
from grpo_tui.present.formatting import setting as shown
from grpo_tui.train import compat
from grpo_tui.train.settable import SETTABLE

BY_RESUME, BY_CONFIG = "resume", "config"
"""Who set a value: the resume that restored it, or the config of the resume."""
MOST_TURNS = 3
"""Turning points of a schedule that a message lists."""
LEAST_TEMPERATURE, MOST_TEMPERATURE = 0.01, 100.0
ALWAYS = ("temperature", "reward_weights")
"""Settings stored in every checkpoint. Others are stored once they were changed."""
OF_THE_RATE = ("learning_rate", "lr_scheduler_type", "max_steps")
"""The message about a change of these lists the coming rates."""


class Refused(Exception):
    """A setting cannot be changed this way; the message says why and what to do instead."""


class NotYet(Exception):
    """A change has to wait for the next generation."""


class LiveSettings:
    """Settings of one trainer that can change while it trains.

    Args:
        restarted_by: Returns the command that resumes the run; empty when the user's script trains it.
    """

    def __init__(
        self,
        trainer: Any,
        put: Callable[[Record], None],
        attempt: int,
        restarted_by: Callable[[], str] = lambda: "",
    ) -> None:
        self._trainer, self._put, self._attempt = trainer, put, attempt
        self._restarted_by = restarted_by
        self.rate_factor = 1.0
        """Product of all changes to the learning rate in this run, relative to the config."""
        self.changed: set[str] = set()
        self._done: list[dict[str, tuple[Any, Any]]] = []
        """Changes that can be undone, oldest first: name to old and new value."""
        self.on_change: Callable[[], None] = lambda: None
        compat.note_adapter(trainer)

    def apply(
        self,
        changes: Mapping[str, Any],
        *,
        by: str = "you",
        sure: bool = True,
        because: str = "",
        undoes: int = 0,
    ) -> dict[str, Any]:
        """Apply all changes, or none.

        Args:
            changes: Name to value. `reward_weights` takes a list in TRL's order, or a mapping from
                function name to weight.
            by: Who asked, for the history.
            sure: False to refuse a number far from the current one.
            because: The reason, for the history.
            undoes: Number of changes that this one undoes.

        Returns:
            Name to `{"old", "new"}`.

        Raises:
            Refused: A name or value is wrong, or this trainer cannot change it safely.
            NotYet: The change needs a generation boundary. Ask again at the next safe point.
        """
        wanted = {name: self._parse(name, value) for name, value in self._merged(changes).items()}
        if not wanted:
            raise Refused(f"nothing to set; the settings are {', '.join(LIVE)}")
        for name, value in wanted.items():
            self._check(name, value, sure=sure)
        if not compat.at_generation_boundary(self._trainer) and any(
            LIVE[name].waits or SETTABLE[name].waits(self._trainer, value) for name, value in wanted.items()
        ):
            raise NotYet
        now, step = time.time(), int(self._trainer.state.global_step)
        done: dict[str, tuple[Any, Any]] = {}
        # A new schedule changes the rate, so a rate is set after it, and scaled back before it.
        for name in sorted(wanted, key=lambda name: (name == "learning_rate") != bool(undoes)):
            old, value = self.value(name), wanted[name]
            try:
                self._set(name, old, value)
            except Exception:
                for earlier, (before, after) in reversed(done.items()):
                    self._set(earlier, after, before)
                raise
            done[name] = old, value
        for name, (old, value) in done.items():
            self._put(SettingChanged(self._attempt, step, now, name, old, value, by, because, undoes))
            if name == "max_steps":
                self._put(TotalSteps(self._attempt, value))
        if undoes:
            del self._done[-undoes:]
        elif by not in (BY_RESUME, BY_CONFIG):
            self._done.append(done)
        self.on_change()
        return {name: {"old": old, "new": value} for name, (old, value) in done.items()}

    def undo(self, count: int, *, by: str = "you", because: str = "") -> dict[str, Any]:
        """Undo the last `count` changes, all or none. One `set` is one change.

        A learning rate is scaled back along its schedule.

        Returns:
            Name to `{"old", "new"}`.

        Raises:
            Refused: There are fewer changes, or an old value cannot be set any more.
            NotYet: As for `apply`.
        """
        if not 1 <= count <= len(self._done):
            some = f"{plural(len(self._done), 'change')} can be undone, not {count}"
            raise Refused(some if self._done else "there is no change to undo")
        wanted: dict[str, Any] = {}
        for change in reversed(self._done[-count:]):
            for name, (old, new) in change.items():
                rate = wanted.get(name, self.value(name))
                wanted[name] = rate * old / new if name == "learning_rate" else old
        return self.apply(wanted, by=by, because=because, undoes=count)

    def remember(self, history: Iterable[SettingChanged]) -> None:
        """Make the changes of earlier attempts, given oldest first, undoable."""
        for _, together in groupby(history, key=lambda change: (change.attempt, change.at, change.by)):
            changes = list(together)
            if changes[0].by == BY_CONFIG:
                self.replaced({change.name for change in changes})
            elif changes[0].undoes:
                del self._done[-changes[0].undoes :]
            elif changes[0].by != BY_RESUME:
                self._done.append({change.name: (change.old, change.new) for change in changes})

    def replaced(self, names: Collection[str]) -> None:
        """Forget earlier changes of settings whose value a config has replaced: they cannot be undone."""
        left = [{name: pair for name, pair in one.items() if name not in names} for one in self._done]
        self._done = [one for one in left if one]

    def current(self) -> dict[str, Any]:
        """Return all settings by name."""
        return {name: self.value(name) for name in SETTABLE}

    def in_force(self) -> dict[str, Any]:
        """Return what a resume from a checkpoint saved now needs besides the config."""
        names = [name for name in SETTABLE if name in ALWAYS or name in self.changed]
        return {"rate_factor": self.rate_factor} | {
            name: self.value(name) for name in names if name != "learning_rate"
        }

    def value(self, name: str) -> Any:
        """Return the current value of a setting."""
        return SETTABLE[name].read(self._trainer)

    def keep(self, name: str, value: Any) -> None:
        """Set the value with which a checkpoint's batch was made, without recording a change."""
        SETTABLE[name].write(self._trainer, value)
        self.changed.add(name)

    def configure(self, name: str, value: Any) -> None:
        """Set an argument that TRL reads at the start of `train()`."""
        args = self._trainer.args
        old = getattr(args, name)
        setattr(args, name, type(old)(value) if name == "lr_scheduler_type" else value)
        self.changed.add(name)

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
        if name not in LIVE:
            raise Refused(self._why_not(name))
        if name == "reward_weights":
            return self._parse_weights(value)
        if name not in ("learning_rate", "temperature"):
            return self._in_range(name, value)
        number = _number(name, value)
        if name == "temperature" and not LEAST_TEMPERATURE <= number <= MOST_TEMPERATURE:
            raise Refused(
                f"temperature must be from {LEAST_TEMPERATURE:g} to {MOST_TEMPERATURE:g}, not {value}: "
                "beyond that the probabilities become NaN, and the run would fail"
            )
        if number <= 0:
            held = ". To hold training, use `pause`" if number == 0 else ""
            raise Refused(f"{name} must be above 0, not {value}{held}")
        return self._in_range(name, number)

    def _in_range(self, name: str, value: Any) -> Any:
        try:
            return live_value(name, value, vars(self._trainer.args))
        except ValueError as error:
            raise Refused(str(error)) from None

    def _check(self, name: str, value: Any, *, sure: bool) -> None:
        """Refuse a value that this trainer cannot take, or that has no effect in this run."""
        row = SETTABLE[name]
        if why := row.refused(self._trainer, value):
            what = f"{name} cannot be {shown(value)} in this run: {why}"
            raise Refused(f"{what}. {self._restart(name, value)}" if row.restarts else what)
        if why := row.idle(self._trainer, value):
            raise Refused(f"{name} has no effect in this run: {why}")
        if not sure and (far := far_from(name, self.value(name), value)):
            raise Refused(f"{far}. Add --yes if you mean it")

    def _why_not(self, name: str) -> str:
        if hasattr(self._trainer.args, name):
            return f"{name} cannot change while the run trains. {self._restart(name, None)}"
        return unlike(name)

    def _restart(self, name: str, value: Any) -> str:
        command = self._restarted_by()
        if not command:
            return "Set it in the script and start the script again"
        given = "…" if value is None else shown(value)
        return f"Restart the run with it: `{command} --set {name}={given}`"

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
                near = nearest(str(unknown[0]), names)
                meant = f"did you mean {near}?" if near else there
                raise Refused(f"unknown reward function {unknown[0]}; {meant}")
            old = self.value("reward_weights")
            value = [value.get(name, weight) for name, weight in zip(names, old, strict=True)]
        if not isinstance(value, list) or len(value) != len(names):
            raise Refused(f"reward_weights takes {count}, in the order {', '.join(names)}")
        return [_number("reward_weights", weight) for weight in value]

    def _set(self, name: str, old: Any, value: Any) -> None:
        SETTABLE[name].write(self._trainer, value)
        if name == "learning_rate":
            self.rate_factor *= value / old
        self.changed.add(name)


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
