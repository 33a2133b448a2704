"""Plan a config on this machine, from what the preflight knows so far.

This module supplies what is not in the config, such as the model's sizes. The formulas are in `config.plan`.
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from grpo_tui.config.accelerate_file import AccelerateFileError, accelerate_settings
from grpo_tui.config.plan.making import Plan, Surroundings, plan
from grpo_tui.config.plan.memory import WORDS, Device, MemoryPlan
from grpo_tui.config.plan.model import ModelShape, read_shape
from grpo_tui.config.plan.time import Rate
from grpo_tui.config.settings import Settings
from grpo_tui.core.findings import Finding
from grpo_tui.core.text import one_line
from grpo_tui.preflight.facts import Facts
from grpo_tui.preflight.machine import Machine
from grpo_tui.present.formatting import plural, size
from grpo_tui.present.hardware_view import free_bytes
from grpo_tui.present.known_rates import known_rates, measured
from grpo_tui.supervisor.gpus import held_by_others


def plan_of(
    settings: Settings,
    facts: Facts,
    machine: Machine,
    root: Path,
    *,
    launcher: Sequence[str] = (),
    shape: ModelShape | None = None,
    rates: tuple[Rate, ...] | None = None,
    device: Device | None = None,
    rows: int | None = None,
    prompt_tokens: int | None = None,
    run: Path | None = None,
) -> Plan:
    """Plan the run of a config.

    Args:
        facts: without facts about the data or `rows`, the plan has no epochs.
        root: run folder, for the free disk space.
        launcher: its words, for how the ranks share the model. The config's when empty.
        shape: the model's sizes. When None, from the facts or else the model's folder.
        rates: speed of earlier runs on this machine. Looked up when None.
        device: device that must hold the run. Chosen when None.
        rows, prompt_tokens: number of rows and the longest prompt. From the facts when None.
        run: run whose speed counts before that of others. The one in `root` when None.
    """
    data = facts.data if facts.data is not None and not facts.data.problem else None
    lengths = data.prompt_tokens if data is not None else None
    counted = facts.model.shape if facts.model is not None and not facts.model.problem else None
    words, world_size = launcher or shlex.split(settings.section.launcher or ""), settings.world_size or 1
    device = device or device_of(settings, machine, alone=not words and world_size == 1)
    known = measured(settings.model, device, lora=settings.flag("use_peft"))
    accelerate = None
    with contextlib.suppress(AccelerateFileError):  # reported by the launcher's check
        accelerate = accelerate_settings(words)
    if rates is None:
        rates = known_rates((root.absolute().parent,), settings.model)
    return plan(
        settings,
        Surroundings(
            world_size=world_size,
            rows=rows or (data.train_rows if data is not None else None),
            prompt_tokens=prompt_tokens or (lengths.most if lengths is not None else None),
            model=shape or counted or read_shape(settings.model),
            device=device,
            accelerate=accelerate,
            correction=known.correction,
            free_bytes=machine.free(root.absolute()),
            rates=(*rates, *known.rates),
            run=one_line((run or root).name, 40),
        ),
    )


def device_of(settings: Settings, machine: Machine, *, alone: bool) -> Device | None:
    """Return the device that must hold the run: a GPU, or the machine's memory with `use_cpu`.

    Args:
        alone: whether a single process trains. It uses the GPU with the most room. Of several ranks, even the
            one with the least room must hold its part.
    """
    if settings.get("use_cpu"):
        return Device("CPU", int(psutil.virtual_memory().total), "cpu")
    named = [gpu for gpu in machine.gpus if str(gpu.index) in settings.section.gpus]
    now = {gpu.index: gpu for gpu in machine.gpus_now()}
    found = []
    for gpu in named or machine.gpus:
        if gpu.total_bytes:
            seen = now.get(gpu.index)
            holder = "" if seen is None else held_by_others(seen)
            free = None if seen is None or not holder else free_bytes(seen)
            found.append(Device(gpu.name, gpu.total_bytes, free_bytes=free, held_by=holder))
    if not found:
        return None
    return (max if alone else min)(found, key=lambda device: device.room_bytes)


def plan_findings(settings: Settings, made: Plan) -> list[Finding]:
    """Return findings on the plan: a disk that fills up, too little memory."""
    found = []
    kept = made.checkpoints
    if kept.fits is False and kept.total_bytes and kept.bytes_each and kept.free_bytes is not None:
        limit = settings.get("save_total_limit")
        fix = ("save_only_model", True) if limit is not None and limit <= 2 else ("save_total_limit", 2)
        message = (
            f"{plural(kept.kept or 1, 'checkpoint')} of {size(kept.bytes_each)} and the model at the end "
            f"take {size(kept.total_bytes)}, and {size(kept.free_bytes)} are free"
        )
        found.append(settings.error("plan.disk", "save_total_limit", message, fix))
    memory = made.memory
    if memory is not None and memory.fits is False and memory.device is not None:
        device = memory.device
        needs = (
            f"the run needs about {size(memory.peak_bytes)}, {WORDS[memory.peak_moment]}, and {device.name}"
        )
        fix = _smaller(settings, memory)
        if memory.peak_bytes > device.memory_bytes:
            message = f"{needs} has {size(device.memory_bytes)}"
            found.append(settings.warning("plan.memory", fix[0], message, fix))
        else:
            message = (
                f"{needs} has {size(device.room_bytes)} free of {size(device.memory_bytes)}: in use by "
                f"{one_line(device.held_by, 200)}. Choose another GPU (`grpo-tui gpus` lists them), wait for "
                "that process to end, or make the run smaller"
            )
            found.append(settings.error("plan.memory-held", fix[0], message, fix))
    return found


def _smaller(settings: Settings, memory: MemoryPlan) -> tuple[str, Any]:
    """Suggest the smallest change that saves memory: batch size, adapter, completion length, 4-bit."""
    if memory.most_per_device is not None:
        return "per_device_train_batch_size", memory.most_per_device
    if settings.get("use_peft") is not True:
        return "use_peft", True
    if memory.most_length is not None:
        return "max_completion_length", memory.most_length
    return "load_in_4bit", True
