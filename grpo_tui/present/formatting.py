"""Format numbers, durations and times."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from grpo_tui.core import probe_changes
from grpo_tui.core.text import ending, one_line

MISSING = "–"
"""Shown where a value is unknown."""

LARGE = 1e7

_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86_400.0

DOING = {
    "load": "loading the model",
    "generate": "generating",
    "reward": "scoring",
    "update": "updating the policy",
    "save": "saving",
    "eval": "evaluating",
    "wait": "waiting",
}


def fixed(value: float | None, digits: int = 2) -> str:
    """Format a number with fixed decimals; a dash for None. `-0.00` becomes `0.00`.

    From ten million on an exponent is used: a truncated `1,000,000,000` would look like another number.
    """
    if value is None:
        return MISSING
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if abs(value) >= LARGE:
        return _exponent(value)
    text = f"{value:,.{digits}f}"
    return text.lstrip("-") if not text.strip("-0.,") else text


def within(value: float | None, cells: int, digits: int = 2) -> str:
    """Format a number to fit into cells: first with fewer decimals, then an exponent, never truncated.

    Four cells fit any float32 value that is not negative; negative ones need five.
    """
    texts = [fixed(value, n) for n in range(digits, -1, -1)]
    if value is not None and math.isfinite(value):
        texts += [_exponent(value), _exponent(value, 0)]
    return next((text for text in texts if len(text) <= cells), texts[-1])


def digits_for(values: Iterable[float | None]) -> int:
    """Return the decimals for a column of values, at most 4: 1,234 · 40.5 · 1.84 · 0.061."""
    known = [abs(v) for v in values if v is not None and math.isfinite(v) and v != 0]
    largest = max(known, default=1.0)
    if largest >= 1000:
        return 0
    if largest >= 10:
        return 1
    return 2 if largest >= 0.1 else 3 if largest >= 0.01 else 4


def digits_apart(values: Iterable[float | None]) -> int:
    """Return the decimals that show how values of a column differ, at most 4: 0.051 and 0.054."""
    known = [v for v in values if v is not None and math.isfinite(v)]
    digits = digits_for(known)
    span = max(known) - min(known) if known else 0.0
    return max(digits, min(4, math.ceil(-math.log10(span / 10)))) if span > 0 else digits


def compact(value: float | None) -> str:
    """Format a single number with three significant digits, very small and large ones with an exponent."""
    if value is None or not math.isfinite(value):
        return fixed(value)
    size = abs(value)
    if size != 0 and size < 0.001:
        return _exponent(value)
    return fixed(value, digits_for([value]))


def figure(value: float | None) -> str:
    """Format a number with two decimals, or as many as a small one needs for three digits."""
    return fixed(value, max(2, digits_for([value])))


def told_apart(values: Sequence[float]) -> tuple[str, ...]:
    """Format very small or large values as exponents, with enough decimals to differ; 0 is `0`."""
    texts: tuple[str, ...] = ()
    for decimals in range(1, 7):
        texts = tuple(_exponent(v, decimals) if v else "0" for v in values)
        if len(set(texts)) == len(set(values)):
            break
    return texts


def _exponent(value: float, decimals: int = 1) -> str:
    return f"{value:.{decimals}e}".replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")


def setting(value: object) -> str:
    """Format a setting's value, short and exact enough to be set again."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        if isinstance(value, list | tuple):
            return " ".join(setting(v) for v in value)
        if isinstance(value, Mapping):
            return ", ".join(f"{key} {setting(v)}" for key, v in value.items())
        return str(value)
    if value == 0 or 0.001 <= abs(value) < 1e6:
        return f"{value:g}"
    mantissa, _, exponent = f"{value:.2e}".partition("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"


def changed(name: str, old: object, new: object) -> str:
    """Format a changed setting: its old and new value, or which probe prompts were added and removed."""
    if name == probe_changes.NAME and probe_changes.is_value(old) and probe_changes.is_value(new):
        return f"{name} {', '.join(probe_changes.difference(old, new)) or 'unchanged'}"
    return f"{name} is already {setting(new)}" if old == new else f"{name} {setting(old)} → {setting(new)}"


def percent(share: float | None) -> str:
    """Format a fraction as whole percent; `–` when unknown."""
    return MISSING if share is None or not math.isfinite(share) else f"{fixed(share * 100, 0)} %"


def duration(seconds: float | None) -> str:
    """Format a duration: `0.3 s`, `42 s`, `2m10s`, `3h05m`, `2d4h`."""
    if seconds is None or not math.isfinite(seconds):
        return MISSING
    seconds = max(0.0, seconds)
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    if seconds < _HOUR:
        whole = round(seconds)
        return f"{whole // 60}m{whole % 60:02d}s"
    if seconds < _DAY:
        return f"{int(seconds // _HOUR)}h{int(seconds % _HOUR // _MINUTE):02d}m"
    return f"{int(seconds // _DAY)}d{int(seconds % _DAY // _HOUR)}h"


def step_time(seconds: float | None) -> str:
    """Format seconds per step, precisely enough to show a change of a few percent."""
    if seconds is None:
        return MISSING
    return f"{seconds:.2f} s/step" if seconds < 9.995 else f"{duration(seconds)}/step"


def moment(at: float | None, now: float) -> str:
    """Format a point in time: relative while recent, otherwise by the local clock."""
    if not at:
        return MISSING
    age_s = max(0.0, now - at)
    if age_s < 2:
        return "now"
    if age_s < _MINUTE:
        return f"{age_s:.0f} s ago"
    if age_s < _HOUR:
        return f"{age_s // _MINUTE:.0f} min ago"
    then, today = time.localtime(at), time.localtime(now)
    if (then.tm_year, then.tm_yday) == (today.tm_year, today.tm_yday):
        return time.strftime("%H:%M", then)
    if then.tm_year == today.tm_year:
        return time.strftime("%d %b %H:%M", then)
    return time.strftime("%Y-%m-%d", then)


def clock(at: float) -> str:
    """Format the local time of day, to the second."""
    return time.strftime("%H:%M:%S", time.localtime(at))


def step_label(step: float) -> str:
    """Format a step on the axis."""
    return f"{step:,.0f}"


def time_label(seconds: float) -> str:
    """Format time since the start, exact but short: `45s`, `12m`, `1h30m`, `2d6h`."""
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
    """Format a local clock time, with the day when the axis spans most of one."""
    return time.strftime("%d %b %H:%M" if span_s >= 72_000 else "%H:%M", time.localtime(at))


def decimals(values: Sequence[float | None]) -> int:
    """Return the decimals that distinguish the values of a reading."""
    return min(6, digits_for(values) + 1)


def date(at: float) -> str:
    """Format the local day, with the month's name."""
    return time.strftime("%d %b", time.localtime(at))


def size(count: float) -> str:
    """Format a byte count: `512 B`, `3.2 MB`, `1.6 GB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


IN_SCRIPT = "trainer.train(resume_from_checkpoint=True)"
"""How a script continues from the newest checkpoint in its output folder."""


def from_here(path: Path) -> str:
    """Return a path relative to the current folder if it is inside."""
    try:
        return str(path.relative_to(Path.cwd()))
    except (ValueError, OSError):
        return str(path)


def path_text(path: Path, width: int) -> str:
    """Return a path as `from_here` does, in at most `width` cells. The end, which names the file, is kept."""
    return ending(one_line(from_here(path)), width)


def plural(count: int, noun: str) -> str:
    """Return `1 step`, `2 steps`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def stage_words(stage: Mapping[str, Any]) -> str:
    """Return the stage of a status as text: `stage 1 of 2: format`."""
    return f"stage {stage['number']} of {stage['count']}: {stage['name']}"
