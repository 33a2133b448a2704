"""Score recorded rollouts again, with the current rewards or with other weights, and report what changes.

Advantages are computed as TRL computes them, and compared with those that training used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import Any

from grpo_tui.core.statistics import correlation, is_number, mean, signal_of, std
from grpo_tui.core.text import one_line, prompt_text
from grpo_tui.rewards.checks.together import shares_of
from grpo_tui.rewards.lab import Aggregation, Lab, LabError, Scored
from grpo_tui.rewards.samples import SampleError, groups_of, recorded_groups, samples_of_groups
from grpo_tui.rewards.score_report import Aggregate, FunctionInfo, FunctionScore, GroupScore
from grpo_tui.rewards.scoring import Report
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.reader import RunReader, StoredGroup, distinct_names

SAME = 1e-6
"""Scores that differ by less are equal: TRL keeps them in float32."""
ADVANTAGE_SAME = 1e-3
IN_PART = (
    "TRL scales over the whole batch here, and only the chosen groups of a batch are scored again: "
    "advantages may change sign where no total changes"
)


@dataclass(frozen=True, slots=True)
class FunctionTurn:
    """Change of one function, with mean scores. One that only the run or only the config has lacks one."""

    name: str
    changed: int
    before: float | None
    now: float | None
    failure: str = ""


@dataclass(frozen=True, slots=True)
class GroupTurn:
    """Change of one group.

    Attributes:
        before, now: totals, None where no function scored.
        advantages_before, advantages_now: empty for probe prompts, which are not trained on.
        reordered: whether two completions swap their order.
        fate: `alive` if only the new advantages are nonzero, `dead` if only the old ones were, else empty.
    """

    group: int
    step: int
    prompt: str
    before: tuple[float | None, ...]
    now: tuple[float | None, ...]
    advantages_before: tuple[float, ...]
    advantages_now: tuple[float, ...]
    changed: tuple[int, ...]
    reordered: bool
    fate: str


@dataclass(frozen=True, slots=True)
class WhatIf:
    """Changes of all functions and groups.

    Attributes:
        groups: most changed first.
        correlation: Spearman's rank correlation of the advantages before and now. None without variance.
    """

    functions: tuple[FunctionTurn, ...]
    groups: tuple[GroupTurn, ...]
    completions: int
    changed: int
    reordered: int
    alive: int
    dead: int
    correlation: float | None
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the shape that `grpo-tui whatif --json` prints, without unchanged groups."""
        turned = [group for group in self.groups if group.changed or group.fate or _moved(group)]
        return {**asdict(self), "groups": [asdict(group) for group in turned]}


def what_if_of_run(
    lab: Lab,
    root: Path,
    groups: Sequence[int],
    *,
    weights: Sequence[float] | None = None,
    recorded: bool = False,
    tell: Callable[[str, str], None] | None = None,
) -> WhatIf:
    """Score groups of a run again, only those it trained on when there are any; see `what_if`.

    Raises:
        LabError: nothing can be scored, or the weights do not fit.
        RunDatabaseError: the run cannot be read.
    """
    with closing(RunReader(RunFolder(root).database)) as run:
        whole, functions = run.whole_groups(groups), run.reward_functions()
    # Probe prompts have no columns, and are not trained on.
    whole = [group for group in whole if group.mode == "train"] or whole
    own = {one: f.weight for one, f in zip(distinct_names(f.name for f in functions), functions, strict=True)}
    return what_if(lab, whole, weights=weights, recorded_weights=own if recorded else None, tell=tell)


def recorded_report(root: Path, aggregation: Aggregation, group: int | None = None) -> Report:
    """Return recorded scores, totals and advantages of a run's newest step, or of one group.

    No function is called and no child started.

    Raises:
        SampleError: there are no completions.
        RunDatabaseError: the run cannot be read.
    """
    with closing(RunReader(RunFolder(root).database)) as run:
        groups, newest_list = recorded_groups(run, group=group), run.reward_functions()
    if not groups:
        raise SampleError("it has recorded no completions yet")
    weights = [function.weight for function in newest_list]
    names = distinct_names(function.name for function in newest_list)
    functions = _recorded(groups, dict(zip(names, weights, strict=True)))
    samples = tuple(samples_of_groups(groups))
    rows = [completion for group in groups for completion in group.completions]
    totals = tuple(row.total for row in rows)
    scores = []
    for indices in map(tuple, groups_of(samples)):
        known = [totals[i] for i in indices]
        advantages = tuple(rows[i].advantage for i in indices)
        scores.append(GroupScore(indices, mean(known), std(known), advantages))
    normalized = aggregation.normalized
    shares = tuple(shares_of(functions, samples, weights, normalized=normalized))
    aggregate = Aggregate(totals, tuple(scores), None, None, None)
    return Report(Scored(samples, functions), aggregate, tuple(weights), aggregation, (), shares)


def what_if(
    lab: Lab,
    groups: Sequence[StoredGroup],
    *,
    weights: Sequence[float] | None = None,
    recorded_weights: Mapping[str, float] | None = None,
    tell: Callable[[str, str], None] | None = None,
) -> WhatIf:
    """Score recorded groups again.

    Args:
        groups: at least one. Each must be whole, including its parts on other ranks.
        recorded_weights: the run's current functions in order, by distinct name, with their weights. When
            given, no function is called and the recorded scores are reweighted.

    Raises:
        LabError: nothing can be scored, or the weights do not fit.
    """
    # By number, because superseded groups can share step, batch and index with the groups that replaced them.
    samples = [replace(s, group=str(group.id)) for group in groups for s in samples_of_groups([group])]
    if not samples:
        raise LabError("there are no completions to score")
    if recorded_weights is None:
        scored = lab.score(samples, tell=tell, repeat_limit_s=0.0)
    else:
        scored = Scored(tuple(samples), _recorded(groups, recorded_weights))
    mode = Aggregation.of(lab.config) if lab.config is not None else Aggregation()
    alone = mode.scale_rewards != "batch" and not mode.normalized
    batches = None if alone else [(group.attempt, group.batch) for group in groups]
    totals, advantages = _aggregated(lab, groups, scored, weights, mode, batches)
    turns = _groups(groups, totals, advantages)
    return WhatIf(
        functions=_functions(groups, scored.functions),
        groups=tuple(sorted(turns, key=_rank)),
        completions=len(samples),
        changed=sum(len(turn.changed) for turn in turns),
        reordered=sum(turn.reordered for turn in turns),
        alive=sum(turn.fate == "alive" for turn in turns),
        dead=sum(turn.fate == "dead" for turn in turns),
        correlation=rank_correlation(
            [a for turn in turns for a in turn.advantages_before],
            [a for turn in turns for a in turn.advantages_now],
        ),
        notes=(
            *(
                f"{f.info.name} gives no scores: {f.failure.text}"
                for f in scored.functions
                if f.failure is not None
            ),
            *(() if alone else (IN_PART,)),
        ),
    )


def _aggregated(
    lab: Lab,
    groups: Sequence[StoredGroup],
    scored: Scored,
    weights: Sequence[float] | None,
    mode: Aggregation,
    batches: Sequence[tuple[int, int]] | None,
) -> tuple[list[float | None], list[float]]:
    """Return totals and advantages, computed per batch where TRL scales over the batch."""
    places: dict[tuple[int, int], list[int]] = {}
    at = 0
    for number, group in enumerate(groups):
        batch = (0, 0) if batches is None else batches[number]
        places.setdefault(batch, []).extend(range(at, at + len(group.completions)))
        at += len(group.completions)
    totals: list[float | None] = [None] * at
    advantages = [0.0] * at
    for chosen in places.values():
        part = Scored(
            tuple(scored.samples[n] for n in chosen),
            tuple(replace(f, scores=tuple(f.scores[n] for n in chosen)) for f in scored.functions),
        )
        found = lab.aggregate(part, weights, mode)
        for number, total in zip(chosen, found.totals, strict=True):
            totals[number] = total
        for one in found.groups:
            for index, advantage in zip(one.indices, one.advantages, strict=True):
                advantages[chosen[index]] = advantage
    return totals, advantages


def _recorded(groups: Sequence[StoredGroup], weights: Mapping[str, float]) -> tuple[FunctionScore, ...]:
    rows = _by_name(groups)
    return tuple(
        FunctionScore(
            FunctionInfo(k, name, weight, "function", "as recorded"), tuple(row.get(name) for row in rows)
        )
        for k, (name, weight) in enumerate(weights.items())
    )


def _by_name(groups: Sequence[StoredGroup]) -> list[dict[str, float | None]]:
    """Return each completion's scores by name. A resume or a reload may change the list of functions."""
    return [
        dict(zip(group.functions, completion.rewards, strict=False))
        for group in groups
        for completion in group.completions
    ]


def _functions(groups: Sequence[StoredGroup], results: Sequence[FunctionScore]) -> tuple[FunctionTurn, ...]:
    rows = _by_name(groups)
    known = dict.fromkeys(name for row in rows for name in row)
    before: dict[str, list[float | None]] = {name: [row.get(name) for row in rows] for name in known}
    found = []
    for name, result in zip(distinct_names(f.info.name for f in results), results, strict=True):
        now = list(result.scores)
        then = before.pop(name, None)
        failed = result.failure.text if result.failure is not None else ""
        old = then or [None] * len(now)
        changed = 0 if failed else sum(not _same(a, b) for a, b in zip(old, now, strict=True))
        found.append(FunctionTurn(name, changed, mean(then) if then else None, mean(now), failed))
    found += [FunctionTurn(name, len(then), mean(then), None) for name, then in before.items()]
    return tuple(found)


def _groups(
    groups: Sequence[StoredGroup], totals: Sequence[float | None], advantages: Sequence[float]
) -> list[GroupTurn]:
    turns, at = [], 0
    for group in groups:
        size = len(group.completions)
        before = tuple(c.total for c in group.completions)
        now = tuple(totals[at : at + size])
        masked = [c.masked for c in group.completions]  # scoring does not change truncation
        trained = group.mode != "probe"
        taught = group.signal == "some"
        teaches = signal_of(now, advantages[at : at + size], masked) == "some"
        turns.append(
            GroupTurn(
                group.id,
                group.step,
                one_line(prompt_text(group.prompt).strip(), 200),
                before,
                now,
                tuple(c.advantage for c in group.completions) if trained else (),
                tuple(advantages[at : at + size]) if trained else (),
                tuple(n for n in range(size) if not _same(before[n], now[n])),
                _reordered(before, now),
                "" if taught == teaches or not trained else "alive" if teaches else "dead",
            )
        )
        at += size
    return turns


def _same(one: float | None, other: float | None) -> bool:
    if not is_number(one) or not is_number(other):
        return not is_number(one) and not is_number(other)
    assert one is not None
    assert other is not None
    return abs(one - other) <= SAME * max(1.0, abs(one), abs(other))


def _reordered(before: Sequence[float | None], now: Sequence[float | None]) -> bool:
    """Whether a completion that was better than another is now worse, by more than `SAME`."""
    both = zip(before, now, strict=True)
    pairs = [(a, b) for a, b in both if a is not None and b is not None and is_number(a) and is_number(b)]
    pairs.sort()  # by the previous total, equal ones in any order
    best_below: float | None = None
    best = first = pairs[0] if pairs else (0.0, 0.0)
    for pair in pairs:
        if not _same(pair[0], first[0]):
            best_below, first = best[1], pair
        if best_below is not None and pair[1] < best_below and not _same(pair[1], best_below):
            return True
        best = max(best, pair, key=itemgetter(1))
    return False


def _moved(turn: GroupTurn) -> bool:
    return _most_moved(turn) > ADVANTAGE_SAME


def _most_moved(turn: GroupTurn) -> float:
    pairs = zip(turn.advantages_before, turn.advantages_now, strict=True)
    return max((abs(a - b) for a, b in pairs if is_number(a) and is_number(b)), default=0.0)


def _rank(turn: GroupTurn) -> tuple[bool, bool, float, int]:
    return not turn.fate, not turn.reordered, -_most_moved(turn), turn.group


def rank_correlation(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Return Spearman's rank correlation, with ties at their mean rank. None when either side is constant.

    The Pearson correlation of the ranks (Spearman 1904).
    """
    kept = [(a, b) for a, b in zip(one, other, strict=True) if is_number(a) and is_number(b)]
    if len(kept) < 2:
        return None
    first, second = (_ranks([pair[n] for pair in kept]) for n in (0, 1))
    constant = len(set(first)) == 1 or len(set(second)) == 1
    return None if constant else correlation(first, second)


def _ranks(values: Sequence[float]) -> list[float]:
    order = sorted(range(len(values)), key=lambda n: values[n])
    ranks = [0.0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end + 1 < len(order) and abs(values[order[end + 1]] - values[order[start]]) <= SAME:
            end += 1
        for place in order[start : end + 1]:
            ranks[place] = (start + end) / 2
        start = end + 1
    return ranks
