"""Walk through an app key by key, and compare what every screen shows with a stored text.

A walk is a text with a line per screen: keys, and

- `'words'`: typed a letter at a time,
- `do:config.drills`: an action by its name, for those without a key,
- `outcome:applied`: a step of the walk's own, with its argument,
- `open`: nothing more is pressed.

What is stored of a screen are the lines that differ from the screen before, with the colours that carry a
meaning, what has the focus, and what was said, copied, sent to the run and remembered meanwhile.
`--snapshot-update` writes the stored texts anew.
"""

from __future__ import annotations

import asyncio
import difflib
import itertools
import json
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from textual.strip import Strip
from textual.widgets import Input, TextArea

from grpo_tui import ui
from grpo_tui.ui.actions import action
from grpo_tui.ui.app import GrpoApp
from grpo_tui.ui.kit.jobs import Jobs
from grpo_tui.ui.theme import DARK
from tests import PATIENCE_S

STORED = Path(__file__).with_name("walks")
LOOPS = {
    "chart", "chat", "config", "config file", "data", "data facts", "data rewards", "generations", "lab",
    "lab files", "modules", "pages", "poller", "runs", "search", "tokens",
}  # fmt: skip
"""Threads that wait for more to do as long as their screen is there."""
DIFFERENT_S = 20.0
"""How long a screen that is at rest may differ from the stored one, for what only a timer brings."""
AT_REST_S = 0.4
"""How long a screen is at rest before it is stored."""
TOKEN = re.compile(r"'([^']*)'|(\S+)")
Steps = Mapping[str, Callable[[Any, str], Awaitable[None]]]
_COLORS = {DARK.variables[name]: name for name in ("good", "bad", "attention")}


class WalkedApp(GrpoApp):
    """The app, which keeps what it says and copies instead of showing it for a while."""

    CSS_PATH = str(Path(ui.__file__).parent / "styles" / "app.tcss")

    def __init__(self, *args: Any, **words: Any) -> None:
        self.told: list[str] = []
        super().__init__(*args, **words)

    def notify(self, message: str, *, severity: Any = "information", **words: Any) -> None:
        self.told.append(f"{severity}: {message}".replace(str(Path.cwd()), "HERE"))

    def copy_to_clipboard(self, text: str) -> None:
        self.told.append(f"copied: {text[:400]!r}".replace(str(Path.cwd()), "HERE"))

    def bell(self) -> None:
        self.told.append("the bell rings")


def lines_of(app: GrpoApp) -> list[str]:
    """Every line on the screen, with the meaning of its colours behind it."""
    return [_line(strip) for strip in app.screen._compositor.render_strips()]


def _line(strip: Strip) -> str:
    found: list[tuple[str, int, int]] = []
    at = 0
    for segment in strip:
        style, end = segment.style, at + segment.cell_length
        names = []
        if style is not None and segment.text.strip() and style.color is not None:
            names.append(_COLORS.get(_hex(style.color), ""))
        if style is not None and style.bgcolor is not None:
            names.append("selected" if _hex(style.bgcolor) == DARK.variables["selection"] else "")
        for name in filter(None, names):
            near = next((k for k, (known, _, last) in enumerate(found) if known == name and last == at), None)
            if near is None:
                found.append((name, at, end))
            else:
                found[near] = (name, found[near][1], end)
        at = end
    text = "".join(segment.text for segment in strip).rstrip()
    marks = ", ".join(f"{name} {first}-{last}" for name, first, last in found)
    return f"{text}  ⟨{marks}⟩" if marks else text


def _hex(color: Any) -> str:
    return str(color.triplet.hex) if color.triplet is not None else ""


class Walk:
    """A walk through an app in one terminal.

    Args:
        pilot: of the app, whose run is open or whose first screen is there.
        stored: the file to compare with.
        steps: what the walk can do besides pressing keys.
        update: whether to write the file instead.
    """

    def __init__(self, pilot: Any, stored: Path, steps: Steps, *, update: bool) -> None:
        self._pilot, self._app, self._steps = pilot, pilot.app, steps
        self._stored, self._update = stored, update
        self._lines: list[str] = []
        self._seen: dict[tuple[str, ...], str] = {}
        self._sent, self._kept = set[Path](), ""

    async def through(self, way: str) -> None:
        """Do every line of a walk, and compare each screen; the first that differs ends it."""
        found = []
        known = [] if self._update else self._stored.read_text(encoding="utf-8").split("\n\n## ")[1:]
        screens = [line.strip() for line in way.strip().splitlines()]
        for number, keys in enumerate(screens, 1):
            for words, token in TOKEN.findall(keys):
                await self._do(words, token)
            line = f"{number} {keys}"
            expected = None if self._update else known[number - 1].removesuffix("\n")
            section = await self._rested(line, expected)
            if expected is not None and section != expected:
                raise AssertionError(self._told(line, expected, section))
            found.append(section)
        if self._update:
            text = "\n\n## ".join(["Written by `pytest tests/ui/test_walks.py --snapshot-update`.", *found])
            self._stored.write_text(text + "\n", encoding="utf-8")
        else:
            assert len(known) == len(found), "the walk was shortened: write it anew"

    async def _do(self, words: str, token: str) -> None:
        if words:
            await self._pilot.press(*("space" if one == " " else one for one in words))
        elif token.startswith("do:"):
            await self._app.run_action(action(token[3:]).target)
        elif ":" in token[1:-1]:
            name, _, argument = token.partition(":")
            await self._steps[name](self._pilot, argument)
        elif token != "open":
            await self._pilot.press(token)

    async def _rested(self, line: str, expected: str | None) -> str:
        """Wait until the screen is as stored, or is at rest and differs."""
        began = since = time.monotonic()
        last = ""
        while True:
            await self._pilot.pause()
            for box in self._app.screen.query("Input, TextArea"):
                assert isinstance(box, Input | TextArea)
                box.cursor_blink = False
            now, lines, busy = time.monotonic(), lines_of(self._app), self._busy()
            section = self._section(line, lines)
            if section != last or busy:
                last, since = section, now
            patience = AT_REST_S if expected is None else DIFFERENT_S
            if (not busy and section == expected) or now - since > patience or now - began > PATIENCE_S:
                self._lines = lines
                self._seen.setdefault(tuple(lines), line.partition(" ")[0])
                self._app.told.clear()
                self._sent |= set(self._commands())
                self._kept = self._preferences()
                return section
            await asyncio.sleep(0.02)

    def _busy(self) -> bool:
        app = self._app
        jobs = any(not worker.is_finished for worker in app.workers if worker.group not in LOOPS)
        whole = app.view is None or app.view.whole
        return (
            jobs or not whole or not app.rows_complete or any(known.busy for known in TrackedJobs.all)
            or not all(getattr(widget, "complete", True) for widget in app.screen.query("*"))
        )  # fmt: skip

    def _section(self, line: str, lines: list[str]) -> str:
        focused = self._app.focused
        kind = "" if focused is None else f"{type(focused).__name__}{f'#{focused.id}' if focused.id else ''}"
        about = [f"on {type(self._app.screen).__name__}, focus {kind or 'nowhere'}"]
        known = self._lines if len(self._lines) == len(lines) else [""] * len(lines)
        pairs = enumerate(zip(known, lines, strict=True), 1)
        changed = [(number, now) for number, (before, now) in pairs if before != now]
        dimmed = [number for number, now in changed if known[number - 1].partition("  ⟨")[0] == now]
        if changed and (earlier := self._seen.get(tuple(lines))) is not None:
            about.append(f"the lines of screen {earlier}")
            changed = dimmed = []
        if dimmed:
            about.append(f"without their colours: lines {', '.join(map(str, dimmed))}")
            changed = [(number, now) for number, now in changed if number not in dimmed]
        numbered = ((number - place, number, now) for place, (number, now) in enumerate(changed))
        for (_, text), rows in itertools.groupby(numbered, lambda row: (row[0], row[2])):
            first, *more = [number for _, number, _ in rows]
            about.append(f"{first:2}{f'-{more[-1]}' if more else ''}│{text}")
        about += self._app.told
        bodies = [json.loads(path.read_text()) for path in self._commands() if path not in self._sent]
        about += [f"sent: {body['kind']} {json.dumps(body['args'], sort_keys=True)}" for body in bodies]
        kept = self._preferences()
        if kept != self._kept:
            about.append(f"remembered: {kept}")
        return "\n".join([line, *about])

    def _commands(self) -> list[Path]:
        found = Path("runs").glob("*/commands/*.json")
        return sorted(path for path in found if not path.name.endswith(".out.json"))

    def _preferences(self) -> str:
        file = self._app._preference_file.path
        return json.dumps(json.loads(file.read_text()), sort_keys=True) if file.exists() else ""

    def _told(self, line: str, expected: str, section: str) -> str:
        rows = difflib.unified_diff(
            expected.splitlines(), section.splitlines(), "stored", "shown", lineterm=""
        )
        whole = "\n".join(f"{number:2}│{text}" for number, text in enumerate(self._lines, 1))
        return f"{self._stored.name}, after `{line}`:\n" + "\n".join(rows) + f"\n\nthe whole screen:\n{whole}"


class TrackedJobs:
    """What every queue of jobs is at; stands in for `Jobs.next` while a walk goes on."""

    all: set[TrackedJobs] = set()  # noqa: RUF012

    def __init__(self, jobs: Jobs[Any]) -> None:
        self._jobs, self.waits = jobs, False

    @property
    def busy(self) -> bool:
        """Whether a job waits or is being done."""
        return bool(self._jobs._waiting) or not (self.waits or self._jobs.stopped.is_set())

    @classmethod
    def next(cls, jobs: Jobs[Any], following: Callable[[Jobs[Any]], Any]) -> Any:
        """Wait for the next job, and note that nothing is done meanwhile."""
        mine = next((one for one in cls.all if one._jobs is jobs), None) or cls(jobs)
        cls.all.add(mine)
        mine.waits = True
        try:
            return following(jobs)
        finally:
            mine.waits = False
