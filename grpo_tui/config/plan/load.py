"""Everything the memory of one device depends on, and how its sums are written.

Knows no formula.
"""

from __future__ import annotations

from dataclasses import dataclass

from grpo_tui.config.plan.arithmetic import Batches
from grpo_tui.config.plan.memory_plan import Device
from grpo_tui.config.plan.model_shape import ModelShape
from grpo_tui.config.plan.settings import PlanSettings
from grpo_tui.config.plan.sharding import Sharding
from grpo_tui.config.plan.trained import Trained


@dataclass(frozen=True, slots=True)
class Load:
    """Everything a part's size depends on.

    Attributes:
        settings: the config.
        shape: sizes of the model.
        trained: what is trained of it.
        batches: batch sizes.
        sharding: how the model is spread.
        prompt: tokens of the longest prompt.
        completion: tokens of a completion at most.
        device: where it runs, None when that is open.
    """

    settings: PlanSettings
    shape: ModelShape
    trained: Trained
    batches: Batches
    sharding: Sharding
    prompt: int
    completion: int
    device: Device | None = None

    @property
    def length(self) -> int:
        """Tokens of a whole sequence."""
        return self.prompt + self.completion

    @property
    def on_cpu(self) -> bool:
        """Whether it runs without a GPU."""
        return self.settings.flag("use_cpu") or (self.device is not None and self.device.kind == "cpu")


def gigabytes(size: float) -> str:
    """Bytes as a person says them in a sum."""
    return f"{size / 1e9:.2f} GB"


def short_count(parameters: int) -> str:
    """Parameters as a person says them: `1.54B`."""
    for unit, scale in (("B", 1e9), ("M", 1e6), ("k", 1e3)):
        if parameters >= scale:
            return f"{parameters / scale:.3g}{unit}"
    return str(parameters)
