"""Round ticks for an axis of values, steps or seconds, and how they are spelled.

Knows numbers and words; where a tick stands on screen is the plot's concern.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

from grpo_tui.present.formatting import digits_for, fixed, told_apart

_FACTORS = (1, 2, 2.5, 5, 10)
_SECONDS = (
    1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800,
    432_000, 864_000,
)  # fmt: skip
_TINY = 1e-12
_LARGEST = 4e307
"""Beyond it the distance of two values is no number any more; such values stand at the edge."""


@dataclass(frozen=True, slots=True)
class ValueAxis:
    """The range of values a plot spans, with round ticks; `logarithmic` only above zero."""

    low: float
    high: float
    ticks: tuple[float, ...]
    labels: tuple[str, ...]
    logarithmic: bool = False

    def share(self, value: float) -> float:
        """Where a value stands, 0 at the bottom and 1 at the top, clamped to the plot."""
        if self.logarithmic:
            low, high = math.log10(self.low), math.log10(self.high)
            at = (math.log10(max(value, self.low)) - low) / (high - low)
        else:
            at = (value - self.low) / (self.high - self.low)
        return min(1.0, max(0.0, at))

    def row(self, value: float, rows: int) -> int:
        """Row of a value, 0 at the top."""
        # A value just between two rows must not flicker with its last digit.
        return min(rows - 1, max(0, math.floor((1 - self.share(value)) * (rows - 1) + 0.5 - 1e-6)))


def value_axis(low: float, high: float, most: int, *, logarithmic: bool = False) -> ValueAxis:
    """An axis around `low` to `high` with at most `most` (at least two) round ticks, ends included."""
    low, high = max(low, -_LARGEST), min(high, _LARGEST)
    if logarithmic and low > 0:
        return _logarithmic(low, high, most)
    if 0 < low < 0.5 * high:
        low = 0.0
    if high - low < _TINY:
        pad = abs(high) * 0.1 or 1.0
        low, high = (0.0 if low == 0 else low - pad), high + pad
    size = 10.0 ** math.floor(math.log10((high - low) / max(1, most - 1)))
    for factor in (*_FACTORS, 20, 25, 50, 100):
        step = factor * size
        bottom, top = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
        if top - bottom + 1 <= max(2, most):
            ticks = tuple(k * step for k in range(bottom, max(top, bottom + 1) + 1))
            return ValueAxis(ticks[0], ticks[-1], ticks, _linear_labels(ticks))
    return ValueAxis(low, high, (low, high), _linear_labels((low, high)))


def _linear_labels(ticks: Sequence[float]) -> tuple[str, ...]:
    largest = max(abs(v) for v in ticks)
    if largest < 0.001 or largest >= 1e6:
        return told_apart([v if abs(v) > _TINY * largest else 0.0 for v in ticks])
    near = 1e-6 * (max(ticks) - min(ticks))
    digits = next((d for d in range(9) if all(abs(round(v, d) - v) < near for v in ticks)), 4)
    return tuple(fixed(v, digits) for v in ticks)


def _logarithmic(low: float, high: float, most: int) -> ValueAxis:
    """Whole powers of ten where they are enough, else with 2 and 5 between them."""
    first, last = math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9)
    last = max(last, first + 1)
    steps = [m * 10.0**e for e in range(first, last + 1) for m in (1, 2, 5)]
    bottom = max(v for v in steps if v <= low * (1 + 1e-9))
    top = min((v for v in steps if v >= high * (1 - 1e-9)), default=10.0**last)
    if top <= bottom:
        top = next(v for v in steps if v > bottom)
    fine = [v for v in steps if bottom * (1 - 1e-9) <= v <= top * (1 + 1e-9)]
    if len(fine) > most:
        bottom, top = 10.0**first, 10.0**last
        every = math.ceil((last - first) / max(1, most - 1))
        fine = [10.0**e for e in range(first, last + 1, every)]
    return ValueAxis(bottom, top, tuple(fine), tuple(_power(v) for v in fine), logarithmic=True)


def _power(value: float) -> str:
    if 0.001 <= value < 1e6:
        return f"{value:g}" if value < 1000 else f"{value:,.0f}"
    mantissa, _, exponent = f"{value:.0e}".partition("e")
    return f"{mantissa}e{int(exponent)}"


def step_ticks(first: float, last: float, most: int) -> list[float]:
    """Round steps inside the range, at most `most` of them."""
    span = last - first
    if span <= 0 or most < 1:
        return []
    size = 10.0 ** math.floor(math.log10(max(span / most, 1)))
    step = next(f * size for f in (1, 2, 5, 10, 20) if span / (f * size) <= most)
    return [k * step for k in range(math.ceil(first / step - 1e-9), math.floor(last / step + 1e-9) + 1)]


def time_ticks(first: float, last: float, most: int) -> list[float]:
    """Round moments, in seconds since the start, inside the range."""
    span = last - first
    if span <= 0 or most < 1:
        return []
    step = next((s for s in _SECONDS if span / s <= most), math.ceil(span / most / 864_000) * 864_000)
    return [float(k * step) for k in range(math.ceil(first / step), math.floor(last / step) + 1)]


def step_label(step: float) -> str:
    """A step on the axis."""
    return f"{step:,.0f}"


def time_label(seconds: float) -> str:
    """Time since the start, as short as it is exact: `45s`, `12m`, `1h30m`, `2d6h`."""
    whole = round(seconds)
    parts = [(whole // 86_400, "d"), (whole // 3600 % 24, "h"), (whole // 60 % 60, "m"), (whole % 60, "s")]
    known = [index for index, (count, _) in enumerate(parts) if count]
    if not known:
        return "0"
    shown = parts[known[0] : min(known[-1], known[0] + 1) + 1]
    return "".join(
        f"{count:02d}{unit}" if place and unit in "ms" else f"{count}{unit}"
        for place, (count, unit) in enumerate(shown)
    )


def clock_label(at: float, span_s: float) -> str:
    """A moment by the local clock, with its day when the axis spans most of one."""
    return time.strftime("%d %b %H:%M" if span_s >= 72_000 else "%H:%M", time.localtime(at))


def decimals(values: Sequence[float | None]) -> int:
    """Decimals that tell the values of one reading apart."""
    return min(6, digits_for(values) + 1)
