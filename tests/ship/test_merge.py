"""An adapter and its base become one model that answers as they do, or nothing is left behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer, pipeline

from grpo_tui.cli import main
from grpo_tui.config.resolve import load_config
from grpo_tui.demo import DEMO_CONFIG, DEMO_MODEL
from grpo_tui.present.baseline_text import PROGRESS
from grpo_tui.rewards.consent import ConsentError
from grpo_tui.ship import merge_child, merging
from grpo_tui.ship.merge_child import Child, Difference, refuse_different
from grpo_tui.ship.merging import DifferentError, MergeError, merge, refuse_no_room
from grpo_tui.ship.policies import resolve
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.spec import RunSpec
from tests.ship.adapters import make_adapter
from tests.ui.recorded_run import RecordedRun

TEXT = "What is 12 + 30? <answer>42</answer>"


@pytest.fixture(scope="module")
def adapter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_adapter(tmp_path_factory.mktemp("adapters") / "lora")


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # the child's own setting, when it runs in this process


def merged_here(
    adapter: Path, folder: Path, dtype: str = "float32", base: Path = DEMO_MODEL
) -> dict[str, Any]:
    folder.mkdir()
    child = Child(lambda event: None)
    return child.merge(str(base), str(adapter), str(base), dtype, [TEXT], None, str(folder))


def logits(model: Any) -> torch.Tensor:
    ids = AutoTokenizer.from_pretrained(DEMO_MODEL)(TEXT, return_tensors="pt").input_ids
    with torch.inference_mode():
        return model.eval()(input_ids=ids).logits


def with_adapter(folder: Path) -> torch.Tensor:
    base = AutoModelForCausalLM.from_pretrained(DEMO_MODEL, dtype=torch.float32)
    return logits(PeftModel.from_pretrained(base, folder))


def test_the_merged_model_is_whole_and_answers_as_the_adapter(
    adapter: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    destination = tmp_path / "new" / "merged"
    words = ["merge", str(adapter), str(destination), "--dtype", "float32", "--json", "--progress"]
    assert main(words) == 0
    printed = capsys.readouterr()
    told, base = json.loads(printed.out), DEMO_MODEL.name
    stages = [f"looking at {base}", f"loading {base}", "merging", "writing", "checking"]
    assert [line.removeprefix(PROGRESS) for line in printed.err.splitlines()] == stages
    assert told["dtype"] == "float32"
    assert told["max_difference"] < 1e-3
    assert told["rounded_away"] is None
    assert (told["base"], told["adapter"], told["path"]) == (str(DEMO_MODEL), str(adapter), str(destination))
    assert sorted(path.name for path in destination.iterdir()) == sorted(
        path.name for path in DEMO_MODEL.iterdir()
    ), "with its tokenizer, chat template and generation config"
    model = AutoModelForCausalLM.from_pretrained(destination)
    assert model.dtype == torch.float32
    assert model.config.tie_word_embeddings
    difference = (logits(model) - with_adapter(adapter)).abs().max()
    assert (
        difference
        < 1e-3
        < (logits(model) - logits(AutoModelForCausalLM.from_pretrained(DEMO_MODEL))).abs().max()
    )
    asked = [{"role": "user", "content": "What is 3 + 4?"}]
    answer = pipeline("text-generation", model=str(destination))(asked, max_new_tokens=5)
    assert answer[0]["generated_text"][1]["role"] == "assistant"
    assert [path.name for path in destination.parent.iterdir()] == ["merged"]


@pytest.mark.parametrize(
    ("settings", "tied"),
    [
        ({"target_modules": ["q_proj", "lm_head"]}, False),
        ({"target_modules": ["q_proj", "embed_tokens"]}, False),
        ({"target_modules": ["q_proj"], "modules_to_save": ["lm_head"]}, False),
        ({"target_modules": ["q_proj"], "modules_to_save": ["embed_tokens"]}, False),
        ({"use_dora": True}, True),
    ],
)
def test_embeddings_that_no_longer_agree_are_not_tied(settings: Any, tied: bool, tmp_path: Path) -> None:
    adapter = make_adapter(tmp_path / "lora", **settings)
    assert merged_here(adapter, tmp_path / "merged")["max_difference"] < 1e-3
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "merged")
    assert model.config.tie_word_embeddings is tied
    assert (model.get_input_embeddings().weight is model.get_output_embeddings().weight) is tied
    assert (logits(model) - with_adapter(adapter)).abs().max() < 1e-3


def test_a_rounded_model_is_as_near_as_the_rounded_base(adapter: Path, tmp_path: Path) -> None:
    found = merged_here(adapter, tmp_path / "large", "bfloat16")
    assert 0 < found["kl"] <= max(3 * found["base_kl"], 1e-3)
    assert found["rounded_away"] < 0.1
    assert found["top1"] > 0.9
    assert found["size_bytes"] == sum(file.stat().st_size for file in (tmp_path / "large").iterdir())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_what_is_written_has_the_dtype_that_was_asked_for(dtype: str, adapter: Path, tmp_path: Path) -> None:
    assert merged_here(adapter, tmp_path / "merged", dtype)["dtype"] == dtype
    written = [load_file(file) for file in (tmp_path / "merged").glob("*.safetensors")]
    assert {str(weight.dtype) for one in written for weight in one.values()} == {f"torch.{dtype}"}


def test_what_rounding_does_not_explain_is_not_kept() -> None:
    refuse_different(Difference(9, 1e-3, 0.0, 1.0), 0.0, "float32")
    refuse_different(Difference(9, 5.0, 3e-3, 0.5), 1e-3, "bfloat16")
    refuse_different(Difference(9, 5.0, 1e-3, 0.5), 0.0, "float16")
    for found, base, dtype in (
        (Difference(9, 1.1e-3, 0.0, 1.0), 0.0, "float32"),
        (Difference(9, float("nan"), 0.0, 1.0), 0.0, "float32"),
        (Difference(9, 0.0, 3.1e-3, 1.0), 1e-3, "bfloat16"),
        (Difference(9, 0.0, 1.1e-3, 1.0), 1e-4, "bfloat16"),
        (Difference(9, 0.0, float("nan"), 1.0), 1e-4, "float16"),
    ):
        with pytest.raises(DifferentError, match="was not kept"):
            refuse_different(found, base, dtype)


def test_a_wrong_sum_is_not_kept_in_any_dtype(
    adapter: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slightly_wrong(model: Any, dtype: str) -> tuple[Any, float | None]:
        found, lost = merged(model, dtype)
        with torch.no_grad():
            found.model.layers[0].self_attn.q_proj.weight.mul_(1.001)
        return found, lost

    merged = merge_child._merged
    monkeypatch.setattr(merge_child, "_merged", slightly_wrong)
    with pytest.raises(DifferentError, match="a logit differs by"):
        merged_here(adapter, tmp_path / "merged", "bfloat16")
    assert not list((tmp_path / "merged").iterdir())


def test_generation_settings_that_transformers_does_not_save_do_not_stop_a_merge(
    adapter: Path, tmp_path: Path
) -> None:
    base = Path(shutil.copytree(DEMO_MODEL, tmp_path / "base"))
    (base / "generation_config.json").write_text(
        '{"do_sample": false, "temperature": 0.5, "eos_token_id": 2}'
    )
    merged_here(adapter, tmp_path / "merged", base=base)
    written = json.loads((tmp_path / "merged" / "generation_config.json").read_text())
    assert (written["temperature"], written["eos_token_id"]) == (0.5, 2)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RecordedRun]:
    made = RecordedRun(tmp_path / "run")
    made.advance(1)
    yield made
    made.close()


def trained(run: RecordedRun, adapter: Path, **settings: Any) -> str:
    """Let a run have a checkpoint with an adapter; returns the checkpoint as a word."""
    saved = load_config(DEMO_CONFIG).to_json()
    saved["model_args"] |= {"use_peft": True, **settings}
    saved["grpo"] |= {"trust_remote_code": bool(settings.get("trust_remote_code"))}
    RunSpec(saved).write(run.folder.spec)
    checkpoint = shutil.copytree(adapter, run.folder.root / "checkpoint-2")
    (checkpoint / "trainer_state.json").write_text("{}")
    return f"{run.folder.root}@2"


def test_a_small_adapter_of_a_quantized_base_is_warned_of_twice(
    run: RecordedRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    word = trained(run, make_adapter(tmp_path / "lora", 1e-5), load_in_4bit=True)
    assert main(["merge", word, str(tmp_path / "merged")]) == 0
    told = capsys.readouterr().out
    assert "checkpoint-2 (step 2) into" in told
    assert ", bfloat16\n" in told, "as the base is stored"
    assert "warning: rounding to bfloat16 undoes 99 % of the adapter's changes to the weights." in told
    assert (
        "note: the adapter was trained on a quantized base and is merged into the full-precision one" in told
    )
    assert "differ is not known: " in told or "KL " in told.split("note:")[1]
    assert f"`grpo-tui compare {word} {tmp_path / 'merged'}`" in told
    assert told.splitlines()[-1] == f"serve   vllm serve {tmp_path / 'merged'}"


@pytest.mark.usefixtures("no_yes")
def test_code_of_a_foreign_runs_model_is_asked_about_first(
    run: RecordedRun, adapter: Path, tmp_path: Path
) -> None:
    word = trained(run, adapter, trust_remote_code=True)
    with pytest.raises(ConsentError, match="trust_remote_code"):
        merge(resolve(word), tmp_path / "merged")
    assert not (tmp_path / "merged").exists()


def refused(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    assert main(["merge", *map(str, words)]) == 2
    return capsys.readouterr().err


def test_refusals_say_why_and_leave_everything_as_it_was(
    adapter: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "mine").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    assert "exists and is not empty" in refused(capsys, adapter, taken)
    assert "exists and is not a folder. Name another one" in refused(capsys, adapter, taken / "mine")
    assert (taken / "mine").read_text() == ""
    assert "exists and is not a folder" in refused(capsys, adapter, tmp_path / "link")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text("{}")
    (tmp_path / "run" / "run.db").write_text("")
    assert "taken for a checkpoint" in refused(capsys, adapter, tmp_path / "run" / "checkpoint-4")
    shutil.rmtree(tmp_path / "run")
    whole = refused(capsys, DEMO_MODEL, tmp_path / "x")
    assert f"it is a whole model, which needs no merge. Serve it with `vllm serve {DEMO_MODEL}`" in whole
    assert "no such run, model folder or adapter folder" in refused(capsys, tmp_path / "none", tmp_path / "x")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "taken"]
    assert [path.name for path in taken.iterdir()] == ["mine"]


def test_an_adapter_or_a_base_that_cannot_be_merged_exactly_is_refused(adapter: Path, tmp_path: Path) -> None:
    base = Path(shutil.copytree(DEMO_MODEL, tmp_path / "base"))
    config = json.loads((base / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "bitsandbytes", "load_in_4bit": True}
    (base / "config.json").write_text(json.dumps(config))
    with pytest.raises(MergeError, match="is stored quantized"):
        merged_here(adapter, tmp_path / "a", base=base)
    other = Path(shutil.copytree(adapter, tmp_path / "other"))
    (other / "adapter_config.json").write_text(json.dumps({"peft_type": "IA3", "target_modules": ["q_proj"]}))
    with pytest.raises(MergeError, match=r"only LoRA adapters can be merged, and .* is of the kind IA3"):
        merged_here(other, tmp_path / "b")


def test_a_merge_that_fails_leaves_nothing(adapter: Path, tmp_path: Path) -> None:
    broken = Path(shutil.copytree(adapter, tmp_path / "broken"))
    weights = load_file(broken / "adapter_model.safetensors")
    save_file(
        {name: weight * float("nan") for name, weight in weights.items()},
        broken / "adapter_model.safetensors",
    )
    with pytest.raises(MergeError, match="NaNs detected in the merged weights"):
        merge(resolve(str(broken)), tmp_path / "merged")
    assert [path.name for path in tmp_path.iterdir()] == ["broken"]


def test_memory_and_disk_are_looked_at_before() -> None:
    refuse_no_room(10**9, "float32", 6 * 10**9, 5 * 10**9)
    with pytest.raises(
        MergeError, match=r"not enough memory: merging 1B parameters needs about 5\.3 GB, and 5\.0"
    ):
        refuse_no_room(10**9, "bfloat16", 5 * 10**9, 5 * 10**9)
    with pytest.raises(MergeError, match=r"not enough disk space: .* 4\.2 GB, and 4\.0 GB are free"):
        refuse_no_room(10**9, "float32", 6 * 10**9, 4 * 10**9)
    refuse_no_room(10**9, "bfloat16", 6 * 10**9, 4 * 10**9)


def test_what_a_killed_merge_left_is_cleared_and_what_it_links_to_stays(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "weights").write_text("of a person")
    left = tmp_path / ".merged.merging"
    (left / "half").mkdir(parents=True)
    (left / "file").write_text("cut off")
    (left / "link").symlink_to(kept)
    with merging._beside(tmp_path / "merged") as beside:
        assert (beside, list(beside.iterdir())) == (left, [])
        with (
            pytest.raises(MergeError, match="another merge is writing"),
            merging._beside(tmp_path / "merged"),
        ):
            pass
    assert not left.exists()
    assert (kept / "weights").read_text() == "of a person"


@pytest.mark.parametrize(
    ("name", "made", "why"),
    [
        ("merged", "", ""),
        ("merged", "empty", ""),
        ("merged", "full", "exists and is not empty"),
        ("merged", "file", "exists and is not a folder"),
        ("merged", "link", "exists and is not a folder"),
        ("checkpoint-4", "", "would be taken for a checkpoint of its run"),
        ("checkpoint-four", "", ""),
        ("step-4", "", ""),
    ],
)
def test_a_destination_that_holds_something_is_refused(
    name: str, made: str, why: str, tmp_path: Path
) -> None:
    RunFolder(tmp_path).spec.write_text("{}")
    RunFolder(tmp_path).database.touch()
    place, other = tmp_path / name, tmp_path / "other"
    if made == "file":
        place.touch()
    elif made == "link":
        other.mkdir()
        place.symlink_to(other)
    elif made:
        place.mkdir()
        if made == "full":
            (place / "a").touch()
    if why:
        with pytest.raises(MergeError, match=why):
            merging._refuse_taken(place)
    else:
        merging._refuse_taken(place)


@pytest.mark.parametrize("known", [False, True])
def test_a_model_is_loaded_on_the_cpu_with_the_environment_and_the_arguments_of_its_run(
    known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    monkeypatch.setenv("OF_THE_RUN", "before")
    config = load_config(DEMO_CONFIG, ["model_revision=v2"])
    config = replace(config, env={"OF_THE_RUN": "now", "CUDA_VISIBLE_DEVICES": "1"})
    found = merge_child._prepared(config.to_json() if known else None)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == ""
    assert os.environ["OF_THE_RUN"] == ("now" if known else "before")
    assert found.get("revision") == ("v2" if known else None)
    assert found.keys().isdisjoint(merge_child.OF_TRAINING)


def test_a_killed_merge_leaves_no_folder_and_the_next_one_clears_up(adapter: Path, tmp_path: Path) -> None:
    destination, beside = tmp_path / "merged", tmp_path / ".merged.merging"
    words = [sys.executable, "-m", "grpo_tui", "merge", str(adapter), str(destination)]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while not beside.exists() or not (children := psutil.Process(process.pid).children()):
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGSTOP)
        with pytest.raises(MergeError, match="another merge is writing"):
            merge(resolve(str(adapter)), destination)
    finally:
        process.kill()
        process.wait()
    psutil.wait_procs(children)
    assert not destination.exists()
    (beside / "half").mkdir(exist_ok=True)
    (beside / "half" / "model.safetensors").write_text("cut off")
    destination.mkdir()
    merge(resolve(str(adapter)), destination)
    assert (destination / "model.safetensors").exists()
    assert not (destination / "half").exists()
    assert not beside.exists()


@pytest.mark.parametrize("kind", ["ForSequenceClassification", "ForCausalLM", ""])
def test_a_model_is_loaded_with_its_own_class_or_as_a_language_model(kind: str, tmp_path: Path) -> None:
    base = Path(shutil.copytree(DEMO_MODEL, tmp_path / "base"))
    config = json.loads((base / "config.json").read_text())
    (written,) = config.pop("architectures")
    wanted = written.replace("ForCausalLM", kind or "ForCausalLM")
    (base / "config.json").write_text(json.dumps(config | ({"architectures": [wanted]} if kind else {})))
    assert type(merge_child._load(str(base), "float32", {})).__name__ == wanted


def test_a_model_of_a_quantized_base_is_compared_with_what_was_trained(
    adapter: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = merge_child._load

    def coarse(model: str, dtype: str, arguments: dict[str, Any]) -> Any:
        """A base of 8 steps for each weight, in place of bitsandbytes."""
        steps = dict(arguments).pop("quantization_config", None)
        found = load(model, dtype, {key: arguments[key] for key in arguments if key != "quantization_config"})
        for weight in found.parameters() if steps else ():
            weight.data = (weight.data * steps).round() / steps
        return found

    monkeypatch.setattr(merge_child, "_load", coarse)
    config = load_config(DEMO_CONFIG).to_json()
    config["model_args"]["load_in_4bit"] = True
    child = Child(lambda event: None)

    def told(steps: int) -> dict[str, Any]:
        monkeypatch.setattr(merge_child, "_quantization", lambda model_args: steps)
        folder = tmp_path / str(steps)
        folder.mkdir()
        words = (str(DEMO_MODEL), str(adapter), str(DEMO_MODEL), "float32", [TEXT], config, str(folder))
        return child.merge(*words)

    fine, rough = told(1 << 16), told(8)
    assert fine["as_trained"]["tokens"] == fine["tokens"]
    assert fine["as_trained"]["max_difference"] < 0.1 < rough["as_trained"]["max_difference"]
    assert fine["as_trained"]["kl"] < rough["as_trained"]["kl"]
    assert merged_here(adapter, tmp_path / "plain")["as_trained"] is None
