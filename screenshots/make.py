"""Write `screenshots/*.svg`: the panes in every state, of the real app on demo runs that train just then.

    python screenshots/make.py [NAME…]

Takes ten minutes or so; with names, such as `train-120x40`, only those are written. The texts and numbers are
what the model wrote and TRL computed; nothing is staged but the moment, and one machine with its run, whose
eight GPUs are made up. It knows nothing of how the panes are drawn.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from grpo_tui.config.presets import copy_preset, presets  # noqa: E402
from grpo_tui.config.resolve import load_config  # noqa: E402 (the checkout's own, wherever this is run)
from grpo_tui.demo import DEMO_CONFIG  # noqa: E402
from grpo_tui.store.connection import RunDatabaseError  # noqa: E402
from grpo_tui.store.live import GpuProcess, Hardware  # noqa: E402
from grpo_tui.store.status import ENDED, Status, read_status  # noqa: E402
from grpo_tui.ui.app import GrpoApp  # noqa: E402
from grpo_tui.ui.requests import ConfigRequest, RewardsRequest  # noqa: E402
from tests.ui import machines  # noqa: E402
from tests.ui.recorded_run import NOW, recorded  # noqa: E402

SMALL, USUAL, LARGE = (80, 24), (120, 40), (200, 50)
SET_AT, AT_STEP = 20, 36
"""When the learning rate is changed, and when the pictures begin, while the reward still rises."""
SETTLE_S = 4.0
"""What the app gets to fetch every chart before the picture."""
LAB_S = 45.0
"""What the lab gets to import torch and to score."""
PATIENCE_S = 900.0
RUNS = Path("runs")


@dataclass(frozen=True, slots=True)
class Picture:
    """One picture: what is pressed, a key at a time, before it is taken."""

    name: str
    size: tuple[int, int] = USUAL
    keys: tuple[str, ...] = ()


LOADING = [Picture("train-loading-80x24", SMALL)]
FAILED = [Picture("train-failed-80x24", SMALL)]
STALLED = [Picture("train-stalled-80x24", SMALL)]
FINISHED = [
    Picture("train-finished-120x40"),
    Picture("generations-120x40", keys=("5", "enter", "d")),
    Picture("generations-80x24", SMALL, ("5", "enter")),
    Picture("generations-200x50", LARGE, ("5",)),
    Picture("generations-course-120x40", keys=("5", "o")),
]
TRAINING = [
    Picture("train-120x40"),
    Picture("train-80x24", SMALL),
    Picture("chart-120x40", keys=("tab", "enter", "left", "left", "left")),
    Picture("train-light-120x40", keys=("ctrl+p", *"theme", "enter", "enter")),
    Picture("metrics-120x40", keys=("tab", "x")),
    Picture("machine-80x24", SMALL, ("u",)),
    Picture("runs-120x40", keys=("1",)),
    Picture("runs-80x24", SMALL, ("1",)),
]
OVERLAY = [Picture("overlay-120x40", keys=("space", "space", "o"))]
PAUSED = [Picture("train-paused-80x24", SMALL)]
REWARDS = [Picture("rewards-120x40")]
CONFIG = [
    Picture("config-120x40", keys=("right_square_bracket",)),
    Picture("config-80x24", SMALL, ("right_square_bracket",)),
    Picture("config-choices-120x40", keys=("slash", *"loss_type", "enter", "enter", "down")),
]
EMPTY = [Picture("runs-empty-80x24", SMALL)]
EIGHT = [Picture("machine-eight-gpus-120x40", keys=("u",))]


def grpo_tui(*words: object) -> list[str]:
    """The program, with words."""
    return [sys.executable, "-m", "grpo_tui", *map(str, words)]


def demo(run: Path, steps: int, *more: str) -> subprocess.Popen[bytes]:
    """Start a demo run without a screen."""
    words = grpo_tui("demo", "--headless", "--steps", steps, "--run-dir", run, *more)
    return subprocess.Popen(words, stdout=subprocess.DEVNULL)


def wait_for(run: Path, reached: Callable[[Status], bool]) -> None:
    """Wait until a run is as wished.

    Raises:
        SystemExit: It ended before, or took too long.
    """
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            look = read_status(run)
        except RunDatabaseError:
            look = Status(state="starting")
        if reached(look):
            return
        if look.state in ENDED:
            break
        time.sleep(0.3)
    raise SystemExit(f"{run} did not come so far; see {run / 'train.log'}")


async def _take(app: GrpoApp, picture: Picture, file: Path) -> None:
    async with app.run_test(size=picture.size) as pilot:
        await pilot.pause(LAB_S if picture in REWARDS else SETTLE_S)
        for key in picture.keys:
            await pilot.press(key)
            await pilot.pause(1.0)
        file.write_text(app.export_screenshot(title="grpo-tui"), encoding="utf-8")


def take(
    run: Path | None,
    pictures: list[Picture],
    clock: Callable[[], float] = time.time,
    rewards: RewardsRequest | None = None,
    config: ConfigRequest | None = None,
) -> None:
    """Open the app anew for each of the pictures that are wanted, and write what is on the screen."""
    for picture in pictures:
        if sys.argv[1:] and picture.name not in sys.argv[1:]:
            continue
        Path("config/preferences.json").unlink(missing_ok=True)
        file = HERE / f"{picture.name}.svg"
        app = GrpoApp([RUNS], run and run.absolute(), rewards=rewards, config=config, clock=clock)
        asyncio.run(_take(app, picture, file))
        print(file.relative_to(HERE.parent), flush=True)


def wanted(pictures: list[Picture]) -> bool:
    """Whether one of them is to be taken."""
    return not sys.argv[1:] or any(picture.name in sys.argv[1:] for picture in pictures)


def eight_gpus() -> Hardware:
    """Cards that are made up: one idles, and one is shared with somebody else."""
    cards = [machines.gpu(index, use) for index, use in enumerate(machines.USES)]
    other = GpuProcess(81_234, "python eval.py", 14 << 30, False, "ada")
    cards[6] = replace(cards[6], processes=(*(cards[6].processes or ()), other))
    return machines.machine(*cards)


def config_with_a_mistake() -> Path:
    """A copy of the demonstration's config with its files, whose batch holds no whole groups."""
    known = {preset.name: preset for preset in presets()}
    path = Path("sums.yaml")
    if not path.exists():
        copy_preset(known["demo"], path)
        text = path.read_text(encoding="utf-8")
        text = re.sub(
            "(?m)^model_name_or_path: .*/demo/model", "model_name_or_path: grpo_tui/demo/model", text
        )
        path.write_text(text.replace("batch_size: 64", "batch_size: 60"), encoding="utf-8")
    return path.absolute()


def without_a_run() -> None:
    """An empty list, a config and rewards before training, and a machine that is made up."""
    take(None, EMPTY)
    if wanted(CONFIG):
        take(None, CONFIG, config=ConfigRequest(config_with_a_mistake()))
    take(None, REWARDS, rewards=RewardsRequest("demo.yaml", lambda: load_config(DEMO_CONFIG)))
    if wanted(EIGHT):
        run = recorded(Path("eight/gsm8k"))
        machines.ranks(run, 8, behind=3)
        machines.put(run, eight_gpus())
        take(run.folder.root, EIGHT, lambda: NOW)
        run.close()


def gone_wrong() -> None:
    """A run that loads and then fails, and one whose judge hangs."""
    run = RUNS / "demo-reward-raises"
    failing = demo(run, 20, "--fault", "reward-raises")
    if wanted(LOADING):
        wait_for(run, lambda look: look.state == "starting" and look.phase == "load")
    take(run, LOADING)
    failing.wait()
    take(run, FAILED)
    if wanted(STALLED):
        run = RUNS / "demo-hung-reward"
        hanging = demo(run, 60, "--fault", "hung-reward")
        wait_for(run, lambda look: look.state == "stalled")
        take(run, STALLED)
        subprocess.run(grpo_tui("stop", run, "--now"), check=False)
        hanging.wait()


def gone_well() -> None:
    """Two runs to their end, over each other, and one while it trains and in a pause."""
    first, slower, second = RUNS / "demo", RUNS / "slower", RUNS / "demo-2"
    demo(first, 40).wait()
    take(first, FINISHED)
    if wanted(OVERLAY):
        change = ("--run-dir", slower, "--set", "learning_rate=5.0e-5")
        subprocess.run(grpo_tui("train", first, "--headless", *change), stdout=subprocess.DEVNULL, check=True)
        take(None, OVERLAY)
    training = demo(second, 240, "--seed", "7")  # longer than it takes to take all pictures
    try:
        wait_for(second, lambda look: look.step >= SET_AT)
        subprocess.run(grpo_tui("set", second, "learning_rate=1e-4"), check=True)
        wait_for(second, lambda look: look.step >= AT_STEP)
        take(second, TRAINING)
        subprocess.run(grpo_tui("pause", second), check=True)
        take(second, PAUSED)
    finally:
        subprocess.run(grpo_tui("stop", second, "--now"), check=False)
        training.wait()


def main() -> int:
    """Take every picture, or those that are named."""
    os.environ.pop("NO_COLOR", None)
    os.environ.pop("COLORFGBG", None)
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(HERE.parent / "grpo_tui", Path(folder, "grpo_tui"))
        os.chdir(folder)  # so that the runs are of the copy, and the panes show short paths
        os.environ["GRPO_TUI_CONFIG_DIR"] = str(Path(folder, "config"))
        without_a_run()
        if wanted([*LOADING, *FAILED, *STALLED]):
            gone_wrong()
        if wanted([*FINISHED, *OVERLAY, *TRAINING, *PAUSED]):
            gone_well()
        os.chdir("/")
    return 0


if __name__ == "__main__":
    sys.exit(main())
