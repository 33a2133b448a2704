"""Explain in one sentence why a run failed, from an exception and where it was raised.

The sentence names the cause and its place, not the last line of a traceback.
"""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

from grpo_tui.core.text import one_line
from grpo_tui.core.user_code import cut_short
from grpo_tui.supervisor.ports import port_trouble

LIMIT = 2_000
"""Characters kept of a message. `train.log` has all of it."""
SENTENCE = 400
BRIEF = 150


class NoStepError(RuntimeError):
    """Training ended without a step, which TRL treats as success."""


def message_of(error: BaseException) -> str:
    """Return an exception's message. The `__str__` of a user's class may itself raise."""
    try:
        return str(error)
    except Exception:
        return f"a {type(error).__name__} that cannot be shown"


def of_ours(error: BaseException) -> bool:
    """Return whether this program raised the exception, so that its text is already written for the user."""
    return type(error).__module__.startswith("grpo_tui.")


def describe(
    error: BaseException, phase: str, reward_function: str | None = None, sample: str = ""
) -> dict[str, Any]:
    """Return the error record of an attempt.

    Args:
        reward_function: Name of the reward function that raised, if one did.
        sample: Description of the single completion that made it raise, if there is one.

    Returns:
        `{"type", "message", "cause"}`.
    """
    said = message_of(error).strip()[:LIMIT]
    message = said or type(error).__name__
    lines = message.splitlines()
    # "Error(s) in loading state_dict for Model:" means nothing without the next line.
    first = " ".join(line.strip() for line in lines[:2]) if lines[0].rstrip().endswith(":") else lines[0]
    if len(first) > SENTENCE:
        first = f"{first[:SENTENCE]}…"
    named = _named(error, first if said else "")
    place = _place(error)
    if reward_function is not None:
        cause = f"reward function '{reward_function}' failed{place}: {named}"
        cause += f", on {sample}" if sample else ""
    elif of_ours(error):
        cause = message
    elif incomplete := cut_short(error):
        cause = incomplete
    elif trouble := port_trouble(message):
        cause = f"{_DOING.get(phase, phase)} failed: {trouble}"
    else:
        known = next((sentence for words, sentence in KNOWN if words in message.lower()), None)
        cause = known or f"{_DOING.get(phase, phase)} failed{place}: {named}"
        cause = cause.format(phase=phase, first=first) if known else cause
    return {"type": type(error).__name__, "message": message, "cause": cause[:LIMIT]}


_INVALID = (
    "the policy no longer gives valid probabilities (NaN or infinite logits): the previous update broke it. "
    "Resume from an earlier checkpoint with a lower learning rate"
)
_NO_MODEL = (
    "a model or tokenizer could not be fetched ({first}). Give a local folder as model_name_or_path, or "
    "fetch it once where there is a network"
)
_NO_DATASET = (
    "a dataset could not be fetched ({first}). Give a file with grpo_tui.dataset, or fetch it once where "
    "there is a network"
)
_NO_VLLM = "use_vllm is on but vLLM is not installed. `pip install 'grpo-tui[vllm]'`, or set use_vllm: false"
_SEVERAL_GPUS = (
    "several GPUs are visible to one process. Set CUDA_VISIBLE_DEVICES to one of them, or start a rank per "
    'GPU with --launcher "accelerate launch --num_processes N"'
)
KNOWN = (
    ("out of memory", "out of memory while in phase {phase}: {first}"),
    ("probability tensor contains", _INVALID),
    ("couldn't connect to", _NO_MODEL),
    ("on the hub (", _NO_DATASET),
    ("vllm is not available", _NO_VLLM),
    ("nn.dataparallel", _SEVERAL_GPUS),
)
"""Lower-case text in a message to the sentence shown to the user instead."""

_DOING = {
    "load": "loading",
    "generate": "generating",
    "reward": "scoring",
    "update": "the update",
    "save": "saving",
    "eval": "evaluation",
}


def _named(error: BaseException, first: str) -> str:
    """Name an exception: its class, the first line of its message, and its root cause."""
    behind = _root(error)
    if isinstance(behind, MemoryError):
        return f"MemoryError: the process ran out of memory{f' ({first})' if first else ''}"
    name = type(error).__name__
    said = f"{name}: {first}" if first else f"{name}, without a message"
    if isinstance(error, BaseExceptionGroup):
        return f"{said}, the first of them {_briefly(error.exceptions[0])}"
    return said if behind is error else f"{said} (because of {_briefly(behind)})"


def _root(error: BaseException) -> BaseException:
    """Follow `__cause__` to the first exception, which lazy imports wrap."""
    seen = {id(error)}
    while error.__cause__ is not None and id(error.__cause__) not in seen:
        error = error.__cause__
        seen.add(id(error))
    return error


def _briefly(error: BaseException) -> str:
    said = one_line(message_of(error), BRIEF)
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def _place(error: BaseException) -> str:
    """Return ` (file.py:12)` of the innermost frame in the user's code, or an empty string."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        ours = "grpo_tui" in path.parts and "demo" not in path.parts  # the demo counts as the user's code
        installed = "site-packages" in path.parts or "lib" in path.parts
        if path.suffix == ".py" and not ours and (not installed or "demo" in path.parts):
            return f" ({path.name}:{frame.lineno})"
    return ""
