"""Which model, adapter and tokenizer a word of the command line names, and why it names none."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grpo_tui.config.resolve import load_config
from grpo_tui.demo import DEMO_CONFIG
from grpo_tui.ship.chat import live_run
from grpo_tui.ship.policies import Policy, PolicyError, resolve
from grpo_tui.store.checkpoints import MARKER
from grpo_tui.store.json_file import write_json
from grpo_tui.store.spec import RunSpec
from tests.ship.folders import BASE, adapter, checkpoint, model, weights
from tests.ui.recorded_run import RecordedRun


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RecordedRun]:
    made = RecordedRun(tmp_path / "run")
    made.advance(3)
    RunSpec(load_config(DEMO_CONFIG).to_json()).write(made.folder.spec)
    yield made
    made.close()


def refused(word: str, **more: Any) -> str:
    with pytest.raises(PolicyError) as caught:
        resolve(word, **more)
    return str(caught.value)


def test_a_run_is_its_final_model_else_its_newest_complete_checkpoint(run: RecordedRun) -> None:
    root = run.folder.root
    word = str(root)
    assert "neither a final model nor a complete checkpoint. `grpo-tui compare` and" in refused(word)
    checkpoint(root, 1)
    newest = checkpoint(root, 2)
    checkpoint(root, 3, whole=False)
    assert resolve(word) == Policy(word, str(newest), run=root, step=2, tokenizer=str(newest))
    model(root)
    assert resolve(word).model == str(newest), "it has not finished: an earlier start left this model"
    run.end("finished")
    assert resolve(word) == Policy(word, str(root), run=root, step=3, tokenizer=str(root))
    assert resolve(f"{word}@3") == Policy(f"{word}@3", str(root), run=root, step=3, tokenizer=str(root))
    weights(root, whole=False)
    assert resolve(word).model == str(newest), "the final model was cut off"


def test_a_word_that_names_nothing_is_told_without_its_step(
    run: RecordedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(run.folder.root)
    for word, named in (("no", "no"), ("no@3", "no"), ("no@last", "no@last"), ("7", "7")):
        assert refused(word).startswith(f"{named}: no such run"), word
    assert "last is not a step" in refused(f"{run.folder.root}@last")


def test_a_tilde_is_the_home_folder_in_every_form(run: RecordedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    root = run.folder.root
    newest = checkpoint(root, 2)
    monkeypatch.setenv("HOME", str(root.parent))
    for word in ("~/run", "~/run@2", "~/run/checkpoint-2"):
        assert resolve(word).model == str(newest), word
    with pytest.raises(PolicyError, match="the run is not training"):
        live_run("~/run@live")
    assert live_run("~/elsewhere@live") is None


def test_a_step_names_its_checkpoint_and_a_missing_one_those_that_exist(run: RecordedRun) -> None:
    root = run.folder.root
    first, second = checkpoint(root, 1), checkpoint(root, 2)
    checkpoint(root, 3, whole=False)
    word = f"{root}@1"
    assert resolve(word) == Policy(word, str(first), run=root, step=1, tokenizer=str(first))
    assert refused(f"{root}@7").endswith(f"has no checkpoint of step 7. Complete checkpoints of {root}: 1, 2")
    assert "newest is not a step. Complete checkpoints" in refused(f"{root}@newest")
    assert refused(f"{root}@3").endswith(
        "@3 is incomplete: model.safetensors holds 73 of 74 bytes. "
        f"The newest complete checkpoint is {root}@2"
    )
    assert "is incomplete" in refused(str(root / "checkpoint-3"))
    assert resolve(str(second)).step == 2, "the checkpoint's folder is the same as RUN@STEP"


def test_the_live_policy_is_saved_before_it_is_compared_or_merged(run: RecordedRun) -> None:
    word = f"{run.folder.root}@live"
    assert refused(word) == (
        f"{word}: only chat and compare take the live policy. Save it with `grpo-tui checkpoint "
        f"{run.folder.root}`, then name RUN@STEP"
    )


def test_a_checkpoint_with_an_adapter_stands_on_the_base_of_its_run(run: RecordedRun) -> None:
    root = run.folder.root
    folder = checkpoint(root, 2, lora=True)
    (folder / "adapter_config.json").write_text('{"base_model_name_or_path": "elsewhere"}')
    assert resolve(str(root)) == Policy(str(root), BASE, str(folder), root, 2, BASE)
    write_json(folder / "tokenizer_config.json", {})
    assert resolve(str(root)).tokenizer == str(folder)


def test_base_is_the_model_of_a_run_or_of_a_config(run: RecordedRun, tmp_path: Path) -> None:
    root = run.folder.root
    assert resolve("base", root) == Policy("base", BASE, run=root, tokenizer=BASE)
    assert resolve("base", Path(DEMO_CONFIG)) == Policy("base", BASE, tokenizer=BASE)
    assert "base needs a run or a config" in refused("base")
    assert "run.json cannot be read (No such file" in refused("base", of=tmp_path)
    RunSpec({**load_config(DEMO_CONFIG).to_json(), "model": str(tmp_path / "gone")}).write(run.folder.spec)
    assert refused("base", of=root) == (
        f"the model is missing: there is no folder {tmp_path / 'gone'}. Restore it"
    )


def test_folders_from_elsewhere_are_models_and_adapters(tmp_path: Path) -> None:
    whole, lora = model(tmp_path / "whole"), adapter(tmp_path / "lora")
    assert resolve(str(whole)) == Policy(str(whole), str(whole), tokenizer=str(whole))
    assert resolve(str(lora)) == Policy(str(lora), BASE, str(lora), tokenizer=BASE)
    hub = adapter(tmp_path / "hub", "Qwen/Qwen3-0.6B")
    assert resolve(str(hub)).model == "Qwen/Qwen3-0.6B"
    chain = adapter(tmp_path / "chain", str(lora))
    assert refused(str(chain)) == f"{lora}, the base of {chain}, is itself an adapter. Merge it first"
    orphan = adapter(tmp_path / "orphan", str(tmp_path / "moved"))
    assert f"the base model of the adapter {orphan} is missing: there is no folder" in refused(str(orphan))
    nameless = adapter(tmp_path / "nameless", "")
    theirs = adapter(tmp_path / "theirs")
    write_json(theirs / "adapter_config.json", {"megatron_config": {"a": 1}, "megatron_core": "their.module"})
    assert refused(str(theirs)) == f"{theirs} is an adapter for Megatron, which is not supported"
    assert "does not name a base model (base_model_name_or_path)" in refused(str(nameless))
    assert "model.safetensors is incomplete" in refused(str(model(tmp_path / "torn", whole=False)))
    (tmp_path / "empty").mkdir()
    assert "neither a run (run.db), a model (config.json) nor an adapter" in refused(str(tmp_path / "empty"))
    assert "is a file" in refused(DEMO_CONFIG if isinstance(DEMO_CONFIG, str) else str(DEMO_CONFIG))
    assert "no such run, model folder or adapter folder" in refused(str(tmp_path / "none"))


def test_an_existing_path_wins_over_a_step_of_a_run(run: RecordedRun) -> None:
    root = run.folder.root
    checkpoint(root, 2)
    named = model(root.with_name("run@2"))
    assert resolve(str(named)).model == str(named)


def test_the_links_of_the_hubs_cache_are_followed_outside_of_a_run(tmp_path: Path, run: RecordedRun) -> None:
    blobs, snapshot = model(tmp_path / "blobs"), tmp_path / "snapshot"
    snapshot.mkdir()
    for file in blobs.iterdir():
        os.symlink(file, snapshot / file.name)
    assert resolve(str(snapshot)).model == str(snapshot)
    folder = checkpoint(run.folder.root, 2)
    (folder / MARKER).unlink()
    (folder / "model.safetensors").unlink()
    os.symlink(blobs / "model.safetensors", folder / "model.safetensors")
    assert "@2 is incomplete: model.safetensors is incomplete" in refused(f"{run.folder.root}@2")
