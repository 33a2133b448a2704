"""Several runs on one chart."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grpo_tui.core import records as r
from grpo_tui.store.spec import RunSpec
from grpo_tui.ui.app import GrpoApp
from grpo_tui.ui.screens.chart import OverlayScreen, distinct_names
from grpo_tui.ui.screens.metrics import MetricPicker
from tests.ui.conftest import app_on, shown, until
from tests.ui.recorded_run import NOW, RecordedRun
from tests.ui.test_pictures import SIZES

Compare = Callable[..., bool]


def made(
    name: str, rate: float, steps: int, *, began_s: float = 60.0, metric: str = "entropy"
) -> RecordedRun:
    """A run of a few metrics with a learning rate of its own."""
    run = RecordedRun(Path("runs") / name, began_at=NOW - began_s)
    config = {"model": "/models/adder", "grpo": {"learning_rate": rate, "beta": 0.0, "seed": 42}}
    run.write(r.Fact("config", config))
    for step in range(1, steps + 1):
        values = {"reward": 3 - 3 / (1 + step * rate * 300), metric: 1 / step}
        run.write(r.MetricRow(1, step, run.at(step), values))
    return run


@pytest.fixture
def runs() -> tuple[RecordedRun, RecordedRun]:
    """Two runs that ended at different steps."""
    slow, fast = made("slow", 1e-4, 60), made("fast", 1e-3, 30, began_s=4000.0)
    for run in (slow, fast):
        run.end("finished")
    return slow, fast


async def laid_over(pilot: Any, *folders: Path, word: str = "settings that differ") -> OverlayScreen:
    """The overlay of these runs, read."""
    await pilot.app.push_screen(OverlayScreen(folders))
    await until(pilot, lambda: word in shown(pilot.app) and "━━" in shown(pilot.app))
    screen = pilot.app.screen
    assert isinstance(screen, OverlayScreen)
    return screen


def roots(runs: tuple[RecordedRun, ...]) -> tuple[Path, ...]:
    return tuple(run.folder.root for run in runs)


async def test_names_stand_in_the_title_with_the_sign_of_their_line(runs: tuple[RecordedRun, ...]) -> None:
    app = app_on(None)
    async with app.run_test(size=(120, 40)) as pilot:
        await laid_over(pilot, *roots(runs))
        title = shown(app).splitlines()[1]
        assert "━━ slow" in title
        assert "╍╍ fast" in title
        table = next(line for line in shown(app).splitlines() if "learning_rate" in line)
        assert table.split() == ["learning_rate", "1e-4", "0.001"]
        assert "beta" not in shown(app)


async def test_the_cursor_reads_every_run_and_one_that_ended_before_has_no_value(
    runs: tuple[RecordedRun, ...],
) -> None:
    app = app_on(None)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await laid_over(pilot, *roots(runs))
        await pilot.press("left")
        await until(pilot, lambda: "╍╍ fast –" in shown(app))
        await pilot.press("home", *["right"] * 9)
        assert screen.options.cursor == 10.0
        await until(pilot, lambda: " step 10 " in shown(app))
        reading = next(line for line in shown(app).splitlines()[3:] if "━━ slow" in line)
        assert "–" not in reading


async def test_time_counts_from_each_runs_own_start(runs: tuple[RecordedRun, ...]) -> None:
    app = app_on(None)
    async with app.run_test(size=(120, 40)) as pilot:
        await laid_over(pilot, *roots(runs))
        await pilot.press("t")
        await until(pilot, lambda: "0 to 18s" in shown(app))
        await pilot.press("g", "right")
        await until(pilot, lambda: "3s after the start" in shown(app) and "fast –" not in shown(app))


async def test_brackets_and_x_change_the_metric_of_all(runs: tuple[RecordedRun, ...]) -> None:
    app = app_on(None)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await laid_over(pilot, *roots(runs))
        await pilot.press("right_square_bracket")
        await until(pilot, lambda: shown(app).splitlines()[1].startswith("─ entropy"))
        await pilot.press("x")
        await until(pilot, lambda: isinstance(app.screen, MetricPicker) and "reward" in shown(app))
        await pilot.press(*"mean over the batch")
        await until(pilot, lambda: app.screen._selected_key() == "reward")
        await pilot.press("enter")
        await until(
            pilot,
            lambda: screen.options.key == "reward" and shown(app).splitlines()[1].startswith("─ reward"),
        )


async def test_a_metric_that_no_run_has_gives_way_to_the_first_that_one_has(
    runs: tuple[RecordedRun, ...],
) -> None:
    app = app_on(None)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = OverlayScreen(roots(runs), "none")
        await app.push_screen(screen)
        await until(pilot, lambda: screen.options.key != "none" and "━━" in shown(app))
        assert screen._facts is not None
        assert len(screen._facts.keys) > 1
        assert screen.options.key == screen._facts.keys[0]


async def test_a_run_that_trains_goes_on_beside_one_that_ended(runs: tuple[RecordedRun, ...]) -> None:
    live = made("live", 5e-4, 20)
    live.now("update")
    app = app_on(None)
    async with app.run_test(size=(120, 40)) as pilot:
        await laid_over(pilot, runs[1].folder.root, live.folder.root)
        assert "following" in shown(app)
        live.write(r.MetricRow(1, 21, live.at(21), {"reward": 2.987}))
        await until(pilot, lambda: "live 2.987" in shown(app))
    live.close()


async def test_a_run_that_cannot_be_read_takes_nothing_from_the_others(runs: tuple[RecordedRun, ...]) -> None:
    gone = Path("runs") / "gone"
    gone.mkdir()
    app = app_on(None)
    async with app.run_test(size=(120, 40)) as pilot:
        await laid_over(pilot, runs[0].folder.root, gone)
        assert "╍╍ gone –" in shown(app)
        await pilot.press("escape")
        assert not isinstance(app.screen, OverlayScreen)


async def test_six_lines_are_shown_and_more_are_told(runs: tuple[RecordedRun, ...]) -> None:
    root = runs[0].folder.root
    runs[0].close()
    copies = [Path(shutil.copytree(root, root.with_name(f"copy-{i}"))) for i in range(8)]
    app = app_on(None)
    async with app.run_test(size=(200, 50), notifications=True) as pilot:
        await laid_over(pilot, *copies, word="none differs as recorded")
        assert "copy-5" in shown(app)
        assert "copy-6" not in shown(app)
        await until(pilot, lambda: "2 more are marked" in shown(app))


def seeded(name: str, seed: int, level: float, steps: int = 30, *, state: str = "finished") -> Path:
    """A run of a set, whose reward is `level` throughout."""
    run = RecordedRun(Path("runs") / f"{name}-seed-{seed}", began_at=NOW - 60)
    run.write(r.Fact("config", {"model": "/m", "grpo": {"learning_rate": len(name) * 1e-4, "seed": seed}}))
    for step in range(1, steps + 1):
        run.write(r.MetricRow(1, step, run.at(step), {"reward": level}))
    run.end(state)
    run.close()
    return run.folder.root


SETS = {("old", 1): 0.50, ("old", 2): 0.52, ("old", 3): 0.51, ("better", 1): 0.80, ("better", 2): 0.83,
        ("better", 3): 0.80}  # fmt: skip


async def test_runs_that_differ_only_by_seed_are_one_line_with_a_verdict() -> None:
    folders = [seeded(name, seed, level) for (name, seed), level in SETS.items()]
    app = app_on(None)
    async with app.run_test(size=(160, 40)) as pilot:
        screen = await laid_over(pilot, *folders)
        await until(pilot, lambda: "━━ old, 3 seeds 0.51" in shown(app))
        title = shown(app).splitlines()[1]
        assert "╍╍ better, 3 seeds 0.80" in title
        assert title.count("seeds") == 2
        assert "band: lowest to highest seed" in shown(app)
        assert "better is better than old by 0.300 (95 %: 0.275 to 0.325)" in shown(app)
        table = next(line for line in shown(app).splitlines() if "learning_rate" in line)
        assert table.split() == ["learning_rate", "3e-4", "6e-4"]
        assert "seed " not in "".join(one.name for one in screen._facts.settings if screen._facts)
        await pilot.press("g")
        await until(pilot, lambda: "(0.500 to 0.520)" in shown(app))
        await pilot.press("t")
        await until(pilot, lambda: "after the start" in shown(app) and "(0.500 to 0.520)" in shown(app))


async def test_the_line_of_a_fork_begins_at_its_checkpoint_with_the_settings_that_differ() -> None:
    parent = made("first", 1e-4, 60)
    fork = RecordedRun(Path("runs") / "second", began_at=NOW - 30)
    config = {"model": "/models/adder", "grpo": {"learning_rate": 1e-3, "beta": 0.0, "seed": 7}}
    fork.write(r.Fact("config", config))
    for step in range(41, 61):
        fork.write(r.MetricRow(1, step, fork.at(step - 40), {"reward": step / 10}))
    checkpoint = parent.folder.root.absolute() / "checkpoint-40"
    RunSpec({}, forked_from=str(checkpoint)).write(fork.folder.spec)
    for run in (parent, fork):
        run.end("finished")
    app = app_on(None)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await laid_over(pilot, *roots((parent, fork)))
        assert "second was forked from first at checkpoint-40" in shown(app)
        table = next(line for line in shown(app).splitlines() if "learning_rate" in line)
        assert table.split() == ["learning_rate", "1e-4", "0.001"]
        await until(pilot, lambda: screen._view is not None and len(screen._view.lines) == 2)
        assert screen._view is not None
        assert [line.buckets[0].first for line in screen._view.lines] == [1, 41]
        assert [line.buckets[-1].last for line in screen._view.lines] == [60, 60]


async def test_a_set_that_lost_a_run_goes_on_with_those_it_has() -> None:
    folders = [seeded("old", 1, 0.5), seeded("old", 2, 0.9), seeded("old", 3, 0.2, 10, state="failed")]
    app = app_on(None)
    async with app.run_test(size=(160, 40)) as pilot:
        await laid_over(pilot, *folders, word="none differs as recorded")
        await until(pilot, lambda: "old: final total reward 0.700" in shown(app))
        await pilot.press("home", *["right"] * 4)
        await until(pilot, lambda: "0.500 (0.200 to 0.900)" in shown(app))
        await pilot.press("end")
        await until(pilot, lambda: "0.700 (0.500 to 0.900)" in shown(app))


def test_names_that_are_the_same_are_told_apart_by_their_folders() -> None:
    assert distinct_names((Path("/a/run"), Path("/b/run"))) == ["a/run", "b/run"]
    assert distinct_names((Path("/a/x"), Path("/b/y"))) == ["x", "y"]


@pytest.mark.parametrize("size", SIZES, ids=lambda size: "x".join(map(str, size)))
def test_runs_over_each_other(
    snap_compare: Compare, runs: tuple[RecordedRun, ...], size: tuple[int, int]
) -> None:
    third = made("a-third-with-a-long-name", 4e-4, 45)
    third.end("stopped")
    app: GrpoApp = app_on(None)

    async def prepare(pilot: Any) -> None:
        await laid_over(pilot, *roots((*runs, third)))
        await pilot.press("home", *["right"] * 9)
        await until(pilot, lambda: " step 10 " in shown(pilot.app))

    assert snap_compare(app, terminal_size=size, run_before=prepare)
