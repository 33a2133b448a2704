"""Which numbers a field can take: what TRL would refuse late, or take and then train on nothing.

A dataclass checks no range, so a temperature of 0 fails in the first step and `max_steps: 0` trains one step
and calls it a success. It knows single values; sizes that must fit each other are `batch`'s business.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grpo_tui.config.section import Section
from grpo_tui.config.trl_fields import FieldInfo, NoDefault
from grpo_tui.config.yaml_lines import YamlDocument
from grpo_tui.core.findings import Finding, Fix


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers from `least` to `most`; `above` leaves `least` itself out, `below` `most`.

    `also` lets single ones in.
    `meaning` says what is wrong with the others, after "must be … ; it is …".
    """

    least: float
    most: float = math.inf
    above: bool = False
    also: tuple[float, ...] = ()
    meaning: str = ""
    infinite: bool = False
    below: bool = False

    def holds(self, value: float) -> bool:
        """True when the value can be used."""
        if value in self.also:
            return True
        if math.isnan(value) or (math.isinf(value) and not self.infinite):
            return False
        if (self.above and value == self.least) or (self.below and value == self.most):
            return False
        return self.least <= value <= self.most

    def words(self) -> str:
        """The range as a person says it."""
        low = f"above {self.least:g}" if self.above else f"{self.least:g} or more"
        if math.isfinite(self.most):
            low = (
                f"{'above' if self.above else 'from'} {self.least:g} {'and at most' if self.above else 'to'} "
            )
            low += "below " * self.below + (f"{self.most:g}" if self.most < 1e6 else f"{int(self.most)}")
        return low + "".join(f", or {number:g}" for number in self.also)


_AT_LEAST_ONE = Range(1)
_NOT_NEGATIVE = Range(0)
_ABOVE_ZERO = Range(0, above=True)
_SHARE = Range(0, 1)
_DECAY = Range(0, 1, below=True)
_SEED = Range(0, 2**32 - 1)

RANGES: Mapping[str, Range] = {
    "max_steps": Range(1, also=(-1,), meaning="-1 trains num_train_epochs epochs"),
    "num_train_epochs": _ABOVE_ZERO,
    "learning_rate": _NOT_NEGATIVE,
    "weight_decay": _NOT_NEGATIVE,
    "max_grad_norm": Range(0, infinite=True),
    "warmup_steps": _NOT_NEGATIVE,
    "adam_beta1": _DECAY,
    "adam_beta2": _DECAY,
    "adam_epsilon": _NOT_NEGATIVE,
    "seed": _SEED,
    "data_seed": _SEED,
    "logging_steps": _ABOVE_ZERO,
    "save_steps": _ABOVE_ZERO,
    "eval_steps": _ABOVE_ZERO,
    "max_completion_length": _AT_LEAST_ONE,
    "num_iterations": _AT_LEAST_ONE,
    "beta": _NOT_NEGATIVE,
    "epsilon": _NOT_NEGATIVE,
    "epsilon_high": _NOT_NEGATIVE,
    "delta": _ABOVE_ZERO,
    "temperature": Range(0.01, 100, meaning="beyond that the probabilities are no numbers any more"),
    "top_p": Range(0, 1, above=True),
    "top_k": Range(0, also=(-1,)),
    "min_p": _SHARE,
    "repetition_penalty": _ABOVE_ZERO,
    "top_entropy_quantile": Range(0, 1, above=True),
    "dataloader_num_workers": _NOT_NEGATIVE,
    "dataloader_prefetch_factor": _AT_LEAST_ONE,
    "vllm_gpu_memory_utilization": Range(0, 1, above=True),
    "lora_r": _AT_LEAST_ONE,
    "lora_alpha": _AT_LEAST_ONE,
    "lora_dropout": Range(0, 1, below=True),
}

_STRATEGIES = {
    "logging_steps": "logging_strategy",
    "save_steps": "save_strategy",
    "eval_steps": "eval_strategy",
}


def range_findings(
    parts: Mapping[str, Mapping[str, Any]],
    section: Section,
    document: YamlDocument,
    fields: Mapping[str, FieldInfo],
) -> list[Finding]:
    """Return an error for every number that its field cannot take.

    Args:
        parts: coerced arguments by dataclass.
        section: the section `grpo_tui:`, for the weights of its rewards.
        document: the file, for lines.
        fields: all fields of TRL, for the defaults that are offered.
    """
    found = []
    grpo = parts["GRPOConfig"]
    for arguments in parts.values():
        for name, value in arguments.items():
            allowed = RANGES.get(name)
            if name in _STRATEGIES and str(grpo.get(_STRATEGIES[name], "steps")) != "steps":
                continue  # without its strategy nothing reads it
            if allowed is not None and _is_number(value) and not allowed.holds(value):
                found.append(_finding(name, value, allowed, document.line(name), fields[name]))
    return found + _weight_findings(parts, section, document)


def _finding(name: str, value: float, allowed: Range, line: int | None, info: FieldInfo) -> Finding:
    meaning = f" ({allowed.meaning})" if allowed.meaning else ""
    default = None if isinstance(info.default, NoDefault) else info.default
    usable = default is not None and _is_number(default) and allowed.holds(default)
    fix = Fix(name, default) if usable else None
    text = f"{name} must be {allowed.words()}{meaning}; it is {_said(value)}"
    return Finding("config.range", "error", name, line, text, fix)


def _weight_findings(
    parts: Mapping[str, Mapping[str, Any]], section: Section, document: YamlDocument
) -> list[Finding]:
    weights: Sequence[float] = parts["GRPOConfig"].get("reward_weights") or ()
    places: list[tuple[str, float, int | None]] = [
        ("reward_weights", weight, document.line("reward_weights")) for weight in weights
    ]
    for index, entry in enumerate(section.rewards):
        if entry.weight is not None:
            path = ("grpo_tui", "rewards", index, "weight")
            places.append((".".join(map(str, path)), entry.weight, document.line(*path)))
    return [
        Finding(
            "config.range",
            "error",
            name,
            line,
            f"{name} must be finite; it is {_said(weight)}",
            Fix(name, [w if math.isfinite(w) else 1.0 for w in weights] if name == "reward_weights" else 1.0),
        )
        for name, weight, line in places
        if not math.isfinite(weight)
    ]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _said(value: float) -> str:
    text = f"{value}" if not isinstance(value, int) or abs(value) < 10**20 else f"{float(value):g}"
    return "not a number" if text == "nan" else text
