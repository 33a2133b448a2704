"""Call one reward with a batch exactly as GRPOTrainer does, and keep all that comes of it.

The keyword arguments are those of `GRPOTrainer._calculate_rewards` in TRL 1.16: prompts, completions,
completion_ids, every dataset column but the reserved ones, trainer_state, log_extra, log_metric. Functions
run in this process's main thread, async ones on an event loop in a daemon thread. It loads nothing.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
import traceback
import warnings
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from grpo_tui.core.text import completion_text, prompt_text
from grpo_tui.rewards.contract import NOT_PASSED, RewardContractError, checked, copied, refuse_shortened
from grpo_tui.rewards.lab_child.capture import captured

SMALL = 64
"""Samples that are enough for a second look at a function."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Samples in the form TRL hands them over; prompts are texts or lists of messages, completions alike."""

    prompts: list[Any]
    completions: list[Any]
    truncated: list[bool]
    columns: dict[str, list[Any]]

    @property
    def chat(self) -> bool:
        """Whether prompts and completions are messages."""
        return not isinstance(self.prompts[0], str)

    def first(self, count: int) -> Batch:
        """Return the batch cut to its first samples."""
        columns = {name: values[:count] for name, values in self.columns.items()}
        return Batch(self.prompts[:count], self.completions[:count], self.truncated[:count], columns)

    def varied(self) -> tuple[Batch, list[int]]:
        """Return the samples with other completions beside their own, and of which sample each was made."""
        places, completions = [], []
        for place, completion in enumerate(self.completions):
            text = completion_text(completion)
            others = ("", text[: len(text) // 2], "x", text.upper(), text + " and so on" * 1_000)
            places += [place] * (len(others) + 1)
            completions += [completion, *(as_message(t) if self.chat else t for t in others)]
        columns = {name: [values[place] for place in places] for name, values in self.columns.items()}
        prompts, truncated = [self.prompts[p] for p in places], [self.truncated[p] for p in places]
        return Batch(prompts, completions, truncated, columns), places

    def flipped(self) -> Batch:
        """Return the same samples as messages instead of texts, or as texts instead of messages."""
        if self.chat:
            prompts: list[Any] = [prompt_text(p) for p in self.prompts]
            completions: list[Any] = [completion_text(c) for c in self.completions]
        else:
            prompts = [[{"role": "user", "content": p}] for p in self.prompts]
            completions = [as_message(c) for c in self.completions]
        return Batch(prompts, completions, self.truncated, self.columns)


def as_message(text: str) -> list[dict[str, Any]]:
    """Return a completion as TRL gives it for a chat prompt."""
    return [{"role": "assistant", "content": text}]


def batch_of(samples: Sequence[Mapping[str, Any]], as_chat: Callable[[Any], Any] | None) -> Batch:
    """Build a batch from samples `{"prompt", "completion", "columns", "truncated"}`.

    Args:
        samples: at least one.
        as_chat: makes messages of a text prompt, when the run's prompts are messages; else None.

    Raises:
        ValueError: a column has a name that TRL's own arguments have.
    """
    prompts = [s["prompt"] for s in samples]
    if as_chat is not None:
        prompts = [as_chat(p) if isinstance(p, str) else p for p in prompts]
    chat = not isinstance(prompts[0], str)
    completions = []
    for sample in samples:
        completion = sample["completion"]
        if chat and isinstance(completion, str):
            completion = as_message(completion)
        completions.append(completion if chat else completion_text(completion))
    names = dict.fromkeys(name for s in samples for name in s["columns"] if name not in NOT_PASSED)
    taken = next((name for name in ("prompts", "completions") if name in names), None)
    if taken is not None:
        raise ValueError(
            f"the samples have a column {taken}, under which TRL passes something else; rename it"
        )
    columns = {name: [s["columns"].get(name) for s in samples] for name in names}
    return Batch(prompts, completions, [bool(s.get("truncated")) for s in samples], columns)


@dataclass(slots=True)
class Outcome:
    """What one call gave; `scores` is None when it gave nothing usable."""

    scores: list[float | None] | None
    seconds: float
    output: str
    error: BaseException | None = None
    extra: dict[str, list[Any]] = field(default_factory=dict)
    metrics: dict[str, list[float]] = field(default_factory=dict)

    @property
    def constant(self) -> bool:
        """Whether it scored every sample alike, of at least two."""
        return self.scores is not None and len(self.scores) > 1 and len({repr(v) for v in self.scores}) == 1


class Caller:
    """Calls rewards; holds the event loop and the trainer's state."""

    def __init__(self, make_ids: Callable[[list[Any], list[bool]], Any], state: Any) -> None:
        self._make_ids = make_ids
        self.state = state
        self._loop: asyncio.AbstractEventLoop | None = None
        self._extra: dict[str, list[Any]] = {}
        self._metrics: dict[str, list[float]] = {}

    def arguments(self, batch: Batch) -> dict[str, Any]:
        """Return TRL's keyword arguments for a batch, in lists of their own.

        All functions of one scoring get the same ones, as with TRL: what one changes the next one sees.
        """
        return {
            "prompts": copied(batch.prompts),
            "completions": copied(batch.completions),
            "completion_ids": self._make_ids(batch.completions, batch.truncated),
            **copied(batch.columns),
            "trainer_state": self.state,
            "log_extra": self._log_extra,
            "log_metric": self._log_metric,
        }

    def call(
        self,
        name: str,
        target: Callable[..., Any],
        is_async: bool,
        kwargs: Mapping[str, Any],
        count: int | None = None,
    ) -> Outcome:
        """Call a function once; never raises.

        Args:
            name: its name in messages.
            target: the function; for a reward model a function that scores with it.
            is_async: whether a call gives a coroutine.
            kwargs: what `arguments` gave.
            count: number of scores wanted; that of the completions when None, for a function before this
                one can have changed their list.
        """
        self._extra, self._metrics = defaultdict(list), defaultdict(list)
        if count is None:
            count = len(kwargs["completions"])  # before the function can change the list
        scores, error = None, None
        with captured() as printed:
            start = time.perf_counter()
            try:
                result = self.run(target, is_async, kwargs)
                seconds = time.perf_counter() - start
                refuse_shortened(name, kwargs, count)
                scores = as_trl_takes_them(name, checked(name, result, count), count)
            except BaseException as raised:
                seconds = time.perf_counter() - start
                error = raised
        return Outcome(scores, seconds, printed.text, error, dict(self._extra), dict(self._metrics))

    def run(self, target: Callable[..., Any], is_async: bool, kwargs: Mapping[str, Any]) -> Any:
        """Call a function and return what it returned; an async one is awaited on the loop."""
        if not is_async:
            return target(**kwargs)
        result = asyncio.run_coroutine_threadsafe(_awaited(target, kwargs), self._event_loop()).result()
        if isinstance(result, _Left):
            raise result.error
        return result

    def _event_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._loop.run_forever, name="reward-loop", daemon=True).start()
        return self._loop

    def _log_extra(self, column: str, values: list[Any]) -> None:
        self._extra[column].extend(values)

    def _log_metric(self, name: str, value: float) -> None:
        self._metrics[name].append(value)


def changed_arguments(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Names of the arguments whose lists a call has changed.

    Args:
        before: a copy from before the call.
        after: what the function was given.
    """
    return [name for name, value in before.items() if isinstance(value, list) and value != after[name]]


@dataclass(frozen=True, slots=True)
class _Left:
    """What an async function raised that would have ended the event loop, and the wait for it never."""

    error: BaseException


async def _awaited(target: Callable[..., Any], kwargs: Mapping[str, Any]) -> Any:
    try:
        return await target(**kwargs)
    except (SystemExit, KeyboardInterrupt) as error:
        return _Left(error)


def as_trl_takes_them(name: str, values: Any, count: int) -> list[float | None]:
    """Return scores as plain numbers, after TRL's own conversion to a float32 tensor has gone well.

    What is too large for float32 is infinite, as it is for TRL.

    Raises:
        RewardContractError: TRL's tensor cannot be made of them.
    """
    import torch

    listed = [math.nan if value is None else value for value in values]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they would name this line
            taken = torch.tensor(listed, dtype=torch.float32)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise RewardContractError(
            f"reward function '{name}' returned values that no tensor of numbers can be made of: {error}"
        ) from error
    if tuple(taken.shape) != (count,):
        raise RewardContractError(
            f"reward function '{name}' returned values of the shape {tuple(taken.shape)}; TRL wants one "
            f"number for each of the {count} completions"
        )
    return [
        None if original is None else in_float32 if math.isinf(in_float32) else float(value)
        for original, value, in_float32 in zip(values, listed, taken.tolist(), strict=True)
    ]


def place_of(error: BaseException, is_own: Callable[[str], bool]) -> tuple[str | None, int | None]:
    """Return file and line of the innermost frame in the person's own code, else of the innermost one."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if is_own(f.filename)]
    outside = [f for f in frames if "/grpo_tui/rewards/" not in f.filename]
    chosen = own or outside
    return (chosen[-1].filename, chosen[-1].lineno) if chosen else (None, None)


def message_of(error: BaseException) -> str:
    """What an exception says, shortened; a person's own class may fail even at that."""
    try:
        return str(error)[:2000] or type(error).__name__
    except Exception:
        return f"a {type(error).__name__} that cannot be shown"
