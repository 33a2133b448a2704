"""The state of one run, folded from what is new in it, and the frozen view of it.

Knows the store's records and what they mean for a person who watches; knows no widget and reads no file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any

from grpo_tui.core.commands import Command, Outcome
from grpo_tui.core.statistics import is_number
from grpo_tui.core.text import one_line
from grpo_tui.present.before_after import read_before_after
from grpo_tui.present.charts import CHANGE_STEPS, axis_end, chart_keys, chart_view
from grpo_tui.present.delta import RunDelta
from grpo_tui.present.events import alert_rows, event_rows
from grpo_tui.present.group_fold import GroupFold
from grpo_tui.present.hardware_view import hardware_view
from grpo_tui.present.health_line import health_spans, trend, way_on
from grpo_tui.present.rank_rows import rank_rows
from grpo_tui.present.series import Series
from grpo_tui.present.step_fold import FLAT_BOTTOM, FLAT_TOP, StepFold
from grpo_tui.present.step_looks import StepLook
from grpo_tui.present.train_view import (
    BeforeAfter,
    ChartView,
    EventRow,
    FunctionRow,
    Mark,
    Span,
    TrainView,
)
from grpo_tui.store.live import RankState
from grpo_tui.store.series import TOKENS_PER_SECOND
from grpo_tui.store.status import Status

PHASE_ORDER = ("generate", "reward", "update", "save", "eval")
TRL_TEMPERATURE = 1.0
"""TRL's default, in force when a config does not name the temperature."""


class RunState:
    """Folds deltas; `view` freezes what they add up to."""

    def __init__(self, name: str, folder: str) -> None:
        self.name, self.folder = one_line(name), one_line(folder)
        self._series: dict[str, Series] = {}
        self._groups, self._steps = GroupFold(), StepFold()
        self._delta = RunDelta(fresh=True)
        self._settle()

    def fold(self, delta: RunDelta) -> None:
        """Take in what is new. A fresh delta starts over: a resume may have superseded steps."""
        if delta.fresh:
            self._series, self._groups, self._steps = {}, GroupFold(), StepFold()
        for key, start in delta.starts.items():
            series = self._series[key] = Series()
            series.begin(start.opening, start.past)
            for point in start.points:
                series.append(point.step, point.value, point.at)
        for key, points in delta.points.items():
            series = self._series.setdefault(key, Series())
            for point in points:
                series.append(point.step, point.value, point.at)
        self._groups.add(delta.groups)
        if delta.steps is not None:
            self._take_steps(delta.steps)
        self._delta = delta
        self._settle()

    def _take_steps(self, look: StepLook) -> None:
        if look.anew:
            self._steps.begin(look.past)
        self._steps.take(look.stats, look.settled)
        self._series.update(self._steps.series())

    def _settle(self) -> None:
        """Work out once what stays the same until the next delta; views come more often than deltas."""
        self._settings = self._settings_in_force()
        self._functions = self._function_rows()
        self._group_views = self._groups.views()
        self._charts: tuple[ChartView, ...] | None = None

    def view(
        self,
        status: Status,
        now: float,
        rank: RankState | None = None,
        waiting: Iterable[tuple[Command, Outcome | None]] = (),
        *,
        trouble: str = "",
    ) -> TrainView:
        """Freeze the run as it is now.

        Args:
            status: The store's look at the run.
            now: Wall clock, in seconds since the epoch.
            rank: What rank 0 says of itself, None when it says nothing.
            waiting: Commands sent from here that `run.db` may not hold yet, with their outcome.
            trouble: Why the run cannot be read at the moment.
        """
        delta, reward = self._delta, self._series.get("reward", Series())
        step_time_s = self._usual("step_time")
        step = max(status.step, reward.last_step or 0) if status.live else status.step
        return TrainView(
            name=self.name,
            folder=self.folder,
            now=now,
            state=status.state,
            live=status.live,
            step=step,
            total_steps=status.total_steps,
            step_time_s=step_time_s,
            tokens_per_s=self._usual(TOKENS_PER_SECOND),
            eta_s=self._eta(status, step, step_time_s),
            phase=status.phase,
            phase_since=rank.phase_since or None if rank is not None and status.live else None,
            reward_function=one_line(status.reward_func, 40) if status.reward_func else None,
            phase_shares=tuple((p, delta.phase_shares[p]) for p in PHASE_ORDER if p in delta.phase_shares),
            ranks=rank_rows(status, now),
            hardware=hardware_view(status),
            reward=reward.last,
            reward_change=reward.change(CHANGE_STEPS),
            reward_moves=trend(reward.recent) != "flat",
            spread=self._groups.spread_now(),
            flat_share=self._flat_share(),
            masked_share=self._groups.masked_share(),
            flat_top=self._last(FLAT_TOP),
            flat_bottom=self._last(FLAT_BOTTOM),
            health=self._health(status, reward),
            charts=self._charts_to(axis_end(reward.last_step or step, status.total_steps, live=status.live)),
            functions=self._functions,
            groups=self._group_views,
            events=self._events(status, waiting),
            alerts=alert_rows(status.alerts, step, now),
            before_after=self._before_after(status),
            settings=self._settings,
            newest_prompt=self._groups.newest_prompt,
            metric_rows=reward.rows,
            way_on=way_on(status, self.folder) if not status.live else "",
            trouble=trouble,
            whole=not delta.more,
        )

    def _health(self, status: Status, reward: Series) -> tuple[Span, ...]:
        kl_logged, beta = "kl" in self._series, _number(self._config().get("beta"))
        return health_spans(status, self.folder, reward, kl_logged=kl_logged, beta=beta)

    def _events(
        self, status: Status, waiting: Iterable[tuple[Command, Outcome | None]]
    ) -> tuple[EventRow, ...]:
        delta = self._delta
        commands = _merged(delta.commands, waiting)
        return event_rows(commands, delta.settings, delta.checkpoints, delta.attempts, live=status.live)

    def _charts_to(self, end: int) -> tuple[ChartView, ...]:
        if self._charts and self._charts[0].end == end:
            return self._charts
        marks = [Mark(saved.step, "checkpoint") for saved in self._delta.checkpoints if saved.complete]
        marks += [Mark(change.step, "setting") for change in self._delta.settings]
        keys = chart_keys(self._series)
        self._charts = tuple(chart_view(key, self._series, marks, end) for key in keys)
        return self._charts

    def _function_rows(self) -> tuple[FunctionRow, ...]:
        functions = self._delta.functions
        weights = [float(w) for w in self._settings.get("reward_weights") or [f.weight for f in functions]]
        if len(weights) != len(functions):
            weights = [f.weight for f in functions]
        shares = self._groups.shares(weights, normalized=self._normalized())
        means = self._groups.function_means(len(functions))
        rows = []
        for index, function in enumerate(functions):
            series = self._series.get(f"rewards/{function.name}/mean")
            trend = tuple(b.mean for b in series.buckets) if series else ()
            average = means[index]
            if average is None and series is not None:
                average = series.last
            rows.append(
                FunctionRow(one_line(function.name, 60), weights[index], average, shares[index], trend)
            )
        return tuple(rows)

    def _before_after(self, status: Status) -> BeforeAfter | None:
        if status.live or "before_after" not in self._delta.facts:
            return None
        reward = self._series.get("reward")
        return read_before_after(self._delta.facts["before_after"], reward.gain() if reward else None)

    def _last(self, key: str) -> float | None:
        return self._series[key].last if key in self._series else None

    def _flat_share(self) -> float | None:
        share, config = self._groups.flat_share(), self._config()
        if share is not None or config.get("scale_rewards") == "batch" or self._normalized():
            return share  # TRL's figure is then one of the whole batch
        return self._last("frac_reward_zero_std")

    def _normalized(self) -> bool:
        return self._config().get("multi_objective_aggregation") == "normalize_then_sum"

    def _settings_in_force(self) -> dict[str, Any]:
        """What a person can set, with the value in force: the last change, else what the run started with."""
        config = self._config()
        found: dict[str, Any] = {}
        rate = self._last("learning_rate")
        if (rate if rate is not None else config.get("learning_rate")) is not None:
            found["learning_rate"] = rate if rate is not None else config.get("learning_rate")
        if config:
            found["temperature"] = config.get("temperature", TRL_TEMPERATURE)
        if self._delta.functions:
            found["reward_weights"] = [f.weight for f in self._delta.functions]
        for change in self._delta.settings:
            # A schedule moves the rate on after a change; the logged one is then the newer truth.
            if change.name != "learning_rate" or rate is None:
                found[change.name] = change.new
        return found

    def _config(self) -> Mapping[str, Any]:
        config = self._delta.facts.get("config")
        if not isinstance(config, Mapping):
            return {}
        grpo = config.get("grpo")
        return grpo if isinstance(grpo, Mapping) else {}

    def _usual(self, key: str) -> float | None:
        """Median of a metric's newest values: one slow step does not move it."""
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
    """Commands by id; what came back here is newer than what the history holds."""
    found = {command.id: (command, outcome) for command, outcome in recorded}
    for command, outcome in waiting:
        if command.id not in found or outcome is not None:
            found[command.id] = (command, outcome)
    return list(found.values())


def _number(value: Any) -> float | None:
    return float(value) if is_number(value) else None
