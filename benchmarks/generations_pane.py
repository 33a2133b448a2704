"""How soon the pane Generations shows a run of 100,000 completions of 2 KB, and how fast it moves and finds.

    python benchmarks/generations_pane.py [--completions 100000] [--rounds N] [--keys N] [--folder DIR]

In a real pseudo-terminal, on an ended run (the folder of `completions.py`) beside one of 640 completions, in
turns: from the key `5` until the first rows of the list are painted (the budget is 0.5 s and 60 MB); a key
that moves the cursor until it is painted, through the list; a query until its number of hits is painted.
Medians, p95 and slowest, with the processor time of the program.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from _completions_folder import GROUP_SIZE, GROUPS, make
from _terminal import Key, Terminal, summed

from grpo_tui.store.layout import RunFolder

SHORT = 640
SETTLED_S = 2.0
PATIENCE_S = 20.0
QUERIES = (
    ("text, in one of a thousand", '"zebra"'),
    ("text, in nearly all", '"hundred"'),
    ("regex, with a word in it", r'text ~ "zebra</think> <answer>\d+<"'),
    ("regex, without any word in it", r'text ~ "[A-Z]{3}"'),
    ("query", "reward<0.2 and tokens>400"),
)
MOVES = ("\x1b[B", "\x1b[B", "\x1b[6~", "\x1b[B")
"""Down, and a page down now and then."""


def main() -> None:
    """Make the runs, measure, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--completions", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--keys", type=int, default=40)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    options = parser.parse_args()
    folders = {
        count: make(options.folder / f"grpo-tui-completions-{count}", count)
        for count in (options.completions, SHORT)
    }
    print(f"load {os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} cores")
    times: dict[str, list[float]] = {}
    for number in range(options.rounds + 1):
        for count, folder in folders.items():
            keys = options.keys if count != SHORT and number == options.rounds else 0
            for what, took in _opened(folder, count, keys).items():
                if number:  # the first round fills the file cache
                    times.setdefault(what, []).extend(took)
    for what, values in times.items():
        unit, scale = ("MB", 1.0) if "MB" in what else ("ms", 1000.0)
        p95 = sorted(values)[int(0.95 * (len(values) - 1))] * scale
        print(
            f"{what:58}{statistics.median(values) * scale:7.0f} {unit} median{p95:7.0f} p95"
            f"{max(values) * scale:7.0f} at most  ({len(values)})"
        )
    print(f"load at the end {os.getloadavg()[0]:.1f}")


def _opened(folder: RunFolder, count: int, keys: int) -> dict[str, list[float]]:
    """One program: the pane, and with `keys` the moves and the queries too."""
    steps = -(-count // (GROUPS * GROUP_SIZE))
    terminal = Terminal([sys.executable, "-m", "grpo_tui", "attach", str(folder.root)])
    try:
        terminal.since_start("What is")
        time.sleep(SETTLED_S)
        before, used = _own_mb(terminal), terminal.cpu_s()
        name = f"{steps * GROUPS * GROUP_SIZE:,} completions: "
        times = {f"{name}5 -> first rows": [terminal.press(Key("5", f"{steps:,} What is"))]}
        time.sleep(SETTLED_S)
        times[f"{name}processor for it"] = [terminal.cpu_s() - used]
        times[f"{name}MB more"] = [_own_mb(terminal) - before]
        if keys:
            times |= _moved(terminal, keys)
            times |= _found(terminal)
            times[f"{name}MB more after searches, with children"] = [_own_mb(terminal) - before]
        return times
    finally:
        terminal.end()


def _moved(terminal: Terminal, keys: int) -> dict[str, list[float]]:
    """Moves of the cursor; a line's question tells that the cursor is on another group."""
    taken: list[float] = []
    numbers = random.Random(3)
    for number in range(keys):
        chosen = next(line for line in terminal.shown().split("\n") if line.startswith("❙"))[:40]
        time.sleep(numbers.uniform(0.05, 0.3))
        taken.append(terminal.press(Key(MOVES[number % len(MOVES)], chosen, there=False)))
    return {"a move in the list -> painted": taken}


def _found(terminal: Terminal) -> dict[str, list[float]]:
    """Queries, typed at once; from enter until hits are there, the first and all."""
    times: dict[str, list[float]] = {}
    for what, line in QUERIES:
        for keys in (b"/", b"\x15", line.encode()):  # in one piece they would not be taken for keys
            terminal.type(keys)
            time.sleep(0.5)
        end = time.monotonic() + PATIENCE_S
        while line not in terminal.shown() and time.monotonic() < end:
            time.sleep(0.05)
        used = terminal.cpu_s()
        first, whole = _hits(terminal, line)
        times[f"{what}: enter -> first hits"] = [first]
        times[f"{what}: enter -> all hits"] = [whole]
        times[f"{what}: processor for it"] = [terminal.cpu_s() - used]
    return times


def _hits(terminal: Terminal, line: str) -> tuple[float, float]:
    """Seconds from enter until another number of hits stands beside the query, and until it stays."""

    def said() -> str:
        beside = next((text for text in terminal.shown().split("\n") if line in text), "")
        number = re.search(r"([\d,]+) of ", beside.split(line, 1)[-1])
        return number[1] if number else ""

    before, last = said(), ""
    changes: list[float] = []
    begun = time.perf_counter()
    terminal.type(b"\r")
    while time.perf_counter() - (begun + (changes[-1] if changes else PATIENCE_S)) < SETTLED_S:
        now = said()
        if now and now not in (before, last):  # what was found before stands there until then
            changes.append(time.perf_counter() - begun)
            last = now
        time.sleep(0.01)
    if not changes:
        raise RuntimeError(f"no hits shown for {line}\n{terminal.shown()}")
    return changes[0], changes[-1]


def _own_mb(terminal: Terminal) -> float:
    """Megabytes of the program and what it started, without what is shared, such as the mapped file."""
    return summed(lambda process: float(process.memory_full_info().uss), terminal.pid) / 1e6


if __name__ == "__main__":
    main()
