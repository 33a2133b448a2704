"""What a bundle holds, what it leaves out, and what a killed export or a hostile bundle leaves behind."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from collections import namedtuple
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from grpo_tui.cli.errors import FAILED, OK, REFUSED, USAGE
from grpo_tui.cli.main import main
from grpo_tui.cli.reproduce import _name, _verified
from grpo_tui.cli.start import Start
from grpo_tui.config.resolve import inspect_config, load_config
from grpo_tui.config.stages import stage_at
from grpo_tui.core import records as r
from grpo_tui.core.stages import SETTING
from grpo_tui.demo import DEMO_MODEL
from grpo_tui.rewards.consent import needed
from grpo_tui.ship.bundle import BundleError
from grpo_tui.ship.bundle_files import Packing
from grpo_tui.ship.reproduce import changed_files, differences, open_bundle, verify
from grpo_tui.store.checkpoints import MARKER, has_new_optimizer
from grpo_tui.store.connection import open_writer
from grpo_tui.store.json_file import write_json
from grpo_tui.store.layout import BUNDLE, RunFolder, remember
from grpo_tui.store.reader import RunReader
from grpo_tui.store.spec import RunSpec
from grpo_tui.store.writer import Writer
from tests.ship.folders import checkpoint
from tests.ui.recorded_run import RecordedRun

CONFIG = f"""\
model_name_or_path: {DEMO_MODEL}
output_dir: out
use_cpu: true
bf16: false
hub_token: hf_mine
run_name: /no_think
env: {{WANDB_API_KEY: k-mine, HF_HOME: {DEMO_MODEL.parent}/cache}}
grpo_tui:
  dataset: data/train.jsonl
  gpus: "6,7"
  notify: {{webhook: "https://hooks.example.com/mine"}}
  filters: {{exclude: ../shared/done.jsonl}}
  rewards:
    - source: rewards.py:right
      params:
        api_key: sk-mine
        words: ../shared/words.txt
        judges: ["https://me:mine@judge.example.com"]
        folders: [{DEMO_MODEL.parent}/cache, here]
    - {{source: "../shared/judge.py:kind"}}
"""
FILES = {
    "task/c.yaml": CONFIG,
    "task/data/train.jsonl": '{"prompt": "a"}\n',
    "task/rewards.py": "import helper, json, lib.more\n"
    "def right(completions, api_key, words, judges, folders, **kw): ...\n",
    "task/helper.py": "import helper_of_helper\n",
    "task/helper_of_helper.py": "",
    "task/lib/__init__.py": "",
    "task/lib/more.py": "",
    "task/unrelated.py": "PASSWORD = 'mine'\n",
    "shared/judge.py": "def kind(completions, **kw): ...\n",
    "shared/words.txt": "one\n",
    "shared/done.jsonl": '{"hash": "0123456789abcdef"}\n',
}
INSTALLED = {"grpo-tui": "0.1.0", "torch": "9.1+cpu"}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A recorded run of a config with files inside and outside its folder."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
        os.utime(tmp_path / name, (1, 1))
    monkeypatch.chdir(tmp_path / "task")
    made = RecordedRun(tmp_path / "runs" / "first")
    made.advance(3)
    made.write(r.SettingChanged(1, 2, made.at(2), "learning_rate", 1e-4, 5e-5))
    made.write(r.Fact("reproduction", {"threads": 2, "installed": INSTALLED, "folder": str(tmp_path)}))
    made.end("finished")
    made.close()
    RunSpec(load_config("c.yaml").to_json()).write(made.folder.spec)
    remember(made.folder.root)
    return made.folder.root


def export(run: Path, target: Path | str, *words: str) -> int:
    return main(["export", str(run), "--format", "bundle", "--out", str(target), *words])


def test_a_bundle_holds_the_files_with_hashes_and_names_them_by_where_they_are_in_it(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert export(run, tmp_path / "b") == 0
    whole = [path for path in (tmp_path / "b").rglob("*") if path.is_file()]
    assert f"{tmp_path / 'b'}: {len(whole)} files, " in capsys.readouterr().out
    config = yaml.safe_load((tmp_path / "b" / "config.yaml").read_text())
    section = config["grpo_tui"]
    assert section["dataset"] == "data/train.jsonl"
    assert set(section) == {"dataset", "filters", "rewards"}, "whom to notify and which GPUs are of here"
    assert [entry["source"] for entry in section["rewards"]] == ["rewards.py:right", "files/2/judge.py:kind"]
    assert section["rewards"][0]["params"] == {"words": "files/2/words.txt"}
    assert section["filters"] == {"exclude": "files/2/done.jsonl"}
    assert config["run_name"] == "/no_think"
    manifest = json.loads((tmp_path / "b" / BUNDLE).read_text())
    assert manifest["changes"] == [
        {"step": 2, "name": "learning_rate", "old": 1e-4, "new": 5e-5, "by": "you"}
    ]
    assert manifest["machine"]["threads"] == 2
    assert (tmp_path / "b" / "requirements.txt").read_text().splitlines() == [
        "--extra-index-url https://download.pytorch.org/whl/cpu",
        "# grpo-tui==0.1.0, from its repository",
        "torch==9.1+cpu",
    ]
    for name in (
        "rewards.py",
        "helper.py",
        "helper_of_helper.py",
        "lib/more.py",
        "files/2/judge.py",
        "files/2/done.jsonl",
    ):
        digest = hashlib.sha256((tmp_path / "b" / name).read_bytes()).hexdigest()
        assert manifest["files"][name] == digest
    assert not (tmp_path / "b" / "unrelated.py").exists()


def test_folders_of_one_name_in_two_places_stay_apart(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "away").mkdir()
    monkeypatch.chdir(tmp_path / "away")
    packing = Packing(load_config(tmp_path / "task" / "c.yaml"), with_model=False)
    places = [packing._place(tmp_path / folder / "data") for folder in ("task", "away", "task")]
    assert places == ["data", "files/1/data", "data"]


def test_no_secret_and_no_place_of_this_machine_is_in_a_bundle(
    run: Path, tmp_path: Path, capsys: Any
) -> None:
    assert export(run, tmp_path / "b") == 0
    told = capsys.readouterr().err
    for key in (
        "hub_token",
        "env.WANDB_API_KEY",
        "env.HF_HOME",
        "grpo_tui.notify",
        "grpo_tui.rewards.0.params.api_key",
        "grpo_tui.rewards.0.params.judges",
        "grpo_tui.rewards.0.params.folders",
    ):
        assert f"left out {key}: " in told
    code = ("rewards.py", "judge.py")
    files = [file for file in (tmp_path / "b").rglob("*") if file.is_file() and file.name not in code]
    text = "".join(file.read_text(errors="replace") for file in files)
    assert "mine" not in text
    assert str(tmp_path) not in text
    assert str(DEMO_MODEL.parent) not in text


def test_a_large_model_is_named_by_its_hashes_and_included_only_when_asked(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grpo_tui.ship.bundle_files.SMALL_MODEL_BYTES", 1000)
    assert export(run, tmp_path / "without") == 0
    assert export(run, tmp_path / "with", "--with-model") == 0
    bundle = open_bundle(tmp_path / "without")
    place = yaml.safe_load((bundle.root / "config.yaml").read_text())["model_name_or_path"]
    assert changed_files(bundle) == ([], sorted(f"{place}/{file.name}" for file in DEMO_MODEL.iterdir()))
    assert main(["reproduce", str(bundle.root)]) == 2
    (bundle.root / place).parent.mkdir(parents=True, exist_ok=True)
    os.rename(tmp_path / "with" / place, bundle.root / place)
    assert changed_files(bundle) == ([], [])


def test_a_file_that_changed_after_the_first_start_is_told_also_when_the_run_was_resumed(
    run: Path, tmp_path: Path
) -> None:
    with closing(RunReader(RunFolder(run).database)) as reader:
        began = reader.attempts()[0].started_at
    writer = Writer(open_writer(RunFolder(run).database))
    writer.write(
        [
            r.AttemptStarted(2, began + 100, "here", 1, 2),
            r.AttemptEnded(2, began + 200, "finished", 3, 0, None),
        ]
    )
    writer.close()
    for name, at in (("helper.py", began - 1), ("rewards.py", began + 50), ("lib/more.py", began + 150)):
        os.utime(tmp_path / "task" / name, (at, at))
    assert export(run, tmp_path / "b") == 0
    manifest = json.loads((tmp_path / "b" / BUNDLE).read_text())
    changed = [name for name in manifest["changed_since"] if name.endswith(".py")]
    assert changed == ["lib/more.py", "rewards.py"]
    assert manifest["resumed_at"] == [2]


@pytest.mark.parametrize(
    ("ended", "words", "code"),
    [
        (OK, (), OK),
        (OK, ("--steps", "2"), OK),
        (REFUSED, (), REFUSED),  # stopped, and nobody asked for it
        (REFUSED, ("--steps", "2"), OK),
        (FAILED, (), USAGE),
        (FAILED, ("--steps", "2"), USAGE),
        (130, ("--steps", "2"), 130),
    ],
)
def test_reproduce_tells_by_its_exit_code_how_the_training_it_was_asked_for_ended(
    ended: int, words: tuple[str, ...], code: int, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed: list[Start] = []
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    config, inspected = load_config("c.yaml"), inspect_config("c.yaml")
    start = Start(RunFolder(tmp_path / "again"), RunSpec({}), config, inspected)
    monkeypatch.setattr("grpo_tui.cli.reproduce.prepared", lambda parsed: start)
    monkeypatch.setattr("grpo_tui.cli.reproduce.followed", lambda start: (followed.append(start), ended)[1])
    assert export(run, tmp_path / "b") == 0
    assert main(["reproduce", str(tmp_path / "b"), *words]) == code
    assert [start.spec.stop_after for start in followed] == [2 if words else None]


def test_a_zip_is_unpacked_beside_itself_with_what_its_manifest_lists(run: Path, tmp_path: Path) -> None:
    assert export(run, tmp_path / "b.zip") == 0
    with zipfile.ZipFile(tmp_path / "b.zip", "a") as archive:
        archive.writestr("b/unlisted.py", "")
    bundle = open_bundle(tmp_path / "b.zip")
    assert bundle.root == tmp_path / "b"
    assert changed_files(bundle) == ([], [])
    assert not (bundle.root / "unlisted.py").exists()
    assert open_bundle(tmp_path / "b.zip") == bundle
    (bundle.root / BUNDLE).write_text('{"version": 1}')
    with pytest.raises(BundleError, match="holds something else"):
        open_bundle(tmp_path / "b.zip")


def test_a_zip_keeps_scripts_executable(run: Path, tmp_path: Path) -> None:
    (tmp_path / "task" / "rewards.py").chmod(0o755)
    assert export(run, tmp_path / "b.zip") == 0
    root = open_bundle(tmp_path / "b.zip").root
    assert os.access(root / "rewards.py", os.X_OK)
    assert not os.access(root / "helper.py", os.X_OK)


def test_a_small_zip_of_up_to_64_mebibytes_is_unpacked_and_a_larger_one_is_not(tmp_path: Path) -> None:
    for size, said in (
        ((64 << 20) - 4096, "is not a bundle"),
        (64 << 20, "more than 100 times the zip file"),
    ):
        with zipfile.ZipFile(tmp_path / "b.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(f"b/{BUNDLE}", "{}")
            archive.writestr("b/zeros", bytes(size))
        with pytest.raises(BundleError, match=said):
            open_bundle(tmp_path / "b.zip")


def test_a_zip_that_would_fill_the_disk_is_refused_before_anything_is_written(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert export(run, tmp_path / "b.zip") == 0
    monkeypatch.setattr("grpo_tui.ship.reproduce.ALWAYS_BYTES", 1 << 20)
    with zipfile.ZipFile(tmp_path / "b.zip", "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("b/zeros", bytes(1 << 28))
    with pytest.raises(BundleError, match="more than 100 times the zip file"):
        open_bundle(tmp_path / "b.zip")
    assert not (tmp_path / "b").exists()
    monkeypatch.setattr("grpo_tui.ship.reproduce.ALWAYS_BYTES", 1 << 30)
    usage = namedtuple("Usage", "total used free")(1, 1, 1000)
    monkeypatch.setattr("grpo_tui.ship.reproduce.shutil.disk_usage", lambda path: usage)
    with pytest.raises(BundleError, match="are free"):
        open_bundle(tmp_path / "b.zip")
    assert not (tmp_path / "b").exists()


def test_a_zip_that_cannot_be_unpacked_is_refused(run: Path, tmp_path: Path) -> None:
    assert export(run, tmp_path / "b.zip") == 0
    content = bytearray((tmp_path / "b.zip").read_bytes())
    for mark, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):  # as if encrypted
        at = content.find(mark)
        while at >= 0:
            content[at + flags] |= 1
            at = content.find(mark, at + 1)
    (tmp_path / "b.zip").write_bytes(content)
    with pytest.raises(BundleError, match="encrypted"):
        open_bundle(tmp_path / "b.zip")
    assert not (tmp_path / "b").exists()


def test_a_manifest_that_leads_out_of_its_bundle_is_refused(run: Path, tmp_path: Path) -> None:
    assert export(run, tmp_path / "b") == 0
    manifest = json.loads((tmp_path / "b" / BUNDLE).read_text())
    (tmp_path / "b" / BUNDLE).write_text(json.dumps({**manifest, "files": {"../run.py": "0"}}))
    with pytest.raises(BundleError, match="leads out"):
        changed_files(open_bundle(tmp_path / "b"))


def test_a_difference_is_explained_by_a_config_that_a_resume_changed(
    run: Path, tmp_path: Path, capsys: Any
) -> None:
    assert export(run, tmp_path / "b") == 0
    rows = tmp_path / "b" / "rows.jsonl"
    rows.write_text(json.dumps({"step": 1, "values": {"reward": -1.0}}) + "\n")
    manifest = json.loads((tmp_path / "b" / BUNDLE).read_text())
    for by, told in (("you", False), ("config", True)):
        manifest["changes"][0]["by"] = by
        (tmp_path / "b" / BUNDLE).write_text(json.dumps(manifest))
        assert _verified(open_bundle(tmp_path / "b"), RunFolder(run), None) == 1
        said = capsys.readouterr().out
        assert "differs first at step 1: reward is -1.0 in the bundle" in said
        assert ("a resume changed learning_rate in the config" in said) is told


def test_rows_are_compared_up_to_the_first_change_or_to_the_steps_asked_for(
    run: Path, tmp_path: Path, capsys: Any
) -> None:
    assert export(run, tmp_path / "b") == 0
    for steps, compared in ((1, 1), (None, 2), (9, 2)):
        assert _verified(open_bundle(tmp_path / "b"), RunFolder(run), steps) == 0
        said = capsys.readouterr().out
        assert ("compared up to step 2: then the run was changed" in said) is (compared == 2)
        assert f"{compared} step" in said


def test_what_differs_here_from_a_bundle_is_told_by_subject(run: Path, tmp_path: Path) -> None:
    assert export(run, tmp_path / "b") == 0
    bundle = open_bundle(tmp_path / "b")
    here = {**bundle.machine, "installed": INSTALLED}
    assert differences(bundle, here) == {}
    here |= {"threads": 3, "installed": {**INSTALLED, "torch": "9.2", "more": "1"}}
    assert differences(bundle, here) == {
        "threads": ["threads: 2 in the bundle, 3 here"],
        "versions": ["torch: 9.1+cpu in the bundle, 9.2 here"],
    }
    manifest = json.loads((tmp_path / "b" / BUNDLE).read_text())
    manifest["machine"]["gpus"] = [{"name": "H200"}, {"name": "H200"}]
    (tmp_path / "b" / BUNDLE).write_text(json.dumps(manifest))
    trained = open_bundle(tmp_path / "b")
    for gpus, told in (([], "none"), ([{"name": "L4"}], "L4")):
        found = differences(trained, {**here, "gpus": gpus})
        assert found["GPUs"] == [f"GPUs: H200, H200 in the bundle, {told} here"]
    assert "GPUs" not in differences(trained, {**here, "gpus": [{"name": "H200"}] * 2})
    assert "GPUs" not in differences(bundle, {**here, "gpus": [{"name": "L4"}]})
    del here["installed"]["torch"]
    assert differences(bundle, here)["versions"] == [
        "torch: 9.1+cpu in the bundle, not installed or recorded here"
    ]


def test_code_of_a_bundle_needs_consent_wherever_it_is_used(run: Path, tmp_path: Path) -> None:
    assert export(run, tmp_path / "b") == 0
    assert needed(load_config("c.yaml")) == ()
    found = {Path(code.what).name for code in needed(load_config(tmp_path / "b" / "config.yaml"))}
    assert found >= {"rewards.py", "judge.py"}


@pytest.mark.parametrize("name", ["b", "b.zip"])
def test_a_killed_export_leaves_no_half_bundle(run: Path, tmp_path: Path, name: str) -> None:
    script = (
        "import os, signal, sys, grpo_tui.ship.bundle as bundle\n"
        "from grpo_tui.cli import main\n"
        "bundle._readme = lambda body: os.kill(os.getpid(), signal.SIGKILL)\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    words = ["export", str(run), "--format", "bundle", "-o", str(tmp_path / name)]
    done = subprocess.run([sys.executable, "-c", script, *words], check=False)
    assert done.returncode == -signal.SIGKILL
    assert not (tmp_path / name).exists()
    assert export(run, tmp_path / name) == 0
    assert [file.name for file in tmp_path.iterdir() if file.name.startswith(".")] == []
    assert export(run, tmp_path / name) == 2


def test_a_run_that_a_bundle_cannot_repeat_is_refused(run: Path, tmp_path: Path) -> None:
    RunSpec(load_config("c.yaml").to_json(), forked_from="/x/checkpoint-4").write(RunFolder(run).spec)
    assert export(run, tmp_path / "b") == 2
    assert not (tmp_path / "b").exists()


STAGES = """\
  stages:
    - {name: easy, steps: 2}
    - name: hard
      steps: 3
      set:
        learning_rate: 1.0e-6
        grpo_tui.dataset: data/hard.jsonl
        grpo_tui.rewards: [{source: "../shared/strict.py:strict", params: {api_key: sk-mine, most: 2}}]
"""


def test_the_bundle_of_a_run_with_stages_holds_the_files_of_each(run: Path, tmp_path: Path) -> None:
    Path("c.yaml").write_text(CONFIG + STAGES)
    Path("data/hard.jsonl").write_text('{"prompt": "b"}\n')
    Path("../shared/strict.py").write_text(
        "import rules\ndef strict(completions, api_key, most, **kw): ...\n"
    )
    Path("../shared/rules.py").write_text("")
    base = load_config("c.yaml")
    first, now = stage_at(base)
    assert now is not None
    trains = replace(now, starts=(0, 2))
    RunSpec(first.to_json(), stage=trains).write(RunFolder(run).spec)
    writer = Writer(open_writer(RunFolder(run).database))
    writer.write(
        [
            r.AttemptStarted(2, 9.0, "here", 1, resumed_from=2),
            r.SettingChanged(2, 2, 9.0, SETTING, "easy", "hard", "config"),
            r.SettingChanged(2, 2, 9.0, "max_steps", 2, 5, "config"),
        ]
    )
    writer.close()
    assert export(run, tmp_path / "b") == 0
    text = (tmp_path / "b" / "config.yaml").read_text()
    _, hard = yaml.safe_load(text)["grpo_tui"]["stages"]
    assert hard["set"]["grpo_tui.dataset"] == "data/hard.jsonl"
    (reward,) = hard["set"]["grpo_tui.rewards"]
    assert (reward["source"], reward["params"]) == ("files/2/strict.py:strict", {"most": 2})
    assert "mine" not in text
    there = tmp_path / "b"
    assert all(
        (there / name).is_file() for name in ("data/hard.jsonl", "files/2/strict.py", "files/2/rules.py")
    )
    manifest = json.loads((there / BUNDLE).read_text())
    assert manifest["resumed_at"] == []
    assert [one["name"] for one in manifest["changes"]] == ["learning_rate"], "made by the user"
    RunSpec(first.to_json(), stage=trains, forked_from="/x/checkpoint-2").write(RunFolder(run).spec)
    assert export(run, tmp_path / "c") == 2


def named(folder: Path) -> None:
    """Name all files of a checkpoint in its marker, as a save does."""
    files = {file.name: file.stat().st_size for file in folder.iterdir() if file.is_file()}
    files.pop(MARKER)
    write_json(folder / MARKER, {"step": 4, "files": files})


def test_the_bundle_of_a_fork_holds_the_checkpoint_it_started_from(run: Path, tmp_path: Path) -> None:
    parent = tmp_path / "runs" / "parent"
    start = checkpoint(parent, 4)
    (start / "training_args.bin").write_text("hf_mine")
    named(start)
    write_json(parent / "run.json", {"config": {}, "forked_from": "/old/runs/grandparent/checkpoint-2"})
    spec = RunSpec(load_config("c.yaml").to_json(), forked_from=str(start), overridden=("beta",))
    spec.write(RunFolder(run).spec)
    assert export(run, tmp_path / "b") == 0
    manifest = json.loads((tmp_path / "b" / BUNDLE).read_text())
    assert manifest["fork"]["parents"] == ["parent@4", "grandparent@2"]
    assert "start/checkpoint-4/model.safetensors" in manifest["files"]
    assert not (tmp_path / "b" / "start" / "checkpoint-4" / "training_args.bin").exists()
    assert "- from parent@4" in (tmp_path / "b" / "README.md").read_text()
    bundle = open_bundle(tmp_path / "b")
    assert bundle.fork == (tmp_path / "b" / "start" / "checkpoint-4", 4, ("beta",))
    shutil.rmtree(tmp_path / "b" / "start")
    with pytest.raises(BundleError, match="missing or incomplete"):
        _ = bundle.fork


def test_of_a_checkpoint_only_its_own_files_without_tokens_are_in_a_bundle(
    run: Path, tmp_path: Path, capsys: Any
) -> None:
    start, mine = checkpoint(tmp_path / "runs" / "parent", 4), tmp_path / "id_rsa"
    mine.write_text("mine")
    named(start)
    for name in ("x.json", "shards/x.json"):
        (start / name).parent.mkdir(exist_ok=True)
        (start / name).symlink_to(mine)
    (start / "folder").symlink_to(checkpoint(tmp_path / "other", 1))
    (start / "shards" / "one.distcp").write_text("1")
    (start / "unnamed.json").write_text("{}")
    RunSpec(load_config("c.yaml").to_json(), forked_from=str(start)).write(RunFolder(run).spec)
    assert export(run, tmp_path / "b") == 0
    there = tmp_path / "b" / "start" / "checkpoint-4"
    assert {str(file.relative_to(there)) for file in there.rglob("*") if file.is_file()} == {
        "config.json", MARKER, "model.safetensors", "shards/one.distcp", "tokenizer_config.json",
        "trainer_state.json",
    }  # fmt: skip
    (start / "config.json").write_text(f'{{"token": "hf_{"a" * 30}"}}')
    (start / MARKER).unlink()
    assert export(run, tmp_path / "c") == 2
    assert "config.json:1 contains an access token" in capsys.readouterr().err
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("new", [False, True])
def test_a_fork_with_a_new_optimizer_is_bundled_without_the_old_one(
    new: bool, run: Path, tmp_path: Path
) -> None:
    """Its own copy of the checkpoint is gone, and the parent's has the optimizer's state."""
    start = checkpoint(tmp_path / "runs" / "parent", 4)
    for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth"):
        (start / name).write_bytes(b"numbers")
    named(start)
    spec = RunSpec(load_config("c.yaml").to_json(), forked_from=str(start), new_optimizer=new)
    spec.write(RunFolder(run).spec)
    assert export(run, tmp_path / "b") == 0
    there = tmp_path / "b" / "start" / "checkpoint-4"
    assert [(there / name).exists() for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth")] == [
        not new, not new, True,
    ]  # fmt: skip
    assert has_new_optimizer(there) is new
    fork = open_bundle(tmp_path / "b").fork
    assert fork is not None, "its marker fits"


def test_a_resume_of_a_fork_from_its_start_limits_no_comparison(run: Path, tmp_path: Path) -> None:
    start = checkpoint(tmp_path / "runs" / "parent", 4)
    named(start)
    writer = Writer(open_writer(RunFolder(run).database))
    for attempt, resumed in ((2, 4), (3, 4), (4, 6)):
        writer.write(
            [
                r.AttemptStarted(attempt, attempt, "here", 1, resumed),
                r.AttemptEnded(attempt, attempt + 0.5, "failed", 4, 1, None),
            ]
        )
    writer.close()
    RunSpec(load_config("c.yaml").to_json(), forked_from=str(start)).write(RunFolder(run).spec)
    assert export(run, tmp_path / "b") == 0
    bundle = open_bundle(tmp_path / "b")
    assert (bundle.manifest["resumed_at"], bundle.comparable_until) == ([6], 6)


def test_a_foreign_run_cannot_put_files_of_the_user_into_a_bundle_unasked(
    run: Path, tmp_path: Path, capsys: Any
) -> None:
    shutil.copytree(run, tmp_path / "theirs")
    assert export(tmp_path / "theirs", tmp_path / "b") == 3
    assert "you did not start this run on this machine" in capsys.readouterr().err
    assert not (tmp_path / "b").exists()
    assert export(tmp_path / "theirs", tmp_path / "b", "--trust") == 0


def test_values_are_compared_bit_for_bit_or_to_rounding() -> None:
    there = [(1, {"loss": 0.5, "step_time": 1.0}), (2, {"loss": float("nan")}), (3, {"loss": 0.25})]
    same = [(1, {"loss": 0.5, "step_time": 9.0}), (2, {"loss": float("nan"), "eval_loss": 1.0})]
    near = [*same, (3, {"loss": 0.25000001})]
    assert verify(there, same, 2, exact=True).differs is None
    assert verify(there, same, None, exact=True).differs == (3, "loss", 0.25, "not logged")
    assert verify(there, near, None, exact=True).differs == (3, "loss", 0.25, 0.25000001)
    assert verify(there, near, None, exact=False).differs is None
    assert verify(there, [*same, (3, {"loss": 0.2501})], None, exact=False).differs is not None
    found = verify(there, same, 2, exact=True)
    assert (found.steps, found.values) == (2, 2)
    before = (0, {"evaluate/pass@1": 0.5})
    found = verify([before, *there], [before, *same], 2, exact=True)
    assert (found.steps, found.values) == (2, 3), "the evaluation before training is no step"


@pytest.mark.parametrize(
    ("run", "folder"),
    [("demo 2", "demo 2"), ("a/b", "run"), ("/etc", "run"), (".hidden", "run"), ("..", "run"), ("", "run")],
)
def test_a_run_is_made_again_beside_the_others_whatever_its_bundle_calls_it(run: str, folder: str) -> None:
    assert _name(SimpleNamespace(manifest={"run": run})) == folder  # type: ignore[arg-type]
    assert _name(SimpleNamespace(manifest={})) == "run"  # type: ignore[arg-type]
