"""Commands that steer a run: submit, wait, report the outcome.

Exit codes: 0 applied, 3 rejected (reason on stderr), 4 timed out.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from grpo_tui.cli.errors import OK, REFUSED, TIMED_OUT, USAGE, CommandError
from grpo_tui.cli.look import run_folder
from grpo_tui.cli.plain import print_json
from grpo_tui.config.live_settings import at_step, probe_change, waiting
from grpo_tui.core import probe_changes
from grpo_tui.core.commands import Outcome
from grpo_tui.core.schedule import FACT, Scheduled, scheduled_from, waiting_in
from grpo_tui.core.stages import one_per_stage
from grpo_tui.core.text import safe
from grpo_tui.present.charts import way_on
from grpo_tui.present.events import scheduled_row, setting_row
from grpo_tui.store.layout import RunFolder, is_known
from grpo_tui.store.mailbox import Mailbox
from grpo_tui.store.reader import RunReader
from grpo_tui.store.status import Status, is_live, read_status


def steer(parsed: Any) -> int:
    """Send one command to a run and wait for its outcome."""
    root = run_folder(parsed.run)
    if parsed.command == "set" and parsed.history:
        return _history(parsed, root)
    kind, args = _command(parsed)
    return send(root, kind, args, parsed.wait, as_json=parsed.json)


def send(root: Path, kind: str, args: dict[str, Any], wait_s: float, *, as_json: bool) -> int:
    """Send a command to a run, wait for its outcome, and print it."""
    look = read_status(root)
    if not look.live:
        raise CommandError(_gone(kind, root, look), REFUSED)
    mailbox = Mailbox(RunFolder(root).commands)
    try:
        command = mailbox.submit(kind, args)
    except OSError as error:
        why = f"{root}: cannot write a command here: {error.strerror}{_by_signal(kind, root, look)}"
        raise CommandError(why, REFUSED) from error
    outcome = mailbox.wait(command, wait_s)
    if outcome is None:
        print(
            f"grpo-tui: no outcome within {wait_s:g} s. The command is still waiting; the run is in "
            f"phase {read_status(root).phase}{_waits_for(args)}",
            file=sys.stderr,
        )
        return TIMED_OUT
    return _report(kind, outcome, as_json=as_json)


def _history(parsed: Any, root: Path) -> int:
    """Print the changes of settings, oldest first. The run may have ended."""
    if parsed.changes or parsed.undo is not None:
        raise CommandError("--history takes no setting and no --undo", USAGE)
    with closing(RunReader(RunFolder(root).database)) as reader:
        changes, scheduled = reader.settings(), scheduled_from(reader.fact(FACT))
    waiting = waiting_in(scheduled)
    if parsed.json:
        print_json([*map(asdict, changes), *map(_coming, waiting)], ascii_only=True)
        return OK
    rows = [(one.step, one.at, setting_row(one).text) for one in one_per_stage(changes)]
    never = [one for one in scheduled if one.state in ("canceled", "rejected")]
    rows += [(one.step, one.decided_at, scheduled_row(one, live=False).text) for one in never]
    rows.sort(key=lambda row: row[1])
    rows += [(one.step, one.asked_at, scheduled_row(one, live=is_live(root)).text) for one in waiting]
    for step, at, text in rows:
        print(f"step {step:<6,} {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(at))}  {text}")
    if not rows:
        print("no setting was changed")
    return OK


def _coming(one: Scheduled) -> dict[str, Any]:
    """Return a change that waits for its step as JSON data."""
    about = {"step": one.step, "changes": one.changes, "at": one.asked_at, "by": one.by}
    return about | {"because": one.because, "waiting": True}


def _by_signal(kind: str, root: Path, look: Status) -> str:
    """Return how to end a run by signal when no command can be written, as on a full disk.

    Only for a run that this user started: another folder's files could name any pid.
    """
    if kind not in ("stop", "stop_now") or not look.ranks or not is_known(root):
        return ""
    pid = look.ranks[0].pid
    return f"\nTo save and stop it anyway: `kill {pid}`. To end it at once: `kill -9 {pid}`"


def _command(parsed: Any) -> tuple[str, dict[str, Any]]:
    if parsed.command == "stop":
        return ("stop_now" if parsed.now else "stop"), {}
    if parsed.command == "set":
        return _change(parsed)
    if parsed.command == "sample":
        if parsed.prompt is not None and not is_text(parsed.prompt):
            raise CommandError("the prompt is not valid UTF-8")
        args = {"prompt": parsed.prompt, "count": parsed.count, "temperature": parsed.temperature}
        return "sample", {key: value for key, value in args.items() if value is not None}
    return parsed.command.replace("-", "_"), {}


def _waits_for(args: Mapping[str, Any]) -> str:
    """Return what a change waits for besides the end of the step, empty for other commands."""
    late = ["the rewards"] if "files" in args else waiting(args)
    return f". {', '.join(late)}: applied when the next step generates" if late else ""


def _change(parsed: Any) -> tuple[str, dict[str, Any]]:
    """Return the arguments of `set`: settings, or the number of changes to undo."""
    if parsed.because is not None and not is_text(parsed.because):
        raise CommandError("the reason is not valid UTF-8")
    beside = {"because": parsed.because} if parsed.because else {}
    if parsed.undo is None:
        if not parsed.changes:
            raise CommandError("Give a setting as name=value, or --undo to take the last change back", USAGE)
        given = _arguments([_assignment(text) for text in parsed.changes])
        return "set", given | beside | ({"yes": True} if parsed.yes else {})
    if parsed.changes:
        raise CommandError("--undo takes no setting. To take 2 changes back, write --undo=2", USAGE)
    return "undo", {"count": parsed.undo} | beside


def is_text(typed: str) -> bool:
    """Return whether the text is free of surrogates, which Python makes of undecodable bytes."""
    try:
        typed.encode()
    except UnicodeEncodeError:
        return False
    return True


def _arguments(given: list[tuple[str, Any, int | None]]) -> dict[str, Any]:
    """Return settings as arguments of `set`: those without a step, and `schedule` for the others."""
    steps = sorted({step for _, _, step in given if step is not None})
    args, *later = (
        _once(_probes_together([(name, value) for name, value, at in given if at == step]))
        for step in (None, *steps)
    )
    schedule = {str(step): changes for step, changes in zip(steps, later, strict=True)}
    return args | ({"schedule": schedule} if schedule else {})


def _probes_together(given: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Return the settings with all added and removed probe prompts as one change."""
    changes: dict[str, list[str]] = {}
    for _, change in (pair for pair in given if _is_probe_change(pair)):
        for key, texts in change.items():
            changes.setdefault(key, []).extend(texts)
    others = [pair for pair in given if not _is_probe_change(pair)]
    return others + ([(probe_changes.NAME, changes)] if changes else [])


def _is_probe_change(pair: tuple[str, Any]) -> bool:
    return pair[0] == probe_changes.NAME and isinstance(pair[1], dict)


def _assignment(text: str) -> tuple[str, Any, int | None]:
    if (change := probe_change(text)) is not None:
        return change
    name, equals, typed = text.partition("=")
    if not equals or not name:
        raise CommandError(f"{text!r}: write it as name=value, such as learning_rate=2e-4", USAGE)
    try:
        value, step = at_step(typed)
    except ValueError as error:
        raise CommandError(f"{name}: {error}", USAGE) from None
    try:
        return name, json.loads(value, object_pairs_hook=_once), step
    except ValueError:
        return name, value, step


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs as a dict and reject duplicate names."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise CommandError(f"{twice} is given twice. Keep one of the values", USAGE)
    return found


def _gone(kind: str, root: Path, look: Status) -> str:
    if kind == "resume":
        return f"the run is {look.state}, not paused. {way_on(look, str(root))}"
    return f"the run is {look.state}: nothing is left to {kind.replace('_', ' ')}"


def _report(kind: str, outcome: Outcome, *, as_json: bool) -> int:
    if as_json:
        body = {name: getattr(outcome, name) for name in ("applied", "step", "reason", "result")}
        print_json(body, ascii_only=True)
    elif not outcome.applied:
        print(
            f"grpo-tui: {kind.replace('_', ' ')} rejected at step {outcome.step}: {safe(outcome.reason)}",
            file=sys.stderr,
        )
    elif kind == "sample":
        if before := outcome.result.get("before"):
            print(f"asked after {safe(before)} of training")
        for completion in outcome.result.get("completions", []):
            cut = ", truncated" if completion["truncated"] else ""
            print(f"--- {completion['tokens']} tokens{cut}\n{safe(completion['text'])}")
    else:
        reason = f": {safe(outcome.reason)}" if outcome.reason else ""
        done = "scheduled" if set(outcome.result) == {"scheduled"} else "applied"
        print(f"{kind.replace('_', ' ')} {done} at step {outcome.step}{reason}")
    return OK if outcome.applied else REFUSED
