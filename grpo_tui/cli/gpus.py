"""`grpo-tui gpus`, and the choice of GPUs for `train --gpus`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from grpo_tui.cli.errors import OK, CommandError
from grpo_tui.cli.plain import print_json
from grpo_tui.cli.saved_run import spans_machines, world_size
from grpo_tui.config.run_config import RunConfig
from grpo_tui.core.text import one_line
from grpo_tui.present.formatting import plural
from grpo_tui.present.hardware_view import gpu_json, gpu_lines
from grpo_tui.store.live import Gpu
from grpo_tui.store.spec import RunSpec
from grpo_tui.supervisor.gpus import NoGpus, NoSuchGpu, chosen_gpus, gpus_now, held_by_others, visible_names


def gpus(parsed: Any) -> int:
    """`grpo-tui gpus`: list GPUs with free memory and the processes on them."""
    found: Sequence[Gpu] = ()
    trouble = ""
    try:
        found = gpus_now()
    except NoGpus as error:
        trouble = one_line(str(error), 200)
    if parsed.json:
        print_json(gpu_json(found, trouble), ascii_only=True)
    else:
        print("\n".join(gpu_lines(found) or [f"no GPU here: {trouble}"]))
    return OK


def placed(spec: RunSpec, config: RunConfig, asked: str | None) -> RunSpec:
    """Return the start with its GPUs: those of `--gpus`, else of the resumed start, else of the config."""
    where = "--gpus" if asked else "the GPUs of the earlier start" if spec.gpus else "grpo_tui.gpus"
    names = tuple(name.strip() for name in asked.split(",")) if asked else spec.gpus or config.section.gpus
    if not names:
        return spec
    if config.grpo.get("use_cpu"):
        raise CommandError(f"{where} {','.join(names)}: use_cpu is true, so the GPUs would stay unused")
    try:
        chosen = chosen_gpus(names, gpus_now())
    except NoGpus as error:
        raise CommandError(
            f"{where} {','.join(names)}: the GPUs of this machine cannot be read: {error}"
        ) from error
    except NoSuchGpu as error:
        raise CommandError(f"{where}: {error}. Choose with --gpus; `grpo-tui gpus` lists them") from error
    _refuse_misfit(spec, chosen, where)
    notes = [f"training on GPU {_name(gpu)}" for gpu in chosen]
    for gpu in chosen:
        holder = held_by_others(gpu)
        if holder:
            notes.append(f"GPU {gpu.index} is also in use by {one_line(holder, 200)}")
    size = world_size(spec.launcher)
    if size is not None and size < len(chosen):
        notes.append(f"{plural(len(chosen), 'GPU')} for {plural(size, 'rank')}: the remaining ones stay idle")
    return replace(spec, gpus=visible_names(chosen), notes=(*spec.notes, *notes))


def _refuse_misfit(spec: RunSpec, chosen: Sequence[Gpu], where: str) -> None:
    count, size = len(chosen), world_size(spec.launcher)
    if not spec.launcher and count > 1:
        raise CommandError(
            f"{where} names {count} GPUs, but one process trains on one GPU. To start a rank on each, use "
            f'--launcher "accelerate launch --num_processes {count}"'
        )
    if size is not None and size > count and not spans_machines(spec.launcher):
        raise CommandError(
            f"{where} names {plural(count, 'GPU')} for {size} ranks. Name {size} GPUs, or start {count} ranks"
        )


def _name(gpu: Gpu) -> str:
    if gpu.index < 0:
        return one_line(gpu.uuid, 60)
    return f"{gpu.index}, {one_line(gpu.name, 40)}, {one_line(gpu.uuid, 60)}"
