"""Results: the verdict of the newest comparison first, the prompts behind it, and where the models are."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

import pytest
from textual.widgets import Input

from grpo_tui.config.resolve import load_config
from grpo_tui.demo import DEMO_CONFIG, DEMO_MODEL
from grpo_tui.present.results_view import read_results
from grpo_tui.store.layout import own_folder, remember
from grpo_tui.store.spec import RunSpec
from grpo_tui.ui.actions import Action, for_footer
from grpo_tui.ui.screens.answers import AnswersScreen
from grpo_tui.ui.screens.reading import TextScreen
from grpo_tui.ui.screens.results import ResultsScreen
from grpo_tui.ui.starting import Child, Ended
from grpo_tui.ui.widgets.bars import Footer
from grpo_tui.ui.widgets.results import ModelList, PromptList
from tests.foreign import foreign_run
from tests.ship.folders import checkpoint, model
from tests.ui.conftest import app_on, opened, shown, until
from tests.ui.kept_comparison import child_of, keep_comparison, waiting_child
from tests.ui.recorded_run import NOW, RecordedRun, recorded

SIZE = (120, 40)


async def results(pilot: Any) -> ResultsScreen:
    """Open the pane, and wait until all is read."""
    await opened(pilot)
    await pilot.press("6")
    await until(pilot, lambda: isinstance(pilot.app.screen, ResultsScreen) and pilot.app.screen.complete)
    screen: ResultsScreen = pilot.app.screen
    return screen


async def test_the_verdict_stands_first_then_the_figures_and_the_prompts(run: RecordedRun) -> None:
    keep_comparison(run.folder.root)
    app = app_on(run.folder.root)
    async with app.run_test(size=SIZE) as pilot:
        screen = await results(pilot)
        lines = shown(app).splitlines()
        assert lines[1].startswith(" ✓ better than the base: pass@1 +0.")
        assert "on 40 held-out prompts" in lines[1]
        text = "\n".join(lines)
        assert "Note: use_vllm is set" in text
        row = next(line for line in lines if line.startswith("  pass@1"))
        assert "├" in row
        assert " to +0." in row
        pairs = screen.results.prompts if screen.results is not None else ()
        shown_pair = screen.results.shown if screen.results is not None else None
        assert shown_pair is not None
        win, tie, loss = shown_pair.counts
        changes = [one.change for one in pairs]
        assert sum(change > 0 for change in changes) == win
        assert sum(change < 0 for change in changes) == loss
        assert len(changes) == win + tie + loss
        assert f"better {win}   same {tie}   worse {loss}" in text
        assert changes[:loss] == sorted(c for c in changes if c < 0), "the worst come first"
        assert screen.query_one(PromptList).has_focus


@pytest.mark.parametrize("size", [(80, 24), SIZE], ids=["80x24", "120x40"])
async def test_several_checkpoints_are_side_by_side_and_the_brackets_turn_to_the_others(
    run: RecordedRun, size: tuple[int, int]
) -> None:
    keep_comparison(run.folder.root, skill=(0.2, 0.3, 0.9, 0.8))
    app = app_on(run.folder.root)
    async with app.run_test(size=size) as pilot:
        screen = await results(pilot)

        def at(step: int) -> bool:
            name = f"{run.folder.root.name}@{step}"
            return screen.complete and shown(app).splitlines()[1].split(":")[0].endswith(name)

        assert at(60), "the newest is first"
        lines = shown(app).splitlines()
        head = next(n for n, line in enumerate(lines) if "@20 " in line and "@40 " in line and "@60 " in line)
        assert lines[head + 1].split()[0] == "pass@1"
        assert lines[head + 1].count("+0.") == 3
        assert lines[head + 2].strip().startswith("95 % interval")
        assert lines[head + 2].count(" to ") == 3
        intervals = sum("95 % interval" in line for line in lines)
        assert intervals == (1 if size == (80, 24) else 5), "a low terminal keeps only the deciding one"
        await pilot.press("right_square_bracket")
        await until(pilot, lambda: at(40))
        first = screen.results.prompts[0] if screen.results is not None else None
        await pilot.press("right_square_bracket")
        await until(pilot, lambda: at(20))
        assert screen.results is not None
        assert screen.results.prompts[0] != first, "the prompts are those of the model shown"


async def test_enter_opens_both_answers_with_what_differs(run: RecordedRun) -> None:
    keep_comparison(run.folder.root)
    app = app_on(run.folder.root)
    async with app.run_test(size=SIZE) as pilot:
        screen = await results(pilot)
        assert screen.results is not None
        place = next(n for n, one in enumerate(screen.results.prompts) if one.change > 0)
        screen.query_one(PromptList).put(place)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, AnswersScreen))
        pair = screen.results.prompts[place]
        text = shown(app)
        assert pair.words in text
        assert pair.prompt in text
        both = next(line for line in text.splitlines() if "not right" in line)
        assert "✓ right" in both.partition("not right")[2], "the base's mistake beside the right answer"
        await pilot.resize_terminal(70, 24)
        await until(pilot, lambda: not any(both in line for line in shown(app).splitlines()))
        assert "not right" in shown(app)


def offered(screen: ResultsScreen) -> list[Action]:
    """The actions of the footer, whether or not they fit."""
    return for_footer("results", screen.shell.view, None, screen.query_one(Footer).parts)


async def test_without_a_comparison_its_command_is_named_and_the_models_are_shown(
    run: RecordedRun,
) -> None:
    checkpoint(run.folder.root, 40)
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await results(pilot)
        text = shown(app)
        assert "Not compared with the base model yet." in text
        assert "grpo-tui compare runs/demo-add" in text
        assert "vllm serve runs/demo-add/checkpoint-40" in text
        assert screen.query_one(ModelList).has_focus
        assert {"results.compare", "results.chat"} <= {a.id for a in offered(screen)}
        await pilot.resize_terminal(66, 24)
        await until(pilot, lambda: "grpo-tui compare" not in shown(app))
        assert "D compares a model with the base" in shown(app), "no part of a command"


async def test_a_run_without_a_model_says_so(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await results(pilot)
        screen.action_results_open()
        assert app.screen is screen, "there is nothing to open"
        assert "No model to compare" in shown(app)
        assert "None yet. C in Train saves a checkpoint." in shown(app)
        assert not {"results.compare", "results.chat"} & {a.id for a in offered(screen)}


async def test_a_run_that_ended_without_a_model_names_no_key_that_cannot_save_one() -> None:
    run = recorded(Path("runs") / "ended", "failed")
    run.close()
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await results(pilot)
        assert "The run saved no model." in shown(app)


async def test_what_lies_in_a_foreign_run_folder_is_not_believed(tmp_path: Path) -> None:
    root = foreign_run(Path("runs") / "theirs", tmp_path / "marks").root
    keep_comparison(root, "made-up")
    app = app_on(root)
    async with app.run_test(size=SIZE) as pilot:
        screen = await results(pilot)
        assert "Not compared with the base model yet." in shown(app)
        mine = own_folder("state") / "compare"
        keep_comparison(root, "others", folder=mine, path="/elsewhere/model")
        keep_comparison(root, "mine", folder=mine, path=str(root.absolute() / "checkpoint-3"))
        await until(pilot, lambda: screen.results is not None and screen.results.shown is not None)
        assert screen.results is not None
        assert [one.file.stem for one in screen.results.comparisons] == ["mine"]


async def test_each_model_has_its_next_command(run: RecordedRun) -> None:
    checkpoint(run.folder.root, 20, lora=True)
    checkpoint(run.folder.root, 40)
    checkpoint(run.folder.root, 50, whole=False)
    app = app_on(run.folder.root)
    async with app.run_test(size=SIZE) as pilot:
        screen = await results(pilot)
        assert [(one.step, one.usable, one.marks) for one in screen.query_one(ModelList).rows] == [
            (50, False, "incomplete: model.safetensors holds 73 of 74 bytes"),
            (40, True, "newest, best reward"),
            (20, True, ""),
        ]
        await pilot.press("G")
        await until(pilot, lambda: "grpo-tui merge runs/demo-add@20 runs/demo-add-20-merged" in shown(app))
        assert "vllm serve runs/demo-add-20-merged" in shown(app)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, TextScreen))
        assert "grpo-tui compare runs/demo-add@20" in shown(app)


async def test_a_checkpoint_that_comes_is_listed(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=SIZE) as pilot:
        screen = await results(pilot)
        checkpoint(run.folder.root, 40)
        await until(pilot, lambda: screen.query_one(ModelList).count == 1)


@pytest.mark.parametrize("result", [{}, {"policies": [1, 2]}, {"policies": [{"name": "a"}] * 2}])
async def test_a_result_of_another_shape_is_passed_over(run: RecordedRun, result: dict[str, Any]) -> None:
    file = keep_comparison(run.folder.root)
    with file.open("a") as more:
        more.write(json.dumps({"result": result, "judged_by": ""}) + "\n")
    app = app_on(run.folder.root)
    async with app.run_test(size=SIZE) as pilot:
        await results(pilot)
        assert "Not compared with the base model yet." in shown(app) or "No model" in shown(app)


async def test_without_a_judge_the_worst_prompts_are_listed(run: RecordedRun) -> None:
    keep_comparison(run.folder.root, skill=(0.6, 0.5), judged=False)
    app = app_on(run.folder.root)
    async with app.run_test(size=SIZE) as pilot:
        screen = await results(pilot)
        assert screen.results is not None
        assert 0 < len(screen.results.prompts) <= 10
        assert all(one.change < 0 for one in screen.results.prompts)
        assert "so the total decides" in shown(app)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, AnswersScreen))


@pytest.mark.parametrize("judged", [True, False])
def test_the_prompts_are_those_of_the_model_that_is_shown(judged: bool, run: RecordedRun) -> None:
    file = keep_comparison(run.folder.root, skill=(0.6, 0.5, 0.4), judged=judged)
    for at, name in ((1, "@20"), (2, "@40")):
        found = read_results(run.folder.root, (file, at))
        one = found.shown
        assert one is not None
        assert (one.at, one.policy.endswith(name)) == (at, True)
        own = [worst["row"] for worst in one.body["worst"] if worst["name"] == one.policy]
        assert {prompt.number for prompt in found.prompts if prompt.change < 0} >= set(own)
        if not judged:
            assert sorted(prompt.number for prompt in found.prompts) == sorted(own)
        changes = [prompt.change for prompt in found.prompts]
        worse, better = [c for c in changes if c < 0], [c for c in changes if c > 0]
        assert changes == [*sorted(worse), *sorted(better, reverse=True), *([0.0] * changes.count(0.0))]


def test_what_changed_between_the_answers_stands_first(run: RecordedRun) -> None:
    keep_comparison(run.folder.root, skill=(0.5, 0.5))
    mixed = {1: 0, 0: 0, -1: 0}
    for one in read_results(run.folder.root).prompts:
        sign = (one.change > 0) - (one.change < 0)
        mixed[sign] += 1
        for answers, first in ((one.base, sign <= 0), (one.policy, sign > 0)):
            if len({answer.right for answer in answers}) == 2:
                assert answers[0].right is first
            of = [answer.count for answer in answers if answer.right is answers[0].right]
            assert of == sorted(of, reverse=True)
    assert all(mixed.values())


async def test_another_run_shows_its_own(run: RecordedRun) -> None:
    keep_comparison(run.folder.root)
    other = recorded(Path("runs") / "other", "finished")
    other.close()
    app = app_on(run.folder.root)
    async with app.run_test(size=SIZE) as pilot:
        screen = await results(pilot)
        app.open_run(other.folder.root.resolve())
        await opened(pilot)
        await pilot.press("6")
        await until(pilot, lambda: screen.complete and "better than the base" not in shown(app))


def said(app: Any, words: str) -> bool:
    """Whether a message says this, however it is wrapped."""
    return any(note.message == words for note in app._notifications)


FAILS = """
import sys
print("grpo-tui: " + " ".join(sys.argv[1:]) + ": no GPU", file=sys.stderr)
raise SystemExit(2)
"""


async def test_a_comparison_goes_on_in_other_panes_and_is_stopped_by_its_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("grpo_tui.ui.comparing.Child", waiting_child)
    run = recorded(Path("runs") / "done", "finished")
    run.close()
    remember(run.folder.root)
    checkpoint(run.folder.root, 60)
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await results(pilot)
        await pilot.press("D")
        await until(pilot, lambda: "generating: 40 of 160" in shown(app))
        assert "S stop" in shown(app).splitlines()[-1]
        await pilot.press("D")
        await until(pilot, lambda: said(app, "A comparison is running. S stops it."))
        await pilot.press("4", "6")
        await until(pilot, lambda: "generating: 40 of 160" in shown(app))
        await pilot.press("S")
        await until(pilot, lambda: said(app, "Stopped. What was generated is kept: D continues."))
        assert "comparing done@60" not in shown(app)
        app.clear_notifications()
        await until(pilot, lambda: "◌ Stopped. What was generated is kept: D continues." in shown(app))
        await pilot.press("D")
        await until(pilot, lambda: "generating: 40 of 160" in shown(app))
        assert "Stopped." not in shown(app)


async def test_how_a_comparison_ended_is_only_shown_in_its_own_run(
    run: RecordedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grpo_tui.ui.comparing.Child", waiting_child)
    first = recorded(Path("runs") / "done", "finished")
    first.close()
    remember(first.folder.root)
    checkpoint(first.folder.root, 60)
    keep_comparison(run.folder.root, "older", at=NOW - 200)
    keep_comparison(run.folder.root, "newer", at=NOW - 100)
    app = app_on(first.folder.root)
    async with app.run_test(size=SIZE) as pilot:
        screen = await results(pilot)
        await pilot.press("D")
        await until(pilot, lambda: "generating: 40 of 160" in shown(app))
        app.open_run(run.folder.root.resolve())
        await results(pilot)
        await pilot.press("right_square_bracket")
        await until(pilot, lambda: "comparison 2 of 2, newest first" in shown(app))
        assert "comparing done@60" in shown(app)
        await pilot.press("S")
        await until(pilot, lambda: said(app, "Stopped. What was generated is kept: D continues."))
        app.clear_notifications()
        await until(pilot, lambda: screen._comparing is None and "generating" not in shown(app))
        assert "◌ Stopped." not in shown(app)


DONE = 'print(open("body.json").read())'
WORSE = f"print('Fetching'); {DONE}; raise SystemExit(1)"
"""How the command ends when a policy is worse than the first."""


@pytest.mark.parametrize(
    ("program", "skill", "verdict"),
    [(DONE, (0.2, 0.8), "better than the base"), (WORSE, (0.8, 0.2), "worse than the base")],
)
async def test_a_comparison_that_ends_is_shown_instead_of_the_older_one_turned_to(
    program: str, skill: tuple[float, float], verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grpo_tui.ui.comparing.Child", child_of(program))
    run = recorded(Path("runs") / "done", "finished")
    run.close()
    remember(run.folder.root)
    checkpoint(run.folder.root, 60)
    keep_comparison(run.folder.root, "older", at=NOW - 200)
    file = keep_comparison(run.folder.root, "newer", at=NOW - 100, skill=skill)
    body = json.loads(file.read_text().splitlines()[-1])
    Path("body.json").write_text(json.dumps(body.get("result", body)))
    app = app_on(run.folder.root)
    async with app.run_test(size=SIZE) as pilot:
        screen = await results(pilot)
        assert "comparison 1 of 2, newest first" in shown(app)
        await pilot.press("right_square_bracket")
        await until(pilot, lambda: "comparison 2 of 2, newest first" in shown(app))
        await pilot.press("D")
        await until(pilot, lambda: screen._comparing is None and bool(app._notifications))
        assert mentioned(app, verdict)
        assert "comparison failed" not in shown(app)
        await until(pilot, lambda: "comparison 1 of 2, newest first" in shown(app))


async def test_a_comparison_that_fails_says_why_and_names_the_selected_model(
    run: RecordedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grpo_tui.ui.comparing.Child", child_of(FAILS))
    checkpoint(run.folder.root, 20)
    checkpoint(run.folder.root, 40)
    app = app_on(run.folder.root)
    async with app.run_test(size=SIZE) as pilot:
        await results(pilot)
        await pilot.press("G", "D")
        await until(pilot, lambda: "compare now?" in shown(app))
        await pilot.press("n", "D", "y")
        await until(pilot, lambda: "✗ The comparison failed: " in shown(app))
        assert "compare runs/demo-add@20 --json --progress: no GPU" in shown(app)


async def test_code_of_a_foreign_run_is_asked_about_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_yes: None
) -> None:
    monkeypatch.setattr("grpo_tui.ui.comparing.Child", waiting_child)
    root = foreign_run(Path("runs") / "theirs", tmp_path / "marks").root
    app = app_on(root)
    async with app.run_test(size=SIZE) as pilot:
        await results(pilot)
        await pilot.press("D")
        await until(pilot, lambda: "not yours" in shown(app))
        assert "rewards.py" in shown(app)
        await pilot.press("n")
        await until(pilot, lambda: "not yours" not in shown(app))
        assert "S stops it" not in shown(app)
        await pilot.press("D")
        await until(pilot, lambda: "not yours" in shown(app))
        await pilot.press("y")
        await until(pilot, lambda: "generating: 40 of 160" in shown(app))


@pytest.mark.slow
async def test_a_checkpoint_is_compared_for_real() -> None:
    """The child is the command itself: the shipped model and a copy of it on the demo's held-out rows."""
    run = recorded(Path("runs") / "demo", "finished")
    run.close()
    root = run.folder.root
    remember(root)
    RunSpec(load_config(DEMO_CONFIG, ["grpo_tui.holdout=8"]).to_json()).write(run.folder.spec)
    folder = Path(shutil.copytree(DEMO_MODEL, root / "checkpoint-60"))
    (folder / "trainer_state.json").write_text('{"global_step": 60}')
    app = app_on(root)
    async with app.run_test(size=SIZE) as pilot:
        screen = await results(pilot)
        await pilot.press("D")
        await until(pilot, lambda: screen.results is not None and screen.results.shown is not None)
        assert "not shown: at least 30 prompts are needed" in shown(app)
        assert screen.results is not None
        assert len(screen.results.prompts) == 8
        assert screen.results.shown is not None
        assert screen.results.shown.file.parent == root / "compare"
        await until(pilot, lambda: "S stops it" not in shown(app))


async def test_without_a_run_no_heading_of_its_models_is_shown() -> None:
    app = app_on(None)
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("6")
        await until(pilot, lambda: "No run is open. Press 1 for the list of runs" in shown(app))
        assert "─ models" not in shown(app)
        assert "step     size" not in shown(app)


async def test_a_checkpoint_is_forked_with_other_settings_and_the_new_run_is_opened(
    run: RecordedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint(run.folder.root, 40)
    fork = recorded(Path("runs") / "my fork")
    fork.close()
    remember(run.folder.root)
    asked: list[list[str]] = []
    answers = [(False, "no such checkpoint"), (True, "forked")]

    def start_run(words: list[str], done: str) -> tuple[bool, str]:
        asked.append(words)
        return answers[len(asked) - 1]

    monkeypatch.setattr("grpo_tui.ui.starting.start_run", start_run)
    app = app_on(run.folder.root)
    async with app.run_test(size=SIZE) as pilot:
        await results(pilot)
        await pilot.press("F")
        await until(pilot, lambda: "fork from step 40: settings to change" in shown(app))
        assert "demo-add-2)" in shown(app)
        app.screen.query_one(Input).value = "learning_rate=1e-6"
        await pilot.press("enter")
        await until(pilot, lambda: "✗ The run was not forked: no such checkpoint" in shown(app))
        assert app.screen.query_one(Input).value == "learning_rate=1e-6", "what was typed is kept"
        app.screen.query_one(Input).value = "beta='0.1"
        await pilot.press("enter")
        await until(pilot, lambda: "✗ A quote is not closed." in shown(app))
        assert app.screen.query_one(Input).value == "beta='0.1"
        app.screen.query_one(Input).value = "'runs/my fork' beta=0.04 optimizer=new 'run_name=a b'"
        await pilot.press("enter")
        await until(pilot, lambda: app.run_folder is not None and app.run_folder.root.name == "my fork")
    words = [str(run.folder.root), "--resume", "40", "--run-dir"]
    assert asked == [
        [*words, f"{run.folder.root}-2", "--set", "learning_rate=1e-6"],
        [*words, "runs/my fork", "--set", "beta=0.04", "--optimizer", "new", "--set", "run_name=a b"],
    ]


async def test_a_race_of_branches_is_started_in_the_background(
    run: RecordedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint(run.folder.root, 40)
    remember(run.folder.root)
    asked: list[tuple[list[str], str]] = []

    answers = [
        (False, "Name the settings of a branch, such as --branch 'learning_rate=1e-5'"),
        (False, "[--timeout S] RUN[@STEP] grpo-tui race: error: argument --steps: must be at least 1, not 0"),
        (True, "forking from checkpoint-40; training in demo-add-40-control"),
    ]

    def start_run(words: list[str], *, command: str) -> tuple[bool, str]:
        asked.append((words, command))
        return answers[len(asked) - 1]

    monkeypatch.setattr("grpo_tui.ui.starting.start_run", start_run)
    app = app_on(run.folder.root)
    async with app.run_test(size=SIZE) as pilot:
        await results(pilot)
        await pilot.press("X")
        await until(pilot, lambda: "race from step 40: which settings help?" in shown(app))
        await pilot.press("enter")
        await until(pilot, lambda: "Name the settings of a branch, such as" in shown(app))
        assert "--branch" not in shown(app)
        assert app.screen.query_one(Input).value.strip() == "steps=50 |", "what was typed is kept"
        app.screen.query_one(Input).value = "steps=0 | beta=0.1"
        await pilot.press("enter")
        await until(pilot, lambda: "No race was started: steps: must be at least 1, not 0" in shown(app))
        assert app.screen.query_one(Input).value == "steps=0 | beta=0.1"
        app.screen.query_one(Input).value = "steps=20 | learning_rate=1e-6| warm: beta=0.04 optimizer=new |"
        await pilot.press("enter")
        started = "The race runs in the background. Its comparison comes up here."
        await until(pilot, lambda: said(app, started))
    at = f"{run.folder.root}@40"
    branches = ["--branch", "learning_rate=1e-6", "--branch", "warm: beta=0.04 optimizer=new"]
    assert asked == [
        ([at, "--steps", "50"], "race"),
        ([at, "--steps", "0", "--branch", "beta=0.1"], "race"),
        ([at, "--steps", "20", *branches], "race"),
    ]


@pytest.mark.parametrize("key", ["F", "X"])
async def test_for_the_final_model_the_checkpoint_of_its_step_is_taken(key: str) -> None:
    """Without one, the newest checkpoint is named."""
    root = recorded(Path("runs") / "done", "finished").folder.root
    checkpoint(root, 40)
    model(root)
    app = app_on(root)
    async with app.run_test(size=SIZE) as pilot:
        screen = await results(pilot)
        models = screen.query_one(ModelList)
        await until(pilot, lambda: models.count == 2)
        final = models.rows[0].step
        models.focus()
        await pilot.press(key)
        none = f"The final model was saved at step {final}, of which no checkpoint is kept."
        await until(pilot, lambda: mentioned(app, f"{none} Select the newest, of step 40"))
        checkpoint(root, final)
        await until(pilot, lambda: models.count == 3)
        assert models.selected is not None
        assert models.selected.path == root
        await pilot.press(key)
        await until(pilot, lambda: f" from step {final}: " in shown(app))


@pytest.mark.parametrize(("key", "title"), [("F", "fork from step "), ("X", "race from step ")])
async def test_a_fork_of_a_foreign_run_is_asked_about_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_yes: None, key: str, title: str
) -> None:
    monkeypatch.setattr("grpo_tui.ui.starting.start_run", lambda *_: pytest.fail("was started"))
    root = foreign_run(Path("runs") / "theirs", tmp_path / "marks").root
    app = app_on(root)
    async with app.run_test(size=SIZE) as pilot:
        screen = await results(pilot)
        assert screen.results is not None
        await pilot.press(key)
        await until(pilot, lambda: title in shown(app))
        await pilot.press("enter")
        await until(pilot, lambda: "not yours" in shown(app))
        assert "its record and checkpoints" in shown(app)


def mentioned(app: Any, words: str) -> bool:
    """Whether part of a message says this."""
    return any(words in note.message for note in app._notifications)


async def test_a_run_is_exported_as_a_bundle_or_why_not_is_said(run: RecordedRun) -> None:
    saved = load_config(DEMO_CONFIG).to_json()
    RunSpec(saved, forked_from="elsewhere/checkpoint-4").write(run.folder.spec)
    app = app_on(run.folder.root)
    async with app.run_test(size=SIZE) as pilot:
        await results(pilot)

        async def export() -> None:
            await pilot.press("E")
            await until(pilot, lambda: "export a bundle to" in shown(app))
            app.screen.query_one(Input).value = "mine.zip"
            await pilot.press("enter")

        await export()
        await until(pilot, partial(mentioned, app, "Not exported: this run started from elsewhere/check"))
        RunSpec(saved).write(run.folder.spec)
        await export()
        await until(
            pilot, partial(mentioned, app, "reproduce it with `grpo-tui reproduce mine.zip --verify`")
        )
        assert is_zipfile("mine.zip")
        assert mentioned(app, "note: the run did not record its threads and processor")
        await export()
        await until(pilot, lambda: "already exists" in shown(app))
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, ResultsScreen))
        screen = app.screen
        assert isinstance(screen, ResultsScreen)
        screen._exporting = Child(["export"], "")
        await pilot.press("E")
        await until(pilot, partial(mentioned, app, "An export is running."))


async def test_an_upload_shows_the_dry_run_first_and_then_uploads(
    run: RecordedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint(run.folder.root, 40)
    asked: list[list[str]] = []
    body = {"files": [{"name": "model.safetensors"}], "left_out": [{"name": "optimizer.pt"}],
            "size_bytes": 2000, "card": "record"}  # fmt: skip

    class Answers:
        def __init__(self, words: list[str], stages: str) -> None:
            self.words = words

        def run(self) -> Ended:
            asked.append(self.words)
            dry, taken = "--dry-run" in self.words, "me/taken" in self.words
            if taken and not dry:
                return Ended(2, "", "me/taken exists already (409)")
            return Ended(0, json.dumps(body) if dry else "files\nuploaded: http://hub/me/new/commit/1", "")

        def cancel(self) -> None:
            """Nothing runs."""

    monkeypatch.setattr("grpo_tui.ui.pushing.Child", Answers)
    app = app_on(run.folder.root)
    async with app.run_test(size=SIZE) as pilot:
        await results(pilot)
        for repo, key, end in (
            ("me/new", "n", ""),
            ("me/new", "enter", ""),
            ("me/new", "p", "uploaded: http://hub/me/new/commit/1"),
            ("me/taken", "y", "Not uploaded: me/taken exists already (409)"),
        ):
            await pilot.press("H")
            await until(pilot, lambda: "upload the model to" in shown(app))
            app.screen.query_one(Input).value = repo
            await pilot.press("enter")
            await until(pilot, lambda: "upload to the Hub?" in shown(app))
            text = shown(app)
            assert "1 file, 2.0 kB" in text
            assert "Left out: optimizer.pt" in text
            assert "made from the record" in text
            await pilot.press(key)
            if end:
                await until(pilot, lambda end=end: said(app, end))
    model = asked[0][1]
    assert asked == [
        *[["push", model, "--dry-run", "--json", "--", "me/new"]] * 3,
        ["push", model, "--yes", "--private", "--", "me/new"],
        ["push", model, "--dry-run", "--json", "--", "me/taken"],
        ["push", model, "--yes", "--", "me/taken"],
    ]


@pytest.mark.parametrize("stop", ["S", "q"])
async def test_a_merge_is_stopped_by_its_key_and_by_leaving(
    stop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Child] = []

    def waits(words: list[str], stages: str) -> Child:
        made.append(waiting_child(words, stages))
        return made[-1]

    monkeypatch.setattr("grpo_tui.ui.comparing.Child", waits)
    root = recorded(Path("runs") / "done", "finished").folder.root
    checkpoint(root, 20, lora=True)
    app = app_on(root)
    async with app.run_test(size=(100, 24)) as pilot:
        await results(pilot)
        await pilot.press("M")
        await until(pilot, lambda: "merge step 20 into" in shown(app))
        await pilot.press("enter")
        await until(pilot, lambda: "merging step 20 into done-20-merged" in shown(app))
        await until(
            pilot, lambda: ": base (1 of 2): generating" in shown(app)
        )  # the stage that the child tells
        assert "S stop" in shown(app).splitlines()[-1]
        await pilot.press("M")
        await until(pilot, lambda: said(app, "A merge is running. S stops it."))
        await until(pilot, lambda: made[0]._process is not None)
        if stop == "S":
            await pilot.press("S")
            await until(pilot, lambda: said(app, "The merge was stopped, and nothing was written."))
            assert "merging step 20" not in shown(app)
    assert made[0].cancelled()


async def test_a_merge_beside_training_is_asked_about(
    run: RecordedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grpo_tui.ui.comparing.Child", lambda *_: pytest.fail("was started"))
    checkpoint(run.folder.root, 20, lora=True)
    app = app_on(run.folder.root)
    async with app.run_test(size=SIZE) as pilot:
        screen = await results(pilot)
        await pilot.press("M")
        await until(pilot, lambda: "merge step 20 into" in shown(app))
        await pilot.press("enter")
        await until(pilot, lambda: "The run is training. A merge would compete with it" in shown(app))
        await pilot.press("n")
        await until(pilot, lambda: app.screen is screen)


async def test_an_adapter_is_merged_and_a_checkpoint_deleted_after_asking(
    run: RecordedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = run.folder.root
    for step in (20, 40):
        checkpoint(root, step, lora=step == 20)
    asked: list[list[str]] = []

    class Merges(Child):
        def run(self, tell: Any = None) -> Ended:
            asked.append(self.words[3:])
            return Ended(2, "", "no room") if "full" in self.words else Ended(0, "merged it\n", "")

    app = app_on(root)
    async with app.run_test(size=SIZE) as pilot:
        screen = await results(pilot)
        models = screen.query_one(ModelList)
        models.focus()
        await pilot.press("M")
        await until(pilot, partial(mentioned, app, "Only a LoRA adapter can be merged."))
        await pilot.press("G")
        await until(pilot, lambda: "ctrl+d delete" in shown(app) and "M merge" in shown(app))
        with monkeypatch.context() as patch:
            patch.setattr("grpo_tui.ui.comparing.Child", Merges)
            for name, end in (("full", "Not merged: no room"), ("whole", "merged it")):
                await pilot.press("M")
                await until(pilot, lambda: "merge step 20 into" in shown(app))
                app.screen.query_one(Input).value = name
                await pilot.press("enter")
                await until(pilot, lambda: "merge now?" in shown(app))
                await pilot.press("y")
                await until(pilot, partial(mentioned, app, end))
        assert asked == [["merge", "runs/demo-add@20", name, "--progress"] for name in ("full", "whole")]
        await pilot.press("ctrl+d")
        await until(pilot, lambda: "delete step 20?" in shown(app))
        await pilot.press("n")
        await until(pilot, lambda: app.screen is screen)
        assert (root / "checkpoint-20").exists()
        await pilot.press("ctrl+d")
        await until(pilot, lambda: "delete step 20?" in shown(app))
        assert "No complete checkpoint will be left" not in shown(app)
        await pilot.press("y")
        await until(pilot, partial(mentioned, app, "Deleted checkpoint-20"))
        await until(pilot, lambda: [one.step for one in models.rows] == [40])
        assert not (root / "checkpoint-20").exists()
        await pilot.press("ctrl+d")
        await until(pilot, lambda: "No complete checkpoint will be left to resume from." in shown(app))
