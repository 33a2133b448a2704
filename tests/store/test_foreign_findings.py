"""Findings in a record that somebody else made: what cannot be true of one is left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from grpo_tui.cli import main
from grpo_tui.core import records as r
from grpo_tui.core.findings import Finding, Remedy
from grpo_tui.store.status import read_status
from tests.foreign import foreign_run
from tests.present.test_seed_sets import changed

CAUSE: dict[str, Any] = {"setting": "beta", "from": 0.0, "to": 0.1, "step": 2}


def given(root: Path, evidence: dict[str, Any], field: str = "beta") -> Path:
    """A failed run with a checkpoint and one finding about its weights."""
    run = foreign_run(root, root.with_name("marks")).root
    remedies = (Remedy("Set it back", field, 0.0, live=True),)
    found = Finding("policy.broke", "error", None, None, "broke", None, 30, 35, evidence, remedies)
    return changed(run, r.OpenFindings(1.0, (found,)))


@pytest.mark.parametrize("broken", [{"setting": 3}, {"step": "x"}, {"step": None}, None, "from", "setting"])
def test_a_finding_whose_cause_is_not_one_is_left_out(tmp_path: Path, broken: Any) -> None:
    cause = CAUSE | broken if isinstance(broken, dict) else {k: v for k, v in CAUSE.items() if k != broken}
    findings = read_status(given(tmp_path / "run", {"cause": cause})).findings
    assert [one.id for one in findings] == (["policy.broke"] if broken is None else [])


def test_the_weight_of_a_function_that_a_run_does_not_have_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = given(tmp_path / "run", {}, "reward_weights.none")
    assert main(["doctor", str(run), "--apply", "policy.broke", "-o", str(run / "next.yaml")]) == 2
    assert "reward_weights.none: the run has no such reward function" in capsys.readouterr().err
    assert not (run / "next.yaml").exists()
