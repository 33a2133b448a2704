"""The list of 200 runs, two of them live: how soon it is there, what it costs, how fast a key is answered.

    python benchmarks/runs_list.py [--runs 200] [--steps 400] [--rounds 5] [--seconds 20] [--keys 20]

The runs are written through the real writer into a temporary folder; two live ones are played at one step a
second and at two. Measures `grpo-tui runs` from start to end, the screen from `exec` until the first runs and
until all are listed, its processor share and bytes over a stretch without keys, and the time from a key until
its change is painted while the list refreshes. Then one row of a run of 100,000 steps, read afresh.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _long_run_folder import metric_row
from _player import playing
from _terminal import Key, Terminal

from grpo_tui.config.resolve import inspect_config, startable
from grpo_tui.core import records as r
from grpo_tui.demo import DEMO_CONFIG
from grpo_tui.present.runs_view import read_run_row
from grpo_tui.store.connection import open_writer
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.spec import RunSpec
from grpo_tui.store.writer import Writer

METRICS = 30
FAMILY = 4
"""Number of runs of which each but the first is a fork of the one before."""
CONFIG = startable(inspect_config(DEMO_CONFIG, [], world_size=1)).to_json()
LONG_STEPS = 100_000
KEYS = (
    Key("s", "by reward"), Key("s", "by name"), Key("s", "by state"), Key("s", "by ", there=False),
    Key(" ", "1 marked"), Key("\x1b[27u", "marked", there=False),
    Key("/", "words, -word"), Key("0190", "1 match"), Key("\x1b[27u", "match", there=False),
)  # fmt: skip
"""In an order after which the list is as before; escape as kitty's protocol spells it: it needs no wait."""


def row(step: int, metrics: int, numbers: random.Random) -> dict[str, float]:
    """A logged row; a single metric is the reward."""
    return metric_row(step, metrics, numbers) if metrics > 1 else {"reward": numbers.gauss(1, 0.1)}


def make_run(
    root: Path, steps: int, metrics: int, numbers: random.Random, parent: Path | None = None
) -> None:
    """An ended run of so many steps, without completions: the list reads none."""
    folder = RunFolder(root)
    root.mkdir(parents=True)
    RunSpec(CONFIG, forked_from=str(parent / "checkpoint-40") if parent else None).write(folder.spec)
    writer = Writer(open_writer(folder.database))
    began_at = time.time() - steps - numbers.randrange(10**6)
    writer.write([r.AttemptStarted(1, began_at, "here", 2**22 - 3, total_steps=steps)])
    writer.write([r.Fact("config", {"path": "/tasks/gsm8k.yaml", "model": "Qwen/Qwen3-0.6B", "grpo": {}})])
    for first in range(1, steps + 1, 2000):
        page = range(first, min(first + 2000, steps + 1))
        writer.write([r.MetricRow(1, s, began_at + s, row(s, metrics, numbers)) for s in page])
    failed = numbers.random() < 0.3
    error = {"cause": "reward function 'correctness' failed (rewards.py:12): KeyError: 'answer'"}
    state = "failed" if failed else "finished"
    writer.write([r.AttemptEnded(1, began_at + steps, state, steps, 0, error if failed else None)])
    writer.close()


def command_s(root: Path) -> float:
    """Seconds that `grpo-tui runs` takes."""
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "grpo_tui", "runs"], cwd=root, check=True, stdout=subprocess.DEVNULL
    )
    return time.perf_counter() - start


def started_s(root: Path, runs: int) -> tuple[float, float]:
    """Seconds until the first runs and until all of them are on the screen."""
    terminal = Terminal([sys.executable, "-m", "grpo_tui"], folder=root)
    try:
        return terminal.since_start("run-0"), terminal.since_start(f"{runs} runs   2 live")
    finally:
        terminal.end()


def watched(root: Path, runs: int, seconds: float, keys: int) -> str:
    """Processor share, bytes, and the time from key to paint."""
    terminal = Terminal([sys.executable, "-m", "grpo_tui"], folder=root)
    try:
        terminal.since_start(f"{runs} runs   2 live")
        time.sleep(4)
        cpu_s, read = terminal.cpu_s(), terminal.bytes_read
        time.sleep(seconds)
        share = (terminal.cpu_s() - cpu_s) / seconds
        rate = (terminal.bytes_read - read) / seconds
        taken = sorted(terminal.press(key) for _ in range(max(1, keys // len(KEYS))) for key in KEYS)
    finally:
        terminal.end()
    p95 = taken[min(len(taken) - 1, int(0.95 * len(taken)))]
    return (
        f"while listed: {100 * share:.1f} % of a core, {rate / 1000:.2f} KB/s to the terminal; key to paint "
        f"median {1000 * statistics.median(taken):.0f} ms, p95 {1000 * p95:.0f} ms ({len(taken)} keys)"
    )


def main() -> None:
    """Make the runs, measure, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--keys", type=int, default=24)
    asked = parser.parse_args()
    numbers = random.Random(7)
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        for number in range(asked.runs - 2):
            path = root / "outputs" / f"run-{number:04}"
            parent = path.with_name(f"run-{number - 1:04}") if number % FAMILY else None
            make_run(path, asked.steps, METRICS, numbers, parent)
        make_run(root / "long", LONG_STEPS, 1, numbers)
        long = root / "long"
        rows = []
        for _ in range(9):
            start = time.perf_counter()
            read_run_row(long)
            rows.append(time.perf_counter() - start)
        told = f"one row of a run of {LONG_STEPS:,} steps: median {1000 * statistics.median(rows):.1f} ms"
        print(told, flush=True)
        os.rename(long, root / ".long")  # hidden from the list
        with playing(root / "outputs" / "live-a", 1.0), playing(root / "outputs" / "live-b", 0.5):
            commands = [command_s(root) for _ in range(asked.rounds + 1)][1:]
            print(f"grpo-tui runs, {asked.runs} runs: median {1000 * statistics.median(commands):.0f} ms")
            starts = [started_s(root, asked.runs) for _ in range(asked.rounds + 1)][1:]
            first, whole = (statistics.median(times) for times in zip(*starts, strict=True))
            print(f"screen: first runs after {1000 * first:.0f} ms, all after {1000 * whole:.0f} ms")
            print(watched(root, asked.runs, asked.seconds, asked.keys))


if __name__ == "__main__":
    main()
