"""What the rules know of a run up to a step: trends of its metrics, recent groups, reward functions."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple, TypeVar

from grpo_tui.core.findings import Remedy, Severity
from grpo_tui.core.records import TOOLS
from grpo_tui.core.statistics import SAME, column_covariances, mean, shares_of
from grpo_tui.health.course import EARLY, LEVEL, RECENT, Course
from grpo_tui.health.facts import GroupFacts, Observation, Repeats, Settings, Visits, repeats_of

Limits = Mapping[str, float]
T = TypeVar("T")
MOST_PROMPTS = 16_384
"""Prompts that are counted while a run trains."""
ZERO_STD, CLIPPED, CAPPED = "frac_reward_zero_std", "clip_ratio/region_mean", "cispo_clip_ratio"
FAILED, EACH = "share", "each"
"""Computed of each tool in the steps that call it: the fraction of failed calls, seconds of another one."""
NO_SIGNAL = "no signal"
"""Key of the course that tracks the fraction of a step's groups without a signal."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a rule found at a step.

    Attributes:
        message: One or two sentences with the numbers.
        query: Finds the affected completions, without a range of steps; empty for none.
        remedies: Settings that help. The rule's own text comes first.
        severity: Overrides the rule's severity.
        since: The step it began at, when the rule knows it.
        changed: The metric that changed, used to locate the first step when `since` is None.
        before: Level of that metric before the change; its start when None.
    """

    message: str
    evidence: Mapping[str, object]
    query: str = ""
    remedies: tuple[Remedy, ...] = ()
    severity: Severity | None = None
    since: int | None = None
    changed: Course | None = None
    before: float | None = None


def number(value: float) -> str:
    """Format a number with three significant digits."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def percent(share: float) -> str:
    """Format a fraction as a percentage."""
    return f"{100 * share:.3g} %"


@dataclass(slots=True)
class FunctionState:
    """One reward function over the run."""

    course: Course = field(default_factory=Course)
    """The mean of its values."""
    low: float = math.inf
    high: float = -math.inf
    values: int = 0
    abstained: Course = field(default_factory=Course)
    """The fraction of completions for which it returned None."""
    varied: deque[int] = field(default_factory=lambda: deque(maxlen=RECENT))
    """For each recent observation, the number of groups in which its values differ."""
    ever_varied: bool = False

    @property
    def span(self) -> float:
        """Highest minus lowest value it gave; 0 without any."""
        return max(0.0, self.high - self.low)

    def rose(self, share: float, steps: float) -> bool:
        """Return whether the mean rose by that share of its range, and by two standard errors."""
        gain = self.course.level(steps) - self.course.start
        return gain > max(share * self.span, 2 * self.course.error(steps))

    def moved(self, steps: float) -> int:
        """Return the number of groups in the newest observations in which its values differ."""
        return sum(_newest(self.varied, steps))


@dataclass(slots=True)
class _Scores:
    """What is computed on demand from the scores of some groups.

    Attributes:
        again: Completions that repeat a text of their group.
    """

    groups: Sequence[GroupFacts]
    again: int
    _covariances: list[float] | None = None
    _repeats: dict[int, Repeats] = field(default_factory=dict)

    def covariances(self, settings: Settings) -> list[float]:
        """Return the sums of `core.statistics.column_covariances`."""
        if self._covariances is None:
            each = [
                column_covariances(group.columns, settings.weights, normalized=settings.normalized)
                for group in self.groups
            ]
            self._covariances = [sum(sums) for sums in zip(*each, strict=True)]
        return self._covariances

    def repeats(self, function: int) -> Repeats:
        """Return how the scores of equal texts differ."""
        if function not in self._repeats:
            self._repeats[function] = repeats_of(self.groups, function)
        return self._repeats[function]


class Texts(NamedTuple):
    """Counts over some groups: those checked for repetition, and the state of their completions."""

    groups: int = 0
    known: int = 0
    size: int = 0
    truncated: int = 0
    answered: int = 0


class _Seen(NamedTuple):
    """What is kept of a recent observation. A failed call is counted by its function."""

    first_step: int
    causes: Counter[str]
    failed: Mapping[int, int]
    ranks: Mapping[int, float]
    texts: Texts
    scores: _Scores
    lengths: tuple[float, float, float]


class RunState:
    """Everything the rules look at. Memory is bounded, except for `prompts` that are given.

    Attributes:
        used: Name, weight and state of each function with a weight.
        courses: Metrics by TRL's key, `phase/NAME` for the seconds of a phase, and `NO_SIGNAL`.
        low, high: Lowest and highest total of the run.
        prompts: Totals by prompt key.
        at_best: Means of the metrics where the mean of the reward is highest.
        texts_differed: Number of groups with different texts and no signal.
    """

    def __init__(self, settings: Settings, prompts: Mapping[str, Visits] | None = None) -> None:
        self.settings = settings
        self.courses: dict[str, Course] = {}
        self.functions = [FunctionState() for _ in settings.weights]
        named = zip(settings.names, settings.weights, self.functions, strict=True)
        self.used = [(name, weight, function) for name, weight, function in named if weight]
        self.observations = 0
        self.first_step: int | None = None
        self.step = 0
        self.low, self.high = math.inf, -math.inf
        self.prompts: dict[str, Visits] = dict(prompts or {})
        self.evaluations: list[tuple[int, float, float]] = []
        self.at_best: Mapping[str, float] = {}
        self.texts_differed = 0
        self.groups = 0
        self.had_signal = False
        self._counts_prompts = prompts is None
        self._seen: deque[_Seen] = deque(maxlen=RECENT)
        self._half: tuple[int, float] | None = None
        """Observations and reward when entropy first was below half its start."""
        self._counted: dict[int, Counter[str]] = {}
        """Sums of causes over the newest observations, by their number."""

    def course(self, key: str) -> Course:
        """Return the course of a metric, empty when it was never logged."""
        return self.courses.get(key) or _EMPTY

    def _track(self, key: str) -> Course:
        found = self.courses.get(key)
        if found is None:
            found = self.courses[key] = Course()
        return found

    def texts(self, steps: float) -> Texts:
        """Return the counts over the newest observations."""
        newest = (one.texts for one in _newest(self._seen, steps))
        return Texts(*map(sum, zip(*newest, strict=True)))

    def contributions(self, steps: float) -> list[float | None]:
        """Return each function's contribution to the variance within groups of the newest observations."""
        found = (one.scores.covariances(self.settings) for one in _newest(self._seen, steps))
        return shares_of([sums for sums in found if sums], len(self.functions))

    def again(self, steps: float) -> int:
        """Return how many completions of the newest observations repeat a text of their group."""
        return sum([one.scores.again for one in _newest(self._seen, steps)])

    def repeated(self, function: int, steps: float) -> Repeats:
        """Return how a function's scores of equal texts differ over the newest observations."""
        found = (one.scores.repeats(function) for one in _newest(self._seen, steps))
        return Repeats(*map(sum, zip(*found, strict=True)))

    def by_length(self, steps: float) -> tuple[float, float]:
        """Return reward per token and the correlation of both within groups of the newest observations.

        Both are NaN when lengths or rewards do not differ.
        """
        lengths, rewards, both = _sums(one.lengths for one in _newest(self._seen, steps))
        if lengths <= 0 or rewards <= 0:
            return math.nan, math.nan
        return both / lengths, both / math.sqrt(lengths * rewards)

    def causes(self, steps: float) -> Counter[str]:
        """Count groups of the newest observations by cause, `some` for those with a signal."""
        width = min(int(steps), RECENT)
        if width not in self._counted:
            causes = (one.causes for one in _newest(self._seen, width))
            self._counted[width] = sum(causes, Counter[str]())
        return self._counted[width]

    def failed(self, steps: float) -> Counter[int]:
        """Count failed reward calls of the newest observations by function."""
        found: Counter[int] = Counter()
        for one in _newest(self._seen, steps):
            if one.failed:
                found.update(one.failed)
        return found

    def ranks(self, steps: float) -> list[Mapping[int, float]]:
        """Return the seconds that each rank generated, of the newest observations with several ranks."""
        return [one.ranks for one in _newest(self._seen, steps) if len(one.ranks) > 1]

    def window_start(self, steps: float) -> int:
        """Return the first step of the newest observations."""
        return self.first(lambda seen: True, steps) or self.step

    def began(self, found: Found, steps: float) -> int:
        """Return the step a finding began at: where its metric changed, or the start of its window."""
        if found.changed is None:
            return found.since or self.window_start(steps)
        since = self.turned(found) or found.changed.window(steps)
        return since or self.first_step or self.step

    def turned(self, found: Found) -> int | None:
        """Return the step a finding began at when its rule or metric shows it; otherwise None."""
        return found.since if found.changed is None else found.changed.turned(found.before)

    def first(self, holds: Callable[[_Seen], object], steps: float) -> int | None:
        """Return the first step of the newest observations for which a test holds."""
        return next((one.first_step for one in _newest(self._seen, steps) if holds(one)), None)

    def signal_share(self, steps: float) -> float:
        """Return the fraction of groups with a signal; NaN without groups."""
        causes = self.causes(steps)
        return causes["some"] / causes.total() if causes.total() else math.nan

    def gained(self, share: float, steps: float = 10) -> bool:
        """Return whether the reward rose by `share` of `reward_std`, and by two standard errors."""
        reward = self.course("reward")
        gain = reward.level(steps) - reward.start
        return gain > share * self.spread and gain > 2 * (reward.error(steps) + reward.error(EARLY))

    def stood_still(self, least: float, steps: float = 10) -> bool:
        """Return whether the reward has not risen by two standard errors since entropy was at half."""
        if self._half is None or self.observations - self._half[0] < least:
            return False
        reward = self.course("reward")
        return reward.level(steps) - self._half[1] <= 2 * 2**0.5 * reward.error(steps)

    @property
    def spread(self) -> float:
        """`reward_std` at the start, the scale for changes of the reward; 0 when not logged."""
        return max(self.course("reward_std").start, 0.0) if self.course("reward_std").count else 0.0

    def see(self, step: Observation) -> None:
        """Take the next step."""
        self.observations += 1
        self.groups += len(step.groups)
        self.first_step = step.first_step if self.first_step is None else self.first_step
        self.step = step.step
        causes = Counter(self._cause(group) for group in step.groups)
        for width, counted in self._counted.items():
            counted.update(causes)
            if len(self._seen) >= width:
                counted.subtract(self._seen[-width].causes)
        again = sum([len(one) - 1 for group in step.groups for one in group.same])
        scores = _Scores(step.groups, again)
        texts, lengths = _texts_of(step.groups), _sums(group.lengths for group in step.groups)
        self._seen.append(_Seen(step.first_step, causes, step.failed, step.ranks, texts, scores, lengths))
        if causes:
            lost = 1 - causes["some"] / causes.total()
            self._track(NO_SIGNAL).add(step.step, lost)
        self.had_signal = self.had_signal or causes["some"] > 0
        for key, value in self._values(step).items():
            self._track(key).add(step.step, value, missing=key in step.missing)
        entropy = self.course("entropy")
        if self._half is None and entropy.level(LEVEL) < entropy.start / 2:
            self._half = self.observations, self.course("reward").level(LEVEL)
        for phase, seconds in step.seconds.items():
            self._track(f"phase/{phase}").add(step.step, seconds)
        if self.course("reward").best_step == step.step:
            self.at_best = {key: one.level(LEVEL) for key, one in self.courses.items()}
        held = step.values.get("eval_reward", math.nan)
        if math.isfinite(held) and self.course("reward").count:  # it is compared with the training reward
            self.evaluations.append((step.step, held, self.course("reward").level(10)))
        for index, function in enumerate(self.functions):
            _see_function(function, step, index, self._seen[-1].texts.size)

    def _values(self, step: Observation) -> dict[str, float]:
        """Return the metrics, computing from the groups those that were not logged."""
        values = dict(step.values)
        if (repeated := mean(group.repeated for group in step.groups)) is not None:
            values["repeated"] = repeated
        if self.settings.from_groups and step.groups:
            totals = mean(group.mean for group in step.groups)
            size = sum(group.size for group in step.groups)
            if totals is not None:
                values["reward"] = totals
            if self.settings.has_tokens and size:
                values["completions/clipped_ratio"] = sum(group.truncated for group in step.groups) / size
                values["completions/mean_length"] = sum(g.tokens for g in step.groups) / len(step.groups)
        for tool in [
            key[: -len("calls")] for key in step.values if key.startswith(TOOLS) and key.endswith("/calls")
        ]:
            calls, failed = values[f"{tool}calls"], values.get(f"{tool}failed", math.nan)
            if calls > 0:
                values[tool + FAILED] = failed / calls
            if calls > failed:
                values[tool + EACH] = values.get(f"{tool}seconds", math.nan) / (calls - failed)
        return values

    def _cause(self, group: GroupFacts) -> str:
        """Return why a group has no signal, or `some`. The extremes are those of the run so far."""
        if group.low is not None and group.high is not None:
            self.low, self.high = min(self.low, group.low), max(self.high, group.high)
            if self._counts_prompts and (group.prompt in self.prompts or len(self.prompts) < MOST_PROMPTS):
                seen = self.prompts.get(group.prompt, Visits(0, math.inf, -math.inf, 0))
                low, high = min(seen.low, group.low), max(seen.high, group.high)
                self.prompts[group.prompt] = Visits(seen.count + 1, low, high, seen.group)
        if group.cause not in ("equal", "identical") or group.low is None or group.high is None:
            return group.cause
        self.texts_differed += group.different
        if group.cause == "identical" and (self.high - self.low < SAME or group.low < self.high - SAME):
            return "identical"
        if self.high - self.low < SAME:
            return "equal"
        if group.low > self.high - SAME:
            return "all-correct"
        return "all-wrong" if group.high < self.low + SAME else "equal"


_EMPTY = Course()


def _newest(kept: deque[T], steps: float) -> Iterable[T]:
    return islice(kept, max(0, len(kept) - int(steps)), None)


def _sums(each: Iterable[tuple[float, float, float]]) -> tuple[float, float, float]:
    lengths, rewards, both = map(sum, zip((0.0, 0.0, 0.0), *each, strict=True))
    return lengths, rewards, both


def _texts_of(groups: Sequence[GroupFacts]) -> Texts:
    return Texts(
        len(groups),
        sum([group.repeated is not None for group in groups]),
        sum([group.size for group in groups]),
        sum([group.truncated for group in groups]),
        sum([group.answered for group in groups]),
    )


def _see_function(function: FunctionState, step: Observation, index: int, size: int) -> None:
    facts = [group.functions[index] for group in step.groups]
    varied = sum([one.varies for one in facts])
    function.varied.append(varied)
    if not size:
        return
    none = sum([one.none for one in facts])
    function.abstained.add(step.step, none / size)
    function.values += size - none
    function.low = min(function.low, *[one.low for one in facts])
    function.high = max(function.high, *[one.high for one in facts])
    function.ever_varied = function.ever_varied or varied > 0
    middle = mean([one.mean for one in facts])
    if middle is not None:
        function.course.add(step.step, middle)
