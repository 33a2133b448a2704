"""What hours of watching leave behind: memory, open files and threads while a run goes fast.

    python benchmarks/idle.py [--minutes 3] [--rate 20] [--trace]

The real program watches a run of 20 steps a second, each with four groups and a log line, in a
pseudo-terminal, while somebody switches panes, opens and closes every dialog, turns charts and resizes the
terminal, all without an end. Prints resident memory and Python's blocks of it after a warm-up and at the
end, the slope by least squares in MB an hour, and open files and threads. `--trace` also prints where the
memory that grew was allocated, and makes everything slower.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import psutil
from _player import playing
from _terminal import COLUMNS, LINES, Terminal

WARM_UP = 0.25
"""Share of the time that is not counted: caches fill, screens are loaded for the first time."""
APART_S = 0.4
PATIENCE_S = 60.0
HISTORY = 1500
"""Steps the run has before it is watched: what keeps so much and no more is full then."""
ESCAPE = "\x1b"
KEYS = (
    "l", "l", "]", "]", "[", " ", " ", "?", "?", "=", ESCAPE, "m", ESCAPE, "S", "n", "1", "\x1b[B", "\x1b[A",
    "4", "v", "v", "x", ESCAPE, "u", ESCAPE, "\t", "\r", ESCAPE, "\x10", ESCAPE, "z", "z", "1", "4",
)  # fmt: skip
"""A person's keys; none of them steers the run: what asks is answered with no."""
SIZES = ((80, 24), (200, 50), (100, 30), (COLUMNS, LINES))


def actions(terminal: Terminal) -> Iterator[Callable[[], None]]:
    """Keys and sizes in turns, for ever."""
    sizes = cycle(SIZES)
    while True:
        for key in KEYS:
            yield lambda key=key: terminal.type(key.encode())  # type: ignore[misc]
        yield lambda: terminal.resize(*next(sizes))


def bustle(terminal: Terminal, seconds: float, doing: Iterator[Callable[[], None]]) -> None:
    """Keep it busy for so long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        next(doing)()
        time.sleep(APART_S)
        terminal.pass_over()
    if not terminal.alive:
        raise SystemExit("the program ended while it was watched:\n" + terminal.tail.decode(errors="replace"))


def shows_the_run(terminal: Terminal) -> bool:
    """Whether, after all that, the pane is painted."""
    terminal.type(ESCAPE.encode())
    time.sleep(0.5)
    terminal.type(b"4")
    time.sleep(0.5)
    terminal.pass_over()
    terminal.resize(COLUMNS + 1, LINES)
    end = time.monotonic() + PATIENCE_S
    while "correctness" not in terminal.shown():
        if time.monotonic() > end:
            return False
        time.sleep(0.2)
    return True


def lines_of(file: Path) -> list[dict[str, Any]]:
    """What the program counted."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def slope_per_hour(samples: Sequence[dict[str, Any]], name: str) -> float:
    """Least squares over the samples."""
    times = [sample["at"] for sample in samples]
    return 3600 * statistics.linear_regression(times, [sample[name] for sample in samples]).slope


def told(samples: Sequence[dict[str, Any]]) -> str:
    """The result in three lines; ends are medians of a fifth, for collections come in waves."""
    fifth = max(1, len(samples) // 5)

    def ends(name: str) -> tuple[float, float]:
        values = [sample[name] for sample in samples]
        return statistics.median(values[:fifth]), statistics.median(values[-fifth:])

    rss, blocks, fds, threads = (ends(name) for name in ("rss", "blocks", "fds", "threads"))
    return (
        f"memory {rss[0] / 1e6:.1f} MB after the warm-up, {rss[1] / 1e6:.1f} MB at the end, "
        f"slope {slope_per_hour(samples, 'rss') / 1e6:+.1f} MB an hour\n"
        f"blocks {blocks[0]:,.0f} and {blocks[1]:,.0f}, slope "
        f"{slope_per_hour(samples, 'blocks'):+,.0f} an hour\n"
        f"open files {fds[0]:.0f} and {fds[1]:.0f}   threads {threads[0]:.0f} and {threads[1]:.0f}"
    )


def tell_held(held: Sequence[dict[str, Any]]) -> None:
    """Where what came after the warm-up was allocated, most of it first."""
    for place in held[:12]:
        print(f"{place['bytes'] / 1e3:.0f} KB in {place['count']} pieces")
        print("\n".join(f"    {line.strip()}" for line in place["at"]))


def main() -> None:
    """Watch, bustle, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--rate", type=float, default=20.0, help="steps a second of the watched run")
    parser.add_argument("--trace", action="store_true", help="say where memory grew")
    options = parser.parse_args()
    seconds = 60 * options.minutes
    with tempfile.TemporaryDirectory() as temporary:
        root, counts = Path(temporary), Path(temporary) / "counts"
        env = {"COUNTED_INTO": str(counts)}
        counted = Path(__file__).with_name("_counted.py")
        with playing(root / "run", 1 / options.rate, history=HISTORY):
            terminal = Terminal([sys.executable, counted, "attach", root / "run"], folder=root, env=env)
            try:
                terminal.since_start("newest group")
                doing = actions(terminal)
                bustle(terminal, WARM_UP * seconds, doing)
                warm = len(lines_of(counts))
                signal_screen(terminal, options.trace)
                bustle(terminal, (1 - WARM_UP) * seconds, doing)
                signal_screen(terminal, options.trace)
                found = lines_of(counts)
                while options.trace and not any("held" in line for line in found):
                    time.sleep(1)
                    found = lines_of(counts)
                if not shows_the_run(terminal):
                    raise SystemExit("after all that the run is not shown:\n" + terminal.shown())
            finally:
                terminal.end()
                print(counts.with_name("counts.fault").read_text(errors="replace"), end="")
    samples = [line for line in found[warm:] if "rss" in line]
    print(f"watched for {options.minutes:g} minutes, {options.rate:g} steps a second")
    print(told(samples))
    tell_held(next((line["held"] for line in found if "held" in line), ()))


def signal_screen(terminal: Terminal, trace: bool) -> None:
    """Have the process that shows the screen trace; it is the one that a guard started."""
    if not trace:
        return
    for process in psutil.Process(terminal.pid).children():
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGUSR1)
    time.sleep(3)


if __name__ == "__main__":
    main()
