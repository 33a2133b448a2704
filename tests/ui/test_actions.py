"""One table of actions: bindings, palette, footer and help cannot disagree with it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from grpo_tui.present.runs_view import RunRow
from grpo_tui.present.train_view import ReplayView, TrainView
from grpo_tui.ui.actions import ACTIONS, Action, for_footer, on_pane
from grpo_tui.ui.app import GrpoApp
from grpo_tui.ui.needs import Listed, refusal
from grpo_tui.ui.screens.chart import ChartScreen, OverlayScreen, ZoomScreen
from grpo_tui.ui.screens.chat import ChatScreen
from grpo_tui.ui.screens.config import ConfigScreen
from grpo_tui.ui.screens.data import DataScreen
from grpo_tui.ui.screens.generations import GenerationsScreen
from grpo_tui.ui.screens.generations_dialogs import CourseScreen
from grpo_tui.ui.screens.hardware import HardwareScreen
from grpo_tui.ui.screens.results import ResultsScreen
from grpo_tui.ui.screens.rewards import RewardsScreen
from grpo_tui.ui.screens.rewards_dialogs import ProbesScreen
from grpo_tui.ui.screens.runs import RunsScreen
from grpo_tui.ui.screens.tokens import TokensScreen
from grpo_tui.ui.screens.train import TrainScreen
from grpo_tui.ui.screens.what_if import WhatIfScreen
from tests.ui.conftest import app_on, opened, sent, shown, until
from tests.ui.recorded_run import RecordedRun

OWNERS: dict[str, type] = {
    "all": GrpoApp,
    "runs": RunsScreen,
    "config": ConfigScreen,
    "data": DataScreen,
    "rewards": RewardsScreen,
    "probes": ProbesScreen,
    "generations": GenerationsScreen,
    "course": CourseScreen,
    "what-if": WhatIfScreen,
    "tokens": TokensScreen,
    "results": ResultsScreen,
    "chat": ChatScreen,
    "train": TrainScreen,
    "hardware": HardwareScreen,
    "zoom": ZoomScreen,
    "chart": ChartScreen,
    "overlay": OverlayScreen,
}


def view_of(state: str, phase: str = "update") -> TrainView:
    return TrainView("x", "runs/x", 0.0, state=state, live=state in ("training", "paused"), phase=phase)


@pytest.mark.parametrize("action", ACTIONS, ids=lambda a: a.id)
def test_every_action_is_done_by_the_one_who_owns_it(action: Action) -> None:
    assert hasattr(OWNERS[action.pane], f"action_{action.method.partition('(')[0]}")


@pytest.mark.parametrize("pane", OWNERS)
def test_bindings_are_those_of_the_table(pane: str) -> None:
    bound = {b.id: b.key for b in OWNERS[pane].BINDINGS if b.id is not None}  # type: ignore[union-attr]
    assert bound == {a.id: a.key for a in ACTIONS if a.pane == pane and a.key}


@pytest.mark.parametrize("pane", [pane for pane in OWNERS if pane != "all"])
def test_no_key_has_two_meanings_on_one_pane(pane: str) -> None:
    keys = Counter(a.key for a in on_pane(pane) if a.key)
    assert max(keys.values()) == 1


def test_no_function_keys_and_no_alt() -> None:
    assert not [a.key for a in ACTIONS if a.key.startswith(("f1", "alt", "meta"))]


def test_what_is_dangerous_has_a_capital_or_asks_and_says_so() -> None:
    assert {a.id for a in ACTIONS if a.dangerous} == {
        "run.stop",
        "run.stop_now",
        "runs.resume",
        "config.start",
        "results.delete",
    }


def test_the_footer_offers_what_can_be_done_now() -> None:
    def keys(view: TrainView | None) -> list[str]:
        return [a.id for a in for_footer("train", view)]

    assert keys(view_of("training"))[0] == "run.pause"
    assert keys(view_of("paused"))[0] == "run.resume"
    assert "run.abort" in keys(view_of("training", "reward"))
    assert "run.abort" not in keys(view_of("training"))
    assert not [k for k in keys(view_of("finished")) if k.startswith("run.")]
    assert keys(None) == ["app.help", "app.leave"]


def test_while_the_model_loads_only_stopping_at_once_is_offered_and_taken() -> None:
    loading = TrainView("x", "runs/x", 0.0, state="starting", live=True, phase="load")
    assert for_footer("train", loading)[0].id == "run.stop_now"
    assert [a.id for a in for_footer("train", loading) if a.id.startswith("run.")] == ["run.stop_now"]
    assert "run.stop_now" not in [a.id for a in for_footer("train", view_of("training"))]
    for action in ACTIONS:
        if action.id.startswith("run."):
            reason = refusal(action, loading)
            assert (reason is None) == (action.id == "run.stop_now")
            assert reason is None or "still loading" in reason


def test_the_footer_names_what_belongs_to_the_part_that_shows_first() -> None:
    view = view_of("training")
    assert next(a.id for a in for_footer("train", view, None, ("log",))) == "log.search"
    assert "log.search" not in [a.id for a in for_footer("train", view)]
    assert for_footer("train", view, None, ("groups", "large"))[0].id == "view.back"
    replayed = replace(view, replay=ReplayView(57, 1.0, playing=True))
    assert [a.id for a in for_footer("train", replayed)][:3] == [
        "replay.turn",
        "replay.after",
        "replay.faster",
    ]
    assert not [a.id for a in for_footer("train", view) if a.id.startswith("replay.")]


@pytest.mark.parametrize(
    ("step", "trouble", "offered"), [(0, "", False), (1, "", True), (1, "damaged", False)]
)
def test_a_replay_is_offered_where_there_is_a_step_to_show(step: int, trouble: str, offered: bool) -> None:
    listed = Listed(RunRow(Path("runs/x"), "x", "failed", step=step, trouble=trouble))
    assert ("runs.replay" in [a.id for a in for_footer("runs", None, listed)]) == offered
    assert (refusal(next(a for a in ACTIONS if a.id == "runs.replay"), None, listed) is None) == offered


@pytest.mark.parametrize("action", [a for a in ACTIONS if a.needs], ids=lambda a: a.id)
def test_a_refusal_is_a_sentence(action: Action) -> None:
    for view in (None, view_of("finished"), view_of("training"), view_of("paused")):
        reason = refusal(action, view)
        assert reason is None or reason.endswith((".", "on."))


async def test_the_help_names_every_key(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 400)) as pilot:
        await opened(pilot)
        await pilot.press("question_mark")
        await until(pilot, lambda: "terms" in shown(app))
        text = shown(app)
        for action in ACTIONS:
            if action.key:
                assert action.help in text


@pytest.mark.parametrize(
    ("key", "title"),
    [
        ("1", "1 Runs"),
        ("2", "2 Config"),
        ("3", "3 Rewards"),
        ("4", "4 Train"),
        ("5", "5 Generations"),
        ("6", "6 Results"),
        ("u", "u machine"),
    ],
)
async def test_the_help_begins_with_the_pane_it_is_asked_for_on(
    run: RecordedRun, key: str, title: str
) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        await pilot.press(key)
        await pilot.pause()
        await pilot.press("question_mark")
        await until(pilot, lambda: f"─ {title} ─" in shown(app))


async def test_the_palette_holds_what_can_be_done_here(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        offered = [command.help for command in app.get_system_commands(app.screen)]
        wanted = [a for a in on_pane("train") if refusal(a, app.view) is None and a.id != "app.palette"]
        assert len(offered) == len(wanted)
        for action in wanted:
            assert any(text.startswith(action.help) for text in offered)
        await pilot.press("ctrl+p")
        await pilot.press(*"checkpoint")
        await until(pilot, lambda: "Save a checkpoint" in shown(app))
        await pilot.press("enter")
        await until(pilot, lambda: bool(sent(run)))
        assert sent(run) == [("checkpoint", {})]
