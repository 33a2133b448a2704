"""Step time of a recorded run ÷ plain TRL, over paired steps of the same work.

Two processes train the demo with the same seed, so step i of one does exactly what step i of the other
does. They take turns, step by step; the one whose turn it is not is stopped with SIGSTOP, recorder
thread and all, so that everything recording costs falls into its own steps. With `--watched` the screen
runs too, in a pseudo-terminal, and is stopped and continued together with the recorded run.

    python benchmarks/step_time.py [--steps 1000] [--watched]

Prints the ratio of the summed times with a 95 % bootstrap confidence interval over the pairs; ctrl+c ends
it early, with the pairs there are.
"""

from __future__ import annotations

import argparse
import os
import pty
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

import _paired_steps as paired_steps
from _paired_steps import WARM_UP, Side, interval, pair, ratio


def train(recorded: bool, folder: Path, steps: int) -> None:
    """Train the demo, handing over after every step: the child's side."""
    from grpo_tui.config.resolve import load_config
    from grpo_tui.demo import DEMO_CONFIG

    config = load_config(DEMO_CONFIG, [f"max_steps={steps}", "save_strategy=no", "disable_tqdm=true"])
    paired_steps.train(config, folder, recorded=recorded, settle=lambda: None)


def side(name: str, folder: Path, steps: int) -> Side:
    """Start one of the two processes."""
    return Side([__file__, "--child", name, "--folder", folder, "--steps", str(steps)])


SCREEN = """
import signal, sys
from pathlib import Path
from grpo_tui.ui import app
app.follow_stops = lambda *_: signal.signal(signal.SIGCONT, signal.SIG_IGN)
app.run_app([], Path(sys.argv[1]))
"""
"""The screen in one process, without the one that guards the terminal, and without painting anew when it is
continued: it is stopped and continued with every step here, which no shell does."""


def watch(folder: Path) -> int:
    """Open the screen on a run in a pseudo-terminal of 120 × 40; its pid."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update({"TERM": "xterm-256color", "COLUMNS": "120", "LINES": "40"})
        os.execv(sys.executable, [sys.executable, "-c", SCREEN, str(folder)])

    def drain() -> None:
        try:
            while os.read(terminal, 65536):
                pass
        except OSError:
            return

    threading.Thread(target=drain, daemon=True).start()
    return pid


def collect(plain: Side, recorded: Side, steps: int) -> list[tuple[float, float]]:
    """Pairs of steps after the warm-up; ctrl+c ends the collecting and keeps what there is."""
    pairs: list[tuple[float, float]] = []
    try:
        while len(pairs) < steps + WARM_UP:
            pairs.append(pair(plain, recorded))
    except KeyboardInterrupt:
        print("interrupted; the figures are those of the pairs so far")
    return pairs[WARM_UP:]


def main() -> None:
    """Run both sides in turns and print the ratio."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=1000, help="paired steps")
    parser.add_argument("--watched", action="store_true", help="with the screen attached")
    parser.add_argument("--child", choices=("plain", "recorded"), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        train(options.child == "recorded", options.folder, options.steps)
        return
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        total = options.steps + WARM_UP + 2
        plain, recorded = side("plain", root / "plain", total), side("recorded", root / "recorded", total)
        try:
            if options.watched:
                recorded.companions.append(watch(root / "recorded"))
                time.sleep(3)
            pairs = collect(plain, recorded, options.steps)
        finally:
            plain.end()
            recorded.end()
    if not pairs:
        print(f"no pair yet: the first {WARM_UP} only warm up")
        return
    low, high = interval(pairs)
    what = "watched" if options.watched else "recorded"
    print(
        f"step time, {what} ÷ plain TRL: {ratio(pairs):.4f}   95 % interval {low:.4f} to "
        f"{high:.4f}   median of pairs {statistics.median(r / p for p, r in pairs):.4f}   "
        f"{len(pairs)} pairs   plain median {1000 * statistics.median(p for p, _ in pairs):.1f} ms"
    )


if __name__ == "__main__":
    main()
