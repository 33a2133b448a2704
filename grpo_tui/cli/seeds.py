"""`grpo-tui seeds`: compare runs that differ only by seed, as sets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from grpo_tui.cli.card import folder_named
from grpo_tui.cli.errors import FAILED, OK
from grpo_tui.cli.look import readable_folder
from grpo_tui.cli.plain import print_json, print_text, terminal_width
from grpo_tui.core.text import filled, one_line, wrapped
from grpo_tui.present import seed_sets
from grpo_tui.present.formatting import MISSING
from grpo_tui.present.runs_view import run_names

NAME, VALUE = 24, 24


def show_seeds(parsed: Any) -> int:
    """`grpo-tui seeds RUN…`. Exit 1 when a set is worse than the first."""
    roots = {folder_named(path): readable_folder(path) for path in parsed.runs}
    names = run_names(list(roots))
    sets = seed_sets.sets_of([seed_sets.read_seed_run(root, names[folder]) for folder, root in roots.items()])
    if parsed.json:
        print_json(seed_sets.to_json(sets))
    else:
        print_text(_lines(sets, terminal_width()))
    deciding = {one.other.name: one for one in reversed(seed_sets.compared(sets))}
    worse = [
        one for one in deciding.values() if one.difference is not None and one.difference.word == "worse"
    ]
    return FAILED if worse else OK


def _lines(sets: Sequence[seed_sets.SeedSet], width: int) -> Iterator[str]:
    said = seed_sets.sentences(sets)
    if not said:
        said = [f"No two of these runs differ only by seed. Train several seeds with {seed_sets.MORE_SEEDS}"]
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


def _table(sets: Sequence[seed_sets.SeedSet]) -> Iterator[str]:
    found = list(seed_sets.rows(sets))
    if not found:
        return
    heads = "".join(f"{one_line(one.label, VALUE):>{VALUE + 2}}" for one in sets)
    yield from ("", f"{'':{NAME}}{heads}" + ("   difference" if len(sets) > 1 else ""))
    for name, *cells in found:
        aligned = "".join(f"{cell:>{VALUE + 2}}" for cell in cells[: len(sets)])
        yield "   ".join([f"{filled(one_line(name, NAME), NAME)}{aligned}", *cells[len(sets) :]])
