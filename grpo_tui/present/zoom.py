"""What part of a run a full-screen chart shows, and how zooming and panning move it.

The axis is in steps or in seconds since the start; both are plain numbers here. Knows ranges, not what is
drawn in them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

ZOOM = 0.5
"""What one press leaves of the width."""
PAN = 0.25
"""What one press moves, as a share of the width."""
NARROWEST = 8.0
"""The least width, in steps or seconds."""

SMOOTHINGS: dict[str, tuple[int, float]] = {"off": (1, 0.0), "light": (7, 0.01), "strong": (39, 0.1)}
"""Span of the moving average in values: at least so many, and at least so large a share of those shown."""


@dataclass(frozen=True, slots=True)
class Window:
    """What a person asked to see."""

    x: str = "step"
    """`step`, or `time` for seconds since the start."""
    span: tuple[float, float] | None = None
    """First and last place on the axis; None for the whole run."""
    following: bool = True
    """True while the right edge goes along with the newest value; only the width of `span` counts then."""
    smoothing: str = "light"


@dataclass(frozen=True, slots=True)
class Extent:
    """How far the data goes, in the unit of the axis."""

    first: float
    newest: float
    """Where the newest value stands."""
    end: float
    """Right edge of the whole run; a little ahead of the newest value while it trains."""


def shown_range(window: Window, extent: Extent) -> tuple[float, float]:
    """First and last place of the axis."""
    if window.span is None:
        return extent.first, max(extent.end, extent.first + 1)
    first, last = window.span
    if not window.following:
        return first, last
    width = last - first
    # The edge moves on in leaps: a chart that shifted with every step would be restless to look at.
    leap = width / 8
    ahead = (math.floor(extent.newest / leap) + 1) * leap if extent.end > extent.newest else extent.newest
    edge = min(extent.end, ahead)
    return max(extent.first, edge - width), edge


def zoomed(window: Window, extent: Extent, factor: float, centre: float | None = None) -> Window:
    """The window `factor` as wide around `centre`; a window as wide as the run shows all of it.

    Without a centre the right edge stays while the window follows, else the middle.
    """
    first, last = shown_range(window, extent)
    width = max(NARROWEST, (last - first) * factor)
    if width >= extent.end - extent.first:
        return whole(window)
    if centre is None:
        centre = last if window.following else (first + last) / 2
    share = min(1.0, max(0.0, (centre - first) / (last - first)))
    return _placed(window, extent, centre - share * width, width)


def panned(window: Window, extent: Extent, share: float) -> Window:
    """The window moved by a share of its width, at most to the ends of the run."""
    if window.span is None:
        return window
    first, last = shown_range(window, extent)
    width = last - first
    if window.following and share < 0:
        first = min(first, extent.newest - width)  # the empty stretch ahead is no part of the way back
    return _placed(window, extent, first + share * width, width)


def whole(window: Window) -> Window:
    """The whole run, followed."""
    return replace(window, span=None, following=True)


def newest(window: Window) -> Window:
    """The same width at the newest value, followed."""
    return replace(window, following=True)


def showing(window: Window, extent: Extent, place: float) -> Window:
    """The window moved so far that it shows a place."""
    first, last = shown_range(window, extent)
    if first <= place <= last:
        return window
    width = last - first
    return _placed(window, extent, place - width / 2, width)


def _placed(window: Window, extent: Extent, first: float, width: float) -> Window:
    first = max(extent.first, min(first, extent.end - width))
    last = first + width
    # Held against rounding: a window whose edge stands on the newest value follows it.
    following = last >= extent.newest - 1e-9 * max(1.0, abs(extent.newest))
    return replace(window, span=(first, last), following=following)


def average_span(smoothing: str, values: int) -> int:
    """Span of the moving average, in values.

    It grows by doubling with what is shown, for the line to stay quiet over a long run and to keep its shape
    from one step to the next.
    """
    least, share = SMOOTHINGS[smoothing]
    span = least
    while span < share * values:
        span = 2 * span + 1
    return span
