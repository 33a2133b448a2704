"""A run that is followed without a screen: what is printed of it, once, and how it is left."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from grpo_tui.cli.headless import follow
from grpo_tui.core import records as r
from tests.ui.recorded_run import RecordedRun


@pytest.fixture
def run(tmp_path: Path) -> RecordedRun:
    made = RecordedRun(tmp_path / "run")
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
