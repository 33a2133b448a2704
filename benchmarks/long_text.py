"""Keys on a run whose texts are enormous and hostile, beside the same keys on an ordinary run.

    python benchmarks/long_text.py [--rounds 6]

One run holds a completion of a line of 100,000 characters, one of 3,000 lines, log lines as long, and
control sequences, markup and piles of accents in every text it has; the other is the recorded run of the
tests. Both screens run at once in pseudo-terminals of 120 × 40, keys in turns. Prints the median and the
95th percentile of the time from a key until its change is painted, for each, and the slowest key.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import tempfile
import time
from pathlib import Path

from _terminal import Key, Terminal

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.processes.hostile import HostileRun, Weaver
from tests.ui import recorded_run

KEYS = (
    Key(" ", "view held"), Key(" ", "view held", there=False),
    Key("l", "/ search"), Key("l", "/ search", there=False),
    Key("z", "─ reward ─", there=False), Key("z", "─ reward ─"),
    Key("?", "help ─"), Key("?", "help ─", there=False),
    Key("1", "runs   "), Key("4", "newest group"),
)  # fmt: skip
"""Each changes the screen, and the last one leaves it as it was."""


def opened(root: Path) -> Terminal:
    """The screen on a run, painted."""
    terminal = Terminal([sys.executable, "-m", "grpo_tui", "attach", root], folder=root.parent)
    terminal.since_start("newest group")
    time.sleep(3)
    return terminal


def main() -> None:
    """Make both runs, press the keys in turns, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=6)
    rounds = parser.parse_args().rounds
    recorded_run.NOW = time.time()
    with tempfile.TemporaryDirectory() as place, contextlib.ExitStack() as stack:
        hostile, plain = Path(place) / "hostile", Path(place) / "plain"
        HostileRun(hostile, Weaver(7)).close()
        recorded_run.recorded(plain).close()
        screens = {root.name: opened(root) for root in (hostile, plain)}
        for terminal in screens.values():
            stack.callback(terminal.end)
        taken: dict[str, list[tuple[float, str]]] = {name: [] for name in screens}
        for _ in range(rounds):
            for key in KEYS:
                for name, terminal in screens.items():
                    if (key.text in terminal.shown()) != key.there:
                        taken[name].append((terminal.press(key), key.press))
    for name, found in taken.items():
        times = sorted(seconds for seconds, _ in found)
        p95 = times[min(len(times) - 1, int(0.95 * len(times)))]
        slowest = max(found)
        print(
            f"{name:<8} key to paint median {1000 * statistics.median(times):.0f} ms, "
            f"p95 {1000 * p95:.0f} ms, slowest {1000 * slowest[0]:.0f} ms ({slowest[1]!r}), {len(times)} keys"
        )


if __name__ == "__main__":
    main()
