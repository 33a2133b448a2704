"""What each process holds of weights, gradients and optimizer states under DDP, ZeRO and FSDP.

Source: Rajbhandari et al. 2020, "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models",
section 5: stage 1 divides the optimizer states, stage 2 the gradients too, stage 3 the weights too; FSDP's
full shard is stage 3. Knows the keys of DeepSpeed's and accelerate's files, not how they are run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from grpo_tui.config.plan.settings import PlanSettings
from grpo_tui.core.statistics import is_number

Kind = Literal["none", "ddp", "zero1", "zero2", "zero3", "fsdp"]


@dataclass(frozen=True, slots=True)
class Sharding:
    """How a model is spread.

    Attributes:
        kind: `none` on one process, else the method.
        world_size: processes.
        offloads_optimizer: whether optimizer states lie in the host's memory.
        offloads_weights: whether weights do.
    """

    kind: Kind = "none"
    world_size: int = 1
    offloads_optimizer: bool = False
    offloads_weights: bool = False

    @property
    def deepspeed(self) -> bool:
        """Whether DeepSpeed holds the optimizer, with float32 master weights of its own."""
        return self.kind.startswith("zero")

    @property
    def weights(self) -> float:
        """The share of the weights that one process holds."""
        return 1 / self.world_size if self.kind in ("zero3", "fsdp") else 1.0

    @property
    def gradients(self) -> float:
        """The share of the gradients."""
        return 1 / self.world_size if self.kind in ("zero2", "zero3", "fsdp") else 1.0

    @property
    def states(self) -> float:
        """The share of the optimizer states."""
        return 1 / self.world_size if self.deepspeed or self.kind == "fsdp" else 1.0


def read_sharding(
    settings: PlanSettings, world_size: int, accelerate: Mapping[str, Any] | None = None
) -> Sharding:
    """How a config, and the accelerate config of its launcher, spread the model.

    Args:
        settings: the config; its `deepspeed` and `fsdp` come first.
        world_size: processes.
        accelerate: the body of accelerate's config file, None without one.
    """
    deepspeed = _body(settings("deepspeed"))
    if deepspeed is not None:
        zero = deepspeed.get("zero_optimization")
        return _zero(zero if isinstance(zero, Mapping) else {}, "stage", world_size)
    file = accelerate or {}
    if str(file.get("distributed_type", "")).upper() == "DEEPSPEED":
        inner = file.get("deepspeed_config")
        inner = inner if isinstance(inner, Mapping) else {}
        named = _body(inner.get("deepspeed_config_file"))
        if named is not None:
            zero = named.get("zero_optimization")
            return _zero(zero if isinstance(zero, Mapping) else {}, "stage", world_size)
        return _zero(inner, "zero_stage", world_size)
    if settings("fsdp") or str(file.get("distributed_type", "")).upper() == "FSDP":
        return Sharding("fsdp", world_size)
    return Sharding("ddp" if world_size > 1 else "none", world_size)


def _body(value: Any) -> Mapping[str, Any] | None:
    """A DeepSpeed config that is given as such, as JSON text or as a file."""
    if not value:
        return None
    if isinstance(value, Mapping):
        return value
    try:
        text = str(value)
        found = json.loads(text if text.lstrip().startswith("{") else Path(text).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _zero(body: Mapping[str, Any], key: str, world_size: int) -> Sharding:
    stage: Any = body.get(key)
    if stage == "auto" or not is_number(stage):
        stage = 2 if key == "zero_stage" else 0
    kinds: dict[int, Kind] = {1: "zero1", 2: "zero2", 3: "zero3"}
    kind = kinds.get(int(stage), "ddp" if world_size > 1 else "none")
    return Sharding(
        kind,
        world_size,
        offloads_optimizer=_offloads(body, "offload_optimizer"),
        offloads_weights=_offloads(body, "offload_param"),
    )


def _offloads(body: Mapping[str, Any], name: str) -> bool:
    inner = body.get(name)
    if isinstance(inner, Mapping):
        return str(inner.get("device", "none")) != "none"
    return str(body.get(f"{name}_device", "none")) not in ("none", "None", "")
