"""Memory while completions are generated: transformers' cache and sampling, or vLLM's share.

Read against `_generate_single_turn` and `VLLMGeneration` of TRL 1.16 and `GenerationMixin._sample` of
transformers 5.24. Knows sizes, not the update that follows.
"""

from __future__ import annotations

from grpo_tui.config.plan.load import Load, gigabytes
from grpo_tui.config.plan.memory_plan import ALWAYS, MemoryPart

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
