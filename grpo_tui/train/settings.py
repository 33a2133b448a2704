"""Change settings while a run trains, and undo changes.

A change takes effect in generation and gradient alike, or is refused. `config/live_settings.py` and
`train/settable.py` list the settings.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from grpo_tui.config.live_settings import FLOAT32, LIVE, NOW, far_from, live_value, unlike
from grpo_tui.config.meant import nearest
from grpo_tui.core import probe_changes
from grpo_tui.core.commands import REWARDS
from grpo_tui.core.records import Fact, Record, SettingChanged, TotalSteps
from grpo_tui.core.schedule import BY_RESUME, BY_SCHEDULE, FACT, Scheduled, State, to_json, waiting_in
from grpo_tui.core.stages import START
from grpo_tui.core.statistics import is_number
from grpo_tui.core.text import shell_word
from grpo_tui.present.formatting import plural
from grpo_tui.present.formatting import setting as shown
from grpo_tui.train import compat, rate_schedule
from grpo_tui.train.settable import SETTABLE, asked_probes

if TYPE_CHECKING:
    from grpo_tui.train.reward_files import RewardFiles

BY_CONFIG = "config"
"""Who set a value: the config of the resume."""
MOST_TURNS = 3
"""Turning points of a schedule that a message lists."""
LEAST_TEMPERATURE, MOST_TEMPERATURE = 0.01, 100.0
WEIGHTS = "reward_weights"
ALWAYS = ("temperature", WEIGHTS)
"""Settings stored in every checkpoint. Others are stored once they were changed."""
OF_THE_RATE = ("learning_rate", "lr_scheduler_type", START, "max_steps")
"""The message about a change of these lists the coming rates."""


class Refused(Exception):
    """A setting cannot be changed this way; the message says why and what to do instead."""


class NotYet(Exception):
    """A change has to wait for the next generation."""


class Made(NamedTuple):
    """A change that was made at a time: name to old and new value."""

    at: float
    changed: dict[str, tuple[Any, Any]]


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
        self.later_steps = 0
        """Most steps of the stages after this one."""
        self._done: list[Made | Scheduled] = []
        """Changes that can be undone, and those that wait for their step, oldest first."""
        self.schedule: tuple[Scheduled, ...] = ()
        """Every scheduled change of the run, whatever became of it."""
        self.on_change: Callable[[], None] = lambda: None
        self.rewards: RewardFiles | None = None
        """The reward functions by file; None if they come from a script."""
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
            changes: Name to value. `reward_weights` takes a list in TRL's order, or weights by function.
            by: Who asked, for the history.
            sure: False to refuse a number far from the current one.
            because: The reason, for the history.
            undoes: Number of changes that this one undoes.

        Returns:
            Name to `{"old", "new"}`. A setting that had this value already is neither recorded nor undone.

        Raises:
            Refused: A name or value is wrong, or this trainer cannot change it safely.
            NotYet: The change needs a generation boundary. Ask again at the next safe point.
        """
        wanted = self.check(changes, sure=sure)
        if not compat.at_generation_boundary(self._trainer) and any(
            name == REWARDS or LIVE[name].waits or SETTABLE[name].waits(self._trainer, value)
            for name, value in wanted.items()
        ):
            raise NotYet
        now, step = time.time(), int(self._trainer.state.global_step)
        done: dict[str, tuple[Any, Any]] = {}
        weights = self.value(WEIGHTS)
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
        made = Made(now, dict(done))
        if REWARDS in done and WEIGHTS not in done and self.value(WEIGHTS) != weights:
            done[WEIGHTS] = weights, self.value(WEIGHTS)  # an undo of the functions puts them back
        told = {name: {"old": old, "new": value} for name, (old, value) in done.items()}
        if not undoes and by not in (BY_RESUME, BY_CONFIG, BY_SCHEDULE):
            done = {name: pair for name, pair in done.items() if name == REWARDS or pair[0] != pair[1]}
            made = Made(now, {name: pair for name, pair in made.changed.items() if name in done})
        for name, (old, value) in done.items():
            self._put(SettingChanged(self._attempt, step, now, name, old, value, by, because, undoes))
            if name == "max_steps":
                self._put(TotalSteps(self._attempt, value + self.later_steps))
        if not undoes and by not in (BY_RESUME, BY_CONFIG) and made.changed:
            self._done.append(made)
        if done:
            self.on_change()
        return told

    def reload(
        self, wanted: Mapping[str, str], listed: Mapping[str, Any] | None = None, *, by: str, because: str
    ) -> dict[str, Any]:
        """Load the reward functions from their edited files on all ranks, and use them.

        Args:
            wanted: SHA-256 of each file by path, as it was checked.
            listed: Another list of rewards, as `config.reward_list` gives it.

        Raises:
            Refused: They cannot be loaded. The current ones stay.
            NotYet: As for `apply`.
        """
        if self.rewards is None:
            raise Refused("the reward functions are objects of your script, so there is no file to reload")
        if not compat.at_generation_boundary(self._trainer):
            raise NotYet
        return self.apply({REWARDS: self.rewards.load(wanted, listed)}, by=by, because=because)

    def check(self, changes: Mapping[str, Any], *, sure: bool, later: bool = False) -> dict[str, Any]:
        """Return the values of settings by name, converted.

        Args:
            sure: As for `apply`.
            later: The change comes at a later step, where the learning rate may be another.

        Raises:
            Refused: As for `apply`.
        """
        relists = REWARDS in changes  # an undo: these weights are of the list that it puts back
        wanted = {
            name: value if relists and name == WEIGHTS else self._parse(name, value, later)
            for name, value in self._merged(changes).items()
        }
        if not wanted:
            raise Refused(f"nothing to set; the settings are {', '.join(LIVE)}")
        for name, value in wanted.items():
            # Whether the schedule's start matters depends on a schedule that comes with it or before it.
            open_yet = name == START and (later or not {"lr_scheduler_type", "max_steps"}.isdisjoint(wanted))
            self._check(name, value, sure=sure, later=later, may_be_idle=open_yet)
        return wanted

    def undo(self, count: int, *, by: str = "you", because: str = "") -> dict[str, Any]:
        """Undo the last `count` changes, all or none. One `set` is one change.

        A learning rate is scaled back along its schedule. A change that waits for its step is canceled.

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
        last = self._done[-count:]
        made = [change for change in last if isinstance(change, Made)]
        for change in reversed(made):
            for name, (old, new) in change.changed.items():
                rate = wanted.get(name, self.value(name))
                wanted[name] = rate * old / new if name == "learning_rate" else old
            if REWARDS in change.changed:
                wanted.pop(WEIGHTS, None)  # those of later functions; the earlier ones come with their own
        changed = self.apply(wanted, by=by, because=because, undoes=len(made)) if made else {}
        del self._done[-count:]
        for one in last:
            if isinstance(one, Scheduled):
                self._decide(one, "canceled")
        return changed

    # -- changes at later steps -------------------------------------------------------------------

    def plan(self, wanted: Mapping[int, Mapping[str, Any]], *, by: str, because: str) -> None:
        """Schedule changes that `check_plan` accepted."""
        now = time.time()
        new = [Scheduled(step, dict(changes), now, by, because) for step, changes in sorted(wanted.items())]
        self._done += new
        self._keep_schedule((*self.schedule, *new))

    def check_plan(
        self, wanted: Mapping[int, Mapping[str, Any]], at_once: Mapping[str, Any], *, sure: bool
    ) -> None:
        """Refuse scheduled changes that cannot be made, or would never be.

        Args:
            wanted: Step to name to value.
            at_once: The changes of the same command that are not scheduled.
        """
        done, end = int(self._trainer.state.global_step), int(self._trainer.state.max_steps)
        ends = [(done, at_once), *((one.step, one.changes) for one in waiting_in(self.schedule))]
        for step, changes in sorted((*ends, *wanted.items()), key=lambda item: item[0]):
            if (step, changes) not in ends:
                if step < done:
                    raise Refused(
                        f"step {step:,} has passed: the run is at step {done:,}. Leave out @step:{step} to "
                        "change it now"
                    )
                if step > end or (step == end and "max_steps" not in changes):
                    raise Refused(
                        f"a change at step {step:,} would have no effect: the run ends at step {end:,}. "
                        "Raise max_steps first"
                    )
                begins = {START: step} if changes.get(START) == NOW else {}
                self.check({**changes, **begins}, sure=sure, later=True)
            longer: Any = changes.get("max_steps")
            end = int(longer) if is_number(longer) else end

    def due(self) -> list[Scheduled]:
        """Return the scheduled changes whose step is reached, by step."""
        return [one for one in waiting_in(self.schedule) if one.step <= self._trainer.state.global_step]

    def apply_scheduled(self, one: Scheduled) -> dict[str, Any]:
        """Make a scheduled change, as `apply` does."""
        changed = self.apply(one.changes, by=BY_SCHEDULE, because=one.because)
        self._done.remove(one)
        made = self._done[-1]
        self._decide(one, "applied", at=made.at if isinstance(made, Made) else 0.0)
        return changed

    def reject(self, one: Scheduled, reason: str) -> None:
        """Record why a scheduled change cannot be made at its step."""
        self._done.remove(one)
        self._decide(one, "rejected", reason)

    def _decide(self, one: Scheduled, state: State, reason: str = "", at: float | None = None) -> None:
        decided = replace(one, state=state, decided_at=time.time() if at is None else at, reason=reason)
        self._keep_schedule(tuple(decided if other is one else other for other in self.schedule))

    def _keep_schedule(self, known: tuple[Scheduled, ...]) -> None:
        self.schedule = known
        self._put(Fact(FACT, to_json(known)))

    def remember(self, history: Iterable[SettingChanged], schedule: tuple[Scheduled, ...] = ()) -> None:
        """Make the changes of earlier attempts, given oldest first, undoable, and keep what still waits."""
        for _, together in groupby(history, key=lambda change: (change.attempt, change.at, change.by)):
            changes = list(together)
            if changes[0].by == BY_CONFIG:
                self.replaced({change.name for change in changes})
            elif changes[0].undoes:
                del self._done[-changes[0].undoes :]
            elif changes[0].by != BY_RESUME:
                pairs = {change.name: (change.old, change.new) for change in changes}
                self._done.append(Made(changes[0].at, pairs))
        # A resume has read the files again, and earlier weights may be those of another list.
        both = {REWARDS, WEIGHTS}
        lists = [
            n for n, one in enumerate(self._done) if isinstance(one, Made) and both <= one.changed.keys()
        ]
        later = self._done[lists[-1] + 1 :] if lists else self._done
        self._done = self._done[: len(self._done) - len(later)]
        self.replaced({WEIGHTS})
        self._done += later
        self.replaced({REWARDS})
        self._done += waiting_in(schedule)
        self._done.sort(key=lambda one: one.at if isinstance(one, Made) else one.asked_at)
        if schedule:
            self._keep_schedule(schedule)

    def replaced(self, names: Collection[str]) -> None:
        """Forget earlier changes of settings whose value a config has replaced: they cannot be undone."""
        left: list[Made | Scheduled] = []
        for one in self._done:
            if isinstance(one, Made):
                pairs = {name: pair for name, pair in one.changed.items() if name not in names}
                one = Made(one.at, pairs)
            if isinstance(one, Scheduled) or one.changed:
                left.append(one)
        self._done = left

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
        if name == REWARDS and self.rewards is not None:
            return self.rewards.label
        return SETTABLE[name].read(self._trainer)

    def keep(self, name: str, value: Any) -> None:
        """Set the value with which a checkpoint's batch was made, without recording a change."""
        SETTABLE[name].write(self._trainer, value)
        self.changed.add(name)

    def configure(self, name: str, value: Any) -> None:
        """Set an argument that TRL reads at the start of `train()`."""
        args = self._trainer.args
        if name == START:
            rate_schedule.note_start(self._trainer, value)
        else:
            setattr(args, name, type(getattr(args, name))(value) if name == "lr_scheduler_type" else value)
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

    def _parse(self, name: str, value: Any, later: bool) -> Any:
        if name == REWARDS and self.rewards is not None and self.rewards.knows(value):
            return value
        if name not in LIVE:
            raise Refused(self._why_not(name, value))
        if name == probe_changes.NAME:
            return self._parse_probes(value, later)
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
        return self._in_range(name, number)

    def _in_range(self, name: str, value: Any) -> Any:
        try:
            read = live_value(name, value, vars(self._trainer.args))
            return int(self._trainer.state.global_step) if name == START and read == NOW else read
        except ValueError as error:
            raise Refused(str(error)) from None

    def _check(self, name: str, value: Any, *, sure: bool, later: bool, may_be_idle: bool) -> None:
        """Refuse a value that this trainer cannot take, or that has no effect in this run."""
        if name == REWARDS:
            return
        row = SETTABLE[name]
        of_now = later and name == "learning_rate"  # a rate of 0 cannot be scaled; it may be above 0 then
        if not of_now and (why := row.refused(self._trainer, value)):
            what = f"{name} cannot be {shown(value)} in this run: {why}"
            raise Refused(f"{what}. {self._restart(name, value)}" if row.restarts else what)
        if not may_be_idle and (why := row.idle(self._trainer, value)):
            raise Refused(f"{name} has no effect in this run: {why}")
        if not sure and (far := far_from(name, self.value(name), value)):
            raise Refused(f"{far}. Add --yes if you mean it")

    def _why_not(self, name: str, value: Any) -> str:
        if hasattr(self._trainer.args, name):
            return f"{name} cannot change while the run trains. {self._restart(name, value)}"
        return unlike(name)

    def _restart(self, name: str, value: Any) -> str:
        command = self._restarted_by()
        if not command:
            return "Set it in the script and start the script again"
        plain = json.dumps(value) if isinstance(value, Mapping | list) else shown(value)
        given = "…" if value is None else shell_word(plain)
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

    def _parse_probes(self, value: Any, later: bool) -> list[str]:
        probes = asked_probes(self._trainer)
        if probes is None:
            command = self._restarted_by()
            source = '{"source": ["What is 7 + 8?"], "every": 50}'
            some = f" Resume it with some: `{command} --set 'grpo_tui.probe_prompts={source}'`"
            raise Refused(f"the run asks no probe prompts.{some if command else ''}")
        if _are_texts(value) and all(
            text[:1] in (probe_changes.ADDED, probe_changes.REMOVED) for text in value
        ):
            return list(value)
        if not isinstance(value, Mapping) or not value or not {"add", "remove"}.issuperset(value):
            raise Refused(f"{probe_changes.NAME} takes no value: {probe_changes.HOW}")
        if not all(_are_texts(texts) for texts in value.values()):
            raise Refused(f"{probe_changes.NAME} takes lists of texts")
        changed, there = list(probes.changes), list(probes.texts)
        for text in value.get("remove", ()):
            if text not in there and not later:  # another change may add it until then
                raise Refused(
                    f"no probe prompt is {text!r}. They are {', '.join(map(repr, there)) or 'none'}"
                )
            changed = probe_changes.without_prompt(changed, text)
        for text in value.get("add", ()):
            probes.refuse_added(text)
            if text in there and text not in value.get("remove", ()) and not later:
                raise Refused(f"{text!r} is already a probe prompt")
            changed = probe_changes.with_prompt(changed, text)
        return changed

    def _set(self, name: str, old: Any, value: Any) -> None:
        if name == REWARDS and self.rewards is not None:
            self.rewards.use(value)
            return
        SETTABLE[name].write(self._trainer, value)
        if name == "learning_rate":
            self.rate_factor *= value / old
        self.changed.add(name)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


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
