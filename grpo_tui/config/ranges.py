"""Check numbers against the range of their field.

TRL does not check ranges: a temperature of 0 fails in the first step, and `max_steps: 0` trains one step and
reports success. Ranges come from `limits.json`. `tests/config/trl_judge.py` writes it by trying values of
every numeric field on the installed TRL. `RANGES` adds values that TRL accepts but nobody wants. Sizes that
must fit each other are checked in `batch`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from grpo_tui.config.coerce import kinds_of
from grpo_tui.config.settings import Settings
from grpo_tui.core.findings import Finding

FILE = Path(__file__).with_name("limits.json")
FAR = 2**31


@dataclass(frozen=True, slots=True)
class Range:
    """The numbers from `least` to `most`. `above` excludes `least`, `below` excludes `most`.

    Attributes:
        also: Single values that are valid too.
        infinite: Whether infinity is valid.
        when: Settings under which the range applies.
        low: What is wrong with a smaller value.
        high: What is wrong with a larger value.
    """

    least: float = -math.inf
    most: float = math.inf
    above: bool = False
    below: bool = False
    also: tuple[float, ...] = ()
    infinite: bool = False
    when: Mapping[str, Any] = field(default_factory=dict)
    low: str = ""
    high: str = ""

    def holds(self, value: float) -> bool:
        """Return whether the value is in the range."""
        if value in self.also:
            return True
        if math.isnan(value) or math.isinf(value):
            return self.infinite and value > 0
        if (self.above and value == self.least) or (self.below and value == self.most):
            return False
        return self.least <= value <= self.most

    def words(self, value: float) -> str:
        """Return the range in words for a value outside it. A limit far away is left out."""
        low, high = math.isfinite(self.least), math.isfinite(self.most)
        high = high and (value >= self.most or self.most < FAR)
        parts = []
        if low and high and not (self.above or self.below):
            parts.append(f"from {_plain(self.least)} to {_plain(self.most)}")
        else:
            if low:
                parts.append(f"above {self.least:g}" if self.above else f"{self.least:g} or more")
            if high:
                parts.append(f"{'below' if self.below else 'at most'} {_plain(self.most)}")
        said = " and ".join(parts) or "finite"
        return said + "".join(f", or {number:g}" for number in self.also)

    def why(self, value: float) -> str:
        """Return what is wrong with a value, empty if unknown."""
        return self.low if value <= self.least else self.high if value >= self.most else ""


def _plain(number: float) -> str:
    return str(int(number)) if number == int(number) and 1e6 <= number < 1e10 else f"{number:g}"


@lru_cache(maxsize=1)
def limits() -> Mapping[str, tuple[Range, ...]]:
    """Return the ranges that TRL enforces, by field."""
    read = json.loads(FILE.read_text(encoding="utf-8"))["fields"]
    return {
        name: tuple(Range(**{**row, "also": tuple(row.get("also", ()))}) for row in rows)
        for name, rows in read.items()
    }


_ABOVE_ZERO = Range(0, above=True)
RANGES: Mapping[str, Range] = {
    "max_steps": Range(1, also=(-1,), low="-1 trains num_train_epochs epochs"),
    **dict.fromkeys(("learning_rate", "weight_decay", "beta", "epsilon", "epsilon_high"), Range(0)),
    **dict.fromkeys(("logging_steps", "save_steps", "eval_steps"), _ABOVE_ZERO),
    **dict.fromkeys(("delta", "sapo_temperature_neg", "sapo_temperature_pos"), _ABOVE_ZERO),
    **dict.fromkeys(("eval_accumulation_steps", "save_total_limit", "lora_r", "lora_alpha"), Range(1)),
    "max_grad_norm": Range(0, infinite=True),
    "temperature": Range(
        0.01,
        100,
        low="below it every completion of a prompt is identical",
        high="above it completions are random tokens",
    ),
    "top_p": Range(0, 1, above=True, low="every completion of a prompt would be identical"),
    "top_entropy_quantile": Range(0, 1, above=True),
    "lora_dropout": Range(0, 1, below=True),
}
"""Ranges of values that make sense. TRL accepts others silently."""

_BY_STEPS = ("logging_steps", "save_steps", "eval_steps")


def range_findings(s: Settings) -> list[Finding]:
    """Return an error for every number outside its field's range."""
    given = {name: value for arguments in s.parts.values() for name, value in arguments.items()}
    numbers = list(given.items())
    sampling = given.get("generation_kwargs")
    if isinstance(sampling, dict):
        numbers += [(f"generation_kwargs.{name}", value) for name, value in sampling.items()]
    found = [
        _finding(s, key, value, allowed)
        for key, value in numbers
        for allowed in _refusing(s, key.rpartition(".")[2], value)
    ]
    return found + _weight_findings(s)


def _refusing(s: Settings, name: str, value: Any) -> Iterator[Range]:
    info = s.fields.get(name)
    if info is None or not _is_number(value) or not kinds_of(info.annotation) & {"int", "float"}:
        return
    if name in _BY_STEPS and s.strategy(name.replace("steps", "strategy")) != "steps":
        return  # only read with the strategy "steps"
    ours = [RANGES[name]] if name in RANGES else []
    for allowed in (*ours, *limits().get(name, ())):
        if all(s.get(key) == wanted for key, wanted in allowed.when.items()) and not allowed.holds(value):
            yield allowed
            return
    if math.isnan(value):
        yield Range()


def _finding(s: Settings, name: str, value: float, allowed: Range) -> Finding:
    default = s.fields[name.rpartition(".")[2]].default
    usable = default is None or (_is_number(default) and allowed.holds(default))
    fix = (name, default) if usable else None  # without a value the key is removed
    vllm = allowed.when.get("use_vllm")
    where = "" if vllm is None else " with vLLM" if vllm else " without vLLM"
    why = allowed.why(value)
    text = f"{name} must be {allowed.words(value)}{where}; it is {_said(value)}" + (f". {why}" if why else "")
    return s.error("config.range", name, text, fix)


def _weight_findings(s: Settings) -> list[Finding]:
    weights: Sequence[float] = s.get("reward_weights") or ()
    finite = [w if math.isfinite(w) else 1.0 for w in weights]
    places: list[tuple[str, float, Any]] = [("reward_weights", weight, finite) for weight in weights]
    for index, entry in enumerate(s.section.rewards):
        if entry.weight is not None:
            places.append((f"grpo_tui.rewards.{index}.weight", entry.weight, 1.0))
    return [
        s.error("config.range", name, f"{name} must be finite; it is {_said(weight)}", (name, meant))
        for name, weight, meant in places
        if not math.isfinite(weight)
    ]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _said(value: float) -> str:
    text = str(value) if isinstance(value, int) and abs(value) < 10**20 else f"{value:.15g}"
    return "not a number" if text == "nan" else text
