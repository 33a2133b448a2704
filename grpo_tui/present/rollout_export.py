"""Write completions as JSON lines, CSV or Markdown, one at a time, in constant memory.

JSON lines lose nothing. CSV and Markdown make control characters visible, and no CSV cell is a formula.
"""

from __future__ import annotations

import csv
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TextIO

from grpo_tui.core.exchange import finite_json
from grpo_tui.core.text import csv_text, one_line, safe
from grpo_tui.present.formatting import compact, plural
from grpo_tui.store.query_functions import as_text
from grpo_tui.store.rollouts import Rollout, keys_of
from grpo_tui.store.search import Found

_TICKS = re.compile("`+")


def write_jsonl(out: TextIO, rows: Iterable[Rollout], *, everything: bool) -> None:
    """Write one object per completion with the documented keys. None, NaN and infinities are null."""
    for row in rows:
        out.write(json.dumps(finite_json(row.to_json(everything=everything))) + "\n")


def write_csv(out: TextIO, rows: Iterable[Rollout], names: Sequence[str], *, everything: bool) -> None:
    """Write a header and a line per completion. `rewards.NAME` is a column; lists and objects are JSON."""
    table = csv.writer(out, lineterminator="\n")
    rows = iter(rows)
    first = list(itertools.islice(rows, 1))
    keys = keys_of(everything=everything, masks=bool(first) and first[0].masked is not None)
    header = [key for key in keys if key != "rewards"]
    table.writerow([*header, *(csv_text(f"rewards.{name}") for name in names)])
    for row in itertools.chain(first, rows):
        values = row.to_json(everything=everything)
        rewards = values["rewards"]
        table.writerow(
            [*(_cell(values[key]) for key in header), *(_cell(rewards.get(name)) for name in names)]
        )


def _cell(value: Any) -> Any:
    """Format a cell: None is empty, booleans are words, other complex values JSON. No text is a formula."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, int | float) else csv_text(as_text(value))


def write_markdown(out: TextIO, rows: Iterable[Rollout], *, everything: bool) -> None:
    """Write a section per completion: a line of figures, then prompt and completion in safe fences."""
    for number, row in enumerate(rows):
        if number:
            out.write("\n")
        out.write("\n".join(_section(row, everything=everything)) + "\n")


def _section(row: Rollout, *, everything: bool) -> Iterator[str]:
    yield f"### Step {row.step} · group {row.group} · completion {row.index}"
    yield ""
    parts = [f"{_inline(name)} {compact(value)}" for name, value in row.rewards.items()]
    ends = {True: ", truncated", False: ", ended", None: ""}[row.truncated]
    ends += ", masked" if row.masked else ""
    yield f"- reward {compact(row.reward)}{': ' + ', '.join(parts) if parts else ''}"
    mode = "" if row.mode == "train" else f", {row.mode}"
    yield f"- advantage {compact(row.advantage)}, {_tokens(row)}{ends}{mode}"
    if everything:
        for label, values in (("column", row.columns), ("extra", row.extra)):
            yield from (
                f"- {label} {_inline(key)}: {_inline(as_text(value))}" for key, value in values.items()
            )
        if row.superseded:
            yield f"- attempt {row.attempt}, superseded: a resume has done this step again"
    yield ""
    yield from _messages("Prompt", row.prompt)
    yield from _messages("Completion", row.messages or row.completion)


def _tokens(row: Rollout) -> str:
    characters = plural(len(row.completion), "character")
    return characters if row.tokens is None else plural(row.tokens, "token")


def _messages(title: str, text: Any) -> Iterator[str]:
    if isinstance(text, str):
        yield f"**{title}**"
        yield ""
        yield from _fenced(text)
        return
    for message in text if isinstance(text, list) else ():
        yield f"**{title}**, {_inline(message.get('role', '?'))}"
        yield ""
        content = message.get("content")
        rest = {key: value for key, value in message.items() if key not in ("role", "content") and value}
        yield from _fenced("" if content is None else as_text(content))
        if rest:
            yield from _fenced(as_text(rest))


def _fenced(text: str) -> Iterator[str]:
    """Yield a fenced block that its content cannot close."""
    shown = safe(text)
    longest = max(map(len, _TICKS.findall(shown)), default=0)
    fence = "`" * max(3, longest + 1)
    yield f"{fence}text"
    yield shown
    yield fence
    yield ""


def write_rows(
    out: TextIO, rows: Iterable[Rollout], names: Sequence[str], kind: str, *, everything: bool
) -> None:
    """Write completions in the format `jsonl`, `csv` or `md`."""
    if kind == "csv":
        write_csv(out, rows, names, everything=everything)
    elif kind == "md":
        write_markdown(out, rows, everything=everything)
    else:
        write_jsonl(out, rows, everything=everything)


def _inline(text: Any) -> str:
    line = one_line(str(text), 200)
    if re.fullmatch(r"[\w .,:+-]*", line) and "__" not in line:
        return line
    ticks = "`" * (1 + max(map(len, _TICKS.findall(line)), default=0))
    return (
        f"{ticks} {line} {ticks}" if line.startswith("`") or line.endswith("`") else f"{ticks}{line}{ticks}"
    )


def write_steps(out: TextIO, found: Found, kind: str) -> None:
    """Write the distribution over steps, one object or table row per bucket."""
    keys = ("first_step", "last_step", "hits", "of")
    rows = [{key: getattr(bucket, key) for key in keys} for bucket in found.over_steps]
    if kind == "jsonl":
        out.writelines(json.dumps(row) + "\n" for row in rows)
        return
    table = csv.DictWriter(out, keys, lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
