"""What the child says of a model without its weights, against models that were really made."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from grpo_tui.config.resolve import load_config
from grpo_tui.config.run_config import RunConfig
from grpo_tui.config.settings import Settings
from grpo_tui.core.exchange import rebuilt
from grpo_tui.core.findings import Finding
from grpo_tui.preflight.child.hub import Hub
from grpo_tui.preflight.child.model import _part, _sizes, model_facts
from grpo_tui.preflight.facts import ModelFacts
from grpo_tui.preflight.model_findings import model_findings

SIZES = {
    "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "vocab_size": 97,
    "max_position_embeddings": 128, "intermediate_size": 160,
}  # fmt: skip
MOE = {"moe_intermediate_size": 24, "num_experts": 8, "num_experts_per_tok": 2, "head_dim": 16}


def dense() -> Any:
    from transformers import LlamaConfig

    return LlamaConfig(**SIZES, num_key_value_heads=4, tie_word_embeddings=False)


def grouped() -> Any:
    from transformers import Qwen2Config

    return Qwen2Config(**SIZES, num_key_value_heads=2, tie_word_embeddings=True)


def experts() -> Any:
    from transformers import Qwen3MoeConfig

    return Qwen3MoeConfig(**SIZES, **MOE, num_key_value_heads=2, tie_word_embeddings=False)


def conv() -> Any:
    from transformers import GPT2Config

    return GPT2Config(n_embd=64, n_layer=2, n_head=4, vocab_size=97, n_positions=128)


def recurrent() -> Any:
    from transformers import MambaConfig

    return MambaConfig(hidden_size=32, num_hidden_layers=2, vocab_size=97)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Callable[[], Any]], tuple[Path, Any]]:
    """Makes a model of a config once, and its folder: the config and a file in place of the weights."""
    made: dict[str, tuple[Path, Any]] = {}

    def make(kind: Callable[[], Any]) -> tuple[Path, Any]:
        if kind.__name__ not in made:
            from transformers import AutoModelForCausalLM

            model = AutoModelForCausalLM.from_config(kind())
            folder = tmp_path_factory.mktemp(kind.__name__)
            model.config.architectures = [type(model).__name__]
            model.config.save_pretrained(folder)
            (folder / "model.safetensors").write_bytes(b"\2" + b"\0" * 7 + b"{}" + b"\0" * 990)
            made[kind.__name__] = folder, model
        return made[kind.__name__]

    return make


def config_of(folder: Path | str, tmp_path: Path, *overrides: str) -> RunConfig:
    (tmp_path / "run.yaml").write_text(
        "model_name_or_path: some/model\nreward_funcs: [accuracy_reward]\ndataset_name: d\n"
    )
    config = load_config(tmp_path / "run.yaml", overrides)
    return replace(config, model=str(folder))  # reading the config looks into folders by itself


def facts_of(folder: Path | str, tmp_path: Path, *overrides: str) -> ModelFacts:
    facts = model_facts(config_of(folder, tmp_path, *overrides), Hub())
    assert rebuilt(ModelFacts, json.loads(json.dumps(asdict(facts)))) == facts
    return facts


def findings_of(folder: Path | str, tmp_path: Path, *overrides: str) -> list[Finding]:
    config = config_of(folder, tmp_path, *overrides)
    return model_findings(model_facts(config, Hub()), Settings.of_config(config, 1, lines=True))


@pytest.mark.parametrize("kind", [dense, grouped, experts, conv])
def test_parameters_are_those_of_the_real_model(kind: Any, saved: Any, tmp_path: Path) -> None:
    folder, model = saved(kind)
    shape = facts_of(folder, tmp_path).shape
    assert shape is not None
    assert (shape.parameters, shape.exact) == (sum(p.numel() for p in model.parameters()), True)


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("model.embed_tokens", "other"),
        ("lm_head", "head"),
        ("model.layers.0.self_attn.q_proj", "attention"),
        ("transformer.h.0.attn.c_attn", "attention"),
        ("backbone.layers.0.mixer.in_proj", "attention"),
        ("model.layers.0.mlp.gate_proj", "other"),
        ("model.layers.0.mlp.experts.3.down_proj", "other"),
        ("model.layers.0.mlp.gate", "other"),
        ("model.layers.0.mlp.shared_expert_gate", "other"),
        ("model.visual.blocks.0.attn.qkv", "other"),
        ("multi_modal_projector.linear_1", "other"),
    ],
)
def test_a_linear_module_belongs_to_one_part_by_its_path(path: str, part: str) -> None:
    assert _part(path, "lm_head") == part


def test_sizes_of_a_mixture_of_experts(saved: Any, tmp_path: Path) -> None:
    facts = facts_of(saved(experts)[0], tmp_path)
    shape = facts.shape
    assert shape is not None
    assert (shape.experts, shape.active_experts, shape.intermediate) == (8, 2, 24)
    assert facts.architecture == "Qwen3MoeForCausalLM"


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("Ernie4_5_MoeConfig", {"experts": 64, "active_experts": 6}),
        ("JetMoeConfig", {"head_dim": 128}),
        ("LongcatFlashConfig", {"active_experts": 12}),
    ],
)
def test_sizes_are_read_under_the_names_that_a_config_gives_them(name: str, sizes: dict[str, int]) -> None:
    import transformers

    shape = _sizes(getattr(transformers, name)())
    assert {field: getattr(shape, field) for field in sizes} == sizes


def test_vocabulary_is_known_of_models_without_attention_too(saved: Any, tmp_path: Path) -> None:
    folder, _ = saved(recurrent)
    facts = facts_of(folder, tmp_path)
    assert facts.shape is None
    assert (facts.architecture, facts.vocab, facts.context) == ("MambaForCausalLM", 97, None)


def test_shape_of_grouped_queries_and_a_tied_head(saved: Any, tmp_path: Path) -> None:
    facts = facts_of(saved(grouped)[0], tmp_path)
    shape = facts.shape
    assert shape is not None
    assert (shape.layers, shape.hidden, shape.heads, shape.kv_heads, shape.head_dim) == (3, 64, 4, 2, 16)
    assert (shape.vocab, shape.context, shape.tied, shape.intermediate) == (97, 128, True, 160)
    assert facts.where.place == "folder"
    assert facts.where.disk_bytes is not None
    assert 1000 < facts.where.disk_bytes < 5000


@pytest.mark.parametrize(
    ("written", "dtype"), [([], "float32"), (["dtype=bfloat16"], "bfloat16"), (["dtype=auto"], "float16")]
)
def test_the_dtype_is_what_the_weights_are_loaded_in(
    written: list[str], dtype: str, saved: Any, tmp_path: Path
) -> None:
    copy = tmp_path / "half"
    copy.mkdir()
    for file in saved(dense)[0].iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    stored = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**stored, "dtype": "float16"}))
    facts = facts_of(copy, tmp_path, *written)
    assert facts.shape is not None
    assert (facts.dtype, facts.shape.dtype) == (dtype, "float16")


TARGETS: list[tuple[Any, str]] = [
    (["q_proj", "v_proj"], ""),
    (["q_proj", "nowhere"], ""),
    (["nowhere", "no"], "none of the model's Linear modules: q_proj, k_proj, v_proj, o_proj"),
    (["self_attn", "q_proj"], "self_attn, which is not a Linear module"),
    (["q_proj"], "q_proj alone is treated as a pattern"),
    ([".*\\.q_proj"], ""),
    (["q_proj,v_proj"], "is the one text q_proj,v_proj, where a list is meant, as [q_proj, v_proj]"),
    (["embed_tokens", "lm_head"], ""),
    (["all-linear"], ""),
]


@pytest.mark.parametrize(("targets", "wrong"), TARGETS)
def test_lora_targets_match_as_they_do_in_peft(
    targets: list[str], wrong: str, saved: Any, tmp_path: Path
) -> None:
    import copy

    from peft import LoraConfig, get_peft_model

    folder, model = saved(grouped)
    facts = facts_of(folder, tmp_path, "use_peft=true", f"lora_target_modules={json.dumps(targets)}")
    lora = facts.lora
    assert lora is not None
    assert wrong in lora.problem
    assert bool(wrong) == bool(lora.problem)
    as_trl = targets[0] if len(targets) == 1 else targets
    wanted = LoraConfig(r=4, target_modules=as_trl, task_type="CAUSAL_LM")
    if wrong:
        with pytest.raises(ValueError, match=r"not found|is not supported"):
            get_peft_model(copy.deepcopy(model), wanted)
        return
    made = get_peft_model(copy.deepcopy(model), wanted)
    layers = [name for name, _ in made.named_modules() if name.endswith((".lora_A", ".lora_embedding_A"))]
    if "embed_tokens" in targets:
        assert lora.matched == 2
    else:
        assert lora.matched == len({name.rpartition(".")[0] for name in layers})
        adapted = [kind for kind in facts.linears if kind.name in lora.names]
        trained = sum(4 * kind.count * (kind.inputs + kind.outputs) for kind in adapted)
        assert trained == sum(p.numel() for p in made.parameters() if p.requires_grad)


def test_the_layers_of_gpt_2_are_linear_for_lora_with_their_sizes(saved: Any, tmp_path: Path) -> None:
    facts = facts_of(saved(conv)[0], tmp_path, "use_peft=true", "lora_target_modules=[all-linear]")
    assert {(one.name, one.inputs, one.outputs, one.count, one.part) for one in facts.linears} == {
        ("c_attn", 64, 192, 2, "attention"),
        ("c_proj", 64, 64, 2, "attention"),
        ("c_fc", 64, 256, 2, "other"),
        ("c_proj", 256, 64, 2, "other"),
        ("lm_head", 64, 97, 1, "head"),
    }
    assert facts.lora is not None
    assert (facts.lora.matched, facts.lora.names) == (8, ("c_attn", "c_proj", "c_fc"))


@pytest.mark.parametrize(
    ("targets", "fix"),
    [
        ("[q_proj, nowhere]", ["q_proj"]),
        ("[q_proj, v_prj]", ["q_proj", "v_proj"]),
        ("[q_proj, q_prj]", ["q_proj"]),
    ],
)
def test_a_target_that_is_left_out_is_told_with_the_nearest_as_the_fix(
    saved: Any, tmp_path: Path, targets: str, fix: list[str]
) -> None:
    overrides = ("use_peft=true", f"lora_target_modules={targets}")
    (found,) = findings_of(saved(grouped)[0], tmp_path, *overrides)
    assert (found.id, found.severity) == ("model.lora-unmatched", "warning")
    assert found.fix is not None
    assert found.fix.value == fix


@pytest.mark.parametrize(
    ("targets", "fix"),
    [
        ('["q_proj,v_proj"]', ["q_proj", "v_proj"]),
        ('["q_proj"]', [".*\\.q_proj"]),
        ('["nowhere", "no"]', ["q_proj", "k_proj", "v_proj", "o_proj"]),
    ],
)
def test_the_fix_of_lora_targets_is_sound(targets: str, fix: list[str], saved: Any, tmp_path: Path) -> None:
    folder, _ = saved(grouped)
    (found,) = findings_of(folder, tmp_path, "use_peft=true", f"lora_target_modules={targets}")
    assert (found.id, found.severity, found.field) == ("model.lora-targets", "error", "lora_target_modules")
    assert found.fix is not None
    assert found.fix.value == fix
    repaired = f"lora_target_modules={json.dumps(found.fix.value)}"
    assert findings_of(folder, tmp_path, "use_peft=true", repaired) == []


def test_the_line_of_the_key_is_told(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (found,) = findings_of(tmp_path / "empty", tmp_path)
    assert (found.id, found.field, found.line) == ("model.broken", "model_name_or_path", 1)


def broken_shard(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    weights = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(weights))
    (folder / "model-1.safetensors").write_bytes(b"x")


def no_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()


def cut_weights(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:5])


def reward_model(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    config["architectures"] = ["LlamaForSequenceClassification"]
    (folder / "config.json").write_text(json.dumps(config))


def encoder(folder: Path) -> None:
    (folder / "config.json").write_text('{"model_type": "bert", "architectures": ["BertModel"]}')


def no_config(folder: Path) -> None:
    (folder / "config.json").unlink()


def unknown_type(folder: Path) -> None:
    (folder / "config.json").write_text('{"model_type": "nothing\\u001b[31m", "architectures": ["X", "Y"]}')


def is_adapter(folder: Path) -> None:
    (folder / "config.json").unlink()
    base = Path(__file__).parents[2] / "grpo_tui" / "demo" / "model"
    (folder / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": str(base)}))


@pytest.mark.parametrize(
    ("spoil", "rule", "said"),
    [
        (broken_shard, "model.broken", "lacks 1 of its weight files (model-2.safetensors)"),
        (no_weights, "model.broken", "lacks its weights"),
        (cut_weights, "model.broken", "model.safetensors in"),
        (reward_model, "model.no-policy", "LlamaForSequenceClassification, which writes no text"),
        (encoder, "model.no-policy", "BertModel"),
        (no_config, "model.broken", "no config.json"),
        (unknown_type, "model.architecture", "nothing"),
        (is_adapter, "model.adapter", "LoRA adapter of"),
    ],
)
def test_a_spoilt_folder_is_an_error_in_one_sentence(
    spoil: Callable[[Path], None], rule: str, said: str, saved: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    for file in saved(dense)[0].iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    spoil(folder)
    found = [f for f in findings_of(folder, tmp_path) if f.severity == "error"]
    assert [f.id for f in found] == [rule]
    assert said in found[0].message
    assert "\x1b" not in found[0].message


def test_a_model_that_cannot_be_built_is_called_by_its_first_architecture(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    words = '{"model_type": "vit", "architectures": ["First", "Second"]}'
    (tmp_path / "model" / "config.json").write_text(words)
    facts = facts_of(tmp_path / "model", tmp_path)
    assert (facts.architecture, facts.lora, facts.linears) == ("First", None, ())
    assert facts.problem.startswith("the architecture First cannot be built: ")


def test_an_adapters_base_is_what_is_counted(tmp_path: Path) -> None:
    folder = tmp_path / "adapter"
    folder.mkdir()
    (folder / "config.json").touch()
    is_adapter(folder)
    facts = facts_of(folder, tmp_path)
    assert facts.adapter == str(folder)
    assert facts.shape is not None
    assert facts.shape.parameters == 801_152


@pytest.mark.parametrize("known", [True, False])
def test_without_targets_those_that_peft_knows_for_the_model_count(
    known: bool, saved: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from peft.utils import constants

    folder, made = saved(grouped)
    if not known:
        targets = constants.TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING
        monkeypatch.delitem(targets, made.config.model_type)
    lora = facts_of(folder, tmp_path, "use_peft=true").lora
    assert lora is not None
    assert (lora.matched > 0) is known
    told = f"PEFT knows no targets for models of the type {made.config.model_type}; set lora_target_modules"
    assert lora.problem.startswith(told) is not known
