"""What a line of a chat does, and what a wrong one is told, without a model."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from grpo_tui.cli import chat
from grpo_tui.cli.errors import CommandError


class Talk(SimpleNamespace):
    """A chat that keeps what it is asked to do."""

    def __init__(self, *names: str) -> None:
        super().__init__(names=list(names), asked=len(names), seed=42, done=[])

    def __getattr__(self, name: str) -> Any:
        kept = {"keep_case": (Path("cases.yaml"), "a case"), "keep_probe": Path("my.yaml")}

        def call(*words: Any) -> Any:
            self.done.append((name, *words[: 0 if name == "new" else 1]))
            return kept.get(name)

        return call


class Out(SimpleNamespace):
    """Prints nothing, and keeps what a command says."""

    def __init__(self) -> None:
        super().__init__(lines=[])

    def begin(self, talk: Any) -> None:
        """Answers are not shown."""

    def show(self, talk: Any, found: Any) -> None:
        """Neither are exchanges."""

    def said(self, text: str) -> None:
        self.lines.append(text)


LINES: tuple[tuple[str, int, list[Any], tuple[int, int] | None, str], ...] = (
    ("hello /row 3", 1, [("ask", "hello /row 3")], None, ""),
    ("//row 3", 1, [("ask", "/row 3")], None, ""),
    ("/new", 1, [("new",)], None, "new conversation"),
    ("/row 3", 1, [("ask_row", 3)], None, ""),
    ("/row 1", 1, [("ask_row", 1)], None, ""),
    ("/seed 7", 1, [], (1, 7), "seed 7"),
    ("/seed -1", 1, [], (1, -1), "seed -1"),
    ("/with off", 2, [], (1, 42), "asking mine"),
    ("/with on", 2, [], (2, 42), "asking mine and base"),
    ("/case", 2, [("keep_case", 0)], None, "kept as the case “a case” in cases.yaml"),
    ("/case 1", 2, [("keep_case", 0)], None, "kept as the case “a case” in cases.yaml"),
    ("/case 2", 2, [("keep_case", 1)], None, "kept as the case “a case” in cases.yaml"),
    ("/probe", 1, [("keep_probe",)], None, "added to the probe prompts of my.yaml"),
    ("/help", 1, [], None, "\n".join((*chat.HELP, chat.KEYS))),
)
"""A line, how many models there are, what is done, who is asked with which seed, and what is said."""
WRONG = (
    ("/row", 1, "/row takes the number of a training row, such as /row 3"),
    ("/row x", 1, "/row takes the number of a training row, such as /row 3"),
    ("/row 0", 1, "/row: rows are numbered from 1"),
    ("/row -1", 1, "/row: rows are numbered from 1"),
    ("/seed", 1, "/seed takes a number, such as /seed 7"),
    ("/with on", 1, "--with POLICY names a second model"),
    ("/with both", 2, "/with takes on or off"),
    ("/case x", 1, "/case takes 1 or 2, for the first or second model"),
    ("/rows 3", 1, "unknown command /rows. /help lists the commands"),
)


@pytest.mark.parametrize("row", LINES, ids=lambda row: row[0])
def test_a_line_does_what_the_help_says(
    row: tuple[str, int, list[Any], tuple[int, int] | None, str],
) -> None:
    line, models, done, state, said = row
    talk, out = Talk(*("mine", "base")[:models]), Out()
    if line == "/with on":
        talk.asked = 1
    chat._answer(talk, out, line)  # type: ignore[arg-type]
    assert talk.done == done
    assert (talk.asked, talk.seed) == (state or (models, 42))
    assert out.lines == ([said] if said else [])


@pytest.mark.parametrize(("line", "models", "why"), WRONG)
def test_a_wrong_line_does_nothing_and_says_what_to_write(line: str, models: int, why: str) -> None:
    talk, out = Talk(*("mine", "base")[:models]), Out()
    with pytest.raises(CommandError) as refused:
        chat._answer(talk, out, line)  # type: ignore[arg-type]
    assert str(refused.value) == why
    assert (talk.done, talk.asked, talk.seed, out.lines) == ([], models, 42, [])


def test_what_is_typed_is_asked_and_ctrl_c_and_empty_lines_are_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = iter([KeyboardInterrupt(), "first", KeyboardInterrupt(), " ", "", "second", EOFError()])

    def read(prompt: str) -> str:
        line = next(typed)
        if isinstance(line, BaseException):
            raise line
        return line

    monkeypatch.setattr("builtins.input", read)
    assert list(chat._typed(Talk("mine"))) == ["first", "second"]  # type: ignore[arg-type]
    said = capsys.readouterr().out
    assert said.startswith("mine, seed 42. /help lists the commands, ctrl+d ends.\n")
    assert said.count("ctrl+d ends the chat\n") == 2


def test_an_answer_with_its_figures_is_in_a_pipe_before_the_next_prompt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipe = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(pipe, encoding="utf-8"))
    said = {"policy": "mine", "text": "4", "tokens": 3, "truncated": False, "stopped": False, "rewards": {}}
    found = SimpleNamespace(to_json=lambda: {"answers": [said], "errors": {}, "row": None, "notes": []})
    out, talk = chat._Plain(), Talk("mine")
    out.begin(talk)(0, "4")  # type: ignore[arg-type]
    assert pipe.getvalue() == b"--- mine\n4", "as it grows"
    out.show(talk, found)  # type: ignore[arg-type]
    assert pipe.getvalue().startswith(b"--- mine\n4\n[3 tokens")
    assert pipe.getvalue().endswith(b"]\n\n")


def test_every_command_of_the_help_has_a_row() -> None:
    words = {line.split()[0] for line, *_ in LINES}
    assert {line.split()[0] for line in chat.HELP} - {"//"} <= words
    assert any(line.startswith("//") for line, *_ in LINES)
    takes = {line.split()[0] for line in chat.HELP if len(line[:15].split()) > 1} - {"//"}
    assert takes <= {line.split()[0] for line, *_ in WRONG}, "each that takes something, with a wrong one"
