"""Format a baseline as text in columns, for the command and the pane: figures, group sizes, examples."""

from __future__ import annotations

from collections.abc import Iterator

from grpo_tui.core.text import completion_text, one_line, prompt_text, wrapped
from grpo_tui.present.formatting import MISSING, compact, duration, percent, plural
from grpo_tui.rewards.baseline import Baseline
from grpo_tui.rewards.generating import Generated, Progress

EXAMPLES = 3
PROGRESS = "progress: "
REST_AT, LEAST_REST = 23, 30
MOST_WIDTH = 140
SIGNS = {"error": "✗", "warning": "⚠", "info": "·"}


def progress(now: Progress) -> str:
    """Return one line about the current progress."""
    if not now.of:
        return now.what
    if now.what != "generating":
        return f"{now.what} {plural(now.of, 'completion')}"
    speed = now.tokens_per_s
    pace = f", {compact(speed)} tokens/s" if speed is not None else ""
    return f"generating: {now.done:,} of {now.of:,} completions{pace}"


def heading(found: Baseline, width: int) -> Iterator[str]:
    """Yield what was measured, and how."""
    what = (
        f"{plural(found.rows, 'row')} × {found.group}, temperature {found.temperature:g}, at most "
        f"{found.max_tokens:,} tokens, seed {found.seed}, on {found.device}"
    )
    yield f"{one_line(found.model, max(20, width - 20))} before training"
    yield from wrapped(what, width)


def lines(found: Baseline, generated: Generated, width: int) -> Iterator[str]:
    """Yield the figures, the group sizes and some examples."""
    width = min(width, MOST_WIDTH)
    for name, value, rest in _figures(found):
        first, *more = wrapped(rest, max(LEAST_REST, width - REST_AT))
        yield f"  {name:9}  {value:>7}   {first}".rstrip()
        yield from (" " * REST_AT + row for row in more)
    yield ""
    if found.group_sizes:
        yield from _sizes(found)
        yield ""
    yield from _examples(found, generated, width)
    for note in found.notes:
        yield f"  note: {one_line(note)}"


def _figures(found: Baseline) -> Iterator[tuple[str, str, str]]:
    if found.judge is not None:
        judge = f"{one_line(found.judge.name, 40)} ≥ {compact(found.judge.least)} ({found.judge.why})"
        count = f"{found.right:,} of {found.completions:,}"
        yield "right", percent(found.pass_rate), f"{count} by {judge}"
        rest = f"of the groups, {percent(found.all_right)} all right, {percent(found.all_wrong)} all wrong"
        yield "mixed", percent(found.mixed), rest
    else:
        yield "right", MISSING, "no reward separates right from wrong; give --correct NAME>=SCORE"
    yield "zero std", percent(found.flat), "of the groups: all totals equal, nothing to learn"
    names = ", ".join(f"{one_line(form.name, 30)} {percent(form.share)}" for form in found.forms)
    yield "format", percent(found.form), names or "no reward checks only the format"
    yield "truncated", percent(found.truncated), f"at {found.max_tokens:,} tokens"
    spread = f"± {compact(found.reward_std)}, group std {compact(found.group_std)}"
    yield "total", compact(found.reward), spread
    length = f"tokens, longest {found.tokens_most:,}; in a group {percent(found.distinct)} differ"
    yield "length", compact(found.tokens), length
    speed = f"{compact(found.tokens_per_s)} tokens/s; the model took {duration(found.load_s)} to load"
    yield "time", duration(found.seconds), speed


def _sizes(found: Baseline) -> Iterator[str]:
    yield "  groups of      " + "".join(f"{mixed.size:>8}" for mixed in found.group_sizes)
    alike = "".join(f"{percent(mixed.alike):>8}" for mixed in found.group_sizes)
    yield f"  mixed, by rate {alike}"
    drawn = "".join(f"{percent(mixed.drawn):>8}" for mixed in found.group_sizes)
    yield f"  mixed, as seen {drawn}"
    rate = compact(found.pass_rate)
    yield f"  by rate: 1 - p^G - (1-p)^G, p = {rate}; as seen: drawn from these"


def _examples(found: Baseline, generated: Generated, width: int) -> Iterator[str]:
    mixed = (r for r in found.results if r.right is not None and 0 < r.right < r.of)
    row = next(mixed, found.results[0])
    mine = [sample for sample in generated.samples if sample.group == row.row]
    right = "" if row.right is None else f"   {row.right} of {row.of} right"
    yield f"  {one_line(prompt_text(mine[0].prompt), max(20, width - len(right) - 2))}{right}"
    texts = list(dict.fromkeys(completion_text(sample.completion) for sample in mine))
    for text in texts[:EXAMPLES]:
        yield f"    {one_line(text, max(20, width - 4))}"
    if len(texts) > EXAMPLES:
        yield f"    … {len(texts) - EXAMPLES} more"


def whole(found: Baseline, generated: Generated, width: int) -> str:
    """Return everything as one text that fits the width. Findings come before the figures."""
    rows = [*heading(found, width), ""]
    for finding in found.findings:
        first, *more = wrapped(one_line(finding.message), max(LEAST_REST, width - 4))
        rows += [f"  {SIGNS[finding.severity]} {first}", *(f"    {row}" for row in more)]
    if not found.findings:
        rows.append("  ✓ no problems found")
    return "\n".join([*rows, "", *lines(found, generated, width)])
