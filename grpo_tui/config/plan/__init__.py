"""What a config comes to before it runs: prompts, steps, memory, hours, disk.

`plan(config, Surroundings(…))` gives a frozen `Plan`. Standard library only; nothing here touches the model,
the data or a GPU.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grpo_tui.config.plan.making import Plan, Surroundings, plan
    from grpo_tui.config.plan.memory import Device, MemoryPart, MemoryPlan
    from grpo_tui.config.plan.model import ModelShape, read_shape
    from grpo_tui.config.plan.settings import PlanSettings
    from grpo_tui.config.plan.time import Duration, Rate

__all__ = [
    "Device",
    "Duration",
    "MemoryPart",
    "MemoryPlan",
    "ModelShape",
    "Plan",
    "PlanSettings",
    "Rate",
    "Surroundings",
    "plan",
    "read_shape",
]

_HOMES = {
    "settings": ("PlanSettings",),
    "making": ("Plan", "Surroundings", "plan"),
    "memory": ("Device", "MemoryPart", "MemoryPlan"),
    "model": ("ModelShape", "read_shape"),
    "time": ("Duration", "Rate"),
}


def __getattr__(name: str) -> Any:
    # Only when asked for: of a package whose first file imports its parts, two threads that first import
    # different parts at once may find one half made.
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__} has no attribute {name}")
