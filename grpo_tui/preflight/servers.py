"""The vLLM server a run would ask, and the port its processes would meet at.

Asks the server what it serves, with a short patience; starts nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from grpo_tui.config.rules import Settings
from grpo_tui.config.rules_vllm import server_address, server_command
from grpo_tui.core.findings import Finding
from grpo_tui.core.text import one_line
from grpo_tui.preflight.machine import Machine

MEETING_PORT = 29500
"""Where torch's processes meet unless the launcher says otherwise."""
_HERE = ("0.0.0.0", "127.0.0.1", "localhost", "::1")
_PORT_FLAGS = ("--main_process_port", "--main-process-port", "--master_port", "--master-port")


def wants_server(settings: Settings) -> bool:
    """Whether the run generates with a vLLM server."""
    return bool(settings.get("use_vllm")) and settings.get("vllm_mode") == "server"


def server_findings(settings: Settings, machine: Machine) -> list[Finding]:
    """Return what is wrong with the vLLM server, if the config wants one."""
    return list(_server(settings, machine)) if wants_server(settings) else []


def server_note(settings: Settings) -> str:
    """How the server is started; empty when the config wants none."""
    if not wants_server(settings):
        return ""
    return f"the vLLM server, on GPUs that do not train: CUDA_VISIBLE_DEVICES=… {server_command(settings)}"


def _server(s: Settings, machine: Machine) -> Iterator[Finding]:
    address = server_address(s)
    field = "vllm_server_base_url" if s.get("vllm_server_base_url") else "vllm_server_port"
    if not s.written(field):
        field = "vllm_mode"
    health = machine.ask(f"{address}/health")
    if health.status is None:
        patience = s.get("vllm_server_timeout")
        message = (
            f"no vLLM server answers at {address} ({one_line(health.trouble, 80)}); TRL waits "
            f"{patience:g} s for it and "
            f"then gives up. Start it with `{server_command(s)}`"
        )
        yield s.finding("vllm.server", "error", field, message)
        return
    if health.status != 200:
        message = f"what answers at {address} is not a vLLM server that is ready (HTTP {health.status})"
        port = s.get("vllm_server_port")
        if (
            field != "vllm_server_base_url"
            and s.get("vllm_server_host") in _HERE
            and machine.port_taken(port)
        ):
            message += (
                f": {one_line(machine.port_holder(port), 120)}. Start the server on a free port, such as "
                f"vllm_server_port: {machine.free_port(port)}"
            )
        yield s.finding("vllm.server", "error", field, message)
        return
    served = _served(machine.ask(f"{address}/v1/models").body)
    model = str(s.get("model_name_or_path"))
    if served and not _same(served, model):
        message = (
            f"the vLLM server at {address} serves {one_line(served, 80)}, and the run trains "
            f"{one_line(model, 80)}"
        )
        yield s.finding("vllm.other-model", "error", field, message)
    yield from _abilities(s, machine, address, field)


def _abilities(s: Settings, machine: Machine, address: str, field: str) -> Iterator[Finding]:
    info = machine.ask(f"{address}/server_info?config_format=json")
    if info.status == 404:
        message = (
            f"the vLLM server at {address} does not take new weights (it has no /server_info); `trl "
            "vllm-serve` starts "
            "it so that it does, or VLLM_SERVER_DEV_MODE=1"
        )
        yield s.finding("vllm.no-weights", "error", field, message)
        return
    config = info.body.get("vllm_config") if isinstance(info.body, dict) else None
    model = config.get("model_config") if isinstance(config, dict) else None
    mode = model.get("logprobs_mode") if isinstance(model, dict) else None
    if mode and mode != "processed_logprobs" and s.get("vllm_importance_sampling_correction"):
        message = (
            f"the vLLM server gives {one_line(str(mode), 40)}, which biases the importance sampling "
            "correction; start it "
            "with --logprobs-mode processed_logprobs, as `trl vllm-serve` does"
        )
        fix = ("vllm_importance_sampling_correction", False)
        yield s.finding("vllm.logprobs", "warning", field, message, fix)


def _served(body: Any) -> str:
    data = body.get("data") if isinstance(body, dict) else None
    first = data[0] if isinstance(data, list) and data else None
    return str(first.get("root") or first.get("id") or "") if isinstance(first, dict) else ""


def _same(served: str, model: str) -> bool:
    """A folder may be named relative here and absolute there; a Hub id is compared as it is."""
    if served == model:
        return True
    one, other = Path(served).expanduser(), Path(model).expanduser()
    return one.exists() and other.exists() and one.resolve() == other.resolve()


def port_findings(settings: Settings, launcher: Sequence[str], machine: Machine) -> list[Finding]:
    """Return whether the port where several processes meet is taken."""
    if not launcher or settings.world_size == 1:
        return []
    port = meeting_port(launcher, machine)
    if port == 0 or not machine.port_taken(port):
        return []
    flag = "--main_process_port" if launcher[0] == "accelerate" else "--master_port"
    message = (
        f"port {port}, where the processes meet, is in use by {one_line(machine.port_holder(port), 120)}. "
        f"Add `{flag} {machine.free_port(port)}` to the launcher"
    )
    return [settings.finding("launch.port", "error", "grpo_tui.launcher", message)]


def meeting_port(launcher: Sequence[str], machine: Machine) -> int:
    """The port of the launcher's words, of MASTER_PORT, or torch's own."""
    for position, word in enumerate(launcher):
        name, equals, value = word.partition("=")
        if name in _PORT_FLAGS:
            text = value if equals else launcher[position + 1] if position + 1 < len(launcher) else ""
            return int(text) if text.isdigit() else MEETING_PORT
    given = machine.environment.get("MASTER_PORT", "")
    return int(given) if given.isdigit() else MEETING_PORT
