"""The machine on the screen: in the now line, and in full."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from textual.widget import Widget

from grpo_tui.ui.screens.hardware import HardwareScreen
from grpo_tui.ui.screens.train import TrainScreen
from tests.ui import machines
from tests.ui.conftest import app_on, opened, shown, until
from tests.ui.recorded_run import NOW, RecordedRun, recorded
from tests.ui.test_pictures import SIZES, ready

Compare = Callable[..., bool]


def line_of(text: str, word: str) -> str:
    """The line of the screen in which a word stands."""
    return next(line for line in text.splitlines() if word in line)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: "x".join(map(str, size)))
async def test_the_now_line_tells_what_deserves_a_look_at_every_size(
    run: RecordedRun, size: tuple[int, int]
) -> None:
    machines.ranks(run, 8)
    machines.put(run, machines.eight())
    app = app_on(run.folder.root)
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: "⚠ GPU 3 idle" in shown(app))
        now = line_of(shown(app), "─ now")
        assert "updating the policy for 4.0 s" in now
        assert "⚠ GPU 3 idle and 1 more" in now
        assert ("8 GPUs 0–99 %  62 of 80 GB  max 65 °C" in now) == (size[0] >= 120)


async def test_the_now_line_names_the_rank_that_others_wait_for(run: RecordedRun) -> None:
    machines.ranks(run, 8, behind=3)
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "rank 3 still generating for 12 s" in shown(app))


async def test_one_gpu_stands_with_its_figures_at_80_columns(run: RecordedRun) -> None:
    machines.ranks(run, 1)
    machines.put(run, machines.machine(machines.gpu(0, 87.0)))
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "GPU 87 %  62 of 80 GB  58 °C" in line_of(shown(app), "─ now"))


async def test_with_room_the_shares_of_the_phases_stay(run: RecordedRun) -> None:
    machines.put(run, machines.none())
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "GPU none" in shown(app))
        now = line_of(shown(app), "─ now")
        assert "CPU 38 %   RAM 12 GB   GPU none" in now
        assert "generate 55 %" in now


async def test_u_shows_the_machine_and_escape_u_and_a_click_lead_back(run: RecordedRun) -> None:
    machines.ranks(run, 8)
    machines.put(run, machines.eight())
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "⚠ GPU 3 idle" in shown(app))
        for back in ("escape", "u"):
            await pilot.press("u")
            await until(pilot, lambda: isinstance(app.screen, HardwareScreen))
            await pilot.press(back)
            assert isinstance(app.screen, TrainScreen)
        await pilot.click("#now", offset=(70, 0))
        await until(pilot, lambda: isinstance(app.screen, HardwareScreen))
        await pilot.click("Footer", offset=(2, 0))
        await until(pilot, lambda: isinstance(app.screen, TrainScreen))


async def test_eight_gpus_fit_at_80x24_and_everything_else_is_a_scroll_away(run: RecordedRun) -> None:
    machines.ranks(run, 8, behind=2)
    machines.put(run, machines.eight())
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "GPU 3 idle" in shown(app))
        await pilot.press("u")
        await until(pilot, lambda: "8 × NVIDIA H100" in shown(app))
        text = shown(app)
        for index, use in enumerate(machines.USES):
            line = next(row for row in text.splitlines() if row[2:4].strip() == str(index))
            assert f"{use:.0f} %" in line
            assert "62 of 80 GB" in line
        assert "GPU 3 has been idle for 1m04s while others work" in text
        assert "this run 9.1 cores" in text
        await pilot.press("j")
        scrolled = app.screen.query_one("#hardware-lines", Widget)
        await until(pilot, lambda: scrolled.scroll_offset.y == 1)
        await pilot.press("end")
        await until(pilot, lambda: "still generating for 12 s" in shown(app))
        text = shown(app)
        assert "⚠ rank 2" in line_of(text, "still generating for 12 s")
        assert "81234" in line_of(text, "ada  ")
        assert "[@click=app.quit]x␛]52;c;x␇" in text
        assert "\x1b" not in text


async def test_figures_of_a_slow_driver_say_how_old_they_are(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        machines.put(run, replace(machines.eight(), gpus_at=NOW - 5))
        await until(pilot, lambda: "⚠ GPU 3 idle" in shown(app))
        await pilot.press("u")
        await until(pilot, lambda: "8 × NVIDIA H100" in shown(app))
        assert "as of" not in shown(app)
        machines.put(run, replace(machines.eight(), gpus_at=NOW - 70))
        await until(pilot, lambda: "as of 1m10s ago" in line_of(shown(app), "8 × NVIDIA H100"))


async def test_without_a_gpu_the_screen_says_so_and_shows_the_rest(run: RecordedRun) -> None:
    machines.put(run, machines.none())
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "GPU none" in shown(app))
        await pilot.press("u")
        await until(pilot, lambda: "No GPU here: NVML Shared Library Not Found." in shown(app))
        assert "of 32 cores" in shown(app)
        assert "61 of 512 GB" in shown(app)
        assert "410.0 GB free" in shown(app)
        assert "processes on the GPUs" not in shown(app)


async def test_a_run_that_nobody_samples_says_so(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        await pilot.press("u")
        await until(pilot, lambda: "No figures yet" in shown(app))


async def test_of_a_run_that_has_ended_the_record_and_the_model_are_shown_and_no_machine(
    tmp_path: Path,
) -> None:
    run = recorded(Path("runs") / "demo-add", "finished")
    (run.folder.root / "config.json").write_text("{}")
    machines.put(run, machines.eight())
    run.close()
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "ended ── finished" in shown(app))
        assert "model in " in shown(app)
        assert "GPU" not in shown(app)
        await pilot.press("u")
        await until(pilot, lambda: "Recorded of this run" in shown(app))
        assert "s/step, over the last 20 steps" in shown(app)
        assert "update" in line_of(shown(app), "  time  ")
        assert "H100" not in shown(app)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: "x".join(map(str, size)))
def test_eight_gpus_in_the_train_pane(snap_compare: Compare, run: RecordedRun, size: tuple[int, int]) -> None:
    machines.ranks(run, 8, behind=3)
    machines.put(run, machines.eight())
    assert snap_compare(app_on(run.folder.root), terminal_size=size, run_before=ready("step 57 ── “"))


@pytest.mark.parametrize("size", SIZES, ids=lambda size: "x".join(map(str, size)))
def test_eight_gpus_in_full(snap_compare: Compare, run: RecordedRun, size: tuple[int, int]) -> None:
    machines.ranks(run, 8, behind=3)
    machines.put(run, machines.eight())
    assert snap_compare(app_on(run.folder.root), terminal_size=size, run_before=ready("step 57 ── “", "u"))
