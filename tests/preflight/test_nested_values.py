"""Single settings that fail late: values inside mappings, bounds, what has no rows, folders that are gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from grpo_tui.config.draft import Draft
from grpo_tui.config.resolve import inspect_config
from grpo_tui.config.rules_nested import chat_template
from grpo_tui.demo import DEMO_MODEL
from grpo_tui.preflight.report import Preflight
from grpo_tui.preflight.run import QUICK, check
from grpo_tui.preflight.static import Launch
from tests.preflight.machines import A100, machine

HEAD = f"model_name_or_path: {DEMO_MODEL}\nmax_steps: 20\nsave_steps: 10\nreward_funcs: [accuracy_reward]\n"
TAIL = "grpo_tui:\n  dataset: rows.jsonl\n"
HUGE = 10**22

FAULTS: dict[str, tuple[str, str, str]] = {
    # what is written: rule, severity, field
    "lr_scheduler_type: cosine_with_min_lr\nlr_scheduler_kwargs: {min_lr_rate: '0.1'}": (
        "nested.text",
        "error",
        "lr_scheduler_kwargs.min_lr_rate",
    ),
    "gradient_checkpointing: true\ngradient_checkpointing_kwargs: {use_reentrant: 'false'}": (
        "nested.text",
        "error",
        "gradient_checkpointing_kwargs.use_reentrant",
    ),
    "generation_kwargs: {no_repeat_ngram_size: '3'}": (
        "nested.text",
        "error",
        "generation_kwargs.no_repeat_ngram_size",
    ),
    "accelerator_config: {gradient_accumulation_kwargs: {sync_each_batch: 'true'}}": (
        "nested.text",
        "error",
        "accelerator_config.gradient_accumulation_kwargs.sync_each_batch",
    ),
    "model_init_kwargs: {dtype: bf16}": ("nested.dtype", "error", "model_init_kwargs.dtype"),
    "model_init_kwargs: {dtype: torch.float16}": ("nested.dtype", "error", "model_init_kwargs.dtype"),
    "model_init_kwargs: {dtype: int3}": ("nested.dtype", "error", "model_init_kwargs.dtype"),
    "model_init_kwargs: {config: {torch_dtype: float16}}": (
        "nested.model-config",
        "error",
        "model_init_kwargs.config",
    ),
    "model_init_kwargs: {quantization_config: {load_in_4bit: true}}": (
        "lora.quantized-alone",
        "error",
        "model_init_kwargs.quantization_config",
    ),
    "generation_kwargs: '{\"top_k\": 5}'": ("nested.elsewhere", "warning", "generation_kwargs.top_k"),
    "eval_on_start: true": ("training.eval-on-start", "error", "eval_on_start"),
    "per_device_eval_batch_size: 6": ("config.unused", "warning", "per_device_eval_batch_size"),
    "eval_steps: 5": ("config.unused", "warning", "eval_steps"),
    "use_cpu: true\nbf16: false\nvllm_server_host: gpu7": ("config.unused", "warning", "vllm_server_host"),
    "ref_model_sync_steps: 8": ("config.unused", "warning", "ref_model_sync_steps"),
    "fsdp_config: {limit_all_gathers: true}": ("config.unused", "warning", "fsdp_config"),
    "generation_batch_size: 0": ("batch.not-positive", "error", "generation_batch_size"),
    "use_peft: true\nlora_target_modules: []": ("lora.no-targets", "error", "lora_target_modules"),
    "use_peft: true\nlora_dropout: 1.0": ("config.range", "error", "lora_dropout"),
    "adam_beta2: 1.0": ("config.range", "error", "adam_beta2"),
    "dataloader_num_workers: -1": ("config.range", "error", "dataloader_num_workers"),
    "top_entropy_quantile: 0": ("config.range", "error", "top_entropy_quantile"),
    "report_to: [tensorboard, none]": ("training.trackers", "error", "report_to"),
    "debug: verbose": ("training.debug", "error", "debug"),
    "include_num_input_tokens_seen: some": ("config.type", "error", "include_num_input_tokens_seen"),
    "accelerator_config: gone.json": ("nested.file", "error", "accelerator_config"),
    "vllm_importance_sampling_clip_min: 100": (
        "vllm.clip-order",
        "error",
        "vllm_importance_sampling_clip_min",
    ),
    "max_completion_length: null": ("grpo.no-length", "warning", "max_completion_length"),
    "resume_from_checkpoint: gone/checkpoint-5": (
        "folder.no-checkpoint",
        "error",
        "resume_from_checkpoint",
    ),
    f"num_generations: {HUGE + 1}": ("batch.indivisible", "error", "num_generations"),
}


def test_a_group_that_no_batch_holds_is_put_right_and_not_the_batch(tmp_path: Path) -> None:
    draft, seen = looked(tmp_path, f"num_generations: {HUGE}")
    (found,) = [f for f in seen.findings if f.severity == "error"]
    draft.apply(found)
    assert draft.get("num_generations") == 8


SOUND = [
    "model_init_kwargs: {dtype: auto, revision: '1', device_map: '0'}",
    "model_init_kwargs: {dtype: bfloat16}",
    "generation_kwargs: {stop_strings: '5'}",
    "use_peft: true\nlora_dropout: 0.0\nlora_target_modules: all-linear",
    "eval_strategy: 'no'\nper_device_eval_batch_size: 8",
    "adam_beta2: 0.999",
    "debug: underflow_overflow\ninclude_num_input_tokens_seen: all",
    "top_entropy_quantile: 0.2",
]


@pytest.mark.parametrize(
    ("gpus", "meant"), [("7", None), ("[0, 3]", [0])], ids=["one that is not there", "one of two"]
)
def test_a_gpu_that_is_not_there_is_told(gpus: str, meant: object, tmp_path: Path) -> None:
    draft, seen = looked(tmp_path, "", f"  gpus: {gpus}\n")
    (found,) = [f for f in seen.findings if f.severity == "error"]
    assert (found.id, found.field) == ("launch.no-such-gpu", "grpo_tui.gpus")
    draft.apply(found)
    assert draft.get("grpo_tui.gpus") == meant


def looked(folder: Path, body: str, section: str = "") -> tuple[Draft, Preflight]:
    (folder / "rows.jsonl").write_text('{"prompt": "q", "solution": "1"}\n' * 40)
    file = folder / "c.yaml"
    if not file.exists():
        file.write_text(f"{HEAD}{body}\n{TAIL}{section}")
    start = Launch(root=folder / "run")
    return Draft.open(file), check(inspect_config(file), start, parts=QUICK, machine=machine(A100))


@pytest.mark.parametrize("body", FAULTS)
def test_a_fault_is_told_at_its_place_and_one_fix_takes_it_away(body: str, tmp_path: Path) -> None:
    rule, severity, field = FAULTS[body]
    draft, seen = looked(tmp_path, body)
    found = [f for f in seen.findings if (f.id, f.severity, f.field) == (rule, severity, field)]
    assert len(found) == 1, [(f.id, f.field) for f in seen.findings]
    assert found[0].line is not None
    draft.apply(found[0])
    (tmp_path / "c.yaml").write_text(draft.text)
    left = [f for f in looked(tmp_path, "")[1].findings if f.severity != "info" and f.id != "plan.memory"]
    assert left == [], draft.text


@pytest.mark.parametrize("body", SOUND)
def test_what_is_sound_is_left_alone(body: str, tmp_path: Path) -> None:
    assert [f for f in looked(tmp_path, body)[1].findings if f.severity != "info"] == []


@pytest.mark.parametrize(
    ("config", "template", "found"),
    [
        ('{"chat_template": "{{ a }}"}', None, '"{{ a }}"'),
        ('{"chat_template": "{{ a }}"}', "{{ b }}", "{{ b }}"),
        ('{"chat_template": [{"name": "tools"}]}', None, '[{"name": "tools"}]'),
        ("{}", None, None),
        ("[]", None, None),
        ("{", None, None),
        (None, None, None),
    ],
)
def test_the_chat_template_is_the_one_that_the_tokenizer_loads(
    config: str | None, template: str | None, found: str | None, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text("{}")
    for name, text in (("tokenizer_config.json", config), ("chat_template.jinja", template)):
        if text is not None:
            (tmp_path / name).write_text(text)
    assert chat_template(str(tmp_path)) == found
