"""Memory of one device by part, and when each part is needed.

A step has five moments. It generates; it has gone forward and is at the LM head (`loss`); it goes back
through the last layer (`layers`); through the first, with all gradients made (`backward`); the optimizer
steps. A part lives at some of them, so the peak is not the sum of all. Each part is one function, its formula
and source in its docstring. All sizes are upper bounds: each completion as long as allowed.

Read against TRL 1.16 (trainer/grpo_trainer.py, trainer/utils.py, kernels/chunked_logprob.py,
`VLLMGeneration`), transformers 5.24 (`GenerationMixin._sample`) and accelerate 1.15. Optimizer states:
`Trainer.get_optimizer_cls_and_kwargs` (transformers 5.24) for what a name stands for; `torch.optim` (AdamW's
two states and RMSprop's one have the parameter's dtype); bitsandbytes (8-bit states of blocks of 256 with a
float32 each; 32-bit states are float32 whatever the parameter is; embeddings keep 32 bits); torchao (8-bit
blocks of 256, 4-bit blocks of 128). Memory of cards is NVIDIA's data sheets'; what a driver shows is a little
less, since part of it is kept back.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from grpo_tui.config.plan.model import (
    ModelShape,
    Sharding,
    Trained,
    layer_bytes,
    score_bytes,
    working_bytes,
)
from grpo_tui.config.plan.settings import Batches, PlanSettings

Moment = Literal["generate", "loss", "layers", "backward", "step"]
MOMENTS: tuple[Moment, ...] = ("generate", "loss", "layers", "backward", "step")
ALWAYS = MOMENTS
WORDS: Mapping[Moment, str] = {
    "generate": "while it generates",
    "loss": "at the LM head",
    "layers": "as the backward pass begins",
    "backward": "as the backward pass ends",
    "step": "at the optimizer's step",
}


@dataclass(frozen=True, slots=True)
class MemoryPart:
    """One part.

    Attributes:
        name: stable name, such as `weights`.
        title: what a person calls it.
        bytes: on one device.
        moments: when it is there.
        formula: the sum written out.
        movable: whether it can move to the host's memory; it does not count against the device then.
    """

    name: str
    title: str
    bytes: int
    moments: tuple[Moment, ...]
    formula: str
    movable: bool = False

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "name": self.name,
            "bytes": self.bytes,
            "moments": list(self.moments),
            "formula": self.formula,
            "movable": self.movable,
        }


@dataclass(frozen=True, slots=True)
class Device:
    """The device a plan is made for.

    Attributes:
        name: what a person calls it.
        memory_bytes: all of its memory.
        kind: `cuda` or `cpu`.
        free_bytes: what other processes leave of it, None when nobody looked.
        held_by: those processes, in words.
    """

    name: str
    memory_bytes: int
    kind: Literal["cuda", "cpu"] = "cuda"
    free_bytes: int | None = None
    held_by: str = ""

    @property
    def room_bytes(self) -> int:
        """What a run may take: the memory that is free, all of it when nobody else holds any."""
        return self.memory_bytes if self.free_bytes is None else min(self.memory_bytes, self.free_bytes)


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """The memory of one device of a run.

    Attributes:
        parts: each part.
        device: the device it is held against, None when none was named or found.
        exact: whether the model's parameters were counted rather than computed.
        correction: measured ÷ planned of a trial on this machine, 1 without one.
        notes: what was assumed, in sentences.
        most_generations: the largest `num_generations` that fits when the batch grows with it; None when
            the smallest does not, or no device is known.
        most_length: the largest `max_completion_length` that fits; None likewise.
        most_per_device: the largest `per_device_train_batch_size` up to the config's that fits and leaves
            groups whole, everything else as it is; None likewise.
    """

    parts: tuple[MemoryPart, ...]
    device: Device | None = None
    exact: bool = False
    correction: float = 1.0
    notes: tuple[str, ...] = ()
    most_generations: int | None = None
    most_length: int | None = None
    most_per_device: int | None = None

    def bytes_at(self, moment: Moment) -> int:
        """Bytes in use at a moment, corrected; what can move to the host is not counted."""
        planned = sum(p.bytes for p in self.parts if moment in p.moments and not p.movable)
        return round(planned * self.correction)

    @property
    def peak_moment(self) -> Moment:
        """The moment that needs most."""
        return max(MOMENTS, key=self.bytes_at)

    @property
    def peak_bytes(self) -> int:
        """The most that is in use at once."""
        return self.bytes_at(self.peak_moment)

    @property
    def fits(self) -> bool | None:
        """Whether it fits beside what others hold of the device; None when no device is known."""
        return None if self.device is None else self.peak_bytes <= self.device.room_bytes

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        device = self.device
        return {
            "peak_bytes": self.peak_bytes,
            "peak_moment": self.peak_moment,
            "parts": [part.to_json() for part in self.parts],
            "device": None
            if device is None
            else {
                "name": device.name,
                "memory_bytes": device.memory_bytes,
                "free_bytes": device.free_bytes,
                "held_by": device.held_by,
            },
            "fits": self.fits,
            "largest_num_generations": self.most_generations,
            "largest_max_completion_length": self.most_length,
            "largest_per_device_train_batch_size": self.most_per_device,
            "parameters_exact": self.exact,
            "correction": self.correction,
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True)
class Load:
    """Everything a part's size depends on.

    Attributes:
        settings: the config.
        shape: sizes of the model.
        trained: what is trained of it.
        batches: batch sizes.
        sharding: how the model is spread.
        prompt: tokens of the longest prompt.
        completion: tokens of a completion at most.
        device: where it runs, None when that is open.
    """

    settings: PlanSettings
    shape: ModelShape
    trained: Trained
    batches: Batches
    sharding: Sharding
    prompt: int
    completion: int
    device: Device | None = None

    @property
    def length(self) -> int:
        """Tokens of a whole sequence."""
        return self.prompt + self.completion

    @property
    def on_cpu(self) -> bool:
        """Whether it runs without a GPU."""
        return self.settings.flag("use_cpu") or (self.device is not None and self.device.kind == "cpu")


def gigabytes(size: float) -> str:
    """Bytes as a person says them in a sum."""
    return f"{size / 1e9:.2f} GB"


def short_count(parameters: int) -> str:
    """Parameters as a person says them: `1.54B`."""
    for unit, scale in (("B", 1e9), ("M", 1e6), ("k", 1e3)):
        if parameters >= scale:
            return f"{parameters / scale:.3g}{unit}"
    return str(parameters)


BLOCK_8BIT = 1 + 4 / 256
"""One quantized state: a byte, and its share of a block's float32 scale."""
BLOCK_4BIT = 0.5 + 4 / 128


@dataclass(frozen=True, slots=True)
class OptimizerStates:
    """What an optimizer keeps of one parameter.

    Attributes:
        states: how many values.
        width: bytes of each; None: as wide as the parameter.
        paged: whether they may move to the host's memory when the GPU's is short.
        known: False for an optimizer whose states were not looked up; AdamW's are assumed.
        full_embeddings: whether embeddings keep float32 states beside quantized ones.
        per_matrix: whether it keeps rows and columns of a matrix instead (Adafactor).
    """

    states: int
    width: float | None = None
    paged: bool = False
    known: bool = True
    full_embeddings: bool = False
    per_matrix: bool = False

    def bytes_per_parameter(self, parameter_width: int) -> float:
        """Bytes of state of a parameter that takes so many bytes itself."""
        return self.states * (parameter_width if self.width is None else self.width)


_ADAMW = OptimizerStates(2)
_TABLE: Mapping[str, OptimizerStates] = {
    **dict.fromkeys(
        (
            "adamw_torch",
            "adamw_torch_fused",
            "adamw_torch_xla",
            "adamw_torch_npu_fused",
            "schedule_free_adamw",
            "schedule_free_radam",
            "stable_adamw",
        ),
        _ADAMW,
    ),
    "adamw_anyprecision": OptimizerStates(1, 6),
    "adamw_torch_8bit": OptimizerStates(2, BLOCK_8BIT),
    "adamw_torch_4bit": OptimizerStates(2, BLOCK_4BIT),
    **dict.fromkeys(("adamw_bnb_8bit", "adamw_8bit"), OptimizerStates(2, BLOCK_8BIT, full_embeddings=True)),
    "paged_adamw_32bit": OptimizerStates(2, 4, paged=True),
    "paged_adamw_8bit": OptimizerStates(2, BLOCK_8BIT, paged=True, full_embeddings=True),
    "ademamix": OptimizerStates(3, 4),
    "ademamix_8bit": OptimizerStates(3, BLOCK_8BIT, full_embeddings=True),
    "paged_ademamix_32bit": OptimizerStates(3, 4, paged=True),
    "paged_ademamix_8bit": OptimizerStates(3, BLOCK_8BIT, paged=True, full_embeddings=True),
    "lion_32bit": OptimizerStates(1, 4),
    "lion_8bit": OptimizerStates(1, BLOCK_8BIT, full_embeddings=True),
    "paged_lion_32bit": OptimizerStates(1, 4, paged=True),
    "paged_lion_8bit": OptimizerStates(1, BLOCK_8BIT, paged=True, full_embeddings=True),
    **dict.fromkeys(("rmsprop", "adagrad", "schedule_free_sgd"), OptimizerStates(1)),
    **dict.fromkeys(("rmsprop_bnb", "rmsprop_bnb_32bit"), OptimizerStates(1, 4)),
    "rmsprop_bnb_8bit": OptimizerStates(1, BLOCK_8BIT, full_embeddings=True),
    "sgd": OptimizerStates(0),
    "lomo": OptimizerStates(0),
    "adalomo": OptimizerStates(0, per_matrix=True),
    "adafactor": OptimizerStates(0, per_matrix=True),
    "grokadamw": OptimizerStates(3),
}


def optimizer_states(name: str) -> OptimizerStates:
    """What an optimizer of transformers keeps; an unknown one is taken for AdamW and marked."""
    return _TABLE.get(name, OptimizerStates(2, known=False))


SAMPLING_COPIES = 3
"""Float32 copies of the last logits while a token is drawn: logits, scores, probabilities
(`GenerationMixin._sample`)."""


def kv_cache(load: Load) -> MemoryPart | None:
    """Keys and values while transformers generates: 2 × layers × kv width × tokens × completions × bytes.

    All completions of a process are generated together (`_generate_single_turn`), so the accumulated
    micro-batches count. One layer is held twice while it grows (`DynamicLayer.update` concatenates). Under
    autocast on float32 weights the rotary product makes keys float32, values stay in 16 bits.
    """
    if load.settings.flag("use_vllm"):
        return None
    shape, widths = load.shape, load.trained.widths
    rows = load.batches.generated_at_once
    width = (widths.weights + widths.compute) * shape.kv_width
    layers = shape.layers + 1
    return MemoryPart(
        "kv_cache",
        "KV cache",
        rows * load.length * layers * width,
        ("generate",),
        f"{rows:,} × {load.length:,} tokens × {shape.layers} layers × {width:,} bytes",
    )


def generation(load: Load) -> MemoryPart | None:
    """Working memory of transformers' generation: the prompts' pass, then the logits of one token each.

    The prompts go through a layer at once without a graph: its MLP and stream. Drawing a token copies the
    last logits in float32.
    """
    if load.settings.flag("use_vllm"):
        return None
    shape, widths = load.shape, load.trained.widths
    rows = load.batches.generated_at_once
    active = max(1, shape.active_experts)
    prefill = rows * load.prompt * (
        3 * shape.intermediate * widths.compute * active + 4 * shape.hidden * max(4, widths.weights)
    ) + rows * load.prompt**2 * (1 + widths.compute)
    drawing = rows * shape.vocab * (4 * SAMPLING_COPIES + widths.compute)
    return MemoryPart(
        "generation",
        "generation",
        max(prefill, drawing),
        ("generate",),
        f"{rows:,} prompts of {load.prompt:,} tokens, and {rows:,} × {shape.vocab:,} logits",
    )


def gathered(load: Load) -> MemoryPart | None:
    """The whole model on each process while it generates under ZeRO-3 (`ds3_gather_for_generation`)."""
    if load.sharding.kind != "zero3" or load.settings.flag("use_vllm"):
        return None
    if not load.settings.flag("ds3_gather_for_generation"):
        return None
    size = round(load.trained.stored * (1 - load.sharding.weights))
    return MemoryPart("gathered", "gathered weights", size, ("generate",), "ZeRO-3 gathers the whole model")


def vllm(load: Load) -> MemoryPart | None:
    """What vLLM takes when it is colocated: `vllm_gpu_memory_utilization` of the whole GPU, weights included.

    With `vllm_enable_sleep_mode` it gives that back between generations (`LLM.sleep(level=2)`).
    """
    settings = load.settings
    if not settings.flag("use_vllm") or settings("vllm_mode") != "colocate":
        return None
    share = settings.number("vllm_gpu_memory_utilization")
    sleeps = settings.flag("vllm_enable_sleep_mode")
    if load.device is None:
        size = load.shape.parameters * load.trained.widths.compute
        size //= settings.whole("vllm_tensor_parallel_size")
        text = f"at least its weights; {share:.0%} of a GPU that is not known"
    else:
        size = round(load.device.memory_bytes * share)
        text = f"{share:.0%} of {gigabytes(load.device.memory_bytes)}"
    return MemoryPart("vllm", "vLLM", size, ("generate",) if sleeps else ALWAYS, text)


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
    """States of the optimizer (`optimizer_states`). Under DeepSpeed with 16 bits also the float32 weights.

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
    """What the layers of one micro-batch keep for the backward pass; see `layer_bytes`.

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


GIB = 1 << 30
KEPT_BACK = 0.985
"""The share of a card's memory that a process can take: ECC and the driver keep the rest (79.1 of 80 GiB)."""
CARDS: Mapping[str, int] = {
    "B200": 180, "H200": 141, "H100": 80, "H100 NVL": 94, "GH200": 96, "H20": 96, "A100": 80, "A100 40GB": 40,
    "A800": 80, "L40S": 48, "L40": 48, "L4": 24, "A40": 48, "A30": 24, "A10": 24, "A10G": 24, "A6000": 48,
    "A5000": 24, "A4000": 16, "RTX 6000 Ada": 48, "RTX PRO 6000": 96, "V100": 32, "V100 16GB": 16, "T4": 16,
    "P100": 16, "RTX 5090": 32, "RTX 5080": 16, "RTX 4090": 24, "RTX 4080": 16, "RTX 4070": 12,
    "RTX 4060": 8, "RTX 3090": 24, "RTX 3080": 10, "RTX 3060": 12, "RTX 2080 Ti": 11,
}  # fmt: skip
"""Memory in GiB."""
_SCALES = {"gb": 1e9, "g": 1e9, "gib": GIB, "mb": 1e6, "mib": 1 << 20}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(gb|gib|g|mb|mib)?", re.IGNORECASE)


def card(name: str) -> Device | None:
    """The card a person means, by its name or its memory; None when nobody knows it.

    A bare size is what it says; a card's name leaves out what the driver keeps back.
    """
    text = name.strip()
    wanted = _words(text)
    for known, memory in sorted(CARDS.items(), key=lambda entry: -len(entry[0])):
        if _words(known) == wanted or _words(known).removeprefix("rtx") == wanted.removeprefix("rtx"):
            return Device(known, round(memory * GIB * KEPT_BACK))
    size = _SIZE.fullmatch(text)
    if size is None:
        return None
    found = round(float(size[1]) * _SCALES[(size[2] or "gb").lower()])
    return Device(f"a GPU of {text}", found) if found else None


def _words(name: str) -> str:
    """A name without spaces, signs and maker."""
    return re.sub(r"[^a-z0-9]", "", name.lower()).removeprefix("nvidia").removeprefix("geforce")
