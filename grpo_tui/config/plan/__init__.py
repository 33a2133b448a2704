"""What a config comes to before it runs: prompts, steps, memory, hours, disk.

`plan(config, Surroundings(…))` gives a frozen `Plan`. Standard library only; nothing here touches the model,
the data or a GPU.
"""

from __future__ import annotations

from grpo_tui.config.plan.making import Plan, Surroundings, plan
from grpo_tui.config.plan.memory_plan import Device, MemoryPart, MemoryPlan
from grpo_tui.config.plan.model_shape import ModelShape, read_shape
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
