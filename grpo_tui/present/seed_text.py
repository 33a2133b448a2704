"""Format sets of seeds as cells of a table, for the command and the report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from grpo_tui.core.text import one_line
from grpo_tui.present.comparison_text import signed
from grpo_tui.present.formatting import MISSING, digits_apart, fixed
from grpo_tui.present.run_rewards import TOTAL, function_of
from grpo_tui.present.seed_sets import EVALUATION, SeedSet, Versus, compared, measures_of


def measure_name(measure: str, sets: Sequence[SeedSet]) -> str:
    """Return the name of a measure as a heading."""
    if measure == EVALUATION:
        deciding = next((run.deciding for one in sets for run in one.runs if run.deciding), "")
        return f"evaluation: {one_line(deciding, 30)}"
    if measure == TOTAL:
        return "total reward"
    return one_line(function_of(measure), 40)


def set_words(one: SeedSet, measure: str) -> str:
    """Return the mean over the complete runs of a set, and the range of several."""
    values = list(one.final(measure).values())
    if not values:
        return MISSING
    digits = digits_apart(values)
    middle = fixed(sum(values) / len(values), digits)
    if len(values) == 1:
        return middle
    return f"{middle} ({fixed(min(values), digits)} to {fixed(max(values), digits)})"


def difference_words(versus: Versus) -> str:
    """Return a difference with its 95 % interval, if it has one."""
    found = versus.difference
    if found is None:
        return MISSING
    if found.low is None or found.high is None:
        return signed([found.mean])[0]
    middle, low, high = signed([found.mean, found.low, found.high])
    return f"{middle} (95 %: {low} to {high})"


def rows(sets: Sequence[SeedSet]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each measure: every set, and for two sets their difference."""
    differences = {one.measure: one for one in compared(sets)} if len(sets) == 2 else {}
    for measure in measures_of(sets):
        cells = [set_words(one, measure) for one in sets]
        cells += [difference_words(differences[measure])] if differences else []
        yield (measure_name(measure, sets), *cells)
