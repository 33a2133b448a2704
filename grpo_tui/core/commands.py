"""What a person can ask of a run, and what became of it.

Commands are directives: idempotent, each ended by exactly one outcome.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

CONTROLLER_KINDS = frozenset({"pause", "resume", "checkpoint", "stop", "sample", "tokens", "set"})
"""Served by the training process at its safe point."""

SUPERVISOR_KINDS = frozenset({"abort_reward", "stop_now"})
"""Served out of band by the supervisor, because the trainer may not be listening."""

OF_THE_MOMENT = {"tokens": frozenset({"group", "index"})}
"""Kinds with large arguments and results that the history does without, and the arguments that it keeps."""


@dataclass(frozen=True, slots=True)
class Command:
    """One request, as it lies in the run folder."""

    id: str
    kind: str
    args: Mapping[str, Any] = field(default_factory=dict)
    at: float = 0.0
    by: str = "you"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a command."""

    applied: bool
    """False when it was refused; `reason` then says why."""
    step: int
    """Optimizer step at which it was decided."""
    reason: str = ""
    result: Mapping[str, Any] = field(default_factory=dict)
    """What the command produced, such as sampled completions or a checkpoint's path."""
    at: float = 0.0
