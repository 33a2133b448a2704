"""docs/architecture.md names the files of a change. Here some are made, in a copy, in these files alone."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "architecture.md"
MOST_FILES = 3


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A folder with a copy of the package, to be changed."""
    shutil.copytree(
        ROOT / "grpo_tui", tmp_path / "grpo_tui", ignore=shutil.ignore_patterns("__pycache__", "presets")
    )
    return tmp_path


def files_of(change: str) -> list[str]:
    """The files that the page names for a change."""
    row = re.search(rf"^\| {re.escape(change)} \|(.*)$", PAGE.read_text(), re.MULTILINE)
    assert row is not None, f"the page has no row {change!r}"
    named = re.findall(r"`(grpo_tui/[^`]+)`", row[1])
    assert 0 < len(named) <= MOST_FILES
    return named


def python(copy: Path, *words: str) -> str:
    """Run the changed package; what it printed."""
    environment = os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, *words], cwd=copy, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


def test_a_rule_of_the_check_is_a_row(copy: Path) -> None:
    (rules,) = files_of("a rule about the config")
    with (copy / rules).open("a") as file:
        file.write(
            textwrap.dedent(
                """
                [[training]]
                warning = "training.unlucky-seed"
                key = "seed"
                when = "seed == 13"
                says = "seed is {seed}"
                fix = { seed = 14 }
                """
            )
        )
    (copy / "my.yaml").write_text("seed: 13\n")
    found = json.loads(python(copy, "-m", "grpo_tui", "check", "my.yaml", "--quick", "--json"))
    mine = [finding for finding in found["findings"] if finding["id"] == "training.unlucky-seed"]
    assert [(finding["message"], finding["line"]) for finding in mine] == [("seed is 13", 1)]


def test_what_a_metric_means_is_a_table(copy: Path) -> None:
    (metrics,) = files_of("the title and meaning of a metric")
    with (copy / metrics).open("a") as file:
        file.write(
            textwrap.dedent(
                """
                ["judge/latency"]
                title = "latency of the judge"
                short = "judge"
                meaning = "Seconds per call."
                healthy = "Below 1 s."
                unit = "s"
                group = "time"
                """
            )
        )
    script = "from grpo_tui.core.metrics import describe; print(describe('judge/latency').title)"
    assert python(copy, "-c", script) == "latency of the judge\n"


PANE = '''
"""What a reader noted."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.screen import Screen

from grpo_tui.ui.actions import bindings
from grpo_tui.ui.paint import Line, LinePane, Span
from grpo_tui.ui.shell import Shell
from grpo_tui.ui.textual_private import KeepsStyles
from grpo_tui.ui.widgets.bars import Footer, Header


class Notes(LinePane):
    count = 0

    def lines(self, width: int, height: int) -> list[Line]:
        return [[Span(f"{self.count} notes")]]


class NotesScreen(KeepsStyles, Screen[None], Shell):
    PANE = "notes"
    BINDINGS = bindings("notes")

    def compose(self) -> ComposeResult:
        yield Header("notes")
        yield Notes()
        yield Footer("notes")

    def action_notes_count(self) -> None:
        notes = self.query_one(Notes)
        notes.count += 1
        notes.changed()
'''

WALK = """
import asyncio
from pathlib import Path
from grpo_tui.ui.app import GrpoApp

def screen(app):
    strips = app.screen._compositor.render_strips()
    return "\\n".join("".join(segment.text for segment in strip) for strip in strips)

async def walk():
    app = GrpoApp([Path.cwd() / "runs"])
    async with app.run_test(size=(100, 30)) as pilot:
        for keys in (["7"], ["v"], ["question_mark"]):
            await pilot.press(*keys)
            await pilot.pause()
            print(f"== after {keys[0]}")
            print(screen(app))

asyncio.run(walk())
"""


def test_a_pane_with_a_key_takes_three_files(copy: Path) -> None:
    panes, actions, screens = files_of("a pane")
    assert files_of("a key")[0] == actions
    table = (copy / panes).read_text()
    row = 'PANES = (\n    Pane("notes", "7", "Notes", "Note", "NotesScreen", "Show the notes."),\n'
    (copy / panes).write_text(table.replace("PANES = (\n", row))
    text = (copy / actions).read_text()
    head = "ACTIONS: tuple[Action, ...] = (\n"
    assert head in text
    key = 'Action("notes.count", "v", "count", "Count a note", "Count another.", "notes", "show", footer=1)'
    (copy / actions).write_text(text.replace(head, f"{head}    {key},\n"))
    (copy / screens.replace("<name>", "notes")).write_text(PANE)
    (copy / "runs").mkdir()
    shown = python(copy, "-c", WALK).split("== after ")[1:]
    assert [part.split("\n")[0] for part in shown] == ["7", "v", "question_mark"]
    for text, part in (
        ("7 Notes", 0),
        ("0 notes", 0),
        ("v count", 0),
        ("1 notes", 1),
        ("Count another.", 2),
    ):
        assert text in shown[part]
