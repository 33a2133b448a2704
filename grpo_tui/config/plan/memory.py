"""Memory of one device by part, and the moments at which each part is needed.

A step has five moments: generation, the LM head after the forward pass (`loss`), the backward pass of the
last layer (`layers`) and of the first, with all gradients present (`backward`), and the optimizer step. A
part is needed at some of them, so the peak is less than the sum. Each part is one function, with formula and
source in its docstring. All sizes are upper bounds: every completion has the maximum length.

Sources: TRL 1.16 (trainer/grpo_trainer.py, trainer/utils.py, kernels/chunked_logprob.py, `VLLMGeneration`),
transformers 5.24 (`GenerationMixin._sample`) and accelerate 1.15. Optimizers by name:
`Trainer.get_optimizer_cls_and_kwargs` (transformers 5.24). Their states: `torch.optim` (AdamW's two and
RMSprop's one have the parameter's dtype), bitsandbytes (8-bit states in blocks of 256 with a float32 each;
32-bit states are float32 for any parameter; embeddings keep 32 bits), torchao (8-bit blocks of 256, 4-bit
blocks of 128). Memory of GPUs: NVIDIA's data sheets. Drivers show slightly less, because part of it is
reserved.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from grpo_tui.config.plan.batches import Batches
from grpo_tui.config.plan.model import (
    ModelShape,
    Sharding,
    Trained,
    layer_bytes,
    score_bytes,
    working_bytes,
)
from grpo_tui.config.settings import Settings

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
    """One part of the memory.

    Attributes:
        name: Stable name, such as `weights`.
        bytes: Size on one device.
        movable: Whether it can move to host memory. It then does not count against the device.
    """

    name: str
    title: str
    bytes: int
    moments: tuple[Moment, ...]
    formula: str
    movable: bool = False


@dataclass(frozen=True, slots=True)
class Device:
    """The device that a plan is made for.

    Attributes:
        free_bytes: Memory not used by other processes, None when unknown.
        held_by: Those processes, in words.
    """

    name: str
    memory_bytes: int
    kind: Literal["cuda", "cpu"] = "cuda"
    free_bytes: int | None = None
    held_by: str = ""

    @property
    def room_bytes(self) -> int:
        """Memory available to a run."""
        return self.memory_bytes if self.free_bytes is None else min(self.memory_bytes, self.free_bytes)


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """The memory of one device of a run.

    The largest values that fit are None when even the smallest does not, or the device is unknown.

    Attributes:
        device: The device to compare with, None when unknown.
        exact: Whether the model's parameters were counted rather than computed.
        correction: Measured ÷ planned memory of a trial on this machine, 1 without one.
        most_generations: Largest `num_generations` that fits if the batch grows with it.
        most_length: Largest `max_completion_length` that fits.
        most_per_device: Largest `per_device_train_batch_size`, up to the config's, that fits with whole
            groups and everything else unchanged.
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
        """Return the corrected bytes in use at a moment, without parts that can move to the host."""
        planned = sum(p.bytes for p in self.parts if moment in p.moments and not p.movable)
        return round(planned * self.correction)

    @property
    def peak_moment(self) -> Moment:
        """The moment with the highest memory use."""
        return max(MOMENTS, key=self.bytes_at)

    @property
    def peak_bytes(self) -> int:
        """The highest memory use."""
        return self.bytes_at(self.peak_moment)

    @property
    def fits(self) -> bool | None:
        """Whether the run fits on the device next to other processes, None when the device is unknown."""
        return None if self.device is None else self.peak_bytes <= self.device.room_bytes

    def to_json(self) -> dict[str, Any]:
        """Return JSON data."""
        device = self.device
        return {
            "peak_bytes": self.peak_bytes,
            "peak_moment": self.peak_moment,
            "parts": [{name: getattr(part, name) for name in _PART_KEYS} for part in self.parts],
            "device": None if device is None else {name: getattr(device, name) for name in _DEVICE_KEYS},
            "fits": self.fits,
            "largest_num_generations": self.most_generations,
            "largest_max_completion_length": self.most_length,
            "largest_per_device_train_batch_size": self.most_per_device,
            "parameters_exact": self.exact,
            "correction": self.correction,
            "notes": list(self.notes),
        }


_PART_KEYS = ("name", "bytes", "moments", "formula", "movable")
_DEVICE_KEYS = ("name", "memory_bytes", "free_bytes", "held_by")


@dataclass(frozen=True, slots=True)
class Load:
    """Everything that the size of a part depends on.

    Attributes:
        prompt: Length of the longest prompt in tokens.
        completion: Maximum completion length in tokens.
        device: The device, None when unknown.
        correction: Measured ÷ planned memory of a trial.
    """

    settings: Settings
    shape: ModelShape
    trained: Trained
    batches: Batches
    sharding: Sharding
    prompt: int
    completion: int
    device: Device | None = None
    correction: float = 1.0

    @property
    def length(self) -> int:
        """Tokens of a whole sequence."""
        return self.prompt + self.completion

    @property
    def on_cpu(self) -> bool:
        """Whether it runs without a GPU."""
        return self.settings.flag("use_cpu") or (self.device is not None and self.device.kind == "cpu")


def gigabytes(size: float) -> str:
    """Format bytes as gigabytes: `1.54 GB`."""
    return f"{size / 1e9:.2f} GB"


def short_count(parameters: int) -> str:
    """Format a number of parameters: `1.54B`."""
    for unit, scale in (("B", 1e9), ("M", 1e6), ("k", 1e3)):
        if parameters >= scale:
            return f"{parameters / scale:.3g}{unit}"
    return str(parameters)


BLOCK_8BIT = 1 + 4 / 256
"""Bytes of one quantized state: one byte, and its share of the block's float32 scale."""
BLOCK_4BIT = 0.5 + 4 / 128


@dataclass(frozen=True, slots=True)
class OptimizerStates:
    """What an optimizer keeps per parameter.

    Attributes:
        states: Number of values.
        width: Bytes of each, None for the width of the parameter.
        paged: Whether they can move to host memory when the GPU is full.
        known: False for an unknown optimizer, which is treated as AdamW.
        full_embeddings: Whether embeddings keep float32 states next to quantized ones.
        per_matrix: Whether it keeps rows and columns of a matrix instead (Adafactor).
    """

    states: int
    width: float | None = None
    paged: bool = False
    known: bool = True
    full_embeddings: bool = False
    per_matrix: bool = False

    def bytes_per_parameter(self, parameter_width: int) -> float:
        """Return the bytes of state for a parameter of the given width."""
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
    """Return what an optimizer of transformers keeps. An unknown one is treated as AdamW and marked."""
    return _TABLE.get(name, OptimizerStates(2, known=False))


SAMPLING_COPIES = 3
"""Float32 copies of the last logits while sampling a token: logits, scores, probabilities
(`GenerationMixin._sample`).
"""


def kv_cache(load: Load) -> MemoryPart | None:
    """KV cache of transformers' generation: 2 × layers × kv width × tokens × completions × bytes.

    A process generates all its completions together (`_generate_single_turn`), including the accumulated
    micro-batches. One layer exists twice while it grows (`DynamicLayer.update` concatenates). Under autocast
    on float32 weights, the rotary product makes keys float32 and values stay in 16 bits.
    """
    if load.settings.flag("use_vllm"):
        return None
    shape, widths = load.shape, load.trained.widths
    rows = load.batches.generated_at_once
    width = (widths.weights + widths.compute) * shape.kv_width
    size = rows * load.length * (shape.layers + 1) * width
    text = f"{rows:,} × {load.length:,} tokens × {shape.layers} layers × {width:,} bytes"
    return MemoryPart("kv_cache", "KV cache", size, ("generate",), text)


def generation(load: Load) -> MemoryPart | None:
    """Working memory of transformers' generation: the prefill, then the logits of one token per completion.

    The prefill needs the MLP and the stream of one layer, without a graph. Sampling a token copies the last
    logits in float32.
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
    text = f"{rows:,} prompts of {load.prompt:,} tokens, and {rows:,} × {shape.vocab:,} logits"
    return MemoryPart("generation", "generation", max(prefill, drawing), ("generate",), text)


def gathered(load: Load) -> MemoryPart | None:
    """The whole model on each process while generating under ZeRO-3 (`ds3_gather_for_generation`)."""
    if load.sharding.kind != "zero3" or load.settings.flag("use_vllm"):
        return None
    if not load.settings.flag("ds3_gather_for_generation"):
        return None
    size = round(load.trained.stored * (1 - load.sharding.weights))
    return MemoryPart("gathered", "gathered weights", size, ("generate",), "ZeRO-3 gathers the whole model")


def vllm(load: Load) -> MemoryPart | None:
    """Memory of colocated vLLM: `vllm_gpu_memory_utilization` of the whole GPU, including weights.

    With `vllm_enable_sleep_mode`, vLLM releases it between generations (`LLM.sleep(level=2)`).
    """
    settings = load.settings
    if not settings.flag("use_vllm") or settings.get("vllm_mode") != "colocate":
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
"""Tokens per tile of logits: `TOKEN_CHUNK_SIZE` of trl/kernels/chunked_logprob.py."""
VOCAB_TILE = 32768
"""Width of a tile: `_CHUNKED_LOGPROB_CHUNK_SIZE` of trl/trainer/utils.py."""
CPU_TILE_COPIES = 8
"""Float32 copies of a tile that `_backward_tile` holds at once without Triton: y, z, log p, p, the
gradient, the target's mask as numbers, its difference from p, and their product."""
CUDA_CONTEXT = 550_000_000
"""Driver context, kernels and cuBLAS workspace of a process."""
NCCL = 400_000_000
"""Buffers of a communicator of several processes."""
SLACK = 0.10
"""Share that torch's allocator reserves beyond the temporary parts. Assumed, not measured: `train --smoke`
measures it.
"""
CPU_SLACK = 0.15
"""Share for the C allocator and the kernels' own buffers, from benchmarks/memory_plan.py."""
COME_AND_GO = ("activations", "layer", "logits", "head_gradient", "kv_cache", "generation")
CPU_PROCESS = 470_000_000
"""Resident memory of Python with torch, transformers, datasets and TRL imported, before any model."""


def parts_of(load: Load) -> tuple[MemoryPart, ...]:
    """Return all parts that are not empty, permanent ones first."""
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
    """Memory that the allocator holds beyond the tensors: a share of the peak of the temporary parts."""
    passing = [part for part in there if part.name in COME_AND_GO]
    most = max(sum(part.bytes for part in passing if moment in part.moments) for moment in MOMENTS)
    share = CPU_SLACK if load.on_cpu else SLACK
    text = f"{share:.0%} of the {gigabytes(most)} that come and go"
    return MemoryPart("allocator", "allocator", round(most * share), ALWAYS, text)


def _weights(load: Load) -> MemoryPart:
    """Weights as loaded (`create_model_from_path`): parameters × bytes of the dtype, less when quantized.

    ZeRO-3 and FSDP hold a share, and the whole of the active layer.
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

    The frozen copy that TRL keeps when it continues an adapter with beta above 0 (`model.add_adapter`) is not
    counted.
    """
    trained = load.trained
    if not trained.is_adapter:
        return None
    text = f"{short_count(trained.parameters)} parameters × {trained.width} bytes"
    return MemoryPart("lora", "LoRA", trained.parameters * trained.width, ALWAYS, text)


def _reference(load: Load) -> MemoryPart | None:
    """The frozen model for the KL term, loaded when beta is not 0 and there is no adapter to disable.

    DeepSpeed or FSDP shard it like the policy (`prepare_deepspeed`, `prepare_fsdp`).
    """
    if load.settings.number("beta") == 0 or load.trained.is_adapter:
        return None
    size = round(load.trained.stored * load.sharding.weights)
    text = f"beta is not 0: a second copy, {gigabytes(size)}"
    return MemoryPart("reference", "reference model", size, ALWAYS, text)


def _optimizer(load: Load) -> MemoryPart:
    """Optimizer states (`optimizer_states`), and under DeepSpeed with 16 bits also float32 weights.

    DeepSpeed: 4 bytes of weights and 8 bytes of Adam states per parameter (ZeRO paper, section 3.1).
    """
    trained, sharding, settings = load.trained, load.sharding, load.settings
    states = optimizer_states(settings.optim)
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
    movable = states.paged or sharding.offloads_optimizer
    return MemoryPart("optimizer", "optimizer", round(size * sharding.states), ALWAYS, text, movable)


def _gradients(load: Load) -> MemoryPart:
    """One gradient per trained parameter in its dtype, from the backward pass to `zero_grad`.

    With several micro-batches per step, gradients also exist during the forward passes. DDP keeps a second
    copy in its buckets (`gradient_as_bucket_view` is off).
    """
    trained, sharding = load.trained, load.sharding
    size = trained.parameters * trained.width * sharding.gradients
    text = f"{short_count(trained.parameters)} × {trained.width} bytes"
    if sharding.kind == "ddp":
        size *= 2
        text += ", twice with DDP's buckets"
    elif sharding.gradients < 1:
        text += f" ÷ {sharding.world_size}"
    if load.settings.optim in ("lomo", "adalomo"):
        size = 0
    accumulates = load.batches.accumulation > 1
    moments: tuple[Moment, ...] = MOMENTS[1:] if accumulates else ("backward", "step")
    return MemoryPart("gradients", "gradients", round(size), moments, text)


def _casts(load: Load) -> MemoryPart | None:
    """Copies of float32 weights in the autocast dtype.

    Copies of trained weights are kept for a whole pass (`cached_cast`), including generation. Without
    checkpointing, the graph keeps all copies for the backward pass, including those of frozen weights.
    """
    trained = load.trained
    if not trained.widths.mixed:
        return None
    linear = max(0, load.shape.parameters - load.shape.embedding_parameters)
    moments: tuple[Moment, ...] = () if trained.is_adapter else ("generate", "loss")
    if not load.settings.recomputes:
        moments = (*moments[:1], "loss", "layers")
    if not moments:
        return None
    text = f"{short_count(linear)} float32 weights × {trained.widths.compute} bytes under autocast"
    return MemoryPart("casts", "16-bit copies", linear * trained.widths.compute, moments, text)


def _activations(load: Load) -> MemoryPart:
    """What the layers of one micro-batch keep for the backward pass (see `layer_bytes`).

    With `gradient_checkpointing`, each layer keeps only its input.
    """
    shape, widths, rows = load.shape, load.trained.widths, load.batches.per_device
    tokens = rows * load.length
    if load.settings.recomputes:
        each, text = shape.hidden * widths.weights, f"inputs of {shape.layers} layers"
        scores = 0
    else:
        each = layer_bytes(shape, widths, load.trained.adapted)
        text = f"{shape.layers} layers, no checkpointing"
        scores = _scores(load) * shape.layers
    masks = rows * load.length**2 * (1 + widths.compute)
    size, text = tokens * shape.layers * each + scores + masks, f"{rows} × {load.length:,} tokens: {text}"
    return MemoryPart("activations", "activations", size, ("loss", "layers"), text)


def _layer(load: Load) -> MemoryPart:
    """The layer in its backward pass: its gradients, and with checkpointing its recomputed activations."""
    shape, widths = load.shape, load.trained.widths
    tokens = load.batches.per_device * load.length
    each, text = working_bytes(shape, widths), "gradients within one layer"
    scores = 0
    if load.settings.recomputes:
        each += layer_bytes(shape, widths, load.trained.adapted)
        text, scores = "one layer computed again, and its gradients", _scores(load)
    return MemoryPart("layer", "a layer", tokens * each + scores, ("layers", "backward"), text)


def _scores(load: Load) -> int:
    """Return the bytes of attention scores of one layer, 0 for a kernel that keeps none."""
    inner = load.settings.mapping("model_init_kwargs").get("attn_implementation")
    if (inner or load.settings.get("attn_implementation")) != "eager":
        return 0
    return load.batches.per_device * load.length**2 * score_bytes(load.shape, load.trained.widths)


def _head(load: Load) -> MemoryPart:
    """The LM head and its loss: one tile of logits at a time (`ChunkedLogProbFunction`).

    Scored are the tokens of the completions, or all without Triton. A tile is min(tokens, 4096) × 32768
    values in the compute dtype. With Triton the gradient replaces it. On the CPU there are float32 copies of
    it. The backward pass accumulates the gradient of the hidden states in float32 (tokens × hidden).
    """
    shape, widths = load.shape, load.trained.widths
    tokens = load.batches.per_device * (load.length - 1 if load.on_cpu else load.completion)
    columns = min(VOCAB_TILE, shape.vocab) if load.on_cpu else VOCAB_TILE
    compute = 4 if load.settings.flag("cast_lm_head_to_fp32") else widths.compute
    rows = min(tokens, TOKEN_TILE)
    tile = rows * columns * (compute + (4 * CPU_TILE_COPIES if load.on_cpu else 0))
    hidden = tokens * shape.hidden * (4 + 2 * widths.weights)
    part = min(VOCAB_TILE, shape.vocab) * shape.hidden * compute if compute != widths.weights else 0
    text = f"a tile of {rows:,} × {columns:,} of {tokens:,} × {shape.vocab:,}, and gradients"
    return MemoryPart("logits", "logits", tile + hidden + part, ("loss",), text)


def _head_gradient(load: Load) -> MemoryPart | None:
    """Gradient of the LM head's weight, vocab × hidden, accumulated in float32 and then cast."""
    shape, trained = load.shape, load.trained
    if not trained.embeddings:
        return None
    width = 4 + (trained.width if trained.width != 4 else 0)
    # It becomes the gradient itself when there is none yet.
    moments: tuple[Moment, ...] = ("loss",) if load.batches.accumulation > 1 else ("loss", "layers")
    size, text = shape.vocab * shape.hidden * width, f"{shape.vocab:,} × {shape.hidden:,} × {width} bytes"
    return MemoryPart("head_gradient", "gradient of the head", size, moments, text)


def _process(load: Load) -> MemoryPart:
    """Memory of a process before any model: the driver's context on a GPU, libraries on the CPU."""
    if load.on_cpu:
        return MemoryPart("process", "process", CPU_PROCESS, ALWAYS, "Python with torch and TRL")
    several = load.sharding.world_size > 1
    size = CUDA_CONTEXT + (NCCL if several else 0)
    text = "CUDA context and cuBLAS" + (", NCCL" if several else "")
    return MemoryPart("process", "CUDA context", size, ALWAYS, text)


GIB = 1 << 30
KEPT_BACK = 0.985
"""Share of a GPU's memory that a process can use. ECC and the driver reserve the rest (79.1 of 80 GiB)."""
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
    """Return a GPU by its name or memory size, None when unknown.

    A size counts in full. For a name, the part that the driver reserves is subtracted.
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
    """Normalize a GPU's name: no spaces, punctuation or vendor."""
    return re.sub(r"[^a-z0-9]", "", name.lower()).removeprefix("nvidia").removeprefix("geforce")
