"""Memory of one device by part: each function one part, its formula and source in its docstring.

Read against TRL 1.16 (trainer/grpo_trainer.py, trainer/utils.py, kernels/chunked_logprob.py), transformers
5.24 and accelerate 1.15. Knows the sizes it is given; what they are is for the caller. All sizes are upper
bounds: each completion as long as allowed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from grpo_tui.config.plan.activations import layer_bytes, score_bytes, working_bytes
from grpo_tui.config.plan.load import Load, gigabytes, short_count
from grpo_tui.config.plan.memory_generation import gathered, generation, kv_cache, vllm
from grpo_tui.config.plan.memory_plan import ALWAYS, MOMENTS, MemoryPart, Moment
from grpo_tui.config.plan.optimizers import optimizer_states
from grpo_tui.config.plan.settings import PlanSettings

TOKEN_TILE = 4096
"""`TOKEN_CHUNK_SIZE` of trl/kernels/chunked_logprob.py: tokens of a tile of logits."""
VOCAB_TILE = 32768
"""`_CHUNKED_LOGPROB_CHUNK_SIZE` of trl/trainer/utils.py: its width."""
CPU_TILE_COPIES = 8
"""Float32 copies of a tile that `_backward_tile` holds at once where there is no Triton: y, z, log p, p, the
gradient, the target's mask as numbers, its difference from p and their product."""
CUDA_CONTEXT = 550_000_000
"""Driver context, kernels and cuBLAS workspace of a process."""
NCCL = 400_000_000
"""Buffers of a communicator of several processes."""
SLACK = 0.10
"""An allowance for what torch's allocator reserves beyond what it hands out, of the parts that come and go.
Assumed, not measured: `train --smoke` measures it."""
CPU_SLACK = 0.15
"""The same for the C allocator and the kernels' own buffers, from benchmarks/memory_plan.py."""
COME_AND_GO = ("activations", "layer", "logits", "head_gradient", "kv_cache", "generation")
CPU_PROCESS = 470_000_000
"""Resident memory of Python with torch, transformers, datasets and TRL imported, before any model."""


def parts_of(load: Load) -> tuple[MemoryPart, ...]:
    """Every part that is not empty, what is always there first."""
    found = (
        _weights(load),
        _adapter(load),
        _reference(load),
        _optimizer(load),
        _gradients(load),
        _casts(load),
        _activations(load),
        _layer(load),
        _head(load),
        _head_gradient(load),
        kv_cache(load),
        generation(load),
        gathered(load),
        vllm(load),
        _process(load),
    )
    there = [part for part in found if part is not None and part.bytes > 0]
    return (*there, _slack(load, there))


def _slack(load: Load, there: Sequence[MemoryPart]) -> MemoryPart:
    """Memory that an allocator holds beyond the tensors: a share of the most that comes and goes at once."""
    passing = [part for part in there if part.name in COME_AND_GO]
    most = max(sum(part.bytes for part in passing if moment in part.moments) for moment in MOMENTS)
    share = CPU_SLACK if load.on_cpu else SLACK
    text = f"{share:.0%} of the {gigabytes(most)} that come and go"
    return MemoryPart("allocator", "allocator", round(most * share), ALWAYS, text)


def _weights(load: Load) -> MemoryPart:
    """Weights as loaded (`create_model_from_path`): parameters × bytes of the dtype, less when quantized.

    ZeRO-3 and FSDP hold a share, and the layer at work whole.
    """
    trained, shape, sharding = load.trained, load.shape, load.sharding
    share = round(trained.stored * sharding.weights)
    text = f"{short_count(shape.parameters)} parameters, {gigabytes(trained.stored)}"
    if sharding.weights < 1:
        share += trained.stored // max(1, shape.layers)
        text += f" ÷ {sharding.world_size} and one layer whole"
    return MemoryPart("weights", "weights", share, ALWAYS, text, movable=sharding.offloads_weights)


def _adapter(load: Load) -> MemoryPart | None:
    """LoRA: rank × (inputs + outputs) of each adapted layer (Hu et al. 2021), in the adapter's dtype.

    An adapter that is trained on needs a frozen copy as reference when beta is not 0 (`model.add_adapter`).
    """
    trained = load.trained
    if not trained.is_adapter:
        return None
    return MemoryPart(
        "lora",
        "LoRA",
        trained.parameters * trained.width,
        ALWAYS,
        f"{short_count(trained.parameters)} parameters × {trained.width} bytes",
    )


def _reference(load: Load) -> MemoryPart | None:
    """The frozen model for the KL term: loaded again when beta is not 0 and no adapter can be switched off.

    It is prepared by DeepSpeed or FSDP like the policy (`prepare_deepspeed`, `prepare_fsdp`).
    """
    if load.settings.number("beta") == 0 or load.trained.is_adapter:
        return None
    size = round(load.trained.stored * load.sharding.weights)
    return MemoryPart(
        "reference", "reference model", size, ALWAYS, f"beta is not 0: a second copy, {gigabytes(size)}"
    )


def _optimizer(load: Load) -> MemoryPart:
    """States of the optimizer; see `optimizers`. Under DeepSpeed with 16 bits also the float32 weights.

    DeepSpeed: 4 bytes of weights and 8 of Adam's states for each parameter (ZeRO paper, section 3.1).
    They are made at the first step.
    """
    trained, sharding, settings = load.trained, load.sharding, load.settings
    states = optimizer_states(settings.optim)
    moments = ALWAYS
    if sharding.deepspeed and settings.autocast is not None:
        each: float = 12.0
        size = trained.parameters * each
    elif states.per_matrix:
        each = 8 / load.shape.hidden
        size = trained.parameters * each
    else:
        each = states.bytes_per_parameter(trained.width)
        full = trained.embeddings if states.full_embeddings else 0
        size = (trained.parameters - full) * each + full * states.states * 4
    text = f"{settings.optim}: {short_count(trained.parameters)} × {each:.3g} bytes"
    if sharding.states < 1:
        text += f" ÷ {sharding.world_size}"
    if not states.known:
        text += " (taken for AdamW)"
    return MemoryPart(
        "optimizer",
        "optimizer",
        round(size * sharding.states),
        moments,
        text,
        movable=states.paged or sharding.offloads_optimizer,
    )


def _gradients(load: Load) -> MemoryPart:
    """One gradient for each trained parameter, in its dtype, from the backward pass to `zero_grad`.

    With several micro-batches a step they are there during the forward passes too. DDP keeps a second copy
    in its buckets (`gradient_as_bucket_view` is off).
    """
    trained, sharding = load.trained, load.sharding
    size = trained.parameters * trained.width * sharding.gradients
    text = f"{short_count(trained.parameters)} × {trained.width} bytes"
    if sharding.kind == "ddp":
        size *= 2
        text += ", twice with DDP's buckets"
    elif sharding.gradients < 1:
        text += f" ÷ {sharding.world_size}"
    accumulates = load.batches.accumulation > 1
    return MemoryPart(
        "gradients",
        "gradients",
        0 if load.settings.optim in ("lomo", "adalomo") else round(size),
        ("loss", "layers", "backward", "step") if accumulates else ("backward", "step"),
        text,
    )


def _casts(load: Load) -> MemoryPart | None:
    """Copies of float32 weights in the autocast dtype.

    Those of trained weights are kept for a whole pass (`cached_cast`), while it generates too. Without
    checkpointing the graph keeps all copies for the backward pass, of frozen weights as well.
    """
    trained = load.trained
    if not trained.widths.mixed:
        return None
    linear = max(0, load.shape.parameters - load.shape.embedding_parameters)
    moments: tuple[Moment, ...] = () if trained.is_adapter else ("generate", "loss")
    if not load.settings.checkpointing:
        moments = (*moments[:1], "loss", "layers")
    if not moments:
        return None
    return MemoryPart(
        "casts",
        "16-bit copies",
        linear * trained.widths.compute,
        moments,
        f"{short_count(linear)} float32 weights × {trained.widths.compute} bytes under autocast",
    )


def _activations(load: Load) -> MemoryPart:
    """What the layers of one micro-batch keep for the backward pass; see `activations`.

    With `gradient_checkpointing` each layer keeps its input alone.
    """
    shape, widths = load.shape, load.trained.widths
    tokens = load.batches.per_device * load.length
    if load.settings.checkpointing:
        each, text = shape.hidden * widths.weights, f"inputs of {shape.layers} layers"
        scores = 0
    else:
        each = layer_bytes(shape, widths, load.trained.adapted)
        text = f"{shape.layers} layers, no checkpointing"
        scores = _scores(load) * shape.layers
    masks = load.batches.per_device * load.length**2 * (1 + widths.compute)
    return MemoryPart(
        "activations",
        "activations",
        tokens * shape.layers * each + scores + masks,
        ("loss", "layers"),
        f"{load.batches.per_device} × {load.length:,} tokens: {text}",
    )


def _layer(load: Load) -> MemoryPart:
    """The layer that goes back: its gradients, and with checkpointing what it computes again."""
    shape, widths = load.shape, load.trained.widths
    tokens = load.batches.per_device * load.length
    each, text = working_bytes(shape, widths), "gradients within one layer"
    scores = 0
    if load.settings.checkpointing:
        each += layer_bytes(shape, widths, load.trained.adapted)
        text, scores = "one layer computed again, and its gradients", _scores(load)
    return MemoryPart("layer", "a layer", tokens * each + scores, ("layers", "backward"), text)


def _scores(load: Load) -> int:
    """Attention scores of one layer, 0 for a kernel that keeps none."""
    if not _is_eager(load.settings):
        return 0
    return load.batches.per_device * load.length**2 * score_bytes(load.shape, load.trained.widths)


def _head(load: Load) -> MemoryPart:
    """The LM head and its loss: a tile of logits, never all of them (`ChunkedLogProbFunction`).

    A tile is min(tokens, 4096) × 32768 values in the compute dtype; with Triton the gradient replaces it, on
    the CPU some float32 copies of it come on top. The backward pass sums up the gradient of the hidden states
    in float32 (tokens × hidden).
    """
    shape, widths = load.shape, load.trained.widths
    tokens = _scored_tokens(load)
    columns = min(VOCAB_TILE, shape.vocab) if load.on_cpu else VOCAB_TILE
    compute = 4 if load.settings.flag("cast_lm_head_to_fp32") else widths.compute
    rows = min(tokens, TOKEN_TILE)
    tile = rows * columns * (compute + (4 * CPU_TILE_COPIES if load.on_cpu else 0))
    hidden = tokens * shape.hidden * (4 + 2 * widths.weights)
    part = min(VOCAB_TILE, shape.vocab) * shape.hidden * compute if compute != widths.weights else 0
    return MemoryPart(
        "logits",
        "logits",
        tile + hidden + part,
        ("loss",),
        f"a tile of {rows:,} × {columns:,} of {tokens:,} × {shape.vocab:,}, and gradients",
    )


def _scored_tokens(load: Load) -> int:
    """Tokens that go through the LM head: those of the completions, all of them without Triton."""
    return load.batches.per_device * (load.length - 1 if load.on_cpu else load.completion)


def _head_gradient(load: Load) -> MemoryPart | None:
    """The gradient of the LM head's weight, vocab × hidden, summed up in float32 and then cast."""
    shape, trained = load.shape, load.trained
    if not trained.embeddings:
        return None
    width = 4 + (trained.width if trained.width != 4 else 0)
    # It becomes the gradient itself where none is there yet.
    moments: tuple[Moment, ...] = ("loss",) if load.batches.accumulation > 1 else ("loss", "layers")
    return MemoryPart(
        "head_gradient",
        "gradient of the head",
        shape.vocab * shape.hidden * width,
        moments,
        f"{shape.vocab:,} × {shape.hidden:,} × {width} bytes",
    )


def _process(load: Load) -> MemoryPart:
    """What a process takes before any model: on a GPU the driver's context, on the CPU its libraries."""
    if load.on_cpu:
        return MemoryPart("process", "process", CPU_PROCESS, ALWAYS, "Python with torch and TRL")
    several = load.sharding.world_size > 1
    size = CUDA_CONTEXT + (NCCL if several else 0)
    text = "CUDA context and cuBLAS" + (", NCCL" if several else "")
    return MemoryPart("process", "CUDA context", size, ALWAYS, text)


def _is_eager(settings: PlanSettings) -> bool:
    inner = settings("model_init_kwargs")
    named: Any = inner.get("attn_implementation") if isinstance(inner, Mapping) else None
    return (named or settings("attn_implementation")) == "eager"
