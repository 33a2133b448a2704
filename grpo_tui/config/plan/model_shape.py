"""The sizes of a model that a plan needs, read from a folder's config.json without any ML import.

Parameters come from the headers of the weights when they are there (safetensors: eight bytes of length, then
JSON of names and shapes), else from the sizes of a dense or mixture decoder as transformers builds it. A name
that is no folder is looked for in the local cache, then in `shapes.json`, the sizes of common models.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any

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
