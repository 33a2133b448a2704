"""A grid of dots under a grid of cells: layers of lines, columns and shades, read out as characters.

A cell is two by four braille dots; where only ASCII is to be had, it is one character. Knows dots and the
name of each layer, not what a line means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy

Cell = tuple[str, str]
"""A character and its role."""

_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))

_Masks = tuple[tuple[int, ...], ...]


def _masks(across: int, *, shaded: bool) -> _Masks:
    """The dots of a cell's left or right half, by first and last row."""
    kept = [_DOTS[y][across] if not shaded or (across + y) % 2 == 0 else 0 for y in range(4)]
    return tuple(tuple(sum(kept[low : high + 1]) for high in range(4)) for low in range(4))


_FULL = (_masks(0, shaded=False), _masks(1, shaded=False))
_SHADED = (_masks(0, shaded=True), _masks(1, shaded=True))

PATTERNS: tuple[tuple[int, ...], ...] = (
    (1,),
    (1, 1, 1, 1, 0, 0, 0),
    (1, 0, 0),
    (1, 1, 1, 1, 1, 1, 0, 0, 1, 0, 0),
)
"""Which dots along a line are set, to tell lines apart without colour: solid, dashed, dotted, dash-dot."""


class Dots:
    """Layers of dots; in a cell that several layers cross, the first of them is shown.

    Args:
        width, height: In cells.
        braille: False for one ASCII character to a cell.
        layers: Name of each layer, topmost first, and its ASCII character.
    """

    def __init__(self, width: int, height: int, braille: bool, layers: Mapping[str, str]) -> None:
        self._braille = braille
        self._across, self._down = (2, 4) if braille else (1, 1)
        self.columns, self.dots = width * self._across, height * self._down
        self._width = width
        self._plain = dict(layers)
        self._layers: dict[str, dict[tuple[int, int], int]] = {name: {} for name in layers}

    def copy(self) -> Dots:
        """The same dots, to be added to without changing these."""
        twin = copy(self)
        twin._layers = {name: dict(cells) for name, cells in self._layers.items()}
        return twin

    def dot(self, layer: str, x: int, y: int) -> None:
        """Set one dot; one outside the grid is left out."""
        if not (0 <= x < self.columns and 0 <= y < self.dots):
            return
        cell = (x // self._across, y // self._down)
        bit = _DOTS[y % 4][x % 2] if self._braille else 1
        self._layers[layer][cell] = self._layers[layer].get(cell, 0) | bit

    def column(self, layer: str, x: int, top: int, bottom: int) -> None:
        """A full column of dots."""
        self._fill(layer, x, top, bottom, _FULL)

    def shade(self, layer: str, x: int, top: int, bottom: int) -> None:
        """A faint column: every second dot, so that an area reads as grey."""
        self._fill(layer, x, top, bottom, _SHADED)

    def _fill(self, layer: str, x: int, top: int, bottom: int, masks: Sequence[_Masks]) -> None:
        """The dots of a mask between two rows, a cell at a time."""
        top, bottom = max(0, top), min(self.dots - 1, bottom)
        if not 0 <= x < self.columns or top > bottom:
            return
        cells, across, down = self._layers[layer], x // self._across, self._down
        for y in range(top // down, bottom // down + 1):
            bits = 1
            if self._braille:
                bits = masks[x % 2][max(top - y * 4, 0)][min(bottom - y * 4, 3)]
            if bits:
                cells[(across, y)] = cells.get((across, y), 0) | bits

    def line(
        self, layer: str, x0: int, y0: int, x1: int, y1: int, pattern: Sequence[int] = PATTERNS[0]
    ) -> None:
        """A straight line of dots (Bresenham), with gaps where the pattern has them.

        The pattern runs along the axis the line mostly follows, so a line that grows does not change before.
        """
        dx, dy = abs(x1 - x0), -abs(y1 - y0)
        sx, sy = (1 if x0 < x1 else -1), (1 if y0 < y1 else -1)
        steep = -dy > dx
        error = dx + dy
        if not self._braille:
            pattern = PATTERNS[0]
        while True:
            if pattern[(y0 if steep else x0) % len(pattern)]:
                self.dot(layer, x0, y0)
            if x0 == x1 and y0 == y1:
                return
            doubled = 2 * error
            if doubled >= dy:
                error += dy
                x0 += sx
            if doubled <= dx:
                error += dx
                y0 += sy

    def rows(self) -> list[list[Cell]]:
        """The cells row by row, a blank of role `text` where nothing is set."""
        blank = (" ", "text")
        lines = [[blank] * self._width for _ in range(self.dots // self._down)]
        for layer, cells in reversed(self._layers.items()):
            for (x, y), bits in cells.items():
                lines[y][x] = (chr(0x2800 + bits) if self._braille else self._plain[layer], layer)
        return lines
