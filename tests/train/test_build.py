"""The trainer is built as the config says, and the record names what it was built from."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from grpo_tui.config.resolve import load_config
from grpo_tui.data.load import load_prompts
from grpo_tui.demo import DEMO_CONFIG
from grpo_tui.rewards.loading import LoadedReward, load_rewards
from grpo_tui.train import devices
from grpo_tui.train.build import build_trainer, reward_sources
from grpo_tui.train.session import reproduction_record

pytestmark = pytest.mark.slow

CHANGES = ("seed=3", "data_seed=5", "dtype=bfloat16", "use_peft=true", "lora_r=4", "output_dir=elsewhere",
           "grpo_tui.rewards.0.weight=1.0", "grpo_tui.rewards.1.weight=0.25")  # fmt: skip


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, list[LoadedReward], Path]:
    config = load_config(DEMO_CONFIG, CHANGES)
    folder = tmp_path_factory.mktemp("built")
    rewards = load_rewards(config)
    return build_trainer(config, rewards, load_prompts(config), folder), rewards, folder


def test_the_trainer_has_the_weights_the_adapter_and_the_folder_of_the_run(built: Any) -> None:
    trainer, rewards, folder = built
    weights = [reward.weight for reward in rewards]
    assert weights[:2] == [1.0, 0.25]
    assert trainer.reward_weights.tolist() == pytest.approx(weights)
    assert trainer.reward_func_names == [reward.name for reward in rewards]
    assert trainer.args.output_dir == str(folder)
    assert trainer.model.peft_config["default"].r == 4
    kept = [p for name, p in trainer.model.named_parameters() if "lora" not in name]
    assert {str(p.dtype) for p in kept} == {"torch.bfloat16"}


def test_the_record_names_each_reward_with_its_place_and_weight(built: Any) -> None:
    _, rewards, _ = built
    sources = reward_sources(rewards, 4)
    assert [(s.attempt, s.index, s.name, s.weight) for s in sources] == [
        (4, index, reward.name, reward.weight) for index, reward in enumerate(rewards)
    ]
    assert sources[0].source == f"{rewards[0].origin_file}:{rewards[0].origin_line}"
    assert sources[0].text == rewards[0].source_text
    assert sources[0].sha256 == rewards[0].sha256


def test_the_record_holds_seeds_data_and_what_differs_from_the_last_commit(
    built: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = built[0]
    assert reproduction_record(trainer, tmp_path)["git"] is None

    def git(*words: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@b")
        asked = ["git", "-C", str(tmp_path), *who, *words]
        return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()

    git("init", "-q")
    (tmp_path / "rewards.py").write_text("one = 1\n")
    git("add", "rewards.py")
    git("commit", "-qm", "first")
    (tmp_path / "rewards.py").write_text("one = 2\n")
    record = reproduction_record(trainer, tmp_path)
    assert (record["seed"], record["data_seed"], record["world_size"]) == (3, 5, 1)
    assert record["dataset_rows"] == len(trainer.train_dataset)
    assert record["dataset_fingerprint"] == trainer.train_dataset._fingerprint
    assert record["folder"] == str(tmp_path)
    assert record["git"]["commit"] == git("rev-parse", "HEAD")
    assert "-one = 1\n+one = 2" in record["git"]["diff"]
    assert not record["git"]["diff_cut"]
    monkeypatch.setattr("grpo_tui.train.session.DIFF_LIMIT", 10)
    cut = reproduction_record(trainer, tmp_path)["git"]
    assert (len(cut["diff"]), cut["diff_cut"]) == (10, True)


def test_the_peak_of_memory_is_that_since_training_began() -> None:
    peak = devices.PeakMemory()
    loaded = b"x" * (300 << 20)
    del loaded
    before = devices.resident_bytes("VmHWM")
    peak.begin(None)
    figures = peak.figures()
    assert (figures["device"], figures["world_size"]) == ("cpu", 1)
    assert before is not None
    assert 0 < figures["libraries_bytes"] <= before - (200 << 20)
    assert 0 < figures["resident_bytes"] < before - (100 << 20), "what loading took is forgotten"
