"""What a person meets who has never seen the program: words are whole, keys are named, nothing jumps."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.cells import cell_len

from grpo_tui.core import records as r
from grpo_tui.core.commands import Command, Outcome
from grpo_tui.core.records import Completion
from grpo_tui.present.events import command_row
from grpo_tui.present.formatting import digits_apart
from grpo_tui.present.group_card import SharedBeginning
from grpo_tui.present.train_view import UNREAD, TrainView
from grpo_tui.ui.actions import ACTIONS
from grpo_tui.ui.app import GrpoApp
from grpo_tui.ui.kit.reading import DialogTitle
from grpo_tui.ui.kit.table import CursorList, heading
from grpo_tui.ui.paint import Line, Span, width_of
from grpo_tui.ui.panes import PANES
from grpo_tui.ui.screens.config_start import ConfigStart
from grpo_tui.ui.screens.dialogs import WordsDialog
from grpo_tui.ui.screens.reading import HelpScreen
from grpo_tui.ui.widgets.bars import Footer, Header
from grpo_tui.ui.widgets.card_table import CardTable, _functions, card_columns
from grpo_tui.ui.widgets.group_table import GroupTable
from grpo_tui.ui.widgets.groups import CompletionLayout, completion_lines
from grpo_tui.ui.widgets.summary import HealthLine, NowLine, RewardLine, _wrapped
from tests.ui.conftest import app_on, opened, shown, until
from tests.ui.recorded_run import RecordedRun, recorded


def words(line: Line) -> str:
    """The line as it is read."""
    return "".join(span.text for span in line)


def view(**more: object) -> TrainView:
    """A run of a long name in mid-run."""
    told: dict[str, Any] = {"state": "training", "live": True, "step": 57, **more}
    return TrainView("a-run-of-a-long-name", "runs/x", 0.0, **told)


@pytest.mark.parametrize("width", [80, 99, 100, 120])
@pytest.mark.parametrize("run", [None, view()])
def test_the_names_of_the_panes_stand_still_whichever_is_shown(width: int, run: TrainView | None) -> None:
    places = set()
    for pane in PANES:
        header = Header(pane.id)
        header._view = run
        line = words(header.lines(width, 1)[0])
        places.add(tuple(line.index(f"{pane.key} ") for pane in PANES))
    assert len(places) == 1


def test_without_a_run_the_panes_have_their_whole_names_on_a_small_screen() -> None:
    assert "2 Config 3 Rewards 4 Train 5 Generations" in words(Header("runs").lines(80, 1)[0])


def test_a_dialog_names_its_keys_whatever_its_title() -> None:
    keys = "enter sample   ctrl+j new line   esc back"
    line = words(DialogTitle("a title that leaves no room at all for the keys", keys).lines(73, 1)[0])
    assert keys in line
    assert cell_len(line) <= 73
    assert "a title" in line


def test_the_help_writes_each_key_alone() -> None:
    lines = [words(line) for line in HelpScreen("train").lines(100)]
    for action in ACTIONS:
        if action.key:
            found = [line for line in lines if line[9:].startswith(action.help[:60])]
            assert [len(line[:9].split()) for line in found[:1]] == [1], action.id
    assert any("]" in line[:9] and "Go to the next step." in line and "[" not in line[:9] for line in lines)


@pytest.mark.parametrize("first", ["train", "chart", "runs", "config"])
def test_the_help_begins_with_the_pane_then_what_is_everywhere_then_the_words(first: str) -> None:
    lines = [words(line) for line in HelpScreen(first).lines(100)]
    titles = [line for line in lines if line.startswith("─ ")]
    everywhere = next(n for n, line in enumerate(titles) if "everywhere" in line)
    assert "terms" in titles[everywhere + 1]
    assert everywhere == (2 if first == "chart" else 1)


@pytest.mark.parametrize("width", [80, 100, 120])
def test_what_to_type_after_a_failure_is_read_whole_however_long_the_cause(width: int) -> None:
    way = "It completed no step. Fix the cause first, then `grpo-tui train outputs/no-steps` starts it again."
    health = HealthLine()
    cause = "✗ Failed: OSError: " + "the model is not there " * 20
    health._view = view(state="failed", health=((cause, "bad"), (way, "text")))
    lines = health.lines(width, 3)
    assert len(lines) <= 3
    assert all(width_of(line) <= width + 1 for line in lines)
    text = " ".join(" ".join(words(line).split()) for line in lines)
    assert text.endswith(way)
    assert "the model is not there" in text


def test_a_stopped_run_says_how_it_goes_on_on_a_small_screen() -> None:
    way = "`grpo-tui train outputs/demo --resume` continues from the newest checkpoint. "
    health = HealthLine()
    health._view = view(state="stopped", health=(("◼ Stopped at step 57. ", "strong"), (way, "dim")))
    text = " ".join(" ".join(words(line).split()) for line in health.lines(80, 3))
    assert text == "◼ Stopped at step 57. " + way.strip()


def test_the_reward_line_keeps_its_figures_when_the_steps_get_a_digit_more() -> None:
    line = RewardLine()
    figures = {"reward": 0.7, "reward_change": 0.05, "spread": 0.85, "flat_share": 0.0, "eta_s": 4500.0}
    for step in (2, 3, 57, 1499):
        line._view = view(step=step, total_steps=1500, **figures)
        assert "zero-std groups 0 %" in words(line.lines(80, 1)[0])


def test_masked_completions_are_told_as_soon_as_there_are_some() -> None:
    line = RewardLine()
    for share in (None, 0.0):
        line._view = view(reward=0.7, masked_share=share)
        assert "masked" not in words(line.lines(120, 1)[0])
    line._view = view(reward=0.7, masked_share=0.25)
    told = line.lines(120, 1)[0]
    assert "masked 25 %" in words(told)
    assert next(span.role for span in told if span.text == "25 %") == "attention"


def test_small_rewards_keep_their_figures() -> None:
    line = RewardLine()
    line._view = view(step=30, reward=0.0351, reward_change=0.0024, spread=0.00061)
    told = words(line.lines(120, 1)[0])
    assert "reward 0.035 ▲ 0.002" in told
    assert "group std 0.0006" in told
    line._view = view(step=30, reward=1.5, reward_change=0.0024, spread=0.7)
    assert "reward 1.50 → 0.00" in words(line.lines(120, 1)[0])


def test_a_sentence_that_ends_at_the_edge_of_the_screen_is_read_whole() -> None:
    told = "Reward is up since step 3. KL is not computed because beta is 0. "
    for width in range(30, 70):
        lines = _wrapped([Span(told)], width)
        assert all(width_of(line) <= width for line in lines)
        assert " ".join(words(line).strip() for line in lines) == told.strip()


def test_what_has_no_column_stands_below_and_that_is_said() -> None:
    names = tuple(f"reward_function_{n}" for n in range(20))
    for width in (62, 80, 120):
        columns, hidden = card_columns(names, [1.0] * 20, width)
        assert hidden
        assert f"+{hidden} below" in words(heading(columns, width, edge=2))
    assert not card_columns(names[:2], [1.0] * 2, 80)[1]


async def test_twenty_functions_are_all_read_in_generations(tmp_path: Path) -> None:
    run = RecordedRun(tmp_path / "many")
    infos = [r.RewardFunctionInfo(1, i, f"reward_function_{i}", 1.0) for i in range(20)]
    completion = r.Completion(0, "22", tuple(float(i) for i in range(20)), 190.0, 0.0, 1, False)
    group = r.Group(0, "7+15=", {"answer": "22"}, (completion,))
    run.write(*infos, r.GenerationBatch(1, 1, 0, "train", 1, 1, run.at(1), (group,)))
    run.end("finished")
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("5")
        await until(pilot, lambda: "+18 below" in shown(app) or "reward_function_0" in shown(app))
        await pilot.press("enter", "enter", "end")
        await until(pilot, lambda: "reward_function_19" in shown(app) and "19.00" in shown(app))
    run.close()


async def test_a_chart_leaves_the_edge_of_the_screen_free(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        await until(pilot, lambda: "120" in shown(app) and "weight" in shown(app))
        rows = shown(app).split("\n")
        ticks = next(row for row in rows if row.split()[:1] == ["1"])
        assert cell_len(ticks.rstrip()) < 80


async def test_train_without_a_run_leads_to_the_list() -> None:
    app = app_on(None)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("2")
        await until(pilot, lambda: "No config is open." in shown(app))
        await pilot.press("4")
        await until(pilot, lambda: app.current_mode == "runs")
        assert any("No run is open. Start one" in told.message for told in app._notifications)


def test_a_check_tells_one_duration() -> None:
    start = ConfigStart(SimpleNamespace(show_state=list))  # type: ignore[arg-type]
    start._is_busy("looking at the model… 5 s")
    assert words(start.busy_line()).startswith("◌ looking at the model, 0.")


async def test_the_hint_of_a_dialog_is_read_whole_on_a_small_screen() -> None:
    hint = (
        "OWNER/NAME on the Hugging Face Hub. The files are shown before anything is uploaded, and you confirm"
    )
    app = app_on(None)
    async with app.run_test(size=(80, 24)) as pilot:
        dialog = WordsDialog("upload the model to", "", hint)
        app.push_screen(dialog)
        await until(pilot, lambda: app.screen is dialog and "OWNER/NAME" in shown(app))
        assert hint in " ".join(shown(app).split())


async def test_config_shows_the_file_of_the_open_run(run: RecordedRun) -> None:
    file = Path("of_the_run.yaml").absolute()
    file.write_text("model_name_or_path: some/model\nnum_generations: 8\n")
    run.folder.spec.write_text(json.dumps({"config": {"path": str(file)}}))
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        await pilot.press("2")
        await until(pilot, lambda: "of_the_run.yaml" in shown(app) and "some/model" in shown(app))


def lit(app: GrpoApp, of: CursorList) -> list[str]:
    """The rows of a list that are painted as chosen."""
    chosen = of._role("text selected").bgcolor
    rows = [of.render_line(y) for y in range(of.size.height)]
    return [row.text for row in rows if any(s.style is not None and s.style.bgcolor == chosen for s in row)]


async def test_the_row_that_the_keys_move_is_lit_in_one_list_alone(tmp_path: Path) -> None:
    run = recorded(tmp_path / "demo", "finished")
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        await pilot.press("5")
        await until(pilot, lambda: "best" in shown(app))
        groups, card = app.screen.query_one(GroupTable), app.screen.query_one(CardTable)
        assert (len(lit(app, groups)), len(lit(app, card))) == (1, 0)
        await pilot.press("enter")
        await until(pilot, lambda: (len(lit(app, groups)), len(lit(app, card))) == (0, 1))
        await pilot.press("escape")
        await until(pilot, lambda: (len(lit(app, groups)), len(lit(app, card))) == (1, 0))
    run.close()


@pytest.mark.parametrize("size", [(80, 24), (80, 20), (120, 30), (60, 15), (40, 10), (30, 8), (20, 5)])
async def test_the_last_line_names_keys_in_every_pane_at_any_size(
    size: tuple[int, int], tmp_path: Path
) -> None:
    run = recorded(tmp_path / "demo", "failed")
    app = app_on(run.folder.root)
    async with app.run_test(size=size) as pilot:
        await opened(pilot)
        for pane in "41235":
            await pilot.press(pane)
            await pilot.pause()
            await until(pilot, lambda: shown(app).split("\n")[-1].strip().endswith("leave"))
            assert app.screen.query_one(Footer).region.bottom == size[1]
    run.close()


async def test_the_open_run_is_listed_wherever_it_lies(tmp_path: Path) -> None:
    run = recorded(tmp_path / "far-away", "finished")
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        await pilot.press("1")
        await until(pilot, lambda: "1 run" in shown(app) and "enter opens it" in shown(app))
    run.close()


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("abort_reward", "reward call aborted by ada; its rewards are None"),
        ("stop", "stopping by ada: finishes the step, saves, exits"),
        ("pause", "paused by ada"),
    ],
)
def test_who_asked_stands_beside_what_was_done(kind: str, said: str) -> None:
    command = Command("1", kind, {}, 0.0, by="ada")
    assert command_row(command, Outcome(True, 9, "", {}, 1.0)).text == said


@pytest.mark.parametrize("width", [30, 44, 80])
def test_sentences_of_several_colours_read_as_one(width: int) -> None:
    health = HealthLine()
    parts = (("● Reward is level", "attention"), (" at about 0.95 over the last 10 steps. ", "dim"))
    way = (("◼ Stopped at step 57. ", "strong"), ("`grpo-tui train outputs/demo --resume` goes on.", "dim"))
    for state, spans in (("training", parts), ("stopped", way)):
        health._view = view(state=state, health=spans)
        text = " ".join("".join(words(line) for line in health.lines(width, 3)).split())
        assert " ," not in text
        assert text in ("".join(part for part, _ in spans).strip(), spans[0][0].strip())


@pytest.mark.parametrize(
    ("change", "moves", "sign", "role"),
    [(0.2, True, "▲", "good"), (-0.2, True, "▼", "bad"), (0.2, False, "▲", "dim"), (0.0, True, "→", "dim")],
)
def test_only_a_change_beyond_the_noise_has_a_color(change: float, moves: bool, sign: str, role: str) -> None:
    line = RewardLine()
    line._view = view(reward=1.0, reward_change=change, reward_moves=moves)
    told = next(span for span in line.lines(100, 1)[0] if span.text.startswith(f" {sign}"))
    assert told.text == f" {sign} {abs(change):.2f}"
    assert told.role == role


@pytest.mark.parametrize(
    ("more", "steps"),
    [({"step": 9}, "8 steps"), ({"step": 57}, "20 steps"), ({"step": 52, "stage_start": 50}, "1 step")],
)
def test_the_change_of_the_reward_names_the_steps_it_is_over(more: dict[str, int], steps: str) -> None:
    line = RewardLine()
    line._view = view(reward=1.0, reward_change=0.2, reward_moves=True, **more)
    assert f"▲ 0.20 in {steps}" in words(line.lines(100, 1)[0])
    assert " in " not in words(line.lines(33, 1)[0])
    line._view = view(reward=1.0, **more)
    assert " in " not in words(line.lines(100, 1)[0])


def test_the_time_left_is_told_while_it_trains_and_the_bar_goes_before_the_percent() -> None:
    line = RewardLine()
    line._view = view(reward=1.0, total_steps=114, eta_s=65.0)
    told = words(line.lines(100, 1)[0])
    assert "50 %  1m05s left" in told
    assert told.count("━") == pytest.approx(told.count("─"), abs=1)
    assert told.count("━") > 3
    assert words(line.lines(40, 1)[0]).rstrip().endswith("50 %  1m05s left")
    line._view = view(reward=1.0, total_steps=114, eta_s=65.0, state="paused")
    assert words(line.lines(100, 1)[0]).rstrip().endswith("50 %")
    line._view = view(reward=1.0)
    assert "%" not in words(line.lines(100, 1)[0])


def test_where_the_model_of_an_ended_run_lies_is_said() -> None:
    now = NowLine()
    now._view = view(state="finished", live=False, model_at="runs/x/model")
    assert "model in runs/x/model" in words(now.lines(120, 1)[0])
    now._view = view(state="finished", live=False)
    assert "model in" not in words(now.lines(120, 1)[0])


def test_what_every_prompt_begins_with_is_left_out_where_a_prompt_does_not_fit() -> None:
    shared = SharedBeginning()
    task = "You are a careful assistant. Think first. What is "
    assert shared.left_out(task + "1 + 2?") == task + "1 + 2?"
    for sum_ in ("7 + 15?", "70 + 1?", "7 + 15?"):
        shared = shared.seen(task + sum_)
    assert [shared.left_out(task + sum_) for sum_ in ("7 + 15?", "70 + 1?")] == ["…7 + 15?", "…70 + 1?"]
    shared = shared.seen("You are another one. What is 9 + 9?")
    assert shared.left_out(task + "7 + 15?") == task + "7 + 15?"
    same = SharedBeginning()
    for _ in range(3):
        same = same.seen(task)
    assert same.left_out(task) == task


async def test_prompts_of_one_template_are_told_apart_in_generations(tmp_path: Path) -> None:
    run = RecordedRun(tmp_path / "template")
    run.write(r.RewardFunctionInfo(1, 0, "right", 1.0))
    for step in range(1, 4):
        completion = r.Completion(0, "22", (1.0,), 1.0, 0.0, 1, False)
        prompt = "\n" + "You are a careful assistant. " * 200 + f"What is {step} + 15?"
        group = r.Group(0, [{"role": "user", "content": prompt}], {"answer": "22"}, (completion,))
        run.write(r.GenerationBatch(1, step, 0, "train", step, step, run.at(step), (group,)))
    run.end("finished")
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("5")
        await until(pilot, lambda: all(f"…{step} + 15?" in shown(app) for step in (1, 2, 3)))
        await pilot.press("down")
        await until(pilot, lambda: "“…2 + 15?”" in shown(app))
    run.close()


def test_a_run_that_cannot_be_read_or_has_ended_waits_for_nothing() -> None:
    unread = view(state="broken", live=False, trouble="run.db cannot be read")
    assert {unread.no_functions, unread.no_groups, unread.no_events} == {UNREAD}
    for more, known in (({}, False), ({"metric_rows": 1}, True), ({"state": "stopped", "live": False}, True)):
        said = view(**more).no_functions
        none, soon = "No reward function was recorded.", "Reward functions appear with the first step."
        assert said == (none if known else soon)
    ended = view(state="stopped", live=False)
    said = " ".join((ended.no_functions, ended.no_groups, ended.no_events))
    assert "Waiting" not in said
    assert "will show" not in said


def test_rewards_that_differ_inside_a_group_never_look_equal() -> None:
    close = (0.0512, 0.0537, 0.0525)
    rows = tuple(Completion(0, "x", (value,), 0.0, value, 3, truncated=False) for value in close)
    look = CompletionLayout(("similarity",), 120, 1, False, 4, (digits_apart(close),))
    assert len({words(completion_lines(row, look)[0]) for row in rows}) == 3
    columns = _functions(["similarity"], [1.0], 80, rows)  # type: ignore[arg-type]
    assert {columns[0].cell(row).text for row in rows} == {"0.0512", "0.0537", "0.0525"}  # type: ignore[arg-type]
