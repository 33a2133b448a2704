"""How soon every field of a config stands on the screen with its help, and how fast a change is painted.

    python benchmarks/config_pane.py [--rounds N]

In a real pseudo-terminal: from the key that opens a config in the pane until its fields with values, origins
and the help of the first one are painted (the budget is 0.5 s); the key that shows all fields; the way to the
last one; a truth value toggled in the form until its line stands in the text; and, for comparison, from
`exec` of `grpo-tui CONFIG` until the fields. Medians and the slowest rounds.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from _terminal import Key, Terminal

CONFIG = Path(__file__).parent.parent / "configs" / "gsm8k.yaml"
FIELDS = "Model checkpoint for weights"
"""Of TRL's help for the first field."""


def main() -> None:
    """Print a line for each thing that a person waits for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    times: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file in (CONFIG, CONFIG.with_name("rewards.py")):
            shutil.copy(file, folder)
        for _ in range(rounds):
            for what, took in {**_opened(folder), **_from_exec(folder)}.items():
                times.setdefault(what, []).append(took)
    for what, values in times.items():
        print(f"{what:44} {statistics.median(values):6.3f} s median, {max(values):.3f} s at most")


def _opened(folder: Path) -> dict[str, float]:
    """The pane from the list of runs: `2`, `o`, and the file from the list."""
    terminal = Terminal([sys.executable, "-m", "grpo_tui"], folder=folder)
    try:
        terminal.since_start("No runs under")
        times = {"2 -> the empty pane": terminal.press(Key("2", "begins a config from a preset"))}
        times["o -> the configs below this folder"] = terminal.press(Key("o", "gsm8k.yaml"))
        times["enter -> every field with help"] = terminal.press(Key("\r", FIELDS))
        times["a -> all fields"] = terminal.press(Key("a", "trust_remote_code"))
        times["end -> the last field"] = terminal.press(Key("\x1b[F", "ddp_static_graph"))
        terminal.press(Key("/", "words in names"))
        terminal.press(Key("use_liger_kernel\r", "Enable Liger Kernel"))
        times["enter -> the line in the text"] = terminal.press(Key("\r", "use_liger_kernel: true"))
        return times
    finally:
        terminal.end()


def _from_exec(folder: Path) -> dict[str, float]:
    """`grpo-tui CONFIG`, from its start."""
    terminal = Terminal([sys.executable, "-m", "grpo_tui", "gsm8k.yaml"], folder=folder)
    try:
        return {"grpo-tui CONFIG -> every field with help": terminal.since_start(FIELDS)}
    finally:
        terminal.end()


if __name__ == "__main__":
    main()
