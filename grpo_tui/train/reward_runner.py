"""Run reward functions in the main thread: time them, keep their results, abort a call on request.

Math parsers set SIGALRM, which works only in the main thread, and only the main thread can be interrupted by
a signal. The training thread hands over a call and waits. Async functions stay on TRL's event loop, and
reward models run where TRL runs them.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import itertools
import queue
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from grpo_tui.core.records import Record, RewardCall
from grpo_tui.rewards.contract import (
    RewardContractError,
    checked,
    guilty_samples,
    refuse_shortened,
    sample_in_words,
)
from grpo_tui.rewards.loading import is_model
from grpo_tui.supervisor.leftovers import ABORT_SIGNAL
from grpo_tui.train.failure import message_of
from grpo_tui.train.phases import PhaseClock

CULPRIT_LIMIT_S = 3.0
"""Time limit for calling a failed reward function on single completions to find the one that breaks it."""
GIVEN_UP = -1


class RewardAborted(BaseException):
    """Raised inside a reward call that the user aborted.

    A BaseException, so that `except Exception` in the reward does not catch it.
    """


@dataclass(slots=True)
class _Job:
    run: Callable[[], Any]
    done: threading.Event = field(default_factory=threading.Event)
    result: Any = None
    error: BaseException | None = None


class RewardRunner:
    """Runs the reward functions of one trainer on behalf of TRL."""

    def __init__(
        self, put: Callable[[Record], None], phases: PhaseClock, attempt: int, abort_file: Path, rank: int = 0
    ) -> None:
        self._put, self._phases, self._attempt = put, phases, attempt
        self._abort_file, self._rank = abort_file, rank
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._serving = False
        self._ids = itertools.count(1)
        self._running: int | None = None
        self._tasks: dict[int, asyncio.Future[Any]] = {}
        self._calls: dict[int, tuple[str, float]] = {}
        """The running calls, oldest first: name and start. Async ones run side by side."""
        self._aborted: set[int] = set()
        self._installed: dict[int, tuple[Any, Any]] = {}
        self._hooks: list[Any] = []
        self.batch = 0
        self.first = 0
        """Index of the first function in the record. Another list has indices of its own."""
        self.returned: dict[int, list[Any]] = {}
        """Function index to its result for the batch, in which None and NaN still differ."""
        self.failed_function: str | None = None
        self.failed_sample = ""
        """Description of the single completion that made it fail, if there is one."""
        self.aborts_in_a_row = 0
        self.on_second_abort: Callable[[], None] = lambda: None
        self.after_call: Callable[[str], None] = lambda name: None
        """Called with the name of a reward function after each call of it."""

    # -- installing ------------------------------------------------------------------------------

    def install(self, trainer: Any) -> None:
        """Wrap the trainer's reward functions in place. TRL has already taken their names."""
        import torch

        for index, function in enumerate(trainer.reward_funcs):
            if isinstance(function, torch.nn.Module):
                self._watch_model(index, function, trainer.reward_func_names[index])
            else:
                self.replace(trainer, index, function)
        if threading.current_thread() is threading.main_thread():
            signal.signal(ABORT_SIGNAL, self._on_signal)

    def replace(self, trainer: Any, index: int, function: Callable[..., Any]) -> None:
        """Wrap a function, and let the trainer call it at this place of its list."""
        wrap = self._wrap_async if is_async(function) else self._wrap
        wrapper = wrap(index, function, trainer.reward_func_names[index])
        trainer.reward_funcs[index] = wrapper
        self._installed[index] = (wrapper, function)

    def replace_all(self, trainer: Any, first: int) -> None:
        """Wrap the functions of another list. Reward models are watched since the start.

        Args:
            first: Index of the first function in the record.
        """
        self.first, self._installed = first, {}
        for index, function in enumerate(trainer.reward_funcs):
            if not is_model(function):
                self.replace(trainer, index, function)

    def uninstall(self, trainer: Any) -> None:
        """Restore the reward functions and the signal handler."""
        for index, (wrapper, function) in self._installed.items():
            if trainer.reward_funcs[index] is wrapper:
                trainer.reward_funcs[index] = function
        for hook in self._hooks:
            hook.remove()
        self._installed, self._hooks = {}, []
        in_main = threading.current_thread() is threading.main_thread()
        if in_main and signal.getsignal(ABORT_SIGNAL) == self._on_signal:
            signal.signal(ABORT_SIGNAL, signal.SIG_IGN)  # a late one must not end the process

    def serve(self, train: Callable[[], Any], device: Any = None) -> Any:
        """Run `train` in the training thread and reward calls here, until it returns.

        Call from the main thread. Returns or raises what `train` does.

        Args:
            device: The trainer's device. CUDA's current device belongs to a thread and starts at 0.
        """
        box: dict[str, Any] = {}

        def run() -> None:
            try:
                if device is not None and device.type == "cuda" and device.index is not None:
                    import torch

                    torch.cuda.set_device(device)
                box["result"] = train()
            except BaseException as error:
                box["error"] = error
            finally:
                self._jobs.put(None)

        thread = threading.Thread(target=run, name="gpu-training")
        self._serving = True
        thread.start()
        while (job := self._jobs.get()) is not None:
            try:
                job.result = job.run()
            except BaseException as error:
                job.error = error
            job.done.set()
        thread.join()
        self._serving = False
        if "error" in box:
            raise box["error"]
        return box.get("result")

    # -- calling ---------------------------------------------------------------------------------

    def _wrap(self, index: int, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            return self.in_main_thread(lambda: self._call(index, function, name, args, kwargs))

        return _named(call, function)

    def in_main_thread(self, run: Callable[[], Any]) -> Any:
        """Run in the main thread while it serves, else here, and return or raise what it does."""
        if not self._serving or threading.current_thread() is threading.main_thread():
            return run()
        job = _Job(run)
        self._jobs.put(job)
        job.done.wait()
        if job.error is not None:
            raise job.error
        return job.result

    def _call(self, index: int, function: Callable[..., Any], name: str, args: Any, kwargs: Any) -> Any:
        call_id, started_at, start = self._begin(name)
        outcome: Literal["ok", "error", "aborted"] = "error"
        error = ""
        count = len(kwargs["completions"])  # before the function can change the list
        try:
            try:
                self._running = call_id
                result = checked(name, function(*args, **kwargs), count)
                refuse_shortened(name, kwargs, count)
            finally:
                self._running = None
            outcome = "ok"
        except RewardAborted:
            outcome, result = "aborted", [None] * count
        except RewardContractError as raised:
            error = str(raised)[:2000]
            raise
        except BaseException as raised:
            error = f"{type(raised).__name__}: {message_of(raised)}"[:2000]
            self.failed_function = name
            self.failed_sample = self._culprit(function, raised, args, kwargs)
            raise
        finally:
            self._end(index, call_id, started_at, start, outcome, error)
            self.after_call(name)
        self._keep(index, result, outcome)
        return result

    def _culprit(self, function: Callable[..., Any], error: BaseException, args: Any, kwargs: Any) -> str:
        """Find the one completion that makes a reward raise by scoring each alone; empty if there is none.

        The run is over, so calling the function again does no harm. A call that hangs is given up.
        """
        in_main = threading.current_thread() is threading.main_thread()
        if args or not in_main or not isinstance(error, Exception):
            return ""
        timer = threading.Timer(CULPRIT_LIMIT_S, self._give_up)
        timer.daemon = True
        try:
            self._running = GIVEN_UP
            timer.start()
            guilty = guilty_samples(function, type(error), kwargs)
        except (RewardAborted, Exception):
            return ""
        finally:
            self._running = None
            timer.cancel()
        return sample_in_words(kwargs, guilty[0]) if guilty else ""

    def _give_up(self) -> None:
        if self._running == GIVEN_UP:
            signal.pthread_kill(threading.main_thread().ident or 0, ABORT_SIGNAL)

    def _wrap_async(self, index: int, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        async def call(*args: Any, **kwargs: Any) -> Any:
            call_id, started_at, start = self._begin(name)
            outcome: Literal["ok", "error", "aborted"] = "error"
            error = ""
            count = len(kwargs["completions"])
            task = self._tasks[call_id] = asyncio.ensure_future(_inside_loop(function, args, kwargs))
            try:
                result = checked(name, await task, count)
                refuse_shortened(name, kwargs, count)
                outcome = "ok"
            except asyncio.CancelledError:
                if call_id not in self._aborted:
                    raise
                outcome, result = "aborted", [None] * count
            except RewardContractError as raised:
                error = str(raised)[:2000]
                raise
            except BaseException as raised:
                error = f"{type(raised).__name__}: {message_of(raised)}"[:2000]
                self.failed_function = name
                raise
            finally:
                self._tasks.pop(call_id, None)
                self._end(index, call_id, started_at, start, outcome, error)
                self.after_call(name)
            self._keep(index, result, outcome)
            return result

        return _named(call, function)

    def _watch_model(self, index: int, model: Any, name: str) -> None:
        begun: list[tuple[int, float, float]] = []

        def before(*_: Any) -> None:
            begun.append(self._begin(name))

        def after(*_: Any) -> None:
            self._end(index, *begun.pop(), "ok", "")

        self._hooks += [model.register_forward_pre_hook(before), model.register_forward_hook(after)]

    def _begin(self, name: str) -> tuple[int, float, float]:
        call_id, now = next(self._ids), time.time()
        self._calls[call_id] = name, now
        self._phases.tell(**self._running_call(), batch=self.batch)
        return call_id, now, time.perf_counter()

    def _running_call(self) -> dict[str, Any]:
        """Return the call that has run longest, as the rank reports it and an abort ends it."""
        for call_id, (name, since) in self._calls.items():
            return {"reward_function": name, "reward_call": call_id, "reward_since": since}
        return {"reward_function": None, "reward_call": None, "reward_since": time.time()}

    def _end(
        self,
        index: int,
        call_id: int,
        started_at: float,
        start: float,
        outcome: Literal["ok", "error", "aborted"],
        error: str,
    ) -> None:
        duration_s = time.perf_counter() - start
        self._calls.pop(call_id, None)
        changes = self._running_call()
        if outcome == "aborted":
            changes["aborted_call"] = call_id
        self._phases.tell(**changes)
        call = RewardCall(
            self._attempt, self.batch, self.first + index, started_at, duration_s, outcome, error, self._rank
        )
        self._put(call)

    def _keep(self, index: int, result: Any, outcome: str) -> None:
        if isinstance(result, list | tuple):
            self.returned[index] = list(result)
        if outcome == "aborted":
            self.aborts_in_a_row += 1
            if self.aborts_in_a_row >= 2:
                self.aborts_in_a_row = 0
                self.on_second_abort()
        elif outcome == "ok":
            self.aborts_in_a_row = 0

    # -- aborting --------------------------------------------------------------------------------

    def _on_signal(self, *_: Any) -> None:
        if self._running == GIVEN_UP:
            raise RewardAborted("the search for the sample took too long")
        try:
            wanted = int(self._abort_file.read_text())
        except (OSError, ValueError):
            return
        task = self._tasks.get(wanted)
        if task is not None:
            self._aborted.add(wanted)
            task.get_loop().call_soon_threadsafe(task.cancel)
        elif self._running == wanted:
            raise RewardAborted(f"reward call {wanted} was aborted")


async def _inside_loop(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Await an async reward. Exceptions that would end TRL's event loop, and hang TRL, become errors."""
    try:
        return await function(*args, **kwargs)
    except (SystemExit, KeyboardInterrupt) as error:
        ended = RuntimeError(f"it raised {error!r}, which would end the process")
        raise ended.with_traceback(error.__traceback__) from error


def is_async(function: Any) -> bool:
    """Return whether TRL treats the function as async: a coroutine function, or a call that is one."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def _named(call: Callable[..., Any], function: Any) -> Callable[..., Any]:
    """Give the wrapper the function's name. A partial or an instance may have none."""
    if hasattr(function, "__name__"):
        return functools.wraps(function)(call)
    return call
