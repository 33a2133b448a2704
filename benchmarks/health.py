"""What judging a run costs while it is recorded: milliseconds a step, on the recorder's thread.

    python benchmarks/health.py [--steps 400] [--characters 2000]

Judges a healthy run of 64 completions a step in groups of eight, scored by four functions, and one whose
policy breaks, as the recorder does: with its records at hand. Writing them is not counted.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from pathlib import Path

from grpo_tui.core import records as r
from grpo_tui.health.live import LiveVerdict
from grpo_tui.store.connection import open_writer
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.writer import Writer

GROUPS, SIZE, FUNCTIONS = 8, 8, 4
BUDGET_MS = 1.0


def records_of(step: int, chance: random.Random, characters: int, *, broken: bool) -> list[r.Record]:
    """What is recorded of a step."""
    words = [f"word{chance.randrange(5_000)}" for _ in range(characters // 8)]
    groups = []
    for group in range(GROUPS):
        members = []
        for n in range(SIZE):
            chance.shuffle(words)
            rewards = tuple(0.0 if broken else float(chance.random() < 0.5) for _ in range(FUNCTIONS))
            total = sum(rewards)
            members.append(r.Completion(n, " ".join(words), rewards, total, total - 2, 300, broken))
        groups.append(r.Group(group, f"prompt {group}", {}, tuple(members)))
    metrics = {
        "reward": 0.0 if broken else 2 + chance.gauss(0, 0.1),
        "reward_std": 1.0,
        "entropy": 0.01 if broken else 0.5,
        "kl": 0.1,
        "grad_norm": 0.4,
        "learning_rate": 1e-5,
        "step_time": 2.0,
        "completions/mean_length": 300.0,
        "completions/clipped_ratio": float(broken),
    }
    spans = [r.PhaseSpan(1, 0, name, step, 0.0, 0.7) for name in ("generate", "reward", "update")]
    batch = r.GenerationBatch(1, step, 0, "train", step, step, 0.0, tuple(groups))
    return [batch, *spans, r.MetricRow(1, step, 0.0, metrics)]


def measured(steps: int, characters: int, *, breaks: bool) -> list[float]:
    """Milliseconds of each step; in a run that breaks it does so after a quarter."""
    chance = random.Random(7)
    with tempfile.TemporaryDirectory(prefix="grpo-tui-health-") as name:
        folder = RunFolder(Path(name))
        writer = Writer(open_writer(folder.database))
        first: list[r.Record] = [r.AttemptStarted(1, 0.0, "host", 1)]
        first += [r.RewardFunctionInfo(1, n, f"reward {n}", 1.0) for n in range(FUNCTIONS)]
        writer.write(first)
        judge = LiveVerdict(folder)
        judge(first)
        spent = []
        for step in range(1, steps + 1):
            records = records_of(step, chance, characters, broken=breaks and step > steps // 4)
            begun = time.thread_time()
            judge(records)
            spent.append(1000 * (time.thread_time() - begun))
        writer.close()
    return spent[2:]  # the first opens the record


def main() -> None:
    """Measure both runs and print them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--characters", type=int, default=2_000)
    given = parser.parse_args()
    for title, breaks in (("healthy", False), ("broken", True)):
        spent = sorted(measured(given.steps, given.characters, breaks=breaks))
        middle, high = statistics.median(spent), spent[int(0.95 * len(spent))]
        word = "met" if middle <= BUDGET_MS else "NOT met"
        print(f"{title:8} {middle:6.3f} ms a step, p95 {high:.3f} ms; budget {BUDGET_MS:g} ms: {word}")


if __name__ == "__main__":
    main()
