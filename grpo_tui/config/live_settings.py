"""Settings that can change while a run trains, with their meaning and valid values.

`train/settable.py` reads and writes them in a trainer.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from grpo_tui.config.coerce import CoerceError, coerce
from grpo_tui.config.meant import nearest
from grpo_tui.config.ranges import RANGES, limits
from grpo_tui.config.trl_fields import FieldsUnavailableError, NoDefault, load_fields
from grpo_tui.core.probe_changes import HOW, NAME, typed
from grpo_tui.core.stages import START

Counts = Literal["step", "generation", "probe"]
FLOAT32 = 3.4e38
"""Larger numbers are infinite in float32."""
FAR = 100
"""A change by a larger factor needs confirmation."""
WHOLE = frozenset({"logging_steps", "save_steps", "eval_steps"})
"""Settings that TRL also accepts as a fraction of all steps. While training, they are a number of steps."""
NOW = "now"
"""Word for the current step."""


@dataclass(frozen=True, slots=True)
class LiveSetting:
    """One setting.

    Attributes:
        counts: Whether a change takes effect at the next step, the next generation or the next probe.
        what: Its meaning, in one or two sentences.
    """

    name: str
    counts: Counts
    what: str

    @property
    def waits(self) -> bool:
        """Whether a change is applied only where the next step generates."""
        return self.counts == "generation"

    @property
    def from_when(self) -> str:
        """When a change takes effect, in words."""
        return f"from the next {self.counts}"


LIVE: Mapping[str, LiveSetting] = {
    row.name: row
    for row in (
        LiveSetting("learning_rate", "step", "Size of an update. The rest of the schedule is scaled with it"),
        LiveSetting("lr_scheduler_type", "step", "Shape of the learning rate's schedule up to max_steps"),
        LiveSetting(START, "step", "Step after which the schedule restarts, without warm-up, or now"),
        LiveSetting("max_steps", "step", "Last step of the run. The schedule is stretched to it"),
        LiveSetting("max_grad_norm", "step", "Longer gradients are scaled down to this norm. 0 turns it off"),
        LiveSetting("beta", "step", "Weight of the KL term that holds the policy near the reference model"),
        LiveSetting("epsilon", "step", "How far an update may move a token's probability: lower bound"),
        LiveSetting("epsilon_high", "step", "How far an update may move a token's probability: upper bound"),
        LiveSetting("delta", "step", "Cap on the probability ratio where the advantage is negative"),
        LiveSetting("entropy_coef", "step", "Weight of a bonus for varied answers"),
        LiveSetting("reward_weights", "generation", "Weight of each reward function in the total"),
        LiveSetting("scale_rewards", "generation", "What advantages are divided by: std of group or batch"),
        LiveSetting("mask_truncated_completions", "generation", "Leave truncated answers out of the loss"),
        LiveSetting("temperature", "generation", "Randomness of sampling"),
        LiveSetting("top_p", "generation", "Sample from the likeliest tokens up to this probability"),
        LiveSetting("top_k", "generation", "Sample from this many of the likeliest tokens. 0 turns it off"),
        LiveSetting("min_p", "generation", "Leave out tokens below this share of the likeliest one"),
        LiveSetting("repetition_penalty", "generation", "Above 1, tokens that were used become less likely"),
        LiveSetting("max_completion_length", "generation", "Most tokens of a completion"),
        LiveSetting("logging_steps", "step", "Steps between two rows of metrics"),
        LiveSetting("save_steps", "step", "Steps between two checkpoints"),
        LiveSetting("eval_steps", "step", "Steps between two evaluations"),
        LiveSetting(NAME, "probe", "Prompts asked at regular steps. += adds one, -= removes one"),
    )
}
"""By name, in display order."""


def waiting(names: Iterable[str]) -> list[str]:
    """Return the names among these, such as `reward_weights.format`, that wait for the next generation."""
    return [name for name in names if (row := LIVE.get(name.partition(".")[0])) is not None and row.waits]


def initial_values(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the initial value of every setting that can change, with TRL's defaults.

    Args:
        config: TRL's keys of a recorded config. Without any, nothing is known about the run.
    """
    if not config:
        return {}
    try:
        fields = load_fields()
    except FieldsUnavailableError:
        return {name: config[name] for name in LIVE if name in config}
    given = {name: config.get(name, fields[name].default) for name in LIVE if name in fields}
    return {name: value for name, value in given.items() if not isinstance(value, NoDefault)}


def at_step(text: str) -> tuple[str, int | None]:
    """Split `0.04@step:500` into a value and the step to set it at; None without a step.

    Raises:
        ValueError: What follows the `@` is not a step.
    """
    value, mark, step = text.rpartition("@")
    if not mark or not re.match(r"(step|\d+$)", step):
        return text, None
    number = re.fullmatch(r"step:(\d{1,9})", step)
    if number is None:
        meant = re.search(r"\d{1,9}$", step)
        raise ValueError(f"{text}: write the step as {value}@step:{meant[0] if meant else 500}")
    return value, int(number[1])


def probe_change(word: str) -> tuple[str, dict[str, list[str]], int | None] | None:
    """Return name, value and step of `probe_prompts+=TEXT` or `probe_prompts-=TEXT@step:500`, else None."""
    found = typed(word)
    if found is None:
        return None
    key, text = found
    try:
        text, step = at_step(text)
    except ValueError:  # a prompt may end in anything, such as an address
        step = None
    return NAME, {key: [text]}, step


def live_value(name: str, value: Any, given: Mapping[str, Any]) -> Any:
    """Convert a value to the type of a setting and check its range.

    Args:
        given: The other settings of the run, on which some ranges depend.

    Raises:
        ValueError: The value is invalid. The message says why.
    """
    if name == NAME:
        raise ValueError(f"{NAME} takes no value: {HOW}")
    if name == START:
        return _start(value)
    try:
        read = coerce(load_fields()[name], value).value
    except CoerceError as error:
        raise ValueError(str(error)) from None
    if read is None and name in WHOLE:
        raise ValueError(f"{name} takes a whole number of steps, not null")
    if isinstance(read, bool) or not isinstance(read, int | float):
        return read
    if math.isnan(read) or abs(read) > FLOAT32:
        raise ValueError(f"{name} takes a finite number, not {value!r}")
    if name == "learning_rate" and read <= 0:
        held = ". To hold training, use `pause`" if read == 0 else ""
        raise ValueError(f"{name} must be above 0, not {read:g}{held}")
    for allowed in (*([RANGES[name]] if name in RANGES else ()), *limits().get(name, ())):
        if all(given.get(key) == wanted for key, wanted in allowed.when.items()) and not allowed.holds(read):
            raise ValueError(f"{name} must be {allowed.words(read)}, not {read:g}")
    if name in WHOLE:
        if read != int(read):
            raise ValueError(f"{name} takes a whole number of steps, not {read:g}")
        return int(read)
    return read


def _start(value: Any) -> int | str:
    text = str(value).strip().lower()
    if text == NOW or (not isinstance(value, bool) and re.fullmatch(r"\d{1,9}", text)):
        return NOW if text == NOW else int(text)
    raise ValueError(f"{START} takes the step after which the schedule restarts, or now, not {value!r}")


def far_from(name: str, old: Any, new: Any, factor: float = FAR) -> str:
    """Return a warning if a number differs from the current one by `factor` or more, else an empty string."""
    numbers = name != START and all(
        isinstance(v, int | float) and not isinstance(v, bool) for v in (old, new)
    )
    if not numbers or min(old, new) <= 0 or max(old, new) < factor * min(old, new):
        return ""
    times = f"{new / old:,.0f} times" if new > old else f"1/{old / new:,.0f} of"
    return f"{name} would be {times} the current {old:.3g}"


def unlike(name: str, known: Iterable[str] = tuple(LIVE)) -> str:
    """Return the message for a setting that cannot change while training, with a similar name."""
    near = nearest(name, known)
    meant = f"did you mean {near}?" if near else f"the settings are {', '.join(known)}"
    return f"unknown setting {name}; {meant}"
