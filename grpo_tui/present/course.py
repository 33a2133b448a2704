"""Trends of groups and completions over a run: kinds of groups, variety, lengths, reward contributions.

Kinds are counted over every group of the run. Figures that need texts come from evenly spaced groups, so that
a long run takes no longer than a short one. Shown as stacked columns of the kinds, then a small curve for
each figure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from grpo_tui.core.statistics import distinct_share, group_covariances, mean, repeated_share, shares_of
from grpo_tui.core.text import one_line
from grpo_tui.present.formatting import compact, percent, within
from grpo_tui.present.glyphs import spark
from grpo_tui.present.series import FLAT, FLAT_BOTTOM, FLAT_TOP, MASKED
from grpo_tui.present.train_view import Span
from grpo_tui.store.read_series import series_window, step_stats
from grpo_tui.store.reader import RunReader, StoredGroup, Visit, distinct_names

STRETCHES = 48
GROUPS_EACH = 6
MOST_TEXT = 8_000


@dataclass(frozen=True, slots=True)
class Stretch:
    """Some consecutive steps. Fractions are from 0 to 1, None where unknown.

    Attributes:
        first_step: Inclusive.
        right: Fraction of groups with equal totals, at the highest total of the run.
        wrong: The same at the lowest total.
        flat: The same at another total.
        repeated: Mean fraction of repeated four-word runs in a completion.
        better_tokens: Mean length of completions with an advantage above 0.
        worse_tokens: The same below 0.
        shares: Each reward function's contribution to the variance within groups.
        masked: Fraction of groups that the loss leaves out; None in a run without any.
    """

    first_step: int
    last_step: int
    right: float | None
    wrong: float | None
    flat: float | None
    looked_at: int = 0
    distinct: float | None = None
    repeated: float | None = None
    better_tokens: float | None = None
    worse_tokens: float | None = None
    shares: tuple[float | None, ...] = ()
    masked: float | None = None

    @property
    def mixed(self) -> float | None:
        """Fraction of groups with a signal."""
        rest = (self.right or 0) + (self.wrong or 0) + (self.masked or 0)
        return None if self.flat is None else max(0.0, 1 - self.flat - rest)


def course(
    reader: RunReader,
    weights: Sequence[float],
    *,
    stretches: int = STRETCHES,
    given_up: Callable[[], bool] = lambda: False,
) -> list[Stretch]:
    """Return the stretches of a run."""
    flat, *others = (
        series_window(reader, key, buckets=stretches) for key in (FLAT, FLAT_TOP, FLAT_BOTTOM, MASKED)
    )
    by_step = [{bucket.first: bucket.mean for bucket in other} for other in others]
    normalized = reader.config("grpo", "multi_objective_aggregation") == "normalize_then_sum"
    names, found = _names(reader), []
    for bucket in flat:
        if given_up():
            break
        right, wrong, masked = (means.get(bucket.first) for means in by_step)
        rest = (right or 0) + (wrong or 0) + (masked or 0)
        groups = _picked(reader, bucket.first, bucket.last)
        completions = [completion for group in groups for completion in group.completions]
        sums = [
            group_covariances([c.rewards for c in group.completions], weights, normalized=normalized)
            for group in groups
            if group.functions == names and len(names) == len(weights)
        ]
        stretch = Stretch(
            bucket.first,
            bucket.last,
            right=right,
            wrong=wrong,
            flat=None if bucket.mean is None else max(0.0, bucket.mean - rest),
            looked_at=len(groups),
            distinct=mean(distinct_share([c.text for c in group.completions]) for group in groups),
            repeated=mean(repeated_share(c.text[:MOST_TEXT]) for c in completions),
            better_tokens=mean(c.tokens for c in completions if c.advantage > 0),
            worse_tokens=mean(c.tokens for c in completions if c.advantage < 0),
            shares=tuple(shares_of(sums, len(weights))) if sums else (),
            masked=masked,
        )
        found.append(stretch)
    return found


def _picked(reader: RunReader, first_step: int, last_step: int) -> list[StoredGroup]:
    steps = last_step - first_step + 1
    at = sorted({first_step + steps * n // GROUPS_EACH for n in range(min(GROUPS_EACH, steps))})
    each = -(-GROUPS_EACH // len(at))
    found: list[StoredGroup] = []
    for step, end in zip(at, [*(n - 1 for n in at[1:]), last_step], strict=True):
        found += reader.groups(first_step=step, last_step=end, mode="train", limit=each)
    return found


def _names(reader: RunReader) -> tuple[str, ...]:
    return distinct_names(function.name for function in reader.reward_functions())


@dataclass(frozen=True, slots=True)
class ProbeStep:
    """Results of the probe prompts at one step: mean total, and the mean of each function in order."""

    step: int
    answered: int
    total: float | None
    rewards: tuple[float | None, ...]
    truncated: float


def probe_course(reader: RunReader, functions: int, *, most: int = STRETCHES) -> list[ProbeStep]:
    """Return the results of the probe prompts: first and last step, and others in between."""
    steps = [stat.step for stat in step_stats(reader, mode="probe")]
    if len(steps) > most:
        steps = [steps[n * (len(steps) - 1) // (most - 1)] for n in range(most)]
    names, found = _names(reader)[:functions], []
    blank = (None,) * (functions - len(names))
    for step in steps:
        groups = reader.groups(first_step=step, last_step=step, mode="probe", limit=1_000)
        done = [c for group in groups for c in group.completions]
        if done:
            rows = [dict(zip(g.functions, c.rewards, strict=False)) for g in groups for c in g.completions]
            rewards = (*(mean(row.get(name) for row in rows) for name in names), *blank)
            cut = sum(c.truncated for c in done) / len(done)
            found.append(ProbeStep(step, len(done), mean(c.total for c in done), rewards, cut))
    return found


HEIGHT = 8
KINDS: tuple[tuple[str, str, str, str], ...] = (
    ("right", "▲", "good", "all right"),
    ("mixed", "░", "accent", "mixed: teaches"),
    ("flat", "·", "attention", "zero std"),
    ("masked", "✂", "attention", "masked"),
    ("wrong", "▼", "bad", "all wrong"),
)
"""Attribute, sign, color and label of each kind, from the top of a column down."""

Line = list[Span]
_Figure = tuple[str, Sequence[float | None], Callable[[float | None], str], tuple[float, float] | None]


def course_lines(stretches: Sequence[Stretch], names: Sequence[str], width: int) -> list[Line]:
    """Return the trends of a run's groups as lines of at most `width` cells."""
    if not stretches:
        return [[("  No training group is recorded yet.", "dim")]]
    return [*_columns(stretches, width), [], *_figures(stretches, names, width)]


def _columns(stretches: Sequence[Stretch], width: int) -> list[Line]:
    known = [s for s in stretches if s.flat is not None]
    if not known:
        return [[("  It is not known yet which groups teach.", "dim")]]
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
    """Return sign and color of each cell of a column, top first, rounded so that they fill it."""
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
        rows.append((f"{name}, contribution", shares, percent, (0.0, 1.0)))
    return _rows(rows, width)


def _rows(rows: Sequence[_Figure], width: int) -> list[Line]:
    label = 32 if width >= 70 else 20
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
    """Return the results of the probe prompts over the run as lines."""
    first, last = steps[0], steps[-1]
    rows: list[_Figure] = [("mean total", [s.total for s in steps], compact, None)]
    for number, name in enumerate(names):
        rows.append((name, [s.rewards[number] for s in steps], compact, None))
    rows.append(("truncated", [s.truncated for s in steps], percent, (0.0, 1.0)))
    told = f"  {last.answered} answers at each of {len(steps)} steps, {first.step:,} to {last.step:,}"
    return [[(told, "dim")], *_rows(rows, width)]


def visit_lines(visits: Sequence[Visit], here: int, width: int) -> list[Line]:
    """Return the appearances of a prompt as lines, newest first."""
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
