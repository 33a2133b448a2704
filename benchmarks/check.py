"""How long a check takes: of the config alone, and of a dataset of 10,000 rows with its tokens and rewards.

    python benchmarks/check.py [--rows N] [--rounds N]

The first figure is what an editor waits for between two keys. The others are `grpo-tui check` on the model
that is shipped: everything in fresh processes, then again in processes that were kept, after a row has
changed; the budget of the first of them is 10 s. Beside the time on the clock stands that of the processors,
all processes together, which a busy machine stretches less; two of them share it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import tempfile
import time
from pathlib import Path

import psutil

from grpo_tui.config.resolve import inspect_config
from grpo_tui.demo import DEMO_MODEL
from grpo_tui.preflight.report import Preflight
from grpo_tui.preflight.run import Children, check
from grpo_tui.preflight.static import Launch, static_check

CONFIG = f"""\
model_name_or_path: {DEMO_MODEL}
use_cpu: true
bf16: false
max_steps: 100
save_steps: 50
max_completion_length: 40
grpo_tui:
  dataset: rows.jsonl
  columns: {{prompt: question}}
  chat: true
  rewards: [{{name: right, source: own.py:right}}]
"""
REWARD = """\
def right(completions, answer, **kwargs):
    return [float(a in c[0]["content"]) for c, a in zip(completions, answer)]
"""


def write(folder: Path, rows: int, first: int = 0) -> Path:
    """A config with its data and reward."""
    with (folder / "rows.jsonl").open("w") as file:
        for n in range(first, first + rows):
            text = f"What is {n} + {n % 97}? Say how you get there, and then the number."
            file.write(json.dumps({"question": text, "answer": str(n + n % 97)}) + "\n")
    (folder / "own.py").write_text(REWARD)
    (folder / "c.yaml").write_text(CONFIG)
    return folder / "c.yaml"


def main() -> None:
    """Print each figure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file, start = write(folder, asked.rows), Launch(root=folder / "run")
        static_check(inspect_config(file), start)
        times = []
        for _ in range(20):
            began = time.perf_counter()
            static_check(inspect_config(file), start)
            times.append(time.perf_counter() - began)
        print(f"config alone           {statistics.median(times) * 1e3:7.1f} ms")
        for number in range(asked.rounds):
            with Children() as kept:
                show(
                    f"all, round {number + 1}",
                    lambda: check(inspect_config(file), start, children=kept),
                    asked.rows,
                )
                write(folder, asked.rows, number + 1)
                show(
                    "  again, rows changed",
                    lambda: check(inspect_config(file), start, children=kept),
                    asked.rows,
                )


def show(what: str, action: object, rows: int) -> None:
    """Time one check and say what it looked at."""
    assert callable(action)
    began, used = time.perf_counter(), processors_s()
    found = action()
    assert isinstance(found, Preflight)
    clock, processors = time.perf_counter() - began, processors_s() - used
    data = found.facts.data
    assert data is not None
    assert data.looked_at == rows
    assert data.prompt_tokens is not None
    print(f"{what:22} {clock:7.2f} s   processors {processors:6.2f} s   {len(found.findings)} findings")


def processors_s() -> float:
    """Seconds of processor time of this process, of those it started, and of theirs."""
    own = sum(os.times()[:4])
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            own += sum(child.cpu_times()[:2])
    return own


if __name__ == "__main__":
    main()
