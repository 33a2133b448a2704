"""Rules of TRL 1.16 about generation with vLLM: conflicting and unused settings.

The server and the machine are checked in preflight.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from grpo_tui.config.packages import installed
from grpo_tui.config.rules import row_findings
from grpo_tui.config.settings import REMOVE, Settings
from grpo_tui.core.findings import Finding
from grpo_tui.core.statistics import is_number

_FLAG_OF = {
    "vllm_gpu_memory_utilization": "--gpu_memory_utilization",
    "vllm_tensor_parallel_size": "--tensor_parallel_size",
    "vllm_max_model_length": "--max_model_len",
    "vllm_model_impl": "--vllm_model_impl",
}


def vllm_findings(settings: Settings) -> list[Finding]:
    """Return findings about vLLM's keys."""
    found = list(row_findings(settings, "vllm", server_flags=_FLAG_OF))
    if not settings.get("use_vllm"):
        return found + list(_unused(settings))
    found += _truncation(settings)
    if settings.get("vllm_mode") == "colocate":
        found += [*_heads(settings), *_tensor_parallel(settings)]
        found += row_findings(settings, "vllm-colocate")
    return found


def _unused(s: Settings) -> Iterator[Finding]:
    written = [n for n in s.fields if n.startswith("vllm_") and s.written(n)]
    if written and (s.get("use_cpu") or not installed("vllm")):
        for name in written:
            yield s.unused(name, "use_vllm is false")
    elif written:
        yield s.unused_together(written, "use_vllm is false", ("use_vllm", True))


def _truncation(s: Settings) -> Iterator[Finding]:
    # vLLM samples from the truncated vocabulary, but the trainer computes probabilities over the whole one.
    given = {name: value for name in ("top_p", "top_k", "min_p") if is_number(value := s.get(name))}
    cut = [f"{name} {v:g}" for name, v in given.items() if (v < 1 if name == "top_p" else v > 0)]
    if cut:
        name = cut[0].split()[0]
        yield s.warning(
            "vllm.truncated-sampling",
            name,
            f"with {' and '.join(cut)} vLLM draws from fewer tokens than the trainer computes probabilities "
            "over, so the importance ratios move away from 1 although the policy did not change",
            (name, REMOVE),
        )


def tensor_parallel_findings(s: Settings, heads: int, kv_heads: int) -> list[Finding]:
    """Return an error if vLLM cannot split the model's attention heads over its GPUs.

    Args:
        kv_heads: Number of key-value heads. vLLM replicates them if there are fewer than GPUs.
    """
    parallel = s.get("vllm_tensor_parallel_size")
    if not s.get("use_vllm") or s.get("vllm_mode") != "colocate" or not is_number(parallel) or parallel < 2:
        return []

    def splits(n: int) -> bool:
        return heads % n == 0 and (kv_heads % n == 0 or n % kv_heads == 0)

    if splits(int(parallel)):
        return []
    ranks = s.world_size or int(parallel)
    fits = max(n for n in range(1, int(parallel) + 1) if splits(n) and ranks % n == 0)
    message = (
        f"vllm_tensor_parallel_size {parallel} does not divide the model's {heads} attention heads and "
        f"{kv_heads} key-value heads, so vLLM cannot load it"
    )
    field = "vllm_tensor_parallel_size"
    return [s.error("vllm.heads", field, message, (field, fits))]


def _heads(s: Settings) -> list[Finding]:
    from grpo_tui.config.plan.model import read_shape

    parallel = s.get("vllm_tensor_parallel_size")
    shape = read_shape(str(s.get("model_name_or_path") or "")) if parallel != 1 else None
    return tensor_parallel_findings(s, shape.heads, shape.kv_heads) if shape is not None else []


def _tensor_parallel(s: Settings) -> Iterator[Finding]:
    parallel, ranks = s.get("vllm_tensor_parallel_size"), s.world_size
    if is_number(parallel) and parallel >= 1 and ranks and ranks % int(parallel):
        fits = max(n for n in range(1, ranks + 1) if ranks % n == 0 and n <= parallel)
        yield s.error(
            "vllm.tensor-parallel",
            "vllm_tensor_parallel_size",
            f"vllm_tensor_parallel_size {parallel} must divide the {ranks} training "
            f"process{'es' * (ranks != 1)}",
            ("vllm_tensor_parallel_size", fits),
        )


def server_address(settings: Settings) -> str:
    """Return the URL where the trainer expects the vLLM server."""
    base = settings.get("vllm_server_base_url")
    if base:
        return str(base).rstrip("/")
    return f"http://{settings.get('vllm_server_host')}:{settings.get('vllm_server_port')}"


def server_command(settings: Settings) -> str:
    """Return the command that starts the config's vLLM server, for GPUs that do not train."""
    words = ["trl", "vllm-serve", "--model", str(settings.get("model_name_or_path"))]
    if settings.written("model_revision"):
        words += ["--revision", str(settings.get("model_revision"))]
    if settings.get("vllm_server_base_url"):
        port = str(settings.get("vllm_server_base_url")).rstrip("/").rpartition(":")[2]
        words += ["--port", port if port.isdigit() else "8000"]
    else:
        host, port = (str(settings.get(f"vllm_server_{part}")) for part in ("host", "port"))
        words += ["--host", host, "--port", port]
    for name, flag in _FLAG_OF.items():
        if name != "vllm_gpu_memory_utilization" and settings.written(name):
            words += [flag, str(settings.get(name))]
    if settings.get("dtype") in ("bfloat16", "float16"):
        words += ["--dtype", str(settings.get("dtype"))]
    if settings.get("trust_remote_code"):
        words += ["--trust_remote_code", "true"]
    return shlex.join(words)
