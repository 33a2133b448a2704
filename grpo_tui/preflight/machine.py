"""What this machine has: GPUs, installed packages, accounts, free disk, free ports, servers that answer.

Asks and judges nothing. Whether a credential exists is asked, what it is is never read.
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
"""How long a server may take to answer before it counts as not there."""
MOST_ANSWER_BYTES = 4_000_000


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """One GPU as far as it matters to a config.

    Attributes:
        index: NVML's number of it.
        name: as the driver says it.
        capability: compute capability, such as (8, 0); None when the driver does not say.
        total_bytes: its memory.
        free_bytes: what nobody holds.
    """

    index: int
    name: str
    capability: tuple[int, int] | None = None
    total_bytes: int | None = None
    free_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class ServerAnswer:
    """What a server said.

    Attributes:
        status: of HTTP; None when nothing answered.
        body: the JSON it sent; None when it sent none.
        trouble: why nothing came.
    """

    status: int | None
    body: Any = None
    trouble: str = ""


def free_bytes(path: Path) -> int | None:
    """What is free where a folder is or would be made."""
    for place in (path, *path.parents):
        with contextlib.suppress(OSError):
            return shutil.disk_usage(place).free
    return None


def ask(url: str) -> ServerAnswer:
    """Ask a server for JSON; what is no answer is said, not raised."""
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
    """Which services this person can log in to from here: `wandb`, `huggingface`, `comet_ml`, `neptune`.

    Only whether a credential exists is asked.
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
    """Whether a netrc has an entry for wandb; only the lines that name a host are looked at."""
    try:
        with netrc.open(encoding="utf-8", errors="replace") as lines:
            return any(line.split()[:1] == ["machine"] and "wandb" in line.split()[1] for line in lines)
    except (OSError, IndexError):
        return False


@lru_cache(maxsize=1)
def read_gpus() -> tuple[GpuFacts, ...]:
    """The GPUs of this machine that a run may use; none without a driver. Asks once per process."""
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
    """This machine as the rules ask it; tests give one of their own.

    Attributes:
        gpus: those that a run may use, those of `CUDA_VISIBLE_DEVICES` where that names numbers.
        other_device: whether there is a device that NVML does not know, so that no GPU does not mean none.
        accounts: services this person can log in to.
        environment: names and values of the environment, for switches such as `WANDB_MODE`.
        version: the installed version of a distribution.
        free: free bytes at a path.
        port_taken: whether something listens on a port.
        port_holder: who does, in words.
        free_port: the next port after one that nobody listens on.
        ask: what a server answers.
        gpus_now: how every GPU of the machine is at this moment; none where that cannot be asked.
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
    """Return the machine this process runs on.

    Args:
        env: what a config adds to the environment.
    """
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
    """Kept open: a driver that is opened for every look may take seconds each time."""
    return GpuProbe()


def has_other_device() -> bool:
    """Whether a device for training is here that NVML does not tell of: ROCm, Apple, Gaudi, TPU, Ascend.

    An NVIDIA device whose driver does not answer counts too.
    """
    named = ("kfd", "nvidia[0-9]*", "accel*", "hl[0-9]*", "davinci[0-9]*", "neuron[0-9]*")
    return sys.platform == "darwin" or any(next(Path("/dev").glob(name), None) for name in named)


def _visible(gpus: tuple[GpuFacts, ...], environment: Mapping[str, str]) -> tuple[GpuFacts, ...]:
    named = environment.get("CUDA_VISIBLE_DEVICES")
    if named is None:
        return gpus
    words = [word.strip() for word in named.split(",") if word.strip()]
    if not all(word.lstrip("-").isdigit() for word in words):
        return gpus[: len(words)]  # named by uuid: how many is what matters most
    wanted = [int(word) for word in words]
    if -1 in wanted:
        wanted = wanted[: wanted.index(-1)]  # CUDA sees none from the first that is not there
    return tuple(gpus[index] for index in wanted if 0 <= index < len(gpus))
