"""Resources of this machine: GPUs, packages, accounts, free disk, ports, servers.

Credentials are only checked for existence and never read.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from grpo_tui.config.packages import version_of
from grpo_tui.store.live import Gpu
from grpo_tui.supervisor.gpus import GpuProbe, NoGpus
from grpo_tui.supervisor.ports import free_port, port_holder, port_in_use
from grpo_tui.supervisor.run_processes import RunProcesses

ANSWER_S = 1.5
MOST_ANSWER_BYTES = 4_000_000


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """One GPU.

    Attributes:
        index: NVML's index.
        capability: compute capability such as (8, 0), None if unknown.
        free_bytes: memory that no process uses.
    """

    index: int
    name: str
    capability: tuple[int, int] | None = None
    total_bytes: int | None = None
    free_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class ServerAnswer:
    """Answer of a server.

    Attributes:
        status: HTTP status, None without an answer.
        body: parsed JSON, or None.
    """

    status: int | None
    body: Any = None
    trouble: str = ""


def free_bytes(path: Path) -> int | None:
    """Return the free bytes for a folder, which need not exist."""
    for place in (path, *path.parents):
        with contextlib.suppress(OSError):
            return shutil.disk_usage(place).free
    return None


def ask(url: str) -> ServerAnswer:
    """Ask a server for JSON. Failures are returned, not raised."""
    try:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(url, timeout=ANSWER_S) as response:
            text = response.read(MOST_ANSWER_BYTES)
            status = int(response.status)
    except urllib.error.HTTPError as error:
        return ServerAnswer(error.code)
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        return ServerAnswer(None, trouble=str(getattr(reason, "strerror", None) or reason))
    try:
        return ServerAnswer(status, json.loads(text))
    except ValueError:
        return ServerAnswer(status)


def accounts(environment: Mapping[str, str] | None = None) -> frozenset[str]:
    """Return the services with a credential on this machine: `wandb`, `huggingface`, `comet_ml`, `neptune`.

    Credentials are only checked for existence.
    """
    env = os.environ if environment is None else environment
    home = Path(env.get("HOME") or Path.home())
    hub = Path(env.get("HF_HOME") or home / ".cache" / "huggingface")
    found = set()
    if env.get("WANDB_API_KEY") or _names_wandb(home / ".netrc") or _names_wandb(home / "_netrc"):
        found.add("wandb")
    if env.get("HF_TOKEN") or env.get("HUGGING_FACE_HUB_TOKEN") or (hub / "token").is_file():
        found.add("huggingface")
    if env.get("COMET_API_KEY") or (home / ".comet.config").is_file():
        found.add("comet_ml")
    if env.get("NEPTUNE_API_TOKEN"):
        found.add("neptune")
    return frozenset(found)


def _names_wandb(netrc: Path) -> bool:
    """Whether a netrc has an entry for wandb. Only lines that name a host are inspected."""
    try:
        with netrc.open(encoding="utf-8", errors="replace") as lines:
            return any(line.split()[:1] == ["machine"] and "wandb" in line.split()[1] for line in lines)
    except (OSError, IndexError):
        return False


@lru_cache(maxsize=1)
def read_gpus() -> tuple[GpuFacts, ...]:
    """Return the GPUs of this machine, none without a driver. NVML is asked once per process."""
    try:
        import pynvml
    except ImportError:
        return ()
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return ()
    try:
        return tuple(_gpu(pynvml, index) for index in range(int(pynvml.nvmlDeviceGetCount())))
    except pynvml.NVMLError:
        return ()
    finally:
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def _gpu(nvml: Any, index: int) -> GpuFacts:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    name = nvml.nvmlDeviceGetName(handle)
    capability = total = free = None
    with contextlib.suppress(nvml.NVMLError):
        major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
        capability = (int(major), int(minor))
    with contextlib.suppress(nvml.NVMLError):
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
        total, free = int(memory.total), int(memory.free)
    said = name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)
    return GpuFacts(index, said, capability, total, free)


@dataclass(frozen=True, slots=True)
class Machine:
    """Resources of this machine. Tests substitute their own.

    Attributes:
        gpus: usable GPUs, limited by `CUDA_VISIBLE_DEVICES`.
        other_device: whether there is a device unknown to NVML, so that no GPU does not mean no accelerator.
        environment: environment variables, for switches such as `WANDB_MODE`.
        port_holder: describes the process that uses a port.
        free_port: returns the next free port after one.
        gpus_now: returns the current state of every GPU, none if unknown.
    """

    gpus: tuple[GpuFacts, ...] = ()
    other_device: bool = False
    accounts: frozenset[str] = frozenset()
    environment: Mapping[str, str] = field(default_factory=dict)
    version: Callable[[str], str | None] = version_of
    free: Callable[[Path], int | None] = free_bytes
    port_taken: Callable[[int], bool] = port_in_use
    port_holder: Callable[[int], str] = port_holder
    free_port: Callable[[int], int] = free_port
    ask: Callable[[str], ServerAnswer] = ask
    gpus_now: Callable[[], Sequence[Gpu]] = tuple


def this_machine(env: Mapping[str, str] | None = None) -> Machine:
    """Return the machine of this process."""
    environment = {**os.environ, **(env or {})}
    gpus = read_gpus()
    return Machine(
        _visible(gpus, environment),
        other_device=not gpus and has_other_device(),
        accounts=accounts(environment),
        environment=environment,
        gpus_now=_gpus_now if gpus else tuple,
    )


def _gpus_now() -> tuple[Gpu, ...]:
    try:
        return _probe().sample(RunProcesses().describe)
    except NoGpus:
        return ()


@lru_cache(maxsize=1)
def _probe() -> GpuProbe:
    """Keep the probe open, because opening the driver may take seconds each time."""
    return GpuProbe()


def has_other_device() -> bool:
    """Return whether there is a training device unknown to NVML: ROCm, Apple, Gaudi, TPU, Ascend.

    Also true for an NVIDIA device whose driver does not respond.
    """
    named = ("kfd", "nvidia[0-9]*", "accel*", "hl[0-9]*", "davinci[0-9]*", "neuron[0-9]*")
    return sys.platform == "darwin" or any(next(Path("/dev").glob(name), None) for name in named)


def _visible(gpus: tuple[GpuFacts, ...], environment: Mapping[str, str]) -> tuple[GpuFacts, ...]:
    named = environment.get("CUDA_VISIBLE_DEVICES")
    if named is None:
        return gpus
    words = [word.strip() for word in named.split(",") if word.strip()]
    if not all(word.lstrip("-").isdigit() for word in words):
        return gpus[: len(words)]  # named by UUID: only the count is known
    wanted = [int(word) for word in words]
    if -1 in wanted:
        wanted = wanted[: wanted.index(-1)]  # CUDA ignores everything after an invalid index
    return tuple(gpus[index] for index in wanted if 0 <= index < len(gpus))
