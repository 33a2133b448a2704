"""A replay in the screens: it plays, goes back and forth, and refuses everything that changes something."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grpo_tui.core.commands import REPLAYED
from grpo_tui.present.replay import start_replay
from grpo_tui.store import replay as module
from grpo_tui.ui.actions import ACTING, ACTIONS, for_footer
from grpo_tui.ui.app import GrpoApp
from grpo_tui.ui.replaying import ReplayPoller
from grpo_tui.ui.requests import ConfigRequest
from grpo_tui.ui.screens.generations import GenerationsScreen
from grpo_tui.ui.screens.reading import HelpScreen
from grpo_tui.ui.screens.train import LOADING, TrainScreen
from tests.ship.folders import checkpoint
from tests.ui.acts import Acts
from tests.ui.conftest import app_on, shown, until
from tests.ui.open_configs import config_file, looked_at
from tests.ui.recorded_run import NOW, RecordedRun, recorded


@pytest.fixture
def ended(tmp_path: Path) -> Iterator[RecordedRun]:
    """A finished run of 60 steps."""
    run = recorded(Path("runs") / "demo-add", "finished")
    run.close()
    yield run
    module._replays.clear()


def hashes(folder: Path) -> dict[str, str]:
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.rglob("*") if p.is_file()}


def replayed(run: RecordedRun, at: int | None = 42, speed: float = 1e-6) -> Any:
    """The app as `grpo-tui replay` opens it, so slow that it stays at its step."""
    start_replay(run.folder.root, at, speed)
    return app_on(run.folder.root)


def at_step(app: Any, step: int) -> Any:
    return lambda: app.view is not None and app.view.step == step and app.view.whole


async def test_it_goes_forward_and_back_pauses_and_changes_its_speed(ended: RecordedRun) -> None:
    before = hashes(ended.folder.root)
    app = replayed(ended)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, at_step(app, 42))
        await until(pilot, lambda: "replay: 42 of 60 · ×1e-06" in shown(app))
        first = app.view
        await pilot.press("full_stop")
        await until(pilot, at_step(app, 43))
        assert "replay: 43 of 60 · paused" in shown(app) or "replay: 43 of 60 · space plays" in shown(app)
        await pilot.press("comma")
        await until(pilot, at_step(app, 42))
        again = app.view
        assert (again.charts, again.groups, again.settings) == (first.charts, first.groups, first.settings)
        assert again.events == first.events
        await pilot.press("colon")
        await pilot.press(*"7", "enter")
        await until(pilot, at_step(app, 7))
        assert max(chart.end for chart in app.view.charts) < 60
        await pilot.press("colon")
        await pilot.press(*"60", "enter")
        await until(pilot, at_step(app, 60))
        assert app.view.state == "finished"
        await pilot.press("plus")
        await until(pilot, lambda: app.view.replay.speed == 1.0)
        await pilot.press("space")
        await until(pilot, lambda: app.view.step < 60)  # on a busy machine, it may pass step 1 unseen
        assert app.view.replay.playing
    assert hashes(ended.folder.root) == before


async def test_it_plays_by_itself_to_the_end(ended: RecordedRun) -> None:
    app = replayed(ended, None, 1000.0)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, at_step(app, 60))
        await until(pilot, lambda: "replay: step 60 of 60 · space restarts" in shown(app))
        assert app.farewell == ""


async def test_generations_and_the_log_follow_it_back(ended: RecordedRun) -> None:
    app = replayed(ended)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, at_step(app, 42))
        await pilot.press("5")
        await until(pilot, lambda: "in 168 groups" in shown(app))
        assert "space" not in shown(app).splitlines()[0], "its keys are those of Train"
        await pilot.press("4")
        await pilot.press("colon")
        await pilot.press(*"10", "enter")
        await until(pilot, at_step(app, 10))
        await pilot.press("5")
        await until(pilot, lambda: "in 40 groups" in shown(app))
        assert isinstance(app.screen, GenerationsScreen)


async def test_every_action_that_acts_is_refused_and_not_offered(ended: RecordedRun) -> None:
    before = hashes(ended.folder.root)
    app = replayed(ended)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, at_step(app, 42))

        async def refused(do: Any) -> None:
            app.clear_notifications()
            await do
            await until(pilot, lambda: any(note.message == REPLAYED for note in app._notifications))

        for key in "PCASUVm=":
            await refused(pilot.press("equals_sign" if key == "=" else key))
        screen = app.screen
        for action in ACTIONS:
            if action.acts:
                await refused(app.run_action(action.target))
        assert app.screen is screen, "no dialog was opened"
        offered = {a.id for a in app.offered(app.screen)}
        acting = {a.id for a in ACTIONS if a.acts}
        assert {"run.stop", "run.set", "run.sample", "config.start", "runs.resume", "results.push"} <= acting
        assert {"config.drills", "rewards.new"} <= acting, "no key says that they act"
        assert not acting & offered
        assert "replay.go" in offered
        for pane in ("train", "generations", "results", "runs", "config", "rewards"):
            assert not {a.id for a in for_footer(pane, app.view)} & acting
        await pilot.press("question_mark")
        await until(pilot, lambda: "help" in shown(app))
        text = shown(app)
        assert "Toggle the log." in text
        assert "Save a checkpoint after" not in text
    assert hashes(ended.folder.root) == before
    assert not ended.folder.commands.exists()


async def test_results_of_a_replay_offer_no_comparison(ended: RecordedRun) -> None:
    checkpoint(ended.folder.root, 40)
    app = replayed(ended)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, at_step(app, 42))
        await pilot.press("6")
        await until(pilot, lambda: "Not compared with the base model yet." in shown(app))
        assert "compares a model" not in shown(app)


@pytest.mark.parametrize("of_run", [True, False])
async def test_a_config_that_the_user_opened_beside_a_replay_can_be_changed(
    ended: RecordedRun, of_run: bool
) -> None:
    start_replay(ended.folder.root, 42, 1e-6)
    config = ConfigRequest(config_file(), of_run=of_run)
    app = GrpoApp([Path("runs")], ended.folder.root, config=config, clock=lambda: NOW)
    async with app.run_test(size=(120, 40)) as pilot:
        await looked_at(pilot)
        await until(pilot, at_step(app, 42))
        assert ("R start" in shown(app)) is not of_run
        await pilot.press("ctrl+o")  # save under another name
        await until(pilot, lambda: bool(app._notifications) if of_run else len(app.screen_stack) > 1)
        assert any(note.message == REPLAYED for note in app._notifications) is of_run


async def test_a_key_of_a_replay_is_not_answered_wrongly_before_it_has_loaded(
    ended: RecordedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GrpoApp, "_start_workers", lambda self: None)
    app = replayed(ended)
    async with app.run_test(size=(80, 24)) as pilot:
        for key in ("full_stop", "equals_sign"):
            app.clear_notifications()
            await pilot.press(key)
            await until(pilot, lambda: bool(app._notifications))
            assert [note.message for note in app._notifications] == [LOADING]


def test_what_looks_is_not_refused() -> None:
    assert not ACTING & {
        "view_hold",
        "view_log",
        "generations_newest",
        "zoom_newest",
        "app_palette",
        "app_suspend",
    }
    lines = ["".join(span.text for span in line) for line in HelpScreen("train").lines(100)]
    assert any("Save a checkpoint after" in line for line in lines)


async def test_it_begins_in_runs_or_the_palette_and_ends_with_the_run_itself(run: RecordedRun) -> None:
    app = app_on(None)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "demo-add" in shown(app))
        await pilot.press("p")
        await until(pilot, lambda: isinstance(app.screen, TrainScreen) and app.view is not None)
        await until(pilot, lambda: "replay: step" in shown(app))
        assert isinstance(app.replay, ReplayPoller)
        await pilot.press("1")
        await until(pilot, lambda: [(row.state, row.step) for row in app.rows] == [("training", 57)])
        await pilot.press("enter")
        await until(pilot, lambda: app.view is not None and app.view.replay is None and app.view.step == 57)
        assert app.replay is None
        act = Acts(pilot)
        await act("replay.open", lambda: app.view is not None and app.view.replay is not None)
