"""Every command's help has an example, and every example is one that the program understands."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator

import pytest

from grpo_tui.cli.main import COMMANDS
from grpo_tui.cli.parser import build_parser, joined
from grpo_tui.cli.words import positive


def commands(parser: argparse.ArgumentParser, words: str = "grpo-tui") -> Iterator[tuple[str, str]]:
    """The words of each command, and what its help ends with."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                yield f"{words} {name}", inner.epilog or ""
                yield from commands(inner, f"{words} {name}")


HELP = dict(commands(build_parser()))
LINES = [
    re.split(r" {2,}| [|>] ", line.strip())[0]  # without what it does, and where it goes
    for said in HELP.values()
    for line in said.splitlines()
    if line.startswith("  grpo-tui ")
]


def _inner(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    return next(a.choices for a in parser._actions if isinstance(a, argparse._SubParsersAction))


def _help(parser: argparse.ArgumentParser, name: str) -> str:
    return _inner(parser)[name].format_help()


@pytest.mark.parametrize("words", HELP)
def test_a_commands_help_has_an_example_of_it(words: str) -> None:
    assert f"  {words}" in HELP[words]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_was_typed_is_built_as_it_is_among_all(name: str) -> None:
    assert _help(build_parser(name), name) == _help(build_parser(), name)
    assert len(_inner(build_parser(name))) < len(_inner(build_parser()))


def parsers(
    parser: argparse.ArgumentParser, words: str = ""
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Every parser with the words that lead to it."""
    yield words, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                yield from parsers(inner, f"{words} {name}".strip())


def test_the_help_says_of_every_command_and_option_what_it_is() -> None:
    for words, parser in parsers(build_parser()):
        for action in parser._actions:
            assert action.help or isinstance(action, argparse._SubParsersAction), (words, action.dest)
            if isinstance(action, argparse._SubParsersAction):
                told = {choice.dest: choice.help for choice in action._choices_actions}
                assert set(told) == set(action.choices), words
                assert all(told.values()), words
            if action.type in (int, float, positive):
                assert action.metavar, f"{words} {action.dest}: a number is shown by a letter"


def test_what_a_command_cannot_do_without_is_asked_for() -> None:
    required = {
        words: [action.dest for action in parser._actions if action.required and action.option_strings]
        for words, parser in parsers(build_parser())
    }
    assert {words: names for words, names in required.items() if names} == {
        "race": ["steps"],
        "tokens": ["group"],
    }


@pytest.mark.parametrize(
    ("words", "understood"),
    [
        ("completions R --sort -reward,step", "completions R --sort=-reward,step"),
        ("prompts R --search -1", "prompts R --search=-1"),
        ("completions R --search -", "completions R --search -"),
        ("completions R --sort --json", "completions R --sort --json"),
        ("completions R --limit -1", "completions R --limit -1"),
        ("score R --search -1", "score R --search -1"),
    ],
)
def test_a_value_that_begins_with_a_dash_belongs_to_its_option(words: str, understood: str) -> None:
    assert joined(words.split()) == understood.split()


@pytest.mark.parametrize("line", LINES)
def test_an_example_is_understood(line: str) -> None:
    assert build_parser().parse_args(joined(shlex.split(line)[1:])).command


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_a_terminal_of_80_columns(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = _help(build_parser(name), name).splitlines()
    assert [line for line in lines if len(line) > 80 and not line.startswith("  grpo-tui ")] == []


def test_the_faults_of_the_demo_are_a_table_whose_texts_begin_in_one_column(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    _, _, table = _help(build_parser("demo"), "demo").partition("docs/faults.md:\n")
    assert {re.match(r"  (?:\S+ +| +)", line).end() for line in table.splitlines()} == {19}  # type: ignore[union-attr]


def test_what_an_example_does_is_wrapped_below_it_in_one_column(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "45")
    _, _, examples = _help(build_parser("train"), "train").partition("--resume --detach\n")
    assert examples.splitlines()[:2] == [
        f"      {row}" for row in ("continues from the newest complete", "checkpoint")
    ]
