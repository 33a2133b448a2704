"""What the rules say of real runs of the shipped model: faults are named, healthy runs are left alone."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from grpo_tui.cli.main import main
from grpo_tui.demo.faults import scores_the_question
from grpo_tui.health.doctor import WHOLE_RUN
from grpo_tui.health.reading import Diagnosis, diagnose
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.reader import RunReader
from grpo_tui.store.status import read_status
from tests.train.tiny import run_recorded

pytestmark = pytest.mark.slow
STEPS = 8


def constant(completions: Sequence[Any], **kwargs: Any) -> list[float]:
    return [0.5] * len(completions)


def nothing(completions: Sequence[Any], **kwargs: Any) -> list[None]:
    return [None] * len(completions)


def sometimes_infinite(completions: Sequence[Any], **kwargs: Any) -> list[float]:
    return [math.inf if n % 8 == 0 else 0.5 for n, _ in enumerate(completions)]


def even(completions: Sequence[Any], **kwargs: Any) -> list[float]:
    return [float(len(str(c)) % 2) for c in completions]


def odd(completions: Sequence[Any], **kwargs: Any) -> list[float]:
    return [1 - value for value in even(completions)]


FAULTS: dict[str, dict[str, Any]] = {
    "signal.constant": {"rewards": [constant]},
    "signal.unscored": {"rewards": [nothing]},
    "signal.not-finite": {"rewards": [sometimes_infinite]},
    "signal.cancels": {"rewards": [even, odd], "max_steps": 12},
    "signal.prompt-only": {"rewards": [scores_the_question], "max_steps": 14},
    "signal.masked": {"max_completion_length": 3, "mask_truncated_completions": True},
    "policy.broke": {"learning_rate": 5e-3, "lr_scheduler_type": "constant", "max_steps": 12},
}


def diagnosis(folder: Path) -> Diagnosis:
    with closing(RunReader(RunFolder(folder).database)) as reader:
        return diagnose(reader)


def worst(folder: Path) -> list[str]:
    return [finding.id for finding in diagnosis(folder).findings if finding.severity == "error"]


def told_by_the_doctor(folder: Path) -> set[tuple[str, int | None, int | None, str]]:
    """What is open at the end by the record, without rules that are not applied while a run trains."""
    found = [one for one in diagnosis(folder).findings if "It ended at" not in one.message]
    return {(f.id, f.first_step, f.last_step, f.message) for f in found if f.id not in WHOLE_RUN}


def told_while_it_trained(folder: Path) -> set[tuple[str, int | None, int | None, str]]:
    return {(f.id, f.first_step, f.last_step, f.message) for f in read_status(folder).findings}


@pytest.fixture(scope="module", params=FAULTS)
def faulty(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A rule, and a real run with its fault."""
    run = tmp_path_factory.mktemp("faulty") / "run"
    run_recorded(run, **{"max_steps": STEPS, **FAULTS[request.param]})
    return request.param, run


def test_a_real_run_with_a_fault_gets_its_name(faulty: tuple[str, Path]) -> None:
    rule, run = faulty
    assert worst(run) == [rule]
    assert told_while_it_trained(run) == told_by_the_doctor(run)


@pytest.mark.parametrize(
    "settings",
    [{}, {"beta": 0.04, "num_iterations": 2, "steps_per_generation": 2}],
    ids=["without reference", "with reference and reuse"],
)
def test_a_healthy_run_passes_the_gate(
    settings: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    run_recorded(run, max_steps=24, learning_rate=2e-4, lr_scheduler_type="constant", **settings)
    assert main(["doctor", str(run), "--gate", "warning"]) == 0
    assert "24 steps: no findings" in capsys.readouterr().out
    assert read_status(run).findings == ()


@pytest.mark.parametrize("faulty", ["signal.constant"], indirect=True)
def test_the_command_prints_the_documented_shape_and_its_gate(
    faulty: tuple[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, run = faulty
    capsys.readouterr()
    before = {path: path.read_bytes() for path in run.iterdir() if path.is_file()}
    assert main(["doctor", str(run), "--json"]) == 1
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert list(finding) == [
        "id", "severity", "message", "first_step", "last_step", "evidence", "remedies",
    ]  # fmt: skip
    assert finding["remedies"][0].keys() == {"text", "field", "value", "live"}
    assert main(["completions", str(run), "--where", finding["evidence"]["completions"], "--count"]) == 0
    assert str(16 * STEPS) in capsys.readouterr().out
    assert {path: path.read_bytes() for path in before} == before
    assert main(["doctor", str(tmp_path / "none")]) == 2
