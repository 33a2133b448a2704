"""What is offered in the place of a wrong key or value: what was meant, and always something that holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from grpo_tui.config.draft import Draft
from grpo_tui.config.resolve import inspect_config
from grpo_tui.core.findings import Finding, errors_of
from grpo_tui.demo import DEMO_MODEL

HEAD = f"model_name_or_path: {DEMO_MODEL}\nbf16: false\nuse_cpu: true\n"
TAIL = "grpo_tui:\n  dataset: rows.jsonl\n  rewards: [{name: right, source: own.py:right}]\n"

VALUES: dict[str, tuple[str, object]] = {
    "learning_rate: 1e-5,": ("learning_rate", 1e-5),
    "learning_rate: '5 e-6'": ("learning_rate", 5e-6),
    "learning_rate: 5·10^-6": ("learning_rate", 5e-6),
    "learning_rate: [1.0e-5]": ("learning_rate", 1e-5),
    "learning_rate: {value: 1.0e-5}": ("learning_rate", 1e-5),
    "learning_rate: 1,0e-5": ("learning_rate", 1e-5),
    "temperature: 0,9": ("temperature", 0.9),
    "warmup_steps: 10%": ("warmup_steps", 0.1),
    "max_steps: 0o24": ("max_steps", 20),
    "max_steps: '0x14'": ("max_steps", 20),
    "max_steps: 20 steps": ("max_steps", 20),
    "max_steps: 1k": ("max_steps", 1000),
    "max_steps: many": ("max_steps", -1),
    "num_generations: [4]": ("num_generations", 4),
    "loss_type: gspo": ("loss_type", "grpo"),
    "loss_type: drgrpo": ("loss_type", "dr_grpo"),
    "optim: AdamW": ("optim", "adamw_torch"),
    "optim: adam8bit": ("optim", "adamw_8bit"),
    "scale_rewards: 0": ("scale_rewards", "none"),
    "save_strategy: never": ("save_strategy", "no"),
    "dtype: bf16": ("dtype", "bfloat16"),
    "run_name: on": ("run_name", "on"),
    "output_dir: no": ("output_dir", "no"),
    "run_name: [a]": ("run_name", None),
    "report_to: W&B": ("report_to", "wandb"),
    "lora_target_modules: {q_proj: 1, v_proj: 2}": ("lora_target_modules", ["q_proj", "v_proj"]),
    "lora_target_modules: [q_proj, null]": ("lora_target_modules", ["q_proj"]),
    "reward_weights: {right: 2}": ("reward_weights", [2.0]),
    "reward_weights: [heavy]": ("reward_weights", [1.0]),
    "generation_kwargs: \"{'seed': 5}\"": ("generation_kwargs", {"seed": 5}),
    "generation_kwargs: [1]": ("generation_kwargs", None),
    "optim_args: {a: 1}": ("optim_args", None),
}
"""A value that does not fit, and what stands there after its fix; None: the key is gone."""

KEYS: dict[str, dict[str, object]] = {
    "use_reentrant: false": {"gradient_checkpointing_kwargs.use_reentrant": False},
    "dispatch_batches: false": {"accelerator_config.dispatch_batches": False},
    "wandb_project: mine": {"env.WANDB_PROJECT": "mine"},
    "wandb_api_key: secret": {},
    "packing: true": {},
    "max_seq_length: 512": {},
    "vf_coef: 0.1": {},
    "dr_grpo: true": {},
    "min_lr: 1e-7": {},
    "tokenizer_name: other": {},
    "per_device_batch_size: 16": {"per_device_train_batch_size": 16},
    "num_return_sequences: 4": {"num_generations": 4},
    "use_lora: true": {"use_peft": True},
    "clip_eps: 0.1": {"epsilon": 0.1},
    "learning rate: 1.0e-6": {"learning_rate": 1e-6},
    "--beta: 0.1": {"beta": 0.1},
    "Beta: 0.1": {"beta": 0.1},
    "jit_mode_eval: true": {},
    "bnb_4bit_compute_dtype: bfloat16": {},
    "wandb_log_unique_prompts: true": {"log_unique_prompts": True},
    "xpu_backend: gloo": {"ddp_backend": "gloo"},
    "xpu_backend: ccl": {},  # a backend that the new key does not take
    "grpo_config: {foo: 1}": {},
    "model: {name: x}": {},
    "tp_size: 2": {},
    "fast_inference: true": {},
    "training_args:\n  beta: 0.1\n  num-generations: 4\n  deep: {seed: 7}": {
        "beta": 0.1,
        "num_generations": 4,
        "seed": 7,
    },
    "lora:\n  r: 4\n  alpha: 8": {"use_peft": True, "lora_r": 4, "lora_alpha": 8},
    "beta: 0.1\nkl_coef: 0.2": {"beta": 0.1},
    "warmup_steps: 10\nwarmup_ratio: 0.1": {"warmup_steps": 10},
    "beta: 0.1\nold: {beta: 0.2}": {"beta": 0.1},
}
"""A key that TRL does not have, and what the file has after all fixes instead of it."""

READ = {
    "learning_rate: 1e-6  # small": "learning_rate: 1.0e-6  # small",
    'log_completions: "no"': "log_completions: false",
    "num_generations: '8'": "num_generations: 8",
    "save_strategy: no": "save_strategy: 'no'",
    "min_p: None": "",
    "loss_type: DAPO": "loss_type: dapo",
    "lora_target_modules: q_proj v_proj": "lora_target_modules: [q_proj, v_proj]",
    "lora_target_modules: '[q_proj, v_proj]'": "lora_target_modules: [q_proj, v_proj]",
    "lora_target_modules: q_proj; v_proj": "lora_target_modules: [q_proj, v_proj]",
    "generation_kwargs: {length_penalty: 1e-1}": "generation_kwargs: {length_penalty: 0.1}",
    "report_to: false": "report_to: none",
}
"""A value that is read with a notice, and the line that needs none."""

OLD_NUMBERS = {
    "max_steps: 020": ("max_steps", 20),
    "generation_kwargs: {seed: 010}": ("generation_kwargs.seed", 10),
    "max_steps: 1:30": ("max_steps", None),
}
"""Numbers that YAML 1.1 reads otherwise than people do."""


def opened(folder: Path, body: str) -> Draft:
    (folder / "rows.jsonl").write_text('{"prompt": "1 + 1?", "answer": "2"}\n')
    (folder / "own.py").write_text("def right(completions, **kwargs):\n    return [1.0] * len(completions)\n")
    file = folder / "my.yaml"
    file.write_text(f"{HEAD}{body}\n{TAIL}")
    return Draft.open(file)


def refused(draft: Draft, rule: str) -> list[Finding]:
    return [finding for finding in draft.findings if finding.id == rule]


@pytest.mark.parametrize("body", VALUES)
def test_a_value_that_does_not_fit_comes_with_the_one_that_was_meant(body: str, tmp_path: Path) -> None:
    name, meant = VALUES[body]
    draft = opened(tmp_path, body)
    (found,) = refused(draft, "config.type")
    assert (found.field, found.line) == (name, 4)
    draft.apply(found)
    assert draft.get(name) == meant
    assert refused(draft, "config.type") == []


@pytest.mark.parametrize("body", KEYS)
def test_a_wrong_key_goes_and_nothing_that_it_held_is_lost(body: str, tmp_path: Path) -> None:
    draft = opened(tmp_path, body)
    found = [f for f in draft.findings if f.id in ("config.unknown-key", "config.removed-key")]
    assert found
    for finding in found:
        assert (finding.line or 0) >= 4
        draft.apply(finding)
    assert not [f for f in draft.findings if f.id.endswith("-key") or f.id == "config.type"]
    left = draft.text.removeprefix(HEAD).removesuffix(TAIL)
    assert {key: draft.get(key) for key in KEYS[body]} == KEYS[body]
    assert left.strip() or not KEYS[body]
    assert all(key.split(".")[0] in left for key in KEYS[body])


@pytest.mark.parametrize("body", READ)
def test_what_is_read_with_a_notice_can_be_written_as_it_is_read(body: str, tmp_path: Path) -> None:
    draft = opened(tmp_path, body)
    (found,) = refused(draft, "config.coerced")
    name = found.field or ""
    before = draft.values()[name.partition(".")[0]].value
    draft.apply(found)
    assert draft.text.removeprefix(HEAD).removesuffix(TAIL).strip() == READ[body]
    assert refused(draft, "config.coerced") == []
    assert draft.values()[name.partition(".")[0]].value == before


@pytest.mark.parametrize("body", OLD_NUMBERS)
def test_a_number_that_is_read_otherwise_than_it_looks_is_told(body: str, tmp_path: Path) -> None:
    name, meant = OLD_NUMBERS[body]
    draft = opened(tmp_path, body)
    (found,) = refused(draft, "config.yaml-number")
    assert (found.severity, found.field, found.line) == ("warning", name, 4)
    draft.apply(found)
    assert draft.get(name) == meant
    assert refused(draft, "config.yaml-number") == []


@pytest.mark.parametrize("value", ["007", "0", "0x10", "1_000", "'020'", "12"])
def test_a_number_that_is_read_as_it_looks_is_not(value: str, tmp_path: Path) -> None:
    assert refused(opened(tmp_path, f"seed: {value}"), "config.yaml-number") == []


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("seed: 1\nbeta 0.1\n", 2, "colon"),
        ("seed: 1\nbeta=0.1\n", 2, "colon"),
        ('seed: 1\nrun_name: "abc\n', 2, "never closed"),
        ('seed: 1\nrun_name: "a\tb\n', 2, "never closed"),
        ("generation_kwargs: {seed: 1\n", 1, "never closed"),
        ("run_name: a: b\n", 1, "Quote"),
        ("run_name: @x\n", 1, "Quote"),
        ("run_name: *x\n", 1, "anchor"),
        ("run_name: !env HOME\n", 1, "tag"),
        ("beta:\t0.1\n", 1, "tab"),
        ("seed: 1\n---\nbeta: 0.1\n", 2, "document"),
        ("seed: 1\n  beta: 0.1\n", 2, "indentation"),
        ("seed: 1\nyes: 2\n", 2, "YAML reads the key yes as True"),
        ("seed: 1\ngeneration_kwargs: {seed: 1, seed: 2}\n", 2, "duplicate key seed"),
    ],
)
def test_a_text_that_cannot_be_read_says_where_and_what_to_do(text: str, line: int, says: str) -> None:
    errors = errors_of(inspect_config("my.yaml", text=text).findings)
    (found,) = [f for f in errors if f.id == "config.unreadable"]
    assert found.line == line
    assert says in found.message


@pytest.mark.parametrize(
    ("content", "line", "says"),
    [("run_name: a\n".encode("utf-16"), None, "UTF-16"), (b"seed: 1\nrun_name: caf\xe9\n", 2, "0xe9")],
)
def test_another_encoding_is_named_with_its_line(
    content: bytes, line: int | None, says: str, tmp_path: Path
) -> None:
    (tmp_path / "my.yaml").write_bytes(content)
    (found,) = errors_of(inspect_config(tmp_path / "my.yaml").findings)
    assert (found.line, says in found.message, "UTF-8" in found.message) == (line, True, True)
