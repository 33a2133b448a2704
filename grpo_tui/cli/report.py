"""`grpo-tui report`: write one or several runs to a file."""

from __future__ import annotations

from typing import Any

from grpo_tui.cli.card import folder_named, write_new
from grpo_tui.cli.errors import OK
from grpo_tui.cli.look import readable_folder
from grpo_tui.present.document import html_page, markdown
from grpo_tui.present.runs_view import run_names
from grpo_tui.ship.report import report, title
from grpo_tui.ship.run_facts import read_facts


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
