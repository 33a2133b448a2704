"""Run grpo-tui, and have its process count itself: the benchmarks' way into it, no part of the product.

    COUNTED_INTO=FILE python benchmarks/_counted.py attach RUN

Appends a JSON line every `COUNTED_EVERY` seconds (3 by default): resident bytes, objects that the garbage
collector knows, open files, threads. With `COUNTED_TRACE=1` it also traces allocations, and at the second
SIGUSR1 appends the places whose memory grew since the first.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import signal
import sys
import threading
import time
import tracemalloc
from typing import Any

import psutil

INTO = os.environ.get("COUNTED_INTO", "")
EVERY_S = float(os.environ.get("COUNTED_EVERY", "3"))
TRACED = os.environ.get("COUNTED_TRACE") == "1"
FRAMES = 8
SHOWN = 25


def count() -> None:
    """Count until the process ends."""
    process = psutil.Process()
    while True:
        time.sleep(EVERY_S)
        append(
            {
                "at": time.time(),
                "rss": process.memory_info().rss,
                "objects": len(gc.get_objects()),
                "fds": process.num_fds(),
                "threads": process.num_threads(),
            }
        )


def append(line: dict[str, Any]) -> None:
    """Write one line."""
    with open(INTO, "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


class Trace:
    """What memory grew between two signals."""

    def __init__(self) -> None:
        self._first: tracemalloc.Snapshot | None = None

    def take(self, *_: object) -> None:
        """Take a snapshot; the second one is compared with the first."""
        gc.collect()
        now = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(False, tracemalloc.__file__)])
        if self._first is None:
            self._first = now
            return
        grown = now.compare_to(self._first, "traceback")[:SHOWN]
        append(
            {
                "grown": [
                    {"bytes": g.size_diff, "count": g.count_diff, "at": g.traceback.format(limit=FRAMES)}
                    for g in grown
                    if g.size_diff > 0
                ]
            }
        )


def main() -> None:
    """Run the program; the process that it shows its screen from counts itself in a thread."""
    if TRACED:
        tracemalloc.start(FRAMES)
        signal.signal(signal.SIGUSR1, Trace().take)
    os.register_at_fork(after_in_child=lambda: threading.Thread(target=count, daemon=True).start())
    sys.argv = ["grpo-tui", *sys.argv[1:]]
    runpy.run_module("grpo_tui", run_name="__main__")


if __name__ == "__main__":
    main()
