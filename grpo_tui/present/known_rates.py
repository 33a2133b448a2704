"""Measured speeds of earlier runs and trials on this machine, used to plan another run.

Reads a bounded number of runs, newest first, and only what a rate needs.
"""

from __future__ import annotations

import socket
import statistics
import time
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path

from grpo_tui.config.plan.batches import read_batches
from grpo_tui.config.plan.memory import Device
from grpo_tui.config.plan.time import Rate
from grpo_tui.config.run_config import RunConfig
from grpo_tui.config.settings import Settings
from grpo_tui.core.statistics import is_number
from grpo_tui.core.text import one_line
from grpo_tui.store.layout import RunFolder, find_runs, last_written_at
from grpo_tui.store.read_series import last_metric_row_id, read_points
from grpo_tui.store.reader import RunReader
from grpo_tui.store.spec import read_spec
from grpo_tui.store.trials import read_trials

MOST_RUNS = 40
NEWEST_STEPS = 50
"""Number of steps for the median. The first steps of a run are warm-up."""
KEPT_S = 30.0
MOST_CHILDREN = 500
PEAK_FACT = "peak_memory"


@dataclass(frozen=True, slots=True)
class Measured:
    """Rates of a model's trials here, and measured ÷ planned memory of the newest one (1 without one)."""

    correction: float = 1.0
    rates: tuple[Rate, ...] = ()


def measured(model: str, device: Device | None, *, lora: bool) -> Measured:
    """Return what trials measured for a model."""
    trials = [trial for trial in read_trials() if trial.model == model]
    kind, machine = "lora" if lora else "full", machine_name(device)
    same = [trial.ratio for trial in trials if (trial.kind, trial.machine) == (kind, machine)]
    rates = tuple(
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
    )
    return Measured(same[-1] if same and same[-1] > 0 else 1.0, rates)


def machine_name(device: Device | None) -> str:
    """Return the name under which trials are stored: the GPU, or the host when training on the CPU."""
    if device is None or device.kind == "cpu":
        return f"cpu of {socket.gethostname()}"
    return device.name


def known_rates(folders: Iterable[Path], model: str) -> tuple[Rate, ...]:
    """Return rates of a model's runs here: below `outputs/`, or directly in `folders`, maybe a home."""
    return _known(tuple(folders), model, str(Path.cwd()), int(time.monotonic() // KEPT_S))


@lru_cache(maxsize=8)
def _known(folders: tuple[Path, ...], model: str, cwd: str, moment: int) -> tuple[Rate, ...]:
    """Cached for `KEPT_S`: a check asks after each of its parts."""
    runs = [run for folder in folders for run in _right_in(folder)]
    newest = sorted({run.resolve() for run in runs}, key=_written_at, reverse=True)
    looked_at = dict.fromkeys([*find_runs([Path(cwd) / "outputs"])[:MOST_RUNS], *newest[:MOST_RUNS]])
    found = [_rate(RunFolder(root), model) for root in looked_at]
    return tuple(rate for rate in found if rate is not None)


def _right_in(folder: Path) -> list[Path]:
    try:
        children = list(islice(folder.iterdir(), MOST_CHILDREN))
    except OSError:
        return []
    return [child for child in children if (child / "run.json").is_file()]


def _written_at(run: Path) -> float:
    return last_written_at([run / "run.json"])


def _rate(folder: RunFolder, model: str) -> Rate | None:
    try:
        config = RunConfig.from_json(read_spec(folder.spec).config, folder.root)
        if config.model != model:
            return None
        with closing(RunReader(folder.database)) as reader:
            return _read(reader, folder, config)
    except Exception:  # a broken run only means one rate less
        return None


def _read(reader: RunReader, folder: RunFolder, config: RunConfig) -> Rate | None:
    attempts = reader.attempts()
    if not attempts or attempts[-1].host != socket.gethostname():
        return None
    times = [
        p.value for p in read_points(reader, "step_time", max(0, last_metric_row_id(reader) - NEWEST_STEPS))
    ]
    known = [value for value in times if value is not None and is_number(value) and value > 0]
    if not known:
        return None
    peak = reader.fact(PEAK_FACT)
    peak = peak if isinstance(peak, dict) else {}
    size = peak.get("world_size")
    world = int(size) if size is not None and is_number(size) and size >= 1 else 1
    settings = Settings.of_config(config)
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
