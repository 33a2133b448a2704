"""A rule of `grpo_tui.on` pauses or stops a real run, and the history says why."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from grpo_tui.config.section import OnRule
from grpo_tui.core import records as r
from grpo_tui.core.findings import Finding
from grpo_tui.present.events import whole_history
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.live import read_rank
from grpo_tui.store.mailbox import Mailbox
from grpo_tui.store.reader import RunReader
from grpo_tui.train.controller import Controller
from grpo_tui.train.failure import NoStepError
from grpo_tui.train.rule_watch import RuleWatch, watch_of
from grpo_tui.train.session import Session
from grpo_tui.train.settings import Refused
from tests.train.tiny import run_recorded


def test_rules_pause_and_stop_a_run_and_the_history_says_why(tmp_path: Path) -> None:
    mailbox = Mailbox(RunFolder(tmp_path).commands)
    notes: list[str] = []

    def at_safe_point(session: Session, trainer: Any) -> None:
        # A rule is looked at in the recorder's thread, once the row is written.
        while not (mailbox.pending() or session.controller.stopped):
            time.sleep(0.01)

    def at_rest(session: Session) -> None:
        rank = read_rank(session.folder.rank(0))
        notes.append(rank.note if rank is not None else "")
        mailbox.submit("resume")

    def before_train(session: Session, trainer: Any) -> None:
        rest = session.controller._rest
        session.controller._rest = lambda: (at_rest(session), rest())[1]  # type: ignore[method-assign]
        session.act_on([OnRule("reward > -9", "pause"), OnRule("reward > -9 over 2 steps", "stop")])

    run_recorded(tmp_path, before_train=before_train, at_safe_point=at_safe_point)

    assert (tmp_path / "checkpoint-2").is_dir()
    assert len(notes) == 1
    assert notes[0].startswith("grpo_tui.on paused the run: reward is ")
    with closing(RunReader(tmp_path / "run.db")) as reader:
        (attempt,) = reader.attempts()
        told = [row.text for row in whole_history(reader, live=False)]
    assert (attempt.state, attempt.step) == ("stopped", 2)
    assert any(text.startswith("paused by grpo_tui.on (reward is ") for text in told)
    assert any(text.startswith("stopping by grpo_tui.on (reward is ") for text in told)


def finding(name: str) -> Finding:
    return Finding(name, "error", None, None, "it is so", first_step=3, last_step=4)


def test_a_finding_that_opens_acts_again_only_after_it_has_ended(tmp_path: Path) -> None:
    mailbox = Mailbox(tmp_path / "commands")
    watch = RuleWatch([OnRule("policy.*", "pause")], mailbox, open_before=["policy.kl"])
    for names, commands in (
        (["policy.kl"], 0),
        (["policy.kl", "policy.broke"], 1),
        (["policy.broke"], 1),
        ([], 1),
        (["policy.broke"], 2),
    ):
        assert watch([r.OpenFindings(0.0, tuple(map(finding, names)))]) == []
        assert len(mailbox.pending()) == commands, names
    command = mailbox.pending()[0]
    assert (command.kind, command.by, command.args) == ("pause", "grpo_tui.on", {"because": "policy.broke"})


def test_a_command_that_cannot_be_written_is_written_later(tmp_path: Path) -> None:
    (tmp_path / "commands").write_text("a file is in the way")
    mailbox = Mailbox(tmp_path / "commands")
    watch = RuleWatch([OnRule("loss < 1", "stop")], mailbox)
    watch([r.MetricRow(1, 1, 0.0, {"loss": 0.0})])
    (tmp_path / "commands").unlink()
    watch([])
    watch([])
    assert [command.kind for command in mailbox.pending()] == ["stop"]


def test_a_command_to_end_a_stage_ends_no_other(tmp_path: Path) -> None:
    """The recorder writes it while the run trains on, so it can arrive in the next stage."""
    mailbox = Mailbox(tmp_path / "commands")
    RuleWatch([OnRule("loss < 1", "end_stage")], mailbox, stage=0)([r.MetricRow(1, 1, 0.0, {"loss": 0.0})])
    (late,) = mailbox.pending()
    assert (late.kind, late.by) == ("end_stage", "grpo_tui.stages")

    unused: Any = SimpleNamespace()
    said: dict[tuple[int | None, str], str] = {}
    for stage in (None, 1, 0):
        for name, command in (("late", late), ("no place", replace(late, args={"because": "it is so"}))):
            controller = Controller(unused, mailbox, *[unused] * 5)
            controller.stage = stage
            try:
                controller._on_end_stage(command)
                said[stage, name] = f"ended: {controller.stage_ended}"
            except Refused as refusal:
                said[stage, name] = str(refusal)
                assert controller.stage_ended is None
    takes = "end_stage takes stage: the place of the stage to end, counted from 0"
    assert said == {
        (None, "late"): "this run has no stages",
        (None, "no place"): "this run has no stages",
        (1, "late"): "it was to end stage 1, but stage 2 trains",
        (1, "no place"): takes,
        (0, "late"): f"ended: {late.args['because']}",
        (0, "no place"): takes,
    }


def test_hours_count_over_all_attempts_and_what_is_used_up_is_not_begun(tmp_path: Path) -> None:
    mailbox, rules = Mailbox(tmp_path / "commands"), [OnRule("error", "pause"), OnRule("2 GPU hours", "stop")]
    watch = RuleWatch(rules, mailbox, earlier_s=3599.0, gpus=2)
    watch([])
    assert not mailbox.pending()
    watch._began -= 2.0
    watch([])
    assert [command.args["because"] for command in mailbox.pending()] == ["the run has used 2 GPU hours"]
    with pytest.raises(
        NoStepError, match=r"used up its 2 GPU hours .* --set grpo_tui.on.1.when='4 GPU hours'"
    ):
        RuleWatch(rules, mailbox, earlier_s=3601.0, gpus=2)


def test_what_earlier_attempts_used_and_left_open_counts(tmp_path: Path) -> None:
    run_recorded(tmp_path, max_steps=1)
    session = Session(RunFolder(tmp_path))
    session.recorder.put(r.OpenFindings(0.0, (finding("policy.broke"),)))
    session.close("stopped")
    session = Session(RunFolder(tmp_path))
    try:
        watch = watch_of(session.folder, [OnRule("error", "pause"), OnRule("1 hour", "stop")], 3, 0)
        watch([r.OpenFindings(0.0, (finding("policy.broke"),))])
        assert not Mailbox(session.folder.commands).pending()
        with closing(RunReader(tmp_path / "run.db")) as reader:
            used = sum(each.ended_at - each.started_at for each in reader.attempts() if each.ended_at)
        assert used <= time.monotonic() - watch._began < used + 60
    finally:
        session.close("stopped")
