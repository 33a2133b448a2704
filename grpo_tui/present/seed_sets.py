"""Group runs that differ only by seed into sets, and say whether two sets differ by more than chance.

A set is recognized from the records: the runs have the same settings, rewards and changes while training, and
different seeds. Folder names do not matter, except for the name of the set. The chart of a set is the median
over its smoothed runs, in a band from lowest to highest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

from grpo_tui.core.evaluations import FACT, Evaluations
from grpo_tui.core.exchange import mapping
from grpo_tui.core.records import SettingChanged
from grpo_tui.core.schedule import BY_RESUME
from grpo_tui.core.seed_noise import FEWEST_SEEDS, SeedDifference, interval, seed_difference
from grpo_tui.core.stages import SETTING as STAGE
from grpo_tui.core.stages import START
from grpo_tui.core.statistics import is_number
from grpo_tui.core.text import one_line
from grpo_tui.present.big_chart import ChartBucket, ChartLine, reaching
from grpo_tui.present.comparison_text import digits_of, interval_words, signed
from grpo_tui.present.formatting import MISSING, digits_apart, fixed, plural
from grpo_tui.present.run_rewards import TOTAL, function_of, read_rewards
from grpo_tui.store.connection import RunDatabaseError
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.read_health import rule_that_stopped
from grpo_tui.store.read_series import SeriesBucket
from grpo_tui.store.reader import RunReader
from grpo_tui.store.spec import checkpoint_forked
from grpo_tui.store.status import read_status

SEEDS = frozenset({"seed", "data_seed"})
PLACES = frozenset({"output_dir", "run_name", "logging_dir"})
"""Settings that differ in every run and say nothing about it."""
_ASIDE = SEEDS | PLACES | {"resume_from_checkpoint"}
_OF_STAGES = ("max_steps", START)
"""Settings whose values follow from the step at which a stage begins."""
_PLACEMENT = frozenset({"gpus", "notify"})
"""Keys of the section that change no number."""
_STEM = re.compile(r"[-_. /]*(seeds?)?[-_. =]*\d*$", re.IGNORECASE)
MORE_SEEDS = "`grpo-tui train CONFIG --seeds 1,2,3`"
EVALUATION = "evaluation"


@dataclass(frozen=True, slots=True)
class SeedRun:
    """What a set needs to know about one run.

    Attributes:
        seed: None where it was not recorded; such a run is in no set.
        identity: Equal for runs that differ only by seed.
        complete: Whether it trained to its end, or to where a rule of its config stopped it.
        values: Final value of each measure: rewards by name over the last logged steps, and the deciding
            measure of the newest evaluation as `evaluation`.
        weighing: Names and weights of the rewards. Totals of different ones cannot be compared.
    """

    root: Path
    name: str
    seed: int | None = None
    identity: str = ""
    state: str = "broken"
    step: int = 0
    complete: bool = False
    values: Mapping[str, float] = field(default_factory=dict)
    deciding: str = ""
    asked: str = ""
    weighing: str = ""
    data: str = ""


@dataclass(frozen=True, slots=True)
class SeedSet:
    """Runs that differ only by seed. A run that belongs to no set is a set of one."""

    name: str
    runs: tuple[SeedRun, ...]

    @property
    def label(self) -> str:
        """The name with the number of seeds."""
        return self.name if len(self.runs) == 1 else f"{self.name}, {len(self.runs)} seeds"

    @property
    def seeds(self) -> tuple[int | None, ...]:
        """Seeds of the runs, in their order."""
        return tuple(run.seed for run in self.runs)

    def final(self, measure: str) -> dict[int, float]:
        """Return the final value of each complete run that has one, by seed."""
        return {
            -1 if run.seed is None else run.seed: run.values[measure]
            for run in self.runs
            if run.complete and measure in run.values
        }


@dataclass(frozen=True, slots=True)
class Versus:
    """A set compared with the first one, by one measure."""

    base: SeedSet
    other: SeedSet
    measure: str
    difference: SeedDifference | None


def read_seed_run(root: Path, name: str) -> SeedRun:
    """Read one run folder. One that cannot be read has no seed."""
    try:
        with closing(RunReader(RunFolder(root).database)) as reader:
            return _read(root, name, reader)
    except (RunDatabaseError, OSError, ValueError):
        return SeedRun(root, name)


def _read(root: Path, name: str, reader: RunReader) -> SeedRun:
    config, record = mapping(reader.fact("config")), mapping(reader.fact("reproduction"))
    seed = record.get("seed", mapping(config.get("grpo")).get("seed"))
    functions = [(one.name, one.weight, one.sha256) for one in reader.reward_functions()]
    changes = _changes(reader.lasting_settings())
    weights = [change for change in changes if change[1] == "reward_weights"]
    evaluations = Evaluations.from_json(reader.fact(FACT))
    ends: dict[str, float | None] = {one.key: one.end for one in read_rewards(reader)[1]}
    if evaluations is not None:
        ends[EVALUATION] = evaluations.done[-1].value
    status = read_status(root, reader)
    fork = checkpoint_forked(RunFolder(root))  # a fork shares steps with its parent, so it is no second seed
    rule = status.state == "stopped" and rule_that_stopped(reader) is not None
    return SeedRun(
        root=root,
        name=one_line(name, 40),
        seed=seed if isinstance(seed, int) and not isinstance(seed, bool) else None,
        identity=_text([_settings(config), functions, changes, record.get("world_size"), fork])
        if config
        else "",
        state=status.state,
        step=status.step,
        complete=status.state == "finished" or rule,
        values={key: float(end) for key, end in ends.items() if end is not None and is_number(end)},
        deciding=evaluations.deciding if evaluations is not None else "",
        asked=evaluations.key if evaluations is not None else "",
        weighing=_text([[(name, weight) for name, weight, _ in functions], weights]),
        data=_text(_data(config)),
    )


def _changes(history: Sequence[SettingChanged]) -> list[tuple[int | None, str, Any]]:
    """Return the changes, without those that only continue an earlier one after a resume.

    Those of a stage that begins have no step, because the same stage can begin at another step.
    """
    last: dict[str, int] = {}
    began = {(one.attempt, one.step) for one in history if one.name == STAGE}
    found: list[tuple[int | None, str, Any]] = []
    for one in history:
        if (one.attempt, one.step) in began and one.by == "config":
            if one.name not in (STAGE, *_OF_STAGES):
                found.append((None, one.name, [one.old, one.new]))
            continue
        if one.by != BY_RESUME:
            last[one.name] = one.step
        elif one.name in last and last[one.name] <= one.step:
            continue
        found.append((one.step, one.name, one.new))
    return found


def _data(config: Mapping[str, Any]) -> list[Any]:
    script = mapping(config.get("script"))
    named = {key: value for key, value in script.items() if key.startswith("dataset")}
    return [named, config.get("mixture"), mapping(config.get("section")).get("filters")]


def settings_apart(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Return the names of the settings in which two configs differ, apart from seed and folder."""
    first, second = (_flat(_settings(config)) for config in (one, other))
    names = dict.fromkeys([*first, *second])
    return [name for name in names if _text(first.get(name)) != _text(second.get(name))]


def _flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for part, value in settings.items():
        found |= value if isinstance(value, Mapping) else {part: value}
    return found


def _settings(config: Mapping[str, Any]) -> Mapping[str, Any]:
    stages = mapping(config.get("section")).get("stages")
    aside = _ASIDE.union(_OF_STAGES if stages else ())
    grpo = {k: v for k, v in mapping(config.get("grpo")).items() if k not in aside}
    section = {k: v for k, v in mapping(config.get("section")).items() if k not in _PLACEMENT}
    rest = {part: config.get(part) for part in ("model", "model_args", "script", "mixture")}
    return {**rest, "grpo": grpo, "section": section}


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def sets_of(runs: Sequence[SeedRun]) -> tuple[SeedSet, ...]:
    """Group runs, in the order in which each set is first named.

    A second run with a seed that its set already has stays on its own.
    """
    groups: dict[tuple[object, ...], list[SeedRun]] = {}
    for place, run in enumerate(runs):
        together = groups.setdefault((run.identity,), []) if run.identity and run.seed is not None else None
        if together is None or run.seed in [one.seed for one in together]:
            groups[(place, "alone")] = [run]
        else:
            together.append(run)
    names = [_name([run.name for run in group]) for group in groups.values()]
    return tuple(
        SeedSet(name if names.count(name) == 1 else group[0].name, tuple(group))
        for name, group in zip(names, groups.values(), strict=True)
    )


def _name(names: Sequence[str]) -> str:
    if len(names) == 1:
        return names[0]
    letters = (set(column) for column in zip(*names, strict=False))
    shared = "".join(letter for (letter, *_) in takewhile(lambda column: len(column) == 1, letters))
    return _STEM.sub("", shared) or names[0]


# -- comparing ----------------------------------------------------------------------------------------


def measures_of(sets: Sequence[SeedSet]) -> list[str]:
    """Return the measures that these sets can be compared by, the deciding one first."""
    runs = [run for one in sets for run in one.runs if run.complete]
    found = dict.fromkeys(key for run in runs for key in run.values)
    shared = [key for key in found if all(one.final(key) for one in sets)]
    asked = [{run.asked for run in one.runs} for one in sets]
    if len({run.deciding for run in runs}) > 1 or not all(each & asked[0] for each in asked):
        shared = [key for key in shared if key != EVALUATION]
    if len({run.weighing for run in runs}) > 1:
        shared = [key for key in shared if key != TOTAL]
    return sorted(shared, key=lambda key: (key != EVALUATION, key != TOTAL))


def compared(sets: Sequence[SeedSet]) -> list[Versus]:
    """Compare every other set with the first, by each measure they share, the deciding one first."""
    return [
        Versus(sets[0], other, measure, seed_difference(sets[0].final(measure), other.final(measure)))
        for other in sets[1:]
        for measure in measures_of([sets[0], other])
    ]


def measure_words(measure: str, deciding: str) -> str:
    """Name a measure in a sentence."""
    if measure == EVALUATION:
        return f"{one_line(deciding, 30)} of the last evaluation"
    if measure == TOTAL:
        return "final total reward"
    return f"final reward {one_line(function_of(measure), 40)}"


def sentences(sets: Sequence[SeedSet]) -> list[str]:
    """Say for each other set whether it differs from the first by more than chance.

    Empty without a set of two runs. One set alone gets its mean with an interval.
    """
    if all(len(one.runs) == 1 for one in sets):
        return []
    if len(sets) == 1:
        return [_alone(sets[0])]
    return [_versus(sets[0], other) for other in sets[1:]]


def _alone(one: SeedSet) -> str:
    measure = next(iter(measures_of([one])), None)
    values = one.final(measure) if measure is not None else {}
    if measure is None or len(values) < FEWEST_SEEDS:
        return f"Seed noise cannot be estimated: {_counted(one)}"
    middle, ends = sum(values.values()) / len(values), interval(values.values())
    digits = digits_of([*values.values()])
    within = f" (95 %: {' to '.join(fixed(end, digits) for end in ends)})" if ends else ""
    reach = f"{fixed(min(values.values()), digits)} to {fixed(max(values.values()), digits)}"
    what = measure_words(measure, one.runs[0].deciding)
    return f"{one.name}: {what} {fixed(middle, digits)}{within}, {reach} over {_seeds(len(values))}"


def _versus(base: SeedSet, other: SeedSet) -> str:
    for one in (base, other):
        if not any(run.complete for run in one.runs):
            return f"Nothing can be compared yet: {_counted(one)}"
    measures = measures_of([base, other])
    if not measures:
        return (
            f"{other.name} and {base.name} share no measure: their rewards and evaluations differ. Compare "
            "the models with `grpo-tui compare`"
        )
    measure = measures[0]
    found = seed_difference(base.final(measure), other.final(measure))
    assert found is not None
    return verdict(Versus(base, other, measure, found), found)


def verdict(versus: Versus, found: SeedDifference) -> str:
    """Return the result of one comparison as a sentence."""
    base, other = versus.base, versus.other
    what = measure_words(versus.measure, other.runs[0].deciding)
    if found.low is None or found.high is None:
        by = f"{what} {signed([found.mean])[0]}"
        few = next((one for one in (base, other) if len(one.final(versus.measure)) < FEWEST_SEEDS), None)
        if few is not None:
            return f"Seed noise cannot be estimated: {_counted(few)}. {other.name} against {base.name}: {by}"
        same = "difference" if found.paired else "value of each set"
        return f"Seed noise cannot be estimated: the {same} is the same for every seed ({by})"
    over = (
        f"over {_seeds(found.seeds[0])}, paired by seed"
        if found.paired
        else f"over {found.seeds[0]} and {_seeds(found.seeds[1])}, not paired"
    )
    data = {run.data for one in (base, other) for run in one.runs}
    note = ". Their training data differ" if len(data) > 1 and versus.measure != EVALUATION else ""
    if found.word == "within noise":
        by = interval_words(found.mean, found.low, found.high)
        return (
            f"The difference between {base.name} and {other.name} is within seed noise: {what} {by} "
            f"{over}{note}"
        )
    ends = sorted((abs(found.low), abs(found.high)))
    digits = digits_of([found.mean, *ends])
    middle, low, high = (fixed(value, digits) for value in (abs(found.mean), *ends))
    by = f"{other.name} is {found.word} than {base.name} by {middle} (95 %: {low} to {high})"
    return f"{by}: {what} {over}{note}"


def _counted(one: SeedSet) -> str:
    count = sum(run.complete for run in one.runs)
    return f"{one.name} has {plural(count, 'complete run')}" if count else f"{one.name} has no complete run"


def _seeds(count: int) -> str:
    return plural(count, "seed")


# -- as data ------------------------------------------------------------------------------------------


def to_json(sets: Sequence[SeedSet]) -> dict[str, Any]:
    """Return the sets and their comparisons as documented for `seeds --json`."""
    return {
        "sets": [_set_json(one) for one in sets],
        "comparisons": [_versus_json(one) for one in compared(sets)],
        "sentences": sentences(sets),
    }


def _set_json(one: SeedSet) -> dict[str, Any]:
    keys = ("seed", "state", "step", "complete")
    return {
        "name": one.name,
        "seeds": list(one.seeds),
        "runs": [
            {"path": str(run.root), **{key: getattr(run, key) for key in keys}, "values": dict(run.values)}
            for run in one.runs
        ],
        "measures": [_measure_json(one, measure) for measure in measures_of([one])],
    }


def _measure_json(one: SeedSet, measure: str) -> dict[str, Any]:
    values = list(one.final(measure).values())
    low, high = interval(values) or (None, None)
    return {
        "name": measure,
        "mean": sum(values) / len(values),
        "median": median(values),
        "min": min(values),
        "max": max(values),
        "low": low,
        "high": high,
    }


def _versus_json(versus: Versus) -> dict[str, Any]:
    found = versus.difference
    assert found is not None
    return {
        "base": versus.base.name,
        "set": versus.other.name,
        "measure": versus.measure,
        **{key: getattr(found, key) for key in ("word", "mean", "low", "high", "paired")},
        "seeds": list(found.seeds),
    }


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
    return MISSING if found is None else interval_words(found.mean, found.low, found.high)


def rows(sets: Sequence[SeedSet]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each measure: every set, and for two sets their difference."""
    differences = {one.measure: one for one in compared(sets)} if len(sets) == 2 else {}
    for measure in measures_of(sets):
        cells = [set_words(one, measure) for one in sets]
        cells += [difference_words(differences[measure])] if differences else []
        yield (measure_name(measure, sets), *cells)


Bucket = TypeVar("Bucket", ChartBucket, SeriesBucket)
BAND = "band: lowest to highest seed"


def median_line(lines: Sequence[ChartLine], name: str) -> ChartLine:
    """Return the runs of a set as one line of a full-screen chart."""
    longest = max(lines, key=lambda line: len(line.buckets))
    newest = [line.newest for line in lines if line.newest is not None]
    return replace(
        longest,
        name=name,
        runs=len(lines),
        buckets=tuple(
            replace(_merged(at, found), spread=None)
            for at, found in _together([line.buckets for line in lines], lambda bucket: bucket.x)
        ),
        newest=median(newest) if newest else None,
        newest_step=max((line.newest_step for line in lines if line.newest_step is not None), default=None),
        started_at=0.0,
        trouble=next((line.trouble for line in lines if line.trouble), ""),
    )


def median_buckets(runs: Sequence[tuple[SeriesBucket, ...]]) -> tuple[SeriesBucket, ...]:
    """Return the runs of a set as one line of a report."""
    return tuple(_merged(at, found) for at, found in _together(runs, lambda bucket: bucket.middle))


def _together(
    tracks: Sequence[Sequence[Bucket]], place: Callable[[Bucket], float]
) -> Iterator[tuple[Bucket, list[Bucket]]]:
    """Yield each bucket of the longest track with the nearest bucket of every track that reaches there."""
    places = [[place(bucket) for bucket in track] for track in tracks]
    for at in max(tracks, key=len):
        indexes = [reaching(xs, place(at)) for xs in places]
        yield at, [track[i] for track, i in zip(tracks, indexes, strict=True) if i is not None]


def _merged(at: Bucket, found: Sequence[Bucket]) -> Bucket:
    smooth = [one.smooth for one in found if one.smooth is not None]
    low, high = (min(smooth), max(smooth)) if smooth else (None, None)
    return replace(at, low=low, high=high, mean=_median(one.mean for one in found), smooth=_median(smooth))


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None
