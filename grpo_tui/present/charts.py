"""Which metrics make a chart, in which order, and what stands in its title.

Knows TRL's metric keys and their meaning; the words of the interface for them start here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from grpo_tui.core.text import one_line
from grpo_tui.present.formatting import compact, digits_for, fixed, percent
from grpo_tui.present.series import Bucket, Series
from grpo_tui.present.train_view import ChartView, Mark

CHANGE_STEPS = 20

FIRST = (
    "reward",
    "completions/mean_length",
    "entropy",
    "kl",
    "step_time",
    "grad_norm",
    "learning_rate",
    "loss",
)
"""The charts a person looks at first, in this order; every other key follows as it was first logged."""

TITLES: Mapping[str, str] = {
    "completions/mean_length": "completion length, tokens",
    "kl": "KL",
    "step_time": "step time, s",
    "grad_norm": "gradient norm",
    "learning_rate": "learning rate",
    "reward_std": "reward std over the batch",
    "frac_reward_zero_std": "share of flat groups, as TRL counts",
    "completions/clipped_ratio": "share of completions cut off",
}
NOTES: Mapping[str, tuple[str, str]] = {
    "loss": ("no progress signal: near 0 is healthy", "no progress signal"),
}

_NO_CHART = frozenset({"epoch", "total_flos", "train_loss", "train_runtime"})
_NO_CHART_PREFIXES = ("train_", "eval_runtime", "eval_samples_per", "eval_steps_per")


def chart_keys(keys: Iterable[str]) -> list[str]:
    """The keys that get a chart, in the order they are leafed through."""
    known = list(keys)
    rest = [
        k for k in known if k not in FIRST and k not in _NO_CHART and not k.startswith(_NO_CHART_PREFIXES)
    ]
    return [k for k in FIRST if k in known] + rest


def chart_view(
    key: str, series: Mapping[str, Series], spreads: Mapping[int, float], marks: Sequence[Mark], end: int
) -> ChartView:
    """One metric as a chart; `end` is the last step of its axis."""
    own = series[key]
    change = own.change(CHANGE_STEPS)
    digits = digits_for([own.last])
    note, short = NOTES.get(key, ("", ""))
    if key == "completions/mean_length":
        cut = series["completions/clipped_ratio"].last if "completions/clipped_ratio" in series else None
        note = short = f"cut {percent(cut)}" if cut is not None else ""
    buckets = own.buckets
    return ChartView(
        key=key,
        title=one_line(TITLES.get(key, key), 48),
        value=compact(own.last),
        change=change,
        change_text="" if change is None else _change_text(change, own.last, digits),
        note=note,
        note_short=short,
        buckets=buckets,
        band=_band(buckets, spreads) if key == "reward" else (),
        marks=tuple(marks),
        end=end,
    )


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


def _band(buckets: Sequence[Bucket], spreads: Mapping[int, float]) -> tuple[tuple[float, float] | None, ...]:
    """Mean reward ± the mean spread inside a group, per bucket; None where no group is known."""
    if not spreads:
        return ()
    band: list[tuple[float, float] | None] = []
    for bucket in buckets:
        known = [spreads[s] for s in range(bucket.first, bucket.last + 1) if s in spreads]
        if not known or bucket.mean is None:
            band.append(None)
            continue
        spread = sum(known) / len(known)
        band.append((bucket.mean - spread, bucket.mean + spread))
    return tuple(band)
