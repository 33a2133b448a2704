"""A model's sizes, how it is spread over processes, what of it is trained, and what its layers keep.

Sizes are read from a folder's config.json without any ML import. Parameters come from the headers of the
weights when they are there (safetensors: eight bytes of length, then JSON of names and shapes), else from the
sizes of a dense or mixture decoder as transformers builds it. A name that is no folder is looked for in the
local cache, then in `shapes.json`, the sizes of common models.

Sharding is after Rajbhandari et al. 2020, "ZeRO: Memory Optimizations Toward Training Trillion Parameter
Models", section 5: stage 1 divides the optimizer states, stage 2 the gradients too, stage 3 the weights too;
FSDP's full shard is stage 3.

What is trained follows `GRPOTrainer.__init__` in TRL 1.16 and PEFT: adapters are float32 beside weights of
two bytes (`autocast_adapter_dtype`), bfloat16 on a quantized model and under ZeRO-3.

Bytes per token and layer are counted from what autograd saves in a decoder layer of transformers 5.24
(`LlamaDecoderLayer`; Qwen, Mistral and Gemma differ by a norm): after Korthikanti et al. 2022, "Reducing
Activation Recomputation in Large Transformer Models", section 4, for RMSNorm, a gated MLP and an attention
kernel that keeps no scores.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any, Literal

from grpo_tui.config.plan.settings import PlanSettings
from grpo_tui.core.statistics import is_number

MOST_HEADER_BYTES = 100_000_000
"""The limit of the format itself (safetensors' README)."""

QK_NORM = ("qwen3", "gemma3", "olmo2", "olmo3")
"""Families, by the start of their `model_type`, whose attention normalises queries and keys."""

Linear = tuple[int, int]


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The sizes of a causal language model.

    Attributes:
        parameters: all of them, tied ones once.
        layers: transformer blocks.
        hidden: width of the residual stream.
        heads: attention heads.
        kv_heads: heads of keys and values.
        head_dim: width of a head.
        intermediate: width of an expert's or the only MLP.
        vocab: rows of the LM head.
        context: positions the model was made for, None when it says nothing.
        tied: whether embedding and LM head are one tensor.
        experts: experts of a layer, 0 for a dense model.
        active_experts: experts that one token goes through.
        dtype: of the stored weights, empty when unknown.
        linears: (in, out) of each linear layer of all blocks by its last name, for LoRA.
        exact: whether the parameters were counted rather than computed.
        qk_norm: whether queries and keys have norms of their own.
        adapted: linear layers that LoRA finds, None when nobody has asked PEFT.
    """

    parameters: int
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    context: int | None = None
    tied: bool = False
    experts: int = 0
    active_experts: int = 0
    dtype: str = ""
    linears: Mapping[str, tuple[Linear, ...]] = field(default_factory=dict)
    exact: bool = False
    qk_norm: bool = False
    adapted: tuple[str, ...] | None = None

    @property
    def query_width(self) -> int:
        """Width of all heads together."""
        return self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        """Width of all key heads together; values have the same."""
        return self.kv_heads * self.head_dim

    @property
    def embedding_parameters(self) -> int:
        """Parameters of embedding and LM head, which quantization leaves alone."""
        return self.vocab * self.hidden * (1 if self.tied else 2)


def read_shape(model: str) -> ModelShape | None:
    """Return the shape of a folder, or of a Hub model that is cached or well known; None otherwise.

    Args:
        model: A folder, or a name such as `Qwen/Qwen2.5-0.5B-Instruct`.
    """
    folder = model_folder(model)
    if folder is None:
        return published_shapes().get(model.lower())
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        shape = shape_of(config)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
    return None if shape is None else _counted(shape, folder)


@lru_cache(maxsize=1)
def published_shapes() -> Mapping[str, ModelShape]:
    """Return the shapes of common models of the Hub by their names in lower case."""
    found: dict[str, ModelShape] = {}
    for row in json.loads(Path(__file__).with_name("shapes.json").read_text(encoding="utf-8")):
        shape = shape_of(row)
        assert shape is not None
        known = replace(shape, parameters=row["parameters"], exact=True)
        found |= {name.lower(): known for name in row["names"]}
    return found


def model_folder(model: str) -> Path | None:
    """Where the config.json of a model lies on this machine; None when it is not here."""
    if not model:
        return None
    folder = Path(model).expanduser()
    if os.path.isfile(folder / "config.json"):
        return folder
    adapter = folder / "adapter_config.json"
    if os.path.isfile(adapter):
        try:
            base = str(json.loads(adapter.read_text(encoding="utf-8"))["base_model_name_or_path"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return model_folder(base) if base != model else None
    return _cached(model)


def _cached(model: str) -> Path | None:
    """The snapshot of a hub model in the cache, by the layout of `huggingface_hub`."""
    home = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
    cache = Path(os.environ.get("HF_HUB_CACHE") or home / "hub")
    root = cache / f"models--{model.replace('/', '--')}"
    try:
        revision = (root / "refs" / "main").read_text(encoding="utf-8").strip()
        found = root / "snapshots" / revision
        return found if os.path.isfile(found / "config.json") else None
    except OSError:
        return None


def shape_of(config: Mapping[str, Any]) -> ModelShape | None:
    """The shape from the words of a config.json, parameters computed; None when a size is missing."""
    text = config.get("text_config")
    body: Mapping[str, Any] = {**config, **text} if isinstance(text, Mapping) else config

    def size(*names: str, default: int | None = None) -> int | None:
        for name in names:
            value: Any = body.get(name)
            if is_number(value):
                return int(value)
        return default

    hidden, layers = size("hidden_size", "n_embd", "d_model"), size("num_hidden_layers", "n_layer")
    heads, vocab = size("num_attention_heads", "n_head"), size("vocab_size")
    if not (hidden and layers and heads and vocab):
        return None
    experts = size("num_local_experts", "num_experts", "n_routed_experts", default=0) or 0
    inner = size("moe_intermediate_size") if experts else None
    width = inner or size("intermediate_size", "n_inner", "ffn_dim", default=4 * hidden) or 4 * hidden
    shape = ModelShape(
        parameters=0,
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=size("num_key_value_heads", default=heads) or heads,
        head_dim=size("head_dim", default=hidden // heads) or hidden // heads,
        intermediate=width,
        vocab=vocab,
        context=size("max_position_embeddings", "n_positions"),
        tied=bool(body.get("tie_word_embeddings", config.get("tie_word_embeddings", False))),
        experts=experts,
        active_experts=(size("num_experts_per_tok", default=2) or 2) if experts else 0,
        qk_norm=str(config.get("model_type", "")).startswith(QK_NORM),
        dtype=str(body.get("dtype") or body.get("torch_dtype") or config.get("dtype") or ""),
    )
    linears = _linears(shape, gated="gelu_new" not in str(body.get("activation_function", "")))
    return replace(shape, linears=linears, parameters=_computed(shape, linears))


def _linears(shape: ModelShape, gated: bool) -> dict[str, tuple[Linear, ...]]:
    """The linear layers of a decoder as Llama, Qwen, Mistral and Gemma name them."""
    hidden, query, keys, width = shape.hidden, shape.query_width, shape.kv_width, shape.intermediate
    each = shape.layers
    mlp = each * max(1, shape.experts)
    found = {
        "q_proj": ((hidden, query),) * each,
        "k_proj": ((hidden, keys),) * each,
        "v_proj": ((hidden, keys),) * each,
        "o_proj": ((query, hidden),) * each,
        "up_proj": ((hidden, width),) * mlp,
        "down_proj": ((width, hidden),) * mlp,
    }
    if gated:
        found["gate_proj"] = ((hidden, width),) * mlp
    return found


def _computed(shape: ModelShape, linears: Mapping[str, Iterable[Linear]]) -> int:
    """Parameters of a decoder: linear layers, two norms a block, embedding, LM head, routers."""
    blocks = sum(a * b for layers in linears.values() for a, b in layers)
    norms = (2 * shape.layers + 1) * shape.hidden
    return blocks + norms + shape.layers * shape.hidden * shape.experts + shape.embedding_parameters


def _counted(shape: ModelShape, folder: Path) -> ModelShape:
    """The shape with what the headers of the weights say, where they can be read."""
    tensors: dict[str, tuple[int, ...]] = {}
    kinds: dict[str, int] = {}
    files = sorted(folder.glob("*.safetensors"))
    if (folder / "model.safetensors.index.json").is_file() and not _complete(folder, files):
        return shape
    for file in files:
        if not _read_header(file, tensors, kinds):
            return shape
    if not tensors or any(kind.startswith(("U8", "I8", "U32", "I32")) for kind in kinds):
        return shape  # none, or quantized: bytes are no parameters
    tied = shape.tied and any(name.endswith("lm_head.weight") for name in tensors)
    count = sum(
        prod(size) for name, size in tensors.items() if not (tied and name.endswith("lm_head.weight"))
    )
    linears: dict[str, list[Linear]] = {}
    for name, size in tensors.items():
        last = name.removesuffix(".weight").rpartition(".")[2]
        if len(size) == 2 and ".layers." in name and name.endswith(".weight"):
            linears.setdefault(last, []).append((size[1], size[0]))
    return replace(
        shape,
        parameters=count,
        exact=True,
        dtype=shape.dtype or max(kinds, key=lambda kind: kinds[kind]),
        linears={name: tuple(sizes) for name, sizes in linears.items()} or shape.linears,
    )


def _complete(folder: Path, files: Iterable[Path]) -> bool:
    try:
        index = json.loads((folder / "model.safetensors.index.json").read_text(encoding="utf-8"))
        return set(index["weight_map"].values()) <= {file.name for file in files}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _read_header(file: Path, tensors: dict[str, tuple[int, ...]], kinds: dict[str, int]) -> bool:
    """Add the tensors of one file; False when it is none of that format."""
    try:
        with file.open("rb") as opened:
            (length,) = struct.unpack("<Q", opened.read(8))
            if length > MOST_HEADER_BYTES:
                return False
            header = json.loads(opened.read(length))
        for name, entry in header.items():
            if name != "__metadata__":
                size = tuple(int(n) for n in entry["shape"])
                tensors[name] = size
                kinds[str(entry["dtype"])] = kinds.get(str(entry["dtype"]), 0) + prod(size)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, struct.error):
        return False
    return True


@dataclass(frozen=True, slots=True)
class Widths:
    """Bytes of a number.

    Attributes:
        weights: of the weights, and so of the residual stream.
        compute: of what goes through matrix products, another than `weights` under autocast.
        adapter_input: of what a LoRA adapter keeps of its input: the autocast dtype, else its own.
        dropout: of what dropout before an adapter keeps of each value: a truth value on a GPU, the noise
            itself on the CPU; 0 without dropout.
    """

    weights: int
    compute: int
    adapter_input: int = 0
    dropout: int = 0

    @property
    def mixed(self) -> bool:
        """Whether autocast runs matrix products in another dtype."""
        return self.weights != self.compute


def layer_bytes(shape: ModelShape, widths: Widths, adapted: Collection[str] = ()) -> int:
    """Bytes one token leaves in one layer for the backward pass.

    Two norms, each: the input in float32, and for the gradient of their weight the normalised values,
    `(4 + w)·h`; norms of queries and keys likewise, in the dtype of products. Linear layers keep their input,
    once where several share it, but once each under autocast, which casts it for each. Attention keeps
    queries, keys and values (repeated to all heads by `sdpa_attention_forward` when there is a padding mask),
    its output twice and four bytes a head. The gated MLP keeps gate, its activation, up and their product.
    Frozen weights keep nothing for their own gradient; an adapter on a layer keeps its own input, and what
    its dropout drew.

    A test holds it against what autograd saves.

    Args:
        shape: the model.
        widths: bytes of a number.
        adapted: names of the linear layers that carry LoRA; empty when all weights are trained.
    """
    hidden, query, width = shape.hidden, shape.query_width, shape.intermediate
    w, c = widths.weights, widths.compute
    headed = query + shape.kv_width if shape.qk_norm else 0
    norms = 4 * (2 * hidden + headed)
    attention = 5 * query * c + 4 * shape.heads
    active = max(1, shape.active_experts)
    mlp = 3 * width * c * active
    if not adapted:
        inputs = (3 + 2) * hidden * c if widths.mixed else 2 * hidden * w
        norms += w * 2 * hidden + c * headed
        return norms + attention + mlp + inputs + width * c * active
    return norms + attention + mlp + _adapter_inputs(shape, widths, adapted)


def _adapter_inputs(shape: ModelShape, widths: Widths, adapted: Collection[str]) -> int:
    into = {"o_proj": shape.query_width, "down_proj": shape.intermediate}
    kept = widths.adapter_input + widths.dropout
    return sum(into.get(name, shape.hidden) * kept for name in adapted)


def working_bytes(shape: ModelShape, widths: Widths) -> int:
    """Bytes a token needs while one layer goes back: gradients of the MLP's values and of the stream."""
    active = max(1, shape.active_experts)
    return 3 * shape.intermediate * widths.compute * active + 3 * shape.hidden * max(4, widths.weights)


def score_bytes(shape: ModelShape, widths: Widths) -> int:
    """Bytes of attention scores for each pair of positions, for `attn_implementation: eager`.

    Scores, their softmax in float32 and back in the compute dtype (`eager_attention_forward`).
    """
    return shape.heads * (2 * widths.compute + 4)


Kind = Literal["none", "ddp", "zero1", "zero2", "zero3", "fsdp"]


@dataclass(frozen=True, slots=True)
class Sharding:
    """How a model is spread.

    Attributes:
        kind: `none` on one process, else the method.
        world_size: processes.
        offloads_optimizer: whether optimizer states lie in the host's memory.
        offloads_weights: whether weights do.
    """

    kind: Kind = "none"
    world_size: int = 1
    offloads_optimizer: bool = False
    offloads_weights: bool = False

    @property
    def deepspeed(self) -> bool:
        """Whether DeepSpeed holds the optimizer, with float32 master weights of its own."""
        return self.kind.startswith("zero")

    @property
    def weights(self) -> float:
        """The share of the weights that one process holds."""
        return 1 / self.world_size if self.kind in ("zero3", "fsdp") else 1.0

    @property
    def gradients(self) -> float:
        """The share of the gradients."""
        return 1 / self.world_size if self.kind in ("zero2", "zero3", "fsdp") else 1.0

    @property
    def states(self) -> float:
        """The share of the optimizer states."""
        return 1 / self.world_size if self.deepspeed or self.kind == "fsdp" else 1.0


def read_sharding(
    settings: PlanSettings, world_size: int, accelerate: Mapping[str, Any] | None = None
) -> Sharding:
    """How a config, and the accelerate config of its launcher, spread the model.

    Args:
        settings: the config; its `deepspeed` and `fsdp` come first.
        world_size: processes.
        accelerate: the body of accelerate's config file, None without one.
    """
    deepspeed = _body(settings("deepspeed"))
    if deepspeed is not None:
        zero = deepspeed.get("zero_optimization")
        return _zero(zero if isinstance(zero, Mapping) else {}, "stage", world_size)
    file = accelerate or {}
    if str(file.get("distributed_type", "")).upper() == "DEEPSPEED":
        inner = file.get("deepspeed_config")
        inner = inner if isinstance(inner, Mapping) else {}
        named = _body(inner.get("deepspeed_config_file"))
        if named is not None:
            zero = named.get("zero_optimization")
            return _zero(zero if isinstance(zero, Mapping) else {}, "stage", world_size)
        return _zero(inner, "zero_stage", world_size)
    if settings("fsdp") or str(file.get("distributed_type", "")).upper() == "FSDP":
        return Sharding("fsdp", world_size)
    return Sharding("ddp" if world_size > 1 else "none", world_size)


def _body(value: Any) -> Mapping[str, Any] | None:
    """A DeepSpeed config that is given as such, as JSON text or as a file."""
    if not value:
        return None
    if isinstance(value, Mapping):
        return value
    try:
        text = str(value)
        found = json.loads(text if text.lstrip().startswith("{") else Path(text).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _zero(body: Mapping[str, Any], key: str, world_size: int) -> Sharding:
    stage: Any = body.get(key)
    if stage == "auto" or not is_number(stage):
        stage = 2 if key == "zero_stage" else 0
    kinds: dict[int, Kind] = {1: "zero1", 2: "zero2", 3: "zero3"}
    kind = kinds.get(int(stage), "ddp" if world_size > 1 else "none")
    return Sharding(
        kind,
        world_size,
        offloads_optimizer=_offloads(body, "offload_optimizer"),
        offloads_weights=_offloads(body, "offload_param"),
    )


def _offloads(body: Mapping[str, Any], name: str) -> bool:
    inner = body.get(name)
    if isinstance(inner, Mapping):
        return str(inner.get("device", "none")) != "none"
    return str(body.get(f"{name}_device", "none")) not in ("none", "None", "")


BYTES: Mapping[str, int] = {
    "float32": 4, "float16": 2, "bfloat16": 2, "float64": 8,
    "F32": 4, "F16": 2, "BF16": 2, "F64": 8,
}  # fmt: skip
NF4 = 0.5 + 4 / 64
"""Bytes of a 4-bit weight: half, and its share of a float32 maximum for each block of 64 (bitsandbytes)."""
NF4_NESTED = 0.5 + 1 / 64 + 4 / (64 * 256)
"""The same with the maxima quantized again (`use_bnb_nested_quant`)."""


@dataclass(frozen=True, slots=True)
class Trained:
    """What is trained.

    Attributes:
        parameters: trained ones.
        width: bytes of each.
        adapted: linear layers that carry LoRA, by name; empty when everything is trained.
        embeddings: trained parameters of embedding and LM head.
        widths: bytes of weights, products and adapters.
        stored: bytes of the weights of the whole model as loaded.
    """

    parameters: int
    width: int
    adapted: tuple[str, ...]
    embeddings: int
    widths: Widths
    stored: int

    @property
    def is_adapter(self) -> bool:
        """Whether only adapters are trained."""
        return bool(self.adapted)


def what_is_trained(settings: PlanSettings, shape: ModelShape, sharding: Sharding) -> Trained:
    """What a config trains of a model."""
    dtype = settings.dtype if settings.dtype != "auto" else shape.dtype or "float32"
    width = BYTES.get(dtype, 4)
    autocast = settings.autocast
    if sharding.deepspeed and autocast is not None:
        width = 2  # the engine turns the model into its dtype
    compute = 2 if autocast is not None else width
    bits = 4 if settings.flag("load_in_4bit") else 8 if settings.flag("load_in_8bit") else 0
    stored = _stored(settings, shape, width, bits)
    if not settings.flag("use_peft"):
        return Trained(
            shape.parameters, width, (), shape.embedding_parameters, Widths(width, compute), stored
        )
    adapted = adapted_layers(settings, shape)
    rank = settings.whole("lora_r")
    pairs = [pair for name in adapted for pair in shape.linears.get(name, ())]
    count = sum(rank * (a + b) for a, b in pairs)
    if settings.flag("use_dora"):
        count += sum(b for _, b in pairs)
    kept = [str(name) for name in settings("lora_modules_to_save") or ()]
    embeddings = shape.vocab * shape.hidden * sum(name in kept for name in ("embed_tokens", "lm_head"))
    count += embeddings + sum(a * b for name in kept for a, b in shape.linears.get(name, ()))
    low = bool(bits) or sharding.kind == "zero3"
    adapter = 2 if bits else width if low else 4
    noise = 0 if settings.number("lora_dropout") == 0 else adapter if settings.flag("use_cpu") else 1
    widths = Widths(width, compute, compute if autocast is not None else adapter, noise)
    return Trained(count, adapter, adapted, embeddings, widths, stored)


def adapted_layers(settings: PlanSettings, shape: ModelShape) -> tuple[str, ...]:
    """Names of the linear layers that get an adapter.

    Without `lora_target_modules` PEFT takes queries and values of most decoders (peft/utils/constants.py).
    """
    if shape.adapted is not None:
        return shape.adapted
    asked = settings("lora_target_modules")
    names = [asked] if isinstance(asked, str) else list(asked or ("q_proj", "v_proj"))
    if "all-linear" in names:
        return tuple(shape.linears)
    wanted = {str(name).rpartition(".")[2] for name in names}
    return tuple(name for name in shape.linears if name in wanted) or ("q_proj", "v_proj")


def _stored(settings: PlanSettings, shape: ModelShape, width: int, bits: int) -> int:
    """Bytes of the weights: quantized linear layers of the blocks, everything else in the dtype."""
    if not bits:
        return shape.parameters * width
    linear = sum(a * b for pairs in shape.linears.values() for a, b in pairs)
    linear = min(linear, shape.parameters)
    nested = NF4_NESTED if settings.flag("use_bnb_nested_quant") else NF4
    return round(linear * (nested if bits == 4 else 1.0)) + (shape.parameters - linear) * width
