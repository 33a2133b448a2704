"""Step time of a recorded run ÷ plain TRL: two processes that take turns, step by step.

Both train with the same seed, so step i of one does what step i of the other does. The one whose turn it
is not is stopped with SIGSTOP, recorder thread and all, so that everything recording costs falls into its
own steps. Knows nothing of what is trained or of which hardware.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grpo_tui.config.run_config import RunConfig

Pair = tuple[float, float]
"""Seconds of one step, plain and recorded."""

WARM_UP = 10
"""First steps, left out: caches and allocators settle."""


def train(config: RunConfig, folder: Path, *, recorded: bool, settle: Callable[[], None]) -> None:
    """Train, handing over after every step: the child's side.

    Args:
        config: What to train.
        folder: The run folder.
        recorded: With all hooks and the recorder, or plain TRL.
        settle: Waits until everything a step has started is done, as a GPU's queue.
    """
    from grpo_tui.data.load import load_prompts
    from grpo_tui.rewards.loading import load_rewards
    from grpo_tui.store.layout import RunFolder
    from grpo_tui.train.build import build_trainer, reward_sources
    from grpo_tui.train.session import Session

    rewards = load_rewards(config)
    session = Session(RunFolder(folder)) if recorded else None
    trainer = build_trainer(config, rewards, load_prompts(config), folder)
    if session is not None:
        session.join(trainer, reward_sources(rewards, session.attempt))
    _hand_over_after_steps(trainer, settle)
    if session is None:
        trainer.train()
    else:
        session.runner.serve(trainer.train)
        session.close("finished")


def _hand_over_after_steps(trainer: Any, settle: Callable[[], None]) -> None:
    inner = trainer._maybe_log_save_evaluate
    begun = [0.0]

    def hand_over(*arguments: Any, **keywords: Any) -> Any:
        result = inner(*arguments, **keywords)
        settle()
        print(f"step {time.perf_counter() - begun[0]:.6f}", flush=True)
        os.read(0, 1)
        begun[0] = time.perf_counter()
        return result

    trainer._maybe_log_save_evaluate = hand_over


class Side:
    """One of the two processes, and what is stopped and continued with it."""

    def __init__(
        self,
        arguments: Sequence[str | Path],
        *,
        log: Path | None = None,
        env: dict[str, str] | None = None,
        limit_s: float | None = None,
    ) -> None:
        """Start it and wait until its first step is done.

        Args:
            arguments: What follows the interpreter.
            log: Where its stderr goes; nowhere by default.
            env: Its environment, by default this process's.
            limit_s: After so long it is killed, whatever it does.
        """
        with open(log or os.devnull, "ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, *map(str, arguments)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                bufsize=0,
                env=env,
            )
        self.companions: list[int] = []
        self._limit = threading.Timer(limit_s or threading.TIMEOUT_MAX, self.process.kill)
        self._limit.daemon = True
        self._limit.start()
        try:
            self._read_step()
        except BaseException:
            self.end()
            raise
        self._signal(signal.SIGSTOP)

    def step(self) -> float:
        """Let it do one step; seconds."""
        self._signal(signal.SIGCONT)
        assert self.process.stdin is not None
        self.process.stdin.write(b".")
        seconds = self._read_step()
        self._signal(signal.SIGSTOP)
        return seconds

    def end(self) -> None:
        """Kill it."""
        self._limit.cancel()
        self._signal(signal.SIGKILL)
        self.process.wait()

    def _read_step(self) -> float:
        assert self.process.stdout is not None
        while line := self.process.stdout.readline():
            if line.startswith(b"step "):
                return float(line.split()[1])
        raise RuntimeError(f"a training process ended early: exit {self.process.wait()}")

    def _signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)  # which knows when the process has been waited for
        for pid in self.companions:
            os.kill(pid, number)


def pair(plain: Side, recorded: Side) -> Pair:
    """One step of each, in random order."""
    if random.random() < 0.5:
        first = plain.step()
        return first, recorded.step()
    second = recorded.step()
    return plain.step(), second


def ratio(pairs: Sequence[Pair]) -> float:
    """Summed recorded time over summed plain time."""
    return sum(recorded for _, recorded in pairs) / sum(plain for plain, _ in pairs)


def interval(pairs: Sequence[Pair]) -> tuple[float, float]:
    """95 % bootstrap confidence interval of the ratio, resampled over pairs."""
    generator = random.Random(0)
    resampled = sorted(ratio(generator.choices(pairs, k=len(pairs))) for _ in range(2000))
    return resampled[50], resampled[-51]
