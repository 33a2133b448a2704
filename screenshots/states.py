"""Write every state of every pane as text and SVG, to look at after a change.

    python screenshots/states.py --out DIR [--size 80x24]… [NAME…]

A name is a pattern, such as `results-*`. Ended runs are made in `DIR/work` once and used again by the next
call. Live runs are started for the call and stopped at its end. Afterwards, read `DIR/all.txt` to the end.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fnmatch
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from make import SETTLE_S, SMALL, USUAL, demo, grpo_tui, wait_for  # noqa: E402
from textual.pilot import Pilot, WaitForScreenTimeout  # noqa: E402

from grpo_tui.config.presets import copy_preset, presets  # noqa: E402
from grpo_tui.config.resolve import load_config  # noqa: E402
from grpo_tui.demo import DEMO_CONFIG  # noqa: E402
from grpo_tui.store.layout import RunFolder, remember  # noqa: E402
from grpo_tui.store.replay import end  # noqa: E402
from grpo_tui.ui.app import GrpoApp  # noqa: E402
from grpo_tui.ui.panes import PANES  # noqa: E402
from grpo_tui.ui.requests import ConfigRequest, RewardsRequest  # noqa: E402
from tests.foreign import foreign_run  # noqa: E402
from tests.ui.conftest import shown  # noqa: E402
from tests.ui.recorded_run import RecordedRun  # noqa: E402

TOO_SMALL = ((79, 23), (60, 16), (30, 8))
LARGE = (200, 50)
STILL_S, MOST_S = 3.0, 40.0
"""What imports torch is complete when its picture has not changed for so long, or after the most."""
KEY_S = 0.7
RUNS = Path("runs")
LIVE: list[subprocess.Popen[bytes]] = []

Opened = tuple[Path | None, ConfigRequest | None, RewardsRequest | None]


@dataclass(frozen=True, slots=True)
class State:
    """One state of a pane: what is open, and the keys that lead there.

    Attributes:
        keys: Keys by Textual's names. `…` waits for what imports torch, `~` for a live run's next figure.
    """

    name: str
    opens: Callable[[], Opened]
    keys: str = ""
    sizes: tuple[tuple[int, int], ...] = (SMALL, USUAL)


def nothing() -> Opened:
    """Open the program without a run or a file."""
    return None, None, None


@cache
def ended(name: str, steps: int, *more: str) -> Path:
    """Make a demo run and return its folder."""
    run = RUNS / name
    if not (run / "run.json").exists():
        demo(run, steps, *more).wait()
    return run.absolute()


def well() -> Opened:
    """Open a run that ended well and was compared with its base model."""
    run = ended("well", 40)
    if not (run / "compare").exists():
        words = grpo_tui("compare", run, "--samples", 2)
        subprocess.run(words, stdout=subprocess.DEVNULL, check=True)
    return run, None, None


def uncompared() -> Opened:
    """Open a run that has findings and no comparison."""
    return ended("high", 20, "--fault", "lr-too-high"), None, None


def replayed() -> Opened:
    """Open the replay of a run."""
    from grpo_tui.present.replay import start_replay

    run = ended("well", 40)
    start_replay(run, 12, 1.0)
    return run, None, None


def raised() -> Opened:
    """Open a run whose reward raised."""
    return ended("raises", 30, "--fault", "reward-raises"), None, None


def killed() -> Opened:
    """Open a run whose process was killed."""
    return ended("killed", 30, "--fault", "crash"), None, None


def out_of_memory() -> Opened:
    """Open a run that needed more GPU memory than there was."""
    run = RUNS / "oom"
    if not run.exists():
        made = RecordedRun(run)
        made.advance(57)
        words = "CUDA out of memory. Tried to allocate 2.37 GiB. GPU 0 has a total capacity of 79.11 GiB"
        made.end("failed", {"type": "OutOfMemoryError", "message": words, "traceback": words})
        made.close()
        remember(run)
    return run.absolute(), None, None


def wordless() -> Opened:
    """Open a run without completions, which ended before its first step."""
    run = RUNS / "wordless"
    if not run.exists():
        made = RecordedRun(run)
        made.end("stopped")
        made.close()
        remember(run)
    return run.absolute(), None, None


def foreign() -> Opened:
    """Open a run that somebody else started."""
    run = RUNS / "foreign"
    if not run.exists():
        foreign_run(run, Path("marks"))
    return run.absolute(), None, None


def no_run() -> Opened:
    """Open a folder that is no run."""
    Path("bare").mkdir(exist_ok=True)
    return Path("bare").absolute(), None, None


@cache
def live(name: str, *commands: str, step: int = 3) -> Path:
    """Start a slow demo run, wait until it trains, and send it commands."""
    run = RUNS / name
    shutil.rmtree(run, ignore_errors=True)
    LIVE.append(demo(run, 400, "--fault", "slow-reward"))
    wait_for(run, lambda look: look.step >= step)
    for command in commands:
        subprocess.run(grpo_tui(command, run), stdout=subprocess.DEVNULL, check=True)
    return run.absolute()


def stop() -> None:
    """Stop all live runs."""
    for process in LIVE:
        run = Path(process.args[process.args.index("--run-dir") + 1])  # type: ignore[index,union-attr]
        subprocess.run(grpo_tui("stop", run, "--now"), check=False, stdout=subprocess.DEVNULL)
        process.wait()
    LIVE.clear()
    live.cache_clear()


def training() -> Opened:
    """Open a run that trains."""
    return live("training"), None, None


def loading() -> Opened:
    """Open a run that was just started."""
    stop()
    run = RUNS / "loading"
    shutil.rmtree(run, ignore_errors=True)
    LIVE.append(demo(run, 400, "--fault", "slow-reward"))
    while not (run / "run.db").exists():
        time.sleep(0.2)
    return run.absolute(), None, None


def first_step() -> Opened:
    """Open a run in its first step."""
    run = loading()[0]
    assert run is not None
    wait_for(run, lambda look: look.phase == "reward")
    return run, None, None


def paused() -> Opened:
    """Open a paused run."""
    run = live("paused", "pause")
    wait_for(run, lambda look: look.state == "paused")
    return run, None, None


def config(change: Callable[[str], str]) -> Callable[[], Opened]:
    """Open a changed copy of the demo's config."""

    def opens() -> Opened:
        path = Path("sums.yaml")
        if not path.exists():
            copy_preset({preset.name: preset for preset in presets()}["demo"], path)
        changed = Path("changed.yaml")
        changed.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")
        return None, ConfigRequest(changed.absolute()), None

    return opens


def rewards() -> Opened:
    """Open the demo's rewards."""
    return None, None, RewardsRequest("demo.yaml", lambda: load_config(DEMO_CONFIG))


def same(text: str) -> str:
    """Return the text unchanged."""
    return text


def everywhere(name: str, opens: Callable[[], Opened], keys: str = "") -> Iterator[State]:
    """Show one state in all panes."""
    for pane in PANES:
        waits = "…" if pane.id == "rewards" and opens is not nothing else ""
        yield State(f"{pane.id}-{name}", opens, f"{pane.key} {waits} {keys}")


STATES = (
    *everywhere("nothing", nothing),
    *everywhere("well", well),
    *everywhere("raised", raised),
    *everywhere("killed", killed),
    *everywhere("foreign", foreign),
    *everywhere("wordless", wordless),
    *(state for state in everywhere("loading", loading) if state.name.startswith(("runs", "train", "gen"))),
    *everywhere("training", training),
    *everywhere("no-run", no_run),
    State("train-oom", out_of_memory),
    State("train-first-step", first_step),
    State("train-paused", paused),
    State("train-stopping", lambda: (live("stopping"), None, None), "S enter ~"),
    State("train-replay", replayed, "~"),
    State("config-replay", replayed, "2"),
    State("results-replay", replayed, "6"),
    State("config-clean", config(same), "…"),
    State("config-mistake", config(lambda text: text.replace("batch_size: 64", "batch_size: 60")), "…"),
    State("config-findings", config(lambda text: text.replace("batch_size: 64", "batch_size: 60")), "… l"),
    State("config-broken-line", config(lambda text: text.replace("temperature: 1.0", "temperature 1.0"))),
    State("config-tab", config(lambda text: text.replace("  holdout", "\tholdout"))),
    State("config-empty-file", config(lambda _: "")),
    State("config-text", config(same), "tab"),
    State("config-field", config(same), "enter"),
    State("config-new", nothing, "2 ctrl+n"),
    State("config-open", nothing, "2 o"),
    State("config-start", config(same), "… R"),
    State("config-compare", config(same), "… d"),
    State("config-data", config(same), "… i …"),
    State("rewards-scored", rewards, "…"),
    State("rewards-opening", rewards),
    State("rewards-probes", rewards, "… p …"),
    State("rewards-weights", rewards, "… o"),
    State("rewards-help", rewards, "question_mark"),
    State("train-help", well, "question_mark"),
    State("train-chart", well, "tab enter"),
    State("train-chart-help", well, "tab question_mark"),
    State("train-metrics", well, "tab x"),
    State("train-log", well, "l"),
    State("train-log-raised", raised, "l z"),
    State("train-events", well, "v"),
    State("train-machine", training, "u"),
    State("train-machine-ended", well, "u"),
    State("train-settings", well, "t"),
    State("train-findings", uncompared, "f"),
    State("train-finding", uncompared, "f enter"),
    State("train-no-findings", well, "f"),
    State("train-set", training, "equals_sign"),
    State("train-set-late", training, "equals_sign tab 0 . 7"),
    State("train-undo", training, "U ~"),
    State("train-reload", training, "L ~"),
    State("train-sample", training, "m"),
    State("train-stop", training, "S"),
    State("palette", well, "ctrl+p", (SMALL,)),
    State("palette-word", well, "ctrl+p z z z", (SMALL,)),
    State("generations-card", well, "5 enter"),
    State("generations-completion", well, "5 enter enter"),
    State("generations-tokens", well, "5 enter enter t …"),
    State("generations-prompts", well, "5 p ~"),
    State("generations-audit", well, "5 a ~"),
    State("generations-course", well, "5 o ~"),
    State("generations-what-if", well, "5 w …"),
    State("generations-no-match", well, "5 slash r e w a r d > 9 9 enter ~"),
    State("generations-bad-query", well, "5 slash r e w a r t > 9 enter ~"),
    State("results-uncompared", uncompared, "6"),
    State("results-checkpoints", well, "6 tab tab"),
    State("results-answers", well, "6 enter"),
    State("results-chat", well, "6 m"),
    State("results-chat-answer", well, "6 m 7 + 1 5 = ? enter …"),
    State("results-help", well, "6 question_mark"),
    State("runs-overlay", well, "1 space space down space o ~"),
    State("runs-no-match", well, "1 slash z z z enter"),
    *(State(f"{pane.id}-well-small", well, pane.key, TOO_SMALL) for pane in PANES),
    *(State(f"{pane.id}-well-large", well, pane.key, (LARGE,)) for pane in PANES),
)


async def _still(pilot: Pilot[object]) -> None:
    seen, since, began = "", time.monotonic(), time.monotonic()
    while time.monotonic() - since < STILL_S and time.monotonic() - began < MOST_S:
        await pilot.pause(0.3)
        if (now := shown(pilot.app)) != seen:  # type: ignore[arg-type]
            seen, since = now, time.monotonic()


async def _take(app: GrpoApp, state: State, size: tuple[int, int]) -> tuple[str, str]:
    async with app.run_test(size=size, notifications=True) as pilot:
        await pilot.pause(SETTLE_S if app._first_run else 1.5)
        for key in state.keys.split():
            if key == "…":
                await _still(pilot)
            elif key == "~":
                await pilot.pause(SETTLE_S)
            else:
                with contextlib.suppress(WaitForScreenTimeout):  # a live run on a busy machine
                    await pilot.press(key)
                await pilot.pause(KEY_S)
        return shown(app), app.export_screenshot(title=state.name)


def take(state: State, out: Path, sizes: list[tuple[int, int]]) -> None:
    """Open a new app for each size and write what it shows."""
    for size in (size for size in state.sizes if not sizes or size in sizes):
        Path("config/preferences.json").unlink(missing_ok=True)
        run, config, rewards = state.opens()
        app = GrpoApp([RUNS], run, rewards=rewards, config=config)
        text, picture = asyncio.run(_take(app, state, size))
        if run is not None:
            end(RunFolder(run).database)
        name = f"{state.name}-{size[0]}x{size[1]}"
        (out / f"{name}.txt").write_text(text + "\n", encoding="utf-8")
        (out / f"{name}.svg").write_text(picture, encoding="utf-8")
        print(name, flush=True)


def together(out: Path) -> str:
    """Return all texts, each below its name."""
    files = sorted(path for path in out.glob("*.txt") if path.name != "all.txt")
    return "\n".join(f"{path.stem:═^120}\n{path.read_text(encoding='utf-8')}" for path in files)


def main() -> int:
    """Take every state, or those that match a pattern."""
    shape = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=shape)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--size", action="append", default=[], metavar="WxH")
    parser.add_argument("names", nargs="*")
    parsed = parser.parse_args()
    sizes = [tuple(map(int, size.split("x"))) for size in parsed.size]
    out: Path = parsed.out.absolute()
    work = out / "work"
    work.mkdir(parents=True, exist_ok=True)
    os.chdir(work)
    for name in ("NO_COLOR", "COLORFGBG"):
        os.environ.pop(name, None)
    os.environ["GRPO_TUI_CONFIG_DIR"] = str(work / "config")
    try:
        for state in STATES:
            if not parsed.names or any(fnmatch.fnmatch(state.name, name) for name in parsed.names):
                take(state, out, sizes)  # type: ignore[arg-type]
    finally:
        stop()
    (out / "all.txt").write_text(together(out), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
