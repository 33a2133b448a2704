"""The pane Config: fields changed in the form, the text typed, files saved, compared, changed by others."""

from __future__ import annotations

import json
import shlex
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from textual.widgets import Input

from grpo_tui.cli import main
from grpo_tui.config.resolve import load_config
from grpo_tui.core.records import Fact
from grpo_tui.demo import DEMO_MODEL
from grpo_tui.preflight.report import Preflight
from grpo_tui.present.config_view import Snapshot, shows
from grpo_tui.present.formatting import from_here
from grpo_tui.store.spec import RunSpec
from grpo_tui.ui import preferences
from grpo_tui.ui.app import GrpoApp
from grpo_tui.ui.config_worker import ConfigCheck
from grpo_tui.ui.messages import ConfigEvaluated, DiskChanged
from grpo_tui.ui.requests import ConfigRequest, RewardsRequest
from grpo_tui.ui.screens.config import ConfigScreen
from grpo_tui.ui.screens.config_dialogs import CheckScreen, FindingsScreen, ValueDialog
from grpo_tui.ui.screens.config_files import ConfigFiles
from grpo_tui.ui.screens.config_start import ConfigStart
from grpo_tui.ui.screens.data import DataScreen
from grpo_tui.ui.screens.dialogs import MenuDialog, PathDialog
from grpo_tui.ui.screens.reading import DiffScreen, TextScreen
from grpo_tui.ui.screens.rewards import RewardsScreen
from grpo_tui.ui.widgets.config_form import ConfigForm, FormField
from grpo_tui.ui.widgets.yaml_area import YamlArea
from tests.ui.acts import Acts
from tests.ui.conftest import app_on, opened, shown, until
from tests.ui.open_configs import (
    CONFIG,
    app_with,
    config_file,
    looked_at,
    on_field,
    pane,
    still_machine,
    typed,
)
from tests.ui.recorded_run import NOW, RecordedRun

pytestmark = pytest.mark.usefixtures(still_machine.__name__)
SIZE = (120, 40)


def told(app: GrpoApp) -> list[str]:
    """What was said aloud."""
    return [str(said.message) for said in app._notifications]


async def test_every_field_opens_with_its_value_and_its_origin() -> None:
    app = app_with(config_file())
    async with app.run_test(size=SIZE) as pilot:
        screen = await looked_at(pilot)
        text = shown(app)
        assert "num_generations" in text
        assert "● file" in text
        assert "no errors in the file" in text
        assert "8 completions a step" in text
        await pilot.press("a")
        assert len(screen.query_one(ConfigForm)._rows) > 220


@pytest.mark.parametrize(
    ("field", "keys", "line"),
    [
        ("learning_rate", ("enter", *["backspace"] * 8, *"5e-6", "enter"), "learning_rate: 5.0e-6"),
        ("use_cpu", ("enter",), "use_cpu: false"),
        ("loss_type", ("enter", "down", "enter"), "loss_type: dr_grpo"),
        ("max_steps", ("delete",), None),
        ("max_steps", ("enter", *["backspace"] * 2, "enter"), None),
    ],
)  # fmt: skip
async def test_a_field_is_changed_in_its_own_way_and_its_line_alone(
    field: str, keys: tuple[str, ...], line: str | None
) -> None:
    app = app_with(config_file())
    async with app.run_test(size=SIZE) as pilot:
        screen = await on_field(pilot, field)
        await pilot.press(*keys)
        await looked_at(pilot)
        assert screen.draft is not None
        before, after = CONFIG.splitlines(), screen.draft.text.splitlines()
        changed = [one for one in after if one not in before]
        assert changed == ([line] if line is not None else [])
        assert len(before) - len([one for one in before if one in after]) <= 1
        assert "# one prompt" in screen.draft.text
        assert screen.query_one(YamlArea).config_text == screen.draft.text
        assert not screen.query_one(YamlArea).soft_wrap, "a line of the file is one line"
        await pilot.press("u")
        await looked_at(pilot)
        assert screen.draft.text == CONFIG
        await pilot.press("ctrl+r")
        assert screen.draft.text != CONFIG


async def test_while_a_value_is_typed_the_footer_names_the_keys_of_its_field() -> None:
    app = app_with(config_file())
    async with app.run_test(size=SIZE) as pilot:
        screen = await on_field(pilot, "max_steps")
        await pilot.press("enter", "1")
        await until(pilot, lambda: shown(app).splitlines()[-1].split() == ["enter", "apply", "esc", "form"])
        screen.action_config_back()
        await until(pilot, lambda: "enter edit" in shown(app).splitlines()[-1])
        assert screen.draft is not None
        assert screen.draft.text == CONFIG
        await pilot.press("enter", "1")
        await screen.action_config_apply()
        await until(pilot, lambda: screen.draft is not None and screen.draft.text != CONFIG)


async def test_what_does_not_fit_is_refused_while_it_is_typed() -> None:
    app = app_with(config_file())
    async with app.run_test(size=SIZE) as pilot:
        screen = await on_field(pilot, "num_generations")
        await pilot.press("enter", "x")
        await until(pilot, lambda: "✗" in shown(app).split("num_generations ──")[1])
        await pilot.press("enter")
        assert screen.draft is not None
        assert screen.draft.text == CONFIG
        await pilot.press("escape")
        assert screen.query_one(ConfigForm).has_focus


async def test_a_list_is_edited_as_yaml() -> None:
    app = app_with(config_file())
    async with app.run_test(size=SIZE) as pilot:
        screen = await on_field(pilot, "grpo_tui.rewards")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, ValueDialog) and "✓ fits" in shown(app))
        await typed(pilot, "[")
        await until(pilot, lambda: "✗" in shown(app).split("as YAML")[1])
        await pilot.press("ctrl+s")
        assert isinstance(app.screen, ValueDialog)
        await pilot.press("backspace")
        app.screen.query_one(YamlArea).show_text("- {name: right, source: rewards.py:correct}")
        await pilot.press("ctrl+s")
        await until(pilot, lambda: isinstance(app.screen, ConfigScreen))
        assert screen.draft is not None
        assert screen.draft.get("grpo_tui.rewards") == [{"name": "right", "source": "rewards.py:correct"}]


async def test_a_fix_is_applied_by_one_key_and_findings_are_gone_to() -> None:
    app = app_with(config_file(CONFIG + "  holdot: 3\n" + "loss_type: grpoo\n"))
    async with app.run_test(size=SIZE) as pilot:
        screen = await looked_at(pilot)
        assert "2 errors" in shown(app)
        await pilot.press("l")
        await until(pilot, lambda: isinstance(app.screen, FindingsScreen))
        await pilot.press("down", "enter")
        await until(
            pilot, lambda: isinstance(app.screen, ConfigScreen) and screen.chosen_name() == "loss_type"
        )
        await pilot.press("f")
        await until(pilot, lambda: "1 error" in shown(app))
        assert screen.draft is not None
        assert screen.draft.get("loss_type") == "grpo"
        await pilot.press("right_square_bracket")
        assert screen.chosen_name() == "grpo_tui.holdot"


async def test_a_finding_stands_behind_a_line_that_a_tab_indents() -> None:
    app = app_with(config_file(CONFIG.replace("  holdout", "\tholdout")))
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: "✗ the line is indented" in shown(app))
        assert "    holdout: 4  ✗ the line is indented" in shown(app)
        assert pilot.app.screen.query_one(YamlArea).indent_width == 4


async def test_one_key_fixes_every_mistake_and_one_more_takes_it_back() -> None:
    old = CONFIG.replace(
        "max_steps", "max_prompt_length: 512\nno_cuda: true\nevaluation_strategy: 'no'\nmax_steps"
    )
    app = app_with(config_file(old))
    async with app.run_test(size=SIZE) as pilot:
        screen = await looked_at(pilot)
        assert "ctrl+f fix all" in shown(app)
        await pilot.press("ctrl+f")
        await looked_at(pilot)
        draft = screen.draft
        assert draft is not None
        assert draft.text == CONFIG.replace("max_steps", "eval_strategy: 'no'\nmax_steps")
        await pilot.press("u")
        await looked_at(pilot)
        assert draft.text == old
        await pilot.press("l")
        await until(pilot, lambda: isinstance(app.screen, FindingsScreen))
        await pilot.press("ctrl+f")
        await until(pilot, lambda: "eval_strategy" in draft.text)


async def test_where_nothing_is_wrong_there_is_nothing_to_fix() -> None:
    Path("here/toy").mkdir(parents=True)
    Path("here/toy/config.json").write_text("{}")
    app = app_with(config_file(CONFIG.replace("acme/toy-0.5b", "toy"), "here/toy.yaml"))
    async with app.run_test(size=SIZE) as pilot:
        screen = await on_field(pilot, "model_name_or_path")
        assert [found.severity for found in screen.findings_of("model_name_or_path")] == ["info"]
        await pilot.press("f")
        assert told(app) == ["model_name_or_path: nothing to fix."]


async def test_the_text_is_typed_and_the_form_follows() -> None:
    app = app_with(config_file())
    async with app.run_test(size=SIZE) as pilot:
        screen = await on_field(pilot, "max_steps")
        await pilot.press("tab")
        area = screen.query_one(YamlArea)
        assert area.has_focus
        assert area.cursor_location[0] == 9
        await pilot.press("end", "0")
        await until(pilot, lambda: "● unsaved" in shown(app))
        assert screen.value_of("max_steps").value == 200  # type: ignore[union-attr]
        await pilot.press("ctrl+z")
        await until(pilot, lambda: screen.draft is not None and screen.draft.text == CONFIG)
        assert area.config_text == CONFIG
        await pilot.press("escape")
        assert screen.chosen_name() == "max_steps"


async def test_line_ends_of_another_system_stay_as_they_are() -> None:
    path = config_file()
    path.write_bytes(CONFIG.replace("\n", "\r\n").encode())
    app = app_with(path)
    async with app.run_test(size=SIZE) as pilot:
        screen = await on_field(pilot, "max_steps")
        await pilot.press("tab", "end", "0", "escape")
        screen.to_form("use_cpu")
        await pilot.press("enter", "tab", "home", "enter", "ctrl+s")
        await until(pilot, lambda: "● unsaved" not in shown(app))
        text = path.read_bytes().decode()
        assert "max_steps: 200\r\n" in text
        assert "use_cpu: false\r\n" in text
        assert text.count("\r\n") == text.count("\n") == CONFIG.count("\n") + 1


async def test_text_that_is_no_yaml_stays_editable_and_says_where() -> None:
    app = app_with(config_file(CONFIG.replace("max_steps: 20", "max_steps: [20")))
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: "cannot be read" in shown(app))
        screen = pane(app)
        area = screen.query_one(YamlArea)
        await until(pilot, lambda: area.has_focus)
        assert area.cursor_location[0] + 1 == screen.state.broken.line
        assert "TRL" not in shown(app), "no field shows a default that the file does not have"
        assert "start" not in shown(app).splitlines()[-1]
        assert "not planned: the file cannot be read" in shown(app)
        area.go_to(10)
        await pilot.press("end", "right_square_bracket")
        await looked_at(pilot)
        await until(pilot, lambda: "cannot be read" not in shown(app))
        assert screen.draft is not None
        assert screen.draft.problem is None


async def test_a_line_of_the_text_gets_the_focus_at_once_so_that_a_narrow_screen_shows_it() -> None:
    app = app_with(config_file(CONFIG.replace("max_steps: 20", "max_steps: [20")))
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: "cannot be read" in shown(app))
        screen = pane(app)
        area = screen.query_one(YamlArea)
        await until(pilot, lambda: area.has_focus)
        screen.set_focus(screen.query_one(ConfigForm))
        screen.to_line(2)
        assert screen.focused is area, "`show` hides the side without the focus"


async def test_a_search_goes_to_the_best_field_by_name_or_help() -> None:
    app = app_with(config_file())
    async with app.run_test(size=SIZE) as pilot:
        screen = await looked_at(pilot)
        await pilot.press("slash")
        assert screen.query_one("#config-search", Input).has_focus
        await typed(pilot, "vllm_mode")
        await until(pilot, lambda: screen.chosen_name() == "vllm_mode")
        await pilot.press("enter", "escape")
        assert screen.chosen_name() == "vllm_mode"
        assert len(screen.query_one(ConfigForm)._rows) > 20, "the search is over"


async def test_a_field_of_a_closed_group_is_gone_to_by_opening_its_group_alone() -> None:
    app = app_with(config_file())
    async with app.run_test(size=SIZE) as pilot:
        screen = await looked_at(pilot)
        assert screen.state is not None
        field = [field for field in screen.state.fields if not shows(field)][-1]
        assert not screen._opened
        await on_field(pilot, field.name)
        assert screen._opened == {field.group}


async def test_saving_writes_the_file_and_what_leaves_unsaved_asks() -> None:
    path = config_file()
    app = app_with(path)
    async with app.run_test(size=SIZE) as pilot:
        await on_field(pilot, "max_steps")
        await pilot.press("delete")
        await pilot.press("q")
        await until(pilot, lambda: isinstance(app.screen, MenuDialog))
        assert "has unsaved changes" in shown(app)
        await pilot.press("n")
        await until(pilot, lambda: isinstance(app.screen, ConfigScreen))
        assert path.read_text() == CONFIG
        await pilot.press("W")
        await until(pilot, lambda: "● unsaved" not in shown(app))
        assert path.read_text() == CONFIG.replace("max_steps: 20\n", "")
        await pilot.press("q")
        await pilot.pause()
    assert app.return_value is not None


async def test_a_file_saved_under_another_name_is_the_one_that_everything_reads_from_then_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", str(Path.cwd()))
    path, other = config_file(), Path("other").absolute() / "mine.yaml"
    other.parent.mkdir()
    other.write_text("max_steps: 1\n")
    (other.parent / "rewards.py").write_text(Path("rewards.py").read_text())
    app = app_with(path)
    async with app.run_test(size=SIZE) as pilot:
        await looked_at(pilot)
        await pilot.press("ctrl+o")
        await until(pilot, lambda: isinstance(app.screen, PathDialog))
        app.screen.query_one(Input).value = "~/other/mine.yaml"
        await pilot.press("enter")
        await until(pilot, lambda: "mine.yaml already exists" in shown(app))
        assert other.read_text() == "max_steps: 1\n"
        await pilot.press("y")
        await until(pilot, lambda: isinstance(app.screen, ConfigScreen))
        await until(pilot, lambda: other.read_text() == CONFIG)
        request = app.take_rewards_request()
        assert request is not None
        assert (request.title, request.config().path) == ("mine.yaml", other)
        await on_field(pilot, "max_steps")
        await pilot.press("delete", "E")
        await until(pilot, lambda: isinstance(app.screen, PathDialog))
        await pilot.press("enter")
        await until(pilot, lambda: any("Wrote train.py" in word for word in told(app)))
        assert "other/rewards.py" in Path("train.py").read_text()
        await pilot.press("W")
        await until(pilot, lambda: "max_steps" not in other.read_text())
    assert path.read_text() == CONFIG


async def answered(path: Path, key: str) -> str:
    """Open a file whose changes were kept, answer, leave as a hang-up does; the text that it then had."""
    app = app_with(path)
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: "unsaved changes found" in shown(app))
        await pilot.press(key)
        await until(pilot, lambda: isinstance(app.screen, ConfigScreen))
        draft = pane(app).draft
        assert draft is not None
        return draft.text


async def test_changes_survive_a_terminal_that_hangs_up() -> None:
    path = config_file()
    app = app_with(path)
    async with app.run_test(size=SIZE) as pilot:
        await on_field(pilot, "max_steps")
        await pilot.press("delete")
        app.leave_now()  # as SIGHUP does
    assert path.read_text() == CONFIG
    assert await answered(path, "escape") == CONFIG
    assert await answered(path, "t") == CONFIG.replace("max_steps: 20\n", "")
    assert await answered(path, "d") == CONFIG
    app = app_with(path)
    async with app.run_test(size=SIZE) as pilot:
        await looked_at(pilot)  # nothing is asked any more


async def test_a_file_changed_on_disk_is_read_anew_or_asked_for() -> None:
    path = config_file()
    app = app_with(path)
    async with app.run_test(size=SIZE) as pilot:
        screen = await on_field(pilot, "max_steps")
        path.write_text(CONFIG.replace("20", "30"))
        screen.post_message(DiskChanged(path, gone=False))
        app.take_rewards_request()
        await until(pilot, lambda: screen.draft is not None and "max_steps: 30" in screen.draft.text)
        request = app.take_rewards_request()
        assert request is not None, "Rewards loads the new text when it is shown again"
        assert request.config().grpo["max_steps"] == 30
        await pilot.press("delete")
        path.write_text(CONFIG.replace("20", "40"))
        screen.post_message(DiskChanged(path, gone=False))
        await until(pilot, lambda: isinstance(app.screen, MenuDialog))
        await pilot.press("d")
        await until(pilot, lambda: isinstance(app.screen, DiffScreen))
        assert "max_steps: 40" in shown(app)
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, MenuDialog))
        await pilot.press("m")
        await until(pilot, lambda: isinstance(app.screen, ConfigScreen))
        assert "max_steps" not in path.read_text()


def test_a_trial_of_a_config_that_cannot_be_read_asks_nothing_first() -> None:
    for state in (None, SimpleNamespace(inspected=SimpleNamespace(config=None))):
        start: Any = SimpleNamespace(screen=SimpleNamespace(request=object(), state=state))
        assert ConfigStart._asks_consent(start, lambda: None) is False


@pytest.mark.parametrize(
    ("theirs", "choices", "said", "mine"),
    [
        ("a: 1", ["diff", "mine", "theirs", None], "has changed", "overwrite the file on disk"),
        (None, ["mine", None], "was deleted", "write the file again"),
    ],
)
def test_of_a_file_that_is_gone_there_is_nothing_to_compare_or_take(
    theirs: str | None, choices: list[str | None], said: str, mine: str
) -> None:
    asked: list[MenuDialog] = []
    draft = SimpleNamespace(path=Path("my.yaml"))
    screen = SimpleNamespace(draft=draft, ask=lambda dialog, then: asked.append(dialog))
    files: Any = SimpleNamespace(screen=screen)
    ConfigFiles._ask_disk(files, theirs, None)
    assert [choice.value for choice in asked[0]._choices] == choices
    assert said in asked[0]._sentences[0]
    assert [choice.what for choice in asked[0]._choices if choice.value == "mine"] == [mine]


async def test_mine_is_written_again_when_the_file_is_gone() -> None:
    path = config_file()
    app = app_with(path)
    async with app.run_test(size=SIZE) as pilot:
        screen = await on_field(pilot, "max_steps")
        await pilot.press("delete")
        path.unlink()
        await pilot.press("W")
        await until(pilot, lambda: isinstance(app.screen, MenuDialog) and "is gone" in shown(app))
        await pilot.press("m")
        await until(pilot, lambda: app.screen is screen)
        assert screen.draft is not None
        assert path.read_text() == screen.draft.text


async def test_saving_over_a_file_that_somebody_else_wrote_asks() -> None:
    path = config_file()
    app = app_with(path)
    async with app.run_test(size=SIZE) as pilot:
        screen = await on_field(pilot, "max_steps")
        await pilot.press("delete")
        path.write_text("max_steps: 1\n")
        await pilot.press("W")
        await until(pilot, lambda: isinstance(app.screen, MenuDialog))
        await pilot.press("t")
        await until(pilot, lambda: isinstance(app.screen, ConfigScreen))
        assert screen.draft is not None
        assert screen.draft.text == path.read_text() == "max_steps: 1\n"


@pytest.mark.parametrize(("choice", "said"), [(0, "max_steps: 20"), (1, "num_generations_eval")])
async def test_differences_are_shown(choice: int, said: str) -> None:
    app = app_with(config_file(CONFIG + "num_generations_eval: 4\n"))
    async with app.run_test(size=SIZE) as pilot:
        await on_field(pilot, "max_steps")
        await pilot.press("delete")
        await looked_at(pilot)
        await pilot.press("d", *["down"] * choice, "enter")
        await until(pilot, lambda: isinstance(app.screen, DiffScreen))
        assert said in shown(app)


async def test_a_start_is_held_back_by_errors_unless_a_person_insists(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[list[str]] = []

    def start_run(words: list[str]) -> tuple[bool, str]:
        asked.append(words)
        return False, "no GPU"

    monkeypatch.setattr("grpo_tui.ui.starting.start_run", start_run)
    path = config_file(CONFIG.replace("num_generations: 8", "num_generations: 3"))
    app = app_with(path, run_dir=Path("runs/other"))
    async with app.run_test(size=SIZE) as pilot:
        await looked_at(pilot)
        await pilot.press("R")
        await until(pilot, lambda: "to fix before the run" in shown(app))
        await pilot.press("n", "R", "exclamation_mark")
        await until(pilot, lambda: told(app) == ["It did not start: no GPU"])
        assert asked == [[str(path), "--run-dir", "runs/other", "--force"]]


async def test_a_start_asks_to_save_then_once_and_shows_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Path] = []
    app = app_with(config_file())
    monkeypatch.setattr(app, "open_run", opened.append)
    monkeypatch.setattr("grpo_tui.ui.starting.start_run", lambda words: (True, "started"))
    async with app.run_test(size=SIZE) as pilot:
        await on_field(pilot, "max_steps")
        await pilot.press("delete", "R")
        await until(pilot, lambda: "save first?" in shown(app))
        await pilot.press("w")
        await until(pilot, lambda: "start training?" in shown(app))
        assert "runs/toy" in shown(app)
        await pilot.press("y")
        await until(pilot, lambda: bool(opened))
        assert opened == [Path("runs/toy").absolute()]


async def test_several_seeds_start_in_folders_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("runs/toy/checkpoint-3").mkdir(parents=True)
    path = config_file()
    asked: list[list[str]] = []
    opened: list[Path] = []
    monkeypatch.setattr("grpo_tui.ui.starting.start_run", lambda words: (not asked.append(words), "started"))
    app = app_with(path)
    monkeypatch.setattr(app, "open_run", opened.append)
    async with app.run_test(size=SIZE) as pilot:
        await looked_at(pilot)
        await pilot.press("R")
        await until(pilot, lambda: "start training?" in shown(app))
        await pilot.press("s")
        await until(pilot, lambda: "in runs/toy-seed-N" in shown(app))
        await pilot.press("end", "backspace", "2", "enter")
        await until(pilot, lambda: "names a seed twice" in shown(app))
        await pilot.press("end", "backspace", "7", "enter")
        await until(pilot, lambda: bool(opened))
        assert asked == [[str(path), "--seeds", "1,2,7"]]
        assert opened == [Path("runs/toy-seed-1").absolute()]


async def test_the_key_that_the_question_before_a_start_names_lists_the_warnings() -> None:
    app = app_with(config_file(CONFIG.replace("learning_rate: 1.0e-6", "learning_rate: 1.0e-2")))
    async with app.run_test(size=SIZE) as pilot:
        screen = await looked_at(pilot)
        assert screen.state is not None
        assert screen.state.counts()[:2] == (0, 1)
        await pilot.press("R")
        await until(pilot, lambda: "1 warning: l lists it" in shown(app))
        await pilot.press("l")
        await until(pilot, lambda: isinstance(app.screen, FindingsScreen))
        await until(pilot, lambda: "learning_rate" in shown(app))


async def test_a_folder_that_holds_a_run_is_no_error_and_a_start_goes_beside_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Path("runs/toy/checkpoint-3").mkdir(parents=True)
    path, beside = config_file(), Path("runs/toy-2").absolute()
    asked: list[list[str]] = []
    monkeypatch.setattr("grpo_tui.ui.starting.start_run", lambda words: (not asked.append(words), "started"))
    opened: list[Path] = []
    app = app_with(path)
    monkeypatch.setattr(app, "open_run", opened.append)
    async with app.run_test(size=SIZE) as pilot:
        screen = await looked_at(pilot)
        assert screen.state is not None
        assert screen.state.counts()[0] == 0
        assert any("toy-2" in found.message for found in screen.state.findings)
        await pilot.press("R")
        await until(pilot, lambda: "start training?" in shown(app))
        assert "runs/toy-2" in shown(app)
        await pilot.press("y")
        await until(pilot, lambda: bool(opened))
        assert asked == [[str(path), "--run-dir", str(beside)]]
        assert opened == [beside]


def test_a_check_after_one_that_was_stopped_looks_at_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped: list[bool] = []
    kept: list[tuple[Any, Any]] = []

    def check(*args: Any, cancel: threading.Event, **more: Any) -> Preflight:
        stopped.append(cancel.is_set())
        kept.append((more["memory"], more["children"]))
        if len(stopped) == 3:
            cancel.set()
        return Preflight(None, ())

    monkeypatch.setattr("grpo_tui.preflight.run.check", check)
    checks = ConfigCheck()
    snapshot = Snapshot(1, CONFIG, Path("toy.yaml"))
    for _ in range(2):
        assert checks.run(snapshot, None, print, print) == (Preflight(None, ()), True)
        checks.cancel()
    assert checks.run(snapshot, None, print, print) == (Preflight(None, ()), False)
    checks.close()
    assert stopped == [False, False, False]
    assert kept[0] == kept[1] == kept[2], "what was loaded is loaded once"
    assert checks.run(snapshot, None, print, print) == "the screen was closed"


async def test_what_a_full_check_found_shows_until_the_text_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    from grpo_tui.core.findings import Finding
    from grpo_tui.preflight.report import ChecklistItem

    found = Preflight(
        None,
        (Finding("data.nulls", "error", "dataset_name", 3, "3 prompts are empty (rows 1, 2, 3)"),),
        checklist=(ChecklistItem("Set up logging", "yes", "every step is kept"),),
    )

    def check(*args: Any, **more: Any) -> Preflight:
        more["progress"]("reading rows")
        return found

    monkeypatch.setattr("grpo_tui.preflight.run.check", check)
    app = app_with(config_file())
    async with app.run_test(size=SIZE) as pilot:
        screen = await on_field(pilot, "max_steps")
        await pilot.press("c")
        await until(pilot, lambda: isinstance(app.screen, CheckScreen))
        assert "3 prompts are empty" in shown(app)
        assert "checked: 1 error" in shown(app)
        assert "Set up logging" in shown(app)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, ConfigScreen) and "1 error" in shown(app))
        assert screen.chosen_name() == "dataset_name"
        screen.to_form("max_steps")
        await pilot.press("delete")
        await until(pilot, lambda: "changed since the check" in shown(app) and "1 error" not in shown(app))


async def test_why_a_text_cannot_be_read_stands_beside_the_form() -> None:
    app = app_with(config_file("num_generations: 8\nreward_funcs: [x\n"))
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "cannot be read" in shown(app))
        await until(pilot, lambda: "✗ line 2: invalid YAML" in shown(app))
        area = app.screen.query_one(YamlArea)
        await until(pilot, lambda: area.has_focus and area.size.area > 0)
        await pilot.press("escape")
        await until(pilot, lambda: "Press tab to edit the text" in " ".join(shown(app).split()))
        assert not area.size.area
        await pilot.press("tab")
        await until(pilot, lambda: area.has_focus and area.size.area > 0)


async def test_the_text_as_it_stands_is_exported_as_a_script() -> None:
    app = app_with(config_file())
    async with app.run_test(size=SIZE) as pilot:
        await on_field(pilot, "max_steps")
        await pilot.press("delete", "E")
        await until(pilot, lambda: isinstance(app.screen, PathDialog))
        assert "train.py" in shown(app)
        await pilot.press("enter")
        await until(pilot, lambda: any("Wrote train.py" in word for word in told(app)))
        text = Path("train.py").read_text()
        assert "GRPOTrainer(" in text
        assert "max_steps" not in text
        compile(text, "train.py", "exec")
        await pilot.press("E")
        await until(pilot, lambda: isinstance(app.screen, PathDialog))
        await pilot.press("enter")
        await until(pilot, lambda: "train.py already exists" in shown(app))


async def test_a_check_that_was_ended_is_not_said_to_have_looked_at_everything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def check(*args: Any, **more: Any) -> Preflight:
        assert more["cancel"].wait(20)
        return Preflight(None, ())

    monkeypatch.setattr("grpo_tui.preflight.run.check", check)
    app = app_with(config_file())
    async with app.run_test(size=SIZE) as pilot:
        screen = await looked_at(pilot)
        await pilot.press("c")
        await until(pilot, lambda: bool(screen.start.busy_line()))
        moment = screen.start._busy_since + 65
        with monkeypatch.context() as later:
            later.setattr("grpo_tui.ui.screens.config_start.time", SimpleNamespace(monotonic=lambda: moment))
            assert screen.start.busy_line()[0].text == "◌ checking, 1m05s  "
        await pilot.press("escape")
        await until(pilot, lambda: "the check was stopped before it finished" in shown(app))
        assert "checked at" not in shown(app)


async def test_a_check_that_fails_says_why_and_can_be_begun_again(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def check(inspected: Any, start: Any, *, memory: Any, **more: Any) -> Preflight:
        calls.append((inspected.file, inspected.settings.get("max_steps"), memory))
        if len(calls) == 1:
            raise RuntimeError("the checker ended\x1b[2J")
        return Preflight(None, ())

    monkeypatch.setattr("grpo_tui.preflight.run.check", check)
    path = config_file()
    app = app_with(path)
    async with app.run_test(size=SIZE) as pilot:
        screen = await looked_at(pilot)
        await pilot.press("c")
        await until(pilot, lambda: "the checker ended␛[2J" in told(app))
        assert not screen.start.busy_line()
        assert "checked at" not in shown(app)
        await pilot.press("c")
        await until(pilot, lambda: isinstance(app.screen, CheckScreen))
        assert "checked: ready to start" in shown(app)
    assert [call[:2] for call in calls] == [(path, 20)] * 2
    assert calls[0][2] is calls[1][2] is not None, "what was found stays known"


async def test_a_check_that_ends_after_another_config_was_opened_tells_nothing_of_that_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from grpo_tui.core.findings import Finding

    other = threading.Event()

    def check(*args: Any, **more: Any) -> Preflight:
        assert other.wait(20)
        return Preflight(None, (Finding("data.nulls", "error", "dataset_name", 3, "3 prompts are empty"),))

    monkeypatch.setattr("grpo_tui.preflight.run.check", check)
    app = app_with(config_file())
    async with app.run_test(size=SIZE) as pilot:
        screen = await looked_at(pilot)
        await pilot.press("c")
        await until(pilot, lambda: bool(screen.start.busy_line()))
        screen.files.open_request(ConfigRequest(config_file(name="other.yaml")))
        other.set()
        await until(pilot, lambda: not screen.start.busy_line())
        await looked_at(pilot)
        assert "other.yaml" in shown(app)
        assert "3 prompts are empty" not in shown(app)


async def test_the_memory_of_a_model_that_is_here_is_planned_in_spite_of_an_error() -> None:
    app = app_with(config_file(CONFIG.replace("acme/toy-0.5b", str(DEMO_MODEL)) + "  holdot: 3\n"))
    async with app.run_test(size=SIZE) as pilot:
        screen = await looked_at(pilot)
        assert screen.state is not None
        assert screen.state.counts()[0] == 1
        plan = "\n".join(
            "".join(span.text for _, part in row for span in part) for row in screen.start.plan_rows()
        )
        assert "memory" in plan
        assert " MB" in plan
        assert "config.json" not in plan


async def test_the_memory_is_planned_for_a_card_that_is_chosen() -> None:
    model = Path("model")
    model.mkdir()
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 1000,
             "intermediate_size": 128, "model_type": "llama"}  # fmt: skip
    (model / "config.json").write_text(json.dumps(sizes))
    app = app_with(config_file(CONFIG.replace("acme/toy-0.5b", "model")))
    async with app.run_test(size=SIZE) as pilot:
        await looked_at(pilot)
        await until(pilot, lambda: "CPU" in shown(app))
        await pilot.press("p")
        await until(pilot, lambda: "H200" in shown(app))
        assert "this machine" in shown(app)
        assert "no GPU found" in shown(app)
        assert "the GPU of this machine" not in shown(app)
        await pilot.press("down", "enter")
        await until(pilot, lambda: "of 190.4 GB" in shown(app) and "B200" in shown(app))


async def test_an_answer_to_an_older_text_is_passed_over() -> None:
    app = app_with(config_file())
    async with app.run_test(size=SIZE) as pilot:
        screen = await looked_at(pilot)
        old = screen.state
        assert old is not None
        screen.number += 1
        screen.state = None
        screen.post_message(ConfigEvaluated(old))
        await pilot.pause()
        assert screen.state is None


async def test_rewards_shows_those_of_the_same_file() -> None:
    app = app_with(config_file())
    async with app.run_test(size=SIZE) as pilot:
        await looked_at(pilot)
        request = app._rewards_request
        assert request is not None
        assert request.config().section.rewards[0].name == "correct"
        app._rewards_request = None  # the lab need not start for this
        await pilot.press("3")
        await until(pilot, lambda: isinstance(app.screen, RewardsScreen))


async def test_the_file_that_rewards_shows_is_the_one_of_config_too() -> None:
    path = config_file()
    request = RewardsRequest("toy.yaml", lambda: load_config(path), file=path)
    app = GrpoApp([Path("runs")], None, rewards=request, clock=lambda: NOW)
    app.take_rewards_request()  # the lab need not start for this
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("2")
        screen = await looked_at(pilot)
        assert screen.draft is not None
        assert screen.draft.path == path
        assert app.take_rewards_request() is None  # what it shows stays there, with its samples
        screen.to_form("max_steps")
        await pilot.press("delete", "W")
        await until(pilot, lambda: "● unsaved" not in shown(app))
        assert app.take_rewards_request() is not None


async def test_while_a_config_is_read_its_name_shows_and_not_that_none_is_open() -> None:
    app = app_with(config_file())
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: isinstance(app.screen, ConfigScreen))
        screen = pane(app)
        await until(pilot, lambda: screen.draft is not None)
        screen.state = None  # as it is until the thread has answered
        screen.show()
        await until(pilot, lambda: "Opening toy.yaml …" in shown(app))
        assert "creates a config" not in shown(app)
        assert "open a file" not in shown(app)


async def test_of_a_config_of_the_open_run_that_is_gone_it_says_which_and_how_it_comes_back(
    run: RecordedRun,
) -> None:
    path = config_file(name="my.yaml")
    RunSpec(load_config(path).to_json()).write(run.folder.spec)
    path.unlink()
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        await pilot.press("2")
        await until(pilot, lambda: "creates a config from a preset" in shown(app))
        said = " ".join(shown(app).split())
        assert "The open run was started from my.yaml, which is gone. Its record holds the config:" in said
        command = f"grpo-tui export {from_here(run.folder.root)} --format config -o my.yaml"
        assert command in said
    assert main(shlex.split(command)[1:]) == 0
    assert load_config("my.yaml").grpo["max_steps"] == 20


async def test_the_config_of_the_open_run_leaves_rewards_what_the_run_recorded(run: RecordedRun) -> None:
    path = config_file()
    RunSpec(load_config(path).to_json()).write(run.folder.spec)
    app = app_on(run.folder.root)
    async with app.run_test(size=SIZE) as pilot:
        await opened(pilot)
        await pilot.press("2")
        screen = await looked_at(pilot)
        assert screen.request is not None
        assert screen.request.of_run
        assert screen.worker.open_run == run.folder.root, "whose speed the plan takes"
        assert app.take_rewards_request() is None, "Rewards opens those of the run by itself"
        screen.files.save()
        assert app.take_rewards_request() is not None


async def test_a_start_asks_once_it_is_known_that_the_folder_holds_a_run() -> None:
    app = app_with(config_file())
    async with app.run_test(size=SIZE) as pilot:
        screen = await looked_at(pilot)
        assert screen.state is not None
        whole = screen.state
        screen.state = replace(whole, whole=False)
        await pilot.press("R")
        await pilot.pause()
        assert app.screen is screen
        screen.post_message(ConfigEvaluated(whole))
        await until(pilot, lambda: "start training?" in shown(app))


async def test_a_run_of_a_script_has_no_config_file(run: RecordedRun) -> None:
    run.write(Fact("config", {"model": "/models/adder", "grpo": {"beta": 0.0}}))
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        await pilot.press("2")
        await until(pilot, lambda: "A script of your own started the open run" in shown(app))


async def test_without_a_config_it_says_how_one_is_opened() -> None:
    Path("configs.yaml").write_text(CONFIG)
    app = app_with(None)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("2")
        await until(pilot, lambda: "creates a config from a preset" in shown(app))
        assert "No config is open." in shown(app)
        await pilot.press("ctrl+n")
        await until(pilot, lambda: "gsm8k" in shown(app))
        await pilot.press("down", "enter")
        await until(pilot, lambda: "gsm8k.yaml" in shown(app))
        await pilot.press("enter")
        screen = await looked_at(pilot)
        assert Path("gsm8k.yaml").is_file()
        assert screen.draft is not None
        assert screen.draft.preset is not None
        await pilot.press("o")
        await until(pilot, lambda: "configs.yaml" in shown(app))
        await pilot.press("enter")
        await until(pilot, lambda: screen.request is not None and screen.request.path.name == "configs.yaml")


HOSTILE = """\
# [/b] [@click=app.quit]x[/] \x1b]52;c;Z\x07 \u202e
model_name_or_path: "[bold]\\e]52;c;Z\\a"
output_dir: "runs/\\x9b31m"
"[@click=app.bell]": 3
"""


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_a_hostile_file_is_painted_and_not_obeyed(size: tuple[int, int]) -> None:
    app = app_with(config_file(HOSTILE, "[b]x\x1b.yaml"))
    async with app.run_test(size=size) as pilot:
        await until(
            pilot, lambda: pane(app).state is not None if isinstance(app.screen, ConfigScreen) else False
        )
        for keys in ((), ("l",), ("escape", "tab"), ("escape", "d"), ("escape",)):
            await pilot.press(*keys)
            await pilot.pause()
            text = shown(app)
            assert not set(text) & {"\x1b", "\x07", "\x9b", "\u202e"}
        assert app.is_running


@pytest.mark.parametrize("size", [(60, 16), (80, 24), (200, 50), (20, 5)])
async def test_every_size_works(size: tuple[int, int]) -> None:
    app = app_with(config_file())
    async with app.run_test(size=size) as pilot:
        screen = await looked_at(pilot)
        await pilot.press("tab")
        await pilot.pause()
        area = screen.query_one(YamlArea)
        assert area.has_focus
        assert area.display
        await pilot.press("escape", "down", "down")
        assert screen.query_one(ConfigForm).has_focus


async def test_a_run_that_did_not_start_says_why() -> None:
    app = app_with(config_file())
    async with app.run_test(size=SIZE) as pilot:
        screen = await looked_at(pilot)
        screen.start._started(Path("runs/toy"), (False, "runs/toy holds a run [b]already"))
        await until(pilot, lambda: told(app) == ["It did not start: runs/toy holds a run [b]already"])


async def test_the_config_of_a_run_is_opened_from_the_list(run: RecordedRun) -> None:
    path = config_file()
    app = GrpoApp([Path("runs")], None, clock=lambda: NOW)
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: bool(app.rows))
        app.rows = tuple(replace(row, config_path=str(path)) for row in app.rows)
        app.runs_signal.publish((app.rows, True))
        await pilot.pause()
        await pilot.press("c")
        screen = await looked_at(pilot)
        assert screen.draft is not None
        assert screen.draft.path == path


async def test_while_letters_are_text_the_footer_names_no_letter() -> None:
    app = app_with(config_file())
    async with app.run_test(size=SIZE) as pilot:
        await looked_at(pilot)
        for key in ("tab", "slash"):
            await pilot.press(key)
            await until(pilot, lambda: "q leave" not in shown(app))
            assert "esc" in shown(app).splitlines()[-1]
            await pilot.press("escape")
            await until(pilot, lambda: "q leave" in shown(app))


async def test_every_action_of_the_pane(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grpo_tui.preflight.run.check", lambda *words, **more: Preflight(None, ()))
    path = config_file(
        CONFIG.replace("max_steps", "evaluation_strategy: 'no'\nmax_steps") + "loss_type: grpoo\n"
    )
    app = app_with(path)
    async with app.run_test(size=SIZE) as pilot:
        act, screen = Acts(pilot), await looked_at(pilot)
        form, area, draft = screen.query_one(ConfigForm), screen.query_one(YamlArea), screen.draft
        assert draft is not None

        async def dialog(name: str, kind: type) -> None:
            """Do an action that asks or shows something, and leave it."""
            await act(name, lambda: isinstance(app.screen, kind))
            await pilot.press("escape")
            await until(pilot, lambda: app.screen is screen)

        async def changes(name: str, seen: Callable[[], bool]) -> None:
            """Do an action that changes the text, and let it be looked at."""
            await act(name, seen)
            await looked_at(pilot)

        await dialog("config.findings", FindingsScreen)
        await act("config.next_finding", lambda: screen.chosen_name() == "loss_type")
        await act("config.previous_finding", lambda: screen.chosen_name() == "evaluation_strategy")
        await act("config.next_finding", lambda: screen.chosen_name() == "loss_type")
        await changes("config.fix", lambda: draft.get("loss_type") == "grpo")
        await changes("config.fix_all", lambda: "eval_strategy: 'no'" in draft.text)
        await on_field(pilot, "learning_rate")
        await changes("config.unset", lambda: "learning_rate" not in draft.text)
        await changes("config.undo", lambda: "learning_rate" in draft.text)
        await changes("config.redo", lambda: "learning_rate" not in draft.text)
        await changes("config.undo", lambda: "learning_rate" in draft.text)
        await act.copied("config.copy", lambda text: text == "learning_rate: 1.0e-6")
        await dialog("config.whole", TextScreen)
        await act("config.edit", lambda: screen.query_one(FormField).name_edited == "learning_rate")
        await pilot.press("0")
        await changes("config.apply", lambda: draft.get("learning_rate") == 1e-60)
        await changes("config.undo", lambda: draft.get("learning_rate") == 1e-6)
        await dialog("config.start", MenuDialog)
        await changes("config.save", lambda: path.read_text() == draft.text)
        await dialog("config.start", MenuDialog)
        started: list[Any] = []
        monkeypatch.setattr(screen.start, "_asks_consent", lambda again: started.append(again) is None)
        await act("config.trial", lambda: bool(started))
        await act("config.drills", lambda: len(started) == 2)
        for name in ("diff", "gpu", "open", "new"):
            await dialog(f"config.{name}", MenuDialog)
        for name in ("export", "save_as"):
            await dialog(f"config.{name}", PathDialog)
        await dialog("config.check", CheckScreen)
        await dialog("config.data", DataScreen)
        monkeypatch.setattr(app, "show_rewards", started.append)
        await act("config.baseline", lambda: isinstance(started[-1], RewardsRequest))

        rows = form.count
        await act("config.all", lambda: form.count > rows)
        await act("config.all", lambda: form.count == rows)
        await act("config.search", lambda: screen.query_one("#config-search", Input).has_focus)
        await pilot.press(*"beta")
        await until(pilot, lambda: form.count < rows)
        await act("config.end_search", lambda: form.count >= rows and form.has_focus)
        await act("config.other", lambda: area.has_focus)
        await pilot.press("end", "0")
        await until(pilot, lambda: "● unsaved" in shown(app))
        await changes("config.save_text", lambda: path.read_text() == draft.text)
        await act("config.back", lambda: form.has_focus)
        assert not act.missed("config")


@pytest.mark.parametrize(("answer", "kept"), [("d", False), (None, True)])
async def test_changes_that_were_discarded_do_not_come_back(answer: str | None, kept: bool) -> None:
    path = config_file()
    app = app_with(path)
    async with app.run_test(size=SIZE) as pilot:
        await on_field(pilot, "max_steps")
        await pilot.press("delete")
        await until(pilot, lambda: "● unsaved" in shown(app))
        if answer is not None:
            await pilot.press("q")
            await until(pilot, lambda: isinstance(app.screen, MenuDialog))
            await pilot.press(answer)
    assert (preferences.unsaved(path) is not None) == kept
