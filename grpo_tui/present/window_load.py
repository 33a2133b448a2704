"""Read the content of a full-screen chart from the `run.db` of one or more runs, and how these differ.

Reads as many buckets as there are columns of dots, whatever the length of the run. Bucket edges are multiples
of a few widths, so that they stay in place while a run continues.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from grpo_tui.core.evaluations import GAIN, LOW
from grpo_tui.core.metrics import EVALUATED
from grpo_tui.core.statistics import is_number
from grpo_tui.core.text import one_line
from grpo_tui.present.big_chart import (
    AxisRange,
    BigChartView,
    ChartBucket,
    ChartLine,
    Happening,
    Window,
    average_span,
    moving_average,
    shown_range,
)
from grpo_tui.present.charts import axis_end, chart_keys
from grpo_tui.present.formatting import MISSING, setting
from grpo_tui.present.seed_sets import PLACES, SeedSet, median_line, read_seed_run, sets_of
from grpo_tui.store.connection import RunDatabaseError
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.read_series import StepRange, metric_keys, newest_value, series_window, step_range
from grpo_tui.store.reader import RunReader
from grpo_tui.store.spec import checkpoint_forked
from grpo_tui.store.status import Status, read_status

SPREAD = "grpo_tui/spread"
COARSE = 256
"""Buckets of the overview that maps a range of time to steps."""
KEPT = 8
MANY_STEPS = 5_000
LEAD = 3
"""Spans of the moving average read before the window, so that its first value is right."""


class RunSource:
    """One run to read charts from. Use it from one thread at a time."""

    def __init__(self, folder: Path, name: str = "") -> None:
        self.folder = folder
        self.name = one_line(name or folder.name, 40)
        self.group = ""
        """Name of the set of seeds it belongs to. Runs of one group are drawn as one line."""
        self.trouble = ""
        self.status: Status | None = None
        self.bounds: StepRange | None = None
        self.band = True
        """Whether the band is read too. For the group std this takes a second in a very long run."""
        self.reader: RunReader | None = None
        """The open run; None while it cannot be read."""
        self._attempts = 0
        self._read_spreads: dict[tuple[int, int, int], tuple[int, dict[int, float]]] = {}

    def look(self) -> bool:
        """Open the run if possible. Return whether anything is new."""
        try:
            if self.reader is None:
                self.reader = RunReader(RunFolder(self.folder).database)
            changed = self.reader.changed()
            before = self.status
            if changed or before is None or before.live:
                self.status = read_status(self.folder, self.reader)
                self.bounds = step_range(self.reader)
                attempts = len(self.reader.attempts())
                if attempts != self._attempts:  # a resume supersedes steps
                    self._read_spreads.clear()
                    self._attempts = attempts
            moved = changed or before is None or before.live != (self.status is not None and self.status.live)
            moved |= bool(self.trouble)
            self.trouble = ""
        except RunDatabaseError as error:
            return self._failed(str(error))
        except Exception as error:  # a missing or locked file is temporary
            return self._failed(f"run.db cannot be read: {error}")
        return moved

    def _failed(self, why: str) -> bool:
        before, self.trouble = self.trouble, one_line(why, 200)
        self.close()
        return before != self.trouble

    def close(self) -> None:
        """Close the file."""
        if self.reader is not None:
            with contextlib.suppress(Exception):
                self.reader.close()
        self.reader = None

    @property
    def long(self) -> bool:
        """Whether reading the group std takes noticeable time."""
        return self.bounds is not None and self.bounds.newest_step - self.bounds.first_step > MANY_STEPS

    @property
    def started_at(self) -> float:
        """When the run began; 0 before its first row."""
        return self.bounds.started_at if self.bounds is not None else 0.0

    def reach(self, x: str) -> AxisRange | None:
        """Return the run's extent on an axis of steps or seconds; None before its first row."""
        if self.bounds is None:
            return None
        live = self.status is not None and self.status.live
        if x == "time":
            newest = max(1.0, self.bounds.newest_at - self.bounds.started_at)
            return AxisRange(
                0.0, newest, float(axis_end(int(newest) + 1, None, live=live)) if live else newest
            )
        total = self.status.total_steps if self.status is not None else None
        end = axis_end(self.bounds.newest_step, total, live=live)
        first = min(1, self.bounds.first_step)
        return AxisRange(float(first), float(self.bounds.newest_step), float(max(end, first + 1)))

    def line(
        self, key: str, name: str, x: str, first: float, last: float, columns: int, span: str
    ) -> ChartLine:
        """Return the buckets of a metric between two axis positions, with their moving average."""
        empty = ChartLine(key, name, started_at=self.started_at, trouble=self.trouble)
        if self.reader is None or self.bounds is None:
            return empty
        low, high = self._steps(key, x, first, last)
        width = _width(high - low + 1, columns)
        buckets = self._buckets(key, x, low, high, width, 0)
        lead = LEAD * average_span(span, sum(s.count for s in buckets))
        if low > self.bounds.first_step and span != "off":
            buckets = self._buckets(key, x, low, high, width, lead)
        averages = moving_average(
            ((s.mean, s.count) for s in buckets),
            average_span(span, sum(s.count for s in buckets if s.last >= low)),
        )
        done = tuple(replace(s, smooth=a) for s, a in zip(buckets, averages, strict=True))
        value, step = newest_value(self.reader, key)
        return replace(empty, buckets=tuple(s for s in done if s.last >= low), newest=value, newest_step=step)

    def _steps(self, key: str, x: str, first: float, last: float) -> tuple[int, int]:
        assert self.bounds is not None
        if x == "step":
            return max(0, int(first)), int(last) + 1
        start = self.bounds.started_at
        low, high = self.bounds.first_step, self.bounds.newest_step
        if first <= 0 and last >= self.bounds.newest_at - start:
            return low, high
        assert self.reader is not None
        for bucket in series_window(self.reader, key, buckets=COARSE):
            if bucket.last_at - start < first:
                low = bucket.last
            if bucket.first_at - start > last:
                return low, min(high, bucket.last)
        return low, high

    def _buckets(self, key: str, x: str, low: int, high: int, width: int, lead: int) -> list[ChartBucket]:
        assert self.reader is not None
        begin = max(0, low - lead) // width * width
        count = (high - begin) // width + 1
        found = series_window(
            self.reader, key, first_step=begin, last_step=begin + count * width - 1, buckets=count
        )
        spreads: Mapping[int, float] = {}
        if self.band and key == "reward":
            spreads = self._spreads(begin, count, width)
        elif self.band and key.startswith(EVALUATED):
            spreads = self._reaches(key, begin, count, width)
        start = self.started_at
        return [
            ChartBucket(
                first=b.first,
                last=b.last,
                x=(b.first + b.last) / 2 if x == "step" else (b.first_at + b.last_at) / 2 - start,
                at=b.last_at,
                low=b.low,
                high=b.high,
                mean=b.mean if is_number(b.mean) else None,  # the sum of huge values is infinite
                smooth=None,
                count=b.known,
                missing=b.missing,
                spread=spreads.get(b.first // width),
            )
            for b in sorted(found, key=lambda b: b.first)  # steps may decrease in a record edited by hand
        ]

    def _reaches(self, key: str, begin: int, count: int, width: int) -> dict[int, float]:
        """Return half the 95 % interval of an evaluation's gain by number of the bucket."""
        assert self.reader is not None
        last = begin + count * width - 1
        gain, low = (
            {
                b.first // width: b.mean
                for b in series_window(
                    self.reader, key + end, first_step=begin, last_step=last, buckets=count
                )
            }
            for end in (GAIN, LOW)
        )
        pairs = ((at, middle, low.get(at)) for at, middle in gain.items())
        return {at: middle - end for at, middle, end in pairs if middle is not None and end is not None}

    def _spreads(self, begin: int, count: int, width: int) -> dict[int, float]:
        """Return the mean group std by number of the bucket, reading only new values."""
        assert self.reader is not None
        assert self.bounds is not None
        newest, known = self._read_spreads.pop((begin, count, width), (begin, {}))
        again = min(newest, self.bounds.newest_step) // width
        last = begin + count * width - 1
        if newest < last:
            found = series_window(
                self.reader,
                SPREAD,
                first_step=again * width,
                last_step=last,
                buckets=begin // width + count - again,
            )
            known |= {b.first // width: b.mean for b in found if b.mean is not None}
        if len(self._read_spreads) >= KEPT:
            del self._read_spreads[next(iter(self._read_spreads))]
        self._read_spreads[(begin, count, width)] = (self.bounds.newest_step, known)
        return known

    def happenings(self, x: str) -> tuple[Happening, ...]:
        """Return checkpoints, changed settings and resumes, by step."""
        reader = self.reader
        if reader is None:
            return ()
        found = [
            Happening(
                c.step, self._place(x, c.step, c.at), "checkpoint", one_line(f"checkpoint-{c.step} saved")
            )
            for c in reader.checkpoints()
            if c.complete
        ]
        for change in reader.lasting_settings():
            text = f"{change.name} {setting(change.old)} → {setting(change.new)}"
            place = self._place(x, change.step, change.at)
            found.append(Happening(change.step, place, "setting", one_line(text, 100)))
        for attempt in reader.attempts():
            if attempt.attempt > 1 and attempt.resumed_from is not None:
                place = self._place(x, attempt.resumed_from, attempt.started_at)
                text = f"resumed from step {attempt.resumed_from:,}"
                found.append(Happening(attempt.resumed_from, place, "resume", text))
        return tuple(sorted(found, key=lambda h: h.step))

    def _place(self, x: str, step: int, at: float) -> float:
        return float(step) if x == "step" else at - self.started_at


def _width(steps: int, columns: int) -> int:
    """Return a bucket width from a few sizes (1, 2, 3, 4, 6, 8, 12, …), so that edges stay in place."""
    power = 1
    while True:
        for width in (power, power * 3 // 2):
            if steps <= width * max(1, columns):
                return width
        power *= 2


def load_window(
    sources: Sequence[RunSource], keys: Sequence[tuple[str, str]], window: Window, columns: int
) -> BigChartView | None:
    """Return the content of a chart `columns` dots wide; None before anything was logged.

    Args:
        sources: One run with several keys, or several runs with one key, those of a group together.
        keys: Metric keys with the name of each line; an empty name means the run's.
    """
    reaches = [reach for source in sources if (reach := source.reach(window.x)) is not None]
    if not reaches:
        return None
    bounds = AxisRange(
        min(r.first for r in reaches), max(r.newest for r in reaches), max(r.end for r in reaches)
    )
    first, last = shown_range(window, bounds)
    lines: list[ChartLine] = []
    for group, members in groupby(sources, lambda source: source.group or source):
        own = [
            source.line(key, name or source.name, window.x, first, last, columns, window.smoothing)
            for source in members
            for key, name in keys
        ]
        lines += [median_line(own, group)] if isinstance(group, str) else own
    values = max((sum(s.count for s in line.buckets) for line in lines), default=0)
    return BigChartView(
        key=keys[0][0],
        lines=tuple(lines),
        x=window.x,
        first=first,
        last=last,
        bounds=bounds,
        happenings=sources[0].happenings(window.x) if len(sources) == 1 else (),
        smoothing_span=average_span(window.smoothing, values),
        live=any(source.status is not None and source.status.live for source in sources),
    )


FIRST = ("model", "learning_rate", "beta", "num_generations", "temperature", "rewards", "dataset")


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One setting with its value in each run."""

    name: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OverlayFacts:
    """Metrics of several runs, their sets of seeds, and the settings in which these differ."""

    keys: tuple[str, ...]
    settings: tuple[SettingRow, ...]
    same: int = 0
    sets: tuple[SeedSet, ...] = ()
    forks: tuple[str, ...] = ()
    """A sentence for each run that was forked from another one of them."""


def read_overlay(folders: Sequence[Path], names: Sequence[str] = ()) -> OverlayFacts:
    """Read each run once. A run that cannot be read has no settings and no metrics."""
    keys: list[list[str]] = []
    settings: dict[Path, dict[str, str]] = {}
    for folder in folders:
        found, config = _one(folder)
        keys.append(chart_keys(found))
        settings[folder] = _flat(config)
    called = names or [folder.name for folder in folders]
    sets = sets_of([read_seed_run(*run) for run in zip(folders, called, strict=True)])
    configs = [
        settings[one.runs[0].root] | ({"seed": ", ".join(map(str, one.seeds))} if len(one.runs) > 1 else {})
        for one in sets
    ]
    every = [key for mine in keys for key in mine]
    ordered = chart_keys(dict.fromkeys(every))
    shared = {key for key in ordered if all(key in mine for mine in keys if mine)}
    rows, same = _different(configs)
    keys_shown = tuple(sorted(ordered, key=lambda k: k not in shared))
    return OverlayFacts(keys_shown, rows, same, sets, tuple(_forks(folders, called)))


def _forks(folders: Sequence[Path], names: Sequence[str]) -> Iterator[str]:
    known = {folder.resolve(): name for folder, name in zip(folders, names, strict=True)}
    for folder, name in known.items():
        checkpoint = checkpoint_forked(RunFolder(folder))
        if checkpoint is not None and checkpoint.parent in known:
            parent, at = known[checkpoint.parent], one_line(checkpoint.name, 40)
            yield one_line(f"{name} was forked from {parent} at {at}", 200)


def _one(folder: Path) -> tuple[list[str], Any]:
    try:
        with contextlib.closing(RunReader(RunFolder(folder).database)) as reader:
            return metric_keys(reader), reader.fact("config")
    except Exception:  # what cannot be read is shown as unknown
        return [], None


def settings_of(config: Any) -> tuple[tuple[str, str], ...]:
    """Return the settings of a recorded config with their values, the important ones first."""
    found = _flat(config)
    first = [name for name in FIRST if name in found]
    names = dict.fromkeys([*first, *(name for name in found if name.startswith("rule ")), *found])
    return tuple((one_line(name, 40), found[name]) for name in names)


def _flat(config: Any) -> dict[str, str]:
    if not isinstance(config, Mapping):
        return {}
    values: dict[str, Any] = {}
    for part in ("model_args", "script", "grpo"):
        if isinstance(config.get(part), Mapping):
            values |= config[part]
    section = config.get("section")
    if isinstance(section, Mapping):
        values |= {k: v for k, v in section.items() if k not in ("rewards", "on")}
        rules = section.get("on")
        for number, rule in enumerate(rules if isinstance(rules, list) else (), 1):
            if isinstance(rule, Mapping):
                values[f"rule {number}"] = f"{rule.get('do')} on {rule.get('when')}"
        rewards = section.get("rewards")
        if isinstance(rewards, list):
            known = [(r.get("name"), r.get("weight")) for r in rewards if isinstance(r, Mapping)]
            values["rewards"] = ", ".join(
                f"{name} × {'1' if weight is None else setting(weight)}" for name, weight in known
            )
    values["model"] = config.get("model")
    values.pop("model_name_or_path", None)
    return {str(k): one_line(setting(v), 80) for k, v in values.items() if k not in PLACES and v is not None}


def _different(configs: Sequence[Mapping[str, str]]) -> tuple[tuple[SettingRow, ...], int]:
    names = list(dict.fromkeys([*FIRST, *(name for config in configs for name in config)]))
    rows, same = [], 0
    for name in names:
        values = [config.get(name, MISSING) for config in configs]
        if len(set(values)) > 1:
            rows.append(SettingRow(one_line(name, 40), tuple(values)))
        elif values and values[0] != MISSING:
            same += 1
    return tuple(rows), same
