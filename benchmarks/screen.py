"""What the screen costs and how fast it answers, while it watches a live run in a terminal of 120 × 40.

    python benchmarks/screen.py [--seconds 30] [--keys 20] [--leet PATH/TO/wandb | --alone]

All programs run at once, each in a pseudo-terminal of its own, so that the machine's noise falls on all of
them: grpo-tui on a run of one step a second and on one of two, a bare Textual app with as many tabs and a
clock that ticks once a second, and, with `--leet`, W&B LEET on the same two runs as wandb writes them. The
runs are played into their folders through the real writer; nothing is trained.

Prints for each: processor share (user and system) and bytes to the terminal over a stretch without keys,
then the time from a key until its change is painted, keys in turns. LEET needs `pip install wandb` in a
virtual environment of its own; nothing is fetched here.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import _bare as bare
import _leet as leet
from _player import playing
from _terminal import Key, Terminal

RATES = (1.0, 0.5)
"""Seconds a step of the watched runs takes."""
KEYS = (
    Key("?", "help \u2500"),
    Key("?", "help \u2500", there=False),
    Key(" ", "view held"),
    Key(" ", "view held", there=False),
    Key("1", "newest group", there=False),
    Key("4", "newest group"),
)


@dataclass(slots=True)
class Watched:
    """A program under measurement, and what was found."""

    name: str
    terminal: Terminal
    keys: tuple[Key, ...]
    cpu_share: float = 0.0
    bytes_per_s: float = 0.0
    latencies_s: list[float] = field(default_factory=list)

    def line(self) -> str:
        """A row of the table."""
        found = sorted(self.latencies_s)
        p95 = found[min(len(found) - 1, int(0.95 * len(found)))]
        return (
            f"{self.name:<34} {100 * self.cpu_share:6.1f} % {self.bytes_per_s / 1000:9.2f} KB/s "
            f"{1000 * statistics.median(found):8.0f} ms {1000 * p95:6.0f} ms   {len(found)} keys"
        )


@contextlib.contextmanager
def watched(root: Path, wandb: Path | None, *, alone: bool) -> Iterator[list[Watched]]:
    """All programs, running and painted; `alone` is ours on the fastest run."""
    with contextlib.ExitStack() as stack:
        programs: list[Watched] = []

        def add(name: str, words: list[str], painted: str, keys: tuple[Key, ...], **env: str) -> None:
            terminal = Terminal(words, folder=root, env=env)
            stack.callback(terminal.end)
            terminal.since_start(painted)
            programs.append(Watched(name, terminal, keys))

        for every_s in RATES[-1:] if alone else RATES:
            rate = f"{1 / every_s:.0f} step{'s' if every_s < 1 else ''} a second"
            folder, rows = root / f"run-{every_s}", root / f"rows-{every_s}"
            stack.enter_context(playing(folder, every_s, rows=rows))
            program = [sys.executable, "-m", "grpo_tui", "attach", str(folder)]
            add(f"grpo-tui, {rate}", program, "newest group", KEYS)
            if wandb is not None:
                run = stack.enter_context(leet.logging(wandb, rows, root / f"wandb-{every_s}"))
                add(f"LEET, {rate}", leet.words(wandb, run), "entropy", leet.KEYS, **leet.QUIET)
        if not alone:
            add("bare Textual, a clock", bare.words(clock=True), bare.FIRST, bare.KEYS)
        yield programs


def measure_quiet(programs: list[Watched], seconds: float) -> None:
    """Processor share and bytes while nobody presses a key."""
    before = [(p.terminal.cpu_s(), p.terminal.bytes_read, time.perf_counter()) for p in programs]
    time.sleep(seconds)
    for program, (cpu_s, count, at) in zip(programs, before, strict=True):
        passed = time.perf_counter() - at
        program.cpu_share = (program.terminal.cpu_s() - cpu_s) / passed
        program.bytes_per_s = (program.terminal.bytes_read - count) / passed


def measure_keys(programs: list[Watched], rounds: int) -> None:
    """Key to paint, keys of all programs in turns."""
    for number in range(rounds):
        for program in programs:
            time.sleep(random.uniform(0.05, 0.35))  # keys fall anywhere within a step
            key = program.keys[number % len(program.keys)]
            program.latencies_s.append(program.terminal.press(key))


def main() -> None:
    """Watch, measure, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=30, help="stretch without keys")
    parser.add_argument("--keys", type=int, default=20, help="keys for each program")
    parser.add_argument("--leet", type=Path, metavar="WANDB", help="the wandb executable, for LEET")
    parser.add_argument("--alone", action="store_true", help="ours only, at two steps a second")
    options = parser.parse_args()
    wandb = None if options.alone else leet.found(options.leet)
    with (
        tempfile.TemporaryDirectory() as folder,
        watched(Path(folder), wandb, alone=options.alone) as programs,
    ):
        time.sleep(3)
        measure_quiet(programs, options.seconds)
        measure_keys(programs, options.keys)
    print(f"{'':<34} {'processor':>8} {'terminal':>14} {'key p50':>11} {'p95':>9}   {options.seconds:.0f} s")
    for program in programs:
        print(program.line())


if __name__ == "__main__":
    main()
