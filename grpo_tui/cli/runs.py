"""The command that lists runs."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from grpo_tui.cli.errors import OK, CommandError
from grpo_tui.cli.look import NAMES, number_or_dash
from grpo_tui.cli.plain import print_json, show_progress
from grpo_tui.cli.screen import default_roots
from grpo_tui.core.text import one_line
from grpo_tui.present.formatting import from_here, plural
from grpo_tui.present.glyphs import ascii_locale, to_ascii
from grpo_tui.present.runs_filter import RunsFilter, branch, in_families, listed_parents, read_filter
from grpo_tui.present.runs_view import read_run, run_names
from grpo_tui.store.importers.copies import find_sources
from grpo_tui.store.layout import RunFolder, find_runs
from grpo_tui.store.spec import checkpoint_forked
from grpo_tui.store.status import Status

PROGRESS_S = 0.5
"""Interval of the progress line."""


def runs(parsed: Any) -> int:
    """`grpo-tui runs [ROOT…] [--filter WORDS] [--json]`."""
    roots = getattr(parsed, "roots", None) or default_roots()
    for root in roots:
        if not root.is_dir():
            raise CommandError(f"{root}: {'this is a file' if root.exists() else 'no such folder'}")
    wanted = read_filter(parsed.filter if getattr(parsed, "filter", None) else "")
    if wanted.trouble:
        raise CommandError(f"--filter: {wanted.trouble}")
    paths = find_runs(roots)
    as_json = bool(getattr(parsed, "json", False))
    forks = {path: fork for path in paths if (fork := checkpoint_forked(RunFolder(path))) is not None}
    generations: dict[Path | None, int] = {}
    forked = {path: checkpoint.parent for path, checkpoint in forks.items()}
    parents = listed_parents(paths, forked)
    order = paths if as_json else [path for path, _ in in_families(paths, forked)]
    found = []
    for path, look in _looks(order, wanted):
        found.append((path, look))
        if not as_json:
            generations[path] = generations.get(parents.get(path), -1) + 1
            _print_run(path, look, generations[path])
    # Logs of TRL and verl have no state or reward, so they never match a filter on these.
    newest = [] if wanted.tests else [(source, source.files()) for source in find_sources(roots)]
    logs = [(source, files[-1][0]) for source, files in newest if files]
    if as_json:
        found += [(source.root, Status(state="logs", step=step)) for source, step in logs]
        rows = [
            {"path": str(path), **look.to_json(), "forked_from": str(forks[path]) if path in forks else None}
            for path, look in found
        ]
        print_json(rows, ascii_only=True, indent=1)
        return OK
    if not found and paths:
        print(f"no match in {plural(len(paths), 'run')}. Leave out --filter to see all")
    elif not found and not logs:
        print(
            "no runs here yet. Try one with `grpo-tui demo`, or start your own with `grpo-tui train CONFIG`"
        )
    for source, step in logs:
        tool, name = NAMES.get(source.kind, source.kind), one_line(from_here(source.root))
        print(f"{'logs':9} {f'step {step}' if step else '':11}  read-only, of {tool:>4}  {name}")
    return OK


def _looks(paths: Sequence[Path], wanted: RunsFilter) -> Iterator[tuple[Path, Status]]:
    """Yield each matching run with its status. Print progress, and an error for an unreadable run."""
    names, now, told_at, told = run_names(paths), time.time(), time.monotonic(), False
    for number, path in enumerate(paths):
        if time.monotonic() - told_at > PROGRESS_S:
            told_at, told = time.monotonic(), True
            show_progress(f"read {number} of {plural(len(paths), 'run')}")
        row, look = read_run(path, names[path])
        shown = look is None or wanted.holds(row, now)
        if told and (shown or path == paths[-1]):
            show_progress("")
            told = False
        if look is None:
            where = "" if row.trouble.startswith(str(path)) else f"{one_line(from_here(path))}: "
            print(f"grpo-tui: {where}{row.trouble}", file=sys.stderr)
        elif shown:
            yield path, look


def _print_run(path: Path, look: Status, generation: int) -> None:
    total = f"/{look.total_steps}" if look.total_steps else ""
    mark = to_ascii(branch(generation)) if ascii_locale(os.environ) else branch(generation)
    reward, name = look.metrics.get("reward"), mark + one_line(from_here(path))
    print(f"{look.state:9} step {look.step}{total:6}  reward {number_or_dash(reward):>7}  {name}")
