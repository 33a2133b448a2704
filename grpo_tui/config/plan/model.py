"""A model's sizes, its sharding, what of it is trained, and what its layers keep for the backward pass.

Sizes are read from config.json without any ML import. Parameters are counted from the headers of the weights
(safetensors: eight bytes of length, then JSON of names and shapes), or computed for a dense or
mixture-of-experts decoder as transformers builds it. A name that is not a folder is looked up in the local
cache, then in `shapes.json`, the sizes of common models.

Sharding follows Rajbhandari et al. 2020, "ZeRO: Memory Optimizations Toward Training Trillion Parameter
Models", section 5: stage 1 shards optimizer states, stage 2 also gradients, stage 3 also weights. FSDP's full
shard is stage 3.

What is trained follows `GRPOTrainer.__init__` in TRL 1.16 and PEFT: adapters are float32 next to 16-bit
weights (`autocast_adapter_dtype`), and bfloat16 on a quantized model and under ZeRO-3.

Bytes per token and layer are what autograd saves in a decoder layer of transformers 5.24
(`LlamaDecoderLayer`; Qwen, Mistral and Gemma differ by a norm). They follow Korthikanti et al. 2022,
"Reducing Activation Recomputation in Large Transformer Models", section 4, for RMSNorm, a gated MLP and an
attention kernel that keeps no scores.
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

from grpo_tui.config.settings import Settings
from grpo_tui.core.statistics import is_number

MOST_HEADER_BYTES = 100_000_000
"""Limit of the safetensors format."""

QK_NORM = ("qwen3", "gemma3", "olmo2", "olmo3")
"""Prefixes of the `model_type` of families whose attention normalizes queries and keys."""

Linear = tuple[int, int]


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The sizes of a causal language model.

    Attributes:
        parameters: Total number, tied ones counted once.
        hidden: Width of the residual stream.
        intermediate: Width of the MLP, or of one expert.
        vocab: Rows of the LM head.
        context: Maximum number of positions, None when not stated.
        tied: Whether embedding and LM head share one tensor.
        experts: Experts per layer, 0 for a dense model.
        active_experts: Experts per token.
        dtype: Dtype of the stored weights, empty when unknown.
        linears: (in, out) of the linear layers of all blocks, by last part of their name, for LoRA.
        exact: Whether the parameters were counted rather than computed.
        qk_norm: Whether queries and keys are normalized.
        adapted: Linear layers that LoRA finds, None when PEFT was not asked.
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
        """Width of all query heads together."""
        return self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        """Width of all key heads together, and of all value heads."""
        return self.kv_heads * self.head_dim

    @property
    def embedding_parameters(self) -> int:
        """Parameters of embedding and LM head, which are not quantized."""
        return self.vocab * self.hidden * (1 if self.tied else 2)


def read_shape(model: str) -> ModelShape | None:
    """Return the sizes of a local, cached or well-known model, None for any other.

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
    """Return the sizes of common Hub models by lower-case name."""
    found: dict[str, ModelShape] = {}
    for row in json.loads(Path(__file__).with_name("shapes.json").read_text(encoding="utf-8")):
        shape = shape_of(row)
        assert shape is not None
        known = replace(shape, parameters=row["parameters"], exact=True)
        found |= {name.lower(): known for name in row["names"]}
    return found


def model_folder(model: str) -> Path | None:
    """Return the local folder with a model's config.json, or that of an adapter's base model, else None."""
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
    """Return the sizes in a config.json with computed parameters, None when one is missing."""
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
    """Return the linear layers of a decoder, with the names of Llama, Qwen, Mistral and Gemma."""
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
    """Compute a decoder's parameters: linear layers, two norms per block, embedding, LM head, routers."""
    blocks = sum(a * b for layers in linears.values() for a, b in layers)
    norms = (2 * shape.layers + 1) * shape.hidden
    return blocks + norms + shape.layers * shape.hidden * shape.experts + shape.embedding_parameters


def _counted(shape: ModelShape, folder: Path) -> ModelShape:
    """Replace computed values by those in the headers of the weights, if these can be read."""
    tensors: dict[str, tuple[int, ...]] = {}
    kinds: dict[str, int] = {}
    files = sorted(folder.glob("*.safetensors"))
    if (folder / "model.safetensors.index.json").is_file() and not _complete(folder, files):
        return shape
    for file in files:
        if not _read_header(file, tensors, kinds):
            return shape
    if not tensors or any(kind.startswith(("U8", "I8", "U32", "I32")) for kind in kinds):
        return shape  # none, or quantized, where elements are not parameters
    count = sum(
        prod(size) for name, size in tensors.items() if not (shape.tied and name.endswith("lm_head.weight"))
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
    """Add the tensors of one file. Return False if it is not valid safetensors."""
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
    """Bytes per value.

    Attributes:
        weights: Of the weights and the residual stream.
        compute: Of matrix products, which differs from `weights` under autocast.
        adapter_input: Of the input that a LoRA adapter keeps: the autocast dtype, else its own.
        dropout: Of what dropout before an adapter keeps per value: a boolean on a GPU, the noise itself on
            the CPU, 0 without dropout.
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
    """Return the bytes that one token keeps in one layer for the backward pass.

    The two norms keep their input in float32 and, for the gradient of their weight, the normalized values:
    `(4 + w)·h` each. Norms of queries and keys do the same in the compute dtype. Linear layers keep their
    input, once if several share it, but once each under autocast, which casts it for each. Attention keeps
    queries, keys and values (repeated to all heads by `sdpa_attention_forward` when there is a padding mask),
    its output twice, and four bytes per head. The gated MLP keeps gate, activation, up and their product.
    Frozen weights keep nothing for their gradient. An adapter keeps its own input and its dropout mask.

    A test compares the result with what autograd saves.

    Args:
        adapted: Linear layers with LoRA, empty when all weights are trained.
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
    """Return the bytes per token for the backward pass of one layer: gradients of the MLP and the stream."""
    active = max(1, shape.active_experts)
    return 3 * shape.intermediate * widths.compute * active + 3 * shape.hidden * max(4, widths.weights)


def score_bytes(shape: ModelShape, widths: Widths) -> int:
    """Return the bytes of attention scores per pair of positions, for `attn_implementation: eager`.

    Scores, their softmax in float32, and that cast to the compute dtype (`eager_attention_forward`).
    """
    return shape.heads * (2 * widths.compute + 4)


Kind = Literal["none", "ddp", "zero1", "zero2", "zero3", "fsdp"]


@dataclass(frozen=True, slots=True)
class Sharding:
    """How a model is distributed over processes.

    Attributes:
        kind: `none` for one process, else the method.
    """

    kind: Kind = "none"
    world_size: int = 1
    offloads_optimizer: bool = False
    offloads_weights: bool = False

    @property
    def deepspeed(self) -> bool:
        """Whether DeepSpeed owns the optimizer, which then has float32 master weights."""
        return self.kind.startswith("zero")

    @property
    def weights(self) -> float:
        """Share of the weights on each process."""
        return 1 / self.world_size if self.kind in ("zero3", "fsdp") else 1.0

    @property
    def gradients(self) -> float:
        """Share of the gradients on each process."""
        return 1 / self.world_size if self.kind in ("zero2", "zero3", "fsdp") else 1.0

    @property
    def states(self) -> float:
        """Share of the optimizer states on each process."""
        return 1 / self.world_size if self.deepspeed or self.kind == "fsdp" else 1.0


def read_sharding(
    settings: Settings, world_size: int, accelerate: Mapping[str, Any] | None = None
) -> Sharding:
    """Return how a config and its launcher distribute the model.

    Args:
        settings: The config. Its `deepspeed` and `fsdp` take precedence.
        accelerate: Content of accelerate's config file, None without one.
    """
    deepspeed = _body(settings.get("deepspeed"))
    file = accelerate or {}
    if deepspeed is None and str(file.get("distributed_type", "")).upper() == "DEEPSPEED":
        inner = file.get("deepspeed_config")
        inner = inner if isinstance(inner, Mapping) else {}
        deepspeed = _body(inner.get("deepspeed_config_file"))
        if deepspeed is None:
            return _zero(inner, "zero_stage", world_size)
    if deepspeed is not None:
        zero = deepspeed.get("zero_optimization")
        return _zero(zero if isinstance(zero, Mapping) else {}, "stage", world_size)
    if settings.get("fsdp") or str(file.get("distributed_type", "")).upper() == "FSDP":
        return Sharding("fsdp", world_size)
    return Sharding("ddp" if world_size > 1 else "none", world_size)


def _body(value: Any) -> Mapping[str, Any] | None:
    """Return a DeepSpeed config given as a mapping, as JSON text or as a file, None without one."""
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
"""Bytes per 4-bit weight: half a byte, and a float32 maximum per block of 64 (bitsandbytes)."""
NF4_NESTED = 0.5 + 1 / 64 + 4 / (64 * 256)
"""As `NF4`, with the maxima quantized too (`use_bnb_nested_quant`)."""


@dataclass(frozen=True, slots=True)
class Trained:
    """What is trained of a model.

    Attributes:
        parameters: Number of trained parameters.
        width: Bytes of each.
        adapted: Names of linear layers with LoRA, empty when everything is trained.
        embeddings: Number of trained parameters in embedding and LM head.
        stored: Bytes of all weights as loaded.
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


def what_is_trained(settings: Settings, shape: ModelShape, sharding: Sharding) -> Trained:
    """Return what a config trains of a model."""
    dtype = settings.dtype if settings.dtype != "auto" else shape.dtype or "float32"
    width = BYTES.get(dtype, 4)
    autocast = settings.autocast
    if sharding.deepspeed and autocast is not None:
        width = 2  # the engine converts the model to its dtype
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
    kept = [str(name) for name in settings.get("lora_modules_to_save") or ()]
    embeddings = shape.vocab * shape.hidden * sum(name in kept for name in ("embed_tokens", "lm_head"))
    count += embeddings + sum(a * b for name in kept for a, b in shape.linears.get(name, ()))
    low = bool(bits) or sharding.kind == "zero3"
    adapter = 2 if bits else width if low else 4
    noise = 0 if settings.number("lora_dropout") == 0 else adapter if settings.flag("use_cpu") else 1
    widths = Widths(width, compute, compute if autocast is not None else adapter, noise)
    return Trained(count, adapter, adapted, embeddings, widths, stored)


def adapted_layers(settings: Settings, shape: ModelShape) -> tuple[str, ...]:
    """Return the names of the linear layers that get an adapter.

    Without `lora_target_modules`, PEFT adapts queries and values of most decoders (peft/utils/constants.py).
    """
    if shape.adapted is not None:
        return shape.adapted
    asked = settings.get("lora_target_modules")
    names = [asked] if isinstance(asked, str) else list(asked or ("q_proj", "v_proj"))
    if "all-linear" in names:
        return tuple(shape.linears)
    wanted = {str(name).rpartition(".")[2] for name in names}
    return tuple(name for name in shape.linears if name in wanted) or ("q_proj", "v_proj")


def _stored(settings: Settings, shape: ModelShape, width: int, bits: int) -> int:
    """Return the bytes of the weights, with quantized linear layers and everything else in the dtype."""
    if not bits:
        return shape.parameters * width
    linear = sum(a * b for pairs in shape.linears.values() for a, b in pairs)
    linear = min(linear, shape.parameters)
    nested = NF4_NESTED if settings.flag("use_bnb_nested_quant") else NF4
    return round(linear * (nested if bits == 4 else 1.0)) + (shape.parameters - linear) * width
