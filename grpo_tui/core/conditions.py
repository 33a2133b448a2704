"""Conditions on a running training, such as `reward >= 2 over 20 steps`, `policy.broke` or `8 hours`.

`parse` reads a condition, and `Watched` evaluates it as the run logs. They implement `grpo_tui.on`.
"""

from __future__ import annotations

import difflib
import math
import operator
import re
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from statistics import fmean
from typing import Any, Literal

from grpo_tui.core.evaluations import WITHOUT_GAIN
from grpo_tui.core.findings import RULES
from grpo_tui.core.statistics import is_number

ON = "grpo_tui.on"
"""The section, and who gave a command that a rule gave."""
COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
MOST_STEPS = 100_000
LEAST_ROWS = 10
"""Minimum of logged values in each of the two windows of a gain. The interval of fewer is meaningless."""
INTERVAL = 1.96
"""Half width of a 95 % interval, in standard errors."""
_NUMBER = r"(?P<value>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)"
_OVER = r"over\s+(?P<steps>\d+)\s+steps?"
_METRIC = re.compile(rf"(?P<name>\S+?)\s*(?P<sign><=|>=|<|>)\s*{_NUMBER}(?:\s+{_OVER})?")
_GAIN = re.compile(rf"(?P<name>\S+)\s+gains\s+(?:less\s+than|<)\s+{_NUMBER}\s+{_OVER}")
_HOURS = re.compile(rf"{_NUMBER}\s*(?P<gpu>gpu[\s_-]*)?(?:h|hours?)", re.IGNORECASE)
_WITHOUT_GAIN = re.compile(r"(?P<count>\d{1,6})\s+evaluations?\s+without\s+(?:a\s+)?gain", re.IGNORECASE)
EXAMPLES = (
    "`policy.broke`, `reward >= 2 over 20 steps`, `reward gains less than 0.02 over 200 steps`, "
    "`3 evaluations without gain` or `8 hours`"
)


class ConditionError(ValueError):
    """A text is not a condition; `meant` is the closest valid one."""

    def __init__(self, message: str, meant: str | None = None) -> None:
        super().__init__(message)
        self.meant = meant


Kind = Literal["finding", "metric", "gain", "hours", "gpu_hours"]


@dataclass(frozen=True, slots=True)
class Condition:
    """A parsed condition.

    Attributes:
        kind: What to test.
            `finding`: a finding opens whose id matches the pattern `name`, or whose severity is `name`.
            `metric`: the mean of `name` over `steps` steps compares with `value`.
            `gain`: the mean of `name` over the last `steps` steps exceeds that of the `steps` before by less
            than `value`, even at the upper end of the 95 % interval.
            `hours`, `gpu_hours`: the run has trained for `value` hours.
        name: A metric's key, a finding's id, a pattern such as `policy.*`, or a severity.
    """

    kind: Kind
    name: str = ""
    sign: str = ""
    value: float = 0.0
    steps: int = 1


def parse(text: str) -> Condition:
    """Parse a condition.

    Raises:
        ConditionError: The text is not a condition. The message says what to do and leaves out the text.
    """
    text = " ".join(text.split())
    if (found := _HOURS.fullmatch(text)) is not None:
        value = float(found["value"])
        if value <= 0:
            raise ConditionError("The hours must be more than 0")
        return Condition("gpu_hours" if found["gpu"] else "hours", value=value)
    if (found := _WITHOUT_GAIN.fullmatch(text)) is not None:
        if int(found["count"]) < 1:
            raise ConditionError("Give 1 evaluation or more")
        return Condition("metric", WITHOUT_GAIN, ">=", float(found["count"]))
    if (found := _GAIN.fullmatch(text)) is not None:
        return Condition("gain", found["name"], "<", float(found["value"]), _steps(found["steps"]))
    if (found := _METRIC.fullmatch(text)) is not None:
        steps = _steps(found["steps"]) if found["steps"] else 1
        return Condition("metric", found["name"], found["sign"], float(found["value"]), steps)
    names = (*RULES, "error", "warning")
    if any(fnmatchcase(name, text) for name in names):
        return Condition("finding", text)
    near = next(iter(difflib.get_close_matches(text.lower(), names, n=1, cutoff=0.6)), None)
    raise ConditionError(f"Did you mean {near}?" if near else f"Use {EXAMPLES}", near)


def _steps(written: str) -> int:
    if not 1 <= int(written) <= MOST_STEPS:
        raise ConditionError(f"A window must have 1 to {MOST_STEPS} steps")
    return int(written)


class Watched:
    """A condition, evaluated over one attempt of a run.

    It triggers once, except that a `finding` condition triggers whenever a matching finding opens.
    """

    def __init__(self, condition: Condition, open_before: Collection[str] = ()) -> None:
        self.condition = condition
        self._rows: deque[tuple[int, float]] = deque()
        self._first_step: int | None = None
        self._open = set(open_before)
        self._held = False

    def logged(self, step: int, values: Mapping[str, Any]) -> str:
        """Add a logged row. Return why the condition triggers now, or an empty string."""
        about = self.condition
        if about.kind not in ("metric", "gain") or self._held:
            return ""
        if self._first_step is None:
            self._first_step = step
        value = values.get(about.name)
        if value is None or not is_number(value) or not math.isfinite(value):
            return ""
        windows = 2 if about.kind == "gain" else 1
        self._rows.append((step, float(value)))
        while self._rows[0][0] <= step - windows * about.steps:
            self._rows.popleft()
        if step - self._first_step + 1 < windows * about.steps:
            return ""
        said = self._gain(step) if about.kind == "gain" else self._mean()
        self._held = bool(said)
        return said

    def _mean(self) -> str:
        about = self.condition
        mean = fmean(value for _, value in self._rows)
        if not COMPARISONS[about.sign](mean, about.value):
            return ""
        over = f" over {about.steps} steps" if about.steps > 1 else ""
        return f"{about.name} is {mean:.3g}{over}"

    def _gain(self, step: int) -> str:
        about = self.condition
        before = [value for at, value in self._rows if at <= step - about.steps]
        after = [value for at, value in self._rows if at > step - about.steps]
        if min(len(before), len(after)) < LEAST_ROWS:
            return ""
        gain = fmean(after) - fmean(before)
        most = gain + INTERVAL * math.sqrt(_squared_error(before) + _squared_error(after))
        if most >= about.value:
            return ""
        return f"{about.name} gained {gain:.2g} over {about.steps} steps, at most {most:.2g}"

    def opened(self, findings: Mapping[str, str]) -> str:
        """Update the open findings, id to severity. Return the one that triggers the condition, or empty."""
        new = sorted(set(findings) - self._open)
        self._open = set(findings)
        name = self.condition.name
        if self.condition.kind != "finding":
            return ""
        return next((found for found in new if fnmatchcase(found, name) or findings[found] == name), "")

    def trained(self, hours: float, gpus: int) -> str:
        """Update the hours trained. Return why the condition triggers now, or an empty string."""
        about = self.condition
        if about.kind not in ("hours", "gpu_hours") or self._held:
            return ""
        used = hours * gpus if about.kind == "gpu_hours" else hours
        self._held = used >= about.value
        unit = "GPU hours" if about.kind == "gpu_hours" else "hours"
        return f"the run has used {used:.3g} {unit}" if self._held else ""


def _squared_error(values: list[float]) -> float:
    """Return the squared standard error of the mean."""
    mean = fmean(values)  # `statistics.variance` computes in fractions, which takes 27 times as long
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1) / len(values)
