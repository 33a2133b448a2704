"""The demonstration's reward at the pace of a judge, for runs that live on while a test looks at them.

A run of the shipped model otherwise takes a whole core, from its test and from all others.
"""

from __future__ import annotations

import time
from typing import Any

from grpo_tui.demo import rewards

STEP_S = 0.2


def correctness(**kwargs: Any) -> list[float]:
    """Return what the demonstration's reward of this name does, somewhat later."""
    time.sleep(STEP_S)
    return rewards.correctness(**kwargs)
