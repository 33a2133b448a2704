"""What the rules know of a run up to a step: courses of its metrics, its newest groups, its functions."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

from grpo_tui.core.findings import Remedy, Severity
from grpo_tui.core.statistics import SAME, mean, shares_of
from grpo_tui.health.course import EARLY, RECENT, Course
from grpo_tui.health.facts import GroupFacts, Observation, Settings, Visits

Limits = Mapping[str, float]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Found:
    """What a rule has to say at a step.

    Attributes:
        message: one or two sentences with the numbers.
        evidence: the numbers by name.
        query: finds the completions concerned, without its steps; empty for none.
        remedies: those that are a setting; the rule's own words come first.
        severity: when it is another than the rule's.
        since: the step it began at, when the rule knows better than the window it looks at.
    """

    message: str
    evidence: Mapping[str, object]
    query: str = ""
    remedies: tuple[Remedy, ...] = ()
    severity: Severity | None = None
    since: int | None = None


def number(value: float) -> str:
    """Return three significant digits."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def percent(share: float) -> str:
    """Return a share in percent."""
    return f"{100 * share:.3g} %"


@dataclass(slots=True)
class FunctionState:
    """One reward function over the run."""

    course: Course = field(default_factory=Course)
    """Of its mean."""
    low: float = math.inf
    high: float = -math.inf
    values: int = 0
    abstained: Course = field(default_factory=Course)
    """Of the share of completions on which it returned None."""
    varied: deque[int] = field(default_factory=lambda: deque(maxlen=RECENT))
    """Of each of the newest observations, the groups whose completions it told apart."""
    ever_varied: bool = False

    @property
    def span(self) -> float:
        """Highest less lowest value it gave; 0 without any."""
        return max(0.0, self.high - self.low)

    def moved(self, steps: float) -> int:
        """Return in how many groups of the newest observations it told the completions apart."""
        return sum(_newest(self.varied, steps))


class RunState:
    """Everything the rules look at. It takes a bounded amount of memory, but for the prompts.

    Attributes:
        settings: of the run.
        courses: by TRL's key; `phase/NAME` for the seconds of a phase.
        low, high: lowest and highest total of the run.
        prompts: by key.
        texts_differed: groups with different texts and no signal.
    """

    def __init__(self, settings: Settings, prompts: Mapping[str, Visits] | None = None) -> None:
        self.settings = settings
        self.courses: dict[str, Course] = {}
        self.functions = [FunctionState() for _ in settings.weights]
        self.observations = 0
        self.step = 0
        self.low, self.high = math.inf, -math.inf
        self.prompts: dict[str, Visits] = dict(prompts or {})
        self.evaluations: list[tuple[int, float, float]] = []
        self.texts_differed = 0
        self.had_signal = False
        self._counts_prompts = prompts is None
        self._starts: deque[int] = deque(maxlen=RECENT)
        self._groups: deque[tuple[GroupFacts, ...]] = deque(maxlen=RECENT)
        self._covariances: deque[list[float]] = deque(maxlen=RECENT)
        self._causes: deque[Counter[str]] = deque(maxlen=RECENT)
        self._failed: deque[Mapping[int, int]] = deque(maxlen=RECENT)
        self._counted: dict[float, Counter[str]] = {}

    def course(self, key: str) -> Course:
        """Return the course of a metric; an empty one when it was never logged."""
        return self.courses.get(key) or _EMPTY

    def groups(self, steps: float) -> list[GroupFacts]:
        """Return the groups of the newest observations."""
        return [group for groups in _newest(self._groups, steps) for group in groups]

    def contributions(self, steps: float) -> list[float | None]:
        """Return each function's share of the variance within the groups of the newest observations."""
        return shares_of([sums for sums in _newest(self._covariances, steps) if sums], len(self.functions))

    def causes(self, steps: float) -> Counter[str]:
        """Return how many groups of the newest observations have a signal, and why the others have none."""
        if steps not in self._counted:
            found: Counter[str] = Counter()
            for one in _newest(self._causes, steps):
                for cause, count in one.items():
                    found[cause] += count
            self._counted[steps] = found
        return self._counted[steps]

    def failed(self, steps: float) -> Counter[int]:
        """Return failed reward calls of the newest observations by function."""
        found: Counter[int] = Counter()
        for one in _newest(self._failed, steps):
            found.update(one)
        return found

    def window_start(self, steps: float) -> int:
        """Return the first step of the newest observations."""
        return next(iter(_newest(self._starts, steps)), self.step)

    def signal_share(self, steps: float) -> float:
        """Return the share of groups that have a signal; NaN without groups."""
        causes = self.causes(steps)
        return causes["some"] / causes.total() if causes else math.nan

    def gained(self, share: float, steps: float = 10) -> bool:
        """True when the reward is above its start by a share of `reward_std`, and by two standard errors."""
        reward = self.course("reward")
        gain = reward.level(steps) - reward.start
        return gain > share * self.spread and gain > 2 * (reward.error(steps) + reward.error(EARLY))

    @property
    def spread(self) -> float:
        """`reward_std` at the start, against which a change of the reward is measured."""
        return max(self.course("reward_std").start, 0.0) if self.course("reward_std").count else 0.0

    def see(self, step: Observation) -> None:
        """Take the next step."""
        self.observations += 1
        self.step = step.step
        self._starts.append(step.first_step)
        self._failed.append(step.failed)
        self._groups.append(step.groups)
        self._covariances.append(
            [sum(sums) for sums in zip(*(g.covariances for g in step.groups), strict=True)]
        )
        self._counted.clear()
        self._causes.append(Counter(self._cause(group) for group in step.groups))
        self.had_signal = self.had_signal or self._causes[-1]["some"] > 0
        for key, value in self._values(step).items():
            self.courses.setdefault(key, Course()).add(step.step, value, missing=key in step.missing)
        for phase, seconds in step.seconds.items():
            self.courses.setdefault(f"phase/{phase}", Course()).add(step.step, seconds)
        held = step.values.get("eval_reward")
        if held is not None and math.isfinite(held):
            self.evaluations.append((step.step, held, self.course("reward").level(10)))
        for index, function in enumerate(self.functions):
            _see_function(function, step, index)

    def _values(self, step: Observation) -> dict[str, float]:
        """The metrics, and from the groups those that are not logged."""
        values = dict(step.values)
        if step.groups:
            totals = mean(group.mean for group in step.groups)
            size = sum(group.size for group in step.groups)
            if self.settings.from_groups and totals is not None:
                values["reward"] = totals
            if self.settings.from_groups and self.settings.has_tokens and size:
                values["completions/clipped_ratio"] = sum(group.truncated for group in step.groups) / size
                values["completions/mean_length"] = sum(g.tokens for g in step.groups) / len(step.groups)
            repeated = mean(group.repeated for group in step.groups)
            if repeated is not None:
                values["repeated"] = repeated
        return values

    def _cause(self, group: GroupFacts) -> str:
        """Why a group has no signal, `some` when it has; the extremes are those of the run so far."""
        if group.low is not None and group.high is not None:
            self.low, self.high = min(self.low, group.low), max(self.high, group.high)
            if self._counts_prompts:
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


def _see_function(function: FunctionState, step: Observation, index: int) -> None:
    facts = [group.functions[index] for group in step.groups]
    function.varied.append(sum(one.varies for one in facts))
    size = sum(group.size for group in step.groups)
    if not size:
        return
    none = sum(one.none for one in facts)
    function.abstained.add(step.step, none / size)
    function.values += size - none
    function.low = min(function.low, *(one.low for one in facts))
    function.high = max(function.high, *(one.high for one in facts))
    function.ever_varied = function.ever_varied or function.varied[-1] > 0
    middle = mean(one.mean for one in facts)
    if middle is not None:
        function.course.add(step.step, middle)
