"""How long it takes from a saved reward file to 1,000 completions of 4 functions on the screen.

    python benchmarks/rewards_pane.py [--rounds N]

The pane Rewards on a warm lab, without a terminal: the median over rounds in which a module that the rewards
import is rewritten, from the end of the write until the new scores stand in the painted lines. The budget is
0.5 s. The checks that follow are measured beside it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from lab import REWARDS, samples

from grpo_tui.rewards.scoring import config_of_functions
from grpo_tui.ui.app import GrpoApp
from grpo_tui.ui.requests import RewardsRequest

NAMES = ("correct", "form", "short", "words")


def main() -> None:
    """Print the medians and the slowest rounds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("rewards.py").write_text(REWARDS)
        Path("words.py").write_text("WEIGHT = 1.0\n")
        shown, checked = asyncio.run(_measure(Path(folder), rounds))
    for what, values in (("saved -> on the screen", shown), ("saved -> checked", checked)):
        print(f"{what:24} {statistics.median(values):6.3f} s median, {max(values):.3f} s at most")


async def _measure(folder: Path, rounds: int) -> tuple[list[float], list[float]]:
    config = config_of_functions([f"{folder}/rewards.py:{name}" for name in NAMES])
    app = GrpoApp([], None, rewards=RewardsRequest("rewards.py", lambda: config))
    shown: list[float] = []
    checked: list[float] = []
    async with app.run_test(size=(120, 40)) as pilot:
        screen: Any = app.screen
        await _until(lambda: screen.scored is not None and screen.scored.about.whole)
        screen.worker.replace(samples(), "")
        await _until(lambda: len(screen.scored.rows) == 1000 and screen.scored.about.whole)
        for number in range(rounds):
            await asyncio.sleep(0.3)
            weight = 2.0 + number % 7 + number / 100  # below 10, so that it is shown with two decimals
            Path("words.py").write_text(f"WEIGHT = {weight}\n")
            start = time.perf_counter()
            await _until(lambda weight=weight: f"→{weight:.2f}" in _painted(app))
            shown.append(time.perf_counter() - start)
            await _until(lambda: screen.scored.about.whole and screen._busy is None)
            checked.append(time.perf_counter() - start)
        await pilot.pause()
    return shown, checked


async def _until(true: Callable[[], bool]) -> None:
    while not true():
        await asyncio.sleep(0.005)


def _painted(app: GrpoApp) -> str:
    table: Any = app.screen.query_one("#samples")
    return "\n".join("".join(s.text for s in table.render_line(y)) for y in range(2, 6))


if __name__ == "__main__":
    main()
