"""The pane Rewards as pictures, from a report made by hand: no lab, and the same moment every time."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grpo_tui.core.findings import Finding
from grpo_tui.present.rewards_view import Circumstances, RewardsView, rewards_view
from grpo_tui.rewards.sample_sources import Origin
from grpo_tui.rewards.samples import Sample
from grpo_tui.rewards.score_report import Failure
from grpo_tui.rewards.scoring import Report
from grpo_tui.ui.app import GrpoApp
from grpo_tui.ui.kit.table import row_line
from grpo_tui.ui.screens.rewards import RewardsScreen
from grpo_tui.ui.widgets.reward_table import sample_columns
from tests.rewards.reports import made_report, samples, scores_of
from tests.ui.conftest import app_on, shown, until
from tests.ui.recorded_run import NOW

SIZES = [(80, 24), (120, 40)]
Compare = Callable[..., bool]
Scores = tuple[RewardsView, tuple[Sample, ...], Origin]
FOUND = (
    Finding("rewards.regex", "warning", "format", 18,
            "format: 0 of 6 match although 4 hold both tags: `.` does not match a new line (rewards.py:18). "
            "Use re.DOTALL"),
)  # fmt: skip
FAILURE = Failure(
    "raised", "ValueError", "invalid literal for int(): 'seven'", "/tasks/rewards.py", 12, sample=2
)

RAISED = (
    Finding(
        "rewards.raises",
        "error",
        "correctness",
        12,
        f"reward 'correctness' raises: {FAILURE.text}, on sample 3",
    ),
)


def message(report: Report, before: Report | None = None, reason: str = "") -> Scores:
    about = Circumstances("demo.yaml", "reference and wrong answers", NOW, 0.24, reason, gold_column="answer")
    return rewards_view(report, before, about), report.scored.samples, Origin()


def edited() -> Scores:
    batch = samples()
    given = scores_of(batch)
    given[1][2] = given[1][5] = 1.0
    return message(made_report(batch, given, findings=FOUND), made_report(batch), "rewards.py saved")


def posted(found: Scores, *keys: str) -> Callable[[Any], Awaitable[None]]:
    async def prepare(pilot: Any) -> None:
        app: GrpoApp = pilot.app
        await pilot.press("3")
        await until(pilot, lambda: "grpo-tui rewards CONFIG" in shown(app))
        assert isinstance(app.screen, RewardsScreen)
        app.screen.call_later(app.screen.take_scores, *found)
        await until(pilot, lambda: "demo.yaml" in shown(app))
        await pilot.press(*keys)
        await pilot.pause()

    return prepare


@pytest.mark.parametrize("size", SIZES, ids=lambda size: "x".join(map(str, size)))
@pytest.mark.parametrize("kind", ["edited", "raises"])
def test_the_rewards_pane(snap_compare: Compare, kind: str, size: tuple[int, int]) -> None:
    found = edited() if kind == "edited" else message(made_report(failure=FAILURE, findings=RAISED))
    keys = ("down",) if kind == "edited" else ("down", "down")
    assert snap_compare(app_on(None), terminal_size=size, run_before=posted(found, *keys))


@pytest.mark.parametrize("size", SIZES, ids=lambda size: "x".join(map(str, size)))
def test_the_weights(snap_compare: Compare, size: tuple[int, int]) -> None:
    found = message(made_report(findings=FOUND))
    assert snap_compare(app_on(None), terminal_size=size, run_before=posted(found, "o", "down"))


def test_no_rewards_at_all(snap_compare: Compare) -> None:
    async def prepare(pilot: Any) -> None:
        await pilot.press("3")
        await until(pilot, lambda: "grpo-tui rewards CONFIG" in shown(pilot.app))

    assert snap_compare(app_on(None), terminal_size=(80, 24), run_before=prepare)


def test_a_tag_that_does_not_fit_leaves_its_sign_and_one_that_fits_stays_whole() -> None:
    view, _, _ = message(made_report())
    words = ("gold #abc", "gold #ab", "gold", "")
    rows = tuple(replace(row, kind=kind) for row, kind in zip(view.rows, words, strict=False))
    columns = sample_columns(replace(view, rows=rows), 100, 0)
    said = [row_line(columns, row, "", "")[1].text for row in rows]
    assert said == ["gold#    ", "gold #ab ", "gold     ", "         "]


async def test_hostile_completions_are_painted_and_not_obeyed(tmp_path: Path) -> None:
    app = app_on(None)
    async with app.run_test(size=(120, 40)) as pilot:
        await posted(message(made_report()), "down", "down", "v")(pilot)
        await until(pilot, lambda: "I think 7 [/INST] [@click=app.quit]x[/] ␛]52;c;x␇" in shown(app))
        assert "\x1b" not in shown(app)


async def test_what_fits_not_stays_reachable_on_a_narrow_screen() -> None:
    app = app_on(None)
    async with app.run_test(size=(60, 16)) as pilot:
        await posted(message(made_report()))(pilot)
        for reward, hidden in itertools.pairwise(["correctness", "format", "incremental"]):
            await until(pilot, lambda name=reward: f" {name} ── total ─── adv" in shown(app))  # type: ignore[misc]
            assert f" {hidden} ── total" not in shown(app)
            await pilot.press("right")
        await until(pilot, lambda: " incremental ── total ─── adv" in shown(app))
        assert "leave" in shown(app)
