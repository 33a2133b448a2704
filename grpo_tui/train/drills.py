"""Break one thing on purpose in the trial of a drill: a reward call that hangs, a NaN gradient.

A hang must occur inside the user's own code, because only its own `except:` can stop an abort. It is injected
by tracing the call. Their files are not touched.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import functools
import itertools
import sys
import time
from collections.abc import Callable, Coroutine, Generator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType, coroutine
from typing import Any

from transformers import TrainerCallback

from grpo_tui.rewards.loading import LoadedReward, is_async, renamed
from grpo_tui.store.trials import DRILL_FACT
from grpo_tui.train.session import Session

POISONED_STEP = 2
FOREVER_S = 3600.0


def hanging(rewards: Sequence[LoadedReward], session: Session) -> list[LoadedReward]:
    """Return the rewards so that in each batch after the first one more function hangs, once."""
    count = sum(callable(reward.func) for reward in rewards)
    session.fact(DRILL_FACT, {"turn": 0 if count else 1, "of": count})
    turns = itertools.count(1)
    usual_s: dict[str, float] = {}

    def wrapped(reward: LoadedReward) -> LoadedReward:
        turn = next(turns)

        def tell(place: str = "") -> None:
            told = {"turn": turn, "of": count, "function": reward.name}
            session.fact(DRILL_FACT, told | {"place": place, "usual_s": usual_s})

        return replace(reward, func=_hanging(reward, turn, tell, usual_s))

    return [wrapped(reward) if callable(reward.func) else reward for reward in rewards]


def _hanging(
    reward: LoadedReward, turn: int, tell: Callable[..., None], usual_s: dict[str, float]
) -> Callable[..., Any]:
    """Return the function so that it hangs in its call number `turn`, counted from 0."""
    func: Any = reward.func
    calls = itertools.count()

    @contextlib.contextmanager
    def timed() -> Iterator[None]:
        start = time.perf_counter()
        yield
        usual_s[reward.name] = time.perf_counter() - start

    def call(*args: Any, **kwargs: Any) -> Any:
        if next(calls) == turn:
            folder = Path(reward.origin_file or "").parent
            return _hung_inside(functools.partial(func, *args, **kwargs), folder, tell)
        with timed():
            return func(*args, **kwargs)

    async def call_async(*args: Any, **kwargs: Any) -> Any:
        if next(calls) == turn:
            tell()
            return await _never(func(*args, **kwargs))
        with timed():
            return await func(*args, **kwargs)

    wrapper = call_async if is_async(func) else call
    functools.update_wrapper(wrapper, func)
    return renamed(wrapper, reward.name)


def _hung_inside(func: Callable[[], Any], folder: Path, tell: Callable[..., None]) -> Any:
    """Hang where code of the folder would catch an abort, else at the end of the call."""
    hung = False

    def line_of(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal hung
        file = frame.f_code.co_filename
        caught_at = _caught(file).get(frame.f_lineno) if event == "line" else None
        if caught_at is not None and not hung:
            hung = True
            tell(f"{Path(file).name}:{caught_at}")
            _hang()
        return line_of

    before = sys.gettrace()
    sys.settrace(lambda frame, *_: line_of if Path(frame.f_code.co_filename).parent == folder else None)
    try:
        result = func()
    finally:
        sys.settrace(before)
    if not hung:
        tell()
        _hang()
    return result


def _hang() -> None:
    while True:
        time.sleep(FOREVER_S)


@coroutine
def _never(call: Coroutine[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """Run an async call whose first `await`, and each one after a swallowed abort, never returns."""
    try:
        call.send(None)
        while True:
            try:
                yield from asyncio.sleep(FOREVER_S).__await__()
            except BaseException as error:
                call.throw(error)
    except StopIteration as end:
        return end.value


@functools.cache
def _caught(file: str) -> dict[int, int]:
    """Return the lines of a file inside a `try` that catches an abort, each with the line of the `except`."""
    try:
        tree = ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return {}
    found = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Try):
            continue
        for handler in node.handlers:
            kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
            catches = any(kind is None or ast.unparse(kind) == "BaseException" for kind in kinds)
            if catches and not any(isinstance(part, ast.Raise) for part in ast.walk(handler)):
                lines = range(node.body[0].lineno, (node.body[-1].end_lineno or 0) + 1)
                found.update(dict.fromkeys(lines, handler.lineno))
    return found


class NaNGradient(TrainerCallback):
    """Turns the first gradient of the second step into NaN, and records whether the weights stayed finite."""

    def __init__(self, trainer: Any, session: Session) -> None:
        self._parameters = [each for each in trainer.model.parameters() if each.requires_grad]
        self._session = session
        self._hooks: list[Any] = []
        self._spoiled = 0

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Wait for the first gradient of the step."""
        if state.global_step + 1 == POISONED_STEP:
            self._hooks = [each.register_hook(self._spoil) for each in self._parameters]

    def _spoil(self, gradient: Any) -> Any:
        self._spoiled += 1
        return gradient * float("nan") if self._spoiled == 1 else gradient

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Look at the weights after the step."""
        if not self._hooks:
            return
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        own = (each.to_local() if hasattr(each, "to_local") else each for each in self._parameters)
        whole = all(bool(each.isfinite().all()) for each in own)
        self._session.fact(
            DRILL_FACT, {"step": int(state.global_step), "spoiled": self._spoiled > 0, "whole": whole}
        )
