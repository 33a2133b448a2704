"""The pane Rewards from nothing: a file begun, the next reward added, what to mend; tags, filter, modes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from textual.widgets import Input

from grpo_tui.config.resolve import load_config
from grpo_tui.demo import DEMO_MODEL
from grpo_tui.rewards.cases import read_cases
from grpo_tui.rewards.consent import give, needed
from grpo_tui.rewards.next_reward import Task, start_file
from grpo_tui.rewards.samples import read_jsonl
from grpo_tui.ui.app import GrpoApp
from grpo_tui.ui.requests import RewardsRequest
from grpo_tui.ui.screens.dialogs import PathDialog, WordsDialog
from grpo_tui.ui.screens.rewards import RewardsScreen
from grpo_tui.ui.screens.rewards_dialogs import NewFileDialog, NextRewardScreen
from tests.ui.conftest import app_on, shown, until
from tests.ui.recorded_run import NOW
from tests.ui.test_rewards_pane import app_for, scored

pytestmark = pytest.mark.usefixtures("warm_lab")


def names(screen: RewardsScreen) -> list[str]:
    return [column.name for column in screen.scored.columns] if screen.scored is not None else []


async def test_a_file_is_begun_and_the_next_reward_added_until_one_is_fooled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "rewards.py"
    app = app_on(None)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await pilot.press("3")
        await until(pilot, lambda: "creates a rewards file" in shown(app))
        await pilot.press("ctrl+n")
        await until(pilot, lambda: isinstance(app.screen, NewFileDialog))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, RewardsScreen) and app.screen.scored is not None)
        screen = await scored(pilot)
        assert names(screen) == ["correctness"]
        assert screen.scored is not None
        assert [column.weight for column in screen.scored.columns] == [2.0]
        await pilot.press("ctrl+n")
        await until(pilot, lambda: isinstance(app.screen, NextRewardScreen))
        await until(pilot, lambda: "correctness works. Next: strict_format" in shown(app))
        await pilot.press("enter")
        await until(pilot, lambda: names(screen) == ["correctness", "strict_format"])
        await scored(pilot)
        assert [column.weight for column in screen.scored.columns] == [2.0, 0.5]
        assert "def strict_format" in file.read_text()
        broken = file.read_text().replace("plain(answer) == plain(right)", "str(right) in answer")
        file.write_text(broken)
        await until(pilot, lambda: "rewards.py saved" in shown(app))
        await scored(pilot)
        await pilot.press("ctrl+n")
        await until(pilot, lambda: isinstance(app.screen, NextRewardScreen))
        await until(pilot, lambda: "First fix the rewards that are there" in shown(app))
        assert "correctness is fooled by" in shown(app)
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is screen and "⚠ probes: " in shown(app))  # also on 80 columns
        assert "no problems found" not in shown(app)
        assert file.read_text() == broken
        file.write_text(broken.replace("str(right) in answer", "plain(answer) == plain(right)"))
        await until(pilot, lambda: "no problems found" in shown(app) and "⚠ probes" not in shown(app))
        await app.run_action("screen.rewards_new")
        await until(pilot, lambda: isinstance(app.screen, NewFileDialog) and "rewards_2.py" in shown(app))


async def test_no_reward_is_written_where_a_run_of_somebody_else_says(tmp_path: Path) -> None:
    start_file(tmp_path / "r.py", Task())
    path, before = tmp_path / "my.yaml", (tmp_path / "r.py").read_text()
    path.write_text(
        f"model_name_or_path: {DEMO_MODEL}\ngrpo_tui:\n  dataset: rows.jsonl\n  rewards:\n"
        "    - {name: correctness, source: r.py:correctness, weight: 2.0}\n"
    )
    (tmp_path / "rows.jsonl").write_text('{"prompt": "2+2?", "answer": "4"}\n')
    theirs = replace(load_config(path, (), world_size=None), origin=tmp_path / "theirs")
    give(needed(theirs))
    request = RewardsRequest("theirs", lambda: theirs, run=tmp_path / "theirs")
    app = GrpoApp([tmp_path], None, rewards=request, clock=lambda: NOW)
    async with app.run_test(size=(160, 40), notifications=True) as pilot:
        await scored(pilot)
        await pilot.press("ctrl+n")
        await until(pilot, lambda: isinstance(app.screen, NextRewardScreen))
        await until(pilot, lambda: "enter add to r.py" in shown(app))
        await pilot.press("enter")
        await until(pilot, lambda: "not added: " in shown(app))
        assert "you did not start this run" in shown(app)
    assert (tmp_path / "r.py").read_text() == before


@pytest.mark.parametrize(("spoilt", "of_a_run"), [(False, False), (True, False), (False, True)])
async def test_the_next_reward_is_put_into_the_open_config_or_said_not_to_be(
    spoilt: bool, of_a_run: bool, tmp_path: Path
) -> None:
    start_file(tmp_path / "r.py", Task())
    (tmp_path / "rows.jsonl").write_text(
        '{"prompt": "2+2?", "answer": "4"}\n{"prompt": "3+3?", "answer": "6"}\n'
    )
    path = tmp_path / "my.yaml"
    path.write_text(
        f"model_name_or_path: {DEMO_MODEL}\ngrpo_tui:\n  dataset: rows.jsonl\n  rewards:\n"
        "    - {name: correctness, source: r.py:correctness, weight: 2.0}  # mine\n"
    )
    before, owner = path.read_text(), tmp_path / "run" if of_a_run else None
    request = RewardsRequest("my.yaml", lambda: load_config(path, (), world_size=None), run=owner)
    app = GrpoApp([tmp_path], None, rewards=request, clock=lambda: NOW)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        screen = await scored(pilot)
        assert "Consider 3 to 5 small rewards" in shown(app)
        await pilot.press("ctrl+n")
        await until(pilot, lambda: isinstance(app.screen, NextRewardScreen))
        to = "enter add to r.py   y" if of_a_run else "enter add to r.py and my.yaml   y"
        await until(pilot, lambda: to in shown(app))
        if of_a_run:
            await pilot.press("enter")
            await until(pilot, lambda: "strict_format is in r.py. No config uses it yet" in shown(app))
            assert path.read_text() == before
            return
        if spoilt:
            path.write_text("grpo_tui: [")
        await pilot.press("enter")
        await until(pilot, lambda: names(screen) == ["correctness", "strict_format"])
        await scored(pilot)
        if spoilt:
            await until(pilot, lambda: "strict_format is in r.py, but not in my.yaml" in shown(app))
            return
    assert "# mine" in path.read_text()
    entries = yaml.safe_load(path.read_text())["grpo_tui"]["rewards"]
    assert entries[1] == {"name": "strict_format", "source": "r.py:strict_format", "weight": 0.5}
    assert load_config(path, (), world_size=None).reward_count == 2


async def test_tags_are_given_shown_found_written_and_kept(tmp_path: Path) -> None:
    file = tmp_path / "rewards.py"
    start_file(file, Task())
    app = app_for(file, "correctness")
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        screen = await scored(pilot)
        assert screen.report is not None
        scores = screen.report.scored.functions[0].scores
        await pilot.press("down", "t")
        await until(pilot, lambda: isinstance(app.screen, WordsDialog))
        await pilot.press(*"#hard, odd", "enter")
        await until(pilot, lambda: "wrong #hard #odd" in shown(app))
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: "wrong# " in shown(app))
        await pilot.resize_terminal(120, 40)
        assert screen.report.scored.functions[0].scores == scores
        await pilot.press("slash")
        await until(pilot, lambda: isinstance(app.screen, WordsDialog))
        await pilot.press(*"#hard", "enter")
        await until(pilot, lambda: "samples, #hard: 1 of 6" in shown(app))
        assert "gold 2500" not in shown(app)
        await pilot.press("K")
        await until(pilot, lambda: (tmp_path / "cases.yaml").exists())
        await pilot.press("escape")
        await until(pilot, lambda: "by prompt" in shown(app))
        await pilot.press("W")
        await until(pilot, lambda: isinstance(app.screen, PathDialog))
        app.screen.query_one(Input).value = str(tmp_path / "s.jsonl")
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is screen)
        await pilot.press("W")
        await until(pilot, lambda: isinstance(app.screen, PathDialog))
        app.screen.query_one(Input).value = str(tmp_path / "s.jsonl")
        await pilot.press("enter")
        await until(pilot, lambda: "Press enter again to replace s.jsonl" in shown(app))
        await pilot.press("escape")
    assert [sample.tags for sample in read_jsonl(tmp_path / "s.jsonl")] == [(), ("hard", "odd")] + [()] * 4
    assert read_cases(tmp_path / "cases.yaml").cases[0].sample.tags == ("hard", "odd")


async def test_modes_turn_and_the_advantages_follow(tmp_path: Path) -> None:
    file = tmp_path / "rewards.py"
    start_file(file, Task())
    app = app_for(file, "correctness")

    def state(screen: Any) -> tuple[str, str, bool]:
        modes, own = screen.report.aggregation, screen.scored.about.own_modes
        return modes.scale_rewards, modes.multi_objective_aggregation, own

    def first(screen: Any) -> float:
        return float(screen.scored.rows[0].advantage)

    async with app.run_test(size=(120, 40)) as pilot:
        screen = await scored(pilot)
        assert (state(screen), round(first(screen), 3)) == (("group", "sum_then_normalize", True), 0.707)
        await pilot.press("o", "b")
        await until(pilot, lambda: state(screen) == ("batch", "sum_then_normalize", False))
        assert first(screen) == pytest.approx(0.5 / (0.3**0.5 + 1e-4), abs=1e-4)
        await until(pilot, lambda: "differs from the config" in shown(app))
        await pilot.press("b")
        await until(pilot, lambda: state(screen)[0] == "none")
        assert first(screen) == 0.5
        await pilot.press("ctrl+l")  # scored again in the modes that were chosen
        await scored(pilot)
        assert state(screen)[0] == "none"
        await app.run_action("screen.rewards_combine")
        await until(pilot, lambda: state(screen)[1] == "normalize_then_sum" and "(not used)" in shown(app))
        await pilot.press("0")
        await until(pilot, lambda: state(screen) == ("group", "sum_then_normalize", True))
        assert first(screen) == pytest.approx(0.707, abs=1e-3)
