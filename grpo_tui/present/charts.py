"""Which metrics make a chart, in which order, and what stands in its title.

Knows which metrics a person asks for first; what they mean stands in `core.metrics`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from grpo_tui.core.metrics import EVAL, GROUPS, METRICS, describe, is_computed
from grpo_tui.core.text import one_line
from grpo_tui.present.formatting import compact, digits_for, fixed, percent
from grpo_tui.present.health_line import trend
from grpo_tui.present.series import Series
from grpo_tui.present.step_fold import FLAT, FLAT_BOTTOM, FLAT_TOP, MASKED, SPREAD, band_around
from grpo_tui.present.train_view import ChartView, Mark
from grpo_tui.store.series import TOKENS_PER_SECOND

CHANGE_STEPS = 20

FIRST = (
    "reward",
    "completions/mean_length",
    "entropy",
    "kl",
    "step_time",
    "grad_norm",
    FLAT,
    TOKENS_PER_SECOND,
    "learning_rate",
    "loss",
)
"""The charts a person looks at first, in this order; every other key follows in the catalogue's order."""

_SHARES = frozenset({FLAT, MASKED, FLAT_TOP, FLAT_BOTTOM, "frac_reward_zero_std"})
"""Shares of a handful of groups jump between 0 and 1: only their mean over a stretch says something."""
_PLACES = {metric.key: place for place, metric in enumerate(METRICS)}
_NO_CHART = frozenset({"epoch", "total_flos", "train_loss", "train_runtime"})
_NO_CHART_PREFIXES = ("train_", "eval_runtime", "eval_samples_per", "eval_steps_per")


def chart_keys(keys: Iterable[str]) -> list[str]:
    """The keys that get a chart, in the order they are leafed through."""
    known = list(keys)
    rest = [
        k for k in known if k not in FIRST and k not in _NO_CHART and not k.startswith(_NO_CHART_PREFIXES)
    ]
    return [k for k in FIRST if k in known] + sorted(rest, key=_place)


@lru_cache(maxsize=1024)
def _place(key: str) -> tuple[bool, int, int, str]:
    """Training before evaluation, then as the catalogue has it; a run's own metrics come last, by name."""
    metric = describe(key)
    plain = key.removeprefix(EVAL)
    return plain != key, GROUPS.index(metric.group), _PLACES.get(plain, len(_PLACES)), key


@lru_cache(maxsize=1024)
def _title(key: str) -> str:
    return one_line(describe(key).title, 48)


def chart_view(key: str, series: Mapping[str, Series], marks: Sequence[Mark], end: int) -> ChartView:
    """One metric as a chart; `end` is the last step of its axis."""
    own = series[key]
    change = own.change(CHANGE_STEPS)
    digits = digits_for([own.last])
    note, short = _note(key, series)
    buckets = own.buckets
    return ChartView(
        key=key,
        title=_title(key),
        value=compact(own.last),
        change=change,
        change_text="" if change is None else _change_text(change, own.last, digits),
        moves=trend(own.recent) != "flat",
        note=note,
        note_short=short,
        buckets=buckets,
        band=band_around(buckets, series[SPREAD].buckets) if key == "reward" and SPREAD in series else (),
        raw=key not in _SHARES,
        marks=tuple(marks),
        end=end,
    )


def _note(key: str, series: Mapping[str, Series]) -> tuple[str, str]:
    """What stands beside a chart's value, in full and in a word or two."""
    if key == "loss":
        return "no progress signal: near 0 is healthy", "no progress signal"
    if key == "completions/mean_length":
        cut = _last(series, "completions/clipped_ratio")
        return ("", "") if cut is None else (f"cut {percent(cut)}", f"cut {percent(cut)}")
    if key == FLAT:
        top, bottom = _last(series, FLAT_TOP), _last(series, FLAT_BOTTOM)
        if top is None or bottom is None:
            return "", ""
        return f"{percent(top)} at the highest total, {percent(bottom)} at the lowest", f"{percent(top)} top"
    return ("computed here", "") if is_computed(key) else ("", "")


def _last(series: Mapping[str, Series], key: str) -> float | None:
    return series[key].last if key in series else None


def axis_end(step: int, total: int | None, *, live: bool) -> int:
    """Last step of the axis of steps.

    While a run goes on it lies a little ahead and moves seldom: a chart that shifted with every step would be
    restless to look at and would be sent over the connection as a whole each time.
    """
    if not live or step <= 0:
        return step
    unit = max(4, 2 ** (step.bit_length() - 3))
    ahead = (step // unit + 1) * unit
    return max(step, min(ahead, total)) if total else ahead


def _change_text(change: float, last: float | None, digits: int) -> str:
    if last is not None and 0 < abs(last) < 0.001:
        return compact(abs(change))
    return fixed(abs(change), digits)
