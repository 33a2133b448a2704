"""The launcher's words against the machine and the config: processes that would not start as they are meant.

Reads words; starts nothing. Whether the port is free is asked in `servers`.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from grpo_tui.config.accelerate_file import (
    AccelerateFileError,
    Option,
    accelerate_settings,
    options_of,
    spans_machines,
    underscored,
)
from grpo_tui.config.packages import installed
from grpo_tui.config.removed import nearest
from grpo_tui.config.rules import Settings
from grpo_tui.config.rules_sharded import mismatches
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
    found = [*_chosen(settings, machine), *_options(settings, launcher)]
    try:
        file = accelerate_settings(launcher) or {}
        several = bool(launcher) and spans_machines(launcher)
    except AccelerateFileError as error:
        return [*found, settings.finding("launch.file", "error", _FIELD, str(error))]
    found += _enough(settings, machine, sure=bool(launcher) and not several)
    if not launcher:
        return found + list(_alone(settings, machine))
    found += _deepspeed(settings, file)
    found += _precision(settings, file, launcher)
    return found + list(_words(settings, launcher))


def _options(s: Settings, launcher: Sequence[str]) -> Iterator[Finding]:
    """Options that the launcher does not have, which it would refuse or take for the script."""
    known = options_of(launcher[0]) if launcher else {}
    command = " ".join(launcher[:2]) if launcher[:1] == ("accelerate",) else "torchrun"
    at = len(command.split())
    while known and at < len(launcher):
        word, equals, value = launcher[at].partition("=")
        at += 1
        option = known.get(underscored(word)) or _shortened(launcher, word, known)
        if not word.startswith("-"):
            message = f"{command} takes '{word}' for the script to start; a launcher here has options only"
            yield s.finding("launch.option", "error", _FIELD, message)
            return
        if option is None:
            near = nearest(underscored(word), known, cutoff=0.7)
            message = f"{command} has no option {word}" + (f". Did you mean {near}?" if near else "")
            words = [*launcher[: at - 1], f"{near}={value}" if equals else str(near), *launcher[at:]]
            fix = (_FIELD, shlex.join(words)) if near and s.section.launcher else None
            yield s.finding("launch.option", "error", _FIELD, message, fix)
            option = known[near] if near else Option(at < len(launcher) and launcher[at][:1] != "-")
        if option.takes_value and not equals:
            value = launcher[at] if at < len(launcher) else ""
            at += 1
        if option.takes_value:
            yield from _value(s, word, value, option)


def _shortened(launcher: Sequence[str], word: str, known: Mapping[str, Option]) -> Option | None:
    """Return what a beginning stands for: torchrun takes one that fits a single option, accelerate none."""
    if launcher[0] != "torchrun" or not word.startswith("--"):
        return None
    fits = {name for name in known if name.startswith(underscored(word))}
    return known[fits.pop()] if len(fits) == 1 else None


def _value(s: Settings, word: str, value: str, option: Option) -> Iterator[Finding]:
    if option.whole and not value.lstrip("+-").isdigit():
        message = f"{word} of the launcher needs a whole number; it is '{value}'"
    elif option.choices and value not in option.choices:
        message = f"{word} of the launcher is '{value}'; it knows {', '.join(option.choices)}"
    else:
        return
    yield s.finding("launch.option", "error", _FIELD, message)


def _enough(s: Settings, machine: Machine, *, sure: bool) -> Iterator[Finding]:
    """More processes than GPUs; sure when all of them are started on this machine."""
    ranks, gpus = s.world_size or 1, len(machine.gpus)
    if not gpus or s.get("use_cpu") or ranks <= max(1, gpus):
        return
    message = f"{ranks} processes need a GPU each, and this machine has {gpus} that they may use"
    if sure:
        message += f". Start {gpus} with --num_processes {gpus}"
    field = _FIELD if sure else "per_device_train_batch_size"
    yield s.finding("hardware.too-few", "error" if sure else "warning", field, message)


def _deepspeed(s: Settings, file: Mapping[str, Any]) -> Iterator[Finding]:
    """DeepSpeed as accelerate's config asks for it: installed, and with the training's own numbers."""
    if str(file.get("distributed_type", "")).upper() != "DEEPSPEED":
        return
    if not installed("deepspeed"):
        message = (
            "the launcher asks for DeepSpeed, which is not installed here; `pip install deepspeed` gets it"
        )
        yield s.finding("config.not-installed", "error", _FIELD, message)
    inner = file.get("deepspeed_config")
    given = inner if isinstance(inner, dict) else {}
    path = given.get("deepspeed_config_file")
    body: Any = {name: given.get(name) for name in ("gradient_accumulation_steps", "gradient_clipping")}
    if path:
        try:
            body = json.loads(Path(str(path)).expanduser().read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            message = f"the launcher's DeepSpeed config {path} cannot be read: {error}"
            yield s.finding("sharded.deepspeed-file", "error", _FIELD, message)
            return
    if isinstance(body, dict):
        yield from mismatches(s, body)


def _precision(s: Settings, file: Mapping[str, Any], launcher: Sequence[str]) -> Iterator[Finding]:
    """Accelerate's mixed precision beside the config's, which the trainer takes where one is set."""
    asked = str(file.get("mixed_precision") or "no")
    for at, word in enumerate(launcher):
        name, equals, value = word.partition("=")
        if underscored(name) == "--mixed_precision":
            asked = value if equals else "".join(launcher[at + 1 : at + 2])
    ours = "fp16" if s.get("fp16") else "bf16" if s.get("bf16") is not False else "no"
    if asked in ("no", ours) or asked not in ("fp16", "bf16"):
        return
    if ours == "no":
        stored = s.get("dtype")
        if asked == "fp16" and stored in ("float16", "bfloat16") and not s.get("use_peft"):
            message = (
                f"the launcher's mixed_precision fp16 trains weights that are kept in float32, and dtype is "
                f"{stored}, so the first step fails"
            )
            yield s.finding("training.precision", "error", "dtype", message, ("dtype", "float32"))
        return
    default = "" if s.written(ours) else ", TRL's default"
    sharded = str(file.get("distributed_type", "")).upper() == "DEEPSPEED"
    message = f"the launcher's mixed_precision is {asked}, and the config trains in {ours}{default}. "
    message += "DeepSpeed needs one of them in both places" if sharded else f"The run trains in {ours}"
    field = ours if s.written(ours) else _FIELD
    yield s.finding("launch.precision", "error" if sharded else "warning", field, message)


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
