"""First paint of the program ÷ a bare Textual app with as many tabs, both from process start.

    python benchmarks/first_paint.py [--rounds 15]

Both are started in turns in a pseudo-terminal of 120 × 40; the time counts from `exec` until the first
tab's name is on the terminal. Prints both medians and their ratio.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import random
import select
import signal
import statistics
import struct
import sys
import tempfile
import termios
import time

BARE = """
from textual.app import App
from textual.widgets import Footer, Header, Static, TabbedContent, TabPane

class Bare(App):
    def compose(self):
        yield Header()
        with TabbedContent():
            with TabPane("Runs"):
                yield Static("Runs")
            with TabPane("Train"):
                yield Static("Train")
        yield Footer()

Bare().run()
"""


def first_paint_s(words: list[str], folder: str) -> float:
    """Seconds from `exec` until `Runs` has been painted."""
    start = time.perf_counter()
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.environ.update({"TERM": "xterm-256color", "COLORTERM": "truecolor"})
        os.execv(sys.executable, [sys.executable, *words])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    seen = b""
    while b"Runs" not in seen:
        if not select.select([terminal], [], [], 20)[0]:
            raise SystemExit(f"nothing was painted by {words[:3]}: {seen[-500:]!r}")
        seen += os.read(terminal, 65536)
    taken = time.perf_counter() - start
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(terminal)
    return taken


def main() -> None:
    """Measure both in turns and print the ratio of their medians."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    programs = {"bare": ["-c", BARE], "grpo-tui": ["-m", "grpo_tui"]}
    taken: dict[str, list[float]] = {name: [] for name in programs}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds + 1):
            for name in random.sample(sorted(programs), k=len(programs)):
                seconds = first_paint_s(programs[name], folder)
                if number:  # the first round warms the file cache
                    taken[name].append(seconds)
    bare, ours = statistics.median(taken["bare"]), statistics.median(taken["grpo-tui"])
    print(
        f"first paint, grpo-tui ÷ bare Textual: {ours / bare:.2f}   medians {1000 * ours:.0f} ms and "
        f"{1000 * bare:.0f} ms   {rounds} rounds each"
    )


if __name__ == "__main__":
    main()
