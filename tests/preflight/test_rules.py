"""Rules that neither GRPOConfig nor an import would tell: each finds its fault, and its fix takes it away."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from grpo_tui.config.draft import Draft
from grpo_tui.config.resolve import inspect_config
from grpo_tui.config.section import Section
from grpo_tui.config.settings import REMOVE, Settings
from grpo_tui.config.trl_fields import load_fields
from grpo_tui.config.yaml_lines import YamlDocument
from grpo_tui.demo import DEMO_MODEL
from grpo_tui.preflight.facts import Facts, ModelFacts, Whereabouts
from grpo_tui.preflight.machine import Machine, ServerAnswer
from grpo_tui.preflight.machine_findings import window
from grpo_tui.preflight.model_findings import facts_findings
from grpo_tui.preflight.report import Preflight
from grpo_tui.preflight.run import check
from grpo_tui.preflight.static import Launch
from tests.preflight.machines import A100, T4, machine, serving, shape

BASE: dict[str, Any] = {
    "model_name_or_path": str(DEMO_MODEL),
    "per_device_train_batch_size": 8,
    "max_steps": 100,
    "save_steps": 50,
    "reward_funcs": ["accuracy_reward"],
    "grpo_tui": {"dataset": "rows.jsonl"},
}
HUB = "Qwen/Qwen2.5-0.5B-Instruct"


def look(
    folder: Path,
    change: dict[str, Any],
    where: Machine | None = None,
    start: Launch | None = None,
    world: int | None = 1,
) -> Preflight:
    (folder / "rows.jsonl").write_text('{"prompt": "q", "solution": "1"}\n' * 40)
    file = folder / "c.yaml"
    file.write_text(yaml.safe_dump({**copy.deepcopy(BASE), **change}, sort_keys=False))
    return check(
        inspect_config(file, world_size=world),
        start or Launch(root=folder / "run"),
        parts=("static",),
        machine=where or machine(A100),
    )


# name: what is changed, the rule that must speak, the severity, the field.
CASES: dict[str, tuple[dict[str, Any], str, str, str]] = {
    "fp16 on float16 weights": ({"fp16": True, "dtype": "float16"}, "training.precision", "error", "dtype"),
    "fp16 on bfloat16 weights": ({"fp16": True, "dtype": "bfloat16"}, "training.precision", "error", "dtype"),
    "warm-up of constant": (
        {"lr_scheduler_type": "constant", "warmup_steps": 10},
        "training.no-warmup",
        "warning",
        "warmup_steps",
    ),
    "warm-up beyond the end": ({"warmup_steps": 200}, "training.warmup-too-long", "warning", "warmup_steps"),
    "eval keys unused": ({"eval_steps": 20}, "config.unused", "warning", "eval_steps"),
    "never evaluated": (
        {"eval_strategy": "steps", "eval_steps": 500},
        "training.never-evaluates",
        "warning",
        "eval_steps",
    ),
    "galore targets": ({"optim": "galore_adamw"}, "training.optimizer-targets", "error", "optim"),
    "columns removed": (
        {"remove_unused_columns": True},
        "training.columns-removed",
        "error",
        "remove_unused_columns",
    ),
    "label smoothing": (
        {"label_smoothing_factor": 0.1},
        "config.unused",
        "warning",
        "label_smoothing_factor",
    ),
    "sampling strategy": (
        {"train_sampling_strategy": "group_by_length"},
        "config.unused",
        "warning",
        "train_sampling_strategy",
    ),
    "best never saved": (
        {"save_strategy": "best", "metric_for_best_model": "eval_reward"},
        "training.best-without-eval",
        "error",
        "save_strategy",
    ),
    "GSPO with the default loss": (
        {"importance_sampling_level": "sequence"},
        "grpo.loss-level",
        "warning",
        "importance_sampling_level",
    ),
    "LUSPO by token": ({"loss_type": "luspo"}, "grpo.loss-level", "warning", "loss_type"),
    "VESPO by sequence": (
        {"loss_type": "vespo", "importance_sampling_level": "sequence"},
        "grpo.loss-level",
        "warning",
        "importance_sampling_level",
    ),
    "CISPO cap": ({"loss_type": "cispo"}, "grpo.cispo-cap", "warning", "loss_type"),
    "clip order": ({"epsilon_high": 0.1}, "grpo.clip-order", "warning", "epsilon_high"),
    "delta": ({"delta": 1.1}, "grpo.delta", "warning", "delta"),
    "synchronised without reference": (
        {"sync_ref_model": True},
        "grpo.no-reference",
        "error",
        "sync_ref_model",
    ),
    "synchronised with LoRA": (
        {"sync_ref_model": True, "beta": 0.04, "use_peft": True},
        "grpo.no-reference",
        "error",
        "sync_ref_model",
    ),
    "entropy bounds": (
        {"use_adaptive_entropy": True, "entropy_coef_min": 2.0},
        "grpo.entropy-bounds",
        "error",
        "entropy_coef_min",
    ),
    "all weights 0": ({"reward_weights": [0.0]}, "grpo.no-weight", "error", "reward_weights"),
    "learning rate": (
        {"learning_rate": 5.0, "model_name_or_path": HUB},
        "grpo.rate-high",
        "warning",
        "learning_rate",
    ),
    "no clipping": ({"max_grad_norm": 0.0}, "grpo.no-clipping", "warning", "max_grad_norm"),
    "scaled elsewhere": (
        {"multi_objective_aggregation": "normalize_then_sum", "scale_rewards": "batch"},
        "config.unused",
        "warning",
        "scale_rewards",
    ),
    "liger fused": (
        {"use_liger_kernel": True, "liger_kernel_config": {"fused_linear_cross_entropy": True}},
        "grpo.liger-fused",
        "error",
        "liger_kernel_config.fused_linear_cross_entropy",
    ),
    "paged is renamed": (
        {"use_transformers_paged": True},
        "config.deprecated",
        "warning",
        "use_transformers_paged",
    ),
    "SAPO's temperature alone": (
        {"sapo_temperature_neg": 1.2},
        "config.unused",
        "warning",
        "sapo_temperature_neg",
    ),
    "vLLM's keys alone": ({"vllm_mode": "server"}, "config.unused", "warning", "vllm_mode"),
    "server keys colocated": (
        {"use_vllm": True, "vllm_server_port": 8001},
        "config.unused",
        "warning",
        "vllm_server_port",
    ),
    "VESPO with vLLM": ({"use_vllm": True, "loss_type": "vespo"}, "vllm.vespo-mode", "error", "loss_type"),
    "truncated sampling": (
        {"use_vllm": True, "temperature": 0.6, "top_p": 0.8},
        "vllm.truncated-sampling",
        "warning",
        "top_p",
    ),
    "tensor parallel": (
        {"use_vllm": True, "vllm_tensor_parallel_size": 2},
        "vllm.tensor-parallel",
        "error",
        "vllm_tensor_parallel_size",
    ),
    "no room for a prompt": (
        {"use_vllm": True, "vllm_max_model_length": 512},
        "vllm.context",
        "error",
        "vllm_max_model_length",
    ),
    "quantized alone": ({"load_in_4bit": True}, "lora.quantized-alone", "error", "load_in_4bit"),
    "LoRA's keys alone": ({"lora_r": 32}, "config.unused", "warning", "lora_r"),
    "adapter on the head": (
        {"use_peft": True, "lora_target_modules": ["q_proj", "lm_head"]},
        "lora.head",
        "error",
        "lora_target_modules",
    ),
    "LoRA's task": ({"use_peft": True, "lora_task_type": "SEQ_CLS"}, "lora.task", "error", "lora_task_type"),
    "model key renamed": (
        {"model_init_kwargs": {"use_flash_attention_2": True}},
        "config.removed-key",
        "error",
        "model_init_kwargs.use_flash_attention_2",
    ),
    "model dtype renamed": (
        {"model_init_kwargs": {"torch_dtype": "bfloat16"}},
        "config.removed-key",
        "error",
        "model_init_kwargs.torch_dtype",
    ),
    "model key ignored": (
        {"model_init_kwargs": {"low_cpu_mem_usage": True}},
        "config.removed-key",
        "warning",
        "model_init_kwargs.low_cpu_mem_usage",
    ),
    "model key mistyped": (
        {"model_init_kwargs": {"attn_implementaton": "sdpa"}},
        "nested.unknown-key",
        "error",
        "model_init_kwargs.attn_implementaton",
    ),
    "attention's name": (
        {"attn_implementation": "flash-attention-2"},
        "nested.attention",
        "error",
        "attn_implementation",
    ),
    "temperature behind its back": (
        {"generation_kwargs": {"temperature": 0.5}},
        "nested.elsewhere",
        "warning",
        "generation_kwargs.temperature",
    ),
    "temperature as a whole number": (
        {"generation_kwargs": {"temperature": 2}},
        "nested.whole-number",
        "error",
        "generation_kwargs.temperature",
    ),
    "greedy": (
        {"generation_kwargs": {"do_sample": False}},
        "nested.greedy",
        "error",
        "generation_kwargs.do_sample",
    ),
    "generation key mistyped": (
        {"generation_kwargs": {"no_repeat_ngram": 3}},
        "nested.unknown-key",
        "error",
        "generation_kwargs.no_repeat_ngram",
    ),
    "template's own key": (
        {"chat_template_kwargs": {"add_generation_prompt": False}},
        "nested.taken",
        "error",
        "chat_template_kwargs.add_generation_prompt",
    ),
    "a word that the template does not have": (
        {"chat_template_kwargs": {"enable_thinking": False}},
        "config.unused",
        "warning",
        "chat_template_kwargs.enable_thinking",
    ),
    "vLLM's key mistyped": (
        {"use_vllm": True, "generation_kwargs": {"stop_tokens_ids": [1]}},
        "nested.unknown-key",
        "error",
        "generation_kwargs.stop_tokens_ids",
    ),
    "transformers' key with vLLM": (
        {"use_vllm": True, "generation_kwargs": {"no_repeat_ngram_size": 3}},
        "nested.unknown-key",
        "error",
        "generation_kwargs.no_repeat_ngram_size",
    ),
    "schedule key": (
        {"lr_scheduler_type": "cosine", "lr_scheduler_kwargs": {"num_cycle": 1}},
        "nested.unknown-key",
        "error",
        "lr_scheduler_kwargs.num_cycle",
    ),
    "schedule without its option": (
        {"lr_scheduler_type": "warmup_stable_decay"},
        "nested.schedule",
        "error",
        "lr_scheduler_type",
    ),
    "lowest rate missing": (
        {"lr_scheduler_type": "cosine_with_min_lr"},
        "nested.schedule",
        "error",
        "lr_scheduler_type",
    ),
    "polynomial's end": (
        {"lr_scheduler_type": "polynomial", "learning_rate": 1.0e-8},
        "nested.schedule",
        "error",
        "lr_scheduler_kwargs.lr_end",
    ),
    "checkpointing key": (
        {"gradient_checkpointing_kwargs": {"use_reentrent": False}},
        "nested.unknown-key",
        "error",
        "gradient_checkpointing_kwargs.use_reentrent",
    ),
    "accumulation twice": (
        {
            "gradient_accumulation_steps": 2,
            "accelerator_config": {"gradient_accumulation_kwargs": {"num_steps": 4}},
        },
        "config.conflict",
        "error",
        "accelerator_config.gradient_accumulation_kwargs.num_steps",
    ),
    "PEFT's own mapping": ({"peft_config": {"r": 8}}, "config.unknown-key", "error", "peft_config"),
    "FSDP alone": ({"fsdp": True}, "sharded.one-process", "error", "fsdp"),
    "FSDP config alone": ({"fsdp_config": {"version": 2}}, "config.unused", "warning", "fsdp_config"),
    "DeepSpeed's values": (
        {"deepspeed": {"gradient_accumulation_steps": 4}},
        "sharded.deepspeed-value",
        "error",
        "deepspeed",
    ),
}


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"lora_r": 32}, "lora_r is not used"),
        ({"use_dora": True}, "use_dora is not used"),
        ({"lora_r": 32, "use_rslora": True}, "lora_r and 1 more of its keys are not used"),
        ({"lora_r": 32, "use_peft": True}, None),
        ({"temperature": 0.9}, None),
    ],
)
def test_keys_of_an_adapter_are_unused_without_one_and_counted(
    keys: dict[str, Any], said: str | None, tmp_path: Path
) -> None:
    told = [f.message for f in look(tmp_path, keys).findings if f.id == "config.unused"]
    assert [message.partition(":")[0] for message in told] == ([said] if said else [])


@pytest.mark.parametrize(
    ("key", "hint", "field", "value"),
    [
        ("split_batchs", "Did you mean split_batches?", "accelerator_config.split_batches", True),
        ("zebra", "Known keys: ", "accelerator_config.zebra", REMOVE),
    ],
)
def test_a_key_inside_a_mapping_is_named_anew_when_one_is_near_and_else_removed(
    key: str, hint: str, field: str, value: Any, tmp_path: Path
) -> None:
    found = look(tmp_path, {"accelerator_config": {key: True}}).findings
    (wrong,) = [f for f in found if f.id == "nested.unknown-key"]
    assert f"unknown key {key} in accelerator_config" in wrong.message
    assert hint in wrong.message
    assert wrong.fix is not None
    assert (wrong.fix.field, wrong.fix.value) == (field, value)


@pytest.mark.parametrize(
    ("value", "says", "fix"),
    [
        ("fa2", "unknown value fa2. Did you mean flash_attention_2?", "flash_attention_2"),
        ("Eagr", "unknown value Eagr. Did you mean eager?", "eager"),
        ("zebra", ", or a Hub kernel", None),
    ],
)
def test_an_attention_that_there_is_not_comes_with_the_nearest_or_with_all(
    value: str, says: str, fix: str | None, tmp_path: Path
) -> None:
    for change in ({"attn_implementation": value}, {"model_init_kwargs": {"attn_implementation": value}}):
        (wrong,) = [f for f in look(tmp_path, change).findings if f.id == "nested.attention"]
        assert wrong.message.endswith(says)
        assert ("Choices: " in wrong.message) is (fix is None)
        assert (wrong.fix and wrong.fix.value) == fix


@pytest.mark.parametrize("name", CASES)
def test_a_rule_finds_its_fault_and_its_fix_takes_it_away(name: str, tmp_path: Path) -> None:
    change, rule, severity, field = CASES[name]
    where = machine(A100)
    found = look(tmp_path, change, where)
    mine = [f for f in found.findings if (f.id, f.severity, f.field) == (rule, severity, field)]
    assert mine, [(f.id, f.severity, f.field, f.message) for f in found.findings]
    assert mine[0].fix is not None
    draft = Draft.open(tmp_path / "c.yaml")
    draft.apply(mine[0])
    source, start = inspect_config(tmp_path / "c.yaml", text=draft.text), Launch(root=tmp_path / "run")
    after = check(source, start, parts=("static",), machine=where)
    assert (rule, field) not in {(f.id, f.field) for f in after.findings}


def test_the_base_of_the_table_is_clean(tmp_path: Path) -> None:
    found = look(tmp_path, {})
    assert found.findings == ()
    assert found.advice == ()


@pytest.mark.parametrize(
    ("change", "where", "rule", "severity"),
    [
        ({}, machine(), "hardware.no-gpu", "error"),
        ({"use_cpu": True, "fp16": True}, machine(A100), "hardware.fp16", "error"),
        ({"use_cpu": True, "tf32": True}, machine(A100), "hardware.tf32", "error"),
        ({"use_cpu": True, "load_in_8bit": True}, machine(A100), "hardware.quantized", "error"),
        ({"use_cpu": True, "fp16": True}, machine(), "hardware.fp16", "error"),
        ({"fp16": True}, machine(), "hardware.no-gpu", "error"),
        ({"use_cpu": False, "bf16": False, "tf32": True}, machine(), "hardware.tf32", "error"),
        ({"bf16": False, "use_vllm": True}, machine(), "hardware.no-gpu", "error"),
        ({"fp16": True, "tf32": True}, machine(T4), "hardware.tf32", "error"),
        ({}, machine(T4), "hardware.bf16", "warning"),
        (
            {"fp16": True, "attn_implementation": "flash_attention_2"},
            machine(T4),
            "hardware.attention",
            "error",
        ),
        ({"use_peft": True}, machine(A100, peft="0.5.0"), "packages.version", "error"),
        ({"use_peft": True}, machine(A100, peft="0.5.0+local"), "packages.version", "error"),
        ({"optim": "paged_adamw_8bit"}, machine(A100, bitsandbytes=None), "config.not-installed", "error"),
        ({"optim": "adamw_8bit"}, machine(A100, bitsandbytes=None), "config.not-installed", "error"),
        ({"optim": "adamw_torch_8bit"}, machine(A100, torchao=None), "config.not-installed", "error"),
        (
            {"attn_implementation": "flash_attention_2"},
            machine(A100, flash_attn=None, kernels=None),
            "config.not-installed",
            "error",
        ),
        (
            {"attn_implementation": "an/attention"},
            machine(A100, kernels=None),
            "config.not-installed",
            "error",
        ),
        ({}, machine(A100, math_verify=None), "config.not-installed", "error"),
        ({"report_to": "wandb"}, machine(A100), "packages.login", "error"),
        ({"push_to_hub": True}, machine(A100), "packages.login", "error"),
        ({"use_vllm": True, "vllm_mode": "server"}, machine(A100), "vllm.server", "error"),
        (
            {"attn_implementation": "flash_attention_2", "bf16": False},
            machine(A100),
            "hardware.attention-dtype",
            "error",
        ),
        ({}, machine(A100, A100, env={"CUDA_VISIBLE_DEVICES": "0,1"}), "launch.several-gpus", "error"),
    ],
)
def test_what_the_machine_lacks_is_found(
    change: dict[str, Any], where: Machine, rule: str, severity: str, tmp_path: Path
) -> None:
    found = look(tmp_path, change, where)
    assert (rule, severity) in {(f.id, f.severity) for f in found.findings}, found.findings


def test_a_disk_that_the_checkpoints_would_fill_is_told_with_what_saves_less(tmp_path: Path) -> None:
    def told(free: int, **change: Any) -> list[Any]:
        look(tmp_path, change)
        where, start = replace(machine(A100), free=lambda path: free), Launch(root=tmp_path / "run")
        found = check(inspect_config(tmp_path / "c.yaml"), start, parts=("static", "plan"), machine=where)
        disk = [f for f in found.findings if f.id == "plan.disk"]
        return [(f.severity, f.fix and (f.fix.field, f.fix.value)) for f in disk]

    assert told(1 << 20) == [("error", ("save_total_limit", 2))]
    assert told(1 << 20, save_total_limit=2) == [("error", ("save_only_model", True))]
    assert told(1 << 40) == []


def test_the_window_of_vllm_is_the_installed_trls() -> None:
    wanted = window("vllm")
    assert wanted.contains("0.25.0")
    assert not wanted.contains("0.8.0")
    assert not wanted.contains("0.99.0")


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"use_cpu": True, "bf16": False}, machine()),
        ({"fp16": True}, machine(T4)),
        ({}, replace(machine(), other_device=True)),
        ({"report_to": "wandb"}, machine(A100, accounts=("wandb",))),
        ({"report_to": "wandb"}, machine(A100, env={"WANDB_MODE": "offline"})),
        ({"attn_implementation": "flash_attention_2"}, machine(A100, flash_attn=None, kernels="0.18.3")),
        ({"attn_implementation": "an/attn"}, machine(A100, kernels="0.18.3")),
        ({"attn_implementation": "sdpa"}, machine(A100, flash_attn=None, kernels=None)),
        ({"optim": "adamw_torch_fused"}, machine(A100, bitsandbytes=None)),
        ({"use_peft": True}, machine(A100, peft="0.19.0rc1")),
        ({"use_peft": True}, machine(A100, peft="0.19.0.dev0+local")),
        ({"use_peft": True}, machine(A100, peft="built here")),
        ({}, machine(replace(A100, capability=None))),
        ({"tf32": True}, machine(replace(T4, capability=None), A100, env={"CUDA_VISIBLE_DEVICES": "1"})),
    ],
)
def test_what_the_machine_has_is_not_missed(change: dict[str, Any], where: Machine, tmp_path: Path) -> None:
    found = look(tmp_path, change, where)
    asked = {"hardware", "packages"}
    assert [f for f in found.findings if f.id.partition(".")[0] in asked] == []


SERVER = {"use_vllm": True, "vllm_mode": "server", "vllm_server_host": "127.0.0.1", "vllm_server_port": 8123}
ALIAS = {"id": "an alias", "root": str(DEMO_MODEL)}


@pytest.mark.parametrize(
    ("answers", "rule"),
    [
        ({"/health": ServerAnswer(503)}, "vllm.server"),
        (
            {
                "/health": ServerAnswer(200),
                "/v1/models": ServerAnswer(200, {"data": [{"id": "other/model"}]}),
            },
            "vllm.other-model",
        ),
        ({**serving(str(DEMO_MODEL)), "json": ServerAnswer(404)}, "vllm.no-weights"),
        (
            {
                **serving(str(DEMO_MODEL)),
                "json": ServerAnswer(
                    200, {"vllm_config": {"model_config": {"logprobs_mode": "raw_logprobs"}}}
                ),
            },
            "vllm.logprobs",
        ),
        (serving(str(DEMO_MODEL)), None),
        (serving(f"{DEMO_MODEL.parent}/../{DEMO_MODEL.parent.name}/{DEMO_MODEL.name}"), None),
        ({**serving("an alias"), "/v1/models": ServerAnswer(200, {"data": [ALIAS]})}, None),
        (serving(str(DEMO_MODEL.parent)), "vllm.other-model"),
        (serving(f"{DEMO_MODEL}-none"), "vllm.other-model"),
        ({**serving(""), "/v1/models": ServerAnswer(200, {"data": []})}, None),
    ],
)
def test_a_vllm_server_is_asked_what_it_serves(
    answers: dict[str, ServerAnswer], rule: str | None, tmp_path: Path
) -> None:
    found = look(tmp_path, SERVER, machine(A100, answers=answers))
    said = {f.id for f in found.findings if f.id.startswith("vllm.")}
    assert said == ({rule} if rule else set())
    assert f"trl vllm-serve --model {DEMO_MODEL} --host 127.0.0.1 --port 8123" in found.notes[0]


@pytest.mark.parametrize(
    ("server", "field"),
    [
        (SERVER, "vllm_server_port"),
        ({**SERVER, "vllm_server_base_url": "http://127.0.0.1:8123"}, "vllm_server_base_url"),
        ({"use_vllm": True, "vllm_mode": "server"}, "vllm_mode"),
    ],
)
def test_a_server_that_is_not_there_is_told_at_the_setting_that_names_it(
    server: dict[str, object], field: str, tmp_path: Path
) -> None:
    found = look(tmp_path, server, machine(A100)).findings
    assert [f.field for f in found if f.id == "vllm.server"] == [field]


def test_what_answers_on_the_port_of_a_server_and_is_none_is_named(tmp_path: Path) -> None:
    taken = machine(A100, answers={"/health": ServerAnswer(404)}, taken=(8123,))
    (found,) = [f for f in look(tmp_path, SERVER, taken).findings if f.id == "vllm.server"]
    assert "is not a vLLM server that is ready (HTTP 404): process 77 (python of ana)" in found.message
    assert "vllm_server_port: 8124" in found.message


def test_several_processes_need_a_free_port_and_a_whole_batch(tmp_path: Path) -> None:
    start = Launch(("accelerate", "launch", "--num_processes", "2"), tmp_path / "run")
    two = machine(A100, A100, taken=(29500,))
    assert look(tmp_path, {}, two, start, 2).findings == (), "a start takes a free one"
    named = Launch((*start.launcher, "--main_process_port", "29500"), tmp_path / "run")
    (found,) = look(tmp_path, {}, two, named, 2).findings
    assert found.id == "launch.port"
    assert found.message == (
        "port 29500, where the processes meet, is in use by process 77 (python of ana). Choose another, "
        "such as `--main_process_port 29501`, or leave it out for a free one"
    )
    other = Launch((*start.launcher, "--main_process_port", "29511"), tmp_path / "run")
    assert look(tmp_path, {}, two, other, 2).findings == ()
    three = Launch(("torchrun", "--nproc_per_node", "3"), tmp_path / "run")
    whole = look(tmp_path, {"per_device_train_batch_size": 4}, machine(A100, A100, A100), three, 3)
    assert {f.id for f in whole.findings} == {"batch.indivisible"}


@pytest.mark.parametrize(
    ("words", "severity"),
    [
        (("accelerate", "launch", "--cpu", "--num_processes", "2"), "error"),
        (("accelerate", "launch", "--num_processes", "2"), "warning"),
        (("accelerate", "launch", "--multi_gpu", "--num_processes", "2"), None),
        (("torchrun", "--nproc_per_node", "2"), None),
    ],
)
def test_a_launcher_that_starts_one_process_on_the_cpu_is_found(
    words: tuple[str, ...], severity: str | None, tmp_path: Path
) -> None:
    start = Launch(words, tmp_path / "run")
    found = look(tmp_path, {"use_cpu": True, "bf16": False}, machine(), start, 2)
    assert [f.severity for f in found.findings if f.id == "launch.cpu"] == ([severity] if severity else [])


def test_what_the_model_cannot_give_is_found_once_it_is_known() -> None:
    model = ModelFacts(Whereabouts("m", "folder"), architecture="LlamaForCausalLM", context=256)
    asked = {"router_aux_loss_coef": 0.01, "use_vllm": True, "vllm_max_model_length": 512}
    settings = Settings({"GRPOConfig": asked}, Section(), load_fields(), YamlDocument({}), 1)
    assert {f.id for f in facts_findings(settings, Facts(model))} == {"model.no-router", "model.context"}
    mixture = replace(model, context=1024, shape=shape(experts=4))
    assert facts_findings(settings, Facts(mixture)) == []
    assert facts_findings(settings, Facts()) == []


@pytest.mark.parametrize(
    ("change", "field", "value"),
    [
        ({"save_steps": 500}, "save_steps", 25),
        ({"max_steps": 2000, "save_steps": 500}, "save_steps", 100),
        ({"save_strategy": "no"}, "save_strategy", "steps"),
        ({"num_generations": 16, "per_device_train_batch_size": 16}, "num_generations", 8),
    ],
)
def test_advice_stands_apart_with_its_reason(
    change: dict[str, Any], field: str, value: Any, tmp_path: Path
) -> None:
    found = look(tmp_path, change)
    assert found.ok
    assert [(f.field, f.fix and f.fix.value) for f in found.advice] == [(field, value)]


def test_every_message_names_its_place_and_no_secret_is_in_the_result(tmp_path: Path) -> None:
    found = look(tmp_path, {"hub_token": "hf_secret", "sync_ref_model": True})
    body = found.to_json()
    assert not body["ok"]
    assert "hf_secret" not in str(body)
    assert body["resolved"]["num_generations"] == 8
    assert body["findings"][0]["line"] is not None


@pytest.mark.parametrize(("version", "unused"), [({}, True), ({"version": 2}, True), ({"version": 1}, False)])
def test_what_belongs_to_fsdp_1_is_unused_in_version_2_alone(
    version: dict[str, int], unused: bool, tmp_path: Path
) -> None:
    given = {"fsdp": "full_shard", "fsdp_config": {**version, "fsdp_use_orig_params": True}}
    start = Launch(("accelerate", "launch"), tmp_path / "run")
    found = look(tmp_path, given, machine(A100), start, 2).findings
    told = [finding.field for finding in found if finding.id == "config.unused"]
    assert told == ["fsdp_config.fsdp_use_orig_params"] * unused


ODD = [
    None,
    0,
    -1.5,
    "x",
    [1],
    {},
    {1: 2},
    {"version": "x", "backward_prefetch": 1},
    {"num_steps": "x"},
    {"a": {"b": [None]}},
]
NESTED = [
    "model_init_kwargs",
    "generation_kwargs",
    "chat_template_kwargs",
    "lr_scheduler_kwargs",
    "gradient_checkpointing_kwargs",
    "accelerator_config",
    "fsdp_config",
    "deepspeed",
    "liger_kernel_config",
    "transformers_continuous_batching_config",
]


@pytest.mark.parametrize("name", NESTED)
def test_nothing_that_a_mapping_may_hold_ends_a_check(name: str, tmp_path: Path) -> None:
    beside = {"fsdp": True, "use_liger_kernel": True, "lr_scheduler_type": "polynomial"}
    for value in (*ODD, {"lr_end": "x", "min_lr": [1], "temperature": {}, "split_batches": "no"}):
        start = Launch(("accelerate", "launch"), tmp_path / "run")
        found = look(tmp_path, {**beside, name: value}, machine(A100), start, None)
        assert found.done[0] == "static"
