"""Reward calls: in the main thread, timed, abortable, and the sample that breaks one is named."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from grpo_tui.core.records import PhaseSpan, RewardCall
from grpo_tui.rewards.contract import RewardContractError
from grpo_tui.store.live import RankFile, read_rank
from grpo_tui.supervisor.leftovers import ABORT_SIGNAL
from grpo_tui.train.phases import PhaseClock
from grpo_tui.train.reward_runner import RewardRunner
from tests import PATIENCE_S

TEXTS = ["one", "two", "three"]
CHAT = [[{"role": "assistant", "content": text}] for text in TEXTS]


def _runner(folder: Path, *functions: Any) -> tuple[RewardRunner, Any, list[RewardCall]]:
    records: list[Any] = []
    phases = PhaseClock(RankFile(folder / "rank-0.json", os.getpid()), records.append, 1)
    runner = RewardRunner(records.append, phases, 1, folder / "abort")
    names = [getattr(f, "__name__", type(f).__name__) for f in functions]
    trainer = SimpleNamespace(reward_funcs=list(functions), reward_func_names=names)
    runner.install(trainer)
    return runner, trainer, records


def _calls(records: list[Any]) -> list[RewardCall]:
    return [r for r in records if not isinstance(r, PhaseSpan)]


def _serve(runner: RewardRunner, trainer: Any) -> list[Any]:
    """Call every function from the training thread, as TRL does."""
    prompts = ["p"] * len(CHAT)
    return runner.serve(
        lambda: [f(prompts=prompts, completions=CHAT, gold=["1", "2", "3"]) for f in trainer.reward_funcs]
    )


def test_a_sync_reward_runs_in_the_main_thread_and_the_trainer_in_another(tmp_path: Path) -> None:
    seen: dict[str, Any] = {}

    def reward(completions: Any, **kwargs: Any) -> list[float | None]:
        seen["thread"] = threading.current_thread()
        return [1.0, None, float("nan")]

    runner, trainer, records = _runner(tmp_path, reward)
    (result,) = _serve(runner, trainer)
    assert seen["thread"] is threading.main_thread()
    assert repr(result) == repr([1.0, None, float("nan")])
    assert repr(runner.returned[0]) == repr(result), "None and NaN are still apart"
    assert trainer.reward_funcs[0].__name__ == "reward"
    assert [(c.function, c.outcome) for c in _calls(records)] == [(0, "ok")]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_reward_that_shortens_what_trl_goes_on_with_is_named(is_async: bool, tmp_path: Path) -> None:
    def cut(completions: Any, **kwargs: Any) -> list[float]:
        kwargs["prompts"].pop()
        return [1.0] * len(completions)

    async def cut_later(completions: Any, **kwargs: Any) -> list[float]:
        return cut(completions, **kwargs)

    _, trainer, records = _runner(tmp_path, cut_later if is_async else cut)

    def call() -> None:
        result = trainer.reward_funcs[0](prompts=["p"] * 3, completions=list(CHAT))
        if is_async:
            asyncio.run(result)

    with pytest.raises(RewardContractError, match=r"changed prompts, which held 3 before and 2 after"):
        call()
    assert [call.outcome for call in _calls(records)] == ["error"]


def _loop() -> None:
    while True:
        pass


def _swallow_exceptions() -> None:
    while True:
        try:  # noqa: SIM105 - the very form people write
            time.sleep(60)
        except Exception:
            pass


def _lock() -> None:
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def _socket() -> None:
    left, _right = socket.socketpair()
    left.recv(1)


HANGS: dict[str, Callable[[], Any]] = {
    "loop": _loop,
    "sleep": lambda: time.sleep(600),
    "lock": _lock,
    "socket": _socket,
    "subprocess": lambda: subprocess.run(["sleep", "600"], check=False),
    "except Exception": _swallow_exceptions,
    "regular expression": lambda: re.match(r"(a+)+$", "a" * 40 + "b"),
}


ABORTS = """
import os, sys, time
begun, pid, number = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
while not os.path.exists(begun):
    time.sleep(0.02)
time.sleep(0.2)
while True:
    os.kill(pid, number)
    time.sleep(1)
"""
"""The signals of the supervisor, from when the call says that it hangs: one that comes right before a call
into the kernel is not heard there, so it sends another."""


def _abort_from_outside(folder: Path) -> subprocess.Popen[bytes]:
    """What the supervisor does, from a process of its own: a hanging call can hold the interpreter lock."""
    (folder / "abort").write_text("1")
    words = [str(folder / "begun"), str(os.getpid()), str(int(ABORT_SIGNAL))]
    return subprocess.Popen([sys.executable, "-c", ABORTS, *words])


@pytest.mark.parametrize("kind", HANGS)
def test_a_hanging_reward_gives_way_and_counts_as_none(kind: str, tmp_path: Path) -> None:
    def hang(completions: Any, **kwargs: Any) -> list[float]:
        (tmp_path / "begun").touch()
        HANGS[kind]()
        return [0.0] * len(completions)

    def fine(completions: Any, **kwargs: Any) -> list[float]:
        return [1.0] * len(completions)

    runner, trainer, records = _runner(tmp_path, hang, fine)
    killer = _abort_from_outside(tmp_path)
    assert _serve(runner, trainer) == [[None, None, None], [1.0, 1.0, 1.0]]
    killer.kill()
    killer.wait()
    assert [c.outcome for c in _calls(records)] == ["aborted", "ok"]
    rank = read_rank(tmp_path / "rank-0.json")
    assert rank is not None
    assert rank.aborted_call == 1


@pytest.mark.parametrize("kind", ["ok", "async", "error"])
def test_calls_of_another_list_are_told_apart_from_those_of_the_first(kind: str, tmp_path: Path) -> None:
    def fine(completions: Any, **kwargs: Any) -> list[float]:
        return [1.0] * len(completions)

    async def later(completions: Any, **kwargs: Any) -> list[float]:
        return [2.0] * len(completions)

    def broken(completions: Any, **kwargs: Any) -> list[float]:
        raise RuntimeError("no judge")

    runner, trainer, records = _runner(tmp_path, fine, fine)
    _serve(runner, trainer)
    listed = [fine, {"ok": fine, "async": later, "error": broken}[kind]]
    trainer.reward_funcs, runner.returned = list(listed), {}
    runner.replace_all(trainer, 2)
    first, second = trainer.reward_funcs
    batch = {"prompts": ["p"] * len(CHAT), "completions": CHAT}
    first(**batch)
    with pytest.raises(RuntimeError, match="no judge") if kind == "error" else nullcontext():
        asyncio.run(second(**batch)) if kind == "async" else second(**batch)
    assert [call.function for call in _calls(records)] == [0, 1, 2, 3]
    assert _calls(records)[-1].outcome == ("error" if kind == "error" else "ok")
    assert set(runner.returned) == ({0} if kind == "error" else {0, 1}), "by their places in TRL's list"
    trainer.reward_funcs = [fine]
    runner.replace_all(trainer, 4)
    runner.uninstall(trainer)
    assert trainer.reward_funcs == [fine], "also where the list is shorter now"


def test_a_signal_for_another_call_does_nothing(tmp_path: Path) -> None:
    came: list[int] = []

    def rewarded(completions: Any, **kwargs: Any) -> list[float]:
        (tmp_path / "abort").write_text("77")
        os.kill(os.getpid(), ABORT_SIGNAL)  # Python runs the handler before the next line
        came.append(1)
        (tmp_path / "abort").write_text(str(read_rank(tmp_path / "rank-0.json").reward_call))  # type: ignore[union-attr]
        os.kill(os.getpid(), ABORT_SIGNAL)
        came.append(2)
        return [2.0] * len(completions)

    runner, trainer, records = _runner(tmp_path, rewarded)
    assert _serve(runner, trainer) == [[None, None, None]]
    assert came == [1], "the first was for another call, the second for this one"
    assert [c.outcome for c in _calls(records)] == ["aborted"]


def test_an_async_reward_is_aborted_on_its_own_loop(tmp_path: Path) -> None:
    async def judge(completions: Any, **kwargs: Any) -> list[float]:
        (tmp_path / "begun").touch()
        await asyncio.sleep(600)
        return [0.0] * len(completions)

    runner, trainer, records = _runner(tmp_path, judge)
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    killer = _abort_from_outside(tmp_path)

    def train() -> Any:
        call = trainer.reward_funcs[0](prompts=["p"] * 3, completions=CHAT)
        return asyncio.run_coroutine_threadsafe(call, loop).result()

    assert runner.serve(train) == [None, None, None]
    killer.kill()
    killer.wait()
    loop.call_soon_threadsafe(loop.stop)
    assert [c.outcome for c in _calls(records)] == ["aborted"]


def test_of_async_rewards_side_by_side_the_one_that_still_runs_is_reported(tmp_path: Path) -> None:
    told: list[tuple[str | None, int | None]] = []

    def look() -> None:
        state = read_rank(tmp_path / "rank-0.json")
        assert state is not None
        told.append((state.reward_function, state.reward_call))

    async def both() -> None:
        over = asyncio.Event()

        async def judge(completions: Any, **kwargs: Any) -> list[float]:
            await over.wait()
            return [0.0] * len(completions)

        async def quick(completions: Any, **kwargs: Any) -> list[float]:
            look()
            return [0.0] * len(completions)

        _, trainer, _ = _runner(tmp_path, judge, quick)
        first, second = (f(prompts=["p"] * 3, completions=CHAT) for f in trainer.reward_funcs)
        hung = asyncio.ensure_future(first)
        await asyncio.sleep(0)
        await second
        look()
        over.set()
        await hung
        look()

    asyncio.run(both())
    assert told == [("judge", 1), ("judge", 1), (None, None)]


@pytest.mark.parametrize("error", [SystemExit(4), KeyboardInterrupt()])
def test_an_async_reward_that_would_end_the_loop_fails_the_run(error: BaseException, tmp_path: Path) -> None:
    async def judge(completions: Any, **kwargs: Any) -> list[float]:
        await asyncio.sleep(0)
        raise error

    runner, trainer, records = _runner(tmp_path, judge)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    future = asyncio.run_coroutine_threadsafe(
        trainer.reward_funcs[0](prompts=["p"], completions=CHAT[:1]), loop
    )
    with pytest.raises(RuntimeError, match=type(error).__name__) as raised:
        future.result(PATIENCE_S)
    assert raised.traceback[-1].name == "judge", "the place of a person's own code is told"
    assert runner.failed_function == "judge"
    assert [call.outcome for call in _calls(records)] == ["error"]
    loop.call_soon_threadsafe(loop.stop)
    thread.join(PATIENCE_S)
    loop.close()


def test_two_aborts_in_a_row_ask_for_a_pause(tmp_path: Path) -> None:
    runner, _, _ = _runner(tmp_path)
    asked: list[int] = []
    runner.on_second_abort = lambda: asked.append(1)
    for outcome in ("aborted", "ok", "aborted"):
        runner._keep(0, [None], outcome)
    assert not asked
    runner._keep(0, [None], "aborted")
    assert asked == [1]


def test_the_sample_that_breaks_a_reward_is_named(tmp_path: Path) -> None:
    def strict(prompts: Any, completions: Any, gold: Any, **kwargs: Any) -> list[float]:
        return [float({"one": 1, "three": 3}[c[0]["content"]]) for c in completions]

    runner, trainer, records = _runner(tmp_path, strict)
    with pytest.raises(KeyError, match="two"):
        _serve(runner, trainer)
    assert runner.failed_function == "strict"
    assert runner.failed_sample == 'completion "two" of prompt "p"'
    assert [c.outcome for c in _calls(records)] == ["error"]


@pytest.mark.parametrize("kind", ["every sample", "a hang when alone"])
def test_no_sample_is_blamed_when_it_is_not_one(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grpo_tui.train.reward_runner.CULPRIT_LIMIT_S", 0.3)

    def broken(completions: Any, **kwargs: Any) -> list[float]:
        if kind == "a hang when alone" and len(completions) == 1:
            time.sleep(120)
        raise RuntimeError("judge key missing")

    runner, trainer, _ = _runner(tmp_path, broken)
    with pytest.raises(RuntimeError, match="judge key missing"):
        _serve(runner, trainer)
    assert runner.failed_sample == ""
