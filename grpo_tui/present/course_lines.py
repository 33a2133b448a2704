"""The course of a run in lines: kinds of groups as stacked columns, then a small curve for each figure.

Knows stretches, visits and characters; reads nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from grpo_tui.core.text import one_line
from grpo_tui.present.course import ProbeStep, Stretch
from grpo_tui.present.formatting import compact, percent, within
from grpo_tui.present.glyphs import spark
from grpo_tui.present.train_view import Span
from grpo_tui.store.reader import Visit

HEIGHT = 8
"""Lines of the stacked columns."""
KINDS: tuple[tuple[str, str, str, str], ...] = (
    ("right", "▲", "good", "all right"),
    ("mixed", "░", "accent", "mixed: teaches"),
    ("flat", "·", "attention", "flat"),
    ("masked", "✂", "attention", "masked"),
    ("wrong", "▼", "bad", "all wrong"),
)
"""Attribute, sign, colour and words of each kind, from the top of a column down."""

Line = list[Span]
_Figure = tuple[str, Sequence[float | None], Callable[[float | None], str], tuple[float, float] | None]
"""Title, values over the run, how one is spelled, and the ends of the scale."""


def course_lines(stretches: Sequence[Stretch], names: Sequence[str], width: int) -> list[Line]:
    """How the groups of a run change, in lines of at most `width` cells."""
    if not stretches:
        return [[("  No training group is recorded yet.", "dim")]]
    return [*_columns(stretches, width), [], *_figures(stretches, names, width)]


def _columns(stretches: Sequence[Stretch], width: int) -> list[Line]:
    known = [s for s in stretches if s.flat is not None]
    if not known:
        return [[("  Of no group is known whether it teaches.", "dim")]]
    cells = max(1, min(3, (width - 9) // max(1, len(known))))
    columns = [_column(stretch) for stretch in known]
    legend: Line = [("  groups by kind" if width >= 80 else "  groups", "strong")]
    for name, sign, role, words in KINDS:
        if name == "masked" and not any(stretch.masked for stretch in known):
            continue
        legend += [(f"   {sign} ", role), (words if width >= 80 else words.partition(":")[0], "dim")]
    lines = [legend]
    for row in range(HEIGHT):
        tick = {0: "100 %", HEIGHT // 2: " 50 %", HEIGHT - 1: "  0 %"}.get(row, "")
        line: Line = [(f"{tick:>6} ", "tick")]
        for column in columns:
            sign, role = column[row]
            line.append((sign * cells, role))
        lines.append(line)
    first, last = known[0].first_step, known[-1].last_step
    ends = f"step {first:,}", f"step {last:,}"
    gap = max(1, len(columns) * cells - len(ends[0]) - len(ends[1]))
    return [*lines, [(f"{'':7}{ends[0]}{' ' * gap}{ends[1]}", "tick")]]


def _column(stretch: Stretch) -> list[tuple[str, str]]:
    """Sign and colour of each cell of a column, top first; the parts are rounded so that they fill it."""
    shares = [getattr(stretch, name) or 0.0 for name, *_ in KINDS]
    whole = sum(shares) or 1.0
    found: list[tuple[str, str]] = []
    reached = 0.0
    for share, (_, sign, role, _words) in zip(shares, KINDS, strict=True):
        reached += share / whole
        found += [(sign, role)] * (round(reached * HEIGHT) - len(found))
    return found[:HEIGHT] + [(KINDS[1][1], KINDS[1][2])] * (HEIGHT - len(found))


def _figures(stretches: Sequence[Stretch], names: Sequence[str], width: int) -> list[Line]:
    rows: list[_Figure] = [
        ("different texts in a group", [s.distinct for s in stretches], percent, (0.0, 1.0)),
        ("repeated runs of 4 words", [s.repeated for s in stretches], percent, (0.0, 1.0)),
        ("tokens, advantage above 0", [s.better_tokens for s in stretches], compact, None),
        ("tokens, advantage below 0", [s.worse_tokens for s in stretches], compact, None),
    ]
    for number, name in enumerate(names):
        shares = [s.shares[number] if number < len(s.shares) else None for s in stretches]
        rows.append((f"share of {name}", shares, percent, (0.0, 1.0)))
    return _rows(rows, width)


def _rows(rows: Sequence[_Figure], width: int) -> list[Line]:
    """A line for each figure: its first and last value, and a small curve."""
    label = 28 if width >= 70 else 20
    room = max(4, min(48, width - label - 24))
    lines: list[Line] = [[(f"  {'':{label}}{'first':>8}{'last':>9}   over the run", "dim")]]
    for title, values, spelled, scale in rows:
        known = [value for value in values if value is not None]
        first, last = (known[0], known[-1]) if known else (None, None)
        curve = spark(list(values), room, *(scale or (None, None)))
        lines.append(
            [
                (f"  {one_line(title, label - 1):{label}}", "text"),
                (f"{spelled(first):>8}{spelled(last):>9}   ", "strong"),
                (curve, "accent"),
            ]
        )
    return lines


def probe_lines(steps: Sequence[ProbeStep], names: Sequence[str], width: int) -> list[Line]:
    """How the probe prompts were answered over the run: the mean total and each function's mean."""
    first, last = steps[0], steps[-1]
    rows: list[_Figure] = [("mean total", [s.total for s in steps], compact, None)]
    for number, name in enumerate(names):
        rows.append((name, [s.rewards[number] for s in steps], compact, None))
    rows.append(("cut off", [s.truncated for s in steps], percent, (0.0, 1.0)))
    told = f"  {last.answered} answers at each of {len(steps)} steps, {first.step:,} to {last.step:,}"
    return [[(told, "dim")], *_rows(rows, width)]


def visit_lines(visits: Sequence[Visit], here: int, width: int) -> list[Line]:
    """Each time that a prompt was answered: step, mean, the best total and its text; the newest first."""
    lines: list[Line] = [[(f"    {'step':>7}{'mean':>8}{'best':>8}  best completion", "dim")]]
    for visit in reversed(visits):
        mark = "❙" if visit.group == here else " "
        text = one_line((visit.best or "").strip(), max(8, width - 29)) or "–"
        mode = "" if visit.mode == "train" else f" {visit.mode}"
        lines.append(
            [
                (f"  {mark} ", "accent"),
                (f"{visit.step:>7,}", "dim"),
                (f"{within(visit.mean, 7):>8}{within(visit.best_total, 7):>8}  ", "strong"),
                (text + mode, "text"),
            ]
        )
    return lines
