"""Estimate a run before it starts: prompts, steps, memory, hours, disk.

`plan(settings, Surroundings(…))` returns a frozen `Plan`. Model, data and GPU are not touched.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grpo_tui.config.plan.making import Plan, Surroundings, plan
    from grpo_tui.config.plan.memory import Device, MemoryPart, MemoryPlan
    from grpo_tui.config.plan.model import ModelShape, read_shape
    from grpo_tui.config.plan.time import Duration, Rate

__all__ = [
    "Device",
    "Duration",
    "MemoryPart",
    "MemoryPlan",
    "ModelShape",
    "Plan",
    "Rate",
    "Surroundings",
    "plan",
    "read_shape",
]

_HOMES = {
    "making": ("Plan", "Surroundings", "plan"),
    "memory": ("Device", "MemoryPart", "MemoryPlan"),
    "model": ("ModelShape", "read_shape"),
    "time": ("Duration", "Rate"),
}


def __getattr__(name: str) -> Any:
    # Imported lazily, as in `grpo_tui.config`.
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__} has no attribute {name}")
