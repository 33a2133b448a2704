"""Further calls of a function: which sample broke it, the other form, once more, what it swallows.

Each answers one question that the first call leaves open, on few samples and only when it is cheap. It judges
nothing: findings are made of the answers elsewhere.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any

from grpo_tui.rewards.contract import copied
from grpo_tui.rewards.culprit import guilty_samples
from grpo_tui.rewards.lab_child.calls import SMALL, Batch, Caller, Outcome, message_of

CULPRIT_LIMIT_S = 5.0
"""How long single completions are tried to find the one that breaks a function."""
SHAPE_ERRORS = (AttributeError, TypeError, KeyError, IndexError)
"""What code raises that takes lists for texts, or texts for lists."""
MOST_VARIED = 8
"""Samples of which others are made."""
_PASSING = (StopIteration, StopAsyncIteration, GeneratorExit)


def culprit(
    caller: Caller,
    target: Callable[..., Any],
    is_async: bool,
    error: BaseException,
    kwargs: Mapping[str, Any],
) -> int | None:
    """Return the index of the first sample that makes the function raise when it is alone."""
    if not isinstance(error, Exception):
        return None
    try:
        guilty = guilty_samples(
            lambda **alone: caller.run(target, is_async, alone), type(error), kwargs, CULPRIT_LIMIT_S
        )
    except BaseException:
        return None  # alone it fails in another way, so no one sample is to blame
    return guilty[0] if guilty else None


def other_shape(
    caller: Caller, name: str, target: Callable[..., Any], is_async: bool, batch: Batch, first: Outcome
) -> dict[str, Any] | None:
    """Say how the function takes the other form of completions, when its first answer makes one ask.

    A function that scores all completions of a prompt alike is called with others made of them: empty, short,
    long. If it tells those apart in the other form only, it takes lists for texts or texts for lists.
    """
    given = "messages" if batch.chat else "texts"
    if isinstance(first.error, SHAPE_ERRORS):
        other = caller.call(name, target, is_async, caller.arguments(batch.first(SMALL).flipped()))
        return {"given": given, "works": other.scores is not None, "varies": False}
    if first.scores is None or _tells_apart(first.scores, [_key(prompt) for prompt in batch.prompts]):
        return None
    tried, origins = batch.first(MOST_VARIED).varied()
    same = caller.call(name, target, is_async, caller.arguments(tried))
    if same.scores is None or _tells_apart(same.scores, origins):
        return None
    other = caller.call(name, target, is_async, caller.arguments(tried.flipped()))
    alike = {repr(score) for score in (*first.scores, *same.scores)}
    return {
        "given": given,
        "works": other.scores is not None,
        "varies": other.scores is not None and _tells_apart(other.scores, origins),
        "tried": len(first.scores) + len(origins) - min(len(batch.prompts), MOST_VARIED),
        "constant": same.scores[0] if len(alike) == 1 else None,
    }


def _tells_apart(scores: Sequence[float | None], origins: Sequence[Any]) -> bool:
    """Whether completions of one origin score differently."""
    first: dict[Any, str] = {}
    return any(
        first.setdefault(origin, repr(score)) != repr(score)
        for origin, score in zip(origins, scores, strict=True)
    )


def _key(prompt: Any) -> str:
    return prompt if isinstance(prompt, str) else repr(prompt)


def repeat(
    caller: Caller,
    name: str,
    target: Callable[..., Any],
    is_async: bool,
    kwargs: Mapping[str, Any],
    first: Outcome,
    fresh: Callable[[], Callable[..., Any]],
) -> dict[str, Any] | None:
    """Call once more with the same arguments, and when it differs twice with a fresh copy of the function."""
    count = len(first.scores or ())
    again = caller.call(name, target, is_async, copied(kwargs), count)
    if again.scores is None or first.scores is None:
        return None
    differs = [
        i for i, (a, b) in enumerate(zip(first.scores, again.scores, strict=True)) if repr(a) != repr(b)
    ]
    if not differs:
        return {"differs": [], "fresh_repeats": None}
    try:
        copy = fresh()
    except Exception:
        return {"differs": differs, "fresh_repeats": None}
    history = [caller.call(name, copy, is_async, copied(kwargs), count).scores for _ in range(2)]
    same = repr(history) == repr([first.scores, again.scores])
    return {"differs": differs, "fresh_repeats": same}


def swallowed(
    caller: Caller,
    name: str,
    target: Callable[..., Any],
    batch: Batch,
    ranges: Mapping[str, Sequence[tuple[int, int]]],
) -> list[dict[str, Any]]:
    """Return the exceptions that were raised within a `try` whose handler is broad, grouped by place.

    Args:
        caller: calls the function.
        name: its name.
        target: a function that is not async.
        batch: samples; few are enough.
        ranges: file to the first and last lines of the bodies of such `try` statements.
    """
    places: dict[int, tuple[BaseException, str, int]] = {}
    found: dict[tuple[str, str, int], tuple[str, set[int]]] = {}

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        file = frame.f_code.co_filename
        if file not in ranges:
            return None
        frame.f_trace_lines = False
        if event != "exception" or isinstance(argument[1], _PASSING):
            return trace
        error = argument[1] if isinstance(argument[1], BaseException) else argument[0](argument[1])
        _, inner_file, inner_line = places.setdefault(id(error), (error, file, frame.f_lineno))
        if any(first <= frame.f_lineno <= last for first, last in ranges[file]):
            key = (type(error).__name__, inner_file, inner_line)
            found.setdefault(key, (message_of(error)[:200], set()))[1].add(id(error))
        return trace

    kwargs = caller.arguments(batch.first(SMALL))
    sys.settrace(trace)
    try:
        caller.call(name, target, False, kwargs)
    finally:
        sys.settrace(None)
    return [
        {"type": kind, "message": message, "file": file, "line": line, "count": len(seen)}
        for (kind, file, line), (message, seen) in found.items()
    ]
