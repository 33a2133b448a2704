"""`grpo-tui rewards`: what is wrong with its words is said before a screen opens."""

from __future__ import annotations

from pathlib import Path

import pytest

from grpo_tui.cli.main import main

pytestmark = pytest.mark.usefixtures("here")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rewards.py").write_text(
        "def one(completions, **kwargs):\n    return [1.0] * len(completions)\n"
    )
    (tmp_path / "samples.jsonl").write_text('{"prompt": "a", "completion": "b"}\n')
    return tmp_path


def test_without_a_terminal_it_says_which_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rewards", "rewards.py:one", "--samples", "samples.jsonl"]) == 2
    said = capsys.readouterr().err
    assert "grpo-tui score rewards.py:one --samples samples.jsonl" in said


def test_a_missing_file_of_samples_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rewards", "rewards.py:one", "--samples", "none.jsonl"]) == 2
    assert "none.jsonl: no such file\n" in capsys.readouterr().err


def test_a_config_without_rewards_is_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "my.yaml").write_text("model_name_or_path: x\ndataset_name: y\n")
    assert main(["rewards", "my.yaml"]) == 2
    assert "reward" in capsys.readouterr().err
