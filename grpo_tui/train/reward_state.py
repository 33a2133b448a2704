"""Keep what reward objects have learned with the checkpoints, and give it back to a resumed run.

A reward takes part by having `state_dict()` and `load_state_dict(state)`, as the library's `AdaptiveWeight`
does; the state is what torch can pickle. Reward models are not meant: TRL does not train them.
"""

from __future__ import annotations

import inspect
from collections import defaultdict, deque
from collections.abc import Sequence
from typing import Any


def reward_states(names: Sequence[str], functions: Sequence[Any]) -> list[tuple[str, Any]]:
    """Name and state of each reward function that keeps one, in TRL's order."""
    return [
        (name, reward.state_dict())
        for name, function in zip(names, functions, strict=True)
        if (reward := _with_state(function)) is not None
    ]


def restore_reward_states(
    names: Sequence[str], functions: Sequence[Any], states: Sequence[tuple[str, Any]]
) -> None:
    """Give states back to the functions they came from; a function that was added since keeps its own.

    A resume may name other functions, or the same in another order, so a state goes by its function's name;
    of several functions of one name the first takes the first state.
    """
    waiting: dict[str, deque[Any]] = defaultdict(deque)
    for name, state in states:
        waiting[name].append(state)
    for name, function in zip(names, functions, strict=True):
        reward = _with_state(function)
        if reward is not None and waiting[name]:
            reward.load_state_dict(waiting[name].popleft())


def _with_state(function: Any) -> Any:
    """The reward object inside the wrappers, when it keeps a state."""
    import torch

    reward = inspect.unwrap(function) if callable(function) else function
    if isinstance(reward, torch.nn.Module):
        return None
    has = all(callable(getattr(reward, name, None)) for name in ("state_dict", "load_state_dict"))
    return reward if has else None
