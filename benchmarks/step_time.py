"""Step time of a recorded run ÷ plain TRL, over paired steps of the same work.

Two processes train the demo with the same seed, so step i of one does exactly what step i of the other
does. They take turns, step by step; the one whose turn it is not is stopped with SIGSTOP, recorder
thread and all, so that everything recording costs falls into its own steps. With `--watched` the screen
runs too, in a pseudo-terminal, and is stopped and continued together with the recorded run.

    python benchmarks/step_time.py [--steps 1000] [--watched]

Prints the ratio of the summed times with a 95 % bootstrap confidence interval over the pairs.
"""

from __future__ import annotations

import argparse
import os
import pty
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

WARM_UP = 10
"""First steps, left out: caches and allocators settle."""


def train(recorded: bool, folder: Path, steps: int) -> None:
    """Train, handing over after every step: the child's side."""
    from grpo_tui.config.resolve import load_config
    from grpo_tui.data.load import load_prompts
    from grpo_tui.demo import DEMO_CONFIG
    from grpo_tui.rewards.loading import load_rewards
    from grpo_tui.store.layout import RunFolder
    from grpo_tui.train.build import build_trainer, reward_sources
    from grpo_tui.train.session import Session

    config = load_config(DEMO_CONFIG, [f"max_steps={steps}", "save_strategy=no", "disable_tqdm=true"])
    rewards = load_rewards(config)
    session = Session(RunFolder(folder)) if recorded else None
    trainer = build_trainer(config, rewards, load_prompts(config), folder)
    if session is not None:
        session.join(trainer, reward_sources(rewards, session.attempt))
    inner = trainer._maybe_log_save_evaluate
    begun = [0.0]

    def hand_over(*arguments: Any, **keywords: Any) -> Any:
        result = inner(*arguments, **keywords)
        print(f"step {time.perf_counter() - begun[0]:.6f}", flush=True)
        os.read(0, 1)
        begun[0] = time.perf_counter()
        return result

    trainer._maybe_log_save_evaluate = hand_over
    if session is None:
        trainer.train()
    else:
        session.desk.serve(trainer.train)
        session.close("finished")


class Side:
    """One of the two processes, and what is stopped and continued with it."""

    def __init__(self, name: str, folder: Path, steps: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--child", name, "--folder", str(folder), "--steps", str(steps)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )
        self.companions: list[int] = []
        self._read_step()
        self._stop()

    def step(self) -> float:
        """Let it do one step; seconds."""
        self._signal(signal.SIGCONT)
        assert self.process.stdin is not None
        self.process.stdin.write(b".")
        seconds = self._read_step()
        self._stop()
        return seconds

    def end(self) -> None:
        """Kill it."""
        self._signal(signal.SIGKILL)
        self.process.wait()

    def _read_step(self) -> float:
        assert self.process.stdout is not None
        while line := self.process.stdout.readline():
            if line.startswith(b"step "):
                return float(line.split()[1])
        raise SystemExit("a training process ended early")

    def _stop(self) -> None:
        self._signal(signal.SIGSTOP)

    def _signal(self, number: signal.Signals) -> None:
        for pid in (self.process.pid, *self.companions):
            os.kill(pid, number)


def watch(folder: Path) -> int:
    """Open the screen on a run in a pseudo-terminal of 120 × 40; its pid."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update({"TERM": "xterm-256color", "COLUMNS": "120", "LINES": "40"})
        os.execv(sys.executable, [sys.executable, "-m", "grpo_tui", "attach", str(folder)])

    def drain() -> None:
        try:
            while os.read(terminal, 65536):
                pass
        except OSError:
            return

    threading.Thread(target=drain, daemon=True).start()
    return pid


def ratio(pairs: list[tuple[float, float]]) -> float:
    """Summed recorded time over summed plain time."""
    return sum(recorded for _, recorded in pairs) / sum(plain for plain, _ in pairs)


def main() -> None:
    """Run both sides in turns and print the ratio."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=1000, help="paired steps")
    parser.add_argument("--watched", action="store_true", help="with the screen attached")
    parser.add_argument("--child", choices=("plain", "recorded"), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        train(options.child == "recorded", options.folder, options.steps)
        return
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        total = options.steps + WARM_UP + 2
        plain, recorded = Side("plain", root / "plain", total), Side("recorded", root / "recorded", total)
        try:
            if options.watched:
                recorded.companions.append(watch(root / "recorded"))
                time.sleep(3)
            pairs = [_pair(plain, recorded) for _ in range(options.steps + WARM_UP)][WARM_UP:]
        finally:
            plain.end()
            recorded.end()
    generator = random.Random(0)
    resampled = sorted(ratio(generator.choices(pairs, k=len(pairs))) for _ in range(2000))
    what = "watched" if options.watched else "recorded"
    print(
        f"step time, {what} ÷ plain TRL: {ratio(pairs):.4f}   95 % interval {resampled[50]:.4f} to "
        f"{resampled[-51]:.4f}   median of pairs {statistics.median(r / p for p, r in pairs):.4f}   "
        f"{len(pairs)} pairs   plain median {1000 * statistics.median(p for p, _ in pairs):.1f} ms"
    )


def _pair(plain: Side, recorded: Side) -> tuple[float, float]:
    """One step of each, in random order."""
    if random.random() < 0.5:
        first = plain.step()
        return first, recorded.step()
    second = recorded.step()
    return plain.step(), second


if __name__ == "__main__":
    main()
