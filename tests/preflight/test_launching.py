"""A launcher that would not start the run as meant is told before, by the launcher's own source."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from grpo_tui.config.accelerate_file import (
    accelerate_settings,
    meeting_port,
    on_a_port,
    options_of,
    ranks_of,
    spans_machines,
)
from grpo_tui.config.resolve import inspect_config
from grpo_tui.core.findings import Finding
from grpo_tui.preflight import machine_findings
from grpo_tui.preflight.static import Launch, static_check
from tests.preflight.machines import A100, machine
from tests.preflight.test_rules import BASE

TWO = "accelerate launch --num_processes 2"
ON_A_PORT = "accelerate launch --main_process_port 1234 --num_processes 2"


@pytest.fixture(autouse=True)
def _no_default_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the file that `accelerate config` may have written on this machine."""
    monkeypatch.setenv("HF_HOME", str(tmp_path))


def found(
    folder: Path, words: str, gpus: int = 2, world: int | None = 2, stages: Any = None, **change: Any
) -> list[Finding]:
    (folder / "rows.jsonl").write_text('{"prompt": "q", "solution": "1"}\n' * 40)
    file = folder / "c.yaml"
    section = {**BASE["grpo_tui"], "launcher": words, **({"stages": stages} if stages else {})}
    file.write_text(yaml.safe_dump({**BASE, **change, "grpo_tui": section}))
    start = Launch(tuple(words.split()), folder / "run")
    checked = static_check(inspect_config(file, world_size=world), start, machine(*[A100] * gpus))
    return [f for f in checked.findings if not f.id.startswith(("batch.", "config.beside"))]


@pytest.mark.parametrize(
    ("words", "said", "fix"),
    [
        ("accelerate launch --num_procesess 2", "Did you mean --num_processes?", TWO),
        ("accelerate launch --num-procesess=2", "Did you mean --num_processes?", f"{TWO[:-2]}=2"),
        (
            "accelerate launch --num-procesess=2 --multi_gpu --use_fsdp",
            "Did you mean --num_processes?",
            f"{TWO[:-2]}=2 --multi_gpu --use_fsdp",
        ),
        (
            "accelerate launch --multi_gpu --num_procesess 2 --use_fsdp",
            "Did you mean --num_processes?",
            "accelerate launch --multi_gpu --num_processes 2 --use_fsdp",
        ),
        (f"{TWO} --multigpu", "Did you mean --multi_gpu?", f"{TWO} --multi_gpu"),
        (f"{TWO} --nonsense_word 3", "has no option --nonsense_word", None),
        ("torchrun --nproc_per_nod3 2", "Did you mean --nproc_per_node?", "torchrun --nproc_per_node 2"),
        (f"{TWO} train.py", "takes 'train.py' for the script", None),
        ("accelerate launch --num_processes two", "needs a whole number; it is 'two'", None),
        (f"{TWO} --mixed_precision bf61", "it knows no, fp16, bf16, fp8", None),
    ],
)
def test_a_word_that_the_launcher_does_not_take_is_named(
    tmp_path: Path, words: str, said: str, fix: str | None
) -> None:
    (finding,) = [f for f in found(tmp_path, words) if f.id == "launch.option"]
    assert said in finding.message
    assert finding.severity == "error"
    assert (finding.fix.value if finding.fix else None) == fix


@pytest.mark.parametrize(
    "words",
    [
        f"{TWO} --multi-gpu --main_process_port=29501 -q --gpu_ids 0,1 --use_fsdp --fsdp_version 2",
        "torchrun --nproc-per-node 2 --standalone --max_restarts=0",
        "torchrun --nproc-per 2",
    ],
)
def test_words_that_the_launcher_takes_pass(tmp_path: Path, words: str) -> None:
    assert [f for f in found(tmp_path, words) if f.id.startswith("launch.")] == []


def test_the_options_are_those_of_the_installed_accelerate() -> None:
    asked = (
        "import json\n"
        "from accelerate.commands.launch import launch_command_parser\n"
        "actions = launch_command_parser()._actions\n"
        "print(json.dumps({s: a.nargs != 0 for a in actions for s in a.option_strings}))\n"
    )
    ran = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    theirs = {
        "--" + n[2:].replace("-", "_") if n[:2] == "--" else n: v for n, v in json.loads(ran.stdout).items()
    }
    assert {name: option.takes_value for name, option in options_of("accelerate").items()} == theirs


def test_more_processes_than_gpus_stop_a_start_on_one_machine(tmp_path: Path) -> None:
    (finding,) = found(tmp_path, TWO, gpus=1)
    assert (finding.id, finding.severity) == ("hardware.too-few", "error")
    assert "2 processes" in finding.message
    assert "--num_processes 1" in finding.message
    (finding,) = found(tmp_path, "accelerate launch --num_processes 2 --num_machines 2", gpus=1)
    assert finding.severity == "warning"
    assert found(tmp_path, TWO, gpus=2) == []


def accelerate_file(folder: Path, **values: Any) -> str:
    body = {"num_machines": 1, "num_processes": 2, "mixed_precision": "bf16", **values}
    (folder / "acc.yaml").write_text(yaml.safe_dump(body))
    return f"accelerate launch --config_file {folder / 'acc.yaml'}"


@pytest.mark.parametrize(
    ("words", "added"),
    [
        (TWO, ON_A_PORT),
        (f"{TWO} --num_machines 1", f"{ON_A_PORT} --num_machines 1"),
        ("torchrun --nproc_per_node 2", "torchrun --standalone --nproc_per_node 2"),
        *((words, words) for words in (
            f"{TWO} --main-process-port=29600", f"{TWO} --main_process_port 0", f"{TWO} --num_machines 2",
            "accelerate launch --num_processes 1", "accelerate launch --config_file gone.yaml",
            "torchrun --nproc_per_node 2 --standalone", "torchrun --nnodes 2", "torchrun --rdzv-endpoint=h:1",
        )),
    ],
)  # fmt: skip
def test_the_processes_meet_on_a_port_of_their_own_unless_the_words_say_where(words: str, added: str) -> None:
    assert " ".join(on_a_port(tuple(words.split()), 1234)) == added


def test_the_processes_meet_where_accelerates_config_says(tmp_path: Path) -> None:
    for values, port in (
        ({}, None),
        ({"main_process_port": 29600}, 29600),
        ({"main_process_port": None}, None),
    ):
        words = tuple(accelerate_file(tmp_path, **values).split())
        assert meeting_port(words) == port
        assert (on_a_port(words, 1234) == words) is (port is not None)
    assert meeting_port((*words, "--main_process_port", "1235")) == 1235


def test_the_file_that_accelerate_reads_unasked_counts_as_a_named_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("accelerate", "launch")
    assert on_a_port(words, 1234) != words
    (tmp_path / "accelerate").mkdir()
    for values in ({"main_process_port": 29600}, {"num_machines": 2, "num_processes": 4}):
        (tmp_path / "accelerate" / "default_config.yaml").write_text(yaml.safe_dump(values))
        assert on_a_port(words, 1234) == words
        named = (*words, "--config_file", accelerate_file(tmp_path).split()[-1])
        assert on_a_port(named, 1234) != named
        assert on_a_port((*words, "--cpu"), 1234) != (*words, "--cpu")
    assert ranks_of(words) == 4
    assert spans_machines(words)
    assert not spans_machines(("torchrun", "--nproc_per_node", "2"))
    monkeypatch.delenv("HF_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert ranks_of(words) is None
    (tmp_path / "huggingface").symlink_to(tmp_path)
    assert ranks_of(words) == 4


def test_torchrun_takes_the_number_of_ranks_from_the_environment_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PET_NPROC_PER_NODE", "4")
    assert ranks_of(("torchrun",)) == 4
    assert ranks_of(("torchrun", "--nproc-per-node", "2")) == 2
    assert ranks_of(("accelerate", "launch")) is None, "which gives torchrun a number of its own"
    monkeypatch.setenv("PET_NPROC_PER_NODE", "gpu")
    assert ranks_of(("torchrun",)) is None


@pytest.mark.parametrize(
    ("flag", "kind"),
    [
        ("--multi_gpu", "MULTI_GPU"),
        ("--use-fsdp", "FSDP"),
        ("--use_megatron_lm", "MEGATRON_LM"),
        ("--tpu", "XLA"),
    ],
)
def test_a_kind_on_the_command_line_wins_over_that_of_the_file(flag: str, kind: str, tmp_path: Path) -> None:
    words = accelerate_file(tmp_path, distributed_type="DEEPSPEED").split()
    assert (accelerate_settings([*words, flag]) or {})["distributed_type"] == kind
    assert (accelerate_settings(words) or {})["distributed_type"] == "DEEPSPEED"


@pytest.mark.parametrize("name", ["NNODES", "MASTER_ADDR", "MASTER_PORT", "RDZV_ENDPOINT", "STANDALONE"])
def test_the_processes_meet_where_the_environment_says(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("torchrun", "--nproc_per_node", "2")
    assert on_a_port(words, 1234) != words
    monkeypatch.setenv(f"PET_{name}", "2")
    assert on_a_port(words, 1234) == words


@pytest.mark.parametrize(
    ("file", "change", "rule", "severity", "said"),
    [
        ({"mixed_precision": "fp16"}, {}, "launch.precision", "warning", "The run trains in bf16"),
        (
            {"mixed_precision": "fp16", "distributed_type": "DEEPSPEED"},
            {},
            "launch.precision",
            "error",
            "DeepSpeed needs one of them in both places",
        ),
        ({"mixed_precision": "bf16"}, {"fp16": True}, "launch.precision", "warning", "config trains in fp16"),
        (
            {"mixed_precision": "fp16"},
            {"bf16": False, "dtype": "bfloat16"},
            "training.precision",
            "error",
            "the first step fails",
        ),
        (
            {"distributed_type": "DEEPSPEED", "deepspeed_config": {"gradient_accumulation_steps": 4}},
            {},
            "sharded.deepspeed-value",
            "error",
            "gradient_accumulation_steps 4",
        ),
    ],
)
def test_accelerates_config_is_held_against_the_training(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    file: dict[str, Any],
    change: dict[str, Any],
    rule: str,
    severity: str,
    said: str,
) -> None:
    monkeypatch.setattr(machine_findings, "installed", lambda name: True)
    (finding,) = found(tmp_path, accelerate_file(tmp_path, **file), **change)
    assert (finding.id, finding.severity) == (rule, severity)
    assert said in finding.message


@pytest.mark.parametrize(("words", "counts"), [("fp16 bf16", []), ("bf16 fp16", ["launch.precision"])])
def test_of_an_option_that_is_given_twice_the_last_one_counts(
    tmp_path: Path, words: str, counts: list[str]
) -> None:
    launcher = " --mixed_precision ".join([accelerate_file(tmp_path), *words.split()])
    assert [one.id for one in found(tmp_path, launcher)] == counts


def test_a_config_of_the_launcher_that_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_findings, "installed", lambda name: True)
    (tmp_path / "broken.yaml").write_text("[")
    words = f"accelerate launch --config_file {tmp_path / 'broken.yaml'} --num_processes 2"
    (finding,) = found(tmp_path, words)
    assert (finding.id, finding.severity) == ("launch.file", "error")
    assert "broken.yaml cannot be read" in finding.message
    inner = {"deepspeed_config_file": str(tmp_path / "zero.json")}
    words = accelerate_file(tmp_path, distributed_type="DEEPSPEED", deepspeed_config=inner)
    (finding,) = found(tmp_path, words)
    assert (finding.id, finding.severity) == ("sharded.deepspeed-file", "error")
    assert "zero.json cannot be read" in finding.message
    (tmp_path / "zero.json").write_text('{"gradient_accumulation_steps": 4}')
    (finding,) = found(tmp_path, words)
    assert finding.id == "sharded.deepspeed-value"


def test_a_server_of_vllm_needs_a_gpu_that_does_not_train(tmp_path: Path) -> None:
    server = {"use_vllm": True, "vllm_mode": "server"}

    def told(gpus: int) -> list[Any]:
        every = found(tmp_path, TWO, gpus, **server)
        return [(f.severity, f.fix and f.fix.value) for f in every if f.id == "hardware.no-server-gpu"]

    assert told(2) == [("warning", "colocate")]
    assert told(3) == []


@pytest.mark.parametrize("kind", ["FSDP", "DEEPSPEED"])
def test_a_stage_cannot_begin_as_it_says_when_accelerates_config_shards_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(machine_findings, "installed", lambda name: True)
    stages: list[dict[str, Any]] = [
        {"name": "a", "steps": 4},
        {"name": "b", "steps": 4, "reference": "stage start", "optimizer": "new", "set": {"beta": 0.1}},
    ]
    words = accelerate_file(tmp_path, distributed_type=kind)
    told = {one.field: one for one in found(tmp_path, words, stages=stages) if one.id == "section.conflict"}
    why = told.pop("grpo_tui.stages.1.reference")
    assert why.severity == "error"
    assert f"stage b: `reference: stage start` is not possible: {kind.lower()} saves the" in why.message
    assert list(told) == (["grpo_tui.stages.1.optimizer"] if kind == "DEEPSPEED" else [])
    assert why.line is not None


def test_deepspeed_in_accelerates_config_has_to_be_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_findings, "installed", lambda name: False)
    (finding,) = found(tmp_path, accelerate_file(tmp_path, distributed_type="DEEPSPEED"))
    assert (finding.id, finding.severity) == ("config.not-installed", "error")
    assert "pip install deepspeed" in finding.message
    assert found(tmp_path, accelerate_file(tmp_path, distributed_type="MULTI_GPU")) == []
