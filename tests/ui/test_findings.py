"""What was found wrong with the open run: listed, read, followed to its steps, and put right."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from grpo_tui.config.resolve import load_config
from grpo_tui.core import records as r
from grpo_tui.core.commands import REPLAYED
from grpo_tui.core.findings import Finding, Remedy
from grpo_tui.demo import DEMO_CONFIG
from grpo_tui.store.layout import remember
from grpo_tui.store.spec import RunSpec
from grpo_tui.ui.screens.chart import ChartScreen
from grpo_tui.ui.screens.dialogs import YesNo
from grpo_tui.ui.screens.generations import GenerationsScreen
from grpo_tui.ui.screens.train import TrainScreen
from grpo_tui.ui.screens.train_dialogs import RunFindingScreen, RunFindingsScreen
from tests.ui.conftest import app_on, opened, sent, shown, until
from tests.ui.recorded_run import NOW, RecordedRun, recorded

BROKE = Finding(
    "policy.broke", "error", None, None, "The policy broke. The reward went from 0.5 to 0.", None, 40, 56,
    {"completions": "step 40..56"},
    (Remedy("Set learning_rate back to 1e-05", "learning_rate", 1e-5, live=True),
     Remedy("Lower `learning_rate` and return to a checkpoint from before this step, or start again."),
     Remedy("max_completion_length 512", "max_completion_length", 512)),
)  # fmt: skip
TRUNCATED = Finding(
    "policy.truncation", "warning", None, None, "Most completions are truncated. It was 70 %.", None, 9, 20,
    {"completions": "step 9..20 and truncated"},
)  # fmt: skip


@pytest.fixture
def judged(run: RecordedRun) -> RecordedRun:
    """A run with an open finding and one that has ended."""
    run.write(r.OpenFindings(NOW - 60, (TRUNCATED,)))
    run.write(r.OpenFindings(NOW - 30, (BROKE,)))
    return run


async def test_findings_are_listed_open_ones_first_and_one_is_read(judged: RecordedRun) -> None:
    app = app_on(judged.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        assert " f findings" in shown(app)
        await pilot.press("f")
        await until(pilot, lambda: isinstance(app.screen, RunFindingsScreen))
        await until(pilot, lambda: "1 finding now, 1 ended" in shown(app))
        text = shown(app)
        assert 0 < text.index("✗ since step 40") < text.index("✓ steps 9 to 20")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, RunFindingScreen))
        for told in (
            "= Set learning_rate back to 1e-05", "▸ Lower `learning_rate`", "max_completion_length: 512",
            "docs/diagnosis.md, policy.broke", "Updates that are too large",
        ):  # fmt: skip
            await until(pilot, lambda told=told: told in shown(app))  # type: ignore[misc]
        await pilot.press("escape")
        assert isinstance(app.screen, RunFindingsScreen)
        await pilot.press("f")
        assert isinstance(app.screen, TrainScreen)


async def test_enter_zooms_the_chart_to_the_steps_of_a_finding(judged: RecordedRun) -> None:
    app = app_on(judged.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        await pilot.press("f")
        await until(pilot, lambda: isinstance(app.screen, RunFindingsScreen))
        await pilot.press("j", "enter")
        await until(pilot, lambda: isinstance(app.screen, RunFindingScreen))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, ChartScreen))
        options = app.screen.options  # type: ignore[attr-defined]
        assert (options.key, options.window.span) == ("completions/clipped_ratio", (4, 25))
        await until(pilot, lambda: app.screen._view is not None)  # type: ignore[attr-defined]
        view = app.screen._view  # type: ignore[attr-defined]
        assert (view.first, view.last) == (4, 25)


async def test_its_completions_open_in_generations_by_its_query(judged: RecordedRun) -> None:
    app = app_on(judged.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        await pilot.press("f")
        await until(pilot, lambda: isinstance(app.screen, RunFindingsScreen))
        await pilot.press("enter", "o")
        await until(pilot, lambda: isinstance(app.screen, GenerationsScreen))
        await until(pilot, lambda: "step 40..56" in shown(app))
        await pilot.press("4")
        await until(pilot, lambda: isinstance(app.screen, TrainScreen))


async def test_a_remedy_is_applied_after_a_yes(judged: RecordedRun) -> None:
    app = app_on(judged.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        await pilot.press("f")
        await until(pilot, lambda: isinstance(app.screen, RunFindingsScreen))
        await pilot.press("enter", "equals_sign")
        await until(pilot, lambda: isinstance(app.screen, YesNo))
        assert "learning_rate 2e-4 → 1e-5" in shown(app)
        assert "y set learning_rate to 1e-5    n change nothing" in shown(app)
        await pilot.press("n")
        assert isinstance(app.screen, RunFindingScreen)
        assert sent(judged) == []
        await pilot.press("equals_sign", "y")
        await until(pilot, lambda: bool(sent(judged)))
        because = "policy.broke: Set learning_rate back to 1e-05"
        assert sent(judged) == [("set", {"learning_rate": 1e-5, "because": because, "yes": True})]
        assert isinstance(app.screen, TrainScreen)
        # The run of this test has no config of its own, so what it cannot take is written nowhere.
        await until(pilot, lambda: any("Not written: " in note.message for note in app._notifications))


@pytest.fixture
def ended(tmp_path: Path) -> RecordedRun:
    """An ended run of a copy of the demo, with findings."""
    for name in ("demo.yaml", "task.py", "rewards.py", "model"):
        (tmp_path / name).symlink_to(DEMO_CONFIG.parent / name)
    run = recorded(tmp_path / "runs" / "ended", "finished")
    spec = RunSpec(load_config(tmp_path / "demo.yaml").to_json())
    spec.write(run.folder.spec)
    run.write(r.OpenFindings(NOW - 30, (BROKE,)))
    run.close()
    return run


async def test_the_remedies_for_an_ended_run_go_into_a_config_after_a_yes(
    ended: RecordedRun, tmp_path: Path
) -> None:
    remember(ended.folder.root)
    app = app_on(ended.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        await pilot.press("f")
        await until(pilot, lambda: isinstance(app.screen, RunFindingsScreen))
        await pilot.press("enter")
        await until(
            pilot, lambda: "▸ Set learning_rate back to 1e-05" in shown(app)
        )  # no key stands beside it
        await pilot.press("equals_sign")
        await until(pilot, lambda: isinstance(app.screen, YesNo))
        assert "max_completion_length 512" in shown(app)
        await pilot.press("y")
        written = tmp_path / "ended-next.yaml"
        await until(pilot, lambda: any(str(written) in note.message for note in app._notifications))
        assert load_config(written).grpo["max_completion_length"] == 512
        assert sent(ended) == []


async def test_a_finding_without_a_setting_says_so(judged: RecordedRun) -> None:
    app = app_on(judged.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        await pilot.press("f")
        await until(pilot, lambda: isinstance(app.screen, RunFindingsScreen))
        await pilot.press("j", "enter", "equals_sign")
        said = "No remedy of this finding is a setting."
        await until(pilot, lambda: any(said in note.message for note in app._notifications))
        assert isinstance(app.screen, RunFindingScreen)


async def test_a_run_without_findings_says_so(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        await pilot.press("f")
        said = "No problems were found in this run."
        await until(pilot, lambda: said in [note.message for note in app._notifications])
        assert isinstance(app.screen, TrainScreen)


def test_what_a_replay_refuses_is_told_as_a_warning() -> None:
    said: list[Any] = []
    app = SimpleNamespace(notify=lambda text, **how: said.append((text, how)))
    screen: Any = SimpleNamespace(_live=None, _one=SimpleNamespace(change=None, settings=()), app=app)
    RunFindingScreen.action_set(screen)
    assert said == [(REPLAYED, {"severity": "warning"})]
