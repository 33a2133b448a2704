"""Remedies that are tried on the record of a run before they are offered."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from grpo_tui.core import records as r
from grpo_tui.core.findings import Finding, Remedy
from grpo_tui.core.statistics import signal_of
from grpo_tui.health import remedies
from grpo_tui.health.facts import Settings, facts_of
from grpo_tui.health.remedies import _differs, with_tried
from grpo_tui.store.connection import open_writer
from grpo_tui.store.reader import RunReader
from grpo_tui.store.writer import Writer

Scores = Sequence[Sequence[float | None]]


def a_group(index: int, prompt: str, scores: Scores, weights: Sequence[float]) -> r.Group:
    """A group with TRL's totals, and advantages that are 0 where these are equal."""
    totals = [sum(w * (s or 0) for w, s in zip(weights, row, strict=True)) for row in scores]
    middle = sum(totals) / len(totals)
    return r.Group(index, prompt, {}, tuple(
        r.Completion(n, f"{n}", tuple(row), total, total - middle, 3, False)
        for n, (row, total) in enumerate(zip(scores, totals, strict=True))
    ))  # fmt: skip


class Run:
    """A record made by hand: steps of groups, scored by named functions."""

    def __init__(self, folder: Path, names: Sequence[str], weights: Sequence[float]) -> None:
        self.database, self.weights = folder / "run.db", weights
        self._connection = open_writer(self.database)
        self._writer = Writer(self._connection)
        self.write(r.AttemptStarted(1, 0.0, "here", 1, total_steps=99))
        self.write(*(r.RewardFunctionInfo(1, n, name, weights[n]) for n, name in enumerate(names)))

    def write(self, *records: r.Record) -> None:
        self._writer.write(list(records))

    def step(self, step: int, groups: Sequence[tuple[str, Scores]]) -> None:
        made = tuple(a_group(n, prompt, scores, self.weights) for n, (prompt, scores) in enumerate(groups))
        self.write(r.GenerationBatch(1, step, 0, "train", step, step, 0.0, made))

    def tried(
        self, rule: str, steps: tuple[int, int], severity: str = "warning", **evidence: object
    ) -> Finding:
        own = (Remedy("in words"),)
        finding = Finding(rule, severity, None, None, "said", None, *steps, evidence, own)  # type: ignore[arg-type]
        with closing(RunReader(self.database)) as reader:
            found = with_tried(reader, [finding])
        assert found[0].remedies[-1:] == own
        return found[0]

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    runs: list[Run] = []

    def make(names: Sequence[str], weights: Sequence[float]) -> Run:
        runs.append(Run(tmp_path, names, weights))
        return runs[-1]

    yield make
    for run in runs:
        run.close()


CANCEL = [(1.0, 0.0), (0.0, 1.0)] * 4
EQUAL = [(0.0, 1.0)] * 8
MIXED = [(1.0, 1.0), (0.0, 1.0)] * 4


def test_a_smaller_weight_is_offered_with_the_groups_that_get_a_signal(made: Callable[..., Run]) -> None:
    run = made(("correct", "format"), (1.0, 1.0))
    for step in range(1, 31):
        scores = [CANCEL if n < 2 else EQUAL for n in range(8)]
        run.step(step, [(f"{n}", one) for n, one in enumerate(scores)])
    found = run.tried("signal.cancels", (1, 30))
    told = (
        "Weight of format 0.5 instead of 1: 50 of the last 200 groups, in which rewards cancel, get a signal"
    )
    assert found.remedies[0] == Remedy(told, "reward_weights.format", 0.5, live=True)
    assert found.evidence["tried"] == {"reward_weights.format": {"groups": 200, "before": 0, "after": 0.25}}
    assert run.tried("signal.cancels", (1, 30), "info").remedies == (Remedy("in words"),), "it has ended"


def test_the_weights_in_force_at_the_end_are_those_that_are_changed(made: Callable[..., Run]) -> None:
    run = made(("correct", "format"), (1.0, 1.0))
    for step in range(1, 9):
        run.step(step, [(f"{n}", CANCEL) for n in range(4)])
    run.write(r.SettingChanged(1, 8, 1.0, "reward_weights", [1.0, 1.0], [1.0, 0.5]))
    assert run.tried("signal.cancels", (1, 8)).remedies == (Remedy("in words"),), "nothing cancels any more"


@pytest.mark.parametrize("names", [("one", "one"), ("one", "two")])
def test_no_weight_is_offered_where_two_functions_share_the_name_to_set_it_by(
    made: Callable[..., Run], names: tuple[str, str]
) -> None:
    run = made(names, (1.0, 1.0))
    for step in range(1, 9):
        run.step(step, [(f"{n}", CANCEL) for n in range(4)])
    offered = run.tried("signal.cancels", (1, 8)).remedies
    assert (offered == (Remedy("in words"),)) is (names[0] == names[1])


def test_a_penalty_is_lowered_and_not_the_reward_that_it_takes_back(made: Callable[..., Run]) -> None:
    run = made(("first", "second"), (1.0, -1.0))
    for step in range(1, 9):
        run.step(step, [(f"{n}", [(1.0, 1.0), (0.0, 0.0)] * 4) for n in range(4)])
    assert run.tried("signal.cancels", (1, 8)).remedies[0].field == "reward_weights.second"


def test_a_drowned_reward_is_offered_the_weight_that_lets_it_speak(made: Callable[..., Run]) -> None:
    run, chance = made(("correct", "length"), (1.0, 1.0)), random.Random(2)
    for step in range(1, 11):
        scores = [[(float(chance.random() < 0.5), chance.uniform(0, 40)) for _ in range(8)] for _ in range(4)]
        run.step(step, [(f"{n}", one) for n, one in enumerate(scores)])
    found = run.tried("signal.reward-drowned", (1, 10), function="correct", drowned_by="length", ratio=40.0)
    remedy = found.remedies[0]
    assert (remedy.field, remedy.value, remedy.live) == ("reward_weights.length", 0.025, True)
    tried = found.evidence["tried"]["reward_weights.length"]
    assert tried["before"] < 0.02
    assert tried["after"] > 0.5
    for evil in ({"ratio": 0.0}, {"ratio": math.nan}, {"function": ["correct"]}):
        evidence = {"function": "correct", "drowned_by": "length", "ratio": 40.0, **evil}
        assert len(run.tried("signal.reward-drowned", (1, 10), **evidence).remedies) == 1, evil
    run.write(r.SettingChanged(1, 9, 9.0, "reward_weights", [1.0, 1.0], [1.0, "x"]))
    assert run.tried("signal.reward-drowned", (1, 10), function="correct", drowned_by="length", ratio=40.0)


def solved(rate: float, chance: random.Random) -> Scores:
    return [(float(chance.random() < rate),) for _ in range(8)]


def test_prompts_are_left_out_by_what_came_before_the_groups_it_is_tried_on(made: Callable[..., Run]) -> None:
    """Prompts 0 to 5 are never solved, and 6 only later: it is chosen, and its groups count as lost."""
    run, chance = made(("correct",), (1.0,)), random.Random(4)
    for step in range(1, 13):
        rates = [0.0 if n < 6 or (n == 6 and step <= 6) else 0.5 for n in range(12)]
        run.step(step, [(f"{n}", solved(rate, chance)) for n, rate in enumerate(rates)])
    found = run.tried("signal.prompts-unsolved", (1, 12), "info")
    remedy = found.remedies[0]
    assert (remedy.field, remedy.live) == ("grpo_tui.filters.exclude", False)
    assert "100 % instead of 50 % of the last 72 groups" in remedy.text
    assert found.evidence["tried"][remedy.field] == {"groups": 72, "kept": 30, "before": 0.5, "after": 1.0}


def test_larger_groups_are_offered_where_they_would_be_mixed(made: Callable[..., Run]) -> None:
    run, chance = made(("correct",), (1.0,)), random.Random(8)
    for step in range(1, 31):
        run.step(step, [(f"{step % 10}-{n}", solved(0.08, chance)) for n in range(20)])
    found = run.tried("signal.prompts-unsolved", (1, 30), "info")
    remedy = next(one for one in found.remedies if one.field == "num_generations")
    assert (remedy.value, remedy.live) == (16, False)
    tried = found.evidence["tried"]["num_generations"]
    assert abs(tried["before"] - (1 - 0.92**8)) < 0.05
    assert abs(tried["after"] - (1 - 0.92**16)) < 0.05


HALF_MIXED = [(f"{n}", step, right, 8, n) for n in range(40) for step, right in enumerate((0, 2, 0, 1, 1, 0))]


@pytest.mark.parametrize(
    ("change", "offered"),
    [
        ({}, 16),
        ({"top": None}, None),
        ({"groups": 19}, None),
        ({"groups": 0, "top": None}, None),
        ({"partial": True}, None),
        ({"visits": HALF_MIXED[: 6 * 29]}, None),
        ({"visits": HALF_MIXED[: 6 * 30]}, 16),
        ({"middle": 5}, None),  # the visits that are left are not as expected
        ({"visits": [(f"{n}", 0, 4, 8, n) for n in range(40)]}, None),  # mixed already
    ],
)
def test_larger_groups_are_judged_by_enough_groups_and_prompts(
    change: dict[str, Any], offered: int | None
) -> None:
    given: dict[str, Any] = {"top": 1.0, "groups": 20, "visits": HALF_MIXED, "middle": 0} | change
    values = (0.0, 0.5) if given.pop("partial", False) else (0.0, 1.0)
    settings = Settings(weights=(1.0,), names=("a",))
    group = a_group(0, "p", [(values[n == 0],) for n in range(8)], (1.0,))
    record: Any = SimpleNamespace(
        top=given["top"],
        groups=[facts_of(group.completions, "p", settings)] * given["groups"],
        visits=given["visits"],
        middle=given["middle"],
    )
    found = [one.remedy.value for one in remedies._size(record)]
    assert found == ([] if offered is None else [offered])


@pytest.mark.parametrize(
    ("rates", "size", "mixed"),
    [
        ({0.5: 1.0}, 2, 0.5),
        ({0.0: 0.5, 1.0: 0.5}, 8, 0.0),
        ({0.0: 0.5, 0.5: 0.5}, 1, 0.0),
        ({0.5: 1.0}, 3, 0.75),
    ],
)
def test_a_group_is_mixed_unless_all_are_right_or_all_wrong(
    rates: dict[float, float], size: int, mixed: float
) -> None:
    assert remedies.mixed_share(rates, size) == pytest.approx(mixed)


@pytest.mark.parametrize(
    ("prompts", "rate"),
    [([(0, 8)] * 9, 0.0), ([(8, 8)] * 9, 1.0), ([(4, 8)] * 9, 0.5), ([(0, 0), (2, 2)], 1.0)],
)
def test_prompts_that_are_alike_have_one_pass_rate(prompts: list[tuple[int, int]], rate: float) -> None:
    shares = remedies.pass_rates(prompts)
    assert sum(shares.values()) == pytest.approx(1.0)
    assert max(shares, key=shares.__getitem__) == rate
    assert sum(share for one, share in shares.items() if abs(one - rate) <= 0.1) > 0.9
    assert set(remedies.pass_rates([]).values()) == {1 / remedies.PLACES}


def test_partial_credit_is_not_predicted_by_a_pass_rate(made: Callable[..., Run]) -> None:
    run, chance = made(("correct",), (1.0,)), random.Random(8)
    for step in range(1, 31):
        values = [1.0, *[0.0, 0.1, 0.2, 0.3] * 3]
        scores = [[(chance.choice(values),) for _ in range(8)] for _ in range(20)]
        run.step(step, [(f"{step % 10}-{n}", one) for n, one in enumerate(scores)])
    assert run.tried("signal.equal", (1, 30)).remedies == (Remedy("in words"),)


@pytest.mark.parametrize("scale", ["group", "batch", "none"])
@pytest.mark.parametrize("weights", [(1.0, 1.0, 0.0), (1.0, 0.5, 0.3), (0.25, -1.0, 1.0)])
def test_a_signal_is_predicted_as_the_advantages_say(scale: str, weights: tuple[float, ...]) -> None:
    """The totals decide, and the lab's advantages, which a test holds equal to TRL's, agree.

    The weights are exact in float32, whose rounding can make equal totals differ.
    """
    from grpo_tui.rewards.lab_child.advantages import aggregate

    chance = random.Random(5)
    values = (0.0, 0.5, 1.0, None)
    scores = [[tuple(chance.choice(values) for _ in weights) for _ in range(2)] for _ in range(300)]
    columns = [[row[k] for group in scores for row in group] for k in range(len(weights))]
    places = [[2 * n, 2 * n + 1] for n in range(len(scores))]
    real = aggregate(columns, places, weights, scale, "sum_then_normalize")
    settings = Settings(weights=weights, names=("a", "b", "c"))
    for group, found in zip(scores, real["groups"], strict=True):
        facts = facts_of(a_group(0, "p", group, weights).completions, "p", settings)
        totals = [real["totals"][i] for i in found["indices"]]
        if None not in totals:
            assert _differs(facts, settings, weights) == (signal_of(totals, found["advantages"]) == "some")
