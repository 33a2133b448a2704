"""Judge a run while it is recorded: follow the written records and report what is open.

A step is judged when the next one begins, because its evaluation or the records of another rank may arrive
until then. A skipped step is judged at once, because the run pauses after it. Runs in the recorder's thread.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from grpo_tui.core import records as r
from grpo_tui.core.findings import Finding
from grpo_tui.core.statistics import is_number
from grpo_tui.health.doctor import Doctor
from grpo_tui.health.facts import Observation, Settings, facts_of
from grpo_tui.health.machine_rules import GPU_MEMORY, GPU_RETRIES, MEMORY
from grpo_tui.health.reading import KEYS, doctor_before
from grpo_tui.store.layout import RunFolder, where
from grpo_tui.store.live import Hardware, RankState, read_hardware, read_rank
from grpo_tui.store.read_health import with_prompts
from grpo_tui.store.reader import RunReader
from grpo_tui.store.values import to_column
from grpo_tui.store.writer import prompt_key

REPETITION = 2
SAMPLE_S = 2.0
"""Interval at which the state of the machine is read. The supervisor writes it as often."""


@dataclass(slots=True)
class _Step:
    values: dict[str, float] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)
    groups: dict[tuple[int, int], list[r.Completion]] = field(default_factory=dict)
    """By batch and position. The parts of a group divided over ranks are in one list."""
    prompts: dict[tuple[int, int], str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    failed: Counter[int] = field(default_factory=Counter)
    ranks: dict[int, float] = field(default_factory=dict)

    def log(self, values: Mapping[str, Any]) -> None:
        for key in (*KEYS, *[one for one in values if one.startswith(r.TOOLS)]):
            if key in values:
                value = to_column(values[key])
                self.values[key] = float(value) if is_number(value) else math.nan
                if not is_number(value):
                    self.missing.add(key)

    def observed(self, number: int, settings: Settings) -> Observation:
        members = (sorted(parts, key=lambda c: c.index) for parts in self.groups.values())
        groups = tuple(
            facts_of(completions, self.prompts[at], settings, repetition=place < REPETITION)
            for place, (at, completions) in enumerate(zip(self.groups, members, strict=True))
        )
        return Observation(
            number,
            number,
            self.values,
            frozenset(self.missing),
            groups,
            self.seconds,
            dict(self.failed),
            self.ranks,
        )


class LiveVerdict:
    """Finds what is wrong with a run from the records of one attempt.

    Args:
        folder: Run folder. Records of earlier attempts are read once, when the first step is judged.
    """

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._doctor: Doctor | None = None
        self._steps: dict[int, _Step] = {}
        self._failed: dict[int, Counter[int]] = {}
        """Failed calls by function, for batches that have not arrived yet."""
        self._first_function, self._last_function, self._listed_at = 0, -1, 0.0
        self._begun = 0
        self._judged = -1
        self._told: tuple[Finding, ...] | None = None
        self._of_prompts: tuple[Finding, ...] = ()
        self._looked_at, self._memory = -math.inf, dict[str, float]()

    def __call__(self, records: Sequence[Any]) -> list[r.Record]:
        """Take records that were written. Return the open findings when they changed."""
        ended = skipped = False
        for record in records:
            self._take(record)
            ended = ended or isinstance(record, r.AttemptEnded)
            skipped = skipped or (isinstance(record, r.MetricRow) and r.SKIPPED in record.values)
        self._judge(math.inf if ended or skipped else self._begun)
        if self._doctor is None:
            return []
        if (found := self._doctor.prompt_findings()) is not None:
            self._of_prompts = self._named(found) if found else ()
        now = (*self._doctor.open_findings(), *self._of_prompts)
        if now == self._told:
            return []
        self._told = now
        return [r.OpenFindings(time.time(), now)]

    def _named(self, found: Sequence[Finding]) -> tuple[Finding, ...]:
        with self._reader() as reader:
            return tuple(with_prompts(reader, one) for one in found)

    def _judge(self, before: float) -> None:
        """Judge the steps before this one."""
        for number in sorted(one for one in self._steps if one < before):
            step = self._steps.pop(number)
            self._judged = number
            if not step.values and not step.groups:
                continue
            if self._doctor is None:
                with self._reader() as reader:
                    self._doctor = doctor_before(reader, number)
            step.values |= self._machine()
            self._doctor.see(step.observed(number, self._doctor.state.settings))

    def _machine(self) -> dict[str, float]:
        """Return how full memory is, as the supervisor and the first rank report it."""
        now = time.monotonic()
        if now - self._looked_at >= SAMPLE_S:
            self._looked_at = now
            hardware, rank = read_hardware(self._folder.hardware), read_rank(self._folder.rank(0))
            self._memory = memory_of(hardware, rank) if hardware is not None and rank is not None else {}
        return self._memory

    def _reader(self) -> closing[RunReader]:
        name = where(self._folder.root) or self._folder.root
        return closing(RunReader(RunFolder(name).database))

    def _take(self, record: Any) -> None:
        if isinstance(record, r.MetricRow) and record.step > self._judged:
            self._at(record.step).log(record.values)
            self._begun = max(self._begun, record.step)
        elif isinstance(record, r.SettingChanged) and self._doctor is not None:
            self._doctor.changes.append(record)  # earlier changes were read when the doctor was created
        elif isinstance(record, r.PhaseSpan) and record.step > self._judged:
            if record.phase == r.ALONE:
                ranks = self._at(record.step).ranks
                ranks[record.rank] = ranks.get(record.rank, 0.0) + record.duration_s
            elif not record.rank:
                seconds = self._at(record.step).seconds
                seconds[record.phase] = seconds.get(record.phase, 0.0) + record.duration_s
        elif isinstance(record, r.RewardCall) and record.outcome != "ok":
            self._failed.setdefault(record.batch, Counter())[record.function - self._first_function] += 1
        elif isinstance(record, r.RewardFunctionInfo) and record.index > self._last_function:
            if record.since_step and record.at != self._listed_at:
                self._listed_at, self._first_function = record.at, record.index
                self._judge(record.since_step)  # what was scored before another list of functions
                self._doctor = None
            self._last_function = record.index
        elif isinstance(record, r.GenerationBatch):
            failed = self._failed.pop(record.batch, Counter[int]())
            if record.mode != "train" or record.step <= self._judged:
                return
            step = self._at(record.step)
            step.failed.update(failed)
            for group in record.groups:
                step.groups.setdefault((record.batch, group.index), []).extend(group.completions)
                step.prompts[record.batch, group.index] = prompt_key(group.prompt)
            self._begun = max(self._begun, record.step)

    def _at(self, step: int) -> _Step:
        found = self._steps.get(step)
        if found is None:
            found = self._steps[step] = _Step()
        return found


def memory_of(hardware: Hardware, rank: RankState) -> dict[str, float]:
    """Return how full the machine's memory is, and that of the rank's GPU if it has one."""
    found: dict[str, float] = {}
    if hardware.ram_used_bytes is not None and hardware.ram_total_bytes:
        found[MEMORY] = hardware.ram_used_bytes / hardware.ram_total_bytes
    own = (rank.gpu or "").upper()
    for gpu in hardware.gpus if own else ():
        used, total = gpu.memory_used_bytes, gpu.memory_total_bytes
        if used is not None and total and own in (gpu.pci_bus_id.upper(), gpu.uuid.upper()):
            found |= {GPU_MEMORY: used / total, GPU_RETRIES: float(rank.cache_releases)}
    return found
