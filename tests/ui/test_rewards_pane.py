"""The pane Rewards on a real lab: scores, saved files, a hung function, weights, samples, cases, probes."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from textual.widgets import Input

from grpo_tui.config.resolve import load_config
from grpo_tui.core.records import Fact
from grpo_tui.demo import DEMO_MODEL
from grpo_tui.rewards.cases import read_cases
from grpo_tui.rewards.lab import Lab
from grpo_tui.rewards.sample_sources import Origin
from grpo_tui.rewards.scoring import config_of_functions
from grpo_tui.store.spec import RunSpec
from grpo_tui.ui.actions import for_footer
from grpo_tui.ui.app import GrpoApp
from grpo_tui.ui.lab_worker import LabWorker
from grpo_tui.ui.requests import RewardsRequest
from grpo_tui.ui.screens import rewards as rewards_screen
from grpo_tui.ui.screens.dialogs import MenuDialog, PathDialog, WordsDialog
from grpo_tui.ui.screens.reading import TextScreen
from grpo_tui.ui.screens.rewards import RewardsScreen
from grpo_tui.ui.screens.rewards_dialogs import (
    CompletionDialog,
    NewFileDialog,
    NextRewardScreen,
    ProbesScreen,
    SourceDialog,
    WeightDialog,
)
from grpo_tui.ui.widgets.bars import Footer
from grpo_tui.ui.widgets.reward_table import FunctionRows, RewardsSummary, SampleTable
from tests.ui.acts import Acts
from tests.ui.conftest import app_on, opened, shown, until
from tests.ui.recorded_run import NOW, RecordedRun

REWARDS = """
import time

def right(completions, answer, log_extra=None, **kwargs):
    found = [c.split()[-1] for c in completions]
    log_extra("extracted", found)
    return [float(f == a) for f, a in zip(found, answer)]

def short(completions, **kwargs):
    return [1.0 / (1 + len(c)) for c in completions]
"""


pytestmark = pytest.mark.usefixtures("warm_lab")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "rewards.py"
    path.write_text(REWARDS)
    return path


def app_for(file: Path, *names: str, samples: Path | None = None) -> GrpoApp:
    """The app as `grpo-tui rewards FILE:NAME …` opens it."""
    config = config_of_functions([f"{file}:{name}" for name in names or ("right", "short")])
    origin = Origin("file", file=samples) if samples is not None else None
    request = RewardsRequest(file.name, lambda: config, origin)
    return GrpoApp([Path("runs")], None, rewards=request, clock=lambda: NOW)


async def scored(pilot: Any) -> RewardsScreen:
    """Wait until the scores are there and the checks have ended."""
    screen = pilot.app.screen
    assert isinstance(screen, RewardsScreen)
    await until(
        pilot, lambda: screen.scored is not None and screen.scored.about.whole and screen._busy is None
    )
    return screen


def totals(screen: RewardsScreen) -> list[float | None]:
    assert screen.scored is not None
    return [row.total for row in screen.scored.rows]


async def test_a_saved_file_is_scored_at_once_and_shows_what_has_changed(file: Path) -> None:
    app = app_for(file)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await scored(pilot)
        text = shown(app)
        assert "What is 17 + 25?" in text
        assert "gold 42" in text
        assert "extracted 42" in text
        assert screen.scored is not None
        assert [row.scores[0] for row in screen.scored.rows] == [1.0, 0.0] * 3
        file.write_text(REWARDS.replace("float(f == a)", "3 * float(f == a)"))
        await until(pilot, lambda: "1.00→3.00" in shown(app))
        await scored(pilot)
        assert "rewards.py saved" in shown(app)
        assert "3 scores changed" in shown(app)
        assert "1.00→3.00" in shown(app)  # until the next change
        file.write_text(REWARDS + "\nx = = 1\n")
        await until(pilot, lambda: "invalid syntax: `x = = 1` (rewards.py" in shown(app))
        assert "rewards 'right' and 'short' cannot be loaded" in shown(app)
        assert "no score changed" not in shown(app)
        assert screen.scored is not None
        places = {(column.file, column.line) for column in screen.scored.columns}  # what `e` opens
        assert places == {(str(file), REWARDS.count("\n") + 2)}
        file.write_text(REWARDS)
        await until(pilot, lambda: "invalid syntax" not in shown(app) and "failed" not in shown(app))


async def test_a_hung_function_is_named_and_the_pane_lives(file: Path) -> None:
    app = app_for(file)
    async with app.run_test(size=(100, 30)) as pilot:
        screen = await scored(pilot)
        file.write_text(REWARDS.replace("    found =", "    time.sleep(600)\n    found ="))
        await until(pilot, lambda: "right: scoring" in shown(app) and "stops it" in shown(app))
        await pilot.press("j")
        assert screen.query_one("#samples").selected == 1  # type: ignore[attr-defined]
        await pilot.press("escape")
        await until(pilot, lambda: "stopped by you after" in shown(app))
        took = re.search(r"stopped by you after ([0-9.]+) s", shown(app))
        assert took is not None
        assert float(took[1]) < time.monotonic(), "counted from the call"
        await scored(pilot)
        assert screen.scored is not None
        assert screen.scored.rows[0].scores[0] is None
        assert screen.scored.rows[0].scores[1] is not None  # the other one was scored all the same
        await pilot.press("ctrl+l")
        await until(pilot, lambda: "stops it" in shown(app))
        file.write_text(REWARDS)  # nobody has to end what was mended
        await until(pilot, lambda: "stopped by you" not in shown(app) and "stops it" not in shown(app))
        await scored(pilot)
        assert screen.scored.rows[0].scores[0] == 1.0


async def test_a_raising_function_names_the_sample_and_its_line(file: Path, tmp_path: Path) -> None:
    samples = tmp_path / "samples.jsonl"
    samples.write_text(
        '{"prompt": "2+2?", "completion": "4", "answer": "4"}\n'
        '{"prompt": "2+2?", "completion": " ", "answer": "4"}\n'
    )
    app = app_for(file, samples=samples)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await scored(pilot)
        text = shown(app)
        assert "✗ here" in text
        assert "IndexError" in text
        assert "rewards.py:5" in text
        assert "samples.jsonl" in text
        await pilot.press("K")
        await until(pilot, lambda: "not kept" in shown(app))


async def test_rows_without_a_gold_answer_wait_for_completions(file: Path, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"prompt": "2+2?", "level": 1}\n{"prompt": "3+3?", "level": 2}\n')
    (tmp_path / "my.yaml").write_text(
        f"model_name_or_path: {DEMO_MODEL}\ngrpo_tui:\n  dataset: rows.jsonl\n  rewards:\n"
        "    - {name: short, source: rewards.py:short}\n"
    )
    request = RewardsRequest("my.yaml", lambda: load_config("my.yaml", (), world_size=None))
    app = GrpoApp([Path("runs")], None, rewards=request, clock=lambda: NOW)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await scored(pilot)
        await until(pilot, lambda: "looks like the gold answer" in shown(app))
        assert "2+2?" in shown(app)
        assert "(empty)" in shown(app)
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is not screen)
        await pilot.press("4", "enter")
        await until(pilot, lambda: screen.scored is not None and screen.scored.rows[0].scores == (0.5,))


async def test_weights_move_and_functions_are_muted_without_scoring_again(file: Path) -> None:
    app = app_for(file)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await scored(pilot)
        before = totals(screen)
        await pilot.press("o", "right", "right")
        await until(pilot, lambda: totals(screen)[0] == pytest.approx((before[0] or 0.0) + 0.2))
        await pilot.press("down", "space")
        await until(pilot, lambda: totals(screen)[:2] == pytest.approx([1.2, 0.0]))
        assert "off" in shown(app)
        await pilot.press("space")
        await until(pilot, lambda: totals(screen)[0] == pytest.approx((before[0] or 0.0) + 0.2))
        await pilot.press("space")
        await until(pilot, lambda: totals(screen)[:2] == pytest.approx([1.2, 0.0]))
        await pilot.press("h")
        await until(pilot, lambda: totals(screen)[0] == pytest.approx((before[0] or 0.0) - 1.0))
        await pilot.press("up", "enter")
        await until(pilot, lambda: app.screen is not screen)
        await pilot.press("backspace", "backspace", "backspace", "4", "enter")
        await until(pilot, lambda: totals(screen)[0] == pytest.approx((before[0] or 0.0) + 3.0))
        await pilot.press("0", "escape")
        await until(pilot, lambda: totals(screen) == pytest.approx(before))


async def test_samples_are_written_changed_copied_sorted_removed_and_kept(file: Path, tmp_path: Path) -> None:
    app = app_for(file)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await scored(pilot)
        await pilot.press("a")
        await until(pilot, lambda: app.screen is not screen)
        await pilot.press(*"it is 42", "enter")
        await until(pilot, lambda: screen.scored is not None and len(screen.scored.rows) == 7)
        await scored(pilot)
        assert screen.scored is not None
        assert screen.scored.rows[1].text == "it is 42"
        assert screen.scored.about.origin.endswith(", changed")
        assert screen.scored.rows[1].scores[0] == 1.0
        assert "extracted 42" in shown(app)
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is not screen)
        await pilot.press("backspace", "3", "enter")
        await until(pilot, lambda: screen.scored is not None and screen.scored.rows[1].text == "it is 43")
        await pilot.press("K")
        await until(pilot, lambda: (tmp_path / "cases.yaml").exists())
        await pilot.press("c")
        await until(pilot, lambda: screen.scored is not None and len(screen.scored.rows) == 8)
        await pilot.press("delete")
        await until(pilot, lambda: screen.scored is not None and len(screen.scored.rows) == 7)
        await scored(pilot)
        await pilot.press("s", "down", "enter", "s", "enter")
        await until(pilot, lambda: "by total, worst first" in shown(app))
    kept = read_cases(tmp_path / "cases.yaml")
    assert kept.rewards == (f"{file}:right", f"{file}:short")
    assert kept.cases[0].sample.completion == "it is 43"
    assert kept.cases[0].expect["right"].low == 0.0
    assert "total" in kept.cases[0].expect


async def test_every_action_of_the_pane(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rewards = REWARDS.replace("c.split()[-1]", "(c.split() or [''])[-1]")
    file.write_text(rewards)
    app = app_for(file)
    async with app.run_test(size=(120, 40)) as pilot:
        screen, act = await scored(pilot), Acts(pilot)
        rows, table = screen.query_one(FunctionRows), screen.query_one(SampleTable)

        async def dialog(name: str, kind: type, *keys: str) -> None:
            """Do an action that asks something, and answer."""
            await act(name, lambda: isinstance(app.screen, kind))
            await pilot.press(*(keys or ("escape",)))
            await until(pilot, lambda: app.screen is screen)

        def many(count: int) -> Callable[[], bool]:
            return lambda: screen.scored is not None and len(screen.scored.rows) == count

        await act("rewards.right", lambda: rows.chosen == 1)
        await act("rewards.left", lambda: rows.chosen == 0)
        edited: list[tuple[Path, int | None]] = []
        monkeypatch.setattr(
            rewards_screen, "editor_command", lambda env, path, line: edited.append((path, line))
        )
        await act.said("rewards.source", "No editor is set")
        assert edited == [
            (
                file,
                REWARDS.splitlines().index("def right(completions, answer, log_extra=None, **kwargs):") + 1,
            )
        ]
        await act.copied("rewards.copy", lambda text: "42" in text)
        await dialog("rewards.whole", TextScreen)
        await dialog("rewards.add", CompletionDialog)
        await dialog("rewards.edit", CompletionDialog)
        await dialog("rewards.write", PathDialog)
        await dialog("rewards.samples", SourceDialog)
        await dialog("rewards.new", NewFileDialog)
        await dialog("rewards.tags", WordsDialog, *"hard", "enter")
        assert [one.tags for one in screen.samples] == [("hard",), *[()] * 5]
        await dialog("rewards.filter", WordsDialog, *"#hard", "enter")
        await until(pilot, lambda: table.shown == 1)
        await act("rewards.back", lambda: screen.words == "")
        await act("rewards.duplicate", many(7))
        await scored(pilot)
        await act("rewards.remove", many(6))
        await scored(pilot)
        await act("rewards.keep", (tmp_path / "cases.yaml").exists)
        await dialog("rewards.sort", MenuDialog, "down", "enter")
        await until(pilot, lambda: "by total" in shown(app))
        await dialog("rewards.sort", MenuDialog, "enter")
        await until(pilot, lambda: "worst first" in shown(app))
        await act("rewards.back", lambda: "by total" not in shown(app))

        before = totals(screen)
        await act("rewards.weights", lambda: rows.has_focus)
        await act("rewards.right", lambda: totals(screen)[0] == pytest.approx((before[0] or 0.0) + 0.1))
        await act("rewards.left", lambda: totals(screen) == pytest.approx(before))
        await act("rewards.mute", lambda: totals(screen)[0] == pytest.approx((before[0] or 0.0) - 1.0))
        await act("rewards.mute", lambda: totals(screen) == pytest.approx(before))
        await act("rewards.alone", lambda: totals(screen)[:2] == pytest.approx([1.0, 0.0]))
        await act("rewards.reset", lambda: totals(screen) == pytest.approx(before))
        modes = screen.report.aggregation if screen.report is not None else None
        assert modes is not None
        for name, field in (("scale", "scale_rewards"), ("combine", "multi_objective_aggregation")):
            was = getattr(modes, field)
            await act(
                f"rewards.{name}",
                lambda field=field, was=was: (
                    screen.report is not None  # type: ignore[misc]
                    and getattr(screen.report.aggregation, field) != was
                ),
            )
        await dialog("rewards.edit", WeightDialog)
        await act("rewards.back", lambda: table.has_focus)

        asked: list[Any] = []
        worker = screen.worker
        monkeypatch.setattr(worker, "baseline", lambda: asked.append("baseline"))
        monkeypatch.setattr(worker, "generate", asked.append)
        await act("rewards.baseline", lambda: asked == ["baseline"])
        table.put(2)
        await act("rewards.model", lambda: asked == ["baseline", table.selected])
        await act.said("rewards.data", "No rows: these are only functions")
        kept = screen.scored
        await act("rewards.score", lambda: screen.scored is not kept)
        await scored(pilot)
        await act("rewards.probe", lambda: isinstance(app.screen, ProbesScreen))
        lines = app.screen.query_one("#probes-lines")
        await pilot.resize_terminal(80, 6)
        await until(pilot, lambda: lines.max_scroll_y > 0)
        await act("probes.down", lambda: lines.scroll_offset.y == 1)
        await act("probes.up", lambda: lines.scroll_offset.y == 0)
        await act("probes.whole", lambda: app.screen.whole)  # type: ignore[attr-defined]
        await act("probes.back", lambda: app.screen is screen)
        await pilot.resize_terminal(120, 40)
        await scored(pilot)
        await dialog("rewards.next", NextRewardScreen)
        assert not act.missed("rewards", "probes")


async def test_probes_show_what_fools_the_rewards(file: Path) -> None:
    file.write_text(REWARDS.replace("c.split()[-1]", "(c.split() or [''])[-1].strip('.')"))
    app = app_for(file)
    async with app.run_test(size=(120, 40)) as pilot:
        await scored(pilot)
        await pilot.press("p")
        await until(pilot, lambda: isinstance(app.screen, ProbesScreen))
        await until(pilot, lambda: "looks at the answer" in shown(app))
        assert "accepts what it should reject" in shown(app)
        await pilot.press("escape")
        await until(pilot, lambda: "⚠ probes: " in shown(app))
        await pilot.press("f", "down", "down", "enter")
        await until(pilot, lambda: "probes" in shown(app) and app.screen.scored is not None  # type: ignore[attr-defined]
                    and len(app.screen.scored.rows) > 50)  # type: ignore[attr-defined]  # fmt: skip
        assert "⚠ probes: " in shown(app), "the same rewards, on other samples"
        file.write_text(REWARDS)
        await until(pilot, lambda: "⚠ probes: " not in shown(app))


async def test_what_the_run_recorded_shows_at_once_and_is_scored_when_the_lab_is_ready(
    run: RecordedRun, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text("def correctness(completions, **kwargs):\n    return [7.0] * len(completions)\n")
    RunSpec(config_of_functions([f"{file}:correctness"]).to_json()).write(run.folder.spec)
    ready, load = threading.Event(), Lab.load
    monkeypatch.setattr(Lab, "load", lambda *words: ready.wait(20) and load(*words))
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await opened(pilot)
        await pilot.press("3")
        await until(pilot, lambda: isinstance(app.screen, RewardsScreen) and app.screen.scored is not None)
        screen = app.screen
        assert isinstance(screen, RewardsScreen)
        assert screen.scored is not None
        recorded = screen.scored
        assert {column.seconds for column in recorded.columns} == {None}, "nothing was called"
        assert not recorded.about.whole, "nothing is said to be right before it was looked at"
        assert len(recorded.columns) > 1
        assert {row.total for row in recorded.rows} != {None}
        assert any(row.advantage for row in recorded.rows)
        assert "its newest step" in shown(app)
        screen.scored = None
        await pilot.press("enter")
        await until(pilot, lambda: "Still loading" in shown(app))
        ready.set()
        await scored(pilot)
        assert [column.name for column in screen.scored.columns] == ["correctness"]
        assert {row.scores for row in screen.scored.rows} == {(7.0,)}
        assert len(screen.scored.rows) == len(recorded.rows)


async def test_a_group_of_the_open_run_comes_over_from_train(run: RecordedRun, file: Path) -> None:
    file.write_text(
        "def length(completions, **kwargs):\n    return [float(len(c[-1]['content'])) for c in completions]\n"
    )
    RunSpec(config_of_functions([f"{file}:length"]).to_json()).write(run.folder.spec)
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        await until(pilot, lambda: "step 57 ── “" in shown(app))
        await pilot.press(">")
        await until(pilot, lambda: isinstance(app.screen, RewardsScreen))
        screen = await scored(pilot)
        assert screen.scored is not None
        assert len(screen.scored.rows) == 8
        assert "a group of demo-add" in shown(app)
        await pilot.press("f", "down", "down", "down", "down", "enter")
        await until(pilot, lambda: "its best group" in shown(app))
        await scored(pilot)
        for words, said in (("where advantage>", "✗ "), ("where advantage>0", "where advantage>0")):
            if app.screen is screen:
                await pilot.press("f")
            await until(pilot, lambda: bool(app.screen.query("#source-file")))
            field = app.screen.query_one("#source-file", Input)
            field.value = words
            field.focus()
            await pilot.press("enter")
            await until(pilot, lambda said=said: said in shown(app))  # type: ignore[misc]
        await until(pilot, lambda: app.screen is screen and "#found" in shown(app))


async def test_without_rewards_it_says_how_to_open_some(run: RecordedRun) -> None:
    app = app_on(None)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await pilot.press("3")
        await until(pilot, lambda: "grpo-tui rewards CONFIG.yaml" in shown(app))
        await pilot.press("enter", "p", "o", "e", "v", "K", "s", "space", "ctrl+l", "f")
        await until(pilot, lambda: "No rewards are loaded" in shown(app))
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await opened(pilot)
        await pilot.press("3")
        await until(pilot, lambda: "the rewards of this run are unknown" in shown(app))
        assert "grpo-tui rewards FILE.py:FUNCTION" in " ".join(shown(app).split())


async def test_a_run_of_a_script_shows_what_it_recorded_and_why_nothing_is_scored(run: RecordedRun) -> None:
    run.folder.spec.unlink()
    run.write(Fact("config", {"model": "/models/adder", "grpo": {"scale_rewards": "batch"}}))
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        await pilot.press("3")
        await until(pilot, lambda: "a script of your own started it" in shown(app))
        text = shown(app)
        assert "scale batch" in text
        assert "correctness ×2" in text
        assert "checking" not in text
        assert "32 samples in 4 groups" in text
        assert text.count("a script of your own started it") == 1
        offered = {a.id for a in for_footer("rewards", None, None, app.screen.query_one(Footer).parts)}
        assert "rewards.sort" in offered
        assert not {"rewards.probe", "rewards.model", "rewards.baseline"} & offered


def test_each_source_of_samples_from_a_run_is_the_one_that_it_is_called() -> None:
    choices = SourceDialog(Path("runs/mine"), dataset=True)._choices
    origins = [choice.value for choice in choices]
    assert all(origin not in origins[:place] for place, origin in enumerate(origins)), "two do the same"
    of_run = {choice.name: choice.value.words for choice in choices if choice.value.kind == "run"}
    assert {name: words.removeprefix("mine, its ") for name, words in of_run.items()} == {
        name: name for name in ("newest step", "best group", "worst group")
    }
    assert replace(choices[-1].value, where="tokens>9", step=None).words == "mine, where tokens>9"


@pytest.mark.parametrize(("dataset", "rows"), [(True, "rows of the dataset"), (False, "built-in questions")])
def test_the_sources_say_what_their_questions_are(dataset: bool, rows: str) -> None:
    choices = SourceDialog(None, dataset=dataset)._choices
    assert [choice.what for choice in choices[:2]] == [f"of 4 {rows}", f"of 16 {rows}"]


@pytest.mark.parametrize(
    ("reason", "took_s", "anew"),
    [("rewards.py saved", 2.0, True), ("scored again", 2.0, True), ("rewards.py saved", 1.0, False),
     ("a sample removed", 2.0, False), ("", 2.0, False)],
)  # fmt: skip
def test_results_of_probes_are_of_the_rewards_until_these_are_loaded_anew(
    reason: str, took_s: float, anew: bool
) -> None:
    def view(**about: Any) -> Any:
        return SimpleNamespace(about=SimpleNamespace(**about))

    before = view(reason="", scored_at=1.0, took_s=1.0)
    now = view(reason=reason, scored_at=1.0, took_s=took_s)
    assert rewards_screen._loaded_anew(before, now) is anew
    assert rewards_screen._loaded_anew(None, now) is False


def test_samples_are_written_over_a_file_after_a_question_and_beside_the_file_they_are_from() -> None:
    for origin, name in (
        (None, "samples.jsonl"),
        (Origin("file", file=Path("a/mine.parquet")), "a/mine.jsonl"),
    ):
        asked: list[PathDialog] = []
        screen: Any = SimpleNamespace(
            samples=(),
            origin=origin,
            chosen_sample=lambda: 0,
            ask=lambda dialog, then, asked=asked: asked.append(dialog),
        )
        RewardsScreen.action_rewards_write(screen)
        assert (asked[0]._replaces, asked[0]._value) == (True, name)


def test_without_a_run_and_a_file_there_is_nothing_recorded_and_nothing_to_watch() -> None:
    worker: Any = SimpleNamespace(
        _config=config_of_functions(["accuracy_reward", "mine.py:f"]),
        _lab=SimpleNamespace(files=("other.py",)),
    )
    assert LabWorker._recorded(worker, Origin()) is None
    assert LabWorker._names(worker) == {str(Path("mine.py").absolute()), "other.py"}


@pytest.mark.parametrize(("width", "told"), [(120, "⚠ probes: right is fooled"), (60, "⚠ probes")])
def test_what_the_probes_found_is_told_as_far_as_there_is_room(width: int, told: str) -> None:
    summary = RewardsSummary()
    summary.probed = "⚠ probes: right is fooled" + " and short is fooled" * (1 if width == 60 else 0)
    view: Any = SimpleNamespace(counts=lambda: (1, 1), about=SimpleNamespace(whole=True))
    *_, last = summary._found(view, width)
    assert (last.text, last.role) == (f"{told}  ", "attention")
