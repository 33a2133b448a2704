"""Build a report on one or more runs: differing settings, results side by side, charts, and each run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from grpo_tui.present.document import Block, Chart, Heading, Items, Paragraph, Table
from grpo_tui.present.formatting import MISSING, digits_apart, duration, fixed
from grpo_tui.present.run_rewards import TOTAL, Reward
from grpo_tui.present.seed_sets import SeedRun, SeedSet, median_buckets, rows, sentences, sets_of
from grpo_tui.present.svg_chart import Curve
from grpo_tui.present.window_load import read_overlay
from grpo_tui.ship.card import compared, run_blocks
from grpo_tui.ship.run_facts import RunFacts, at_home


def title(runs: Sequence[RunFacts]) -> str:
    """Return the title of the report."""
    return runs[0].name if len(runs) == 1 else f"{len(runs)} runs"


def report(runs: Sequence[RunFacts]) -> Iterator[Block]:
    """Yield the report."""
    yield Heading(title(runs))
    if len(runs) == 1:
        yield from run_blocks(runs[0], 2)
        yield from _charts(runs, sets_of([SeedRun(runs[0].root, runs[0].name)]))
        return
    facts = read_overlay([run.root for run in runs], [run.name for run in runs])
    yield from _seeds(facts.sets)
    yield Heading("Results", 2)
    yield Table(("", *(run.name for run in runs)), tuple(_results(runs)))
    if facts.settings:
        yield Heading("Settings that differ", 2)
        head = ("", *(one.label for one in facts.sets))
        yield Table(head, tuple((one.name, *map(at_home, one.values)) for one in facts.settings))
    yield from _charts(runs, facts.sets)
    for run in runs:
        yield Heading(run.name, 2)
        yield from run_blocks(run, 3)


def _seeds(sets: Sequence[SeedSet]) -> Iterator[Block]:
    """Yield what runs that differ only by seed show together; nothing if there are none."""
    said = sentences(sets)
    if not said:
        return
    yield Heading("Seeds", 2)
    yield Items(tuple(said))
    found = tuple(rows(sets))
    if found:
        last = ("Difference",) if len(sets) == 2 else ()
        yield Table(("Mean (lowest to highest)", *(one.label for one in sets), *last), found)
    for one in sets:
        left_out = [f"{run.name} ({run.state} at step {run.step:,})" for run in one.runs if not run.complete]
        if left_out:
            yield Paragraph(f"Not counted in {one.name}: {', '.join(left_out)}.")


def _results(runs: Sequence[RunFacts]) -> Iterator[tuple[str, ...]]:
    yield ("State", *(MISSING if run.imported else run.status.state for run in runs))
    yield ("Steps", *(f"{run.status.step:,}" for run in runs))
    yield ("Duration", *(duration(run.duration_s) for run in runs))
    for key, name in _rewards(runs).items():
        yield (name, *(_ends(_reward(run, key)) for run in runs))
    verdicts = [" ".join(compared(run)[0]) or MISSING for run in runs]
    if any(verdict != MISSING for verdict in verdicts):
        yield ("Comparison", *verdicts)


def _rewards(runs: Sequence[RunFacts]) -> dict[str, str]:
    found = {one.key: one.name for run in runs for one in run.rewards}
    return dict(sorted(found.items(), key=lambda one: one[0] != TOTAL))


def _reward(run: RunFacts, key: str) -> Reward | None:
    return next((one for one in run.rewards if one.key == key), None)


def _ends(reward: Reward | None) -> str:
    if reward is None:
        return MISSING
    digits = digits_apart([reward.start, reward.end])
    return f"{fixed(reward.start, digits)} → {fixed(reward.end, digits)}"


def _charts(runs: Sequence[RunFacts], sets: Sequence[SeedSet]) -> Iterator[Block]:
    facts = {run.root: run for run in runs}
    groups = [(one.label, [facts[run.root] for run in one.runs]) for one in sets]
    for key, name in _rewards(runs).items():
        curves = []
        for label, members in groups:
            found = [one.series.buckets for run in members if (one := _reward(run, key)) and one.series.count]
            if found:
                curves.append(Curve(label, median_buckets(found) if len(found) > 1 else found[0]))
        if curves:
            yield Heading(f"Reward: {name}" if key != TOTAL else "Total reward", 2)
            yield Chart(name, tuple(curves))
    if any(len(members) > 1 for _, members in groups):
        yield Paragraph(
            "For several seeds, the line is the median and the band goes from the lowest to the highest run, "
            "each smoothed."
        )
