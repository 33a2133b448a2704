"""A start is checked; what a person overrides is kept with the run and shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from grpo_tui.demo import DEMO_CONFIG, DEMO_DIR, DEMO_MODEL
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.reader import RunReader
from tests.processes.runs import SMALL, grpo_tui

pytestmark = pytest.mark.slow

WRONG = ("--set", "remove_unused_columns=true", "--set", "grpo_tui.rewards=[rewards.py:format_reward]")
"""An error that TRL trains through: the reward needs no column."""


def test_errors_stop_a_start_unless_forced_and_the_record_says_so(run: Path, tmp_path: Path) -> None:
    small = [word for pair in (*SMALL, "max_steps=2") for word in ("--set", pair)]
    words = (DEMO_CONFIG, "--run-dir", run, "--headless", *small, *WRONG)
    refused = grpo_tui("train", *words, check=2, cwd=tmp_path)
    assert "1 error to fix before the run can start. --force starts anyway" in refused.stderr
    assert "fix: remove_unused_columns: false" in refused.stderr
    assert not run.exists()

    forced = grpo_tui("train", *words, "--force", cwd=tmp_path, full_check=True)
    assert "finished at step 2" in forced.stdout
    shown = json.loads(grpo_tui("status", run, "--json").stdout)
    assert [error.partition(":")[0] for error in shown["forced"]] == ["training.columns-removed"]
    assert "started despite training.columns-removed" in grpo_tui("status", run).stdout
    assert "started despite training.columns-removed" in RunFolder(run).log.read_text()
    record = RunReader(RunFolder(run).database).fact("reproduction")
    assert record["forced"] == shown["forced"]


def test_a_reward_that_raises_is_found_before_the_run_begins(run: Path, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("def score(completions, **kwargs): raise RuntimeError('no key')\n")
    config = tmp_path / "own.yaml"
    config.write_text(
        f"model_name_or_path: {DEMO_MODEL}\nuse_cpu: true\nbf16: false\nmax_completion_length: 20\n"
        f"grpo_tui:\n  dataset: {DEMO_DIR / 'task.py'}:train_rows\n  rewards: [own.py:score]\n"
    )
    refused = grpo_tui("train", config, "--run-dir", run, "--headless", check=2, full_check=True)
    assert "RuntimeError: no key" in refused.stderr.replace("\n  ", " ")
    assert not run.exists()
