"""Explain a GPU out-of-memory error: which GPU, who else uses it, and which settings would fit.

The memory plan of the config is scaled to what the failed run needed, so its advice is realistic.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import psutil

from grpo_tui.config.plan.memory import Device, MemoryPlan
from grpo_tui.config.run_config import RunConfig
from grpo_tui.config.settings import Settings
from grpo_tui.preflight.facts import Facts
from grpo_tui.preflight.machine import Machine, this_machine
from grpo_tui.preflight.planning import plan_of
from grpo_tui.store.live import Gpu
from grpo_tui.supervisor.gpus import GpuProbe, NoGpus, held_by_others
from grpo_tui.supervisor.leftovers import MARK, is_marked
from grpo_tui.supervisor.run_processes import RunProcesses
from grpo_tui.train.ranks import world_size

ASKED = re.compile(
    r"Tried to allocate (?P<asked>[\d.]+ [KMG]iB)\. GPU (?P<gpu>\d+) has a total capacity of "
    r"(?P<total>[\d.]+ [KMG]iB) of which (?P<free>[\d.]+ [KMG]iB) is free"
)
VLLM_START = re.compile(
    r"Free memory on device \S+ \((?P<free>[\d.]+)/(?P<total>[\d.]+) GiB\) on startup is less than desired "
    r"GPU memory utilization"
)
"""vLLM's message when other processes leave less of the GPU than its share."""
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
SPARE = 1.1
"""A failed run is assumed to have needed at least this factor more than what was available."""
WHERE = {
    "load": "while loading",
    "generate": "while generating",
    "save": "while saving",
    "eval": "in the evaluation",
}


def machine_number(visible: int, environment: Mapping[str, str]) -> str:
    """Map CUDA's number of a GPU to that of the machine, using `CUDA_VISIBLE_DEVICES`."""
    names = [name.strip() for name in environment.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    return names[visible] if visible < len(names) else str(visible)


class MemoryAdvice:
    """Explains an out-of-memory error of one run.

    Args:
        gpus: Queries the GPUs. This run's processes are marked as `ours`.
        machine: Detected when None and needed.
    """

    def __init__(
        self,
        config: RunConfig,
        root: Path,
        launcher: Sequence[str] = (),
        *,
        gpus: Callable[[], Sequence[Gpu]] | None = None,
        machine: Machine | None = None,
    ) -> None:
        self._config, self._root, self._launcher = config, root, tuple(launcher)
        self._gpus, self._machine = gpus or _gpus_now, machine

    def cause(self, message: str, phase: str) -> str:
        """Say which GPU had too little memory, why, and what to change; empty for other failures."""
        asked, start = ASKED.search(message), VLLM_START.search(message)
        if start is None and "out of memory" not in message.lower():
            return ""
        name = machine_number(
            int(asked["gpu"]) if asked else int(os.environ.get("LOCAL_RANK", "0")), os.environ
        )
        card = next((gpu for gpu in self._gpus() if name in (str(gpu.index), gpu.uuid)), None)
        where = f"GPU {card.index} ({card.name})" if card is not None else f"GPU {name}"
        if start is not None:
            said = f"{where} has {start['free']} of {start['total']} GiB free, less than vLLM's share of it"
            change = _share(float(start["free"]), float(start["total"]))
        else:
            said = f"out of memory on {where} {WHERE.get(phase, 'in the update')}"
            if asked is not None:
                said += f": it asked for {asked['asked']}, and {asked['free']} of {asked['total']} were free"
            change = self._smaller(self._memory(asked, card), phase)
        holder = held_by_others(card) if card is not None and card.processes else ""
        held = f". {holder[:1].upper()}{holder[1:]} holds memory on it too" if holder else ""
        return f"{said}{held}. {change}"

    def _smaller(self, memory: MemoryPlan | None, phase: str) -> str:
        grpo = self._config.grpo
        choices = []
        batch = int(grpo.get("per_device_train_batch_size") or 8)
        fits = memory.most_per_device if memory is not None else None
        if fits is not None:
            # The same batch with more accumulation steps.
            fits = max(size for size in range(1, min(fits, max(1, batch - 1)) + 1) if batch % size == 0)
        if fits is not None and fits < batch:
            steps = int(grpo.get("gradient_accumulation_steps") or 1)
            choices.append(
                f"per_device_train_batch_size from {batch} to {fits} with gradient_accumulation_steps from "
                f"{steps} to {steps * batch // fits}"
            )
        length = int(grpo.get("max_completion_length") or 256)
        shorter = memory.most_length if memory is not None else None
        if shorter is not None and shorter < length:
            choices.append(f"max_completion_length from {length:,} to {shorter:,}")
        if grpo.get("use_vllm") and grpo.get("vllm_mode", "colocate") == "colocate":
            share = float(grpo.get("vllm_gpu_memory_utilization") or 0.3)
            if share > 0.15:
                choices.append(f"vllm_gpu_memory_utilization from {share:g} to {max(0.1, share - 0.1):.2g}")
        if choices:
            words = f"Change {', or '.join(choices)}"
        elif memory is not None and fits is None:
            words = "No batch size fits by the plan. Use a smaller model or a larger GPU"
        else:
            words = "Halve per_device_train_batch_size"
        if grpo.get("gradient_checkpointing") is False and phase != "generate":
            words += "; or set gradient_checkpointing: true"
        if not self._config.model_args.get("use_peft"):
            words += "; or set use_peft: true"
        return words

    def _memory(self, asked: re.Match[str] | None, card: Gpu | None) -> MemoryPlan | None:
        """Plan memory for a device that is too small by as much as the failed run showed."""
        if asked is None:
            return None
        total, free = _bytes(asked["total"]), _bytes(asked["free"])
        others = sum(p.memory_bytes or 0 for p in (card.processes or () if card else ()) if not p.ours)
        room = max(0, total - others)
        planned = self._planned(Device("", total))
        if planned is None:
            return None
        larger = max(room - free + _bytes(asked["asked"]), room * SPARE) / planned.peak_bytes
        return self._planned(Device("", total, free_bytes=int(room / max(1.0, larger))))

    def _planned(self, device: Device) -> MemoryPlan | None:
        try:
            return plan_of(
                Settings.of_config(self._config, world_size()),
                Facts(),
                self._machine or this_machine(),
                self._root,
                launcher=self._launcher,
                rates=(),
                device=device,
            ).memory
        except Exception as error:  # advice only; the error itself is reported anyway
            print(f"grpo-tui: what would fit cannot be planned: {type(error).__name__}: {error}", flush=True)
            return None


def _share(free: float, total: float) -> str:
    share = (int(100 * free / total) - 2) / 100
    if share < 0.1:
        return "Use another GPU (`grpo-tui gpus` lists them), or set use_vllm: false"
    return f"Set vllm_gpu_memory_utilization: {share:g}, or use another GPU (`grpo-tui gpus` lists them)"


def _bytes(words: str) -> int:
    number, unit = words.split()
    return int(float(number) * UNITS[unit])


def own_processes() -> RunProcesses:
    """Return the processes of this run: this one, its launcher and their children.

    A launcher carries the run's mark. The process that started the run does not, and may be the parent of
    everything on this machine.
    """
    mark = os.environ.get(MARK, "")
    launchers = [parent.pid for parent in psutil.Process().parents() if mark and is_marked(parent.pid, mark)]
    processes = RunProcesses()
    processes.follow([os.getpid(), *launchers])
    return processes


def _gpus_now() -> Sequence[Gpu]:
    processes = own_processes()
    probe = GpuProbe()
    try:
        return probe.sample(processes.describe)
    except NoGpus:
        return ()
    finally:
        probe.close()
