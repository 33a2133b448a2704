"""Make the run folder of a very long run, through the store's own writer.

    python benchmarks/_long_run_folder.py --log FOLDER [--every 0.5]

goes on with a run that was made with `ended=False`, as if something trained there, until it is ended.

Knows how such a run looks in numbers: every completion, metric and step is written as a training process
would write it, so that what is measured on the folder is what a person meets.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import time
from pathlib import Path

from grpo_tui.core import records as r
from grpo_tui.store.connection import open_writer
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.live import RankFile, write_heartbeat
from grpo_tui.store.read_series import last_training_row
from grpo_tui.store.reader import RunReader
from grpo_tui.store.writer import Writer

STEP_S = 0.9
GROUP_SIZE = 4
GROUP_EVERY = 4
"""A group at every so many steps: 100,000 steps make 25,000 groups and 100,000 completions."""
TEXT_BYTES = 2_000
FUNCTIONS = (("correctness", 2.0), ("format_reward", 0.5), ("length_penalty", 0.1))
NAMED = (
    "loss", "grad_norm", "learning_rate", "num_tokens", "completions/mean_length", "completions/min_length",
    "completions/max_length", "completions/clipped_ratio", "completions/mean_terminated_length",
    "completions/min_terminated_length", "completions/max_terminated_length", "reward", "reward_std",
    "frac_reward_zero_std", "kl", "entropy", "clip_ratio/low_mean", "clip_ratio/low_min",
    "clip_ratio/high_mean", "clip_ratio/high_max", "clip_ratio/region_mean", "step_time", "epoch",
    *(f"rewards/{name}/{what}" for name, _ in FUNCTIONS for what in ("mean", "std")),
)  # fmt: skip


def metric_row(step: int, count: int, numbers: random.Random, attempt: int = 1) -> dict[str, float]:
    """The logged row of a step: `count` metrics in the keys and the order of size that TRL has."""
    skill = 1 / (1 + math.exp(-(step / 9_000 - 2)))
    noise = numbers.gauss
    values: dict[str, float] = {}
    for key in (*NAMED, *(f"own/metric_{i}" for i in range(max(0, count - len(NAMED))))):
        values[key] = skill + noise(0, 0.1)
    values["loss"] = noise(0, 0.01)
    values["learning_rate"] = 1e-6 * (1 - step / 200_000)
    values["num_tokens"] = float(step * 2_400)
    values["step_time"] = STEP_S + abs(noise(0, 0.05))
    values["epoch"] = step / 5_000
    values["completions/mean_length"] = 320 - 120 * skill + noise(0, 12)
    return values


def batch(step: int, numbers: random.Random, began_at: float) -> r.GenerationBatch:
    """One group of completions of 2 KB."""
    skill = 1 / (1 + math.exp(-(step / 9_000 - 2)))
    words = "".join(numbers.choices("abcdefghij klmnop qrstuv\n", k=200))
    completions = []
    for index in range(GROUP_SIZE):
        right = float(numbers.random() < skill)
        rewards = (right, float(numbers.random() < 0.9), -0.1)
        total = sum(w * v for (_, w), v in zip(FUNCTIONS, rewards, strict=True))
        text = f"{step} {index} " + words * (TEXT_BYTES // len(words))
        completions.append(r.Completion(index, text, rewards, total, total - 1.0, 500, False))
    prompt = [
        {"role": "user", "content": f"What is {step} + {step % 97}? " + "Think before you answer. " * 8}
    ]
    group = r.Group(0, prompt, {"answer": str(step + step % 97)}, tuple(completions))
    return r.GenerationBatch(1, step, 0, "train", step, step, began_at + step * STEP_S, (group,))


def make(root: Path, steps: int, metrics: int, *, ended: bool = True) -> RunFolder:
    """Write the run unless it is there already, whole."""
    folder = RunFolder(root)
    whole = root / "whole"
    if whole.exists():
        return folder
    for stale in root.glob("run.db*"):
        stale.unlink()
    numbers, began_at = random.Random(7), time.time() - steps * STEP_S
    writer = Writer(open_writer(folder.database))
    config = {"path": "/tasks/long.yaml", "model": "/models/long", "grpo": {"beta": 0.04}}
    writer.write(
        [
            r.AttemptStarted(1, began_at, "here", 2**22 - 3, total_steps=steps),
            r.Fact("config", config),
            *[r.RewardFunctionInfo(1, i, name, weight) for i, (name, weight) in enumerate(FUNCTIONS)],
        ]
    )
    for first in range(1, steps + 1, 500):
        records: list[r.Record] = []
        for step in range(first, min(first + 500, steps + 1)):
            if step % GROUP_EVERY == 0:
                records.append(batch(step, numbers, began_at))
            values = metric_row(step, metrics, numbers)
            records.append(r.MetricRow(1, step, began_at + step * STEP_S, values))
            records.append(r.PhaseSpan(1, 0, "generate", step, began_at + step * STEP_S, 0.6))
            if step % 5_000 == 0:
                path = f"checkpoint-{step}"
                records.append(
                    r.CheckpointSaved(1, step, path, began_at + step * STEP_S, True, False, 4_000_000)
                )
        writer.write(records)
    if ended:
        writer.write([r.AttemptEnded(1, began_at + steps * STEP_S, "finished", steps, 0)])
    writer.close()
    whole.write_text("", encoding="utf-8")
    return folder


def go_on(root: Path, every_s: float) -> None:
    """Log a step at every so many seconds, with a group of completions, and be taken for a live run."""
    folder = RunFolder(root)
    reader = RunReader(folder.database)
    extent = last_training_row(reader)
    reader.close()
    step, metrics = (0, len(NAMED)) if extent is None else (extent[0], len(extent[1]))
    writer, numbers = Writer(open_writer(folder.database)), random.Random(11)
    writer.write(
        [r.AttemptStarted(1, time.time() - step * STEP_S, "here", os.getpid(), total_steps=2 * step)]
    )
    rank = RankFile(folder.rank(0), os.getpid())
    while True:
        step, now = step + 1, time.time()
        rank.update(
            phase="generate", phase_since=now, step=step, progress_at=now, attempt=1, step_time_s=every_s,
            reward_function=None,
        )  # fmt: skip
        write_heartbeat(folder.heartbeat, os.getpid(), os.getpid())
        values = metric_row(step, metrics, numbers)
        writer.write([batch(step, numbers, now - step * STEP_S), r.MetricRow(1, step, now, values)])
        time.sleep(every_s)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--log", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--every", type=float, default=0.5)
    options = parser.parse_args()
    go_on(options.log, options.every)
