"""`grpo-tui prompts`: which prompts a run never solved, always solved, learned or forgot."""

from __future__ import annotations

import csv
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from grpo_tui.cli.errors import OK, CommandError, reported
from grpo_tui.cli.look import readable_folder
from grpo_tui.cli.plain import print_json, print_text, terminal_width
from grpo_tui.config.draft_file import DraftFileError, write_text
from grpo_tui.core.prompt_memory import CLASSES, PromptMemory
from grpo_tui.core.text import csv_text, one_line, prompt_text, shell_word
from grpo_tui.present.formatting import percent, plural
from grpo_tui.present.prompt_memory import ROW, chosen, prompt_row, right_line, table_head, table_line
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.prompt_memory import PromptMemories, prompt_memories, with_prompts
from grpo_tui.store.reader import RunReader

TABLE_ROWS = 40
EXCERPT = 200


def prompts(parsed: Any) -> int:
    """`grpo-tui prompts RUN [--class …] [--sort KEY] [--limit N] [--json|--csv] [--export FILE]`."""
    kinds = _kinds(parsed.classes)
    root = readable_folder(parsed.run)
    with closing(RunReader(RunFolder(root).database)) as reader:
        found = prompt_memories(reader)
        rows = chosen(found.prompts, kinds, parsed.sort or "")
        kept = rows[: parsed.limit] if parsed.limit else rows
        if parsed.export is not None:
            return _export(reader, kept, parsed.export)
        if parsed.json:
            listed = [prompt_row(one, prompt) for one, prompt in with_prompts(reader, kept)]
            print_json({"right": found.right, "counts": found.counts(), "prompts": listed})
        elif parsed.csv:
            _write_csv(reader, kept)
        else:
            shown = kept if parsed.limit else rows[:TABLE_ROWS]
            print_text(_table(reader, found, shown, len(rows)))
    return OK


def _kinds(text: str | None) -> tuple[str, ...]:
    kinds = tuple(part.strip() for part in (text or "").split(",") if part.strip())
    for kind in kinds:
        if kind not in CLASSES:
            raise CommandError(
                f"--class: there is no class {one_line(kind, 40)}; the classes are {', '.join(CLASSES)}"
            )
    return kinds


def _table(reader: RunReader, found: PromptMemories, shown: Sequence[PromptMemory], of: int) -> Iterator[str]:
    yield right_line(found)
    if found.right is None:
        return
    for kind, count in found.counts().items():
        share = percent(count / max(1, len(found.prompts)))
        yield f"  {kind:10}{count:>7,}  {share:>6}  {CLASSES[kind]}"
    if not shown:
        return
    width = terminal_width()
    yield ""
    yield table_head()
    for one, prompt in with_prompts(reader, shown):
        yield table_line(one, prompt_text(prompt), width)
    if of > len(shown):
        yield f"… {of - len(shown):,} more; --limit {of} shows all"


def _write_csv(reader: RunReader, rows: Sequence[PromptMemory]) -> None:
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(ROW)
    for one, prompt in with_prompts(reader, rows):
        table.writerow([*list(prompt_row(one, prompt).values())[:-1], csv_text(prompt_text(prompt))])


def _export(reader: RunReader, rows: Sequence[PromptMemory], file: Path) -> int:
    """Write a filter file, and say how to use it."""
    if not rows:
        raise CommandError("--export: no prompt is of these classes, so there is nothing to filter by")
    if os.path.lexists(file):
        raise CommandError(f"{file} already exists and was left unchanged. Choose another file")
    write_filter(reader, rows, file)
    name = shell_word(file)
    print(f"wrote {plural(len(rows), 'prompt')} to {name}. In the config of the next run, one of:")
    print(f"  grpo_tui.filters: {{exclude: {name}}}   trains without them")
    print(f"  grpo_tui.filters: {{only: {name}}}      trains on nothing else")
    return OK


def write_filter(reader: RunReader, rows: Sequence[PromptMemory], file: Path) -> None:
    """Write a filter file: a JSON line for each prompt."""
    lines = [
        {**prompt_row(one, prompt), "prompt": one_line(prompt_text(prompt), EXCERPT)}
        for one, prompt in with_prompts(reader, rows)
    ]
    with reported(DraftFileError):  # written whole or not at all: half a file would filter too little
        write_text(file, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
