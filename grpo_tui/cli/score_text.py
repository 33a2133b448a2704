"""What `score` prints for a person: samples by prompt with their scores, functions, findings.

Plain text in columns; it computes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.cells import cell_len

from grpo_tui.core.findings import Finding
from grpo_tui.core.statistics import signal_of
from grpo_tui.core.text import filled, one_line, prompt_text, wrapped
from grpo_tui.present.formatting import MISSING, compact, duration, fixed, percent
from grpo_tui.rewards.samples import sample_words
from grpo_tui.rewards.score_report import FunctionScore, GroupScore
from grpo_tui.rewards.scoring import Report

WIDEST = 14
"""Cells for the name of a function over its column."""
LEAST_TEXT = 20
MOST_GROUPS = 40


def lines(found: Report, width: int) -> Iterator[str]:
    """Return the whole report as lines of at most `width` cells, as far as findings allow."""
    functions = found.scored.functions
    names = [one_line(f.info.name, WIDEST) for f in functions]
    cells = [max(len(name), 7) for name in names]
    for group in found.aggregate.groups[:MOST_GROUPS]:
        yield from _group(found, group, names, cells, width)
        yield ""
    left = len(found.aggregate.groups) - MOST_GROUPS
    if left > 0:
        yield f"… {left} more groups; --json has them all"
        yield ""
    yield from _functions(found)
    yield ""
    yield from finding_lines(found.findings, width)


def _group(
    found: Report, group: GroupScore, names: Sequence[str], cells: Sequence[int], width: int
) -> Iterator[str]:
    samples = found.scored.samples
    words = {i: one_line(sample_words(samples[i]), WIDEST) for i in group.indices}
    kind_w = max(5, *map(len, words.values())) if any(sample_words(s) for s in samples) else 0
    spread = f"mean {compact(group.mean)}  std {compact(group.std)}"
    totals = [found.aggregate.totals[i] for i in group.indices]
    taught = len(totals) == 1 or signal_of(totals, group.advantages) == "some"
    flat = "" if taught else "  flat: nothing to learn"
    prompt = one_line(
        prompt_text(samples[group.indices[0]].prompt), max(LEAST_TEXT, width - len(spread) - len(flat) - 3)
    )
    yield f"{prompt}   {spread}{flat}"
    head = "".join(f"  {name:>{cell}}" for name, cell in zip(names, cells, strict=True))
    kind_head = f"  {'kind':{kind_w}}" if kind_w else ""
    yield f"{'#':>5}{kind_head}{head}    total  advantage  completion"
    for index, advantage in zip(group.indices, group.advantages, strict=True):
        scores = "".join(
            f"  {_score(f, index):>{cell}}" for f, cell in zip(found.scored.functions, cells, strict=True)
        )
        kind = f"  {words[index]:{kind_w}}" if kind_w else ""
        total = compact(found.aggregate.totals[index])
        row = f"{index + 1:>5}{kind}{scores}  {total:>7}  {fixed(advantage):>9}  "
        yield row + one_line(samples[index].text, max(LEAST_TEXT, width - len(row)))


def _score(result: FunctionScore, index: int) -> str:
    if result.failure is not None:
        return "failed"
    score = result.scores[index]
    return "none" if score is None else compact(score)


def _functions(found: Report) -> Iterator[str]:
    names = [one_line(f.info.name, 24) for f in found.scored.functions]
    widest = max(map(cell_len, names), default=8)
    yield f"{'function':{widest}}   weight  scored    share     time"
    for position, result in enumerate(found.scored.functions):
        share = found.shares[position]
        row = (
            f"{filled(names[position], widest)}  {found.weights[position]:>7g}  "
            f"{percent(result.coverage):>6}  {MISSING if share is None else percent(share):>7}  "
            f"{_seconds(result.seconds):>7}"
        )
        if result.failure is not None:
            row += f"  {one_line(result.failure.text, 160)}"
        yield row.rstrip()
        for line in result.output.strip().splitlines()[-3:]:
            yield f"{'':{widest}}  printed: {one_line(line, 120)}"


def finding_lines(findings: Sequence[Finding], width: int) -> Iterator[str]:
    """Return findings as lines, each with its severity before it and its id behind it."""
    if not findings:
        yield "no findings"
        return
    for finding in findings:
        head = f"{finding.severity:7}  "
        text = f"{one_line(finding.message)} [{finding.id}]"
        for number, row in enumerate(wrapped(text, max(width, 60) - len(head))):
            yield f"{'' if number else head:{len(head)}}{row}"


def _seconds(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else duration(seconds)
