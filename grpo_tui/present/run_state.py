"""The state of one run, built from what is new since the last look, and its frozen view.

New data is read in bounded pages, each continuing where the last one ended (by row per metric, by group).
Figures of groups are read for the whole run at first, then only for its newest steps. When the run was
started again, steps may have been superseded, so everything is read again and the delta says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from grpo_tui.core.commands import REWARDS, Command, Outcome
from grpo_tui.core.evaluations import FACT, Evaluations
from grpo_tui.core.records import CheckpointSaved, RewardFunctionInfo, SettingChanged
from grpo_tui.core.schedule import FACT as SCHEDULE
from grpo_tui.core.schedule import scheduled_from, without_left
from grpo_tui.core.stages import SETTING, START, stage_start
from grpo_tui.core.statistics import is_number, scored
from grpo_tui.core.text import one_line
from grpo_tui.present.before_after import BeforeAfter, read_before_after
from grpo_tui.present.charts import (
    CHANGE_STEPS,
    axis_end,
    chart_keys,
    chart_view,
    health_spans,
    trend,
    way_on,
)
from grpo_tui.present.events import alert_rows, event_rows
from grpo_tui.present.formatting import stage_words
from grpo_tui.present.group_card import GroupFold
from grpo_tui.present.hardware_view import hardware_view, rank_rows
from grpo_tui.present.series import FLAT, FLAT_BOTTOM, FLAT_TOP, Series, StepFold, aligned
from grpo_tui.present.train_view import (
    ChartView,
    EventRow,
    FunctionRow,
    Span,
    TrainView,
)
from grpo_tui.store.live import RankState
from grpo_tui.store.read_series import (
    TOKENS_PER_SECOND,
    Point,
    SeriesBucket,
    SeriesStart,
    StepStat,
    last_metric_row_id,
    metric_keys,
    new_points,
    series_start,
    step_buckets,
    step_stats,
    total_range,
)
from grpo_tui.store.reader import Attempt, RunReader, StoredGroup, distinct_names, lasting
from grpo_tui.store.status import Status

LATE = 32
"""Steps by which a rank's groups may arrive late."""
ASKED_AGAIN = 48
LONG = 4_096
"""Number of steps from which on the past is read in stretches."""
STRETCHES = 400


@dataclass(frozen=True, slots=True)
class StepLook:
    """Figures of the groups by step, from one look."""

    stats: tuple[StepStat, ...]
    """All steps after those settled before."""
    settled: int
    """Steps up to this one are final."""
    anew: bool = False
    """Whether to forget what was settled before."""
    past: Mapping[str, Sequence[SeriesBucket]] = field(default_factory=dict)
    """With `anew`: the beginning of a long run, in stretches."""


class StepLooks:
    """Follows the training groups of a run through its reader."""

    def __init__(self, reader: RunReader) -> None:
        self._reader = reader
        self._totals: tuple[float, float] | None = None
        self._seen: tuple[float, float] | None = None
        self._settled = -1

    def look(self, groups: Iterable[StoredGroup], *, fresh: bool) -> StepLook | None:
        """Return the figures of the groups by step; None when nothing is new. The first look is `fresh`."""
        new = [group for group in groups if group.mode == "train"]
        if not fresh and not new:
            return None
        anew = self._widen(new) or fresh
        if fresh:
            self._totals = self._seen = total_range(self._reader)
        if not anew:
            return self._newest(step_stats(self._reader, self._settled + 1, totals=self._totals))
        self._settled = -1
        last = max((group.step for group in new), default=0)
        past: Mapping[str, Sequence[SeriesBucket]] = {}
        if last > LONG:
            self._settled = last - ASKED_AGAIN
            width = -(-self._settled // STRETCHES)
            past = step_buckets(self._reader, width, last_step=self._settled, totals=self._totals)
        found = self._newest(step_stats(self._reader, self._settled + 1, totals=self._totals))
        return StepLook(found.stats, found.settled, anew=True, past=past)

    def _newest(self, stats: list[StepStat]) -> StepLook:
        if stats and stats[-1].step - self._settled > ASKED_AGAIN:
            self._settled = stats[-1].step - LATE
        return StepLook(tuple(stats), self._settled)

    def _widen(self, groups: Iterable[StoredGroup]) -> bool:
        """Add new totals. Return True when the run's range grew, which reclassifies flat groups."""
        totals = scored(c.total for group in groups for c in group.completions)
        if self._seen is not None:
            totals += self._seen
        if not totals:
            return False
        self._seen = (min(totals), max(totals))
        if self._seen[0] == self._seen[1] or self._seen == self._totals:
            return False
        self._totals = self._seen
        return True


NEWEST_GROUPS = 64
NEW_PAGE = 256
FIRST_KEYS = (
    "reward", "completions/mean_length", "completions/clipped_ratio", "entropy", "kl", "grad_norm",
    "step_time", "learning_rate", "loss", "num_tokens", TOKENS_PER_SECOND,
)  # fmt: skip
"""Metrics read in the first look, with the means of the reward functions. Others follow in pages."""
KEYS_PAGE = 8
FACTS = ("config", FACT, SCHEDULE)


@dataclass(frozen=True, slots=True)
class RunDelta:
    """One look at a run. Lists that are always short are complete; the others hold what is new."""

    fresh: bool
    """Whether to forget everything accumulated before."""
    attempts: tuple[Attempt, ...] = ()
    functions: tuple[RewardFunctionInfo, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    starts: Mapping[str, SeriesStart] = field(default_factory=dict)
    points: Mapping[str, tuple[Point, ...]] = field(default_factory=dict)
    groups: tuple[StoredGroup, ...] = ()
    """New groups, in order of recording."""
    steps: StepLook | None = None
    """Figures of the groups by step; None when no group is new."""
    commands: tuple[tuple[Command, Outcome | None], ...] = ()
    settings: tuple[SettingChanged, ...] = ()
    checkpoints: tuple[CheckpointSaved, ...] = ()
    phase_shares: Mapping[str, float] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)
    before_after: BeforeAfter | None = None
    more: bool = False


class DeltaReader:
    """Follows one run through a reader. Use it from one thread."""

    def __init__(self, reader: RunReader) -> None:
        self._reader = reader
        self._attempt: int | None = None
        self._begin()

    def _begin(self) -> None:
        self._row: int | None = None
        self._covered: dict[str, int] = {}
        self._waiting: list[str] = []
        self._newest_group: int | None = None
        self._steps = StepLooks(self._reader)
        self._evaluated: Evaluations | None = None
        self._before_after: BeforeAfter | None = None
        self._fresh = True

    def read(self) -> RunDelta:
        """Return what is new since the last call."""
        reader = self._reader
        attempts = tuple(reader.attempts())
        newest = attempts[-1].attempt if attempts else None
        if newest != self._attempt:
            self._begin()
            self._attempt = newest
        fresh, self._fresh = self._fresh, False
        groups = self._groups()
        points, whole = self._points()
        facts = {key: value for key in FACTS if (value := reader.fact(key)) is not None}
        return RunDelta(
            fresh=fresh,
            attempts=attempts,
            functions=tuple(reader.reward_functions()),
            facts=facts,
            starts=self._starts(fresh),
            points=points,
            groups=groups,
            steps=self._steps.look(groups, fresh=fresh),
            commands=tuple(reader.commands(50)),
            settings=tuple(reader.settings()),
            checkpoints=tuple(reader.checkpoints()),
            phase_shares=reader.phase_shares(),
            dropped=reader.dropped(),
            before_after=self._answers(Evaluations.from_json(facts.get(FACT))),
            more=bool(self._waiting) or not whole or len(groups) >= NEW_PAGE,
        )

    def _answers(self, found: Evaluations | None) -> BeforeAfter | None:
        if found != self._evaluated:
            self._evaluated, self._before_after = found, read_before_after(self._reader, found)
        return self._before_after

    def _points(self) -> tuple[dict[str, tuple[Point, ...]], bool]:
        if self._row is None:
            self._row = last_metric_row_id(self._reader)
            keys = metric_keys(self._reader)
            if "num_tokens" in keys:
                keys.append(TOKENS_PER_SECOND)
            self._waiting = sorted(keys, key=lambda key: not _comes_first(key))
            return {}, True
        before = self._row
        self._row, found = new_points(self._reader, before)
        for key in found:
            if key not in self._covered and key not in self._waiting:
                self._covered[key] = 0
        points = {
            key: tuple(p for p in values if p.row > self._covered[key])
            for key, values in found.items()
            if key in self._covered
        }
        whole = not found or self._row == last_metric_row_id(self._reader)
        return points, whole

    def _starts(self, fresh: bool) -> dict[str, SeriesStart]:
        page = sum(map(_comes_first, self._waiting)) if fresh else KEYS_PAGE
        now, self._waiting = self._waiting[:page], self._waiting[page:]
        found = {key: series_start(self._reader, key) for key in now}
        self._covered |= {key: start.row for key, start in found.items()}
        return found

    def _groups(self) -> tuple[StoredGroup, ...]:
        if self._newest_group is None:
            found = self._reader.groups(newest_first=True, limit=NEWEST_GROUPS)[::-1]
        else:
            found = self._reader.groups(after_id=self._newest_group, limit=NEW_PAGE)
        if found:
            self._newest_group = found[-1].id
        elif self._newest_group is None:
            self._newest_group = 0
        return tuple(found)


def _comes_first(key: str) -> bool:
    return key in FIRST_KEYS or (key.startswith("rewards/") and key.endswith("/mean"))


MODEL_FILES = ("config.json", "adapter_config.json")
PHASE_ORDER = ("generate", "reward", "update", "save", "eval")
TRL_TEMPERATURE = 1.0
"""TRL's default, used when a config does not set the temperature."""


class RunState:
    """Accumulates deltas; `view` freezes the result."""

    def __init__(self, name: str, folder: str) -> None:
        self.name, self.folder = one_line(name), one_line(folder)
        self._series: dict[str, Series] = {}
        self._groups, self._steps = GroupFold(), StepFold()
        self._delta = RunDelta(fresh=True)
        self._settle()

    def fold(self, delta: RunDelta) -> None:
        """Add what is new. A fresh delta starts over: a resume may have superseded steps."""
        if delta.fresh:
            self._series, self._groups, self._steps = {}, GroupFold(), StepFold()
        for key, start in delta.starts.items():
            self._series[key] = Series.of(start)
        for key, points in delta.points.items():
            series = self._series.setdefault(key, Series())
            for point in points:
                series.append(point.step, point.value, point.at)
        self._groups.add(delta.groups)
        if (look := delta.steps) is not None:
            if look.anew:
                self._steps.begin(look.past)
            self._steps.take(look.stats, look.settled)
            self._series.update(self._steps.series())
        self._delta = delta
        self._settle()

    def _settle(self) -> None:
        """Compute once what is constant until the next delta: views are more frequent than deltas."""
        self._settings = self._settings_in_force()
        self._functions = self._function_rows()
        self._group_views = self._groups.views()
        self._charts: tuple[ChartView, ...] | None = None
        self._judged = {key: self._of_stage(self._series.get(key, Series())) for key in ("reward", FLAT)}

    def _of_stage(self, series: Series) -> Series:
        start = self._stage_start(series.last_step or 0)
        return series.since(start) if start else series

    def _stage_start(self, last: int) -> int:
        changes = lasting(self._delta.settings, self._delta.attempts)
        return stage_start([change for change in changes if change.step < last])

    def view(
        self,
        status: Status,
        now: float,
        rank: RankState | None = None,
        waiting: Iterable[tuple[Command, Outcome | None]] = (),
        *,
        trouble: str = "",
    ) -> TrainView:
        """Return the run as it is. `waiting` are commands sent from here that `run.db` may not have yet."""
        delta, reward, judged = self._delta, self._series.get("reward", Series()), self._judged["reward"]
        step = max(status.step, reward.last_step or 0) if status.live else status.step
        saved = status.state == "finished" and any(Path(self.folder, name).is_file() for name in MODEL_FILES)
        return TrainView(
            name=self.name,
            folder=self.folder,
            now=now,
            state=status.state,
            live=status.live,
            step=step,
            total_steps=status.total_steps,
            stage=one_line(stage_words(status.stage), 60) if status.stage is not None else "",
            stage_start=self._stage_start(reward.last_step or 0),
            step_time_s=self._usual("step_time"),
            tokens_per_s=self._usual(TOKENS_PER_SECOND),
            eta_s=self._eta(status, step, self._usual("step_time")),
            phase=status.phase,
            phase_since=rank.phase_since or None if rank is not None and status.live else None,
            reward_function=one_line(status.reward_func, 40) if status.reward_func else None,
            phase_shares=tuple((p, delta.phase_shares[p]) for p in PHASE_ORDER if p in delta.phase_shares),
            ranks=rank_rows(status, now),
            hardware=hardware_view(status),
            reward=reward.last,
            reward_change=judged.change(CHANGE_STEPS),
            reward_moves=trend(judged.recent) != "flat",
            spread=self._groups.spread_now(),
            flat_share=self._flat_share(),
            masked_share=self._groups.masked_share(),
            flat_top=self._last(FLAT_TOP),
            flat_bottom=self._last(FLAT_BOTTOM),
            health=self._health(status),
            charts=self._charts_of(status, reward.last_step or step),
            functions=self._functions,
            groups=self._group_views,
            events=self._events(status, waiting),
            alerts=alert_rows(status.alerts, step, now),
            findings=status.findings,
            before_after=delta.before_after,
            settings=self._settings,
            config=self._config(),
            newest_prompt=self._groups.newest_prompt,
            metric_rows=reward.rows,
            way_on=way_on(status, self.folder) if not status.live else "",
            model_at=self.folder if saved else "",
            trouble=trouble,
            whole=not delta.more,
        )

    def _health(self, status: Status) -> tuple[Span, ...]:
        beta = self._config().get("beta")
        return health_spans(
            status,
            self.folder,
            self._judged["reward"],
            kl_logged="kl" in self._series,
            beta=float(beta) if beta is not None and is_number(beta) else None,
            no_signal=self._judged[FLAT],
            evaluations=Evaluations.from_json(self._delta.facts.get(FACT)),
        )

    def _events(
        self, status: Status, waiting: Iterable[tuple[Command, Outcome | None]]
    ) -> tuple[EventRow, ...]:
        delta = self._delta
        commands = _merged(delta.commands, waiting)
        planned = scheduled_from(delta.facts.get(SCHEDULE))
        return event_rows(
            commands, delta.settings, delta.checkpoints, delta.attempts, live=status.live, schedule=planned
        )

    def _charts_of(self, status: Status, last_step: int) -> tuple[ChartView, ...]:
        end, live = axis_end(last_step, status.total_steps, live=status.live), status.live
        if self._charts and self._charts[0].end == end:
            return self._charts
        marks = [(saved.step, "checkpoint") for saved in self._delta.checkpoints if saved.complete]
        marks += [(change.step, "setting") for change in self._delta.settings]
        keys = chart_keys(self._series)
        if keys and live and "reward" not in self._series:
            keys = ["reward", *keys]  # reserve its place until step 1
        stage = self._stage_start(last_step)
        self._charts = tuple(chart_view(key, self._series, marks, end, stage) for key in keys)
        return self._charts

    def _function_rows(self) -> tuple[FunctionRow, ...]:
        functions = self._delta.functions
        weights = [float(w) for w in self._settings.get("reward_weights") or [f.weight for f in functions]]
        if len(weights) != len(functions):
            weights = [f.weight for f in functions]
        names = distinct_names(function.name for function in functions)
        shares = self._groups.shares(names, weights, normalized=self._normalized())
        means = self._groups.function_means(names)
        axis, rows = self._series["reward"].buckets if "reward" in self._series else (), []
        for index, function in enumerate(functions):
            series = self._series.get(f"rewards/{function.name}/mean")
            trend = aligned(series.buckets, axis) if series else ()
            average = means[index]
            if average is None and series is not None:
                average = series.last
            rows.append(
                FunctionRow(one_line(function.name, 60), weights[index], average, shares[index], trend)
            )
        return tuple(rows)

    def _last(self, key: str) -> float | None:
        return self._series[key].last if key in self._series else None

    def _flat_share(self) -> float | None:
        share, config = self._groups.flat_share(), self._config()
        if share is not None or config.get("scale_rewards") == "batch" or self._normalized():
            return share  # TRL's figure then refers to the whole batch
        return self._last("frac_reward_zero_std")

    def _normalized(self) -> bool:
        return self._config().get("multi_objective_aggregation") == "normalize_then_sum"

    def _settings_in_force(self) -> dict[str, Any]:
        config = self._config()
        found: dict[str, Any] = {}
        rate = self._last("learning_rate")
        if (rate if rate is not None else config.get("learning_rate")) is not None:
            found["learning_rate"] = rate if rate is not None else config.get("learning_rate")
        if config:
            found["temperature"] = config.get("temperature", TRL_TEMPERATURE)
        if self._delta.functions:
            found["reward_weights"] = [f.weight for f in self._delta.functions]
        planned = scheduled_from(self._delta.facts.get(SCHEDULE))
        for change in without_left(self._delta.settings, planned):
            if change.name == SETTING:
                found.pop(START, None)  # a restart of the schedule ends with its stage
            # A schedule changes the rate after it was set, so the logged rate is more recent.
            if change.name != REWARDS and (change.name != "learning_rate" or rate is None):
                found[change.name] = change.new
        return found

    def _config(self) -> Mapping[str, Any]:
        config = self._delta.facts.get("config")
        if not isinstance(config, Mapping):
            return {}
        grpo = config.get("grpo")
        return grpo if isinstance(grpo, Mapping) else {}

    def _usual(self, key: str) -> float | None:
        """Return the median of a metric's newest values, which a single slow step does not affect."""
        series = self._series.get(key)
        values = [r.value for r in series.recent][-20:] if series else []
        return median(values) if values else None

    def _eta(self, status: Status, step: int, step_time_s: float | None) -> float | None:
        if not status.live or not status.total_steps or step_time_s is None:
            return None
        return max(0, status.total_steps - step) * step_time_s


def _merged(
    recorded: Iterable[tuple[Command, Outcome | None]], waiting: Iterable[tuple[Command, Outcome | None]]
) -> list[tuple[Command, Outcome | None]]:
    """Merge commands by id. Outcomes received here are newer than the history."""
    found = {command.id: (command, outcome) for command, outcome in recorded}
    for command, outcome in waiting:
        if command.id not in found or outcome is not None:
            found[command.id] = (command, outcome)
    return list(found.values())
