"""The chat screen with real models: side by side or one under the other, kept, and nothing left behind."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from textual.widgets import Input

from grpo_tui.config.resolve import load_config
from grpo_tui.demo import DEMO_CONFIG, DEMO_MODEL
from grpo_tui.store.layout import remember
from grpo_tui.store.spec import RunSpec
from grpo_tui.ui.screens.chat import ChatLines, ChatScreen
from grpo_tui.ui.screens.dialogs import MenuDialog
from tests.family import below, gone
from tests.foreign import foreign_run
from tests.ui.chat_child import Scripted
from tests.ui.conftest import app_on, opened, shown, until
from tests.ui.recorded_run import RecordedRun


@pytest.fixture
def task(tmp_path: Path) -> Path:
    """A copy of the demo's config, which a test may change."""
    for name in ("demo.yaml", "task.py", "rewards.py"):
        shutil.copy(DEMO_CONFIG.with_name(name), tmp_path)
    (tmp_path / "model").symlink_to(DEMO_MODEL)
    return tmp_path / "demo.yaml"


async def test_both_models_answer_and_the_prompt_is_kept(
    run: RecordedRun, task: Path, tmp_path: Path
) -> None:
    root = run.folder.root
    RunSpec(load_config(task).to_json()).write(run.folder.spec)
    remember(root)
    copied = shutil.copytree(DEMO_MODEL, tmp_path / "copied")
    app = app_on(root)
    async with app.run_test(size=(120, 30)) as pilot:
        await opened(pilot)
        beneath = app.screen
        name = str(copied)
        app.push_screen(ChatScreen(root, name, copied, beside=True))
        await until(pilot, lambda: isinstance(app.screen, ChatScreen))
        lines = app.screen.query_one(ChatLines)
        app.screen.query_one(Input).value = "What is 7 + 15?"
        await pilot.press("enter")
        await until(pilot, lambda: "total" in shown(app) or bool(lines.trouble))
        assert not lines.trouble
        body: Any = lines.turns[-1].body
        assert [one["policy"] for one in body["answers"]] == [name, "base"]
        assert body["answers"][0]["text"] == body["answers"][1]["text"], "the same weights and seed"
        answer = body["answers"][0]["text"].splitlines()[0]
        assert any(row.count(answer) == 2 for row in shown(app).splitlines()), "side by side"
        await pilot.resize_terminal(80, 24)
        # One under the other:
        await until(
            pilot, lambda: [n for row in shown(app).splitlines() if (n := row.count(answer))] == [1, 1]
        )
        await pilot.press("escape")
        await until(pilot, lambda: app.focused is lines)
        await pilot.press("K")
        await until(pilot, lambda: isinstance(app.screen, MenuDialog))
        await pilot.press("p")
        await until(pilot, lambda: "added to the probe prompts" in shown(app))
        probes = load_config(task).section.probe_prompts
        assert probes is not None
        assert probes.texts == ("What is 7 + 15?",)
        chats = below(None, "chat", "--events")
        models = below(None, "grpo_tui.rewards.generate_child")
        assert (len(chats), len(models)) == (1, 2)
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is beneath)
        await until(pilot, lambda: all(map(gone, chats + models)))


async def test_a_chat_that_cannot_begin_says_why(run: RecordedRun) -> None:
    run.folder.spec.unlink()
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        app.push_screen(ChatScreen(run.folder.root, "no/such/run", run.folder.root, beside=False))
        await until(pilot, lambda: isinstance(app.screen, ChatScreen))
        app.screen.query_one(Input).value = "a"
        assert "✗" not in shown(app)
        await pilot.press("enter")
        lines = app.screen.query_one(ChatLines)
        await until(pilot, lambda: bool(lines.trouble))
        assert "no/such/run" in lines.trouble
        assert "✗" in shown(app)


async def test_code_of_somebody_else_is_asked_about_first(
    tmp_path: Path, no_yes: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grpo_tui.ui.screens.chat.Chatting", Scripted)
    foreign = foreign_run(tmp_path / "theirs", tmp_path / "marks")
    app = app_on(foreign.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        app.push_screen(ChatScreen(foreign.root, "theirs", foreign.root / "checkpoint-3", beside=True))
        await until(pilot, lambda: isinstance(app.screen, ChatScreen))
        lines, box = app.screen.query_one(ChatLines), app.screen.query_one(Input)
        box.value = "What is 1 + 1?"
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, MenuDialog) and "not yours" in shown(app))
        assert not lines.turns
        await pilot.press("y")
        await until(pilot, lambda: lines.doing == "theirs: writing")
        assert (box.value, foreign.ran()) == ("", set())


async def test_the_base_is_switched_by_a_typed_line_as_by_the_key(
    run: RecordedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grpo_tui.ui.screens.chat.Chatting", Scripted)
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        app.push_screen(ChatScreen(run.folder.root, "mine", run.folder.root, beside=False))
        await until(pilot, lambda: isinstance(app.screen, ChatScreen))
        lines, box = app.screen.query_one(ChatLines), app.screen.query_one(Input)
        for typed, title in (("/with on", "mine beside base"), ("/with  off", "mine")):
            box.value = typed
            await pilot.press("enter")
            await until(pilot, lambda title=title: lines.first == title)  # type: ignore[misc]
            assert (box.value, lines.doing, lines.turns) == ("", "", [])
        box.value = "What is 1 + 1?"
        await pilot.press("enter")
        await until(pilot, lambda: lines.doing == "mine: writing")
        box.value = "/with on"
        await pilot.press("enter")
        await pilot.pause()
        assert (box.value, lines.first) == ("/with on", "mine"), "not while an answer is written"


@pytest.mark.parametrize(
    ("typed", "asked"), [("1 + 1?", True), ("/row 3", True), ("//x", True), ("/help", False)]
)
async def test_a_prompt_stands_out_from_a_command_and_the_footer_names_the_keys_of_the_focus(
    run: RecordedRun, monkeypatch: pytest.MonkeyPatch, typed: str, asked: bool
) -> None:
    monkeypatch.setattr("grpo_tui.ui.screens.chat.Chatting", Scripted)
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        app.push_screen(ChatScreen(run.folder.root, "mine", run.folder.root, beside=False))
        await until(pilot, lambda: "enter ask " in shown(app))
        app.screen.query_one(Input).value = typed
        await pilot.press("enter")
        await until(pilot, lambda: f" {typed}" in shown(app))
        assert [span.role for span in app.screen.query_one(ChatLines).turns[0].lines(80)[0][1:]] == [
            "strong" if asked else "dim"
        ]
        app.screen.query_one(ChatLines).focus()
        await until(pilot, lambda: "K keep" in shown(app))
        assert "enter ask " not in shown(app)


async def test_a_new_conversation_is_new_for_the_policy_too(
    run: RecordedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grpo_tui.ui.screens.chat.Chatting", Scripted)
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        app.push_screen(ChatScreen(run.folder.root, "mine", run.folder.root, beside=False))
        await until(pilot, lambda: isinstance(app.screen, ChatScreen))
        lines = app.screen.query_one(ChatLines)
        app.screen.query_one(Input).value = "What is 1 + 1?"
        await pilot.press("enter")
        await until(pilot, lambda: lines.doing == "mine: writing")
        await pilot.press("ctrl+n")
        assert [turn.text for turn in lines.turns] == ["What is 1 + 1?"], "not while an answer is written"
        await pilot.press("escape")
        await until(pilot, lambda: not lines.doing)
        await pilot.press("ctrl+n")
        await until(pilot, lambda: [turn.text for turn in lines.turns] == ["did /new"])
        await pilot.press("escape", "K")
        assert isinstance(app.screen, ChatScreen), "no answer is left to keep"
        await pilot.press("y", "S")
        said = [note.message for note in app._notifications]
        assert said[-3:] == ["Nothing to keep yet.", "Nothing to copy yet.", "No answer is being written."]


async def test_the_last_answer_is_copied_and_a_chat_that_broke_says_why_and_begins_again(
    run: RecordedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grpo_tui.ui.screens.chat.Chatting", Scripted)
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        app.push_screen(ChatScreen(run.folder.root, "mine", run.folder.root, beside=False))
        await until(pilot, lambda: "enter ask " in shown(app))
        screen = app.screen
        assert isinstance(screen, ChatScreen)
        lines, box = screen.query_one(ChatLines), screen.query_one(Input)
        for typed in ("1 + 1?", "2 + 2?"):
            box.value = typed
            await pilot.press("enter")
            await until(pilot, lambda: lines.doing == "mine: writing")
            await pilot.press("escape")
            await until(pilot, lambda: not lines.doing)
        lines.focus()
        await pilot.press("y")
        assert app.clipboard == "prompt:\n2 + 2?\n\nmine:\n2"
        assert screen._chatting is not None
        screen._told({"event": "failed", "text": "out of memory"})
        await until(pilot, lambda: "✗ out of memory" in shown(app))
        assert screen._chatting is not None
        screen._chatting.close()
        await until(pilot, lambda: screen._chatting is None)
        screen.action_chat_ask()
        box.value = "3 + 3?"
        await pilot.press("enter")
        await until(pilot, lambda: lines.doing == "mine: writing")
        assert not lines.trouble
