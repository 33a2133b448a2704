"""The config that a run ended with: what was set while it trained, in a file that trains."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from grpo_tui.cli.export import settings_in_force
from grpo_tui.cli.main import main
from grpo_tui.cli.score import wanted_config
from grpo_tui.config.resolve import load_config
from grpo_tui.core.commands import REWARDS
from grpo_tui.core.records import Fact, SettingChanged
from grpo_tui.core.schedule import FACT, Scheduled, to_json
from grpo_tui.demo import DEMO_CONFIG
from grpo_tui.present.events import setting_row
from grpo_tui.rewards.loading import weights_of
from grpo_tui.store.connection import open_writer
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.spec import RunSpec
from grpo_tui.store.writer import Writer
from grpo_tui.ui.requests import rewards_of_run

CHANGES = [
    SettingChanged(1, 2, 1.0, "learning_rate", 2e-4, 5e-5),
    SettingChanged(1, 2, 1.0, "beta", 0.0, 0.04),
    SettingChanged(1, 3, 2.0, "beta", 0.04, 0.0, "you", "no use", 1),
    SettingChanged(1, 4, 3.0, "temperature", 1.0, 0.7),
    SettingChanged(1, 5, 4.0, "delta", None, 2.0),
    SettingChanged(2, 4, 5.0, "temperature", 0.7, 1.1, "config"),
    SettingChanged(2, 4, 5.0, "learning_rate", 9e-5, 8e-5, "resume"),
    SettingChanged(2, 6, 6.0, "reward_weights", [1.0, 1.0, 1.0], [2.0, 1.0, 0.25]),
    SettingChanged(2, 7, 7.0, "probe_prompts", [], ["+Say 3", "-Say 2"]),
    SettingChanged(2, 8, 8.0, "probe_prompts", ["+Say 3", "-Say 2"], ["-Say 2"], "you", "too easy", 1),
]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of a copy of the demo, whose settings were changed while it trained."""
    for name in ("demo.yaml", "task.py", "rewards.py", "model"):
        (tmp_path / name).symlink_to(DEMO_CONFIG.parent / name)
    folder = RunFolder(tmp_path / "run")
    folder.root.mkdir()
    spec = RunSpec(load_config(tmp_path / "demo.yaml", ["temperature=1.1", "learning_rate=4e-4"]).to_json())
    spec.write(folder.spec)
    with closing(Writer(open_writer(folder.database))) as writer:
        writer.write(CHANGES)
    return folder.root


def test_the_config_a_run_ended_with_is_a_file_that_trains(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = run.parent / "ended.yaml"
    assert main(["export", str(run), "--format", "config", "-o", str(target), "--set", "seed=9"]) == 0
    assert f"Train with `grpo-tui train {target}`" in capsys.readouterr().out
    before, after = load_config(run.parent / "demo.yaml"), load_config(target)
    changed = {name: value for name, value in after.grpo.items() if before.grpo.get(name) != value}
    assert changed == {"temperature": 1.1, "learning_rate": 1e-4, "delta": 2.0, "seed": 9}
    assert [reward.weight for reward in after.section.rewards] == [2.0, 1.0, 0.25]
    assert [reward.source for reward in after.section.rewards] == [r.source for r in before.section.rewards]


def test_the_history_says_what_was_changed_by_whom_and_why(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["set", str(run), "--history"]) == 0
    told = [line.split("  ")[-1] for line in capsys.readouterr().out.splitlines()]
    assert told[1:3] == ["beta 0 → 0.04, set by you", "beta 0.04 → 0, undone by you (no use)"]
    assert told[-2:] == [
        "probe_prompts +Say 3, -Say 2, set by you",
        "probe_prompts -Say 3, undone by you (too easy)",
    ]
    assert len(told) == len(CHANGES)
    assert main(["set", str(run), "--history", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [SettingChanged(**row) for row in rows] == CHANGES


def test_the_history_keeps_a_scheduled_change_that_was_never_made(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    canceled = Scheduled(500, {"top_p": 0.9}, 1.5, because="later", state="canceled", decided_at=4.5)
    rejected = Scheduled(9, {"beta": 0.1}, 1.6, state="rejected", decided_at=9.0, reason="no reference")
    waiting = Scheduled(700, {"top_k": 5}, 0.5, "loop", "later still")
    with closing(Writer(open_writer(RunFolder(run).database))) as writer:
        writer.write([Fact(FACT, to_json([waiting, canceled, rejected]))])
    assert main(["set", str(run), "--history"]) == 0
    lines = capsys.readouterr().out.splitlines()
    told = [line.split("  ")[-1] for line in lines]
    assert told[5] == "top_p 0.9 at step 500, scheduled by you (later); canceled"
    assert told[-2] == "beta 0.1 at step 9, scheduled by you; rejected: no reference"
    assert told[-1].startswith("top_k 5 at step 700, scheduled by loop (later still)")
    assert lines[-1].startswith("step 700 ")
    assert main(["set", str(run), "--history", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == len(CHANGES) + 1
    assert rows[-1] == {
        "step": 700, "changes": {"top_k": 5}, "at": 0.5, "by": "loop", "because": "later still",
        "waiting": True,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("more", "weights"),
    [
        ((), (2.0, 1.0, 0.25)),
        (
            (SettingChanged(3, 9, 9.0, "reward_weights", [2.0, 1.0, 0.25], [2.0, 0.5, 0.5], "config"),),
            (2.0, 0.5, 0.5),
        ),
        ((SettingChanged(3, 9, 9.0, "reward_weights", [2.0, 1.0, 0.25], [1.0]),), (2.0, 0.5, 0.5)),
        ((SettingChanged(3, 9, 9.0, "reward_weights", [2.0, 1.0, 0.25], None),), (2.0, 0.5, 0.5)),
    ],
    ids=["set", "replaced by the config", "of other rewards", "damaged"],
)
def test_the_rewards_of_a_run_have_the_weights_that_were_set_last(
    run: Path, more: tuple[SettingChanged, ...], weights: tuple[float, ...]
) -> None:
    with closing(Writer(open_writer(RunFolder(run).database))) as writer:
        writer.write(more)
    assert weights_of(wanted_config([str(run)], (), None)) == weights
    assert weights_of(rewards_of_run(run).config()) == weights
    given = wanted_config([str(run)], ["grpo_tui.rewards.0.weight=9"], None)
    assert weights_of(given) == (9.0, 0.5, 0.5)


def test_a_probe_prompt_that_a_record_does_not_hold_as_text_is_printed_as_it_is() -> None:
    row = setting_row(SettingChanged(1, 2, 1.0, "probe_prompts", [], [3, None]))
    assert row.text == "probe_prompts  → 3 None, set by you"
    saved = load_config(DEMO_CONFIG, ['grpo_tui.probe_prompts={"every": 2}'])
    assert settings_in_force([SettingChanged(1, 2, 1.0, "probe_prompts", [], [3])], saved) == {}


def test_a_restart_of_the_schedule_is_not_written_into_a_config() -> None:
    saved = load_config(DEMO_CONFIG)
    assert settings_in_force([SettingChanged(1, 2, 1.0, "lr_scheduler_start", 0, 2)], saved) == {}


def test_reward_files_that_were_loaded_anew_are_those_that_the_config_names() -> None:
    saved = load_config(DEMO_CONFIG)
    changes = [
        SettingChanged(1, 2, 1.0, REWARDS, {"rewards.py": "a"}, {"rewards.py": "b"}),
        SettingChanged(1, 2, 1.0, "beta", 0.0, 0.5),
    ]
    assert settings_in_force(changes, saved) == {"beta": 0.5}


def test_elsewhere_its_paths_are_absolute_so_that_it_trains_the_same(
    run: Path, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    other, link = tmp_path_factory.mktemp("other") / "ended.yaml", run.parent / "link"
    assert main(["export", str(run), "--format", "config", "-o", str(other), "--set", "run_name=model"]) == 2
    assert f"Write it there: -o {run.parent / 'ended.yaml'}" in capsys.readouterr().err, "a name is no path"
    assert not other.exists()
    assert main(["export", str(run), "--format", "config", "-o", str(other)]) == 0
    link.symlink_to(run.parent)
    assert main(["export", str(run), "--format", "config", "-o", str(link / "ended.yaml")]) == 0
    moved, here = load_config(other), load_config(run.parent / "ended.yaml")
    assert "source: rewards.py:correctness" in (run.parent / "ended.yaml").read_text()
    assert f"source: {run.parent}/rewards.py:correctness" in other.read_text()
    assert replace(moved, path=here.path, raw=here.raw, findings=here.findings) == here
    assert main(["export", str(run.parent / "demo.yaml"), "--format", "config"]) == 2
    assert "--format config takes a run folder" in capsys.readouterr().err
