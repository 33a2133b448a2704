"""Rules of TRL 1.16 about generation with vLLM: what cannot work together, and what is set for nothing.

It asks no server and looks at no machine; that is the pre-flight's business.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from grpo_tui.config.packages import installed
from grpo_tui.config.rules import REMOVE, Settings
from grpo_tui.core.findings import Finding
from grpo_tui.core.statistics import is_number

_SERVER_ONLY = (
    "vllm_server_base_url",
    "vllm_server_host",
    "vllm_server_port",
    "vllm_server_timeout",
    "vllm_group_port",
)
_COLOCATE_ONLY = (
    "vllm_gpu_memory_utilization",
    "vllm_tensor_parallel_size",
    "vllm_max_model_length",
    "vllm_enable_sleep_mode",
    "vllm_model_impl",
)
_FLAG_OF = {
    "vllm_gpu_memory_utilization": "--gpu_memory_utilization",
    "vllm_tensor_parallel_size": "--tensor_parallel_size",
    "vllm_max_model_length": "--max_model_len",
    "vllm_model_impl": "--vllm_model_impl",
}


def vllm_findings(settings: Settings) -> list[Finding]:
    """Return what is wrong with the keys of vLLM together."""
    found = list(_clip_order(settings))
    if not settings.get("use_vllm"):
        return found + list(_unused(settings))
    found += _mode(settings)
    found += _sampling_correction(settings)
    found += _truncation(settings)
    if settings.get("vllm_mode") == "colocate":
        found += _colocate(settings)
    return found


def _unused(s: Settings) -> Iterator[Finding]:
    written = [n for n in s.fields if n.startswith("vllm_") and s.written(n)]
    if written and (s.get("use_cpu") or not installed("vllm")):
        for name in written:
            yield s.unused(name, "use_vllm is false")
    elif written:
        more = f" and {len(written) - 1} more of its keys" if len(written) > 1 else ""
        verb = "are" if len(written) > 1 else "is"
        yield s.warning(
            "config.unused",
            written[0],
            f"{written[0]}{more} {verb} not used: use_vllm is false",
            ("use_vllm", True),
        )


def _mode(s: Settings) -> Iterator[Finding]:
    mode = s.get("vllm_mode")
    if mode not in ("server", "colocate"):
        return
    for name in _COLOCATE_ONLY if mode == "server" else _SERVER_ONLY:
        if not s.written(name):
            continue
        fix: tuple[str, str | None]
        if mode == "server":
            flag = _FLAG_OF.get(name)
            give = f"; give the server {flag}" if flag else ""
            why, fix = f"vllm_mode is server, and the server has its own settings{give}", (name, REMOVE)
        else:
            why, fix = "vllm_mode is colocate, which needs no server", ("vllm_mode", "server")
        yield s.unused(name, why, fix)
    base = s.get("vllm_server_base_url")
    if mode == "server" and base and not str(base).startswith(("http://", "https://")):
        yield s.error(
            "vllm.address",
            "vllm_server_base_url",
            f"vllm_server_base_url must start with http:// or https://; it is {base}",
            ("vllm_server_base_url", f"http://{base}"),
        )
    for name in ("use_transformers_continuous_batching", "cache_implementation"):
        if s.written(name):
            yield s.unused(name, "vLLM generates, not transformers")


def _clip_order(s: Settings) -> Iterator[Finding]:
    """TRL looks at these two even where vLLM is not used."""
    least, most = s.get("vllm_importance_sampling_clip_min"), s.get("vllm_importance_sampling_clip_max")
    if is_number(least) and is_number(most) and least >= most:
        yield s.error(
            "vllm.clip-order",
            "vllm_importance_sampling_clip_min",
            f"vllm_importance_sampling_clip_min {least:g} must be below "
            f"vllm_importance_sampling_clip_max {most:g}",
            ("vllm_importance_sampling_clip_min", REMOVE),
        )


def _sampling_correction(s: Settings) -> Iterator[Finding]:
    least, most = s.get("vllm_importance_sampling_clip_min"), s.get("vllm_importance_sampling_clip_max")
    mode, corrects = s.get("vllm_importance_sampling_mode"), s.get("vllm_importance_sampling_correction")
    if corrects and mode in ("token_truncate", "sequence_truncate") and least is None and most is None:
        yield s.error(
            "vllm.clip-missing",
            "vllm_importance_sampling_clip_max",
            f"vllm_importance_sampling_mode {mode} clips ratios at a bound, but none is set",
            ("vllm_importance_sampling_clip_max", 3.0),
        )
    if s.get("loss_type") == "vespo" and corrects and mode not in ("token_truncate", "token_mask"):
        field = "vllm_importance_sampling_mode" if s.written("vllm_importance_sampling_mode") else "loss_type"
        yield s.error(
            "vllm.vespo-mode",
            field,
            f"loss_type vespo corrects token by token, but vllm_importance_sampling_mode is {mode}",
            ("vllm_importance_sampling_mode", "token_mask"),
        )


def _truncation(s: Settings) -> Iterator[Finding]:
    # It samples from what is left; the trainer's probabilities are those of the whole vocabulary.
    top_p, top_k, min_p = s.get("top_p"), s.get("top_k"), s.get("min_p")
    cut = [
        f"{name} {value:g}"
        for name, value, on in (
            ("top_p", top_p, is_number(top_p) and top_p < 1),
            ("top_k", top_k, is_number(top_k) and top_k > 0),
            ("min_p", min_p, is_number(min_p) and min_p > 0),
        )
        if on
    ]
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
    """Return an error when vLLM cannot split the attention heads of a model over its GPUs.

    Args:
        s: the config.
        heads: attention heads of the model.
        kv_heads: heads of keys and values; vLLM repeats them when there are fewer than GPUs.
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


def _colocate(s: Settings) -> Iterator[Finding]:
    yield from _heads(s)
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
    context, length = s.get("vllm_max_model_length"), s.get("max_completion_length")
    if is_number(context) and is_number(length) and context <= length:
        yield s.error(
            "vllm.context",
            "vllm_max_model_length",
            f"vllm_max_model_length {context} leaves no room for a prompt beside max_completion_length "
            f"{length}",
            ("vllm_max_model_length", int(length) * 2),
        )
    if s.get("load_in_8bit"):
        yield s.error(
            "vllm.quantized",
            "load_in_8bit",
            "vLLM cannot load a model quantized to 8-bit by bitsandbytes",
            ("load_in_8bit", False),
        )
    if s.get("use_cpu"):
        yield s.error(
            "vllm.cpu",
            "use_cpu",
            "vLLM needs a GPU, but use_cpu keeps the run off it",
            ("use_vllm", False),
        )


def server_address(settings: Settings) -> str:
    """Where the trainer looks for the vLLM server."""
    base = settings.get("vllm_server_base_url")
    if base:
        return str(base).rstrip("/")
    return f"http://{settings.get('vllm_server_host')}:{settings.get('vllm_server_port')}"


def server_command(settings: Settings) -> str:
    """The command that starts the vLLM server a config asks for, to be run on GPUs that do not train."""
    words = ["trl", "vllm-serve", "--model", str(settings.get("model_name_or_path"))]
    if settings.written("model_revision"):
        words += ["--revision", str(settings.get("model_revision"))]
    if settings.get("vllm_server_base_url"):
        port = str(settings.get("vllm_server_base_url")).rstrip("/").rpartition(":")[2]
        words += ["--port", port if port.isdigit() else "8000"]
    else:
        words += [
            "--host",
            str(settings.get("vllm_server_host")),
            "--port",
            str(settings.get("vllm_server_port")),
        ]
    for name, flag in _FLAG_OF.items():
        if name != "vllm_gpu_memory_utilization" and settings.written(name):
            words += [flag, str(settings.get(name))]
    if settings.get("dtype") in ("bfloat16", "float16"):
        words += ["--dtype", str(settings.get("dtype"))]
    if settings.get("trust_remote_code"):
        words += ["--trust_remote_code", "true"]
    return shlex.join(words)
