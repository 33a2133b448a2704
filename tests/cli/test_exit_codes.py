"""Commands that judge exit 1 for an error, and for nothing less."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from grpo_tui.cli import data as of_data
from grpo_tui.cli import rewards as of_baseline
from grpo_tui.cli.main import main
from grpo_tui.core.findings import Finding
from grpo_tui.demo import DEMO_CONFIG
from grpo_tui.preflight import run as of_check
from grpo_tui.preflight.report import Preflight

Findings = tuple[Finding, ...]


def _baseline(found: Findings, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = SimpleNamespace(findings=found, to_json=dict), SimpleNamespace(samples=())
    monkeypatch.setattr(of_baseline, "_load", lambda lab, config: None)
    monkeypatch.setattr(of_baseline, "ask_baseline", lambda *words: answer)


def _check(found: Findings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_check, "check", lambda *words, **more: Preflight(None, found))


def _data(found: Findings, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = SimpleNamespace(findings=found, facts=SimpleNamespace(data=None))
    monkeypatch.setattr(of_data.Checker, "check", lambda self, config, settings: answer)


COMMANDS: dict[str, tuple[list[str], Callable[[Findings, pytest.MonkeyPatch], None]]] = {
    "baseline": (["--json"], _baseline),
    "check": ([], _check),
    "data": ([], _data),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("severities", "code"),
    [((), 0), (("info",), 0), (("warning",), 0), (("error",), 1), (("warning", "error", "info"), 1)],
)
def test_only_an_error_makes_a_command_fail(
    command: str, severities: tuple[str, ...], code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words, prepared = COMMANDS[command]
    found = tuple(Finding(f"a.{severity}", severity, None, None, "said") for severity in severities)
    prepared(found, monkeypatch)
    assert main([command, str(DEMO_CONFIG), *words]) == code
