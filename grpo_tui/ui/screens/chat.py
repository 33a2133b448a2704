"""Chat with a model of the open run, beside its base, on top of Results or Train.

The models are loaded by child processes. Leaving the screen ends them.
"""

from __future__ import annotations

import contextlib
import json
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

from textual import on
from textual.app import ComposeResult
from textual.screen import Screen
from textual.widgets import Input

from grpo_tui.core.text import one_line, safe, wrapped
from grpo_tui.present.chat_text import footing, remarks
from grpo_tui.present.config_yaml import from_edit
from grpo_tui.present.formatting import duration
from grpo_tui.present.reading import laid_out
from grpo_tui.ui.actions import bindings
from grpo_tui.ui.paint import Line, LineScroll, Span, ruled, spans
from grpo_tui.ui.screens.answers import column, joined
from grpo_tui.ui.screens.dialogs import Choice, MenuDialog
from grpo_tui.ui.shell import Shell
from grpo_tui.ui.starting import Child, read_object
from grpo_tui.ui.textual_private import LeftOnce
from grpo_tui.ui.widgets.bars import Footer, Header

SIDE_BY_SIDE = 100
"""From this width two answers are shown side by side."""
LOOK_S = 0.5
BASE = "base"
WITH = {"/with on": True, "/with off": False}


class Turn:
    """What was asked or said, and the answers so far."""

    def __init__(self, text: str, names: tuple[str, ...], *, asked: bool) -> None:
        self.text, self.names, self.asked = text, names, asked
        self.texts: dict[int, str] = {}
        self.body: Mapping[str, Any] | None = None
        self._laid: tuple[int, list[Line]] | None = None

    def write(self, place: int, text: str) -> None:
        self.texts[place], self._laid = text, None

    def end(self, body: Mapping[str, Any] | None) -> None:
        self.body, self._laid = body, None

    def lines(self, width: int) -> list[Line]:
        """Return the lines, laid out only after a change."""
        if self._laid is None or self._laid[0] != width:
            self._laid = (width, self._lines(width))
        return self._laid[1]

    def _lines(self, width: int) -> list[Line]:
        role = "strong" if self.asked else "dim"
        lines = spans(laid_out([(self.text, role)], max(10, width - 2)), " ")
        shown = [place for place in range(len(self.names)) if place in self.texts]
        beside = len(self.names) > 1 and width >= SIDE_BY_SIDE
        room = (width - 2) // 2 if beside else width
        columns = [self._column(place, room) for place in shown]
        if beside and len(columns) == 2:
            lines += [joined(a, b, room) for a, b in zip_longest(*columns, fillvalue=())]
        else:
            lines += [line for one in columns for line in one]
        for note in remarks(self.body) if self.body is not None else ():
            lines += [[Span(f" {row}", "dim")] for row in wrapped(f"note: {note}", max(20, width - 2))]
        return [*lines, ()]

    def _column(self, place: int, width: int) -> list[Line]:
        lines = column(
            [[Span(one_line(self.names[place], width - 6), "title")]], [(self.texts[place], "text")], width
        )
        answers = self.body["answers"] if self.body is not None else ()
        if place < len(answers):
            lines += [
                [Span(f" {row}", "dim")] for row in wrapped(footing(answers[place]), max(20, width - 2))
            ]
        return lines


class ChatLines(LineScroll):
    """The conversation, and what is being done."""

    def __init__(self) -> None:
        super().__init__(id="chat-lines")
        self.turns: list[Turn] = []
        self.doing = self.trouble = self.first = ""
        self.since = time.monotonic()

    def lines(self, width: int) -> list[Line]:
        room = max(20, width - 4)
        lines: list[Line] = [
            ruled([[Span("chat", "title")], [Span(one_line(self.first, room), "dim")]], width)
        ]
        lines += [line for turn in self.turns for line in turn.lines(width)]
        if self.doing:
            waited = duration(time.monotonic() - self.since)
            lines.append([Span(f" ◌ {one_line(self.doing, room - 24)}, {waited}", "attention"),
                          Span("   esc stops it", "dim")])  # fmt: skip
        said = [f"{' ' if number else '✗'} {row}" for number, row in enumerate(wrapped(self.trouble, room))]
        return [*lines, *([Span(f" {row}", "bad")] for row in said if self.trouble)]

    def follow(self) -> None:
        self.changed()
        self.scroll_end(animate=False, force=True)


class ChatScreen(LeftOnce, Screen[None], Shell):
    """A chat with one policy, and with the base model beside it if wanted.

    Args:
        root: Folder of the run that the policy is of.
        name: The policy as `grpo-tui chat` accepts it.
        model: Folder of the policy.
        beside: Whether to ask the base model too, from the start.
    """

    BINDINGS = bindings("chat")
    PANE = "chat"

    def __init__(self, root: Path, name: str, model: Path, *, beside: bool) -> None:
        super().__init__()
        self._root, self._policy, self._model, self._beside = root, name, model, beside
        self._chatting: Chatting | None = None
        self._busy = False
        self._kept: tuple[str, ...] = ()
        """Names of the policies of the last exchange, which can be kept."""

    def compose(self) -> ComposeResult:
        yield Header("results")
        yield ChatLines()
        yield Input(
            id="chat-input", placeholder="a prompt, or /row 3 for a row of the data; /help lists all commands"
        )
        yield Footer(self.PANE)

    def on_mount(self) -> None:
        self.query_one(Header).show(self.shell.view)
        self._entitle()
        self.set_interval(LOOK_S, self._look)
        self.query_one(Input).focus()

    def on_unmount(self) -> None:
        if self._chatting is not None:
            self._chatting.close()

    @property
    def _lines(self) -> ChatLines:
        return self.query_one(ChatLines)

    @property
    def _names(self) -> tuple[str, ...]:
        return (self._policy, BASE) if self._beside else (self._policy,)

    def _entitle(self) -> None:
        self._lines.first = " beside ".join(self._names)
        self._lines.changed()

    def _look(self) -> None:
        if self._lines.doing:
            self._lines.changed()

    def on_descendant_focus(self) -> None:
        footer = self.query_one(Footer)
        footer.parts = ("typing",) if isinstance(self.focused, Input) else ("answers",)
        footer.show(self.shell.view)

    # -- asking ----------------------------------------------------------------------------------

    @on(Input.Submitted)
    def _submitted(self) -> None:
        self.action_chat_send()

    def action_chat_send(self) -> None:
        box = self.query_one(Input)
        text = from_edit(box.value)
        if not text.strip():
            return
        if self._busy:
            self.app.notify("An answer is being written. esc stops it.")
        elif (beside := WITH.get(" ".join(text.split()))) is not None:
            box.value = ""
            if beside is not self._beside:
                self.action_chat_base()
        elif self._say(text):
            box.value = ""
            asked = not text.startswith("/") or text.startswith(("//", "/row"))
            self._lines.turns.append(Turn(text, self._names, asked=asked))
            self._begin("starting" if asked else "")

    def _say(self, line: str) -> bool:
        """Send a line, and start the chat first. Return whether it was sent."""
        from grpo_tui.ui.comparing import code_to_compare

        if self._chatting is None:
            if self.asks_consent(code_to_compare(self._root, self._model), self.action_chat_send):
                return False
            chatting = self._chatting = Chatting([self._policy, "--with", BASE, "--config", str(self._root)])

            tell = partial(self.call_later, self._told)
            ended = partial(self._told, {"event": "ended"})
            self.in_thread("chat", partial(chatting.converse, tell), ended)
            chatting.say(f"/with {'on' if self._beside else 'off'}")
        self._chatting.say(line)
        return True

    def _begin(self, doing: str) -> None:
        self._busy = True
        lines = self._lines
        lines.doing, lines.trouble, lines.since = doing, "", time.monotonic()
        lines.follow()

    def _told(self, event: Mapping[str, Any], trouble: str = "") -> None:
        """Show an event of the chat, or with `trouble` its end."""
        lines = self._lines
        turn = lines.turns[-1] if lines.turns else None
        match event["event"]:
            case "at":
                told = f"{Path(event['name']).name}: {event['what']}" if event["name"] else str(event["what"])
                lines.doing = told if lines.doing else ""
            case "text" if turn is not None:
                lines.doing = f"{Path(turn.names[event['place']]).name}: writing"
                turn.write(event["place"], event["text"])
            case "exchange" if turn is not None:
                self._ended(turn, event["body"])
            case "said" if not str(event["text"]).startswith("asking "):
                lines.turns.append(Turn(safe(event["text"]), (), asked=False))
                self._rest()
            case "failed":
                self._rest(str(event["text"]))
            case "ended":
                self._rest(trouble)
                self._chatting = None
        lines.follow()

    def _ended(self, turn: Turn, body: Mapping[str, Any]) -> None:
        turn.text = safe(str(body["prompt"]))
        for place, one in enumerate(body["answers"]):
            turn.write(place, one["text"])
        turn.end(body)
        self._kept = tuple(one["policy"] for one in body["answers"] if not one["stopped"])
        self._rest()

    def _rest(self, trouble: str = "") -> None:
        self._busy, self._lines.doing, self._lines.trouble = False, "", one_line(trouble)

    # -- actions ---------------------------------------------------------------------------------

    def action_chat_back(self) -> None:
        if self._busy:
            self.action_chat_stop()
        elif isinstance(self.focused, Input):
            self._lines.focus()
        else:
            self.dismiss(None)

    def action_chat_stop(self) -> None:
        if self._busy and self._chatting is not None:
            self._chatting.stop()
        else:
            self.app.notify("No answer is being written.")

    def action_chat_ask(self) -> None:
        self.query_one(Input).focus()

    def action_chat_new(self) -> None:
        if self._busy:
            self.app.notify("An answer is being written. esc stops it.")
            return
        if self._chatting is not None:
            self._chatting.say("/new")
        self._lines.turns.clear()
        self._kept = ()
        self._lines.follow()

    def action_chat_base(self) -> None:
        if self._busy:
            self.app.notify("An answer is being written. esc stops it.")
            return
        self._beside = not self._beside
        if self._chatting is not None:
            self._chatting.say(f"/with {'on' if self._beside else 'off'}")
        self._entitle()

    def action_chat_keep(self) -> None:
        if not self._kept or self._busy:
            self.app.notify("Nothing to keep yet.")
            return
        choices = [
            Choice(f"answer of {one_line(name, 24)}", "a case with its current scores", f"/case {place + 1}")
            for place, name in enumerate(self._kept)
        ]
        choices.append(Choice("prompt", "a probe prompt of the config", "/probe", "p"))
        self.ask(MenuDialog("keep", choices), self._say)

    def action_chat_copy(self) -> None:
        turn = next((one for one in reversed(self._lines.turns) if one.texts), None)
        if turn is None:
            self.app.notify("Nothing to copy yet.")
            return
        parts = [("prompt", turn.text), *((turn.names[at], text) for at, text in sorted(turn.texts.items()))]
        self.shell.copy("the answers", safe("\n\n".join(f"{name}:\n{text}" for name, text in parts)))

    def action_scroll(self, by: int) -> None:
        self._lines.scroll_relative(y=by, animate=False)


class Chatting(Child):
    """One `grpo-tui chat` with these words. Call `converse` in a thread, and the rest from any."""

    def __init__(self, words: Sequence[str]) -> None:
        super().__init__(["chat", *words, "--events"], "{", talks=True)
        self._waiting: list[str] = []
        self._ready = False

    def converse(self, tell: Callable[[Mapping[str, Any]], object]) -> str:
        """Start it and wait for its end. `tell` gets every event, from this thread.

        Return what went wrong as one line that is safe to show, or an empty text.
        """

        def told(line: str) -> None:
            event = read_object(line)
            if event is not None and "event" in event:
                self._begin()
                tell(event)

        done = self.run(told)
        return "" if self.cancelled() or done.code == 0 else done.trouble

    def _begin(self) -> None:
        """Send what was said before the child listened."""
        with self._lock:
            self._ready, waiting, self._waiting = True, self._waiting, []
            for line in waiting:
                self._send(line)

    def say(self, line: str) -> None:
        """Send a prompt or a command such as `/new`."""
        with self._lock:
            if self._ready:
                self._send(line)
            else:
                self._waiting.append(line)

    def _send(self, line: str) -> None:
        process = self._process
        if process is not None and process.stdin is not None:
            with contextlib.suppress(OSError, ValueError):  # it has ended, which `converse` reports
                process.stdin.write(json.dumps(line) + "\n")
                process.stdin.flush()

    def stop(self) -> None:
        """End the running answer, as ctrl+c does."""
        if self._ready:
            self._signal(signal.SIGINT)

    def close(self) -> None:
        """End it and its children."""
        with self._lock:
            self._ended.set()
        self._signal(signal.SIGTERM)
