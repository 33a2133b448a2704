"""Precision and place of a run against the GPUs of this machine.

It is told what the machine has. Whether the memory is enough is the plan's business.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from grpo_tui.config.rules import REMOVE, Settings
from grpo_tui.core.findings import Finding
from grpo_tui.preflight.machine import GpuFacts, Machine

AMPERE = (8, 0)
"""Compute capability from which bfloat16 and TF32 are in the hardware."""


def hardware_findings(settings: Settings, machine: Machine) -> list[Finding]:
    """Return what the chosen precision and processes ask of GPUs that are not there."""
    if settings.get("use_cpu"):
        return list(_on_cpu(settings))
    gpus = machine.gpus
    if not gpus:
        return [] if machine.other_device else list(_without_gpu(settings))
    found = list(_precision(settings, gpus))
    found += _attention(settings)
    found += _enough(settings, gpus)
    return found


def trains_in_bf16(settings: Settings) -> bool:
    """Whether the trainer computes in bfloat16: TRL's default unless fp16 is on."""
    bf16 = settings.get("bf16")
    return not settings.get("fp16") if bf16 is None else bool(bf16)


def _on_cpu(s: Settings) -> Iterator[Finding]:
    if s.get("fp16"):
        message = "fp16 training needs a GPU, and use_cpu keeps the run off it"
        yield s.finding("hardware.fp16", "error", "fp16", message, ("fp16", False))
    if s.get("tf32"):
        message = "tf32 is a mode of Ampere GPUs and later, and use_cpu keeps the run off them"
        yield s.finding("hardware.tf32", "error", "tf32", message, ("tf32", REMOVE))
    for name in ("load_in_4bit", "load_in_8bit"):
        if s.get(name):
            message = f"{name} needs a GPU, and use_cpu keeps the run off it"
            yield s.finding("hardware.quantized", "error", name, message, (name, False))


def _without_gpu(s: Settings) -> Iterator[Finding]:
    """Without a GPU transformers refuses bf16, which is TRL's default, unless `use_cpu` says it is meant."""
    for name in ("fp16", "load_in_4bit", "load_in_8bit"):
        if s.get(name):
            message = f"{name} needs a GPU, and there is none on this machine"
            yield s.finding("hardware.no-gpu", "error", name, message, (name, False))
    if s.get("tf32"):
        message = "tf32 is a mode of Ampere GPUs and later, and there is no GPU on this machine"
        yield s.finding("hardware.tf32", "error", "tf32", message, ("tf32", REMOVE))
    if trains_in_bf16(s):
        default = "" if s.written("bf16") else ", TRL's default,"
        field = "bf16" if s.written("bf16") else "use_cpu"
        message = (
            f"there is no GPU on this machine, and bf16{default} is refused without one unless "
            "use_cpu is true"
        )
        yield s.finding("hardware.no-gpu", "error", field, message, ("use_cpu", True))
    if s.get("use_vllm") and s.get("vllm_mode") == "colocate":
        message = "vLLM generates on a GPU, and there is none on this machine"
        yield s.finding("hardware.no-gpu", "error", "use_vllm", message, ("use_vllm", False))


def _precision(s: Settings, gpus: Sequence[GpuFacts]) -> Iterator[Finding]:
    known = [gpu for gpu in gpus if gpu.capability is not None]
    oldest = min(known, key=lambda gpu: gpu.capability or (99, 0), default=None)
    if oldest is None or oldest.capability is None or oldest.capability >= AMPERE:
        return
    who = f"{oldest.name} has compute capability {oldest.capability[0]}.{oldest.capability[1]}"
    if trains_in_bf16(s):
        field = "bf16" if s.written("bf16") else "fp16"
        message = (
            f"{who}, and bfloat16 is in the hardware from 8.0: it is emulated, many times slower than fp16"
        )
        yield s.finding("hardware.bf16", "warning", field, message, ("fp16", True))
    if s.get("tf32"):
        message = f"{who}, and TF32 needs 8.0"
        yield s.finding("hardware.tf32", "error", "tf32", message, ("tf32", REMOVE))
    if s.get("attn_implementation") in ("flash_attention_2", "flash_attention_3"):
        message = f"{who}, and {s.get('attn_implementation')} needs 8.0"
        fix = ("attn_implementation", "sdpa")
        yield s.finding("hardware.attention", "error", "attn_implementation", message, fix)


def _attention(s: Settings) -> Iterator[Finding]:
    # Flash attention has kernels for 16 bits alone; under autocast float32 weights are cast for it.
    given = s.mapping("model_init_kwargs")
    field = "attn_implementation"
    kind = s.get(field)
    if not kind:
        field, kind = f"model_init_kwargs.{field}", given.get(field)
    stored = given.get("dtype") or s.get("dtype")
    sixteen = trains_in_bf16(s) or s.get("fp16") or stored != "float32"
    if "flash" in str(kind) and not sixteen:
        message = f"{kind} computes in 16 bits, and the run is in float32 throughout (bf16 and fp16 are off)"
        yield s.finding("hardware.attention-dtype", "error", field, message, (field, "sdpa"))


def _enough(s: Settings, gpus: Sequence[GpuFacts]) -> Iterator[Finding]:
    ranks = s.world_size
    if ranks == len(gpus) and len(gpus) > 1 and s.get("use_vllm") and s.get("vllm_mode") == "server":
        message = (
            f"all {len(gpus)} GPUs train, and the vLLM server needs one of its own: NCCL cannot send the "
            "weights to a "
            "GPU that trains"
        )
        yield s.finding("hardware.no-server-gpu", "warning", "vllm_mode", message, ("vllm_mode", "colocate"))
