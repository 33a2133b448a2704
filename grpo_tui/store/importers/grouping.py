"""From rows of a log to groups of completions: which belong together, what they come to, what is missing.

Knows lists of values; knows no file and no database. What a log lacks is computed, as TRL or verl would, or
left out.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from grpo_tui.core.records import Completion, Group
from grpo_tui.core.statistics import mean, std
from grpo_tui.core.text import whole_text

TRL_EPSILON, VERL_EPSILON = 1e-4, 1e-6
"""What each adds to a group's deviation before dividing (TRL's `GRPOTrainer`, verl's `core_algos`)."""


def runs_of_equal(keys: Sequence[str]) -> list[int]:
    """How many equal keys stand one behind another, each time."""
    lengths: list[int] = []
    for place, key in enumerate(keys):
        if place and key == keys[place - 1]:
            lengths[-1] += 1
        else:
            lengths.append(1)
    return lengths


def group_size(lengths: Sequence[int]) -> int:
    """The size of the groups, from the lengths of the runs of equal prompts.

    A prompt that comes twice in a row makes one long run of two groups, so the size is what divides all of
    them; 1 says that they have no size in common.
    """
    return functools.reduce(math.gcd, lengths, 0) or 1


def consecutive(keys: Sequence[str], size: int) -> list[list[int]]:
    """Places of the members of each group: equal keys one behind another, at most `size` unless it is 1."""
    groups: list[list[int]] = []
    place = 0
    for length in runs_of_equal(keys):
        step = length if size <= 1 else size
        groups += [
            list(range(start, min(start + step, place + length)))
            for start in range(place, place + length, step)
        ]
        place += length
    return groups


def gathered(keys: Sequence[str]) -> list[list[int]]:
    """Places of the members of each group: all equal keys, wherever they stand."""
    groups: dict[str, list[int]] = {}
    for place, key in enumerate(keys):
        groups.setdefault(key, []).append(place)
    return list(groups.values())


def total(rewards: Sequence[float | None]) -> float | None:
    """The unweighted sum of the rewards that were given, None when none was."""
    given = [value for value in rewards if value is not None and not math.isnan(value)]
    return sum(given) if given else None


def advantages(totals: Sequence[float | None], epsilon: float) -> list[float]:
    """Each total less the group's mean, over its deviation; 0 for a completion that was not scored."""
    centre, spread = mean(totals), std(totals)
    if centre is None or spread is None:
        return [0.0] * len(totals)
    return [
        0.0 if value is None or math.isnan(value) else (value - centre) / (spread + epsilon)
        for value in totals
    ]


def group_of(
    index: int,
    prompt: Any,
    columns: Mapping[str, Any],
    completions: Sequence[Any],
    rewards: Sequence[Sequence[float | None]],
    own_advantages: Sequence[float | None] | None,
    extras: Sequence[Mapping[str, Any]],
    epsilon: float,
) -> Group:
    """A group as our own recorder would have written it.

    Args:
        index: Position within the batch.
        prompt: A text, or chat messages.
        columns: Columns of the dataset, where the log has them.
        completions: A text or chat messages each.
        rewards: One entry per function, for each completion.
        own_advantages: As logged; None to compute them.
        extras: What else was logged of each completion.
        epsilon: Of the trainer that wrote the log.
    """
    totals = [total(values) for values in rewards]
    computed = advantages(totals, epsilon)
    members = []
    for place, completion in enumerate(completions):
        text, messages = readable(completion)
        logged = None if own_advantages is None else own_advantages[place]
        members.append(
            Completion(
                index=place,
                text=text,
                rewards=tuple(rewards[place]),
                total=totals[place],
                advantage=computed[place] if logged is None else logged,
                tokens=0,
                truncated=False,
                extra=dict(extras[place]),
                messages=messages,
            )
        )
    return Group(index, prompt, dict(columns), tuple(members))


def readable(completion: Any) -> tuple[str, list[dict[str, Any]] | None]:
    """The text of a completion, and its messages when they say more than one plain answer."""
    if isinstance(completion, str | None):
        return completion or "", None
    messages = without_nothing(completion)
    if not isinstance(messages, list):
        return str(completion), None
    plain = len(messages) == 1 and messages[0].keys() <= {"role", "content"}
    return whole_text(messages), None if plain else messages


def without_nothing(value: Any) -> Any:
    """A value of a parquet file, where every object has every key, without those that hold nothing."""
    if isinstance(value, list):
        return [without_nothing(item) for item in value]
    if isinstance(value, dict):
        return {key: without_nothing(item) for key, item in value.items() if item is not None}
    return value
