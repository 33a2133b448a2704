"""`grpo-tui metrics`: metrics of runs as a table, CSV or JSON lines, and explanations of them.

CSV and JSON lines are written page by page, so memory use does not depend on the length of a run.
"""

from __future__ import annotations

import csv
import difflib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from typing import Any, TextIO

from rich.cells import cell_len

from grpo_tui.cli.errors import OK, CommandError
from grpo_tui.cli.look import readable_folder
from grpo_tui.cli.plain import print_text
from grpo_tui.cli.words import refuse_unused
from grpo_tui.core.exchange import finite_json
from grpo_tui.core.metrics import METRICS, Metric, describe, is_computed
from grpo_tui.core.text import csv_text, filled, one_line, wrapped
from grpo_tui.present.formatting import compact, plural, told_apart
from grpo_tui.present.glyphs import spark
from grpo_tui.present.metric_rows import MetricFigures, figures, in_groups, keys_matching, keys_of
from grpo_tui.present.runs_view import run_names
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.read_series import (
    TOKENS_PER_SECOND,
    last_metric_row_id,
    metric_keys,
    new_points,
    series_window,
)
from grpo_tui.store.reader import RunReader

CURVE = 20
TEXT_WIDTH = 96


def metrics(parsed: Any) -> int:
    """`grpo-tui metrics RUN… [--keys …] [--steps A:B] [--every N] [--format …] [--explain KEY]`."""
    if not parsed.runs and parsed.explain is None:
        raise CommandError(
            "metrics: name a run. `grpo-tui runs` lists them. Only --explain KEY works without one"
        )
    if parsed.explain is not None:
        refuse_unused(parsed, "with --explain", "--keys", "--steps", "--every", "--format")
    shape = parsed.format or "table"
    if parsed.every is not None and shape == "table":
        raise CommandError("--every only applies to --format csv and jsonl. The table summarizes all steps")
    roots = [readable_folder(path) for path in parsed.runs]
    with ExitStack() as stack:
        names = run_names(roots)
        readers = {
            names[root]: stack.enter_context(closing(RunReader(RunFolder(root).database))) for root in roots
        }
        if parsed.explain is not None:
            return _explain(parsed.explain, readers)
        patterns = [part.strip() for part in (parsed.keys or "").split(",") if part.strip()]
        if shape == "table":
            return _table(readers, patterns, parsed.steps)
        chosen = _chosen(readers, patterns, computed=bool(patterns))
        write = write_csv if shape == "csv" else write_jsonl
        write(sys.stdout, readers, chosen, parsed.steps, parsed.every or 1)
    return OK


def _chosen(readers: dict[str, RunReader], patterns: Sequence[str], *, computed: bool) -> list[str]:
    """Return the keys that match the patterns, over all runs."""
    known = list(dict.fromkeys(k for r in readers.values() for k in keys_of(r, computed=computed)))
    logged = any(metric_keys(reader) for reader in readers.values())
    for pattern in patterns:
        if logged and not keys_matching(known, [pattern]):
            raise CommandError(f"--keys: unknown metric {one_line(pattern, 60)}{_near(pattern, known)}")
    return keys_matching(known, patterns)


def _near(word: str, known: Sequence[str]) -> str:
    inside = [key for key in known if word.strip("*").lower() in key.lower()] if word.strip("*") else []
    near = inside[:3] or difflib.get_close_matches(word, known, 3, 0.5)
    return f". Did you mean {', '.join(one_line(key, 60) for key in near)}?" if near else ""


def _table(
    readers: dict[str, RunReader], patterns: Sequence[str], steps: tuple[int | None, int | None]
) -> int:
    keys = in_groups(_chosen(readers, patterns, computed=True))
    found = [
        (name, row)
        for key in keys
        for name, reader in readers.items()
        if (row := figures(reader, key, *steps)) is not None
    ]
    if not found:
        print("no metric was logged yet" if steps == (None, None) else "no metric was logged in these steps")
        return OK
    several = len(readers) > 1
    head = ["metric", *(["run"] if several else []), "newest", "change", "lowest", "highest", "curve", ""]
    lines = [head, *(_cells(name, row, several=several) for name, row in found)]
    numbers = range(2 if several else 1, 6 if several else 5)
    widths = [max(cell_len(cells[i]) for cells in lines) for i in range(len(head))]
    for cells in lines:
        padded = [filled(c, widths[i], right=i in numbers) for i, c in enumerate(cells)]
        print_text(["  ".join(padded).rstrip()])
    return OK


def _cells(name: str, row: MetricFigures, *, several: bool) -> list[str]:
    change = "" if row.change is None else f"{'+' if row.change > 0 else ''}{compact(row.change)}"
    title = one_line(describe(row.key).title, 60)
    missing = f"; {row.missing} of {plural(row.count, 'row')} no number" if row.missing else ""
    newest, low, high = _spelled(row.newest, row.low, row.high)
    return [
        one_line(row.key, 48),
        *([one_line(name, 24)] if several else []),
        newest,
        change,
        low,
        high,
        spark(row.curve, CURVE),
        f"{title if title != one_line(row.key, 60) else ''}{missing}".removeprefix("; "),
    ]


def _spelled(*values: float | None) -> list[str]:
    """Format values of one metric. Exponents get enough decimals to differ."""
    known = [v for v in values if v is not None]
    if not any(known) or max(map(abs, known)) >= 0.001:
        return [compact(v) for v in values]
    texts = iter(told_apart(known))
    return [compact(None) if v is None else next(texts) for v in values]


def _explain(key: str, readers: dict[str, RunReader]) -> int:
    catalogue = [metric.key for metric in METRICS]
    known = list(dict.fromkeys(k for r in readers.values() for k in keys_of(r, computed=True))) + catalogue
    keys = list(dict.fromkeys(keys_matching(known, [key])))
    if not keys and describe(key).group != "other":
        keys = [key]
    if not keys:
        near = _near(key, list(dict.fromkeys(known)))
        raise CommandError(f"--explain: unknown metric {one_line(key, 60)}{near}")
    for number, one in enumerate(keys):
        print_text([*([""] if number else []), *_explained(describe(one), readers)])
    return OK


def _explained(metric: Metric, readers: dict[str, RunReader]) -> Iterator[str]:
    key, title = one_line(metric.key, 80), one_line(metric.title, 80)
    yield key if key == title else f"{key}: {title}"
    yield from (f"  {line}" for line in wrapped(one_line(metric.meaning), TEXT_WIDTH))
    yield from (f"  {line}" for line in wrapped(f"Healthy: {one_line(metric.healthy)}", TEXT_WIDTH))
    if metric.progress:
        yield "  This metric shows progress."
    for name, reader in readers.items():
        row = figures(reader, metric.key)
        if row is not None:
            curve = spark(row.curve, CURVE)
            ends = f"{compact(row.low)} to {compact(row.high)}"
            yield f"  {one_line(name, 40)}: {compact(row.newest)} at step {row.last:,}, {ends}  {curve}"


Steps = tuple[int | None, int | None]
Row = tuple[int, float, dict[str, Any]]
"""Step, Unix time in seconds, values by key."""


def write_csv(
    out: TextIO, readers: Mapping[str, RunReader], keys: Sequence[str], steps: Steps, every: int
) -> None:
    """Write a header and a line per logged row, with missing values empty and NaN as `nan`."""
    several = len(readers) > 1
    table = csv.writer(out, lineterminator="\n")
    table.writerow([*(["run"] if several else []), "step", "at", *map(csv_text, keys)])
    for name, reader in readers.items():
        for step, at, values in rows(reader, keys, steps, every):
            cells = [_cell(values.get(key)) for key in keys]
            table.writerow([*([csv_text(name)] if several else []), step, f"{at:.3f}", *cells])


def write_jsonl(
    out: TextIO, readers: Mapping[str, RunReader], keys: Sequence[str], steps: Steps, every: int
) -> None:
    """Write an object per logged row with the keys in it. None, NaN and infinities are null."""
    several = len(readers) > 1
    for name, reader in readers.items():
        for step, at, values in rows(reader, keys, steps, every):
            row = {**({"run": name} if several else {}), "step": step, "at": round(at, 3), **values}
            out.write(json.dumps(finite_json(row)) + "\n")


def rows(reader: RunReader, keys: Sequence[str], steps: Steps, every: int) -> Iterator[Row]:
    """Yield the rows of a run in a range of steps, for steps that are a multiple of `every`.

    Values computed from a step's groups are added to the step's first row, or get a row if there is none.
    """
    first, last = steps

    def wanted(step: int) -> bool:
        return (first is None or step >= first) and (last is None or step <= last) and step % every == 0

    computed = [key for key in keys if is_computed(key) and key != TOKENS_PER_SECOND]
    waiting = _by_step(reader, computed, steps)
    own = next(waiting, None)
    for step, at, values in _logged(reader, keys):
        while own is not None and own[0] < step:
            if wanted(own[0]):
                yield own
            own = next(waiting, None)
        if own is not None and own[0] == step:
            values |= own[2]
            own = next(waiting, None)
        if wanted(step) and values:
            yield step, at, values
    while own is not None:
        if wanted(own[0]):
            yield own
        own = next(waiting, None)


def _logged(reader: RunReader, keys: Sequence[str]) -> Iterator[Row]:
    after, last = 0, last_metric_row_id(reader)
    while after < last:
        after, points = new_points(reader, after, keys=keys)
        page: dict[int, Row] = {}
        for key in keys:
            for point in points.get(key, ()):
                page.setdefault(point.row, (point.step, point.at, {}))[2][key] = point.value
        for row in sorted(page):
            yield page[row]


def _by_step(reader: RunReader, keys: Sequence[str], steps: Steps) -> Iterator[Row]:
    first, last = steps
    found: dict[int, Row] = {}
    for key in keys:
        for bucket in series_window(reader, key, first, last, buckets=1 << 40):
            found.setdefault(bucket.first, (bucket.first, bucket.first_at, {}))[2][key] = bucket.mean
    for step in sorted(found):
        yield found[step]


def _cell(value: Any) -> Any:
    return "" if value is None else csv_text(value) if isinstance(value, str) else value
