"""The real program in a pseudo-terminal, on runs whose every text is hostile: all keys, every byte."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pyte
import pytest
from textual.keys import _character_to_key

from grpo_tui.ui.actions import on_pane
from tests import PATIENCE_S
from tests.family import below
from tests.processes.hostile import HostileRun, Weaver, obeyed
from tests.processes.runs import Screen

pytestmark = pytest.mark.slow

# Escape as kitty's protocol spells it: the bare byte is told from a sequence only by waiting.
NAMED = {"enter": "\r", "tab": "\t", "escape": "\x1b[27u",
         "up": "\x1b[A", "down": "\x1b[B", "right": "\x1b[C",
         "left": "\x1b[D", "home": "\x1b[H", "end": "\x1b[F", "pageup": "\x1b[5~", "pagedown": "\x1b[6~",
         "shift+left": "\x1b[1;2D", "shift+right": "\x1b[1;2C", "shift+tab": "\x1b[Z"}  # fmt: skip
TYPED = {_character_to_key(chr(code)): chr(code) for code in range(0x20, 0x7F)}
SHOWN_ANYWHERE = {
    "live run name", "failed run name", "crashed run name", "reward function", "prompt", "completion",
    "long line", "many lines", "log line", "cause",
}  # fmt: skip
"""Places whose text must have been on the screen, at any size."""
SHOWN_WITH_ROOM = {"model", "config", "gold", "setting", "reason"}
INSIDE = ("down", "right", "tab", "end", "l", "question_mark")
"""Pressed in whatever an action has opened."""
BACK = ("escape",) * 4
"""Closes that, and what those keys may have opened over it."""


def typed(key: str) -> str:
    """The bytes of a key as Textual names it."""
    if key.startswith("ctrl+") and len(key) == 6:
        return chr(ord(key[5]) - 0x60)
    return NAMED.get(key) or TYPED.get(key) or key


def _state(stat: Path) -> str:
    """Return the state letter of a thread; X, as of a dead one, when it ended after it was listed."""
    try:
        return stat.read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


class Watched:
    """The program on a terminal that remembers everything ever seen on it."""

    def __init__(self, *words: str | Path, columns: int, lines: int) -> None:
        self.terminal = Screen(*words, columns=columns, lines=lines)
        self.screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self.screen)
        self._fed = 0
        self._family: list[int] = []
        self.seen: set[str] = set()
        self.copies = 0

    def settle(self, most_s: float = 10.0) -> None:
        """Take what comes until the program waits for something, and remember the rows of the screen."""
        end = time.monotonic() + most_s
        quiet = 0
        while quiet < 3 and time.monotonic() < end:
            before = len(self.terminal.output)
            self.terminal.read(0.015)
            waits = len(self.terminal.output) == before and self._sleeps()
            quiet = quiet + 1 if waits else 0
        if self._fed == len(self.terminal.output):
            return
        self._stream.feed(self.terminal.output[self._fed :])
        self._fed = len(self.terminal.output)
        self.seen.update(row.rstrip() for row in self.screen.display)

    def _sleeps(self) -> bool:
        """True when no thread runs or wants to: on a busy machine, silence alone says nothing."""
        states = [_state(task) for pid in self._family for task in Path(f"/proc/{pid}/task").glob("*/stat")]
        return "R" not in states and "D" not in states

    def press(self, *keys: str) -> None:
        """Press keys in one go and let them be answered."""
        self.terminal.type("".join(map(typed, keys)))
        self.settle()
        self.copies += keys.count("y")

    def until(self, *texts: str) -> None:
        """Wait until a row holds one of these texts."""
        end = time.monotonic() + PATIENCE_S
        while not any(text in row for row in self.screen.display for text in texts):
            assert time.monotonic() < end, "\n".join([f"none of {texts} on", *self.screen.display])
            self.settle()
        self._family = [self.terminal.pid, *(one.pid for one in below(self.terminal.pid))]

    def shown(self, mark: str) -> bool:
        """True when a row ever held this text."""
        return any(mark in row for row in self.seen)


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Path, Weaver]:
    """A live, a failed and a crashed run, all texts hostile."""
    weave = Weaver(7)
    root = tmp_path / "runs"
    for state in ("crashed", "failed", ""):
        HostileRun(root / weave.name(f"{state or 'live'} run name"), weave, state).close()
    return root, weave


def every_key(watched: Watched, pane: str, *, inside: bool) -> None:
    """Press every key of a pane, look into what it opens, and come back."""
    here = "1" if pane == "runs" else "4"
    for action in on_pane(pane):
        if not action.key or action.id in ("app.leave", "app.suspend"):
            continue
        watched.press(action.key)
        watched.press(*(INSIDE if inside else ()), *BACK, here)
    watched.press("ctrl+p")
    watched.press(*"zq")
    watched.press("escape")


@pytest.mark.parametrize(("columns", "lines"), [(80, 24), (120, 40)])
def test_no_text_is_obeyed_lost_or_fatal_whatever_key_is_pressed(
    runs: tuple[Path, Weaver], columns: int, lines: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, weave = runs
    monkeypatch.chdir(root)
    watched = Watched(columns=columns, lines=lines)
    watched.until("3 runs")
    every_key(watched, "runs", inside=lines == 40)
    for key in ("home", "down", "down", "home", "enter"):
        watched.press(key)
    watched.until("newest group")
    every_key(watched, "train", inside=lines == 40)
    for key in ("1", "end", "enter"):
        watched.press(key)
    watched.until(*(mark for mark, place in weave.marks.items() if place == "cause"))
    watched.press("1")
    watched.until("3 runs")
    watched.terminal.type("q")
    watched.terminal.until("\x1b[?1049l")
    watched.terminal.hang_up()

    output = watched.terminal.output
    assert obeyed(output, watched.copies) == []
    assert b"Traceback" not in output
    places = {place for mark, place in weave.marks.items() if watched.shown(mark)}
    assert SHOWN_ANYWHERE - places == set()
    if lines == 40:
        assert SHOWN_WITH_ROOM - places == set()


def test_commands_print_nothing_that_a_terminal_would_obey(runs: tuple[Path, Weaver]) -> None:
    root, weave = runs
    for folder in sorted(root.iterdir()):
        mark = folder.name[:5]
        ended = not weave.marks[mark].startswith("live")  # a live one would be followed for ever
        follow = [("attach", folder), ("train", folder, "--resume")] if ended else [("runs", root)]
        for words in [("status", folder), *follow]:
            done = subprocess.run(
                [sys.executable, "-m", "grpo_tui", *map(os.fspath, words)],
                capture_output=True, stdin=subprocess.DEVNULL, timeout=PATIENCE_S, check=False,
            )  # fmt: skip
            text = (done.stdout + done.stderr).replace(b"\n", b" ")
            assert obeyed(text) == [], words
            assert b"Traceback" not in text
            if words[0] == "runs":
                names = [mark for mark, place in weave.marks.items() if place.endswith("run name")]
                assert all(name.encode() in text for name in names)
