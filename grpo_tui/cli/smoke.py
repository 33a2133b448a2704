"""`grpo-tui train CONFIG --smoke`: a trial of two steps on the longest prompts, saved, reloaded and removed.

A trial is a normal run in its own folder next to the real one. Its measurements are compared with the plan
and kept for the next plan.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from grpo_tui.cli.errors import FAILED, OK
from grpo_tui.cli.plain import leaving_by_exit, show_progress
from grpo_tui.cli.saved_run import accelerate_config
from grpo_tui.config.plan.making import Plan, Surroundings, plan
from grpo_tui.config.plan.memory import Device
from grpo_tui.config.plan.model import read_shape
from grpo_tui.config.run_config import RunConfig
from grpo_tui.config.settings import Settings
from grpo_tui.core.commands import Command
from grpo_tui.core.statistics import is_number
from grpo_tui.core.text import one_line, shell_word
from grpo_tui.present.formatting import DOING, compact, duration, size, step_time
from grpo_tui.present.known_rates import PEAK_FACT, machine_name
from grpo_tui.store.checkpoints import judge
from grpo_tui.store.connection import RunDatabaseError
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.live import read_rank
from grpo_tui.store.mailbox import Mailbox
from grpo_tui.store.read_series import metric_rows
from grpo_tui.store.reader import RunReader
from grpo_tui.store.spec import RunSpec
from grpo_tui.store.status import ENDED, Status, is_live, read_status
from grpo_tui.store.trials import STAGES, TrialFigures, keep_trial
from grpo_tui.supervisor import RunFolderBusy, launch, take_lock

STEPS = 2
POLL_S = 0.2
LEAVING_S = 30.0
SMOKE_FACT = "smoke"
OVERRIDES = (
    "save_strategy=steps",
    "save_steps=1",
    "save_total_limit=null",
    "save_only_model=false",
    "logging_strategy=steps",
    "logging_steps=1",
    "eval_strategy=no",
    "load_best_model_at_end=false",
    "shuffle_dataset=false",
    "report_to=none",
    "push_to_hub=false",
    "resume_from_checkpoint=null",
    "grpo_tui.stages=null",
)
"""Settings of a trial. Everything else is as configured."""

Prepare = Callable[[Any], Any]
"""Converts arguments to a checked start with `folder`, `spec` and `config`."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The record of a trial.

    Attributes:
        rows: Logged rows as (step, values).
        memory: Memory measurements, empty if there are none.
        prompt_tokens: Length of the longest prompt in tokens, None if not counted.
    """

    rows: tuple[tuple[int, dict[str, Any]], ...]
    memory: dict[str, Any]
    prompt_tokens: int | None

    def value(self, step: int, key: str) -> float | None:
        """Return the last finite value logged at a step, None without one."""
        found = [values.get(key) for at, values in self.rows if at == step]
        known = [float(value) for value in found if value is not None and is_number(value)]
        return known[-1] if known else None

    @property
    def longest(self) -> int | None:
        """Length of the longest completion in tokens."""
        known = [self.value(step, "completions/max_length") for step in range(1, STEPS + 1)]
        return max((int(value) for value in known if value is not None), default=None)


def smoke(parsed: Any, prepare: Prepare, real: Path) -> int:
    """Run the trial beside `real`, the folder of the real run. Exit 0 if it trained, saved and resumed."""
    with trial(parsed, prepare, real, STAGES[0], f"max_steps={STEPS}") as start:
        return _trial(start.folder, start.spec, start.config)


@contextlib.contextmanager
def trial(parsed: Any, prepare: Prepare, real: Path, what: str, *overrides: str) -> Iterator[Any]:
    """Prepare a trial in a folder beside the real run. At the end, stop it and remove the folder.

    Args:
        what: Prefix of its stages.
        overrides: Settings besides those of every trial.
    """
    made = [folder for folder in (real.parent, *real.parent.parents) if not folder.exists()]
    real.parent.mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix=f"{real.name}.trial-", dir=real.parent))
    words = argparse.Namespace(
        **{**vars(parsed), "run_dir": place, "overrides": [*parsed.overrides, *OVERRIDES, *overrides]}
    )
    with leaving_by_exit():
        try:
            _Stages(what).say("checking the config")
            start = prepare(words)
            yield replace(start, spec=replace(start.spec, smoke=True))
        finally:
            show_progress("")
            _end(RunFolder(place))
            if parsed.keep:
                print(f"the trial is kept in {one_line(str(place))}")
            else:
                _remove(RunFolder(place))
                for folder in made:  # also remove parent folders that were made for the trial
                    with contextlib.suppress(OSError):
                        folder.rmdir()


def _trial(folder: RunFolder, spec: RunSpec, config: RunConfig) -> int:
    began = time.monotonic()
    print(f"a trial of {STEPS} steps on the longest prompts, in {one_line(str(folder.root))}", flush=True)
    launch(folder, spec)
    ended = wait(folder, STAGES[0])
    if ended.state != "finished":
        return _failed(folder, ended, "it did not train")
    first = _read(folder)
    checkpoint = folder.root / "checkpoint-1"
    verdict = judge(checkpoint)
    if not verdict.usable:
        return _failed(folder, ended, f"checkpoint-1 cannot be resumed: {verdict.reason}")
    launch(folder, replace(spec, resume=str(verdict.path)))
    ended = wait(folder, STAGES[1])
    if ended.state != "finished":
        return _failed(folder, ended, "it could not resume from checkpoint-1")
    again = _read(folder)
    for line in _report(config, spec, first, again, time.monotonic() - began):
        print(line)
    return OK


class _Stages:
    """Shows the stage of a trial: one updated line on a terminal, else a line per stage."""

    def __init__(self, what: str) -> None:
        self._what, self._said, self._since = what, "", 0.0

    def say(self, stage: str) -> None:
        """Show the stage. Call it repeatedly to update the seconds."""
        now = time.monotonic()
        if stage != self._said:
            self._said, self._since = stage, now
            if not sys.stderr.isatty():
                print(f"{self._what}{stage}", file=sys.stderr, flush=True)
        show_progress(f"{self._what}{stage}… {now - self._since:.0f} s")


def wait(folder: RunFolder, what: str, reached: Callable[[Status], Any] = lambda status: False) -> Status:
    """Wait until a trial has reached something or has ended."""
    stages = _Stages(what)
    while True:
        time.sleep(POLL_S)
        status = None
        with contextlib.suppress(RunDatabaseError):  # it is still starting
            status = read_status(folder.root)
            if (status.state in ENDED and not is_live(folder.root)) or reached(status):
                show_progress("")
                return status
        stages.say(_stage(folder, status))


def _stage(folder: RunFolder, status: Status | None) -> str:
    if status is None or status.phase == "load":
        rank = read_rank(folder.rank(0))
        return (rank.loads if rank is not None else "") or "starting"
    if status.state in ENDED:
        return "ending"
    doing = DOING.get(status.phase, status.phase)
    if status.total_steps not in (None, STEPS):
        return f"step {status.step + 1}: {doing}"
    return f"step {min(status.step + 1, STEPS)} of {STEPS}: {doing}"


def _failed(folder: RunFolder, ended: Status, what: str) -> int:
    print(f"the trial failed: {what} ({ended.state})", file=sys.stderr)
    if cause := cause_of(ended):
        print(f"  {cause}", file=sys.stderr)
    print(f"  Run it again with --keep and read {shell_word(folder.log.name)} for details", file=sys.stderr)
    return FAILED


def cause_of(ended: Status) -> str:
    """Return why a run ended, as one line that is safe to show."""
    error = ended.error or {}
    return one_line(str(error.get("cause") or error.get("message") or ""), 400)


def _end(folder: RunFolder) -> None:
    """Stop whatever is still running or starting there, for example after Ctrl+C."""
    mailbox = Mailbox(folder.commands)
    asked: Command | None = None
    deadline = time.monotonic() + LEAVING_S
    while not _is_over(folder) and time.monotonic() < deadline:
        outcome = mailbox.outcome(asked.id) if asked is not None else None
        if asked is None or (outcome is not None and not outcome.applied):
            # Again if refused: a supervisor that starts refuses earlier commands.
            with contextlib.suppress(OSError):
                asked = mailbox.submit("stop_now")
        time.sleep(POLL_S)


def _is_over(folder: RunFolder) -> bool:
    """Return whether the trial has ended, or nothing runs there."""
    with contextlib.suppress(RunDatabaseError):  # it may still be starting
        if read_status(folder.root).state in ENDED:
            return True
    try:
        os.close(take_lock(folder))
    except RunFolderBusy:
        return False
    return True


def _remove(folder: RunFolder) -> None:
    """Remove the trial's folder after its supervisor has exited, which may write until then."""
    held = None
    with contextlib.suppress(RunFolderBusy, OSError):
        held = take_lock(folder, LEAVING_S)
    shutil.rmtree(folder.root, ignore_errors=True)
    if held is not None:
        os.close(held)


def _read(folder: RunFolder) -> Seen:
    with contextlib.closing(RunReader(folder.database)) as reader:
        rows = tuple((step, values) for _, step, values in metric_rows(reader))
        memory, trial = reader.fact(PEAK_FACT), reader.fact(SMOKE_FACT)
    tokens = trial.get("prompt_tokens") if isinstance(trial, dict) else None
    return Seen(rows, memory if isinstance(memory, dict) else {}, tokens)


def _report(config: RunConfig, spec: RunSpec, first: Seen, again: Seen, took_s: float) -> list[str]:
    prompt = "" if first.prompt_tokens is None else f" of {first.prompt_tokens:,} tokens"
    asked = Settings.of_config(config).whole("max_completion_length")
    longest = "" if first.longest is None else f", completions up to {first.longest:,} of {asked:,}"
    lines = [
        f"trained   {STEPS} steps on prompts{prompt}{longest}; {duration(took_s)} with loading and saving",
        f"reloaded  {_same(first, again)}",
    ]
    device = _device(first.memory)
    made = _planned(config, spec, first, device)
    step_s = first.value(STEPS, "step_time")
    taken = taken_bytes(first.memory, made)
    if made is not None and made.memory is not None and taken is not None:
        planned = made.memory.peak_bytes
        lines.append(
            f"memory    {size(taken)} at the peak, planned {size(planned)} for these lengths: "
            f"{taken / max(1, planned):.2f} ×"
        )
    elif taken is not None:
        lines.append(f"memory    {size(taken)} at the peak; not planned, since the model's sizes are unknown")
    if step_s is not None:
        lines.append(f"rate      {step_time(step_s)} in the second step")
    return [*lines, *_kept(config, first, made, device, taken, step_s)]


def _same(first: Seen, again: Seen) -> str:
    """Return whether the step after the checkpoint was repeated exactly. GPU sums may differ slightly."""
    pairs = [(key, first.value(STEPS, key), again.value(STEPS, key)) for key in ("reward", "loss")]
    told = [
        f"{key} {compact(after)}"
        if before == after
        else f"{key} {compact(after)}, was {compact(before)} before"
        for key, before, after in pairs
        if after is not None
    ]
    word = "the same" if all(before == after for _, before, after in pairs) else "not quite the same"
    return f"checkpoint-1, and step {STEPS} gave {word} again ({', '.join(told) or 'no figures'})"


def _device(memory: dict[str, Any]) -> Device:
    if memory.get("device") == "cuda":
        return Device(one_line(str(memory.get("name", "")), 60), int(memory.get("total_bytes") or 0))
    import psutil

    return Device("CPU", int(psutil.virtual_memory().total), "cpu")


def _planned(config: RunConfig, spec: RunSpec, seen: Seen, device: Device) -> Plan | None:
    shape = read_shape(config.model)
    if shape is None:
        return None
    longest = seen.longest or Settings.of_config(config).whole("max_completion_length")
    world = seen.memory.get("world_size")
    return plan(
        Settings.of_config(replace(config, grpo={**config.grpo, "max_completion_length": longest})),
        Surroundings(
            world_size=int(world) if world is not None and is_number(world) else 1,
            prompt_tokens=seen.prompt_tokens,
            model=shape,
            device=device,
            accelerate=accelerate_config(spec.launcher),
        ),
    )


def taken_bytes(memory: dict[str, Any], made: Plan | None) -> int | None:
    """Return the peak as a plan counts it: torch's reserved memory and the context, else resident memory."""
    if memory.get("device") == "cuda":
        reserved = memory.get("reserved_bytes")
        parts = made.memory.parts if made is not None and made.memory is not None else ()
        context = sum(part.bytes for part in parts if part.name == "process")
        return int(reserved) + context if reserved is not None and is_number(reserved) else None
    resident = memory.get("resident_bytes")
    return int(resident) if resident is not None and is_number(resident) else None


def _kept(
    config: RunConfig,
    seen: Seen,
    made: Plan | None,
    device: Device,
    taken: int | None,
    step_s: float | None,
) -> list[str]:
    """Save the measurements for the next plan. Return a line that says where, or why not."""
    if made is None or made.memory is None or taken is None or step_s is None:
        return []
    settings = Settings.of_config(config)
    figures = TrialFigures(
        model=config.model,
        kind="lora" if settings.flag("use_peft") else "full",
        machine=machine_name(device),
        planned_bytes=made.memory.peak_bytes,
        measured_bytes=taken,
        step_s=step_s,
        completions=made.batches.completions_per_step,
        max_completion_length=seen.longest or settings.whole("max_completion_length"),
        world_size=made.batches.world_size,
        device=device.kind,
        use_vllm=settings.flag("use_vllm"),
        at=time.time(),
    )
    try:
        file = keep_trial(figures)
    except OSError as error:
        return [f"not kept  {error.strerror}"]
    return [f"kept      in {one_line(str(file))}: the next plan for this model on this machine uses it"]
