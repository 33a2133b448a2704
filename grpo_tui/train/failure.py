"""Say in one sentence why a run failed, from an exception and where it happened.

The first sentence is the cause and its place, not the last line of a traceback. Knows exceptions
and phases; the traceback itself goes to `train.log`.
"""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

LIMIT = 2_000
"""Characters kept of a message; the whole of it is in `train.log`."""


def describe(
    error: BaseException, phase: str, reward_function: str | None = None, sample: str = ""
) -> dict[str, Any]:
    """The error record of an attempt.

    Args:
        error: What was raised.
        phase: The phase it was raised in.
        reward_function: Name of the reward function that raised it, if one did.
        sample: The completion that made it raise, in words, if it was one.

    Returns:
        `{"type", "message", "cause"}`.
    """
    message = str(error).strip()[:LIMIT] or type(error).__name__
    first = message.splitlines()[0]
    place = _place(error)
    if reward_function is not None:
        cause = f"reward function '{reward_function}' failed{place}: {type(error).__name__}: {first}"
        cause += f", on {sample}" if sample else ""
    elif "out of memory" in message.lower():
        cause = f"out of memory while in phase {phase}: {first}"
    elif "probability tensor contains" in message:
        cause = (
            "the policy gives no valid probabilities any more (NaN or infinite logits): the update of "
            "the step before broke it. Resume from an earlier checkpoint with a lower learning rate"
        )
    elif isinstance(error, KeyError) and message.strip("'\"") == "prompt":
        cause = "the dataset has no column named prompt; map one with grpo_tui.columns"
    else:
        cause = f"{_DOING.get(phase, phase)} failed{place}: {type(error).__name__}: {first}"
    return {"type": type(error).__name__, "message": message, "cause": cause[:LIMIT]}


_DOING = {
    "load": "loading",
    "generate": "generating",
    "reward": "scoring",
    "update": "the update",
    "save": "saving",
    "eval": "evaluation",
}


def _place(error: BaseException) -> str:
    """` (file.py:12)` of the innermost frame in the user's own code, empty when there is none."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        own = "site-packages" not in path.parts and "grpo_tui" not in path.parts and path.suffix == ".py"
        if own and "lib" not in path.parts:
            return f" ({path.name}:{frame.lineno})"
    return ""
