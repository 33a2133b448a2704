"""The launcher's words against the machine and the config: processes that would not start as they are meant.

Reads words; starts nothing. Whether the port is free is asked in `servers`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from grpo_tui.config.rules import Settings
from grpo_tui.core.findings import Finding
from grpo_tui.preflight.machine import Machine

_FIELD = "grpo_tui.launcher"


def launch_findings(settings: Settings, launcher: Sequence[str], machine: Machine) -> list[Finding]:
    """Return what is wrong with how a run would be started.

    Args:
        settings: the config, with the number of processes.
        launcher: words such as `accelerate launch --num_processes 2`; none for a single process.
        machine: the GPUs that are visible.
    """
    found = list(_chosen(settings, machine))
    return found + list(_words(settings, launcher) if launcher else _alone(settings, machine))


def _chosen(s: Settings, machine: Machine) -> Iterator[Finding]:
    """GPUs that the config names and this machine does not have."""
    if not machine.gpus or "CUDA_VISIBLE_DEVICES" in machine.environment:
        return  # without any that is told elsewhere; with a choice made outside the numbers mean others
    there = [str(gpu.index) for gpu in machine.gpus]
    gone = [name for name in s.section.gpus if name.isdigit() and name not in there]
    if gone:
        field = "grpo_tui.gpus"
        left = [int(name) for name in s.section.gpus if name in there]
        message = f"{field} names {', '.join(gone)}, and this machine has {', '.join(there)}"
        yield s.finding("launch.no-such-gpu", "error", field, message, (field, left or None))


def _words(s: Settings, launcher: Sequence[str]) -> Iterator[Finding]:
    several = s.world_size is None or s.world_size > 1
    if "--cpu" in launcher and several:
        message = (
            "accelerate launch --cpu starts one process, whatever --num_processes says; several on the "
            "CPU are "
            "--multi_gpu --num_processes N with use_cpu: true"
        )
        yield s.finding("launch.cpu", "error", _FIELD, message)
        return
    named = any(word in ("--multi_gpu", "--config_file", "--config-file") for word in launcher)
    if several and s.get("use_cpu") and launcher[0] == "accelerate" and not named:
        message = "without --multi_gpu accelerate starts one process on the CPU"
        yield s.finding("launch.cpu", "warning", _FIELD, message)


def _alone(s: Settings, machine: Machine) -> Iterator[Finding]:
    # Without a choice the freest GPU is taken; TRL refuses several that were chosen for one process.
    named = machine.environment.get("CUDA_VISIBLE_DEVICES")
    if s.get("use_cpu") or s.world_size != 1 or s.section.gpus or named is None or len(machine.gpus) < 2:
        return
    message = (
        f"CUDA_VISIBLE_DEVICES shows {len(machine.gpus)} GPUs to a run of one process, which TRL refuses "
        "after the "
        "model is loaded; name one of them, or start a process for each"
    )
    words = f"accelerate launch --multi_gpu --num_processes {len(machine.gpus)}"
    yield s.finding("launch.several-gpus", "error", _FIELD, message, (_FIELD, words))
