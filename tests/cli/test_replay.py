"""`grpo-tui replay` prints what `status` printed at that step, and the findings that were open then."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from grpo_tui.cli import replay as module
from grpo_tui.cli.look import describe
from grpo_tui.cli.main import main
from grpo_tui.core import records as r
from grpo_tui.core.findings import Finding, Remedy
from grpo_tui.store import replay as replays
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.status import read_status
from tests.ui.recorded_run import RecordedRun

OPENED = {"first_step": 4, "last_step": 5, "remedies": (Remedy("Raise beta"),)}
FINDING = Finding("policy.kl", "warning", None, None, "KL is large.", **OPENED)


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[int, str]:
    """What `status` said after each step of a run, which has ended since."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(replays, "_replays", {})
    run, said = RecordedRun(Path("run"), total=30), {}
    for step in range(1, 11):
        run.advance(1)
        if step == 5:
            run.write(r.OpenFindings(run.at(5.5), (FINDING,)))
        if step == 8:
            run.write(r.OpenFindings(run.at(8.5), ()))
            run.write(r.CheckpointSaved(1, 8, "checkpoint-8", run.at(8.5), True, False, 3))
            Path("run/checkpoint-8").mkdir()
        run.now("update")
        lines = describe(read_status(run.folder.root))
        said[step] = "\n".join(
            line for line in lines if not line.startswith(("phase ", "last step ", "warning"))
        )
    run.end("failed")
    run.close()
    return said


def printed(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    replays._replays.clear()
    assert main(["replay", "run", *words]) == code
    shown = capsys.readouterr()
    return shown.err if code else shown.out


def test_it_prints_what_status_said_and_the_findings_of_the_time(
    told: dict[int, str], capsys: pytest.CaptureFixture[str]
) -> None:
    for step in (3, 6, 9):
        text = printed(capsys, "--at", str(step), "--headless")
        lines = [
            line
            for line in text.partition("\n\n")[0].splitlines()
            if not line.startswith(("phase ", "last "))
        ]
        assert "\n".join(lines) == told[step]
        assert ("warning: steps 4 to 5: KL is large. [policy.kl]\n  fix: Raise beta" in text) == (step == 6)
    assert printed(capsys).startswith("training  step 1 of 30"), "without --at the first step"
    assert printed(capsys, "--at", "10").startswith("failed  step 10 of 30")


def test_as_json_it_has_the_status_and_the_findings(
    told: dict[int, str], capsys: pytest.CaptureFixture[str]
) -> None:
    body = json.loads(printed(capsys, "--at", "6", "--json"))
    assert (body["state"], body["step"], body["metrics"]["num_tokens"]) == ("training", 6, 4096.0 * 6)
    assert [one["id"] for one in body["findings"]] == ["policy.kl"]
    assert json.loads(printed(capsys, "--at", "9", "--json"))["findings"] == []


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--at", "11"], "--at 11: the run recorded steps 1 to 10"),
        (["--at", "0"], "--at 0: the run recorded steps 1 to 10"),
        (["--speed", "5", "--headless"], "--speed has no effect without the screen"),
    ],
)
def test_what_cannot_be_shown_is_refused(
    words: list[str], why: str, told: dict[int, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert why in printed(capsys, *words, code=2)


def test_a_run_without_a_step_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(replays, "_replays", {})
    RecordedRun(Path("run")).close()
    assert "no step was recorded" in printed(capsys, code=2)


def test_on_a_terminal_the_screen_opens_at_the_step_and_speed(
    told: dict[int, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[tuple[Path, Any]] = []

    def show(root: Path) -> int:
        opened.append((root, replays.replay_of(RunFolder(root).database)))
        return 0

    monkeypatch.setattr(module.sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(module, "has_screen", lambda instead: True)
    monkeypatch.setattr(module, "show", show)
    before = {path: path.read_bytes() for path in Path("run").rglob("*") if path.is_file()}
    assert main(["replay", "run", "--at", "7", "--speed", "2.5"]) == 0
    ((root, shown),) = opened
    assert root == Path("run").absolute()
    assert replays.replay_of(RunFolder(root).database) is None, "what is read later is read as it is"
    assert (shown.steps[shown.place], shown.speed) == (7, 2.5)
    assert {path: path.read_bytes() for path in Path("run").rglob("*") if path.is_file()} == before
    assert set(os.listdir("run")) == {"run.db", "checkpoint-8", "heartbeat", "rank-0.json"}
