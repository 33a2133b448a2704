"""`grpo-tui chat`: chat with policies in a terminal, through a pipe, or for the chat screen."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

from grpo_tui.cli.compare import INTERRUPTED, policy_named, run_of
from grpo_tui.cli.errors import OK, CommandError, reported
from grpo_tui.cli.plain import (
    complain,
    handling,
    leaving_by_exit,
    print_json,
    print_text,
    show_progress,
    terminal_width,
)
from grpo_tui.cli.score import wanted_config
from grpo_tui.core.exchange import finite_json
from grpo_tui.core.text import one_line, safe, wrapped
from grpo_tui.present.chat_text import footing, remarks
from grpo_tui.rewards.cases import CaseFileError
from grpo_tui.rewards.generating import GenerateError
from grpo_tui.rewards.lab import Lab
from grpo_tui.ship.chat import Chat, Exchange, KeepError, live_run
from grpo_tui.ship.policies import PolicyError

HELP = (
    "/new           begin a new conversation",
    "/row N         ask the prompt of training row N, with its reference answer",
    "/seed S        seed of the next answers",
    "/with on|off   turn the second model on or off",
    "/case [2]      keep the answer of the first or second model as a case",
    "/probe         add the prompt to the probe prompts of the config file",
    "//             begin a prompt with a slash",
)
KEYS = "ctrl+c stops an answer, ctrl+d ends the chat"
FAILURES = (GenerateError, KeepError, CaseFileError, CommandError)


def chat(parsed: Any) -> int:
    """`grpo-tui chat POLICY [--with POLICY]`."""
    words = [parsed.policy, *([] if parsed.beside is None else [parsed.beside])]
    source = parsed.config or run_of(words)
    if source is None:
        raise CommandError(
            "Name a config or a run with --config: prompts, rewards and sampling settings come from there"
        )
    config = wanted_config([str(source)], parsed.overrides, None)
    with reported(PolicyError):
        policies = [live_run(word) or policy_named(word, config) for word in words]
    typed = sys.stdin.isatty() and sys.stdout.isatty() and parsed.prompt is None and not parsed.json
    out = _Events() if parsed.events else _Json() if parsed.json else _Plain()
    with (
        leaving_by_exit(),  # so that no child process stays behind
        Lab(limit_s=parsed.timeout) as lab,
        Chat(lab, config, policies, parsed.seed, out.tell) as talk,
    ):
        if parsed.events or typed:
            if parsed.events:
                out.tell("", "ready")
            _converse(talk, out, _sent() if parsed.events else _typed(talk))
            return OK
        try:
            with reported(GenerateError):
                for line in _prompts(parsed.prompt):
                    talk.new()
                    out.show(talk, talk.ask(line, out.begin(talk)))
        except KeyboardInterrupt:
            show_progress("")
            complain("interrupted")
            return INTERRUPTED
    return OK


def _prompts(text: str | None) -> Iterator[str]:
    if text is not None:
        yield text
        return
    for line in sys.stdin:
        if line.strip():
            yield line.rstrip("\n")


def _typed(talk: Chat) -> Iterator[str]:
    """Yield the lines typed at a terminal."""
    import readline  # noqa: F401 - gives `input` its editing and history

    print_text([f"{' and '.join(talk.names)}, seed {talk.seed}. /help lists the commands, ctrl+d ends."])
    while True:
        try:
            line = input("> ")
        except EOFError:
            print()
            return
        except KeyboardInterrupt:
            print("\nctrl+d ends the chat")
            continue
        if line.strip():
            yield line


def _sent() -> Iterator[str]:
    """Yield the lines of the screen, each a JSON string. It may stop an answer that has just ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while line := sys.stdin.readline():
        yield str(json.loads(line))


def _converse(talk: Chat, out: _Plain, lines: Iterator[str]) -> None:
    """Answer lines until they end. SIGINT stops the running answer only."""
    for line in lines:
        talk.go_on()
        with handling(signal.SIGINT, talk.stop):
            try:
                _answer(talk, out, line)
            except FAILURES as error:
                out.failed(str(error))


def _answer(talk: Chat, out: _Plain, line: str) -> None:
    word, _, rest = line.partition(" ")
    rest = rest.strip()
    if not line.startswith("/") or line.startswith("//"):
        out.show(talk, talk.ask(line.removeprefix("/") if line.startswith("//") else line, out.begin(talk)))
    elif word == "/row":
        number = _number(rest, "/row takes the number of a training row, such as /row 3")
        if number < 1:
            raise CommandError("/row: rows are numbered from 1")
        out.show(talk, talk.ask_row(number, out.begin(talk)))
    elif word == "/new":
        talk.new()
        out.said("new conversation")
    elif word == "/seed":
        talk.seed = _number(rest, "/seed takes a number, such as /seed 7")
        out.said(f"seed {talk.seed}")
    elif word == "/with" and rest in ("on", "off") and len(talk.names) > 1:
        talk.asked = 2 if rest == "on" else 1
        out.said(f"asking {' and '.join(talk.names[: talk.asked])}")
    elif word == "/case":
        place = _number(rest or "1", "/case takes 1 or 2, for the first or second model") - 1
        file, name = talk.keep_case(place)
        out.said(f"kept as the case “{name}” in {file}")
    elif word == "/probe":
        out.said(f"added to the probe prompts of {talk.keep_probe()}")
    elif word == "/with":
        one = len(talk.names) == 1
        raise CommandError("--with POLICY names a second model" if one else "/with takes on or off")
    elif word == "/help":
        out.said("\n".join(HELP if isinstance(out, _Events) else (*HELP, KEYS)))
    else:
        raise CommandError(f"unknown command {one_line(word, 40)}. /help lists the commands")


def _number(text: str, otherwise: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise CommandError(otherwise) from None


class _Plain:
    """Prints answers as they come."""

    def tell(self, name: str, what: str) -> None:
        """Show what a policy is doing."""
        show_progress(f"{name}: {what}" if name else what)

    def begin(self, talk: Chat) -> Callable[[int, str], None]:
        """Return what prints the answers of one exchange."""
        at, printed = -1, ""

        def take(place: int, text: str) -> None:
            nonlocal at, printed
            if place != at:
                show_progress("")
                print(f"{'' if at < 0 else chr(10)}--- {one_line(talk.names[place])}")
                at, printed = place, ""
            if not text.startswith(printed):  # what was printed has changed, so print it again
                print()
                printed = ""
            print(text[len(printed) :], end="", flush=True)
            printed = text

        return take

    def show(self, talk: Chat, found: Exchange) -> None:
        """Print figures and rewards below the answers."""
        show_progress("")
        body = found.to_json()
        print()
        for one in body["answers"]:
            name = f"{one_line(one['policy'])}: " if len(body["answers"]) > 1 else ""
            print_text(wrapped(f"[{name}{footing(one)}]", terminal_width()))
        print_text(row for note in remarks(body) for row in wrapped(f"note: {note}", terminal_width()))
        print(flush=True)

    def said(self, text: str) -> None:
        """Print what a command did."""
        print(safe(text))

    def failed(self, text: str) -> None:
        """Print an error and go on."""
        show_progress("")
        complain(safe(text))


class _Json(_Plain):
    """Prints one JSON object per exchange."""

    def begin(self, talk: Chat) -> Callable[[int, str], None]:
        """Return what ignores unfinished answers."""
        return lambda place, text: None

    def show(self, talk: Chat, found: Exchange) -> None:
        """Print the exchange."""
        show_progress("")
        print_json(found.to_json())
        sys.stdout.flush()


class _Events(_Plain):
    """Prints a JSON object for everything that happens, for the screen."""

    def tell(self, name: str, what: str) -> None:
        """Send what a policy is doing."""
        self._send("at", name=name, what=what)

    def begin(self, talk: Chat) -> Callable[[int, str], None]:
        """Return what sends unfinished answers."""
        return lambda place, text: self._send("text", place=place, text=text)

    def show(self, talk: Chat, found: Exchange) -> None:
        """Send the exchange."""
        self._send("exchange", body=found.to_json())

    def said(self, text: str) -> None:
        """Send what a command did."""
        self._send("said", text=text)

    def failed(self, text: str) -> None:
        """Send an error."""
        self._send("failed", text=text)

    def _send(self, event: str, **body: Any) -> None:
        print(json.dumps(finite_json({"event": event, **body}), default=str), flush=True)
