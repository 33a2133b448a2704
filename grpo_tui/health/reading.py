"""Judge a recorded run: read it in bounded pieces, oldest first, and pass them to the doctor.

A run of up to `STRETCHES` steps is read step by step. A longer one is read in that many stretches of equal
length, so the ends of its findings are exact to one stretch.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from grpo_tui.core.exchange import mapping
from grpo_tui.core.findings import RULES, Finding, errors_first
from grpo_tui.core.records import EFFECTIVE, LEFT_OUT, SKIPPED, TOOLS
from grpo_tui.core.stages import stage_start
from grpo_tui.core.statistics import finite, is_number
from grpo_tui.health.doctor import Doctor
from grpo_tui.health.facts import GroupFacts, Observation, Settings, Visits, facts_of
from grpo_tui.health.machine_rules import LONGEST, TOOLS_FAILED
from grpo_tui.health.policy_rules import MISMATCH, WEIGHT, WORST
from grpo_tui.health.signal_rules import MEAN
from grpo_tui.health.state import CAPPED, CLIPPED, ZERO_STD
from grpo_tui.store.read_health import (
    failed_calls,
    open_findings,
    phase_seconds,
    prompt_ranges,
    rank_seconds,
    training_groups,
    with_prompts,
)
from grpo_tui.store.read_series import metric_keys, series_window, step_range
from grpo_tui.store.reader import RunReader, lasting
from grpo_tui.store.rollouts import IMPORTED, SAMPLED, absent_fields

STRETCHES = 1_024
MOST_GROUPS = 1_024
"""Groups whose completions are read, evenly spaced in a longer run."""
PAGE = 64
NOT_RECORDED = frozenset({"machine.memory"})
"""Rules about what is seen only while the run trains. Their findings are recorded."""
_OPTIONAL = (
    "kl", "eval_reward", ZERO_STD, CLIPPED, CAPPED, SKIPPED, MISMATCH, WORST, WEIGHT, LEFT_OUT, EFFECTIVE,
    LONGEST, TOOLS_FAILED,
)  # fmt: skip
"""Logged only with `beta` above 0, evaluation, some losses or vLLM, and after a gradient that is NaN.
What `frac_reward_zero_std` says is counted in the groups when they were recorded."""
KEYS = (
    "reward", "reward_std", "entropy", "grad_norm", "learning_rate", "step_time",
    "completions/mean_length", "completions/clipped_ratio", *_OPTIONAL,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The rules' verdict on a run, worst first, and the rules that the config turns off.

    Attributes:
        unknown: What was not recorded: metrics, whole groups. Rules about them say nothing.
    """

    findings: tuple[Finding, ...]
    steps: int
    unknown: tuple[str, ...]
    off: tuple[str, ...] = ()


def diagnose(reader: RunReader) -> Diagnosis:
    """Read a run and apply the rules."""
    limits = limits_of(reader)
    doctor, observations = begin(reader)
    for observation in observations:
        doctor.see(observation)
    known = doctor.state.courses
    unknown = tuple(key for key in KEYS if key not in known and key not in _OPTIONAL)
    unknown += () if doctor.state.groups else ("whole groups of completions",)
    off = tuple(name for name in RULES if limits.get(name, {}) is None)
    found = [with_prompts(reader, finding) for finding in doctor.findings()]
    found += [one for one in open_findings(reader) if one.id in NOT_RECORDED and one.id not in off]
    return Diagnosis(tuple(errors_first(found)), doctor.state.step, unknown, off)


def begin(reader: RunReader, before: int | None = None) -> tuple[Doctor, Iterator[Observation]]:
    """Return a doctor that has seen nothing of a run, and what it has to see, in order.

    Args:
        before: Step at which the run continues. Only earlier ones are seen, and prompts are counted from
            them, at most `MOST_PROMPTS`, so that memory is bounded. None for the whole record.
    """
    logged, whole = metric_keys(reader), before is None
    settings = settings_of(reader, logged=not whole or "reward" in logged)
    changes = lasting(reader.settings(), reader.attempts())
    after, end = max(stage_start(changes), reader.rewards_began()), math.inf if before is None else before
    selected = whole and SAMPLED in absent_fields(reader)  # of each group only some completions were kept
    groups = [] if selected else [one for one in training_groups(reader) if after < one[0] < end]
    ranges = prompt_ranges(reader) if whole and not selected else []
    prompts = {key: Visits(count, low, high, group) for key, count, low, high, group in ranges}
    doctor = Doctor(settings, limits_of(reader), prompts or None)
    doctor.changes += changes
    keys = [key for key in KEYS if key in logged]
    keys += [key for key in logged if key.startswith(TOOLS) or (not groups and MEAN.fullmatch(key))]
    return doctor, _observations(reader, settings, groups, keys, after, end)


def doctor_before(reader: RunReader, step: int) -> Doctor:
    """Return the doctor for a run that continues at `step`, fed with the record before it."""
    doctor, observations = begin(reader, step)
    for observation in observations:
        doctor.see(observation)
    return doctor


def settings_of(reader: RunReader, *, logged: bool) -> Settings:
    """Return what the rules need from the run's config, with TRL's defaults for missing entries."""
    config = mapping(reader.fact("config"))
    grpo = {**mapping(mapping(reader.fact(IMPORTED)).get("settings")), **mapping(config.get("grpo"))}
    functions = reader.reward_functions()
    limit, total = grpo.get("max_completion_length"), reader.attempts()
    return Settings(
        weights=tuple(f.weight if is_number(f.weight) else 1.0 for f in functions),
        names=tuple(str(f.name) for f in functions),
        first_function=functions[0].index if functions else 0,
        normalized=grpo.get("multi_objective_aggregation") == "normalize_then_sum",
        beta=finite(grpo.get("beta", 0.0 if config else None)),
        by_sequence=grpo.get("importance_sampling_level") == "sequence",
        epsilon_high=finite(grpo.get("epsilon_high") or grpo.get("epsilon", 0.2 if config else None)),
        learning_rate=finite(grpo.get("learning_rate")),
        temperature=finite(grpo.get("temperature", 1.0 if config else None)),
        max_completion_length=limit if isinstance(limit, int) else None,
        total_steps=next((attempt.total_steps for attempt in reversed(total) if attempt.total_steps), None),
        has_tokens=not absent_fields(reader) & {"tokens", "truncated"},
        from_groups=not logged,
    )


def limits_of(reader: RunReader) -> dict[str, dict[str, float] | None]:
    """Return the limits that the run's config changes, by rule; None for a rule it turns off."""
    found: dict[str, dict[str, float] | None] = {}
    for name, limits in mapping(reader.config("section", "health")).items():
        if name in RULES and limits is None:
            found[name] = None
        elif name in RULES:
            known = mapping(limits).items()
            found[name] = {key: float(v) for key, v in known if key in RULES[name].limits and is_number(v)}
    return found


def _observations(
    reader: RunReader,
    settings: Settings,
    groups: list[tuple[int, int]],
    keys: list[str],
    after: int,
    before: float,
) -> Iterator[Observation]:
    """Yield the run's stretches in order, without those that recorded nothing."""
    logged = step_range(reader)
    steps = [] if logged is None else [logged.first_step, logged.newest_step]
    steps += [groups[0][0], groups[-1][0]] if groups else []
    if not steps or min(steps) >= before or max(steps) <= after:
        return
    first, last = max(min(steps), after + 1), int(min(max(steps), before - 1))
    width = max(1, -(-(last - first + 1) // STRETCHES))
    values: dict[int, dict[str, float]] = defaultdict(dict)
    missing: dict[int, set[str]] = defaultdict(set)
    for key in keys:
        for bucket in series_window(reader, key, first, last, STRETCHES):
            place = ((bucket.first + bucket.last) // 2 - first) // width
            values[place][key] = math.nan if bucket.mean is None else bucket.mean
            if bucket.missing:
                missing[place].add(key)
    seconds: dict[int, dict[str, float]] = defaultdict(dict)
    for place, phase, spent in phase_seconds(reader, first, width):
        seconds[place][phase] = spent / width
    ranks: dict[int, dict[int, float]] = defaultdict(dict)
    for place, rank, spent in rank_seconds(reader, first, width):
        ranks[place][rank] = spent / width
    failed: dict[int, dict[int, int]] = defaultdict(dict)
    for step, function, count in failed_calls(reader):
        failed[(step - first) // width][function - settings.first_function] = count
    places = sorted({*values, *((step - first) // width for step, _ in groups)})
    facts = _facts(reader, settings, groups)
    waiting = next(facts, None)
    for place in places:
        end = min(last, first + (place + 1) * width - 1)
        here: list[GroupFacts] = []
        while waiting is not None and waiting[0] <= end:
            here.append(waiting[1])
            waiting = next(facts, None)
        yield Observation(
            first + place * width, end, values.get(place, {}), frozenset(missing.get(place, ())), tuple(here),
            seconds.get(place, {}), failed.get(place, {}), ranks.get(place, {}),
        )  # fmt: skip


def _facts(
    reader: RunReader, settings: Settings, groups: list[tuple[int, int]]
) -> Iterator[tuple[int, GroupFacts]]:
    if len(groups) > MOST_GROUPS:
        groups = [groups[n * len(groups) // MOST_GROUPS] for n in range(MOST_GROUPS)]
    for start, end in pairwise([*range(0, len(groups), PAGE), len(groups)]):
        for group in reader.whole_groups([number for _, number in groups[start:end]]):
            yield group.step, facts_of(group.completions, group.prompt_key, settings)
