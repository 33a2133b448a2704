"""A pane asks before it runs code of a foreign run: nothing runs before the yes, and it runs after it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from grpo_tui.rewards.consent import NOT_RUN
from grpo_tui.ui.app import GrpoApp
from grpo_tui.ui.requests import ConfigRequest
from grpo_tui.ui.screens.config import ConfigScreen
from grpo_tui.ui.screens.data import DataScreen
from grpo_tui.ui.screens.dialogs import MenuDialog, ResumeDialog, WordsDialog
from grpo_tui.ui.screens.generations import GenerationsScreen
from grpo_tui.ui.screens.rewards import RewardsScreen
from grpo_tui.ui.screens.runs import RunsScreen
from grpo_tui.ui.screens.tokens import TokensScreen
from grpo_tui.ui.screens.what_if import WhatIfScreen
from tests.foreign import ForeignRun, foreign_run
from tests.ui.conftest import app_on, opened, shown, until
from tests.ui.open_configs import looked_at
from tests.ui.recorded_run import NOW

pytestmark = pytest.mark.usefixtures("warm_lab", "no_yes")
SIZE = (140, 44)


@pytest.fixture
def foreign(tmp_path: Path) -> ForeignRun:
    return foreign_run(tmp_path / "runs" / "theirs", tmp_path / "marks")


async def asked(pilot: Any, answer: str, *names: str) -> None:
    """Wait for the question, which names these files, and answer it."""
    app = pilot.app
    await until(pilot, lambda: isinstance(app.screen, MenuDialog) and "not yours" in shown(app))
    text = shown(app)
    for name in names:
        assert name in text
    await pilot.press(answer)
    await until(pilot, lambda: not isinstance(app.screen, MenuDialog))


def scored_now(screen: RewardsScreen) -> bool:
    """Whether functions were called, and all that follows is done."""
    view = screen.scored
    return view is not None and view.about.whole and view.about.reason != "as recorded" and not screen._busy


@pytest.mark.parametrize("no", ["n", "enter", "escape"])
async def test_rewards_of_a_foreign_run_are_shown_as_recorded_until_the_yes(
    foreign: ForeignRun, no: str
) -> None:
    app = app_on(foreign.root)
    async with app.run_test(size=SIZE) as pilot:
        await opened(pilot)
        await pilot.press("3")
        await asked(pilot, no, "rewards.py", "task.py")
        screen = app.screen
        assert isinstance(screen, RewardsScreen)
        await until(pilot, lambda: "ctrl+l asks again" in shown(app))
        assert "no problems found" not in shown(app), "nothing was looked for yet"
        assert screen.scored is not None
        assert [column.name for column in screen.scored.columns][:2] == ["correctness", "format_reward"]
        assert screen.report is not None
        assert len(screen.samples) == 32
        assert {score for f in screen.report.scored.functions for score in f.scores} <= {None, 0.0, 0.25, 1.0}
        await pilot.press("p")
        await asked(pilot, "n", "rewards.py")
        assert foreign.ran() == set()
        await pilot.press("ctrl+l")
        await asked(pilot, "y", "rewards.py")
        await until(pilot, lambda: scored_now(screen))
        assert foreign.ran() == {"rewards.py", "task.py"}
        await pilot.press("ctrl+l")
        await until(pilot, lambda: "scored again" in shown(app))
        assert foreign.ran() >= {"rewards.py"}


async def test_what_if_weighs_without_a_yes_and_asks_before_it_scores(foreign: ForeignRun) -> None:
    app = app_on(foreign.root)
    async with app.run_test(size=SIZE) as pilot:
        await opened(pilot)
        await pilot.press("5")
        await until(pilot, lambda: isinstance(app.screen, GenerationsScreen) and app.screen.card is not None)
        await pilot.press("w")
        await asked(pilot, "n", "rewards.py")
        assert isinstance(app.screen, WhatIfScreen)
        lines = app.screen
        await until(pilot, lambda: "ctrl+l asks again" in lines.trouble)
        await pilot.press("o")
        await until(pilot, lambda: isinstance(app.screen, WordsDialog))
        await pilot.press("enter")
        await until(pilot, lambda: lines.found is not None)
        assert foreign.ran() == set()
        await pilot.press("ctrl+l")
        await asked(pilot, "y", "rewards.py")
        await until(pilot, lambda: lines.found is not None and lines.found.changed > 0)
        assert foreign.ran() >= {"rewards.py"}


async def test_tokens_of_a_foreign_run_with_a_models_own_code(tmp_path: Path) -> None:
    foreign = foreign_run(tmp_path / "runs" / "theirs", tmp_path / "marks", remote_code=True)
    app = app_on(foreign.root)
    async with app.run_test(size=SIZE) as pilot:
        await opened(pilot)
        await pilot.press("5")
        await until(pilot, lambda: isinstance(app.screen, GenerationsScreen) and app.screen.card is not None)
        await pilot.press("t")
        await until(pilot, lambda: isinstance(app.screen, MenuDialog) and "whose" in shown(app))
        await pilot.press("b")
        await asked(pilot, "n", "trust_remote_code")
        assert isinstance(app.screen, TokensScreen)
        await until(pilot, lambda: "p asks again" in shown(app))
        assert not started(app.screen)
        await pilot.press("p")
        await until(pilot, lambda: isinstance(app.screen, MenuDialog) and "whose" in shown(app))
        await pilot.press("b")
        await asked(pilot, "y", "trust_remote_code")
        screen = app.screen
        await until(pilot, lambda: started(screen))


def started(screen: Any) -> bool:
    """Whether the process that loads the model was started."""
    child = screen._asker._child if screen._asker is not None else None
    return child is not None and child._child.pid is not None


async def at_config(pilot: Any) -> ConfigScreen:
    screen = await looked_at(pilot)
    assert isinstance(screen, ConfigScreen)
    return screen


@pytest.fixture
def config_app(foreign: ForeignRun) -> GrpoApp:
    return GrpoApp([Path("runs")], None, config=ConfigRequest(foreign.config), clock=lambda: NOW)


async def test_a_foreign_config_is_checked_as_far_as_that_runs_nothing(
    config_app: GrpoApp, foreign: ForeignRun
) -> None:
    app = config_app
    async with app.run_test(size=SIZE) as pilot:
        screen = await at_config(pilot)
        assert foreign.ran() == set()
        await pilot.press("c")
        await asked(pilot, "n", "rewards.py", "task.py")
        await until(pilot, lambda: unlooked(screen) == {"grpo_tui.rewards", "grpo_tui.dataset"})
        await pilot.press("escape")  # the model is not what this is about
        await until(pilot, lambda: not screen.start.busy_line())
        for key in ("R", "T"):
            await pilot.press(key)
            if key == "R":
                await until(pilot, lambda: isinstance(app.screen, MenuDialog))
                await pilot.press("!")
            await asked(pilot, "n", "rewards.py")
        assert foreign.ran() == set()
        await pilot.press("c")
        await asked(pilot, "y", "rewards.py")
        await until(
            pilot, lambda: {mark.name for mark in foreign.marks.iterdir()} == {"rewards.py", "task.py"}
        )


def unlooked(screen: ConfigScreen) -> set[str | None]:
    """The keys of what the check did not look at."""
    found = screen.state.findings if screen.state is not None else ()
    return {finding.field for finding in found if finding.id == NOT_RUN}


async def test_the_rows_of_a_foreign_config(config_app: GrpoApp, foreign: ForeignRun) -> None:
    app = config_app
    async with app.run_test(size=SIZE) as pilot:
        await at_config(pilot)
        await pilot.press("i")
        await asked(pilot, "n", "task.py")
        assert isinstance(app.screen, DataScreen)
        assert "not your code" in shown(app)
        assert foreign.ran() == set()
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, ConfigScreen))
        await pilot.press("i")
        await asked(pilot, "y", "task.py")
        await until(pilot, lambda: "What is 0 + 2?" in shown(app))
        assert "task.py" in foreign.ran()


async def test_a_foreign_run_is_not_resumed_without_a_yes(foreign: ForeignRun) -> None:
    before = (foreign.root / "run.json").read_text()
    app = GrpoApp([Path("runs")], None, clock=lambda: NOW)
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: isinstance(app.screen, RunsScreen) and "theirs" in shown(app))
        await pilot.press("R")
        await until(pilot, lambda: isinstance(app.screen, ResumeDialog))
        await pilot.press("y")
        await asked(pilot, "n", "rewards.py", "record and checkpoints")
    assert (foreign.root / "run.json").read_text() == before
    assert foreign.ran() == set()
