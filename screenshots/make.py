"""Write `screenshots/*.svg`: every pane in every state, from the real app on demo runs that train meanwhile.

    python screenshots/make.py [NAME…]

Takes about ten minutes. With names, such as `train-120x40`, only those are written. All texts and numbers
come from the model and from TRL, except on the machine with eight GPUs, which is simulated.
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
"""Steps at which the learning rate changes, and at which the pictures start, while the reward still rises."""
SETTLE_S = 4.0
"""Time for the app to read every chart."""
LAB_S = 45.0
"""Time for the rewards to import torch and to score."""
PATIENCE_S = 900.0
RUNS = Path("runs")


@dataclass(frozen=True, slots=True)
class Picture:
    """One picture, and the keys that are pressed before it is taken."""

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
RESULTS = [
    Picture("results-120x40", keys=("6",)),
    Picture("results-80x24", SMALL, ("6",)),
    Picture("results-answers-120x40", keys=("6", "enter")),
]
FINDINGS = [Picture("train-findings-120x40", keys=("f",))]
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
    """Return the command line of the program."""
    return [sys.executable, "-m", "grpo_tui", *map(str, words)]


def demo(run: Path, steps: int, *more: str) -> subprocess.Popen[bytes]:
    """Start a demo run without a screen."""
    words = grpo_tui("demo", "--headless", "--steps", steps, "--run-dir", run, *more)
    return subprocess.Popen(words, stdout=subprocess.DEVNULL)


def wait_for(run: Path, reached: Callable[[Status], bool]) -> None:
    """Wait until a run reaches a state.

    Raises:
        SystemExit: The run ended first, or took too long.
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
    raise SystemExit(f"{run} did not get that far; see {run / 'train.log'}")


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
    """Open a new app for each requested picture and write what it shows."""
    for picture in pictures:
        if sys.argv[1:] and picture.name not in sys.argv[1:]:
            continue
        Path("config/preferences.json").unlink(missing_ok=True)
        file = HERE / f"{picture.name}.svg"
        app = GrpoApp([RUNS], run and run.absolute(), rewards=rewards, config=config, clock=clock)
        asyncio.run(_take(app, picture, file))
        print(file.relative_to(HERE.parent), flush=True)


def wanted(pictures: list[Picture]) -> bool:
    """Return whether one of these pictures was asked for."""
    return not sys.argv[1:] or any(picture.name in sys.argv[1:] for picture in pictures)


def eight_gpus() -> Hardware:
    """Simulate eight GPUs: one is idle, and one is shared with another user."""
    cards = [machines.gpu(index, use) for index, use in enumerate(machines.USES)]
    other = GpuProcess(81_234, "python eval.py", 14 << 30, False, "ada")
    cards[6] = replace(cards[6], processes=(*(cards[6].processes or ()), other))
    return machines.machine(*cards)


def config_with_a_mistake() -> Path:
    """Copy the demo's config and files, with a batch size that does not fit the groups."""
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
    """Take an empty list, a config and rewards before training, and a simulated machine."""
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
    """Take a run that loads and then fails, one whose judge hangs, and one with findings."""
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
    if wanted(FINDINGS):
        run = RUNS / "demo-lr-too-high"
        demo(run, 30, "--fault", "lr-too-high").wait()
        take(run, FINDINGS)


def gone_well() -> None:
    """Take two finished runs and their overlay, and a run while it trains and while it is paused."""
    first, slower, second = RUNS / "demo", RUNS / "slower", RUNS / "demo-2"
    demo(first, 40).wait()
    take(first, FINISHED)
    if wanted(RESULTS):
        compare = grpo_tui("compare", first, "--samples", 4)
        subprocess.run(compare, stdout=subprocess.DEVNULL, check=True)
        take(first, RESULTS)
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
    """Take every picture, or the named ones."""
    os.environ.pop("NO_COLOR", None)
    os.environ.pop("COLORFGBG", None)
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(HERE.parent / "grpo_tui", Path(folder, "grpo_tui"))
        os.chdir(folder)  # so that the runs are of the copy, and the panes show short paths
        os.environ["GRPO_TUI_CONFIG_DIR"] = str(Path(folder, "config"))
        without_a_run()
        if wanted([*LOADING, *FAILED, *STALLED, *FINDINGS]):
            gone_wrong()
        if wanted([*FINISHED, *RESULTS, *OVERLAY, *TRAINING, *PAUSED]):
            gone_well()
        os.chdir("/")
    return 0


if __name__ == "__main__":
    sys.exit(main())
