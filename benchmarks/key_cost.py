"""What each kind of key costs until its picture is sent, in processor time, while a run is watched.

    python benchmarks/key_cost.py [--rounds 5] [--every 1]

The real program watches a played run in a pseudo-terminal of 120 × 40 and gets keys, one after the other;
nothing is trained. Prints, for each kind of key, the main thread's processor time from its arrival to the
picture that shows its effect: of the first time, and the median of the later ones; beside it the time on the
clock, which on a busy machine is mostly waiting, and counts that depend on no machine: widgets styled,
layouts, bytes to the terminal.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from _player import playing
from _terminal import Key, Terminal

ROOT = Path(__file__).resolve().parents[1]
ESCAPE = "\x1b"
TRAIN = "─ now ─"
KEYS = (
    ("? opens help", Key("?", "help ─")),
    ("? closes it", Key("?", "help ─", there=False)),
    ("space holds the view", Key(" ", "view held")),
    ("space lets it go", Key(" ", "view held", there=False)),
    ("1 from Train", Key("1", TRAIN, there=False)),
    ("4 from Runs", Key("4", TRAIN)),
    ("5 from Train", Key("5", TRAIN, there=False)),
    ("4 from Generations", Key("4", TRAIN)),
    ("2 from Train", Key("2", TRAIN, there=False)),
    ("4 from Config", Key("4", TRAIN)),
    ("3 from Train", Key("3", TRAIN, there=False)),
    ("4 from Rewards", Key("4", TRAIN)),
    ("v, all events", Key("v", TRAIN, there=False)),
    ("v, back", Key("v", TRAIN)),
    ("u, machine", Key("u", TRAIN, there=False)),
    ("u, back", Key("u", TRAIN)),
    ("=, dialog", Key("=", "─ set ")),
    ("esc from it", Key(ESCAPE, "─ set ", there=False)),
)
APART_S = 0.4
LOADED_S = 6.0
"""What is loaded ahead is there by then."""
Costs = dict[str, float]


class Notes:
    """What the program notes of itself, read as it comes."""

    def __init__(self, file: Path) -> None:
        self._file, self._read = file, 0

    def new(self) -> list[dict[str, Any]]:
        """Lines since the last look."""
        with open(self._file, encoding="utf-8") as file:
            file.seek(self._read)
            lines = file.read().splitlines()
            self._read = file.tell()
        return [json.loads(line) for line in lines]


def cost(terminal: Terminal, key: Key, notes: Notes) -> Costs:
    """Press a key; what it took until the picture that shows its effect."""
    notes.new()
    pressed_at = time.perf_counter()
    clock_s = terminal.press(key)
    lines = notes.new()
    arrived = next(line for line in lines if line["what"] == "key")
    pictures = [line for line in lines if line["what"] == "picture" and line["clock_s"] > arrived["clock_s"]]
    by_then = [line for line in pictures if line["clock_s"] <= pressed_at + clock_s + 0.0005]
    shown = (by_then or pictures)[-1 if by_then else 0]
    taken = {name: shown[name] - arrived[name] for name in ("cpu_s", "styled", "laid_out", "bytes")}
    return {"clock_s": clock_s, **taken}


def measure(rounds: int, every_s: float) -> dict[str, list[Costs]]:
    """All keys, in rounds."""
    found: dict[str, list[Costs]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder, playing(Path(folder) / "run", every_s):
        notes = Path(folder) / "notes"
        words = [sys.executable, Path(__file__).with_name("_keyed.py"), "attach", Path(folder) / "run"]
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        env = {"KEYED_INTO": str(notes), "PYTHONPATH": path}
        terminal = Terminal(words, folder=Path(folder), env=env)
        try:
            terminal.since_start("newest group")
            time.sleep(LOADED_S)
            for _ in range(rounds):
                for name, key in KEYS:
                    time.sleep(APART_S)
                    found[name].append(cost(terminal, key, Notes(notes)))
        finally:
            terminal.end()
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--every", type=float, default=1.0, metavar="S", help="seconds a step takes")
    options = parser.parse_args()
    found = measure(options.rounds, options.every)
    print(f"{'':<20} {'processor':>11} {'first':>8} {'clock':>8} {'styled':>7} {'laid out':>8} {'bytes':>7}")
    for name, costs in found.items():
        later = costs[1:] or costs
        middle = {of: statistics.median(c[of] for c in later) for of in later[0]}
        print(
            f"{name:<20} {1000 * middle['cpu_s']:8.1f} ms {1000 * costs[0]['cpu_s']:5.0f} ms"
            f" {1000 * middle['clock_s']:5.0f} ms {middle['styled']:7.0f} {middle['laid_out']:8.0f}"
            f" {middle['bytes']:7.0f}"
        )
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
