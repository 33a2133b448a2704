"""Opening and watching a run of 100,000 steps with 40 metrics and 100,000 completions of 2 KB.

    python benchmarks/long_run.py [--rounds 5] [--keys 100] [--runs 3] [--steps 100000] [--metrics 40]
                                  [--folder DIR]

The run is written once, through the real writer, and kept in a folder under the temporary one (about 550 MB;
half a minute to some minutes). Beside it a run of 300 steps is opened, in turns, so that what the length
costs is told apart from what a start costs. Each is opened by `grpo-tui attach` in a pseudo-terminal of
120 × 40, from process start, until the charts are painted and until the newest completions are.

Prints medians: opening, resident memory of the program some seconds later, folding the whole run and one new
row without a terminal, and key to paint in copies of the run, each while another process logs twice a second.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from _long_run_folder import batch, make, metric_row
from _terminal import Key, Terminal, summed

from grpo_tui.core import records as r
from grpo_tui.present.run_state import DeltaReader, RunState
from grpo_tui.store.connection import open_writer
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.reader import RunReader
from grpo_tui.store.status import read_status
from grpo_tui.store.writer import Writer

SHORT_STEPS = 300
SETTLED_S = 6.0
KEYS = (
    Key("?", "help ─"),
    Key("?", "help ─", there=False),
    Key(" ", "view held"),
    Key(" ", "view held", there=False),
)


class Watcher:
    """Looks at a run as the screen's poller does, without a thread."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self.reader = RunReader(folder.database)
        self._deltas = DeltaReader(self.reader)
        self._state = RunState(folder.root.name, str(folder.root))

    def look(self) -> bool:
        """Fold one page and freeze the view; True while another page is to come."""
        delta = self._deltas.read()
        self._state.fold(delta)
        self._state.view(read_status(self.folder.root, self.reader), time.time())
        return delta.more


def seconds(work: Callable[[], object]) -> float:
    """How long a piece of work takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def resident_mb(pid: int) -> float:
    """Megabytes of a program and what it started."""
    return summed(lambda process: float(process.memory_info().rss), pid) / 1e6


def opened(folder: RunFolder, charts: str) -> tuple[float, float, float, float]:
    """Seconds to the charts and to the completions, processor seconds by then, megabytes some seconds later.

    Args:
        folder: The run.
        charts: A text that is on the screen once the charts are.
    """
    terminal = Terminal([sys.executable, "-m", "grpo_tui", "attach", str(folder.root)])
    try:
        first = terminal.since_start(charts)
        group = first if "What is" in terminal.shown() else terminal.since_start("What is")
        busy = terminal.cpu_s()
        time.sleep(SETTLED_S)
        return first, group, busy, resident_mb(terminal.pid)
    finally:
        terminal.end()


def measure_opening(long: RunFolder, short: RunFolder, steps: int, rounds: int) -> None:
    """Open both in turns."""
    found: dict[str, list[tuple[float, float, float, float]]] = {"long": [], "short": []}
    for number in range(rounds + 1):
        for name, folder, end in (("long", long, steps), ("short", short, SHORT_STEPS)):
            row = opened(folder, f"{end:,}")
            if number:  # the first round fills the file cache
                found[name].append(row)
    for name, rows in found.items():
        first, group, busy, memory = (statistics.median(column) for column in zip(*rows, strict=True))
        print(
            f"{name:<6} charts {first:5.2f} s   completions {group:5.2f} s"
            f"   processor {busy:5.2f} s   resident {memory:5.0f} MB"
        )
    added = [statistics.median(row[3] for row in rows) for rows in found.values()]
    print(f"memory that the length adds: {added[0] - added[1]:.0f} MB")


def measure_folding(long: RunFolder, rounds: int) -> None:
    """First page, all pages, one new row, in this process."""
    firsts, wholes = [], []
    for _ in range(rounds):
        watcher = Watcher(long)
        firsts.append(seconds(watcher.look))
        start = time.perf_counter()
        while watcher.look():
            pass
        wholes.append(firsts[-1] + time.perf_counter() - start)
    first, whole = statistics.median(firsts), statistics.median(wholes)
    print(f"folded: first page {1000 * first:.0f} ms, all pages {1000 * whole:.0f} ms")


def measure_new_rows(live: RunFolder, steps: int, metrics: int) -> None:
    """One row and one group more: writing it, and the look that brings it."""
    watcher = Watcher(live)
    while watcher.look():
        pass
    writer, numbers = Writer(open_writer(live.database)), random.Random(3)
    writes, looks = [], []
    for step in range(steps + 1, steps + 65):
        records = [
            batch(step, numbers, 0.0),
            r.MetricRow(1, step, time.time(), metric_row(step, metrics, numbers)),
        ]
        writes.append(seconds(lambda records=records: writer.write(records)))
        looks.append(seconds(watcher.look))
    writer.close()
    mean, worst = statistics.mean(writes), max(writes)
    print(f"a row and a group: written in {1000 * mean:.1f} ms on average, {1000 * worst:.1f} ms at most")
    usual, worst = statistics.median(looks), max(looks)
    print(f"a look that brings them: {1000 * usual:.1f} ms, {1000 * worst:.1f} ms at most")


@contextlib.contextmanager
def logging(live: RunFolder) -> Iterator[None]:
    """Another process that logs twice a second."""
    program = Path(__file__).with_name("_long_run_folder.py")
    process = subprocess.Popen([sys.executable, program, "--log", live.root, "--every", "0.5"])
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def measure_keys(live: RunFolder, keys: int) -> None:
    """Key to paint while it is logged."""
    with logging(live):
        time.sleep(2)
        terminal = Terminal([sys.executable, "-m", "grpo_tui", "attach", str(live.root)])
        try:
            terminal.since_start("What is")
            time.sleep(3)
            taken = []
            for number in range(keys):
                time.sleep(random.uniform(0.05, 0.35))
                taken.append(terminal.press(KEYS[number % len(KEYS)]))
        finally:
            terminal.end()
    p95 = sorted(taken)[int(0.95 * (len(taken) - 1))]
    print(
        f"key to paint: median {1000 * statistics.median(taken):.0f} ms, p95 {1000 * p95:.0f} ms, at most "
        f"{1000 * max(taken):.0f} ms, {keys} keys   load {os.getloadavg()[0]:.1f}"
    )


def main() -> None:
    """Make the runs, measure, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--keys", type=int, default=100)
    parser.add_argument("--runs", type=int, default=3, help="runs in which keys are pressed")
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--metrics", type=int, default=40)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    options = parser.parse_args()
    steps, metrics = options.steps, options.metrics
    long = make(options.folder / f"grpo-tui-long-{steps}x{metrics}", steps, metrics)
    short = make(options.folder / f"grpo-tui-long-{SHORT_STEPS}x{metrics}", SHORT_STEPS, metrics)
    print(f"{steps:,} steps, {metrics} metrics, run.db {long.database.stat().st_size / 1e6:.0f} MB")
    measure_opening(long, short, steps, options.rounds)
    measure_folding(long, options.rounds)
    for number in range(options.runs):
        with tempfile.TemporaryDirectory(dir=options.folder) as copies:
            live = RunFolder(Path(copies) / "live")
            live.root.mkdir()
            shutil.copyfile(long.database, live.database)
            if not number:
                measure_new_rows(live, steps, metrics)
            measure_keys(live, options.keys)


if __name__ == "__main__":
    main()
