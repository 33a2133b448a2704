"""Run grpo-tui, and have its process count itself: the benchmarks' way into it, no part of the product.

    COUNTED_INTO=FILE python benchmarks/_counted.py attach RUN

Appends a JSON line every `COUNTED_EVERY` seconds (3 by default): resident bytes, blocks of memory that
Python holds, open files, threads. From the first SIGUSR1 on it also traces allocations, and at the second
it appends the places that hold what was allocated since.
"""

from __future__ import annotations

import faulthandler
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
                "blocks": sys.getallocatedblocks(),
                "fds": process.num_fds(),
                "threads": process.num_threads(),
            }
        )


def append(line: dict[str, Any]) -> None:
    """Write one line."""
    with open(INTO, "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def trace(*_: object) -> None:
    """Begin to trace allocations; the second time, write what was allocated since and is still held."""
    if not tracemalloc.is_tracing():
        tracemalloc.start(FRAMES)
        return
    gc.collect()
    taken = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(False, tracemalloc.__file__)])
    held = taken.statistics("traceback")[:SHOWN]
    append({"held": [{"bytes": h.size, "count": h.count, "at": h.traceback.format()} for h in held]})


def main() -> None:
    """Run the program; the process that it shows its screen from counts itself in a thread."""
    signal.signal(signal.SIGUSR1, trace)
    faulthandler.enable(open(INTO + ".fault", "w"))  # noqa: SIM115 - it stays open until the process ends
    os.register_at_fork(after_in_child=lambda: threading.Thread(target=count, daemon=True).start())
    sys.argv = ["grpo-tui", *sys.argv[1:]]
    runpy.run_module("grpo_tui", run_name="__main__")


if __name__ == "__main__":
    main()
