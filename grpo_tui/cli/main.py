"""Entry point: run the command and report errors in one or two lines on stderr."""

from __future__ import annotations

import errno
import io
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grpo_tui.cli.errors import OK, REFUSED, USAGE, CommandError
from grpo_tui.cli.parser import build_parser, joined
from grpo_tui.cli.plain import complain, drop_output, guard_terminals, has_screen, open_standard_streams
from grpo_tui.core.text import one_line, safe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grpo_tui.rewards.consent import Code


def main(arguments: list[str] | None = None) -> int:
    """Run `grpo-tui` and return its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    open_standard_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # show `?` on a terminal without UTF-8 instead of failing
    guard_terminals()
    try:
        implied = _with_implied_command(words)
        parser = build_parser(
            implied[0] if implied else "runs", with_faults="demo" in words, with_open=implied != words
        )
        parsed = parser.parse_args(joined(implied))
        if getattr(parsed, "trust", False):
            from grpo_tui.rewards.consent import trust_all

            trust_all()
        return _dispatch(parsed)
    except CommandError as error:
        complain(safe(str(error)))
        return error.code
    except BrokenPipeError:
        drop_output()
        return OK
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        from grpo_tui.rewards.consent import ConsentError
        from grpo_tui.store.connection import RunDatabaseError

        if isinstance(error, ConsentError):
            complain(_asking(error.codes))
            return REFUSED
        if isinstance(error, RunDatabaseError):
            complain(safe(str(error)))
            return USAGE
        if "--debug" in words:
            raise
        complain(_sentence(error, words))
        return USAGE


def _asking(codes: Sequence[Code]) -> str:
    """Return the message that lists code to run and asks for consent."""
    from grpo_tui.rewards.consent import lines

    listed = "\n".join(("this would run code that you did not write", *lines(codes)))
    return (
        f"{listed}\nNone of it was run. Read it first. --trust runs it, and asks again only after it changes"
    )


def _wrong_types(words: Sequence[str]) -> str | None:
    """Return an error in the record of a run among the arguments, which may explain why a command failed."""
    databases = [path for word in words if os.path.isfile(path := os.path.join(word, "run.db"))]
    if not databases:
        return None
    from grpo_tui.store.reader import wrong_types

    return next((safe(found) for path in databases if (found := wrong_types(Path(path)))), None)


def _sentence(error: Exception, words: Sequence[str]) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        name = one_line(str(error.filename), 60)
        if error.errno == errno.ENAMETOOLONG:
            return f"{name}: the name is too long for this file system; choose a shorter one"
        return f"{name}: {error.strerror}"
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
        return f"the output cannot be written: {error.strerror}"
    if isinstance(error, EOFError):
        from grpo_tui.core.user_code import cut_short

        if incomplete := cut_short(error):
            return incomplete
    if not isinstance(error, OSError) and (found := _wrong_types(words)) is not None:
        return found
    message = str(error).splitlines()[0] if str(error) else "no message"
    return f"{type(error).__name__}: {safe(message)} (--debug shows where)"


COMMANDS = (
    "demo", "train", "attach", "runs", "status", "replay",
    "pause", "resume", "checkpoint", "stop", "abort-reward", "set", "reload", "sample", "evaluate",
    "check", "score", "baseline", "probe", "cases", "rewards", "new", "config", "metrics", "log",
    "completions", "course", "prompts", "doctor", "tokens", "whatif", "data", "export", "plan", "gpus",
    "compare", "chat", "seeds", "race", "checkpoints", "merge", "push", "card", "report", "reproduce",
)  # fmt: skip


def _with_implied_command(words: list[str]) -> list[str]:
    """Insert the implied command: `attach` for a run folder, `open` for a config. `help` becomes `--help`."""
    plain = [word for word in words if not word.startswith("-")]
    if not plain or plain[0] in COMMANDS:
        return words
    if plain[0] == "help":
        return [word for word in words if word != "help"] + ["--help"]
    target = Path(plain[0])
    position = words.index(plain[0])
    if target.is_dir():
        return [*words[:position], "attach", *words[position:]]
    if target.suffix in (".yaml", ".yml"):
        return [*words[:position], "open", *words[position:]]
    raise CommandError(_no_command(plain[0], target), USAGE)


EVERY = "`grpo-tui --help` lists the commands"


def _no_command(word: str, target: Path) -> str:
    import difflib

    shown = one_line(word, 60)
    if target.suffix == ".py" or ".py:" in word:
        return (
            f"unknown command: {shown}. To open rewards: `grpo-tui rewards {shown}`. To score them: "
            f"`grpo-tui score {shown}`"
        )
    if target.is_file():
        return f"cannot open {shown}: a config is a YAML file, and a run is a folder. See `grpo-tui --help`"
    if "/" in word:
        return f"no such run: {shown}. `grpo-tui runs` lists the runs it can find"
    near = difflib.get_close_matches(word, COMMANDS, 2, 0.65)
    meant = f"Did you mean {' or '.join(near)}? See `grpo-tui --help`" if near else EVERY
    return f"unknown command or run: {shown}. {meant}"


ELSEWHERE = {
    "demo": "start", "train": "start", "open": "start:open_config", "attach": "look",
    "status": "look", "course": "completions:show_course", "whatif": "what_if:show_what_if",
    "plan": "plan:plan_config", "prompts": "doctor", "baseline": "rewards", "probe": "rewards:probe_rewards",
    "cases": "rewards:run_cases", "seeds": "seeds:show_seeds", "card": "card:show_card",
    "report": "card:show_report",
    **dict.fromkeys(("pause", "resume", "checkpoint", "stop", "abort-reward", "set", "sample", "evaluate"),
                    "steer:steer"),
}  # fmt: skip
"""Module and function of the commands that are not in a module and function of their name."""


def _dispatch(parsed: Any) -> int:
    """Run the function of a command, whose module is imported only now."""
    if parsed.command is None and has_screen("the list of runs"):
        from grpo_tui.cli.screen import show

        return show(None)
    command = parsed.command or "runs"
    module, _, name = ELSEWHERE.get(command, command).partition(":")
    return int(getattr(import_module(f"grpo_tui.cli.{module}"), name or command)(parsed))
