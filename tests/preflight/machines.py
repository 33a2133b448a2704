"""Machines for rules to look at: GPUs, versions, accounts and servers as a test wants them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from grpo_tui.config.plan.model import ModelShape
from grpo_tui.preflight.machine import GpuFacts, Machine, ServerAnswer

A100 = GpuFacts(0, "NVIDIA A100", (8, 0), 80 << 30, 80 << 30)
T4 = GpuFacts(0, "Tesla T4", (7, 5), 16 << 30, 16 << 30)
FITTING = {"vllm": "0.25.0", "peft": "0.19.0", "liger-kernel": "0.9.0", "bitsandbytes": "0.49.0"}


def version(**changed: str | None) -> Any:
    """Every package in a version that fits, but for those named."""
    versions = {**FITTING, **{name.replace("_", "-"): value for name, value in changed.items()}}
    return lambda name: versions.get(name, "99.0")


def shape(**known: Any) -> ModelShape:
    """The sizes of a small model, but for those named."""
    sizes = dict.fromkeys(("layers", "hidden", "heads", "kv_heads", "head_dim", "intermediate", "vocab"), 4)
    return ModelShape(**{"parameters": 0, **sizes, **known})


def machine(
    *gpus: GpuFacts,
    accounts: tuple[str, ...] = (),
    env: dict[str, str] | None = None,
    answers: Mapping[str, ServerAnswer] | None = None,
    taken: tuple[int, ...] = (),
    **versions: str | None,
) -> Machine:
    """A machine.

    Args:
        gpus: those a run may use.
        accounts: services it can log in to.
        env: its environment.
        answers: what servers say, by the end of the address.
        taken: ports in use.
        versions: packages that are other than `FITTING`, None for one that is missing.
    """
    known = answers or {}

    def ask(url: str) -> ServerAnswer:
        return next(
            (a for end, a in known.items() if url.endswith(end)), ServerAnswer(None, trouble="refused")
        )

    return Machine(
        gpus,
        accounts=frozenset(accounts),
        environment=env or {},
        version=version(**versions),
        free=lambda path: 1 << 40,
        port_taken=lambda port: port in taken,
        port_holder=lambda port: "process 77 (python of ana)",
        free_port=lambda port: port + 1,
        ask=ask,
    )


def serving(model: str) -> dict[str, ServerAnswer]:
    """A vLLM server as `trl vllm-serve` starts it."""
    return {
        "/health": ServerAnswer(200),
        "/v1/models": ServerAnswer(200, {"data": [{"id": model}]}),
        "json": ServerAnswer(200, {"vllm_config": {"model_config": {"logprobs_mode": "processed_logprobs"}}}),
    }
