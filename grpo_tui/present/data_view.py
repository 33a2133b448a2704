"""Content of the data view as blocks of labeled text: one row as trained on, or statistics of all rows.

The command prints the blocks, the screen paints them. Whoever shows them must make the text safe, because it
comes from a dataset.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from grpo_tui.core.findings import Finding
from grpo_tui.core.text import message_text, one_line
from grpo_tui.preflight.facts import REJECTED, DataFacts, Lengths, RowView
from grpo_tui.preflight.rewards import GoldReward
from grpo_tui.present.formatting import MISSING, compact, percent, plural

BAR = 30
SIGNS = {"error": ("✗", "bad"), "warning": ("⚠", "attention"), "info": ("·", "dim")}
_SPECIAL = re.compile(r"<[|｜]?[\w▁ /]{1,40}[|｜]?>|\[/?INST\]|</?s>")


@dataclass(frozen=True, slots=True)
class LabelledRow:
    """A line with its label, shown in the color of its role. A text of several lines is wrapped."""

    label: str
    text: str
    role: str = "text"
    marks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DataBlock:
    """A titled section."""

    title: str
    notes: tuple[str, ...]
    rows: tuple[LabelledRow, ...]


def summary(facts: DataFacts | None, findings: Sequence[Finding]) -> list[tuple[int, str, str]]:
    """Return a one-line summary as (rank, text, role), in order. Where space is short, rank 0 stays."""
    if facts is None:
        return [(0, "reading the data …", "dim")]
    parts = [(0, one_line(facts.short, 40), "strong")]
    if facts.total is not None:
        parts.append((2, plural(facts.total, "row"), "text"))
    if facts.train_rows is not None and facts.train_rows != facts.total:
        parts.append((4, f"{facts.train_rows:,} trained on", "text"))
    if facts.held and not facts.sampled:
        parts.append((5, f"{facts.held:,} held out", "text"))
    if facts.sampled:
        parts.append((2, facts.sampled, "attention"))
    if facts.prompt_tokens is not None:
        spread = facts.prompt_tokens
        parts.append((6, f"prompts of {spread.least:,} to {spread.most:,} tokens", "text"))
    errors = sum(finding.severity == "error" for finding in findings)
    warnings = sum(finding.severity == "warning" for finding in findings)
    if errors:
        parts.append((1, f"✗ {plural(errors, 'error')}", "bad"))
    if warnings:
        parts.append((1, f"⚠ {plural(warnings, 'warning')}", "attention"))
    if not errors and not warnings and facts.prompt_tokens is not None:
        parts.append((3, "✓ sound", "good"))
    return parts


def row_blocks(view: RowView, golds: Sequence[GoldReward] | None, waiting: str = "") -> list[DataBlock]:
    """Return one row: the prompt, the reference answer, its rewards unless unknown, then the row's source."""
    of = f" of {view.total:,}" if view.total is not None else ""
    notes = ["trained on" if view.fate == "train" else one_line(view.fate, 60)]
    if view.tokens is not None:
        notes.append(plural(view.tokens, "token"))
    told = (LabelledRow("✗", view.problem, "bad"),) if view.problem else ()
    if not told and view.fate.startswith(REJECTED):
        told = (LabelledRow("✗", view.fate, "bad"),)
    blocks = [DataBlock(f"row {view.number:,}{of}", tuple(notes), told)]
    prompt = None
    if isinstance(view.prompt, str):
        shown = (LabelledRow("", view.prompt),)
        prompt = DataBlock("prompt", ("text, without a chat template",), shown)
    elif view.prompt is not None:
        messages = [(str(m.get("role", "?")), message_text(m.get("content"))) for m in view.prompt]
        rows = tuple(LabelledRow(role, text) for role, text in messages)
        prompt = DataBlock("prompt", (plural(len(messages), "message"),), rows)
    if view.rendered:
        marks = tuple(dict.fromkeys(_SPECIAL.findall(view.rendered)))
        blocks.append(DataBlock("as the model sees it", (), (LabelledRow("", view.rendered, marks=marks),)))
    elif prompt is not None:
        blocks.append(prompt)
    if view.columns:
        answer = view.answer_column
        rows = tuple(
            LabelledRow(name, _text(value), "strong" if name == answer else "text")
            for name, value in view.columns.items()
        )
        note = f"right answer: {one_line(answer, 30)}" if answer else "no column with a right answer"
        blocks.append(DataBlock("what the rewards receive", (note,), rows))
    if view.answer_column:
        blocks.append(_gold_block(golds, waiting))
    if view.rendered and prompt is not None and not isinstance(view.prompt, str):
        blocks.append(prompt)
    source = tuple(
        LabelledRow(name, _text(value), "dim" if value is None else "text")
        for name, value in view.source.items()
    )
    return [*blocks, DataBlock("in the source", (), source)]


def _gold_block(golds: Sequence[GoldReward] | None, waiting: str) -> DataBlock:
    title = "rewards of the right answer"
    if golds is None:
        return DataBlock(title, (), (LabelledRow("", waiting or "loading the rewards…", "dim"),))
    rows = []
    for gold in golds:
        if gold.skipped:
            rows.append(LabelledRow(gold.name, gold.skipped, "dim"))
            continue
        if gold.failure:
            rows.append(LabelledRow(gold.name, f"✗ {gold.failure}", "bad"))
            continue
        told = gold.right is not None and gold.right > (gold.wrong or 0.0)
        same = "" if told else ": it does not look at the answer"
        text = f"{compact(gold.right)} right, {compact(gold.wrong)} wrong{same}   ({gold.form})"
        rows.append(LabelledRow(gold.name, text, "good" if told else "text"))
    return DataBlock(title, (), tuple(rows) or (LabelledRow("", "there are no rewards", "dim"),))


def statistics_blocks(facts: DataFacts, findings: Sequence[Finding]) -> list[DataBlock]:
    """Return statistics of all rows: findings, columns, lengths, answers, filters."""
    blocks = [DataBlock("findings", (), tuple(map(finding_row, findings)))] if findings else []
    blocks.append(DataBlock("columns", (f"{facts.looked_at:,} rows checked",), tuple(_columns(facts))))
    if facts.filters:
        rows = tuple(
            LabelledRow(
                f.name,
                "waits for the tokenizer" if f.drops is None else f"removes {plural(f.drops, 'row')}",
            )
            for f in facts.filters
        )
        blocks.append(DataBlock("removed by filters", (), rows))
    for title, spread in (("prompt, in tokens", facts.prompt_tokens), ("gold, in tokens", facts.gold_tokens)):
        if spread is not None:
            blocks.append(_lengths(title, spread))
    answer = facts.column(facts.answer_column) if facts.answer_column else None
    if answer is not None and answer.top:
        there = sum(kind.count for kind in answer.kinds)
        most = answer.top[0][1]
        once = most == 1
        rows = tuple(
            LabelledRow(text or "(blank)", f"{_bar(count, most)} {count:,}  {percent(count / max(1, there))}")
            for text, count in answer.top
        )
        notes = () if answer.distinct is None else (f"{answer.distinct:,} different",)
        blocks.append(DataBlock("answers", (*notes, "each once") if once else notes, () if once else rows))
    return blocks


def finding_row(finding: Finding) -> LabelledRow:
    """Return a finding as a line, with its fix."""
    sign, role = SIGNS[finding.severity]
    fix = ""
    if finding.fix is not None:
        value = json.dumps(finding.fix.value, ensure_ascii=False, default=str)
        fix = f"\nfix: {finding.fix.field}: {value}"
    return LabelledRow(sign, f"{finding.message}{fix}", role)


def _columns(facts: DataFacts) -> list[LabelledRow]:
    rows = []
    for column in facts.columns:
        kinds = ", ".join(
            kind.kind if len(column.kinds) == 1 else f"{kind.kind} {kind.count:,}" for kind in column.kinds
        )
        parts = [kinds or "empty"]
        if column.source and column.source != column.name:
            parts.append(f"from {one_line(column.source, 30)}")
        if column.nulls:
            parts.append(f"{column.nulls:,} null")
        if column.empties:
            parts.append(f"{column.empties:,} blank")
        if column.distinct is not None:
            parts.append(f"{column.distinct:,} different")
        rows.append(LabelledRow(column.name, ", ".join(parts)))
    if facts.duplicates:
        rows.append(LabelledRow("", f"{plural(facts.duplicates, 'prompt')} twice or more", "attention"))
    if facts.overlap:
        rows.append(LabelledRow("", f"{facts.overlap:,} evaluation rows are also trained on", "attention"))
    return rows


def _lengths(title: str, spread: Lengths) -> DataBlock:
    most = max((count for _, _, count in spread.bins), default=1)
    notes = (
        f"median {spread.p50:,}",
        f"95 % {spread.p95:,}",
        f"99 % {spread.p99:,}",
        f"most {spread.most:,}",
    )
    wide = len(f"{spread.most:,}")
    rows = [
        LabelledRow(
            f"{first:>{wide},}" if first == last else f"{first:>{wide},} to {last:>{wide},}",
            f"{_bar(n, most)} {n:,}",
        )
        for first, last, n in spread.bins
    ]
    named = ", ".join(f"row {row:,} ({count:,})" for row, count in spread.longest)
    rows.append(LabelledRow("longest", named or MISSING, "dim"))
    return DataBlock(title, notes, tuple(rows))


def _bar(count: int, most: int) -> str:
    return "▇" * max(1 if count else 0, round(BAR * count / max(1, most)))


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return "null"
    return json.dumps(value, ensure_ascii=False, default=str)
