"""The pane Rewards asks the shipped model: a baseline, one row, and an end to it with esc."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from grpo_tui.config.resolve import load_config
from grpo_tui.demo import DEMO_CONFIG
from grpo_tui.rewards.samples import Sample, groups_of
from grpo_tui.rewards.scoring import config_of_functions
from grpo_tui.ui.app import GrpoApp
from grpo_tui.ui.lab_worker import behind_group
from grpo_tui.ui.requests import RewardsRequest
from grpo_tui.ui.screens.reading import TextScreen
from grpo_tui.ui.screens.rewards import RewardsScreen
from tests.family import below
from tests.ui.conftest import shown, until
from tests.ui.test_rewards_pane import REWARDS, scored

MODEL_S = 200.0


pytestmark = pytest.mark.usefixtures("warm_lab")


def _app() -> GrpoApp:
    request = RewardsRequest("demo.yaml", lambda: load_config(DEMO_CONFIG), None)
    return GrpoApp([Path("runs")], None, rewards=request)


def _generating() -> list[psutil.Process]:
    """Processes of this one that generate."""
    return below(None, "grpo_tui.rewards.generate_child")


async def _loaded(pilot: Any, true: Callable[[], bool]) -> None:
    """Wait for what needs torch, transformers and the model, which take longer than a screen."""
    end = time.monotonic() + MODEL_S
    while not true() and time.monotonic() < end:
        await asyncio.sleep(0.1)
    await until(pilot, true)


async def test_b_lets_the_model_answer_rows_and_shows_the_baseline_over_its_answers() -> None:
    app = _app()
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await scored(pilot)
        await pilot.press("B")
        await _loaded(pilot, lambda: isinstance(app.screen, TextScreen))
        text = shown(app)
        assert "before training" in text
        assert "by correctness ≥ 1.00 (the reference answer's score)" in text
        assert "no problems found" in text
        assert "mixed, by rate" in text
        await pilot.press("escape")
        await until(
            pilot, lambda: app.screen is screen and screen.scored is not None and screen.scored.about.whole
        )
        assert len(screen.samples) == 16 * 8
        assert len({sample.group for sample in screen.samples}) == 16
        assert "the model before training" in shown(app)
        assert _generating() == []


async def test_m_is_ended_by_esc_without_a_process_left_and_the_samples_stay() -> None:
    app = _app()
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await scored(pilot)
        before = screen.samples
        await pilot.press("m")
        await until(pilot, lambda: screen._busy is not None and screen._busy.function == "model")
        await until(pilot, lambda: _generating() != [])
        await pilot.press("escape")
        await until(pilot, lambda: screen._busy is None)
        assert _generating() == []
        assert "stopped by you" in shown(app)
        assert screen.samples == before


async def test_functions_alone_have_no_model_to_ask(tmp_path: Path) -> None:
    (tmp_path / "rewards.py").write_text(REWARDS)
    config = config_of_functions([f"{tmp_path}/rewards.py:short"])
    app = GrpoApp([Path("runs")], None, rewards=RewardsRequest("rewards.py", lambda: config, None))
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await scored(pilot)
        assert isinstance(screen, RewardsScreen)
        await pilot.press("m")
        await until(pilot, lambda: "these are only functions" in shown(app))


def test_answers_come_behind_the_group_of_the_sample_and_compete_with_it() -> None:
    samples = [Sample("2+2?", "4", group="a"), Sample("2+2?", "5", group="a"), Sample("3+4?", "7", group="b")]
    found = behind_group(samples, 0, [Sample("2+2?", "four", {"answer": "4"}, group="row 1", truncated=True)])
    assert [s.completion for s in found] == ["4", "5", "four", "7"]
    assert (found[2].group, found[2].kind, found[2].truncated) == ("a", "model", True)
    assert groups_of(found) == [[0, 1, 2], [3]]
