"""A trial from the pane Config: it asks to save, says what it took, and esc stops it with its folder."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from grpo_tui.demo import DEMO_CONFIG
from grpo_tui.ui.screens.config import ConfigScreen
from grpo_tui.ui.starting import Child, Ended, Trial
from tests.processes.runs import SMALL, until
from tests.ui.conftest import shown
from tests.ui.conftest import until as until_shown
from tests.ui.open_configs import CONFIG, app_with, config_file, looked_at, still_machine

SIZE = (120, 40)


@pytest.mark.usefixtures(still_machine.__name__)
async def test_a_trial_asks_to_save_and_says_what_it_took(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def run(self: Trial, tell: Callable[[str], None]) -> tuple[bool, str]:
        asked.append(self._child.words[3:])
        return True, "trained   2 steps\nmemory    555 MB at the peak, planned 513 MB: 1.08 ×\n"

    monkeypatch.setattr(Trial, "run", run)
    path = config_file()
    app = app_with(path)
    async with app.run_test(size=SIZE) as pilot:
        screen = await looked_at(pilot)
        screen.to_form("max_steps")
        await pilot.press("delete", "T")
        await until_shown(pilot, lambda: "save first?" in shown(app))
        assert not asked
        await pilot.press("w")
        await until_shown(pilot, lambda: "planned 513 MB: 1.08 ×" in shown(app))
        assert asked == [["train", str(path), "--smoke"]]
        assert path.read_text() == CONFIG.replace("max_steps: 20\n", "")
        await pilot.press("escape")
        await until_shown(pilot, lambda: isinstance(app.screen, ConfigScreen))
        assert "trying" not in shown(app)


@pytest.mark.usefixtures(still_machine.__name__)
@pytest.mark.parametrize("ended", [True, False])
async def test_a_trial_that_fails_says_why_and_one_that_is_ended_is_told_so(
    ended: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    until_ended = threading.Event()

    def run(self: Trial, tell: Callable[[str], None]) -> tuple[bool, str]:
        tell("trial: loading the model")
        assert until_ended.wait(30)
        return False, "the trial was stopped" if self.cancelled() else "the trial failed: no GPU"

    cancel = Trial.cancel

    def cancelled(self: Trial) -> None:
        cancel(self)
        until_ended.set()

    monkeypatch.setattr(Trial, "run", run)
    monkeypatch.setattr(Trial, "cancel", cancelled)
    app = app_with(config_file())
    async with app.run_test(size=SIZE) as pilot:
        await looked_at(pilot)
        await pilot.press("T")
        await until_shown(
            pilot, lambda: "trial: loading the model" in shown(app) and "esc stops it" in shown(app)
        )
        if ended:
            await pilot.press("escape")
        else:
            until_ended.set()
        await until_shown(pilot, lambda: bool(app._notifications))
        (said,) = app._notifications
        assert (said.message, said.severity) == (
            ("the trial was stopped", "information")
            if ended
            else ("It cannot train: the trial failed: no GPU", "error")
        )
        assert "trying" not in shown(app)


@pytest.mark.usefixtures(still_machine.__name__)
async def test_the_drills_show_what_to_change_beside_what_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def run(self: Child, tell: Callable[[str], None] = lambda stage: None) -> Ended:
        asked.append(self.words[3:])
        return Ended(1, "kill         change: save_steps is 500\nnan          pass: skipped\n", "trial: nan")

    monkeypatch.setattr(Child, "run", run)
    path = config_file()
    app = app_with(path)
    async with app.run_test(size=SIZE) as pilot:
        screen = await looked_at(pilot)
        screen.action_config_drills()
        await until_shown(
            pilot, lambda: "change: save_steps is 500" in shown(app) and "pass: skipped" in shown(app)
        )
        assert asked == [["train", str(path), "--drill=all"]]
        assert "drills" in shown(app)
        await pilot.press("escape")
        await until_shown(pilot, lambda: isinstance(app.screen, ConfigScreen))
    assert Trial([]).run() == (False, "trial: nan"), "a trial that failed has no results"


@pytest.mark.slow
@pytest.mark.parametrize("made", ["run.json", "run.db"])
def test_an_ended_trial_leaves_neither_folder_nor_process(made: str, tmp_path: Path) -> None:
    settings = [word for pair in SMALL for word in ("--set", pair)]
    words = [str(DEMO_CONFIG), "--run-dir", str(tmp_path / "runs" / "mine"), "--quick-check", *settings]
    trial, answers = Trial(words), list[tuple[bool, str]]()
    thread = threading.Thread(target=lambda: answers.append(trial.run()))
    thread.start()
    until(lambda: any(tmp_path.glob(f"runs/mine.trial-*/{made}")), "the trial's file")
    trial.cancel()
    thread.join(60)
    assert answers == [(False, "the trial was stopped and its folder removed")]
    assert not (tmp_path / "runs").exists()
    left = [p.info["cmdline"] for p in psutil.process_iter(["cmdline"])]
    assert not [words for words in left if any(str(tmp_path) in word for word in words or ())]


def test_a_trial_that_was_ended_before_it_began_starts_nothing() -> None:
    trial = Trial(["nothing.yaml"])
    trial.cancel()
    assert trial.run() == (False, "the trial was stopped")


def test_a_refusal_is_what_the_command_said(tmp_path: Path) -> None:
    came_back, said = Trial([str(tmp_path / "nothing.yaml")]).run()
    assert not came_back
    assert "nothing.yaml" in said
    assert "Traceback" not in said


def test_a_child_may_print_more_than_a_pipe_holds() -> None:
    child = Child([], "stage ")
    code = (
        "import sys; print('x' * 1_000_000); print('stage 1', file=sys.stderr); print('bad', file=sys.stderr)"
    )
    child.words[1:] = ["-c", f"{code}; sys.exit(3)"]
    told: list[str] = []
    ended = child.run(told.append)
    assert (ended.code, len(ended.printed), ended.trouble, told) == (3, 1_000_001, "bad", ["stage 1"])
