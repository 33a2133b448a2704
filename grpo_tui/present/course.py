"""How groups and completions change over a run: kinds of groups, variety, lengths, shares of the rewards.

Kinds come from every group of the run; what needs texts comes from groups picked evenly, so that a long run
is looked through as quickly as a short one. Knows the reader; paints nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from grpo_tui.core.repetition import distinct_share, repeated_share
from grpo_tui.core.statistics import group_covariances, mean, shares_of
from grpo_tui.store.reader import RunReader, StoredGroup

STRETCHES = 48
GROUPS_EACH = 6
"""Groups of a stretch that are looked into."""
MOST_TEXT = 8_000
"""Characters of a completion that are looked at for repetition."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Some neighbouring steps.

    Attributes:
        first_step, last_step: inclusive.
        right, wrong, flat, masked: shares of groups flat at the highest total of the run, at the lowest, and
            otherwise, and of those that the loss leaves out; what they leave of 1 is mixed. None where it is
            not known, `masked` also in a run that has none.
        looked_at: groups whose completions were read.
        distinct: mean share of different texts in a group.
        repeated: mean share of repeated runs of four words in a completion.
        better_tokens, worse_tokens: mean length of completions with an advantage above 0, and below.
        shares: per reward function, its share of the variance within groups.
    """

    first_step: int
    last_step: int
    right: float | None
    wrong: float | None
    flat: float | None
    looked_at: int = 0
    distinct: float | None = None
    repeated: float | None = None
    better_tokens: float | None = None
    worse_tokens: float | None = None
    shares: tuple[float | None, ...] = ()
    masked: float | None = None

    @property
    def mixed(self) -> float | None:
        """Share of groups that teach."""
        rest = (self.right or 0) + (self.wrong or 0) + (self.masked or 0)
        return None if self.flat is None else max(0.0, 1 - self.flat - rest)


def course(
    reader: RunReader,
    weights: Sequence[float],
    *,
    stretches: int = STRETCHES,
    given_up: Callable[[], bool] = lambda: False,
) -> list[Stretch]:
    """Look through a run.

    Args:
        reader: the run.
        weights: of the reward functions, in their order.
        stretches: how many at most.
        given_up: asked between stretches; True ends it with what there is.
    """
    flat = reader.series_window("grpo_tui/flat_share", buckets=stretches)
    top = {b.first: b.mean for b in reader.series_window("grpo_tui/flat_top", buckets=stretches)}
    low = {b.first: b.mean for b in reader.series_window("grpo_tui/flat_bottom", buckets=stretches)}
    masks = {b.first: b.mean for b in reader.series_window("grpo_tui/masked_share", buckets=stretches)}
    config = reader.fact("config")
    grpo = config.get("grpo") if isinstance(config, Mapping) else None
    normalized = isinstance(grpo, Mapping) and grpo.get("multi_objective_aggregation") == "normalize_then_sum"
    found = []
    for bucket in flat:
        if given_up():
            break
        right, wrong, masked = (by_step.get(bucket.first) for by_step in (top, low, masks))
        rest = (right or 0) + (wrong or 0) + (masked or 0)
        between = None if bucket.mean is None else max(0.0, bucket.mean - rest)
        groups = _picked(reader, bucket.first, bucket.last)
        looked = _looked_into(groups, weights, bucket.first, bucket.last, normalized=normalized)
        found.append(replace(looked, right=right, wrong=wrong, flat=between, masked=masked))
    return found


def _picked(reader: RunReader, first_step: int, last_step: int) -> list[StoredGroup]:
    """Groups of some steps of the stretch, evenly."""
    steps = last_step - first_step + 1
    at = sorted({first_step + steps * n // GROUPS_EACH for n in range(min(GROUPS_EACH, steps))})
    each = -(-GROUPS_EACH // len(at))
    found: list[StoredGroup] = []
    for step, end in zip(at, [*(n - 1 for n in at[1:]), last_step], strict=True):
        found += reader.groups(first_step=step, last_step=end, mode="train", limit=each)
    return found


def _looked_into(
    groups: Sequence[StoredGroup],
    weights: Sequence[float],
    first_step: int,
    last_step: int,
    *,
    normalized: bool,
) -> Stretch:
    completions = [completion for group in groups for completion in group.completions]
    blank = (None,) * len(weights)
    sums = [
        group_covariances(
            [(*c.rewards, *blank)[: len(weights)] for c in group.completions], weights, normalized=normalized
        )
        for group in groups
    ]
    return Stretch(
        first_step,
        last_step,
        right=None,
        wrong=None,
        flat=None,
        looked_at=len(groups),
        distinct=mean(distinct_share([c.text for c in group.completions]) for group in groups),
        repeated=mean(repeated_share(c.text[:MOST_TEXT]) for c in completions),
        better_tokens=mean(c.tokens for c in completions if c.advantage > 0),
        worse_tokens=mean(c.tokens for c in completions if c.advantage < 0),
        shares=tuple(shares_of(sums, len(weights))) if sums else (),
    )


@dataclass(frozen=True, slots=True)
class ProbeStep:
    """What the probe prompts got at one step.

    Attributes:
        answered: completions.
        total: their mean total, None when none was scored.
        rewards: mean of each function, in order.
        truncated: share that was cut off.
    """

    step: int
    answered: int
    total: float | None
    rewards: tuple[float | None, ...]
    truncated: float


def probe_course(reader: RunReader, functions: int, *, most: int = STRETCHES) -> list[ProbeStep]:
    """The probe prompts over the run: the first and the last time and others between, at most `most`.

    Args:
        reader: the run.
        functions: how many reward functions it has.
        most: steps at most.
    """
    steps = [stat.step for stat in reader.step_stats(mode="probe")]
    if len(steps) > most:
        steps = [steps[n * (len(steps) - 1) // (most - 1)] for n in range(most)]
    found = []
    for step in steps:
        groups = reader.groups(first_step=step, last_step=step, mode="probe", limit=1_000)
        done = [c for group in groups for c in group.completions]
        if done:
            rewards = tuple(
                mean(c.rewards[k] if k < len(c.rewards) else None for c in done) for k in range(functions)
            )
            cut = sum(c.truncated for c in done) / len(done)
            found.append(ProbeStep(step, len(done), mean(c.total for c in done), rewards, cut))
    return found
