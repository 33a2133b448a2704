"""Try remedies on the record, and add to a finding those that would have helped.

Other weights are tried with the recorded rewards. Leaving out prompts that were never or always solved is
tried on later groups. Larger groups are judged by the estimated pass rates of the prompts. A remedy that
gains too little is not offered.

The rate of one prompt, k right of n, is a poor base for this. A prompt that is right one time in ten often
shows no right answer among 8 completions, and larger groups then seem useless. So the distribution over all
prompts is estimated from all visits at once, which shrinks each prompt toward what the others show.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import Any

from grpo_tui.core.findings import Finding, Remedy
from grpo_tui.core.prompt_memory import classify
from grpo_tui.core.statistics import FEWEST_PROMPTS, SAME, column_covariances, is_number, shares_of
from grpo_tui.health.facts import GroupFacts, Settings, facts_of
from grpo_tui.health.reading import settings_of
from grpo_tui.health.signal_rules import CORRECT
from grpo_tui.store.prompt_memory import prompt_visits
from grpo_tui.store.read_health import training_groups
from grpo_tui.store.read_series import total_range
from grpo_tui.store.reader import RunReader

PLACES = 51
"""Pass rates that are told apart, from 0 to 1 in steps of 0.02."""
ROUNDS = 200
MOST_KINDS = 400
"""Different (right, all) pairs that are used, evenly picked when there are more."""


def pass_rates(prompts: Iterable[tuple[int, int]]) -> dict[float, float]:
    """Return the share of prompts by pass rate: the mixing distribution of binomials, by EM.

    Nonparametric maximum likelihood (Kiefer and Wolfowitz 1956, Laird 1978) on a fixed grid, which includes
    prompts that are never and always right.

    Args:
        prompts: right completions and all completions of each prompt, pooled over its visits.
    """
    counted = Counter(pair for pair in prompts if pair[1])
    kinds = sorted(counted)
    kinds = (
        [kinds[n * len(kinds) // MOST_KINDS] for n in range(MOST_KINDS)] if len(kinds) > MOST_KINDS else kinds
    )
    rates = [place / (PLACES - 1) for place in range(PLACES)]
    likely = [(counted[kind], _likelihoods(*kind, rates)) for kind in kinds]
    total = sum(count for count, _ in likely)
    shares = [1 / PLACES] * PLACES
    for _ in range(ROUNDS if total else 0):
        expected = [0.0] * PLACES
        for count, one in likely:
            joint = [share * value for share, value in zip(shares, one, strict=True)]
            scale = count / (total * sum(joint))
            expected = [before + scale * value for before, value in zip(expected, joint, strict=True)]
        shares = expected
    return dict(zip(rates, shares, strict=True))


def _likelihoods(right: int, of: int, rates: list[float]) -> list[float]:
    """Return the likelihood of each rate, relative to the likeliest."""
    logs = [_log(right, rate) + _log(of - right, 1 - rate) for rate in rates]
    best = max(logs)
    return [math.exp(one - best) for one in logs]


def _log(times: int, rate: float) -> float:
    return times * math.log(rate) if rate > 0 else -math.inf if times else 0.0


def mixed_share(rates: Mapping[float, float], size: int) -> float:
    """Return the expected share of groups of `size` with both right and wrong completions."""
    return sum(share * (1 - rate**size - (1 - rate) ** size) for rate, share in rates.items())


MOST_GROUPS = 200
"""The newest groups of a finding on which its remedies are tried."""
FEWEST_GROUPS = 20
GAIN = 0.05
"""Smallest gain, as a share of the groups, for which a remedy is offered."""
LARGER_GAIN = 0.1
"""The same for larger groups, which cost as much more as they are larger."""
OFF = 0.05
"""Largest difference between the estimated and the recorded share of mixed groups, for a prediction."""
FACTORS = (0.5, 0.2)
"""Of a weight, smallest change first."""
EXCLUDE = "grpo_tui.filters.exclude"
SOLVED = "never,always"
"""Classes of `grpo-tui prompts` that the filter leaves out."""


@dataclass(frozen=True, slots=True)
class Tried:
    """A remedy, and the numbers before and after it."""

    remedy: Remedy
    numbers: Mapping[str, Any]


class _Record:
    """The part of a run on which the remedies of a finding are tried."""

    def __init__(self, reader: RunReader, finding: Finding) -> None:
        self.reader, self.evidence = reader, finding.evidence
        self._first, self._last = finding.first_step or 0, finding.last_step or 0

    @cached_property
    def settings(self) -> Settings:
        """The settings, with the weights in force at the end."""
        found = settings_of(self.reader, logged=True)
        changed = [one.new for one in self.reader.lasting_settings() if one.name == "reward_weights"]
        last = changed[-1] if changed and isinstance(changed[-1], list) else []
        if len(last) == len(found.weights) and all(map(is_number, last)):
            found = replace(found, weights=tuple(map(float, last)))
        return found

    @cached_property
    def steps(self) -> tuple[int, ...]:
        """The step of each of `groups`."""
        return tuple(step for step, _ in self._newest)

    @cached_property
    def _newest(self) -> list[tuple[int, int]]:
        groups = [one for one in training_groups(self.reader) if self._first <= one[0] <= self._last]
        return groups[-MOST_GROUPS:]

    @property
    def middle(self) -> int:
        """The step halfway through the finding, or that of the first of `groups` if it is earlier."""
        return min(self.steps[0], (self._first + self._last) // 2)

    @cached_property
    def groups(self) -> tuple[GroupFacts, ...]:
        """The newest groups of the finding's steps."""
        found = self.reader.whole_groups([number for _, number in self._newest])
        return tuple(
            facts_of(one.completions, one.prompt_key, self.settings, repetition=False) for one in found
        )

    @cached_property
    def top(self) -> float | None:
        """The highest total of the run, from which on a completion is right."""
        ends = total_range(self.reader)
        return None if ends is None else ends[1]

    @cached_property
    def visits(self) -> list[tuple[str, int, int, int, int]]:
        """Every visit of a prompt: key, step, right completions, all completions, group."""
        return [] if self.top is None else prompt_visits(self.reader, self.top)


def with_tried(reader: RunReader, findings: Iterable[Finding]) -> list[Finding]:
    """Add to each finding the remedies that would have helped, before its own. Each is offered once."""
    offered: set[str] = set()
    return [_with_tried(reader, finding, offered) for finding in findings]


def _with_tried(reader: RunReader, finding: Finding, offered: set[str]) -> Finding:
    ended = finding.severity == "info" and finding.id not in _PROMPTS
    trials = () if ended else TRIALS.get(finding.id, ())
    record = _Record(reader, finding)
    found = [tried for trial in trials for tried in trial(record) if tried.remedy.text not in offered]
    if not found:
        return finding
    offered.update(one.remedy.text for one in found)
    evidence = {**finding.evidence, "tried": {one.remedy.field: dict(one.numbers) for one in found}}
    return replace(finding, evidence=evidence, remedies=(*(one.remedy for one in found), *finding.remedies))


# -- weights -------------------------------------------------------------------------------------


def _weights(record: _Record) -> Iterator[Tried]:
    """Yield the smallest change of one weight after which the most groups have a signal."""
    settings, groups = record.settings, record.groups
    cancels = sum(group.cause == "cancels" for group in groups)
    if len(groups) < FEWEST_GROUPS or cancels < GAIN * len(groups):
        return
    before = [_differs(group, settings, settings.weights) for group in groups]
    best: tuple[int, int, float, int] | None = None
    for place in _movable(settings):
        for factor in FACTORS:
            weight = _rounded(settings.weights[place] * factor)
            after = [_differs(group, settings, _put(settings, place, weight)) for group in groups]
            lost = sum(was and not now for was, now in zip(before, after, strict=True))
            if best is None or sum(after) > best[0]:
                best = sum(after), place, weight, lost
    if best is None or best[0] - sum(before) < GAIN * len(groups):
        return
    after_all, place, weight, lost = best
    told = (
        f"{_reweighted(settings, place, weight)}: {after_all - sum(before) + lost} of the last {len(groups)} "
        f"groups, in which rewards cancel, get a signal{f', {lost} lose theirs' if lost else ''}"
    )
    numbers = {"groups": len(groups), "before": sum(before) / len(groups), "after": after_all / len(groups)}
    yield Tried(_weight(settings, place, weight, told), numbers)


def _movable(settings: Settings) -> list[int]:
    """Return the functions whose weight may fall: not those of correctness, if there are others.

    If nothing else distinguishes them, those that take away from the total come first.
    """
    used = [n for n, weight in enumerate(settings.weights) if weight]
    if len(set(settings.names)) < len(settings.names) or len(used) < 2:
        return []
    others = [n for n in used if not CORRECT.search(settings.names[n])]
    return sorted(others or used, key=lambda n: settings.weights[n] >= 0)


def _differs(group: GroupFacts, settings: Settings, weights: Sequence[float]) -> bool:
    """Return whether totals with these weights differ within the group, which gives it advantages."""
    if group.cause in ("masked", "not-finite", "unscored"):
        return False
    return column_covariances(group.columns, weights, normalized=settings.normalized)[-1] > SAME**2


def _drowned(record: _Record) -> Iterator[Tried]:
    """Yield the weight at which the drowning function spans as much as the drowned one."""
    settings, groups, told = record.settings, record.groups, record.evidence
    names, ratio = settings.names, told.get("ratio")
    pair = told.get("drowned_by"), told.get("function")
    if len(set(names)) < len(names) or not all(one in names for one in pair):
        return
    if not isinstance(ratio, float) or not is_number(ratio) or ratio <= 0:  # a record of another's making
        return
    loud, other = (names.index(str(name)) for name in pair)
    weight = _rounded(settings.weights[loud] / ratio)
    before, after = (
        shares_of([column_covariances(group.columns, weights) for group in groups], len(names))[other]
        for weights in (settings.weights, _put(settings, loud, weight))
    )
    if before is None or after is None or after < before + GAIN:
        return
    said = (
        f"{_reweighted(settings, loud, weight)}: over the last {len(groups)} groups, {names[other]} "
        f"contributes {_percent(after)} of the variance instead of {_percent(max(0.0, before))}"
    )
    numbers = {"groups": len(groups), "before": before, "after": after}
    yield Tried(_weight(settings, loud, weight, said), numbers)


def _put(settings: Settings, place: int, weight: float) -> list[float]:
    return [weight if n == place else one for n, one in enumerate(settings.weights)]


def _reweighted(settings: Settings, place: int, weight: float) -> str:
    return f"Weight of {settings.names[place]} {weight:g} instead of {settings.weights[place]:g}"


def _weight(settings: Settings, place: int, weight: float, told: str) -> Remedy:
    return Remedy(told, f"reward_weights.{settings.names[place]}", weight, live=True)


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")


# -- prompts -------------------------------------------------------------------------------------


def _filter(record: _Record) -> Iterator[Tried]:
    """Yield leaving out prompts, tried on groups that did not take part in choosing them."""
    groups, steps = record.groups, record.steps
    if not groups or record.reader.config("section", "filters", "exclude"):
        return
    if len(groups) < MOST_GROUPS:  # nearly all of the run: choose by the first half, try on the second
        groups, steps = groups[len(groups) // 2 :], steps[len(groups) // 2 :]
    before = {
        key: classify([visit[2:4] for visit in visits])[0]
        for key, visits in groupby((v for v in record.visits if v[1] < steps[0]), lambda v: v[0])
    }
    kept = [group for group in groups if before.get(group.prompt) not in SOLVED.split(",")]
    shares = [sum(one.cause == "some" for one in part) / max(1, len(part)) for part in (groups, kept)]
    if len(kept) < FEWEST_GROUPS or shares[1] < shares[0] + GAIN:
        return
    told = (
        f"Leave out prompts that were never or always solved: {_percent(shares[1])} instead of "
        f"{_percent(shares[0])} of the last {len(groups)} groups have a signal, with the prompts of these "
        f"classes before step {steps[0]:,}. `grpo-tui prompts RUN --class {SOLVED} --export FILE` lists "
        "them"
    )
    numbers = {"groups": len(groups), "kept": len(kept), "before": shares[0], "after": shares[1]}
    yield Tried(Remedy(told, EXCLUDE, "solved-prompts.jsonl"), numbers)


# -- the size of groups --------------------------------------------------------------------------


def _size(record: _Record) -> Iterator[Tried]:
    """Yield twice the group size, where a signal means that right and wrong completions are mixed."""
    groups, top = record.groups, record.top
    if top is None or len(groups) < FEWEST_GROUPS:
        return
    signal = sum(group.cause == "some" for group in groups) / len(groups)
    mixed = sum(_is_mixed(group, top) for group in groups) / len(groups)
    if abs(signal - mixed) > OFF:
        return
    size = Counter(group.size for group in groups).most_common(1)[0][0]
    visits = [visit for visit in record.visits if visit[1] >= record.middle]
    pooled = [
        (sum(visit[2] for visit in one), sum(visit[3] for visit in one))
        for one in (list(found) for _, found in groupby(visits, lambda visit: visit[0]))
    ]
    if len(pooled) < FEWEST_PROMPTS:
        return
    mixed = sum(0 < visit[2] < visit[3] for visit in visits) / len(visits)
    rates = pass_rates(pooled)
    now, then = mixed_share(rates, size), mixed_share(rates, 2 * size)
    if abs(now - mixed) > OFF or then < mixed + LARGER_GAIN:
        return
    told = (
        f"`num_generations` {2 * size} instead of {size}: {100 * mixed:.0f} → {100 * then:.0f} % of groups "
        f"mixed, estimated from {len(visits):,} groups of {len(pooled):,} prompts"
    )
    numbers = {"groups": len(visits), "prompts": len(pooled), "before": mixed, "after": then}
    yield Tried(Remedy(told, "num_generations", 2 * size), numbers)


def _is_mixed(group: GroupFacts, top: float) -> bool:
    return group.high is not None and group.low is not None and group.low < top - SAME <= group.high


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


_PROMPTS = ("signal.prompts-unsolved", "signal.prompts-solved")
TRIALS: Mapping[str, Sequence[Callable[[_Record], Iterator[Tried]]]] = {
    "signal.cancels": (_weights,),
    "signal.equal": (_weights, _filter, _size),
    "signal.all-wrong": (_weights, _filter, _size),
    "signal.all-correct": (_weights, _filter, _size),
    "signal.reward-drowned": (_drowned,),
    **dict.fromkeys(_PROMPTS, (_filter, _size)),
}
