"""How fast runs of this machine went, for the plan of another: from their records and from trials.

Reads a bounded number of runs, the newest first, and of each only what a rate needs. Makes no estimate.
"""

from __future__ import annotations

import socket
import statistics
from collections.abc import Iterable
from pathlib import Path

from grpo_tui.config.plan import PlanSettings, Rate
from grpo_tui.config.plan.arithmetic import read_batches
from grpo_tui.config.run_config import RunConfig
from grpo_tui.core.statistics import is_number
from grpo_tui.core.text import one_line
from grpo_tui.store.catalog import find_runs
from grpo_tui.store.connection import RunDatabaseError
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.reader import RunReader
from grpo_tui.store.spec import read_spec
from grpo_tui.store.trials import TrialFigures

MOST_RUNS = 40
"""Runs that are looked at."""
NEWEST_STEPS = 50
"""Steps whose median counts: the first ones warm up."""
PEAK_FACT = "peak_memory"


def known_rates(roots: Iterable[Path], model: str) -> tuple[Rate, ...]:
    """Rates of the runs of a model under some folders that ran on this machine, newest first.

    Args:
        roots: Folders with runs.
        model: The model as a config names it.
    """
    found = []
    for root in find_runs(roots)[:MOST_RUNS]:
        rate = _rate(RunFolder(root), model)
        if rate is not None:
            found.append(rate)
    return tuple(found)


def trial_rates(trials: Iterable[TrialFigures], model: str) -> tuple[Rate, ...]:
    """Rates that trials measured."""
    return tuple(
        Rate(
            "a trial",
            trial.model,
            trial.step_s,
            trial.completions,
            trial.max_completion_length,
            trial.world_size,
            trial.device,
            trial.use_vllm,
            trial.kind == "lora",
            trial.at,
        )
        for trial in trials
        if trial.model == model
    )


def _rate(folder: RunFolder, model: str) -> Rate | None:
    try:
        config = RunConfig.from_json(read_spec(folder.spec).config)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    if config.model != model:
        return None
    try:
        reader = RunReader(folder.database)
    except RunDatabaseError:
        return None
    try:
        return _read(reader, folder, config)
    except RunDatabaseError:
        return None
    finally:
        reader.close()


def _read(reader: RunReader, folder: RunFolder, config: RunConfig) -> Rate | None:
    attempts = reader.attempts()
    if not attempts or attempts[-1].host != socket.gethostname():
        return None
    times = [p.value for p in reader.series("step_time", max(0, reader.last_metric_row_id() - NEWEST_STEPS))]
    known = [value for value in times if value is not None and is_number(value) and value > 0]
    if not known:
        return None
    peak = reader.fact(PEAK_FACT)
    peak = peak if isinstance(peak, dict) else {}
    size = peak.get("world_size")
    world = int(size) if size is not None and is_number(size) and size >= 1 else 1
    settings = PlanSettings.of(config)
    return Rate(
        run=one_line(folder.root.name, 40),
        model=config.model,
        step_s=statistics.median(known),
        completions=read_batches(settings, world).completions_per_step,
        max_completion_length=settings.whole("max_completion_length"),
        world_size=world,
        device=str(peak.get("device") or ("cpu" if settings.flag("use_cpu") else "cuda")),
        use_vllm=settings.flag("use_vllm"),
        use_peft=settings.flag("use_peft"),
        at=attempts[-1].started_at,
    )
