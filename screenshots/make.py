"""Write `screenshots/*.svg`: both panes at both sizes, of the real app on a demo run that trains just then.

    python screenshots/make.py

Takes a minute or two. The texts and numbers are what the model wrote and TRL computed; nothing is staged but
the moment. It knows nothing of how the panes are drawn.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from grpo_tui.store.connection import RunDatabaseError
from grpo_tui.store.status import ENDED, Status, read_status
from grpo_tui.ui.app import GrpoApp

HERE = Path(__file__).resolve().parent
SIZES = ((80, 24), (120, 40))
AT_STEP = 36
"""Early enough that the reward still rises while the pictures are taken."""
STEPS = 120
SETTLE_S = 3.0
"""What the app gets to fetch every chart before the picture."""
PATIENCE_S = 600.0


def demo(run: Path, steps: int) -> subprocess.Popen[bytes]:
    """Start a demo run without a screen."""
    words = ["demo", "--headless", "--steps", str(steps), "--run-dir", str(run)]
    return subprocess.Popen([sys.executable, "-m", "grpo_tui", *words], stdout=subprocess.DEVNULL)


def wait_for_step(run: Path, step: int) -> Status:
    """Wait until a run has done a step.

    Raises:
        SystemExit: It ended before, or took too long.
    """
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            look = read_status(run)
        except RunDatabaseError:
            look = Status(state="starting")
        if look.step >= step:
            return look
        if look.state in ENDED:
            break
        time.sleep(0.5)
    raise SystemExit(f"{run} did not reach step {step}; see {run / 'train.log'}")


async def picture(roots: list[Path], run: Path, pane_key: str, size: tuple[int, int], file: Path) -> None:
    """Open the app on a run, show a pane, and write what is on the screen."""
    app = GrpoApp(roots, run)
    async with app.run_test(size=size) as pilot:
        await pilot.pause(SETTLE_S)
        await pilot.press(pane_key)
        await pilot.pause(1.0)
        file.write_text(app.export_screenshot(title="grpo-tui"), encoding="utf-8")
    print(f"{file.relative_to(HERE.parent)}")


def main() -> int:
    """Train, and take every picture while it trains."""
    os.environ.pop("NO_COLOR", None)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # so that the panes show short paths
        first, second = Path("runs/demo"), Path("runs/demo-2")
        demo(first, 12).wait()
        training = demo(second, STEPS)
        try:
            wait_for_step(second, AT_STEP)
            for pane, key in (("train", "4"), ("runs", "1")):
                for width, height in SIZES[::-1]:
                    file = HERE / f"{pane}-{width}x{height}.svg"
                    asyncio.run(picture([Path("runs")], second.absolute(), key, (width, height), file))
        finally:
            subprocess.run([sys.executable, "-m", "grpo_tui", "stop", str(second), "--now"], check=False)
            training.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
