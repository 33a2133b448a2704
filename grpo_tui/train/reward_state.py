"""Keep what reward objects have learned with the checkpoints, and give it back to a resumed run.

A reward takes part by having `state_dict()` and `load_state_dict(state)`, as the library's `AdaptiveWeight`
does; the state is what torch can pickle. Reward models are not meant: TRL does not train them.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any


def reward_states(functions: Sequence[Any]) -> list[Any]:
    """The state of each reward function in TRL's order, None for those without one."""
    return [
        None if (reward := _with_state(function)) is None else reward.state_dict() for function in functions
    ]


def restore_reward_states(functions: Sequence[Any], states: Sequence[Any] | None) -> None:
    """Give states back to the functions they came from; a function that was added since keeps its own."""
    for function, state in zip(functions, states or (), strict=False):
        reward = _with_state(function)
        if reward is not None and state is not None:
            reward.load_state_dict(state)


def _with_state(function: Any) -> Any:
    """The reward object inside the wrappers, when it keeps a state."""
    import torch

    reward = inspect.unwrap(function) if callable(function) else function
    if isinstance(reward, torch.nn.Module):
        return None
    has = all(callable(getattr(reward, name, None)) for name in ("state_dict", "load_state_dict"))
    return reward if has else None
