"""Content of the Rewards pane: samples by group, scores of each function, totals, advantages, findings.

Built from a scoring report; `before` are the scores of an earlier version of the rewards.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any

from rich.cells import cell_len

from grpo_tui.core.statistics import both_finite, signal_of, within_groups
from grpo_tui.core.text import completion_text, one_line, prompt_text, safe, shorten
from grpo_tui.present.formatting import MISSING, compact, digits_apart, fixed
from grpo_tui.present.glyphs import BLOCKS
from grpo_tui.rewards.answer_format import short_answer
from grpo_tui.rewards.samples import Sample, sample_words
from grpo_tui.rewards.score_report import FunctionScore
from grpo_tui.rewards.scoring import Report

BINS = 8
MOST_TEXT = 400


@dataclass(frozen=True, slots=True)
class FunctionColumn:
    """One reward function over all samples.

    Attributes:
        share: Contribution to the total's variance within groups.
        histogram: Counts of its scores from `low` to `high`, as blocks.
        like: The function it correlates with most within groups: name and correlation.
        changed_w: Width of its widest cell with a change, in characters; 0 without any.
    """

    name: str
    weight: float
    muted: bool = False
    digits: int = 2
    failure: str = ""
    coverage: float = 0.0
    seconds: float | None = None
    share: float | None = None
    low: float | None = None
    high: float | None = None
    histogram: str = ""
    like: tuple[str, float] | None = None
    file: str = ""
    line: int | None = None
    changed_w: int = 0


@dataclass(frozen=True, slots=True)
class SampleRow:
    """One sample.

    Attributes:
        text: Completion on one line; a long one is shortened in the middle.
        total: None when no function scored it; then `advantage` is 0.
        broke: Functions that raise because of it.
    """

    index: int
    group: int
    text: str
    kind: str
    scores: tuple[float | None, ...]
    total: float | None
    advantage: float
    before: Mapping[int, float | None] | None = None
    broke: tuple[int, ...] = ()
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SampleGroup:
    """Samples that compete with each other; `flat` when they have no signal."""

    prompt: str
    gold: str
    mean: float | None
    std: float | None
    rows: tuple[int, ...]
    flat: bool


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What the pane says of a scoring besides its report.

    Attributes:
        took_s: Time from the request, or from saving the file, to the scores.
        reason: Why it was scored, such as `rewards.py saved`.
        whole: Whether the findings are complete.
        own_modes: Whether scaling and aggregation come from the config.
    """

    title: str = ""
    origin: str = ""
    scored_at: float = 0.0
    took_s: float = 0.0
    reason: str = ""
    whole: bool = True
    own_modes: bool = True
    muted: frozenset[int] = frozenset()
    gold_column: str | None = None


@dataclass(frozen=True, slots=True)
class RewardsView:
    """A report as the pane lays it out.

    Attributes:
        text_w: Longest completion in a row, in characters.
        failing_changed: Whether a function fails that did not before, or the reverse.
    """

    report: Report
    about: Circumstances
    columns: tuple[FunctionColumn, ...]
    rows: tuple[SampleRow, ...]
    groups: tuple[SampleGroup, ...]
    changed: int
    digits: int
    text_w: int
    failing_changed: bool = False

    def counts(self) -> tuple[int, int]:
        """Return the number of errors and of warnings."""
        severities = [finding.severity for finding in self.report.findings]
        return severities.count("error"), severities.count("warning")


def rewards_view(
    report: Report, before: Report | None = None, about: Circumstances | None = None
) -> RewardsView:
    """Build the view of a report, with the changes from the report `before`."""
    about = about or Circumstances()
    results = report.scored.functions
    place = {i: number for number, group in enumerate(report.aggregate.groups) for i in group.indices}
    advantages = report.aggregate.advantages()
    differs = _changes(report, before)
    rows = tuple(
        SampleRow(
            index=i,
            group=place[i],
            text=_row_text(_ends(completion_text(sample.completion))),
            kind=one_line(sample_words(sample), 60),
            scores=tuple(r.scores[i] for r in results),
            total=report.aggregate.totals[i],
            advantage=advantages[i],
            before=differs.get(i),
            broke=tuple(k for k, r in enumerate(results) if r.failure is not None and r.failure.sample == i),
            tags=tuple(one_line(tag, 40) for tag in sample.tags),
        )
        for i, sample in enumerate(report.scored.samples)
    )
    return RewardsView(
        report=report,
        about=about,
        columns=_columns(report, about.muted, differs),
        rows=rows,
        groups=_groups(report, about.gold_column),
        changed=sum(len(values) for values in differs.values()),
        digits=_digits(report, report.aggregate.totals),
        text_w=max((len(row.text) for row in rows), default=0),
        failing_changed=before is not None and _failing(before) != _failing(report),
    )


def _failing(report: Report) -> set[str]:
    return {result.info.name for result in report.scored.functions if result.failure is not None}


def _columns(
    report: Report, muted: Collection[int], differs: Mapping[int, Mapping[int, float | None]]
) -> tuple[FunctionColumn, ...]:
    found = []
    alike = _alike(report)
    for k, result in enumerate(report.scored.functions):
        known = [s for s in result.scores if s is not None and math.isfinite(s)]
        digits = _digits(report, result.scores) if known else 2
        changes = [changed_text(was[k], result.scores[i], digits) for i, was in differs.items() if k in was]
        place = result.info if result.info.file else result.failure  # of the error when it cannot be loaded
        found.append(
            FunctionColumn(
                name=one_line(result.info.name, 60),
                weight=report.weights[k],
                muted=k in muted,
                digits=digits,
                failure="" if result.failure is None else one_line(result.failure.text, 500),
                coverage=result.coverage,
                seconds=result.seconds or None,
                share=report.shares[k],
                low=min(known, default=None),
                high=max(known, default=None),
                histogram=histogram(known),
                like=alike[k],
                file="" if place is None else place.file or "",
                line=None if place is None else place.line,
                changed_w=max(map(len, changes), default=0),
            )
        )
    return tuple(found)


def histogram(values: Sequence[float]) -> str:
    """Draw counts of the values in equal parts of their range as blocks, blank where there are none."""
    if not values:
        return ""
    low, high = min(values), max(values)
    if high - low < 1e-12:
        return BLOCKS[-1]
    counts = [0] * BINS
    for value in values:
        counts[min(BINS - 1, int((value - low) / (high - low) * BINS))] += 1
    top = max(counts)
    return "".join(BLOCKS[max(0, round(c / top * (len(BLOCKS) - 1)))] if c else " " for c in counts)


def _alike(report: Report) -> list[tuple[str, float] | None]:
    results, groups = report.scored.functions, report.aggregate.groups
    best: list[tuple[str, float] | None] = [None] * len(results)
    for i, j in combinations(range(len(results)), 2):
        pairs = [both_finite(results[i].scores, results[j].scores, group.indices) for group in groups]
        r = within_groups([a for a, _ in pairs], [b for _, b in pairs])
        for k, other in ((i, j), (j, i)):
            known = best[k]
            if abs(r) > 0.005 and (known is None or abs(r) > abs(known[1])):
                best[k] = (one_line(results[other].info.name, 60), r)
    return best


def _digits(report: Report, values: Sequence[float | None]) -> int:
    """Return the decimals that show how values differ inside each group, which is what advantages show."""
    inside = (digits_apart(values[i] for i in group.indices) for group in report.aggregate.groups)
    return max(inside, default=2)


def _groups(report: Report, gold_column: str | None) -> tuple[SampleGroup, ...]:
    samples = report.scored.samples
    found = []
    for group in report.aggregate.groups:
        first = samples[group.indices[0]]
        gold = first.columns.get(gold_column) if gold_column is not None else None
        totals = [report.aggregate.totals[i] for i in group.indices]
        flat = len(group.indices) > 1 and signal_of(totals, group.advantages) == "none"
        found.append(
            SampleGroup(
                prompt=one_line(prompt_text(first.prompt), 300),
                gold="" if gold is None else one_line(short_answer(gold), 60),
                mean=group.mean,
                std=group.std,
                rows=group.indices,
                flat=flat,
            )
        )
    return tuple(found)


def _changes(report: Report, before: Report | None) -> dict[int, dict[int, float | None]]:
    if before is None or before.scored.samples != report.scored.samples:
        return {}
    old = {result.info.name: result for result in before.scored.functions}
    found: dict[int, dict[int, float | None]] = {}
    for k, result in enumerate(report.scored.functions):
        earlier = old.get(result.info.name)
        if earlier is None or result.failure is not None or earlier.failure is not None:
            continue
        for i, (was, now) in enumerate(zip(earlier.scores, result.scores, strict=True)):
            if was != now and repr(was) != repr(now):  # NaN differs from itself but is no change
                found.setdefault(i, {})[k] = was
    return found


@lru_cache(maxsize=4096)
def _row_text(text: str) -> str:
    """Return the ends of a completion on one line. Cached: every save scores the same samples."""
    return one_line(text)


def _ends(text: str) -> str:
    half = MOST_TEXT // 2
    return text if len(text) <= MOST_TEXT else text[:half] + CUT + text[-half:]


TOTAL, ADVANTAGE = "total", "advantage"
CUT = " … "

# -- order ---------------------------------------------------------------------------------------


def ordered(
    view: RewardsView, by: str | int | None, *, low_first: bool = False, words: str = ""
) -> list[tuple[int, int]]:
    """Return the lines of the table as (group, row): by group, with a heading (row -1) each, or sorted.

    Args:
        by: `total`, `advantage`, a function's index, or None for groups in order.
        low_first: Lowest on top. Samples without a score come last either way.
        words: Only samples that contain each of these words; `#hard` is a tag.
    """
    kept = [row for row in view.rows if holds(view, row, words)] if words else view.rows
    if by is None and not words:
        return [(g, row) for g, group in enumerate(view.groups) for row in (-1, *group.rows)]
    if by is None:
        seen = {row.index for row in kept}
        groups = ((g, [i for i in group.rows if i in seen]) for g, group in enumerate(view.groups))
        return [(g, row) for g, rows in groups if rows for row in (-1, *rows)]

    def key(row: SampleRow) -> tuple[bool, float]:
        value = row.total if by == TOTAL else row.advantage if by == ADVANTAGE else row.scores[int(by)]
        if value is None or math.isnan(value):
            return True, 0.0
        return False, value if low_first else -value

    return [(row.group, row.index) for row in sorted(kept, key=key)]


def holds(view: RewardsView, row: SampleRow, words: str) -> bool:
    """Return whether a sample matches each word: `#` words by tag, others by completion, kind or prompt."""
    text = f"{row.text}\n{row.kind}\n{view.groups[row.group].prompt}".casefold()
    return all(
        word[1:] in row.tags if len(word) > 1 and word.startswith("#") else word.casefold() in text
        for word in words.split()
    )


def fitted(text: str, room: int) -> str:
    """Shorten a completion to its end, and its beginning if there is space: ends tell samples apart."""
    if cell_len(text) <= room or room < 12:
        return shorten(text, room)
    head = (room - len(CUT)) // 3 if room >= 40 else 0
    cut = CUT if head else "… "
    tail = room - head - len(cut)
    kept = text[-tail:]
    while cell_len(kept) > tail:
        kept = kept[1:]
    return (shorten(text, head).removesuffix("…") if head else "") + cut + kept


def orders(view: RewardsView) -> dict[str | int | None, str]:
    """Return the sort orders of samples with their names. None keeps each prompt together."""
    names: dict[str | int | None, str] = {None: "prompt", TOTAL: "total", ADVANTAGE: "advantage"}
    return names | {k: one_line(column.name, 40) for k, column in enumerate(view.columns)}


# -- cells ---------------------------------------------------------------------------------------


def cell(view: RewardsView, row: SampleRow, k: int) -> tuple[str, str]:
    """Return text and color role of a function's score for a sample."""
    column, score = view.columns[k], row.scores[k]
    if column.failure:
        return ("✗ here", "bad") if k in row.broke else ("failed", "bad" if not row.broke else "dim")
    text = shown(score, column.digits)
    if row.before is not None and k in row.before:
        return changed_text(row.before[k], score, column.digits), "accent"
    if score is None:
        return text, "dim"
    return text, "text" if math.isfinite(score) else "attention"


def changed_text(was: float | None, now: float | None, digits: int) -> str:
    """Format a previous and a new score."""
    return f"{shown(was, digits)}→{shown(now, digits)}"


def shown(score: float | None, digits: int) -> str:
    """Format a score; None is an abstention."""
    return "none" if score is None else fixed(score, digits)


MOST_PRINTED = 20


@dataclass(frozen=True, slots=True)
class Saw:
    """One function's view of one sample.

    Attributes:
        worth: Score times weight, as text.
        compared: (column, value) pairs from `log_extra`.
        printed: The last lines it printed, for all samples together.
    """

    name: str
    score: str
    worth: str
    compared: tuple[tuple[str, str], ...] = ()
    failure: str = ""
    blamed: bool = False
    printed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SampleDetail:
    """A sample in full.

    Attributes:
        completion: The whole text, safe, with line breaks.
        total: As text, like `advantage`.
        recorded: Values recorded by the run, as text; empty for a sample from elsewhere.
    """

    number: int
    kind: str
    prompt: str
    completion: str
    total: str
    advantage: str
    recorded: str
    saw: tuple[Saw, ...]
    columns: tuple[tuple[str, str], ...]

    def text(self) -> str:
        """Return all of it as plain text, for reading or copying."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"prompt: {self.prompt}"
        for name, value in self.columns:
            yield f"{name}: {value}"
        yield ""
        yield self.completion
        yield ""
        yield f"total {self.total}   advantage {self.advantage}" + (
            f"   in the run {self.recorded}" if self.recorded else ""
        )
        for saw in self.saw:
            yield f"{saw.name}: {saw.failure or f'{saw.score} (weighted {saw.worth})'}"
            for name, value in saw.compared:
                yield f"    {name}: {value}"
            for line in saw.printed:
                yield f"    printed: {line}"


def sample_detail(report: Report, index: int) -> SampleDetail:
    """Return one sample of a report in full."""
    sample = report.scored.samples[index]
    return SampleDetail(
        number=index + 1,
        kind=one_line(sample_words(sample), 60),
        prompt=safe(prompt_text(sample.prompt)),
        completion=safe(sample.text),
        total=compact(report.aggregate.totals[index]),
        advantage=fixed(report.aggregate.advantages()[index]),
        recorded=_recorded(sample),
        saw=tuple(_saw(r, report.weights[k], index) for k, r in enumerate(report.scored.functions)),
        columns=tuple((one_line(name, 40), _value(value)) for name, value in sample.columns.items()),
    )


def _saw(result: FunctionScore, weight: float, index: int) -> Saw:
    score = result.scores[index]
    worth = score * weight if score is not None and math.isfinite(score) else None
    failure = result.failure
    return Saw(
        name=one_line(result.info.name, 60),
        score="none" if score is None else compact(score),
        worth=MISSING if worth is None else compact(worth),
        compared=tuple(
            (one_line(str(name), 40), _value(values[index]))
            for name, values in result.log_extra.items()
            if not isinstance(values, str) and index < len(values)
        ),
        failure="" if failure is None else one_line(failure.text, 500),
        blamed=failure is not None and failure.sample == index,
        printed=tuple(one_line(line, 300) for line in result.output.strip().splitlines()[-MOST_PRINTED:]),
    )


def _recorded(sample: Sample) -> str:
    if sample.recorded is None:
        return ""
    total, advantage = sample.recorded.get("total"), sample.recorded.get("advantage")
    parts = [f"total {compact(total)}"] if total is not None else []
    return ", ".join([*parts, f"advantage {fixed(advantage)}"])


def _value(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return one_line(text, 400)
