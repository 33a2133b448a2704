"""Draw lines over the steps as self-contained SVG: axes, a color for each line, a legend."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from grpo_tui.core.text import one_line
from grpo_tui.present.formatting import step_label
from grpo_tui.present.plot import ValueAxis, step_ticks, value_axis
from grpo_tui.store.read_series import SeriesBucket

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f3c8d", "#444444")
"""Mostly from Okabe and Ito (2008), for color-blind readers. More lines than colors are dashed."""
WIDTH, HEIGHT = 720, 220
LEFT, RIGHT, TOP, ROW = 64, 12, 10, 18
LONGEST = 80
Place = Callable[[float], float]


@dataclass(frozen=True, slots=True)
class Curve:
    """A line with its name in the legend: smoothed values over a faint band of the raw ones."""

    name: str
    buckets: tuple[SeriesBucket, ...]


def line_chart(curves: Sequence[Curve], label: str) -> str:
    """Return an `svg` element with one line per curve; empty when none has a value."""
    known = [bucket for curve in curves for bucket in curve.buckets if bucket.smooth is not None]
    if not known:
        return ""
    first, last = min(b.middle for b in known), max(b.middle for b in known)
    values = [value for b in known for value in (b.low, b.high, b.smooth) if value is not None]
    axis = value_axis(min(values), max(values), 5)

    def across(step: float) -> float:
        share = (step - first) / (last - first) if last > first else 0.5
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def down(value: float) -> float:
        return TOP + (1 - axis.share(value)) * (HEIGHT - TOP - ROW)

    legend = ROW * len(curves) if len(curves) > 1 else 0
    name = html.escape(one_line(label), quote=True)
    begin = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT + ROW + legend}"'
    parts = [
        f'{begin} width="{WIDTH}" role="img" aria-label="{name}" font-family="sans-serif" font-size="12">',
        *_axes(axis, step_ticks(first, last, 6) or [first], across, down),
    ]
    for number, curve in enumerate(curves):
        parts += _line(curve, number, across, down)
        if legend:
            parts += _legend(curve, number, HEIGHT + ROW * (number + 1))
    return "\n".join([*parts, "</svg>"])


def _axes(axis: ValueAxis, steps: Sequence[float], across: Place, down: Place) -> Iterator[str]:
    for value, text in zip(axis.ticks, axis.labels, strict=True):
        y = down(value)
        yield f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
        yield f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" fill="#555">{text}</text>'
    for step in steps:
        text = step_label(step)
        yield f'<text x="{across(step):.1f}" y="{HEIGHT}" text-anchor="middle" fill="#555">{text}</text>'


def _line(curve: Curve, number: int, across: Place, down: Place) -> Iterator[str]:
    """Yield the band and the line over it, with gaps where values are missing."""
    band, line = [], []
    for known, stretch in groupby(curve.buckets, lambda bucket: bucket.smooth is not None):
        if not known:
            continue
        buckets = list(stretch)
        line.append([(across(b.middle), down(b.smooth or 0.0)) for b in buckets])
        there = [(across(b.middle), down(b.high or 0.0)) for b in buckets]
        band.append([*there, *((across(b.middle), down(b.low or 0.0)) for b in reversed(buckets))])
    color = COLORS[number % len(COLORS)]
    yield f'<path class="band" d="{_path(band)}" fill="{color}" stroke="{color}" opacity="0.2"/>'
    yield f'<path class="line" d="{_path(line)}" {_stroke(number)}/>'


def _stroke(number: int) -> str:
    dashes = ' stroke-dasharray="6 3"' if number >= len(COLORS) else ""
    color = COLORS[number % len(COLORS)]
    return f'fill="none" stroke="{color}" stroke-width="2" stroke-linecap="round"{dashes}'


def _path(stretches: Sequence[Sequence[tuple[float, float]]]) -> str:
    return " ".join(
        "M" + " L".join(f"{x:.1f} {y:.1f}" for x, y in (points if len(points) > 1 else [*points, *points]))
        for points in stretches
    )


def _legend(curve: Curve, number: int, y: int) -> Iterator[str]:
    yield f'<path class="key" d="M{LEFT} {y + 10} h24" {_stroke(number)}/>'
    name = html.escape(one_line(curve.name, LONGEST))
    yield f'<text x="{LEFT + 32}" y="{y + 14}" fill="#222">{name}</text>'
