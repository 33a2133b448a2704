"""Call one reward as TRL does, and call it again to learn more about it.

Standard output and error of this process are one file that the parent opened for appending. `captured` reads
what a call has added to it, and the parent can read it if the child hangs. The further calls run on few
samples and only if they are cheap. Each answers one question: which sample breaks the function, whether it
expects the other form of completions, whether it is deterministic, and which exceptions it swallows.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import math
import os
import signal
import sys
import threading
import time
import traceback
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Any

from grpo_tui.children.serving import message_of
from grpo_tui.core.text import completion_text, prompt_text
from grpo_tui.rewards.contract import (
    NOT_PASSED,
    RewardContractError,
    checked,
    copied,
    guilty_samples,
    refuse_shortened,
)

MOST_BYTES = 20_000
"""Longer output of one call is shortened to its beginning and end."""
MOST_FILE_BYTES = 8_000_000
_kept: int | None = None


@dataclass(slots=True)
class Printed:
    """Text printed within a `captured()` block, set at its end."""

    text: str = ""


@contextlib.contextmanager
def captured() -> Iterator[Printed]:
    """Collect everything printed inside the block."""
    _flush()
    start = printed_bytes()
    if start > MOST_FILE_BYTES:
        os.ftruncate(1, 0)
        start = 0
    printed = Printed()
    try:
        yield printed
    finally:
        _flush()
        printed_bytes()
        printed.text = read_output(1, start)


def printed_bytes() -> int:
    """Return the size of the output so far, reopening standard output if a reward closed it."""
    global _kept
    try:
        size = os.fstat(1).st_size
        if _kept is None:
            _kept = os.dup(1)
        return size
    except OSError:
        if _kept is None:
            raise
        os.dup2(_kept, 1)
        return os.fstat(1).st_size


def reopen_streams() -> None:
    """Restore `sys.stdout` and `sys.stderr` if a reward closed them."""
    printed_bytes()
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        if getattr(getattr(sys, name), "closed", True):
            with contextlib.suppress(OSError):
                os.dup2(1, descriptor)
                # Line buffering keeps the output of Python and of C in order.
                stream = os.fdopen(descriptor, "w", 1, encoding="utf-8", errors="replace", closefd=False)
                setattr(sys, name, stream)


def read_output(descriptor: int, start: int) -> str:
    """Return the file's content after `start`, shortened in the middle if it is long."""
    size = os.fstat(descriptor).st_size - start
    if size <= MOST_BYTES:
        return os.pread(descriptor, max(size, 0), start).decode("utf-8", "replace")
    half = MOST_BYTES // 2
    first, last = os.pread(descriptor, half, start), os.pread(descriptor, half, start + size - half)
    left_out = f"\n… {size - 2 * half:,} bytes left out …\n"
    return first.decode("utf-8", "replace") + left_out + last.decode("utf-8", "replace")


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # a reward may have replaced it
            stream.flush()
    with contextlib.suppress(Exception):
        ctypes.CDLL(None).fflush(None)


SMALL = 64
"""Enough samples for a further call."""


_WATCHED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)
_POOLS = ("ThreadPoolExecutor", "asyncio_")
"""Names of threads that end with their process."""


class ProcessState:
    """Process-wide state before a call."""

    def __init__(self) -> None:
        self._folder = os.getcwd()
        self._handlers = {number: signal.getsignal(number) for number in _WATCHED}
        self._threads = set(threading.enumerate())
        self._closed = _closed_streams()

    def changed(self) -> list[str]:
        """Return what a call has changed, phrased to follow the function's name."""
        found = []
        if os.getcwd() != self._folder:
            found.append(f"changes the current folder to {os.getcwd()}, which would affect training too")
        names = [n.name for n, handler in self._handlers.items() if signal.getsignal(n) is not handler]
        if names:
            found.append(
                f"replaces the handler of {', '.join(names)}, which grpo-tui needs to stop and watch a run"
            )
        left = [
            thread.name
            for thread in threading.enumerate()
            if thread not in self._threads and not thread.daemon and not thread.name.startswith(_POOLS)
        ]
        if left:
            found.append(
                f"leaves a thread running ({left[0]}), and training cannot end before that thread does"
            )
        closed = [name for name in _closed_streams() if name not in self._closed]
        if closed:
            found.append(f"closes sys.{closed[0]}, so nothing printed after that reaches the log")
        return found


def _closed_streams() -> list[str]:
    return [name for name in ("stdout", "stderr") if getattr(getattr(sys, name), "closed", True)]


@dataclass(frozen=True, slots=True)
class Batch:
    """Samples as TRL passes them. Prompts and completions are either all texts or all lists of messages."""

    prompts: list[Any]
    completions: list[Any]
    truncated: list[bool]
    columns: dict[str, list[Any]]

    @property
    def chat(self) -> bool:
        """Whether prompts and completions are messages."""
        return not isinstance(self.prompts[0], str)

    def _picked(self, places: Sequence[int]) -> Batch:
        columns = {name: [values[p] for p in places] for name, values in self.columns.items()}
        prompts, completions = [self.prompts[p] for p in places], [self.completions[p] for p in places]
        return Batch(prompts, completions, [self.truncated[p] for p in places], columns)

    def first(self, count: int) -> Batch:
        """Return a batch of the first samples."""
        return self._picked(range(min(count, len(self.prompts))))

    def varied(self) -> tuple[Batch, list[int]]:
        """Return a batch that adds variants of each completion, and each entry's sample index."""
        places, completions = [], []
        for place, completion in enumerate(self.completions):
            text = completion_text(completion)
            others = ("", text[: len(text) // 2], "x", text.upper(), text + " and so on" * 1_000)
            places += [place] * (len(others) + 1)
            completions += [completion, *(as_message(t) if self.chat else t for t in others)]
        return replace(self._picked(places), completions=completions), places

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
    """Return a completion as TRL passes it for a chat prompt."""
    return [{"role": "assistant", "content": text}]


def batch_of(samples: Sequence[Mapping[str, Any]], as_chat: Callable[[Any], Any] | None) -> Batch:
    """Build a batch from samples `{"prompt", "completion", "columns", "truncated"}`.

    Raises:
        ValueError: a column has the name of one of TRL's own arguments.
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


@dataclass(frozen=True, slots=True)
class Ready:
    """Reward that can be called with TRL's keyword arguments.

    Attributes:
        target: the function. For a reward model, a function that scores with it.
        broad: by file, line ranges inside a broad `try` that continues with a constant.
        again: loads a fresh copy of the function.
    """

    name: str
    target: Callable[..., Any]
    is_async: bool
    is_model: bool
    broad: dict[str, list[tuple[int, int]]]
    again: Callable[[], Callable[..., Any]]


@dataclass(slots=True)
class CallOutcome:
    """Result of one call. `scores` is None when they are unusable."""

    scores: list[float | None] | None
    seconds: float
    output: str
    error: BaseException | None = None
    extra: dict[str, list[Any]] = field(default_factory=dict)
    metrics: dict[str, list[float]] = field(default_factory=dict)


class Caller:
    """Calls rewards; owns the event loop and the trainer's state."""

    def __init__(self, make_ids: Callable[[list[Any], list[bool]], Any], state: Any) -> None:
        self._make_ids = make_ids
        self.state = state
        self._loop: asyncio.AbstractEventLoop | None = None
        self._extra: dict[str, list[Any]] = {}
        self._metrics: dict[str, list[float]] = {}

    def arguments(self, batch: Batch) -> dict[str, Any]:
        """Return TRL's keyword arguments for a batch, in copied lists.

        All functions of one scoring share them, as with TRL: later functions see what earlier ones change.
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

    def call(self, ready: Ready, kwargs: Mapping[str, Any], count: int | None = None) -> CallOutcome:
        """Call a function once. Never raises.

        Args:
            count: expected number of scores. The current number of completions when None, which may be wrong
                if an earlier function changed their list.
        """
        self._extra, self._metrics = defaultdict(list), defaultdict(list)
        if count is None:
            count = len(kwargs["completions"])  # the function may change the list
        scores, error = None, None
        with captured() as printed:
            start = time.perf_counter()
            try:
                result = self.run(ready, kwargs)
                seconds = time.perf_counter() - start
                refuse_shortened(ready.name, kwargs, count)
                scores = as_trl_takes_them(ready.name, checked(ready.name, result, count), count)
            except BaseException as raised:
                seconds = time.perf_counter() - start
                error = raised
        return CallOutcome(scores, seconds, printed.text, error, dict(self._extra), dict(self._metrics))

    def run(self, ready: Ready, kwargs: Mapping[str, Any]) -> Any:
        """Call a function and return its result. An async one is awaited on the loop."""
        if not ready.is_async:
            return ready.target(**kwargs)
        call = _awaited(ready.target, kwargs)
        result = asyncio.run_coroutine_threadsafe(call, self._event_loop()).result()
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
    """Return the names of arguments whose lists a call has changed."""
    return [name for name, value in before.items() if isinstance(value, list) and value != after[name]]


@dataclass(frozen=True, slots=True)
class _Left:
    """Exception that would end the event loop, so that the caller would wait forever."""

    error: BaseException


async def _awaited(target: Callable[..., Any], kwargs: Mapping[str, Any]) -> Any:
    try:
        return await target(**kwargs)
    except (SystemExit, KeyboardInterrupt) as error:
        return _Left(error)


def as_trl_takes_them(name: str, values: Any, count: int) -> list[float | None]:
    """Return scores as plain numbers, if TRL can convert them to a float32 tensor.

    Scores too large for float32 become infinite, as in TRL.

    Raises:
        RewardContractError: TRL cannot convert them.
    """
    import torch

    listed = [math.nan if value is None else value for value in values]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they would point to this line
            taken = torch.tensor(listed, dtype=torch.float32)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise RewardContractError(
            f"reward function '{name}' returned values that cannot become a tensor of numbers: {error}"
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
    """Return file and line of the innermost frame in the user's code, or else outside this package."""
    frames = traceback.extract_tb(error.__traceback__)
    outside = [f for f in frames if "/grpo_tui/rewards/" not in f.filename]
    chosen = [f for f in outside if is_own(f.filename)] or outside
    return (chosen[-1].filename, chosen[-1].lineno) if chosen else (None, None)


CULPRIT_LIMIT_S = 5.0
SHAPE_ERRORS = (AttributeError, TypeError, KeyError, IndexError)
"""Exceptions of code that mistakes lists for texts, or texts for lists."""
MOST_VARIED = 8
_PASSING = (StopIteration, StopAsyncIteration, GeneratorExit)


def culprit(caller: Caller, ready: Ready, error: BaseException, kwargs: Mapping[str, Any]) -> int | None:
    """Return the index of the first sample that makes the function raise on its own."""
    if not isinstance(error, Exception):
        return None
    try:
        guilty = guilty_samples(
            lambda **alone: caller.run(ready, alone), type(error), kwargs, CULPRIT_LIMIT_S
        )
    except BaseException:
        return None  # a different error, so no single sample is to blame
    return guilty[0] if guilty else None


def other_shape(caller: Caller, ready: Ready, batch: Batch, first: CallOutcome) -> dict[str, Any] | None:
    """Check whether the function expects the other form of completions.

    A function that scores all completions of a prompt equally is called with empty, short and long texts. If
    the scores differ only in the other form, it mistakes lists for texts or texts for lists.
    """
    given = "messages" if batch.chat else "texts"
    if isinstance(first.error, SHAPE_ERRORS):
        other = caller.call(ready, caller.arguments(batch.first(SMALL).flipped()))
        return {"given": given, "works": other.scores is not None, "varies": False}
    if first.scores is None or _tells_apart(first.scores, [_key(prompt) for prompt in batch.prompts]):
        return None
    tried, origins = batch.first(MOST_VARIED).varied()
    same = caller.call(ready, caller.arguments(tried))
    if same.scores is None or _tells_apart(same.scores, origins):
        return None
    other = caller.call(ready, caller.arguments(tried.flipped()))
    alike = {repr(score) for score in (*first.scores, *same.scores)}
    return {
        "given": given,
        "works": other.scores is not None,
        "varies": other.scores is not None and _tells_apart(other.scores, origins),
        "tried": len(first.scores) + len(origins) - min(len(batch.prompts), MOST_VARIED),
        "constant": same.scores[0] if len(alike) == 1 else None,
    }


def _tells_apart(scores: Sequence[float | None], origins: Sequence[Any]) -> bool:
    first: dict[Any, str] = {}
    return any(
        first.setdefault(origin, repr(score)) != repr(score)
        for origin, score in zip(origins, scores, strict=True)
    )


def _key(prompt: Any) -> str:
    return prompt if isinstance(prompt, str) else repr(prompt)


def repeat(
    caller: Caller, ready: Ready, kwargs: Mapping[str, Any], first: CallOutcome
) -> dict[str, Any] | None:
    """Call again with the same arguments, and if the scores differ, call a fresh copy twice."""
    count = len(first.scores or ())
    again = caller.call(ready, copied(kwargs), count)
    if again.scores is None or first.scores is None:
        return None
    differs = [
        i for i, (a, b) in enumerate(zip(first.scores, again.scores, strict=True)) if repr(a) != repr(b)
    ]
    if not differs:
        return {"differs": [], "fresh_repeats": None}
    try:
        fresh = replace(ready, target=ready.again())
    except Exception:
        return {"differs": differs, "fresh_repeats": None}
    history = [caller.call(fresh, copied(kwargs), count).scores for _ in range(2)]
    same = repr(history) == repr([first.scores, again.scores])
    return {"differs": differs, "fresh_repeats": same}


def swallowed(caller: Caller, ready: Ready, batch: Batch) -> list[dict[str, Any]]:
    """Return the exceptions that a function, which is not async, raised within a broad `try`, by place."""
    places: dict[int, tuple[BaseException, str, int]] = {}
    found: dict[tuple[str, str, int], tuple[str, set[int]]] = {}

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        file = frame.f_code.co_filename
        if file not in ready.broad:
            return None
        frame.f_trace_lines = False
        if event != "exception" or isinstance(argument[1], _PASSING):
            return trace
        error = argument[1]
        _, inner_file, inner_line = places.setdefault(id(error), (error, file, frame.f_lineno))
        if any(first <= frame.f_lineno <= last for first, last in ready.broad[file]):
            key = (type(error).__name__, inner_file, inner_line)
            found.setdefault(key, (message_of(error)[:200], set()))[1].add(id(error))
        return trace

    kwargs = caller.arguments(batch.first(SMALL))
    sys.settrace(trace)
    try:
        caller.call(ready, kwargs)
    finally:
        sys.settrace(None)
    return [
        {"type": kind, "message": message, "file": file, "line": line, "count": len(seen)}
        for (kind, file, line), (message, seen) in found.items()
    ]
