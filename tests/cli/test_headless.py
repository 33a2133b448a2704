"""A run that is followed without a screen: what is printed of it, once, and how it is left."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from grpo_tui.cli.errors import CommandError
from grpo_tui.cli.headless import READER_GONE, _standstill, describe_evaluation, describe_row, follow
from grpo_tui.core import records as r
from grpo_tui.core.evaluations import FACT, Evaluation, Evaluations
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.status import Status
from tests.ui.recorded_run import RecordedRun, evaluated


@pytest.fixture
def run(tmp_path: Path) -> RecordedRun:
    made = RecordedRun(tmp_path / "run")
    made.folder.spec.write_text("{}", encoding="utf-8")  # as started by `grpo-tui train`
    made.now("update")
    made.advance(2)
    return made


@pytest.fixture
def between(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """What happens at each pause between two looks."""

    def happens(*moments: Callable[[], object]) -> None:
        coming = iter(moments)
        monkeypatch.setattr("grpo_tui.cli.headless.time.sleep", lambda _: next(coming)())

    return happens


def test_a_renamed_folder_is_followed_and_of_a_deleted_one_it_is_said(
    run: RecordedRun, between: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    root, renamed = run.folder.root, run.folder.root.with_name("other")
    between(lambda: root.rename(renamed), lambda: run.advance(1), lambda: shutil.rmtree(renamed))
    assert follow(root) == 1
    told = capsys.readouterr()
    assert [line.split()[1] for line in told.out.splitlines()] == ["1", "2", "3"]
    assert told.err.splitlines() == [
        f"the run folder is {renamed} now",
        f"{renamed} was deleted, so the run can no longer be followed",
    ]


def test_nothing_is_raised_at_the_exit_of_who_is_read_no_more(
    run: RecordedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as unread:
        monkeypatch.setattr(sys, "stdout", unread)
        assert follow(run.folder.root) == READER_GONE
        print("what the interpreter flushes", file=unread, flush=True)


def test_what_was_known_before_is_passed_over_and_nothing_is_missed_at_the_end(
    run: RecordedRun, between: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    def ends() -> None:
        run.advance(2)
        run.write(r.Fact("resumed/2", ["goes on from step 2"]))
        run.write(r.AttemptStarted(2, run.at(4), "here", run.pid, total_steps=4))
        run.write(r.AttemptEnded(2, time.time() + 60, "stopped", 4, 0))

    run.write(r.Fact("resumed/1", ["was told by the start before"]))
    between(ends)
    assert follow(run.folder.root, after_row=1, after_attempt=1) == 3
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("note: ")] == ["note: goes on from step 2"]
    assert [line.split()[1] for line in lines if line.startswith("step ")] == ["2", "3", "4"]
    assert "first mean reward" in lines[4]
    assert "(step 2)" in lines[4]
    assert lines[5] == f"stopped at step 4; {run.folder.root}"
    assert lines[6].startswith("There is no checkpoint to resume from")


def test_why_it_stands_still_is_said_once_and_again_when_it_changes(
    run: RecordedRun, between: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    between(
        lambda: run.now("wait"),
        lambda: run.advance(1),
        lambda: run.now("update"),
        lambda: run.now("wait"),
        lambda: run.write(r.AttemptEnded(1, time.time() + 60, "finished", 3, 0)),
    )
    assert follow(run.folder.root) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(";")[0] for line in lines if line.startswith("paused")] == [
        "paused at step 2",
        "paused at step 3",
    ]
    assert "" not in lines, "nothing is said of a run that trains again"


@pytest.mark.parametrize(
    ("values", "line"),
    [
        (
            {"loss": 9.0, "reward": 1.25, "reward_std": 0.5, "kl": None, "rewards/own\x1b/mean": 0.25,
             "rewards/own/std": 8.0, "completions/mean_length": 12.5, "step_time": 0.75, "entropy": 1e7},
            (
                "step     7  reward 1.250  reward_std 0.500  kl None  own␛ 0.250  completions/mean_length "
                "12.500  step_time 0.750  entropy 1.0e7"
            ),
        ),
        ({"eval_reward": 2.0, "eval_loss": 1.0}, "step     7  eval_reward 2.000"),
        ({"reward_std": 1.0, "kl": 0.5}, ""),
        ({"loss": 1.0}, ""),
    ],
)  # fmt: skip
def test_a_row_is_one_line_of_what_is_watched(values: dict[str, object], line: str) -> None:
    assert describe_row(7, values) == line


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"reward": 1.0}, ""),
        ({"evaluate/total": 1.25, "evaluate/pass@1": 0.25}, "step     7  evaluation  pass@1 0.250"),
        (
            {
                "evaluate/total": 1.25,
                "evaluate/total/gain": 0.5,
                "evaluate/total/gain_low": -0.25,
                "evaluate/total/gain_high": 1.0,
            },
            "step     7  evaluation  total 1.250  gain +0.500 (95 %: -0.250 to +1.000)",
        ),
    ],
)
def test_an_evaluation_is_one_line_of_what_decides(values: dict[str, object], line: str) -> None:
    assert describe_evaluation(7, values) == line


def test_a_run_with_evaluations_is_followed_with_them_and_ends_with_their_verdict(
    run: RecordedRun, capsys: pytest.CaptureFixture[str]
) -> None:
    done = tuple(
        Evaluation(step, sum(means) / 40, tuple(means))
        for step, means in ((0, [0.0, 0.5] * 20), (3, [0.5, 1.0] * 19 + [1.0, 1.0]))
    )
    found = Evaluations("key", "pass@1", 0, "correct", 1.0, (1.0,), 4, (), done)
    run.write(r.MetricRow(1, 3, time.time(), {"evaluate/pass@1": 0.75}))
    run.write(r.Fact(FACT, found.to_json()))
    run.write(r.AttemptEnded(1, time.time() + 60, "finished", 3, 0))
    assert follow(run.folder.root) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "step     3  evaluation  pass@1 0.750" in lines
    assert any(line.startswith("better than before training: pass@1 +0.5") for line in lines), lines


ALERT = {"id": "disk", "message": "no\nspace"}


@pytest.mark.parametrize(
    ("look", "said"),
    [
        (Status("training", step=7), ""),
        (Status("paused", step=7), "paused at step 7; continue with `grpo-tui resume '/my run'`"),
        (
            Status("paused", step=7, alerts=(ALERT,)),
            "paused at step 7: no⏎space; continue with `grpo-tui resume '/my run'`",
        ),
        (
            Status("stalled", step=7, reward_func="judge\x1b"),
            (
                "stalled at step 7: reward function judge␛ has not returned; abort the call with "
                "`grpo-tui abort-reward '/my run'`"
            ),
        ),
        (Status("stalled", step=7, reward_func="judge", alerts=(ALERT,)), "stalled at step 7: no⏎space"),
        (Status("stalled", step=7), "stalled at step 7"),
        (Status("training", step=7, reward_func="judge"), ""),
        (Status("training", step=7, alerts=(ALERT, ALERT)), "training at step 7: no⏎space: no⏎space"),
    ],
)
def test_what_keeps_a_run_from_going_on_is_said_with_what_lets_it(look: Status, said: str) -> None:
    assert _standstill(Path("/my run"), look) == said


def test_the_end_is_summed_up_with_answers_and_the_cause(
    run: RecordedRun, capsys: pytest.CaptureFixture[str]
) -> None:
    run.write(*evaluated((0, 2)))
    cause = {"message": "m", "cause": "rewards.py:3:\nno 7"}
    run.write(r.AttemptEnded(1, time.time() + 60, "failed", 2, 1, cause))
    root = run.folder.root
    assert follow(root, after_row=99) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("better than before training: pass@1 +0.97")
    assert lines[1:3] == [
        f"  What is 3 + 4?{'':10} gold 7   before I think 8",
        f"{'':36}after  <think>3+4=7</think><answer>7</answer>",
    ]
    assert lines[13:] == [
        f"failed at step 2; {root}",
        "cause: rewards.py:3:⏎no 7",
        f"There is no checkpoint to resume from; `grpo-tui train {root} --run-dir NEW` starts a new run.",
    ]
    assert "first mean reward" not in "".join(lines)


def test_a_run_that_ends_before_it_records_anything_is_told_with_its_cause(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.root.mkdir()
    folder.spec.write_text("{}")
    with pytest.raises(CommandError, match="the run ended before it recorded anything: see ") as told:
        follow(folder.root)
    assert told.value.code == 1
