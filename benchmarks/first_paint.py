"""First paint of the program ÷ a bare Textual app with as many tabs, both from process start.

    python benchmarks/first_paint.py [--rounds 15] [--leet PATH/TO/wandb]

All are started in turns in a pseudo-terminal of 120 × 40; the time counts from `exec` until the first
tab's name is on the terminal. Prints both medians and their ratio. With `--leet` also the time until the
numbers of one and the same run are painted, by `grpo-tui attach RUN` and by W&B LEET.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import _bare as bare
import _leet as leet
from _player import playing
from _terminal import Terminal


def painted_s(words: Sequence[str], text: str, folder: Path, env: Mapping[str, str] | None = None) -> float:
    """Seconds from `exec` until the text has been painted."""
    terminal = Terminal(words, folder=folder, env=env)
    try:
        return terminal.since_start(text)
    finally:
        terminal.end()


def medians(programs: Mapping[str, tuple[list[str], str]], folder: Path, rounds: int) -> dict[str, float]:
    """Median seconds of each program, started in turns; the first round only warms the file cache."""
    taken: dict[str, list[float]] = {name: [] for name in programs}
    for number in range(rounds + 1):
        for name in random.sample(sorted(programs), k=len(programs)):
            seconds = painted_s(*programs[name], folder, leet.QUIET if name == "LEET" else None)
            if number:
                taken[name].append(seconds)
    return {name: statistics.median(found) for name, found in taken.items()}


def compare_with_leet(wandb: Path, root: Path, rounds: int) -> None:
    """How long both take to show the numbers of one live run."""
    rows = root / "rows"
    with playing(root / "run", 1.0, rows=rows), leet.logging(wandb, rows, root / "wandb") as run:
        program = [sys.executable, "-m", "grpo_tui", "attach", str(root / "run")]
        programs = {
            "grpo-tui": (program, "correctness"),
            "LEET": (leet.words(wandb, run), "entropy"),
        }
        found = medians(programs, root, rounds)
    print(
        f"until a live run's numbers are painted: grpo-tui {1000 * found['grpo-tui']:.0f} ms, LEET "
        f"{1000 * found['LEET']:.0f} ms   medians of {rounds}"
    )


def main() -> None:
    """Measure in turns and print the ratio of the medians."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--leet", type=Path, metavar="WANDB", help="the wandb executable, for LEET")
    options = parser.parse_args()
    programs = {"bare": (bare.words(clock=False), bare.FIRST)}
    programs["grpo-tui"] = ([sys.executable, "-m", "grpo_tui"], bare.FIRST)
    with tempfile.TemporaryDirectory() as folder:
        found = medians(programs, Path(folder), options.rounds)
        theirs, ours = found["bare"], found["grpo-tui"]
        print(
            f"first paint, grpo-tui ÷ bare Textual: {ours / theirs:.2f}   medians {1000 * ours:.0f} ms and "
            f"{1000 * theirs:.0f} ms   {options.rounds} rounds each"
        )
        wandb = leet.found(options.leet)
        if wandb is not None:
            compare_with_leet(wandb, Path(folder), options.rounds)


if __name__ == "__main__":
    main()
