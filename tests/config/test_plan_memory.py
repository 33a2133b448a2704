"""Memory by part is what the formulas give by hand, and grows, shrinks and fits as it should."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path
from typing import Any

import pytest

import grpo_tui
from grpo_tui.config.plan.making import Plan, Surroundings, plan
from grpo_tui.config.plan.memory import Device, MemoryPlan, card, optimizer_states
from grpo_tui.config.plan.model import ModelShape, read_shape, read_sharding, shape_of
from grpo_tui.config.trl_fields import load_fields
from grpo_tui.demo import DEMO_CONFIG
from tests.config.plan_settings import settings_of

SHAPES = Path(grpo_tui.__file__).parent / "config" / "plan" / "shapes.json"

QWEN = {
    "hidden_size": 896,
    "num_hidden_layers": 24,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "intermediate_size": 4864,
    "vocab_size": 151936,
    "max_position_embeddings": 32768,
    "tie_word_embeddings": True,
}
"""Qwen2.5-0.5B, whose 494,032,768 parameters hold 27,648 biases and no gap beside."""
FSDP_OWN = {"activation_checkpointing": True}
CARD = Device("a card", 80_000_000_000)


def shape(**changes: Any) -> ModelShape:
    found = shape_of({**QWEN, **changes})
    assert found is not None
    return found


def planned(
    grpo: dict[str, Any] | None = None,
    model_args: dict[str, Any] | None = None,
    *,
    world: int = 1,
    device: Device | None = CARD,
    model: ModelShape | None = None,
    **around: Any,
) -> Plan:
    small = {"max_completion_length": 256, "per_device_train_batch_size": 8}
    settings = settings_of({**small, **(grpo or {}), **(model_args or {})})
    return plan(
        settings,
        Surroundings(world_size=world, model=model or shape(), device=device, prompt_tokens=128, **around),
    )


def memory(*words: Any, **around: Any) -> MemoryPlan:
    made = planned(*words, **around).memory
    assert made is not None
    return made


def part(made: MemoryPlan, name: str) -> int:
    return next((p.bytes for p in made.parts if p.name == name), 0)


P = 494_005_120
"""What the sizes of QWEN come to."""


def test_parameters_are_computed_from_sizes() -> None:
    assert shape().parameters == P
    assert 494_032_768 - P == 24 * (896 + 2 * 128)  # the biases of q, k and v


@pytest.mark.parametrize(
    ("grpo", "model_args", "weights", "gradients", "optimizer"),
    [
        ({}, {}, 4 * P, 4 * P, 8 * P),
        ({}, {"dtype": "bfloat16"}, 2 * P, 2 * P, 4 * P),
        ({"optim": "sgd"}, {}, 4 * P, 4 * P, 0),
        ({"optim": "adamw_torch"}, {"dtype": "bfloat16"}, 2 * P, 2 * P, 4 * P),
        ({"optim": "paged_adamw_32bit"}, {"dtype": "bfloat16"}, 2 * P, 2 * P, 8 * P),
        ({"optim": "lomo"}, {"dtype": "bfloat16"}, 2 * P, 0, 0),
        ({"model_init_kwargs": {"dtype": "bfloat16"}}, {}, 2 * P, 2 * P, 4 * P),
    ],
)
def test_weights_gradients_and_states_by_hand(
    grpo: dict[str, Any], model_args: dict[str, Any], weights: int, gradients: int, optimizer: int
) -> None:
    made = memory(grpo, model_args)
    assert (part(made, "weights"), part(made, "gradients"), part(made, "optimizer")) == (
        weights,
        gradients,
        optimizer,
    )


def test_a_part_that_takes_nothing_is_left_out() -> None:
    names = [part.name for part in memory({"optim": "lomo"}).parts]
    assert not {"optimizer", "gradients", "reference", "lora", "vllm"} & set(names)
    assert names[-1] == "allocator"
    assert all(part.bytes > 0 for part in memory({"optim": "sgd", "use_vllm": True}).parts)


@pytest.mark.parametrize(
    ("kind", "optimizer", "gradients"),
    [
        (("DEEPSPEED", 1), " ÷ 4", ""),
        (("DEEPSPEED", 2), " ÷ 4", " ÷ 4"),
        (("FSDP", 0), " ÷ 4", " ÷ 4"),
        (None, "", ", twice with DDP's buckets"),
    ],
)
def test_a_part_that_is_sharded_says_over_how_many_processes(
    kind: tuple[str, int] | None, optimizer: str, gradients: str
) -> None:
    file = kind and {"distributed_type": kind[0], "deepspeed_config": {"zero_stage": kind[1]}}
    said = {part.name: part.formula for part in memory(world=4, accelerate=file).parts}
    assert re.sub(r".* bytes", "", said["optimizer"]) == optimizer
    assert re.sub(r".* bytes", "", said["gradients"]) == gradients


def test_eight_bit_states_keep_embeddings_in_full() -> None:
    made = memory({"optim": "adamw_8bit"}, {"dtype": "bfloat16"})
    embeddings = 151936 * 896
    assert part(made, "optimizer") == round((P - embeddings) * 2 * (1 + 4 / 256) + embeddings * 8)


def test_lora_trains_its_adapters_alone() -> None:
    made = memory({"beta": 0.1}, {"dtype": "bfloat16", "use_peft": True, "lora_r": 8})
    # r × (in + out) of q (896 → 896) and v (896 → 128) in 24 layers
    count = 8 * 24 * ((896 + 896) + (896 + 128))
    assert part(made, "lora") == 4 * count  # float32 beside bfloat16 weights
    assert part(made, "gradients") == 4 * count
    assert part(made, "optimizer") == 8 * count
    assert part(made, "reference") == 0  # the adapter is switched off instead
    assert part(made, "head_gradient") == 0


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        (None, {"q_proj", "v_proj"}),
        (["all-linear"], {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}),
        (["o_proj", "model.layers.0.down_proj"], {"o_proj", "down_proj"}),
    ],
)
def test_lora_targets(asked: list[str] | None, names: set[str]) -> None:
    made = memory({}, {"use_peft": True, "lora_r": 1, "lora_target_modules": asked})
    pairs = {name: sizes for name, sizes in shape().linears.items() if name in names}
    assert part(made, "lora") == 4 * sum(a + b for sizes in pairs.values() for a, b in sizes)


def test_four_bits_quantize_the_linear_layers_alone() -> None:
    made = memory({}, {"use_peft": True, "load_in_4bit": True, "dtype": "bfloat16"})
    linear = P - 151936 * 896 - 49 * 896
    assert part(made, "weights") == round(linear * 0.5625) + (P - linear) * 2
    assert part(made, "lora") == 2 * 16 * 24 * (1792 + 1024)  # bfloat16 on a quantized model


def test_the_reference_model_is_a_second_copy() -> None:
    assert part(memory({"beta": 0.04}), "reference") == 4 * P
    assert part(memory({"beta": 0.0}), "reference") == 0


def test_the_cache_holds_every_completion_of_a_generation() -> None:
    made = memory({"gradient_accumulation_steps": 4}, {"dtype": "bfloat16"})
    # 32 completions × 384 tokens × (24 layers and one that grows) × keys and values of 128 in 2 bytes
    assert part(made, "kv_cache") == 32 * 384 * 25 * 2 * 128 * 2
    mixed = memory({"gradient_accumulation_steps": 4})
    assert part(mixed, "kv_cache") == 32 * 384 * 25 * 128 * (4 + 2)


def test_logits_are_a_tile_whatever_the_batch() -> None:
    small, large = (
        memory({}, {"dtype": "bfloat16"}),
        memory({"max_completion_length": 8192}, {"dtype": "bfloat16"}),
    )
    hidden = 896 * (4 + 2 * 2)
    assert part(small, "logits") == 2048 * 32768 * 2 + 2048 * hidden
    assert part(large, "logits") == 4096 * 32768 * 2 + 8 * 8192 * hidden
    assert part(large, "logits") < 8 * 8192 * 151936 * 2 / 20  # what all of them would take
    assert part(small, "head_gradient") == 151936 * 896 * (4 + 2)


def test_checkpointing_keeps_one_layer() -> None:
    on, off = memory({"gradient_checkpointing": True}), memory({"gradient_checkpointing": False})
    tokens, masks = 8 * 384, 8 * 384**2 * 3
    assert part(on, "activations") == tokens * 24 * 896 * 4 + masks
    assert part(off, "activations") > 10 * part(on, "activations")
    assert part(on, "layer") > part(off, "layer")


@pytest.mark.parametrize(
    ("grpo", "wanted"),
    [
        ({}, True),
        ({"activation_checkpointing": False}, False),
        ({"gradient_checkpointing": False, "activation_checkpointing": True}, True),
        ({"gradient_checkpointing": False}, False),
        ({"gradient_checkpointing": False, "fsdp": "full_shard", "fsdp_config": FSDP_OWN}, True),
    ],
)
def test_the_newer_name_of_checkpointing_wins_as_in_transformers(grpo: dict[str, Any], wanted: bool) -> None:
    assert settings_of(grpo).recomputes is wanted


def test_eager_attention_keeps_scores() -> None:
    plain = memory({"gradient_checkpointing": False}, {"dtype": "bfloat16"})
    eager = memory({"gradient_checkpointing": False}, {"dtype": "bfloat16", "attn_implementation": "eager"})
    assert part(eager, "activations") - part(plain, "activations") == 24 * 8 * 384**2 * 14 * 8


@pytest.mark.parametrize(
    ("mode", "sleeps", "wanted", "moments"),
    [
        ("colocate", False, 24_000_000_000, 5),
        ("colocate", True, 24_000_000_000, 1),
        ("server", False, 0, 0),
    ],
)
def test_vllm_takes_its_share(mode: str, sleeps: bool, wanted: int, moments: int) -> None:
    grpo = {"use_vllm": True, "vllm_mode": mode, "vllm_enable_sleep_mode": sleeps}
    made = memory(grpo)
    assert part(made, "vllm") == wanted
    assert part(made, "kv_cache") == 0
    assert sum(len(p.moments) for p in made.parts if p.name == "vllm") == moments


@pytest.mark.parametrize(
    ("grpo", "accelerate", "kind", "weights", "gradients", "optimizer"),
    [
        ({}, None, "ddp", 4 * P, 8 * P, 8 * P),
        # DeepSpeed in bfloat16: 2 bytes of weights and gradients, 12 of master weights and states
        ({}, ("DEEPSPEED", 1), "zero1", 2 * P, 2 * P, 3 * P),
        ({}, ("DEEPSPEED", 2), "zero2", 2 * P, P // 2, 3 * P),
        ({}, ("DEEPSPEED", 3), "zero3", P // 2 + 2 * P // 24, P // 2, 3 * P),
        ({}, ("FSDP", 0), "fsdp", P + 4 * P // 24, P, 2 * P),
        ({"deepspeed": {"zero_optimization": {"stage": 2}}}, None, "zero2", 2 * P, P // 2, 3 * P),
    ],
)
def test_sharding_over_four(
    grpo: dict[str, Any], accelerate: Any, kind: str, weights: int, gradients: int, optimizer: int
) -> None:
    file = None
    if accelerate is not None:
        file = {"distributed_type": accelerate[0], "deepspeed_config": {"zero_stage": accelerate[1]}}
    assert read_sharding(settings_of(grpo), 4, file).kind == kind
    made = memory(grpo, world=4, accelerate=file)
    assert (part(made, "weights"), part(made, "gradients"), part(made, "optimizer")) == pytest.approx(
        (weights, gradients, optimizer), abs=8
    )


def test_a_deepspeed_config_is_read_from_a_mapping_a_text_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "two.json").write_text('{"zero_optimization": {"stage": 2}}')
    (tmp_path / "list.json").write_text("[]")
    for given, kind in (
        ({"zero_optimization": {"stage": 2}}, "zero2"),
        (' {"zero_optimization": {"stage": 3}}', "zero3"),
        (str(tmp_path / "two.json"), "zero2"),
        (str(tmp_path / "none.json"), "ddp"),
        (str(tmp_path / "list.json"), "ddp"),
    ):
        assert read_sharding(settings_of({"deepspeed": given}), 4, None).kind == kind
        file = {"distributed_type": "DEEPSPEED", "deepspeed_config": {"deepspeed_config_file": given}}
        assert read_sharding(settings_of({}), 4, file).kind == kind


def test_what_lies_in_the_hosts_memory_is_not_counted() -> None:
    here, paged = memory({"optim": "adamw_torch"}), memory({"optim": "paged_adamw_32bit"})
    assert part(here, "optimizer") == part(paged, "optimizer")
    assert here.peak_bytes - paged.peak_bytes == part(paged, "optimizer")


def test_the_peak_is_one_moment_not_the_sum() -> None:
    made = memory()
    assert made.peak_bytes == max(
        made.bytes_at(p) for p in ("generate", "loss", "layers", "backward", "step")
    )
    assert made.peak_bytes < sum(p.bytes for p in made.parts)


def test_gradients_wait_where_micro_batches_are_accumulated() -> None:
    one, several = memory(), memory({"gradient_accumulation_steps": 2})
    at_the_head = [made.bytes_at("loss") - part(made, "allocator") for made in (one, several)]
    assert at_the_head[1] == at_the_head[0] + 4 * P


@pytest.mark.parametrize(("accumulation", "others"), [(1, {"layers"}), (2, set()), (16, set())])
def test_the_gradient_of_the_head_stays_for_the_layers_only_where_nothing_is_accumulated(
    accumulation: int, others: set[str]
) -> None:
    made = memory({"gradient_accumulation_steps": accumulation})
    (found,) = (one for one in made.parts if one.name == "head_gradient")
    assert set(found.moments) == {"loss", *others}


def test_an_allocator_holds_a_tenth_of_what_comes_and_goes() -> None:
    made = memory({"gradient_accumulation_steps": 16}, {"dtype": "bfloat16"})
    update = sum(part(made, name) for name in ("activations", "logits", "head_gradient"))
    generate = part(made, "kv_cache") + part(made, "generation")
    layers = part(made, "activations") + part(made, "layer")
    assert part(made, "allocator") == round(0.10 * max(update, generate, layers))


@pytest.mark.parametrize("grpo", [{}, {"gradient_checkpointing": False}, {"beta": 0.1}])
def test_what_fits_fits_and_the_next_does_not(grpo: dict[str, Any]) -> None:
    small = Device("small", 16_000_000_000)
    made = memory(grpo, device=small)
    most, length = made.most_generations, made.most_length
    assert most is not None
    assert length is not None
    for size, fits in ((most, True), (most + 1, False)):
        assert (
            memory({**grpo, "num_generations": size, "per_device_train_batch_size": size}, device=small).fits
            is fits
        )
    for tokens, fits in ((length, True), (length + 1, False)):
        assert memory({**grpo, "max_completion_length": tokens}, device=small).fits is fits


@pytest.mark.parametrize("accumulation", [1, 4])
def test_a_smaller_batch_that_fits_keeps_groups_whole(accumulation: int) -> None:
    small = Device("small", 14_000_000_000)
    grpo = {"per_device_train_batch_size": 64, "gradient_accumulation_steps": accumulation}
    made = memory({**grpo, "max_completion_length": 2048}, device=small)
    size = made.most_per_device
    assert made.fits is False
    assert size is not None
    assert size * accumulation % 8 == 0
    again = planned(
        {**grpo, "max_completion_length": 2048, "per_device_train_batch_size": size}, device=small
    )
    assert again.memory is not None
    assert (again.memory.fits, again.batches.whole) == (True, True)


def test_nothing_fits_on_a_card_that_is_too_small() -> None:
    made = memory(device=Device("tiny", 1_000_000_000))
    assert (made.fits, made.most_generations, made.most_length) == (False, None, None)


def test_no_length_is_longer_than_the_context() -> None:
    made = memory(model=shape(max_position_embeddings=1024), device=Device("large", 10**13))
    assert made.most_length == 1024 - 128


def test_without_a_device_nobody_says_that_it_fits() -> None:
    made = memory(device=None)
    assert (made.fits, made.most_generations) == (None, None)
    assert made.peak_bytes > 0


def test_a_trial_corrects_the_whole() -> None:
    plain, corrected = memory(), memory(correction=1.25)
    assert corrected.peak_bytes == round(plain.peak_bytes * 1.25)
    assert corrected.to_json()["correction"] == 1.25


def test_checkpoints_hold_weights_and_states_or_the_adapter() -> None:
    whole = planned({"save_steps": 10, "max_steps": 100}).checkpoints
    assert (whole.written, whole.bytes_each, whole.final_bytes) == (10, 12 * P, 4 * P)
    lora = planned({"save_only_model": True, "max_steps": 100}, {"use_peft": True, "lora_r": 1}).checkpoints
    assert lora.bytes_each == 4 * 24 * (1792 + 1024)
    limited = planned(
        {"save_steps": 10, "max_steps": 100, "save_total_limit": 2}, free_bytes=20 * P
    ).checkpoints
    assert (limited.kept, limited.total_bytes, limited.fits) == (2, 3 * 12 * P + 4 * P, False)


@pytest.mark.parametrize(
    ("name", "states", "width", "paged"),
    [
        ("adamw_torch_fused", 2, 8.0, False),
        ("paged_adamw_8bit", 2, 2.03125, True),
        ("lion_32bit", 1, 4.0, False),
        ("lomo", 0, 0.0, False),
        ("ademamix", 3, 12.0, False),
    ],
)
def test_optimizers(name: str, states: int, width: float, paged: bool) -> None:
    found = optimizer_states(name)
    assert (found.states, found.bytes_per_parameter(4), found.paged, found.known) == (
        states,
        width,
        paged,
        True,
    )


def test_every_optimizer_that_matters_is_known() -> None:
    assert optimizer_states("galore_adamw").known is False
    assert "taken for AdamW" in next(
        p.formula for p in memory({"optim": "galore_adamw"}).parts if p.name == "optimizer"
    )


# -- models -----------------------------------------------------------------------------------------


def test_the_shipped_model_is_counted_from_its_file() -> None:
    found = read_shape(str(DEMO_CONFIG.parent / "model"))
    assert found is not None
    assert (found.parameters, found.exact, found.layers, found.vocab) == (801_152, True, 4, 106)
    assert found.linears["k_proj"] == ((128, 64),) * 4


def test_a_mixture_counts_every_expert_and_uses_some() -> None:
    moe = shape(num_local_experts=8, num_experts_per_tok=2)
    dense = shape()
    mlp = 24 * 3 * 896 * 4864
    assert moe.parameters - dense.parameters == 7 * mlp + 24 * 896 * 8  # and its routers
    assert (moe.active_experts, dense.active_experts) == (2, 0)
    assert shape(num_experts=8).active_experts == 2
    twice = memory({"gradient_checkpointing": False}, model=moe)
    assert part(memory({"gradient_checkpointing": False}), "activations") < part(twice, "activations")


def _safetensors(file: Path, tensors: dict[str, tuple[int, ...]]) -> None:
    header = json.dumps(
        {n: {"dtype": "BF16", "shape": s, "data_offsets": [0, 0]} for n, s in tensors.items()}
    )
    file.write_bytes(struct.pack("<Q", len(header)) + header.encode())


@pytest.mark.parametrize("broken", ["", "length", "json", "missing part"])
def test_headers_of_weights_are_read_or_left(tmp_path: Path, broken: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps({**QWEN, "dtype": "bfloat16"}))
    _safetensors(
        tmp_path / "a.safetensors", {"model.embed_tokens.weight": (10, 4), "lm_head.weight": (10, 4)}
    )
    _safetensors(tmp_path / "b.safetensors", {"model.layers.0.mlp.up_proj.weight": (6, 4)})
    if broken == "length":
        (tmp_path / "b.safetensors").write_bytes(struct.pack("<Q", 1 << 60))
    elif broken == "json":
        (tmp_path / "b.safetensors").write_bytes(struct.pack("<Q", 4) + b"{{{{")
    elif broken:
        index = {"weight_map": {"x": "a.safetensors", "y": "c.safetensors"}}
        (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    found = read_shape(str(tmp_path))
    assert found is not None
    assert found.exact is not bool(broken)
    assert found.parameters == (P if broken else 64)  # the tied head counts once
    assert (found.linears == {"up_proj": ((4, 6),)}) is not bool(broken)


@pytest.mark.parametrize("body", ["", "[]", "{}", '{"hidden_size": "wide"}', '{"hidden_size": 1e400}'])
def test_a_config_that_says_nothing_gives_no_shape(tmp_path: Path, body: str) -> None:
    (tmp_path / "config.json").write_text(body)
    assert read_shape(str(tmp_path)) is None
    assert read_shape("") is None
    assert read_shape("org/no-such-model-anywhere") is None


def test_the_published_sizes_of_common_models_come_to_their_published_parameters() -> None:
    rows = json.loads(SHAPES.read_text())
    names = [name for row in rows for name in row["names"]]
    assert len(names) == len(set(names))
    for row in rows:
        shape, kind = shape_of(row), row["model_type"]
        assert shape is not None
        # What `shape_of` leaves out of its sum: biases, and norms beyond two a layer.
        beside = {
            "qwen2": shape.query_width + 2 * shape.kv_width,
            "qwen3": 2 * shape.head_dim,
            "qwen3_moe": 2 * shape.head_dim,
            "gemma2": 2 * shape.hidden,
            "gemma3_text": 2 * shape.hidden + 2 * shape.head_dim,
            "olmo2": shape.query_width + shape.kv_width,
        }.get(kind, 0)
        assert shape.parameters + shape.layers * beside == row["parameters"], row["names"]


def test_a_common_model_that_is_not_here_is_planned_by_its_published_sizes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    found = read_shape("qwen/Qwen2.5-7B-instruct")
    assert found is not None
    assert (found.parameters, found.heads, found.kv_heads, found.exact) == (7_615_616_512, 28, 4, True)


def test_a_model_in_the_cache_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    root = tmp_path / "models--org--model"
    (root / "refs").mkdir(parents=True)
    (root / "refs" / "main").write_text("abc")
    (root / "snapshots" / "abc").mkdir(parents=True)
    assert read_shape("org/model") is None
    (root / "snapshots" / "abc" / "config.json").write_text(json.dumps(QWEN))
    found = read_shape("org/model")
    assert found is not None
    assert (found.parameters, found.exact) == (P, False)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("80GB", 80_000_000_000),
        ("24 gb", 24_000_000_000),
        ("16GiB", 16 << 30),
        ("40", 40_000_000_000),
        ("h100", round(80 * (1 << 30) * 0.985)),
        ("NVIDIA GeForce RTX 4090", round(24 * (1 << 30) * 0.985)),
        ("4090", round(24 * (1 << 30) * 0.985)),
        ("A100-40GB", round(40 * (1 << 30) * 0.985)),
        ("abacus", None),
        ("0GB", None),
        ("", None),
    ],
)
def test_cards_by_name_and_size(name: str, wanted: int | None) -> None:
    found = card(name)
    assert (None if found is None else found.memory_bytes) == wanted


def test_a_field_that_an_older_transformers_lacks_counts_as_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    newest = load_fields()
    older = {name: field for name, field in newest.items() if not name.startswith("activation_checkpointing")}
    assert len(older) < len(newest)
    monkeypatch.setattr("tests.config.plan_settings.load_fields", lambda: older)
    for given in (True, False):
        assert settings_of({"gradient_checkpointing": given}).recomputes is given
    assert settings_of({}).whole("not_there_yet", 3) == 3
    assert settings_of({}).number("not_there_yet") == 0.0


def test_a_reward_model_is_said_not_to_be_counted() -> None:
    asked = settings_of({"reward_model_name_or_path": "org/judge"})
    around = Surroundings(model=shape(), device=CARD, prompt_tokens=128)
    made, without = plan(asked, around).memory, plan(settings_of({}), around).memory
    assert made is not None
    assert without is not None
    assert set(made.notes) - set(without.notes) == {"the reward model is not counted"}
