"""The values a plan is made from: what a config says, else TRL's default, as numbers.

A config that is being written may hold anything, so what does not fit its field gives the default; telling it
is the business of the checks. Knows keys and defaults, not what they mean together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from grpo_tui.config.run_config import RunConfig
from grpo_tui.config.trl_fields import NoDefault, load_fields
from grpo_tui.core.statistics import is_number

OPTIM = "adamw_torch_fused"
"""The optimizer of transformers 5 with torch 2.8 and later, which its source computes at import time."""


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """What a config sets.

    Attributes:
        grpo: GRPOConfig arguments that are set.
        model_args: ModelConfig arguments that are set.
        model: Hub id or folder of the model, empty when there is none yet.
        streaming: whether the rows come as a stream, so that nobody knows how many there are.
    """

    grpo: Mapping[str, Any]
    model_args: Mapping[str, Any]
    model: str = ""
    streaming: bool = False

    @classmethod
    def of(cls, config: RunConfig) -> PlanSettings:
        """The settings of a checked config."""
        streaming = bool(config.script.get("dataset_streaming") or config.mixture.get("streaming"))
        return cls(config.grpo, config.model_args, config.model, streaming)

    def __call__(self, name: str) -> Any:
        """The value of a field, its default when it is not set; None when that is computed or not there."""
        for part in (self.grpo, self.model_args):
            if name in part:
                return part[name]
        return _default(name)

    def whole(self, name: str, least: int = 1) -> int:
        """A whole number of at least `least`; the default when the config says something else."""
        for value in (self(name), _default(name), least):
            if is_number(value) and int(value) >= least:
                return int(value)
        return least

    def optional(self, name: str) -> int | None:
        """A whole number from 1, None when it is not set."""
        value = self(name)
        return int(value) if is_number(value) and value >= 1 else None

    def number(self, name: str) -> float:
        """A finite number; the default, else 0, when the config says something else."""
        for value in (self(name), _default(name)):
            if is_number(value):
                return float(value)
        return 0.0

    def flag(self, name: str) -> bool:
        """A truth value."""
        return self(name) is True

    @property
    def checkpointing(self) -> bool:
        """Whether layers are computed again in the backward pass.

        `gradient_checkpointing` is the older name of `activation_checkpointing`, read where the newer one is
        not set (`TrainingArguments.__post_init__`); FSDP has a switch of its own.
        """
        newer, fsdp = self("activation_checkpointing"), self("fsdp_config")
        given = fsdp if self("fsdp") and isinstance(fsdp, Mapping) else {}
        own = given.get("activation_checkpointing") or given.get("fsdp_activation_checkpointing")
        return bool(own) or (self("gradient_checkpointing") if newer is None else newer) is True

    @property
    def optim(self) -> str:
        """The optimizer's name."""
        return str(self("optim") or OPTIM)

    @property
    def dtype(self) -> str:
        """The dtype the weights are loaded in, `auto` when the model decides.

        `model_init_kwargs` wins over `dtype` (trl/scripts/grpo.py).
        """
        inner = self("model_init_kwargs")
        asked = inner.get("dtype") if isinstance(inner, Mapping) else None
        return str(asked or self("dtype") or "auto").removeprefix("torch.")

    @property
    def autocast(self) -> str | None:
        """The dtype matrix products run in when it is not that of the weights, None for none.

        TRL switches `bf16` on unless `fp16` is (trl/trainer/base_config.py).
        """
        if self.flag("fp16"):
            return "float16"
        return "bfloat16" if self("bf16") in (True, None) else None


def _default(name: str) -> Any:
    """What TRL takes, None where it is computed or where what is installed is older than the field."""
    field = load_fields().get(name)
    return None if field is None or isinstance(field.default, NoDefault) else field.default
