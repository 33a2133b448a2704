"""A run folder in place of a config: what it was started with, or a sentence why that is not known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from grpo_tui.cli import start
from grpo_tui.cli.errors import CommandError
from grpo_tui.cli.parser import build_parser
from grpo_tui.cli.saved_run import saved_run
from grpo_tui.config.resolve import load_config
from grpo_tui.config.reward_list import about_rewards
from grpo_tui.config.stages import stage_at
from grpo_tui.core.records import AttemptStarted, MetricRow, SettingChanged
from grpo_tui.store.connection import open_writer
from grpo_tui.store.spec import RunSpec
from grpo_tui.store.writer import Writer

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


@pytest.mark.parametrize(("step", "name", "steps"), [(2, "first", 3), (3, "second", 8), (5, "second", 10)])
def test_a_resume_trains_the_stage_that_its_checkpoint_belongs_to(
    step: int, name: str, steps: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, run = tmp_path / "my.yaml", tmp_path / "run"
    file.write_text(f"{CONFIG}output_dir: {run}\n{STAGES}")
    run.mkdir()
    config, now = stage_at(load_config(file))
    RunSpec(config.to_json(), stage=now).write(run / "run.json")
    verdict = start.Verdict(run / f"checkpoint-{step}", step, True, "")
    monkeypatch.setattr(start, "checkpoint_of", lambda *_: (verdict, []))
    for words in ([str(run)], [str(file)]):
        spec = start._resumed(build_parser().parse_args(["train", *words]), "newest").spec
        assert spec.stage is not None
        assert (spec.stage.name, spec.config["grpo"]["max_steps"]) == (name, steps)
        assert spec.overridden == (("temperature",) if step in (3, 5) else ()), "a stage begins with its own"


def test_what_a_resume_sets_wins_over_changes_while_training_however_it_is_spaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my.yaml").write_text(CONFIG)
    RunSpec(load_config(tmp_path / "my.yaml").to_json()).write(tmp_path / "run.json")
    verdict = start.Verdict(tmp_path / "checkpoint-2", 2, True, "")
    monkeypatch.setattr(start, "checkpoint_of", lambda *_: (verdict, []))
    given = ["beta = 0.5", "temperature=0.5", "reward_weights = [2]", "reward_weights_more=1"]
    words = [word for text in given[:3] for word in ("--set", text)]
    spec = start._resumed(build_parser().parse_args(["train", str(tmp_path), *words]), "2").spec
    assert spec.overridden == ("beta", "temperature", "reward_weights")
    assert spec.rewards_set == ("reward_weights = [2]",)
    more = ["grpo_tui.rewards.0.weight=1", "grpo_tui.rewards =[]", "grpo_tui.rewards_more=1"]
    assert about_rewards([*given, *more]) == ("reward_weights = [2]", *more[:2])


@pytest.mark.parametrize("before", [0, 1], ids=["a fork", "a resume"])
@pytest.mark.parametrize(
    ("rows", "of", "kept"),
    [
        ((), 2, True),
        ((), 1, False),
        ((MetricRow(2, 2, 0.0, {"evaluation/reward": 1.0}),), 2, True),
        ((SettingChanged(2, 2, 0.0, "temperature", 1.0, 0.5, "resume"),), 2, True),
        ((SettingChanged(2, 2, 0.0, "beta", 0.0, 0.1, "config"),), 2, True),
        ((SettingChanged(2, 3, 0.0, "temperature", 1.0, 0.5, "config"),), 2, False),
        ((SettingChanged(2, 3, 0.0, "temperature", 0.5, 0.7, "you"),), 2, False),
    ],
    ids=[
        "nothing",
        "another checkpoint",
        "an evaluation",
        "the resume",
        "another setting",
        "its step",
        "a change of it",
    ],
)
def test_what_a_start_sets_wins_at_the_next_one_until_it_has_recorded_it(
    before: int, rows: tuple[Any, ...], of: int, kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my.yaml").write_text(CONFIG)
    config = load_config(tmp_path / "my.yaml").to_json()
    spec = RunSpec(config, resume=f"checkpoint-{of}", overridden=("temperature",), attempts_before=before)
    spec.write(tmp_path / "run.json")
    writer = Writer(open_writer(tmp_path / "run.db"))
    if before:
        earlier = SettingChanged(1, 1, 0.0, "temperature", 1.0, 0.7, "you")
        writer.write([AttemptStarted(1, 0.0, "host", 1), earlier])
    writer.write([AttemptStarted(2, 1.0, "host", 1), *rows])
    writer.close()
    verdict = start.Verdict(tmp_path / "checkpoint-2", 2, True, "")
    monkeypatch.setattr(start, "checkpoint_of", lambda *_: (verdict, []))
    spec = start._resumed(build_parser().parse_args(["train", str(tmp_path)]), "2").spec
    assert spec.overridden == (("temperature",) if kept else ())
    assert spec.attempts_before == 2


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
