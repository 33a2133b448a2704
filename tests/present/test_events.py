"""What happened to a run, told with its moment, its step and the words for every kind and outcome."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grpo_tui.core import records as r
from grpo_tui.core.commands import Command, Outcome
from grpo_tui.core.schedule import Scheduled
from grpo_tui.present.events import (
    alert_rows,
    command_row,
    event_rows,
    sampled_texts,
    scheduled_row,
    whole_history,
)
from grpo_tui.present.train_view import EventRow
from grpo_tui.store.connection import open_writer
from grpo_tui.store.reader import Attempt, RunReader
from grpo_tui.store.writer import Writer

DONE = Outcome(True, 7, "", {}, 22.0)
REFUSED = replace(DONE, applied=False, reason="not now")


def asked(kind: str, **args: Any) -> Command:
    return Command("1", kind, args, 11.0, "ana")


@pytest.mark.parametrize(
    ("command", "outcome", "live", "row"),
    [
        (asked("pause"), DONE, True, EventRow(22.0, 7, "✓", "good", "paused by ana")),
        (asked("stop"), DONE, True,
         EventRow(22.0, 7, "✓", "good", "stopping by ana: finishes the step, saves, exits")),
        (asked("abort_reward"), DONE, True,
         EventRow(22.0, 7, "✓", "good", "reward call aborted by ana; its rewards are None")),
        (asked("stop_now"), replace(DONE, at=0.0), True,
         EventRow(11.0, 7, "✓", "good", "stopped immediately by ana")),
        (asked("set", temperature=0.5, reward_weights=[2.0, 1.0]), DONE, True,
         EventRow(22.0, 7, "✓", "good", "set temperature 0.5, reward_weights 2 1 by ana")),
        (asked("sample", prompt="What is\n1?"), replace(DONE, result={"completions": ["a", "b"]}), True,
         EventRow(22.0, 7, "✓", "good", "sampled 2 completions of “What is⏎1?” by ana")),
        (asked("odd"), DONE, True, EventRow(22.0, 7, "✓", "good", "odd by ana")),
        (asked("checkpoint"), REFUSED, True,
         EventRow(22.0, 7, "✗", "bad", "checkpoint rejected: not now")),
        (asked("abort_reward"), replace(REFUSED, reason=""), True,
         EventRow(22.0, 7, "✗", "bad", "abort of the reward call rejected: no reason was given")),
        (asked("resume"), None, True,
         EventRow(11.0, None, "…", "accent", "resume requested; waits for the end of the step")),
        (asked("set", temperature=0.5, yes=True, because="hot"), None, True,
         EventRow(11.0, None, "…", "accent",
                  "change requested: temperature 0.5; waits for the next generation")),
        (asked("set", **{"reward_weights.tagged": 1.0}), None, True,
         EventRow(11.0, None, "…", "accent",
                  "change requested: reward_weights.tagged 1; waits for the next generation")),
        (asked("set", temperature=0.5), None, False,
         EventRow(11.0, None, "✗", "dim",
                  "change requested: temperature 0.5; not carried out: the run has ended")),
    ],
)  # fmt: skip
def test_a_command_is_told_with_what_became_of_it(
    command: Command, outcome: Outcome | None, live: bool, row: EventRow
) -> None:
    assert command_row(command, outcome, live=live) == row


SETTING = r.SettingChanged(1, 3, 30.0, "temperature", 0.9, 0.5, "ben")
SAVED = r.CheckpointSaved(1, 4, "/run/checkpoint-4", 40.0, True, True, 3_200_000)
STARTED = Attempt(2, 50.0, "here", 9, 4, 20, None, None, None, None, None)


def test_what_happened_stands_newest_first_and_nothing_twice() -> None:
    told = [
        (asked("set", temperature=0.5), replace(DONE, step=3, at=31.0)),
        (asked("set", temperature=0.7), replace(REFUSED, step=3, at=32.0)),
        (asked("checkpoint"), replace(DONE, step=4, at=41.0)),
        (asked("checkpoint"), replace(DONE, step=5, at=60.0)),
        (asked("pause"), None),
        (asked("undo"), replace(DONE, step=9, at=91.0)),
    ]
    undone = replace(SETTING, step=9, at=90.0, old=0.5, new=0.9, because="no use", undoes=1)
    first = replace(STARTED, attempt=1, resumed_from=None, started_at=1.0)
    partial = replace(SAVED, step=6, at=70.0, complete=False)
    plain = replace(SAVED, step=8, at=80.0, requested=False, size_bytes=0)
    rows = event_rows(told, [SETTING, undone], [SAVED, partial, plain], [first, STARTED], live=True)
    assert rows == (
        EventRow(90.0, 9, "▴", "accent", "temperature 0.5 → 0.9, undone by ben (no use)"),
        EventRow(80.0, 8, "◆", "good", "checkpoint-8 saved"),
        EventRow(70.0, 6, "⚠", "attention", "checkpoint-6 is not complete"),
        EventRow(60.0, 5, "✓", "good", "checkpoint saved by ana"),
        EventRow(50.0, 4, "▶", "accent", "started again from checkpoint-4"),
        EventRow(40.0, 4, "◆", "good", "checkpoint-4 saved, 3.2 MB, requested by you"),
        EventRow(32.0, 3, "✗", "bad", "change rejected: not now"),
        EventRow(30.0, 3, "▴", "accent", "temperature 0.9 → 0.5, set by ben"),
        EventRow(11.0, None, "…", "accent", "pause requested; waits for the end of the step"),
    )
    assert event_rows(told[:-1], [SETTING], [SAVED], [STARTED], live=True, most=2) == rows[3:5]


def test_a_scheduled_change_is_told_once_with_what_became_of_it() -> None:
    asked = Command("1", "set", {"schedule": {"90": {"beta": 0.04}}}, at=5.0)
    done = Outcome(True, 57, "beta 0.04 waits for step 90", at=6.0)
    one = Scheduled(90, {"beta": 0.04}, 6.0, "you", "a plan")
    known = {
        "…": (one, True, "waits for step 90"),
        "✗": (one, False, "the run ended before"),
    }
    for sign, (planned, live, end) in known.items():
        (row,) = event_rows([(asked, done)], [], [], [], live=live, schedule=[planned])
        assert (row.sign, row.text) == (sign, f"beta 0.04 at step 90, scheduled by you (a plan); {end}")
    rejected = replace(one, state="rejected", decided_at=9.0, reason="no reference")
    assert scheduled_row(rejected, live=True).text.endswith("; rejected: no reference")
    assert scheduled_row(replace(one, state="canceled", decided_at=9.0), live=True).text.endswith(
        "; canceled"
    )
    assert scheduled_row(replace(one, state="applied", decided_at=9.0), live=True).sign == "✓"
    waiting = command_row(asked, None)
    assert waiting.text == "change requested: beta 0.04 at step 90; waits for the end of the step"


def test_the_whole_history_has_the_end_of_each_start_too(tmp_path: Path) -> None:
    error = {"type": "ValueError", "message": "no 7", "cause": "rewards.py:3: no 7"}
    with closing(Writer(open_writer(tmp_path / "run.db"))) as writer:
        writer.write([r.AttemptStarted(1, 1.0, "here", 9), replace(SETTING, step=2, at=5.0), SAVED])
        writer.write([r.AttemptEnded(1, 45.0, "failed", 4, 1, error)])
        writer.write([r.AttemptStarted(2, 50.0, "here", 9, 4), r.AttemptEnded(2, 90.0, "finished", 20)])
        writer.write([(asked("resume"), None)])
    with closing(RunReader(tmp_path / "run.db")) as reader:
        rows = whole_history(reader, live=False)
    assert [(row.at, row.step, row.text) for row in rows] == [
        (90.0, 20, "finished"),
        (50.0, 4, "started again from checkpoint-4"),
        (45.0, 4, "failed: rewards.py:3: no 7"),
        (40.0, 4, "checkpoint-4 saved, 3.2 MB, requested by you"),
        (11.0, None, "resume requested; not carried out: the run has ended"),
        (5.0, 2, "temperature 0.9 → 0.5, set by ben"),
    ]


def test_an_alert_is_an_event_of_now() -> None:
    (row,) = alert_rows([{"id": "disk", "message": "the disk\nis full"}], 9, 99.0)
    assert row == EventRow(99.0, 9, "⚠", "attention", "the disk⏎is full")


@pytest.mark.parametrize(
    ("result", "texts"),
    [
        ({"completions": [{"text": "a"}, {"completion": "b"}, {"content": "c"}, {}]}, ("a", "b", "c", "")),
        ({"samples": ["d", [{"content": "e"}, {"content": "f"}], []]}, ("d", "f", "[]")),
        ({"completions": "alone"}, ("alone",)),
        ({}, ()),
    ],
)
def test_what_was_sampled_is_read_in_every_shape(result: dict[str, Any], texts: tuple[str, ...]) -> None:
    assert sampled_texts(replace(DONE, result=result)) == texts


def test_a_checkpoint_that_is_being_saved_is_no_warning() -> None:
    saving = replace(SAVED, step=6, at=70.0, complete=False)
    (row, _) = event_rows([], [], [SAVED, saving], [], live=True)
    assert (row.sign, row.text) == ("◌", "saving checkpoint-6")
    (row, _) = event_rows([], [], [SAVED, saving], [], live=False)
    assert (row.sign, row.text) == ("⚠", "checkpoint-6 is not complete")
