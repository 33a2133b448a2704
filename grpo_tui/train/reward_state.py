"""Keep what reward objects have learned with the checkpoints, and give it back to a resumed run.

A reward takes part by having `state_dict()` and `load_state_dict(state)`, as the library's `AdaptiveWeight`
does. A state is plain data and tensors, because a checkpoint is loaded without running anything in it. Reward
models are not meant: TRL does not train them.
"""

from __future__ import annotations

import inspect
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any


class NotPlain(ValueError):
    """A value is not plain data; the message says where and what it is."""


def plain_state(value: Any, where: str = "") -> Any:
    """Return a value as plain containers, values and tensors, which `weights_only=True` loads.

    Raises:
        NotPlain: It holds something else.
    """
    import torch

    if value is None or type(value) in (bool, int, float, str, bytes, torch.Tensor):
        return value
    if isinstance(value, torch.nn.Parameter):
        return value.detach()
    if isinstance(value, Mapping):
        return {
            plain_state(key, where): plain_state(item, f"{where}[{key!r}]") for key, item in value.items()
        }
    if isinstance(value, list | tuple | deque):
        items = [plain_state(item, f"{where}[{index}]") for index, item in enumerate(value)]
        return tuple(items) if isinstance(value, tuple) else items
    if not isinstance(value, torch.Tensor) and getattr(value, "shape", None) == () and hasattr(value, "item"):
        return plain_state(value.item(), where)  # a number of numpy
    raise NotPlain(f"{where or 'it'} is {type(value).__module__}.{type(value).__qualname__}")


def reward_states(names: Sequence[str], functions: Sequence[Any]) -> list[tuple[str, Any]]:
    """Name and state of each reward function that keeps one, in TRL's order."""
    return [
        (name, reward.state_dict())
        for name, function in zip(names, functions, strict=True)
        if (reward := _with_state(function)) is not None
    ]


def plain_states(states: Sequence[tuple[str, Any]], say: Callable[[str], None]) -> list[tuple[str, Any]]:
    """Return the states that a checkpoint can keep; `say` hears which cannot be kept, and why."""
    found = []
    for name, state in states:
        try:
            found.append((name, plain_state(state)))
        except NotPlain as error:
            say(
                f"checkpoints leave out the state of reward function {name}, so a resume starts without it: "
                f"{error}. Return numbers, text, lists, dicts and tensors from state_dict()"
            )
    return found


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
