"""A run folder in place of a config: what it was started with, or a sentence why that is not known."""

from __future__ import annotations

from pathlib import Path

import pytest

from grpo_tui.cli.errors import CommandError
from grpo_tui.cli.saved_run import saved_run
from grpo_tui.config.resolve import load_config
from grpo_tui.config.stages import stage_at
from grpo_tui.store.spec import RunSpec

CONFIG = """\
model_name_or_path: a/model
dataset_name: a/dataset
use_cpu: true
reward_funcs: [accuracy_reward]
"""
STAGES = """\
grpo_tui:
  stages:
    - {name: first, set: {learning_rate: 0.25}, steps: 3}
    - {name: second, set: {temperature: 0.5}, steps: 5}
"""


@pytest.mark.parametrize("stages", ["", STAGES], ids=["without stages", "with stages"])
def test_the_config_of_a_run_is_that_of_all_its_stages_whichever_trains(stages: str, tmp_path: Path) -> None:
    file = tmp_path / "my.yaml"
    file.write_text(CONFIG + stages)
    base = load_config(file)
    for step in (0, 3) if stages else (0,):
        config, now = stage_at(base, stage_at(base)[1], step)
        RunSpec(config.to_json(), stage=now).write(tmp_path / "run.json")
        _, spec, found = saved_run(tmp_path)
        assert (found.to_json(), spec.config["grpo"]) == (base.to_json(), config.grpo)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (None, "no run here"),
        ("", "cannot be read"),
        ("[]", "is not a run specification"),
        ('{"config": []}', "is not a run specification"),
        ('{"config": {"grpo": []}}', "cannot be read"),
        ('{"config": {}, "launcher": 3}', "cannot be read"),
    ],
)
def test_a_folder_without_a_readable_run_is_told(tmp_path: Path, body: str | None, why: str) -> None:
    if body is not None:
        (tmp_path / "run.json").write_text(body)
    with pytest.raises(CommandError, match=why):
        saved_run(tmp_path)
