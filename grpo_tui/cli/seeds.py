"""`grpo-tui seeds`: compare runs that differ only by seed, as sets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from grpo_tui.cli.card import folder_named
from grpo_tui.cli.errors import FAILED, OK
from grpo_tui.cli.look import readable_folder
from grpo_tui.cli.plain import print_json, print_text, terminal_width
from grpo_tui.core.text import filled, one_line, wrapped
from grpo_tui.present.formatting import MISSING
from grpo_tui.present.runs_view import run_names
from grpo_tui.present.seed_sets import (
    MORE_SEEDS,
    SeedSet,
    compared,
    read_seed_run,
    rows,
    sentences,
    sets_of,
    to_json,
)

NAME, VALUE = 24, 24


def show_seeds(parsed: Any) -> int:
    """`grpo-tui seeds RUN…`. Exit 1 when a set is worse than the first."""
    roots = {folder_named(path): readable_folder(path) for path in parsed.runs}
    names = run_names(list(roots))
    sets = sets_of([read_seed_run(root, names[folder]) for folder, root in roots.items()])
    if parsed.json:
        print_json(to_json(sets))
    else:
        print_text(_lines(sets, terminal_width()))
    deciding = {one.other.name: one for one in reversed(compared(sets))}
    worse = [
        one for one in deciding.values() if one.difference is not None and one.difference.word == "worse"
    ]
    return FAILED if worse else OK


def _lines(sets: Sequence[SeedSet], width: int) -> Iterator[str]:
    said = sentences(sets)
    if not said:
        said = [f"No two of these runs differ only by seed. Train several seeds with {MORE_SEEDS}"]
    for text in said:
        yield from wrapped(text, width)
    for other in sets[1:] or sets[:1]:
        yield from _table([sets[0], other] if other is not sets[0] else [other])
    for one in sets:
        yield from ("", one.label)
        for run in one.runs:
            seed = MISSING if run.seed is None else f"seed {run.seed}"
            left_out = "" if run.complete else "   not counted"
            yield f"  {seed:10}  {one_line(str(run.root))}   {run.state} at step {run.step:,}{left_out}"


def _table(sets: Sequence[SeedSet]) -> Iterator[str]:
    found = list(rows(sets))
    if not found:
        return
    heads = "".join(f"{one_line(one.label, VALUE):>{VALUE + 2}}" for one in sets)
    yield from ("", f"{'':{NAME}}{heads}" + ("   difference" if len(sets) > 1 else ""))
    for name, *cells in found:
        aligned = "".join(f"{cell:>{VALUE + 2}}" for cell in cells[: len(sets)])
        yield "   ".join([f"{filled(one_line(name, NAME), NAME)}{aligned}", *cells[len(sets) :]])
