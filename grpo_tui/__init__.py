"""A terminal workbench for GRPO with TRL.

This module knows the version and the one line by which a training script joins; both front ends, and all heavy
imports, lie behind it and are loaded only when they are asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__version__ = "0.1.0"

__all__ = ["__version__", "monitor"]

_LAZY = {"monitor": "grpo_tui.train"}


def __getattr__(name: str) -> Any:
    """Load `monitor` on first use, for it imports TRL.

    Raises:
        AttributeError: The package has no such name.
    """
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)


if TYPE_CHECKING:
    monitor: Callable[..., Any]
