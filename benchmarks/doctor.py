"""What `grpo-tui doctor` takes on a record of 100,000 steps with 40 metrics and 100,000 completions of 2 KB.

    python benchmarks/doctor.py [--rounds 5] [--steps 100000] [--metrics 40] [--folder DIR]

The run is the one of `long_run.py`, written once and kept. Prints the medians of the whole command, from
process start, and of its processor time. A run of 300 steps is judged in turns, which shows what starting
Python takes.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _long_run_folder import make

SHORT_STEPS = 300
BUDGET_S = 3.0


def judged(root: Path) -> tuple[float, float]:
    """Return the wall-clock and the processor seconds of one `grpo-tui doctor`."""
    begun, before = time.perf_counter(), _processor_s()
    words = [sys.executable, "-m", "grpo_tui", "doctor", str(root)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(done.stderr)
    return time.perf_counter() - begun, _processor_s() - before


def _processor_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Measure both runs in turns and print them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--metrics", type=int, default=40)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    given = parser.parse_args()
    runs = {
        steps: make(given.folder / f"grpo-tui-long-{steps}x{given.metrics}", steps, given.metrics).root
        for steps in (given.steps, SHORT_STEPS)
    }
    taken: dict[int, list[tuple[float, float]]] = {steps: [] for steps in runs}
    for _ in range(given.rounds):
        for steps, root in runs.items():
            taken[steps].append(judged(root))
    for steps, each in taken.items():
        wall, processor = (statistics.median(values) for values in zip(*each, strict=True))
        budget = f"; budget {BUDGET_S:g} s: {'met' if wall <= BUDGET_S else 'NOT met'}"
        print(
            f"{steps:,} steps: {wall:.2f} s, {processor:.2f} s processor time"
            f"{budget if steps == given.steps else ''}"
        )


if __name__ == "__main__":
    main()
