"""`grpo-tui replay`: a run as it was after a step, on the screen or as text. Nothing is written."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from grpo_tui.cli.doctor import WIDEST, finding_lines
from grpo_tui.cli.errors import OK, CommandError
from grpo_tui.cli.look import describe, readable_folder
from grpo_tui.cli.plain import has_screen, print_json, print_text, terminal_width
from grpo_tui.cli.screen import show
from grpo_tui.cli.words import refuse_unused
from grpo_tui.core.text import one_line, shell_word
from grpo_tui.present.formatting import from_here
from grpo_tui.present.replay import start_replay
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.reader import RunReader
from grpo_tui.store.replay import SPEED, Replay, end
from grpo_tui.store.status import Status, read_status


def replay(parsed: Any) -> int:
    """`grpo-tui replay RUN [--at STEP] [--speed N] [--headless] [--json]`."""
    plain = parsed.headless or parsed.json or not sys.stdout.isatty()
    if plain:
        refuse_unused(parsed, "without the screen", "--speed")
    root = readable_folder(parsed.run)
    database = RunFolder(root).database
    shown = start_replay(root, parsed.at, parsed.speed or SPEED)
    try:
        return _show(parsed, root, shown, plain)
    finally:
        end(database)


def _show(parsed: Any, root: Path, shown: Replay, plain: bool) -> int:
    with closing(RunReader(RunFolder(root).database)) as reader:
        look, moment = read_status(root, reader), reader.moment
    if moment is None or not shown.recorded:
        raise CommandError(f"{from_here(root)}: no step was recorded, so there is nothing to replay")
    first, last = shown.steps[0], shown.steps[-1]
    if parsed.at is not None and not first <= parsed.at <= last:
        raise CommandError(f"--at {parsed.at}: the run recorded steps {first:,} to {last:,}")
    if not plain and has_screen("one step"):
        return show(root)
    if parsed.json:
        told = [finding.to_alert() for finding in look.findings]
        print_json({**look.to_json(), "findings": told}, ascii_only=True, indent=1)
    else:
        print_text(_lines(look, shell_word(from_here(parsed.run)), moment.now))
    return OK


def _lines(look: Status, run: str, now: float) -> Iterator[str]:
    """Yield the lines of `status`, then each finding as in `doctor`, with what helps."""
    yield from map(one_line, describe(replace(look, findings=()), now))
    for finding in look.findings:
        yield ""
        yield from finding_lines(finding, run, min(terminal_width(), WIDEST))
