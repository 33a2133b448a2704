"""Build a report on one or more runs: differing settings, results side by side, charts, and each run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from grpo_tui.present.document import Block, Chart, Heading, Table
from grpo_tui.present.formatting import MISSING, digits_apart, duration, fixed
from grpo_tui.present.svg_chart import Curve
from grpo_tui.present.window_load import read_overlay
from grpo_tui.ship.card import compared, run_blocks
from grpo_tui.ship.run_facts import TOTAL, Reward, RunFacts, at_home


def title(runs: Sequence[RunFacts]) -> str:
    """Return the title of the report."""
    return runs[0].name if len(runs) == 1 else f"{len(runs)} runs"


def report(runs: Sequence[RunFacts]) -> Iterator[Block]:
    """Yield the report."""
    yield Heading(title(runs))
    if len(runs) == 1:
        yield from run_blocks(runs[0], 2)
        yield from _charts(runs)
        return
    head = ("", *(run.name for run in runs))
    yield Heading("Results", 2)
    yield Table(head, tuple(_results(runs)))
    settings = read_overlay([run.root for run in runs]).settings
    if settings:
        yield Heading("Settings that differ", 2)
        yield Table(head, tuple((one.name, *map(at_home, one.values)) for one in settings))
    yield from _charts(runs)
    for run in runs:
        yield Heading(run.name, 2)
        yield from run_blocks(run, 3)


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


def _charts(runs: Sequence[RunFacts]) -> Iterator[Block]:
    for key, name in _rewards(runs).items():
        found = [(run.name, reward) for run in runs if (reward := _reward(run, key)) is not None]
        curves = tuple(Curve(run, reward.series.buckets) for run, reward in found if reward.series.count)
        if curves:
            yield Heading(f"Reward: {name}" if key != TOTAL else "Total reward", 2)
            yield Chart(name, curves)
