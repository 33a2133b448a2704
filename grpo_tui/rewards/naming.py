"""The name TRL logs a reward under, and how to give it another without changing what it does.

The rules are those of `get_callable_name` and `is_async_callable` in TRL 1.16. It loads nothing.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any


def callable_name(func: Callable[..., Any]) -> str:
    """Return the name TRL's metrics use: of the function inside a partial, or of an instance's class."""
    while isinstance(func, functools.partial):
        func = func.func
    return str(getattr(func, "__name__", type(func).__name__))


def is_async(func: Callable[..., Any]) -> bool:
    """Return whether calling it gives a coroutine, for functions, partials and callable instances."""
    while isinstance(func, functools.partial):
        func = func.func
    return inspect.iscoroutinefunction(func) or inspect.iscoroutinefunction(type(func).__call__)


def renamed(func: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a reward that TRL logs under `name`: itself when it has that name, else a thin wrapper.

    The wrapper keeps the signature, and an async reward stays a coroutine function.
    """
    if callable_name(func) == name:
        return func
    if is_async(func):

        async def call_async(*args: Any, **kwargs: Any) -> Any:
            return await func(*args, **kwargs)

        wrapper: Callable[..., Any] = call_async
    else:

        def call(*args: Any, **kwargs: Any) -> Any:
            return func(*args, **kwargs)

        wrapper = call
    functools.update_wrapper(wrapper, func, assigned=("__module__", "__doc__"), updated=())
    wrapper.__name__ = name
    return wrapper
