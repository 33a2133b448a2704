"""Commands to a run and their outcomes.

A command is idempotent and ends in exactly one outcome.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

END = "end_stage"
"""Kind of the command that ends a stage early. Its argument `stage` is the place of that stage, from 0."""

CONTROLLER_KINDS = frozenset(
    {"pause", "resume", "checkpoint", "stop", "sample", "evaluate", "tokens", "set", "undo", "reload", END}
)
"""Handled by the training process at its safe point."""

SUPERVISOR_KINDS = frozenset({"abort_reward", "stop_now"})
"""Handled by the supervisor, because the trainer may be stuck."""

REWARDS = "rewards"
"""Name under which reloaded reward functions are recorded among the changed settings."""

BESIDE = frozenset({"yes", "because", "schedule"})
"""Arguments of `set` that are not settings to change at once: consent to a large change, the reason, and
changes for later steps, as step → name → value.
"""

REPLAYED = "This is a replay, so nothing is changed. To change the run, open it in Runs."
"""Why a command is refused while a run is shown as it was."""

OF_THE_MOMENT = {"tokens": frozenset({"group", "index"})}
"""Kinds with large arguments and results, with the arguments that the history keeps. It drops their results.
"""


BY_COMPARISON, BY_CHAT = "compare", "chat"
"""Who asks for the samples of a comparison and for the answers of a chat. The history leaves them out."""


@dataclass(frozen=True, slots=True)
class Command:
    """One request to a run, as stored in the run folder."""

    id: str
    kind: str
    args: Mapping[str, Any] = field(default_factory=dict)
    at: float = 0.0
    by: str = "you"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a command."""

    applied: bool
    """False when the command was rejected for `reason`."""
    step: int
    """Optimizer step at which the command was handled."""
    reason: str = ""
    result: Mapping[str, Any] = field(default_factory=dict)
    """Output of the command, such as sampled completions or a checkpoint's path."""
    at: float = 0.0
