"""Textual may rename what is private: the program then opens and answers keys, and says what is lost."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType, SimpleNamespace
from typing import Any

import pytest
import textual
from textual.app import App
from textual.command import CommandPalette
from textual.drivers.headless_driver import HeadlessDriver
from textual.drivers.linux_driver import LinuxDriver
from textual.screen import Screen
from textual.scroll_view import ScrollView
from textual.widgets import Input, TextArea

from grpo_tui.ui import textual_private
from grpo_tui.ui.textual_private import NEEDED, PatientDriver, missing
from tests.ui.conftest import app_on, opened, shown, until
from tests.ui.recorded_run import RecordedRun

HEADLESS = "textual.drivers.headless_driver:HeadlessDriver"
UI = Path(textual_private.__file__).parent
KEYS = (
    ("1", "RunsScreen"), ("4", "TrainScreen"), ("question_mark", "HelpScreen"), ("escape", "TrainScreen"),
    ("ctrl+p", "Palette"), ("pagedown", "Palette"), ("escape", "TrainScreen"),
)  # fmt: skip
NAMES = sorted({name for names in NEEDED.values() for name in names})


def renamed(code: CodeType, name: str) -> CodeType:
    """A function's code that looks for another name instead, which nothing has."""

    def other(word: Any) -> Any:
        if isinstance(word, CodeType):
            return renamed(word, name)
        return f"{name}_gone" if word == name else word

    names, consts = tuple(map(other, code.co_names)), tuple(map(other, code.co_consts))
    return code.replace(co_names=names, co_consts=consts)


def functions(of: type) -> Iterator[FunctionType]:
    for member in vars(of).values():
        made = member.fget if isinstance(member, property) else member
        if isinstance(made, FunctionType):
            yield made


def without(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the module would be under a Textual that has no such name."""
    for of in vars(textual_private).values():
        if not inspect.isclass(of) or of.__module__ != textual_private.__name__:
            continue
        if name in vars(of):
            monkeypatch.delattr(of, name)  # nothing would call it
        for function in functions(of):
            monkeypatch.setattr(function, "__code__", renamed(function.__code__, name))


@pytest.mark.parametrize("name", NAMES)
async def test_the_program_answers_keys_under_a_textual_without(
    name: str, run: RecordedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    without(name, monkeypatch)
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        for key, there in KEYS:
            await pilot.press(key)
            await until(pilot, lambda there=there: type(app.screen).__name__ == there)
        await until(pilot, lambda: "newest group" in shown(app))


@pytest.mark.parametrize("name", ["", "_writer_thread", "_queue", "_file"])
async def test_what_is_written_reaches_the_terminal_under_a_textual_without(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name:
        without(name, monkeypatch)
    written: list[str | None] = []
    line = SimpleNamespace(put_nowait=written.append, qsize=lambda: 0)
    driver = PatientDriver(App())
    driver._writer_thread = SimpleNamespace(  # type: ignore[assignment]
        write=written.append, stop=lambda: written.append(None), join=lambda _: None, _queue=line
    )
    driver.write("\x1b[31ma picture\x1b[0m")
    driver.close()
    assert written == ["\x1b[31ma picture\x1b[0m", None]


async def test_a_console_of_few_glyphs_gets_ascii_from_textual_itself_in_as_many_cells() -> None:
    written: list[str | None] = []
    app = app_on(None)
    app.ascii_only = True
    driver = PatientDriver(app)
    driver._writer_thread = SimpleNamespace(  # type: ignore[assignment]
        _queue=SimpleNamespace(put_nowait=written.append, qsize=lambda: 0)
    )
    driver.write("\x1b[31m🔎 一▁\x1b[0m")
    assert written == ["\x1b[31m>  ??_\x1b[0m"]


@pytest.mark.parametrize(("chosen", "used"), [(None, PatientDriver), (HEADLESS, HeadlessDriver)])
def test_the_driver_is_our_own_unless_another_is_chosen(
    chosen: str | None, used: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("textual.constants.DRIVER", chosen)
    assert app_on(None).get_driver_class() is used


async def test_a_name_that_is_missing_is_told_with_what_is_lost(
    run: RecordedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        assert not missing(app)
        monkeypatch.setitem(NEEDED, "Screen", {"_no_such_name": "nothing much"})
        told = f"Textual {textual.__version__} has no Screen._no_such_name. Lost without it: nothing much."
        assert missing(app) == [told]


def private_of_textual() -> set[str]:
    """Private names of the classes that the program's own are made from, and of what these keep in `self`."""
    made_from = (App, LinuxDriver, CommandPalette, TextArea, Input, ScrollView, Screen)
    classes = {of for one in made_from for of in one.__mro__ if of.__module__.startswith("textual")}
    names = {name for of in classes for name in dir(of)}
    names |= {word for of in classes for word in re.findall(r"self\.(\w+)", inspect.getsource(of))}
    return {name for name in names if name.startswith("_") and not name.startswith("__")}


def test_private_names_of_textual_are_used_in_one_file() -> None:
    own, used, methods = set(), {}, {}
    for file in UI.rglob("*.py"):
        if file.name == "textual_private.py":
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                methods[node.name] = file.name
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                own.add(node.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                own.add(node.attr)
            elif isinstance(node, ast.Attribute) and ast.unparse(node.value) != "os":
                used[node.attr] = file.name
    private = private_of_textual()
    assert {"_driver", "_get_screen", "_css_update_count", "_styles_cache", "_writer_thread"} <= private
    assert not {name: used[name] for name in used.keys() & private - own - methods.keys()}
    inherited = {name for of in (App, Screen, CommandPalette, TextArea) for name in dir(of)}
    assert not {name: methods[name] for name in methods.keys() & private & inherited}
