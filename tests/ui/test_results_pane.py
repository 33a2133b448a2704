"""Results: the verdict of the newest comparison first, the prompts behind it, and where the models are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from grpo_tui.store.layout import state_folder
from grpo_tui.ui.screens.answers import AnswersScreen
from grpo_tui.ui.screens.reading import TextScreen
from grpo_tui.ui.screens.results import ModelList, PromptList, ResultsScreen
from tests.foreign import foreign_run
from tests.ship.folders import checkpoint
from tests.ui.conftest import app_on, opened, shown, until
from tests.ui.kept_comparison import keep_comparison
from tests.ui.recorded_run import RecordedRun, recorded

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


async def test_a_run_without_a_model_says_so(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await results(pilot)
        assert "No model to compare yet" in shown(app)
        assert "None yet. C in Train saves a checkpoint." in shown(app)


async def test_what_lies_in_a_foreign_run_folder_is_not_believed(tmp_path: Path) -> None:
    root = foreign_run(Path("runs") / "theirs", tmp_path / "marks").root
    keep_comparison(root, "made-up")
    app = app_on(root)
    async with app.run_test(size=SIZE) as pilot:
        screen = await results(pilot)
        assert "Not compared with the base model yet." in shown(app)
        mine = state_folder() / "compare"
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
        assert [(one.step, one.usable, one.marks) for one in screen.query_one(ModelList).models] == [
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
