"""Events of a run as text: commands and outcomes, checkpoints, changed settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from grpo_tui.core import probe_changes
from grpo_tui.core.commands import BESIDE, END, Command, Outcome
from grpo_tui.core.records import CheckpointSaved, SettingChanged
from grpo_tui.core.schedule import FACT, Scheduled, scheduled_from
from grpo_tui.core.stages import one_per_stage
from grpo_tui.core.text import one_line, prompt_text
from grpo_tui.present.formatting import changed, plural, setting, size
from grpo_tui.present.glyphs import state_sign
from grpo_tui.present.train_view import EventRow
from grpo_tui.store.reader import Attempt, RunReader

MOST_EVENTS = 60
MOST_COMMANDS = 5_000

DONE = {
    "pause": ("paused", ""),
    "resume": ("resumed", ""),
    "checkpoint": ("checkpoint saved", ""),
    "stop": ("stopping", ": finishes the step, saves, exits"),
    "stop_now": ("stopped immediately", ""),
    "abort_reward": ("reward call aborted", "; its rewards are None"),
    "evaluate": ("evaluated", ""),
    "tokens": ("tokens scored", ""),
    "undo": ("change taken back", ""),
    "reload": ("rewards reloaded", ""),
    END: ("stage ended", ""),
}
"""What was done, and text after the name of who did it."""
ASKED = {
    "pause": "pause requested",
    "resume": "resume requested",
    "checkpoint": "checkpoint requested",
    "stop": "stop requested",
    "stop_now": "stop now requested",
    "abort_reward": "abort of the reward call requested",
    "sample": "sample requested",
    "evaluate": "evaluation requested",
    "tokens": "tokens requested",
    "set": "change requested",
    "undo": "undo requested",
    "reload": "reload of the rewards requested",
    END: "end of the stage requested",
}


def event_rows(
    commands: Iterable[tuple[Command, Outcome | None]],
    settings: Sequence[SettingChanged],
    checkpoints: Sequence[CheckpointSaved],
    attempts: Sequence[Attempt],
    *,
    live: bool,
    schedule: Iterable[Scheduled] = (),
    most: int | None = MOST_EVENTS,
) -> tuple[EventRow, ...]:
    """Return all events, newest first, at most `most`."""
    rows = [setting_row(change) for change in one_per_stage(settings)]
    rows += [scheduled_row(one, live=live) for one in schedule]
    newest = max(checkpoints, key=lambda saved: saved.at, default=None)
    rows += [_checkpoint_row(saved, saving=live and saved is newest) for saved in checkpoints]
    rows += [_attempt_row(a) for a in attempts if a.resumed_from is not None]
    told = {("undo" if change.undoes else "set", change.step) for change in settings} | {
        ("checkpoint", saved.step) for saved in checkpoints
    }
    for command, outcome in commands:
        # An applied change or checkpoint already has a better row of its own.
        if outcome is not None and outcome.applied:
            planned = command.kind == "set" and "schedule" in command.args
            if planned or (command.kind, outcome.step) in told:
                continue
        rows.append(command_row(command, outcome, live=live))
    return tuple(sorted(rows, key=lambda row: row.at, reverse=True)[:most])


def whole_history(reader: RunReader, *, live: bool) -> tuple[EventRow, ...]:
    """Return all events including how each attempt ended, newest first."""
    attempts = reader.attempts()
    rows = event_rows(
        reader.commands(MOST_COMMANDS),
        reader.settings(),
        reader.checkpoints(),
        attempts,
        live=live,
        schedule=scheduled_from(reader.fact(FACT)),
        most=None,
    )
    ends = [_end_row(attempt) for attempt in attempts if attempt.ended_at]
    return tuple(sorted((*rows, *ends), key=lambda row: row.at, reverse=True))


def alert_rows(alerts: Iterable[Mapping[str, Any]], step: int, now: float) -> tuple[EventRow, ...]:
    """Return current alerts as events."""
    return tuple(
        EventRow(now, step, "⚠", "attention", one_line(str(alert["message"]), 400)) for alert in alerts
    )


def _end_row(attempt: Attempt) -> EventRow:
    state = attempt.state or "ended"
    sign, role = state_sign(state)
    cause = (attempt.error or {}).get("cause") or (attempt.error or {}).get("message")
    why = f": {one_line(str(cause), 400)}" if cause else ""
    return EventRow(attempt.ended_at or 0.0, attempt.step, sign, role, f"{state}{why}")


def command_row(command: Command, outcome: Outcome | None, *, live: bool = True) -> EventRow:
    """Return a command and its outcome as an event."""
    kind = command.kind
    if outcome is None:
        waits = f"waits for {_awaited(command)}" if live else "not carried out: the run has ended"
        sign, role = ("…", "accent") if live else ("✗", "dim")
        return EventRow(command.at, None, sign, role, f"{_asked(command)}; {waits}")
    at = outcome.at or command.at
    if not outcome.applied:
        name = ASKED.get(kind, one_line(kind)).removesuffix(" requested")
        reason = one_line(outcome.reason, 200) or "no reason was given"
        return EventRow(at, outcome.step, "✗", "bad", f"{name} rejected: {reason}")
    text, more = DONE.get(kind, (one_line(kind), ""))
    if kind == "set":
        text = f"set {_settings(command)}"
    elif kind == "sample":
        text = f"sampled {plural(len(sampled_texts(outcome)), 'completion')} of {_quoted(command)}"
    elif kind == "evaluate":
        more = f": {one_line(outcome.reason, 200)}"
    elif kind == "undo" and outcome.reason:
        text = f"undone: {one_line(outcome.reason, 200)},"
    because = one_line(str(command.args.get("because") or ""), 200)
    why = f" ({because})" if because else ""
    return EventRow(at, outcome.step, "✓", "good", f"{text} by {one_line(command.by, 20)}{why}{more}")


def sampled_texts(outcome: Outcome) -> tuple[str, ...]:
    """Return the texts that a `sample` command produced."""
    found = outcome.result.get("completions") or outcome.result.get("samples") or []
    if isinstance(found, str):
        found = [found]
    texts = []
    for item in found:
        if isinstance(item, dict):
            item = item.get("text", item.get("completion", item.get("content", "")))
        if isinstance(item, list) and item and isinstance(item[-1], dict):
            item = item[-1].get("content", "")
        texts.append(str(item))
    return tuple(texts)


def _asked(command: Command) -> str:
    text = ASKED.get(command.kind, one_line(command.kind))
    if command.kind == "set":
        return f"{text}: {_settings(command)}"
    return text


def _awaited(command: Command) -> str:
    if command.kind == "reload":
        return "the next generation"
    if command.kind != "set":
        return "the end of the step"
    from grpo_tui.config.live_settings import waiting  # loads the config layer, which few views need

    return "the next generation" if waiting(command.args) else "the end of the step"


def changes_words(changes: Mapping[str, Any]) -> str:
    """Return settings and their values as one line."""
    return ", ".join(
        f"{one_line(name, 40)} {one_line(setting(value), 40)}" for name, value in changes.items()
    )


def planned_words(one: Scheduled) -> str:
    """Return a scheduled change and its step."""
    return f"{changes_words(one.changes)} at step {one.step:,}"


def _settings(command: Command) -> str:
    at_once = {name: value for name, value in command.args.items() if name not in BESIDE}
    planned = command.args.get("schedule")
    later = [
        f"{changes_words(changes)} at step {one_line(step, 9)}"
        for step, changes in (planned.items() if isinstance(planned, Mapping) else ())
        if isinstance(changes, Mapping)
    ]
    return ", ".join([*([changes_words(at_once)] if at_once else ()), *later])


def scheduled_row(one: Scheduled, *, live: bool) -> EventRow:
    """Return a scheduled change as an event: asked for while it waits, else how it was decided."""
    why = f" ({one_line(one.because, 200)})" if one.because else ""
    text = f"{planned_words(one)}, scheduled by {one_line(one.by, 20)}{why}"
    if one.state == "rejected":
        return EventRow(
            one.decided_at, one.step, "✗", "bad", f"{text}; rejected: {one_line(one.reason, 200)}"
        )
    if one.state == "canceled":
        return EventRow(one.decided_at, None, "✗", "dim", f"{text}; canceled")
    if one.state == "applied":
        return EventRow(one.asked_at, None, "✓", "good", text)
    waits = f"waits for step {one.step:,}" if live else "the run ended before"
    return EventRow(one.asked_at, None, *(("…", "accent") if live else ("✗", "dim")), f"{text}; {waits}")


def _quoted(command: Command) -> str:
    prompt = command.args.get("prompt", "")
    return f"“{one_line(prompt_text(prompt), 40)}”"


def setting_row(change: SettingChanged) -> EventRow:
    """Return a changed setting as an event, with who changed it and why."""
    old, new = one_line(setting(change.old), 40), one_line(setting(change.new), 40)
    done = "undone" if change.undoes else "set"
    why = f" ({one_line(change.because, 200)})" if change.because else ""
    what = f"{one_line(change.name, 40)} {old} → {new}"
    if change.name == probe_changes.NAME:
        what = one_line(changed(change.name, change.old, change.new), 200)
    text = f"{what}, {done} by {one_line(change.by, 20)}{why}"
    return EventRow(change.at, change.step, "▴", "accent", text)


def _checkpoint_row(saved: CheckpointSaved, *, saving: bool) -> EventRow:
    if not saved.complete and saving:
        return EventRow(saved.at, saved.step, "◌", "dim", f"saving checkpoint-{saved.step}")
    if not saved.complete:
        return EventRow(saved.at, saved.step, "⚠", "attention", f"checkpoint-{saved.step} is not complete")
    weight = f", {size(saved.size_bytes)}" if saved.size_bytes else ""
    asked = ", requested by you" if saved.requested else ""
    return EventRow(saved.at, saved.step, "◆", "good", f"checkpoint-{saved.step} saved{weight}{asked}")


def _attempt_row(attempt: Attempt) -> EventRow:
    text = f"started again from checkpoint-{attempt.resumed_from}"
    return EventRow(attempt.started_at, attempt.resumed_from, "▶", "accent", text)
