"""`grpo-tui card` and `grpo-tui report`: write about runs to a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from grpo_tui.cli.errors import OK, CommandError, reported
from grpo_tui.cli.look import readable_folder
from grpo_tui.cli.plain import print_text
from grpo_tui.config.draft_file import DraftFileError, write_text
from grpo_tui.core.text import safe
from grpo_tui.present.document import html_page, markdown
from grpo_tui.present.runs_view import run_names
from grpo_tui.present.svg_chart import line_chart
from grpo_tui.ship.card import CARD, card, charts_of, marked, refusal, report, title
from grpo_tui.ship.run_facts import read_facts


def show_card(parsed: Any) -> int:
    """`grpo-tui card RUN [-o FILE | --write]`."""
    root, folder = readable_folder(parsed.run), folder_named(parsed.run)
    if parsed.write and (why := refusal(folder / CARD)):
        raise CommandError(why)
    target: Path | None = folder / CARD if parsed.write else parsed.output
    facts = read_facts(root, folder.name)
    charts = charts_of(facts, target.stem) if target is not None else ()
    files = [target.with_name(one.file) for one in charts] if target is not None else []
    for file in (*files, *([parsed.output] if parsed.output else [])):
        if not parsed.write or file.is_symlink():
            _refuse_existing(file)
    for file, one in zip(files, charts, strict=True):
        write_new(file, f"{line_chart(one.curves, one.label)}\n", replaces=parsed.write)
    text = card(facts, charts)
    write_new(target, marked(text) if parsed.write else text, replaces=parsed.write)
    return OK


def folder_named(path: Path) -> Path:
    """Return the absolute path of a folder. For a `run.db`, return the folder it is in."""
    return path.absolute().parent if path.name == "run.db" else path.resolve()


def write_new(target: Path | None, text: str, *, replaces: bool = False) -> None:
    """Write a text to a new file, or print it without a `target`."""
    if target is None:
        print_text(text.splitlines())
        return
    if not replaces:
        _refuse_existing(target)
    with reported(DraftFileError):
        write_text(target, text)
    print(safe(f"{target}: {len(text.splitlines())} lines"))


def _refuse_existing(target: Path) -> None:
    if os.path.lexists(target):
        raise CommandError(f"{target} already exists and was left unchanged. Choose another file")


def show_report(parsed: Any) -> int:
    """`grpo-tui report RUN… [--format md|html] [-o FILE]`."""
    roots = {folder_named(path): readable_folder(path) for path in parsed.runs}
    names = run_names(list(roots))
    runs = [read_facts(root, names[folder]) for folder, root in roots.items()]
    page = parsed.output is not None and parsed.output.suffix in (".html", ".htm")
    is_html = parsed.format == "html" or (parsed.format is None and page)
    text = html_page(title(runs), report(runs)) if is_html else markdown(report(runs))
    write_new(parsed.output, text)
    return OK
