"""What training changed: the answers of a run's first evaluation beside those of its newest one."""

from __future__ import annotations

from dataclasses import dataclass

from grpo_tui.core.evaluations import Evaluation, Evaluations
from grpo_tui.core.statistics import mean
from grpo_tui.core.text import one_line, prompt_text
from grpo_tui.present.evaluation_text import verdict
from grpo_tui.present.formatting import fixed
from grpo_tui.present.group_card import gold_of
from grpo_tui.store.reader import RunReader, StoredGroup

MOST_ROWS = 1_000
MOST_TEXT = 400
EPSILON = 1e-6
"""A score that is lower by less still counts as right, as in `rewards.right_answers`."""


@dataclass(frozen=True, slots=True)
class Answered:
    """The first completion as one line, how many are right if a reward decides that, and the mean total."""

    text: str
    right: int | None
    reward: float | None


@dataclass(frozen=True, slots=True)
class AnswerPair:
    """A held-out prompt answered at two evaluations."""

    prompt: str
    gold: str
    before: Answered
    after: Answered


@dataclass(frozen=True, slots=True)
class BeforeAfter:
    """Two evaluations of a run: the verdict as a sentence with its figures, and in a few words."""

    pairs: tuple[AnswerPair, ...]
    samples: int
    said: str
    brief: str


def read_before_after(reader: RunReader, found: Evaluations | None) -> BeforeAfter | None:
    """Return the first and the newest evaluation by prompt; None without two that recorded their answers."""
    if found is None or len(found.done) < 2:
        return None
    first, newest = found.done[0], found.done[-1]
    earlier, later = _groups(reader, first), _groups(reader, newest)
    pairs = tuple(
        AnswerPair(
            prompt=one_line(prompt_text(one.prompt), MOST_TEXT),
            gold=gold_of(one.columns) or "",
            before=_answered(one, found),
            after=_answered(later[key], found),
        )
        for key, one in earlier.items()
        if key in later
    )
    word, said = verdict(found)
    brief = f"{word}: {one_line(found.deciding, 30)} {fixed(first.value)} → {fixed(newest.value)}"
    return BeforeAfter(pairs, found.samples, said, brief) if pairs else None


def _groups(reader: RunReader, one: Evaluation) -> dict[str, StoredGroup]:
    if one.batch is None:  # recorded by an older version
        return {}
    groups = reader.groups(first_step=one.step, last_step=one.step, mode="probe", limit=MOST_ROWS)
    return {group.prompt_key: group for group in groups if group.batch == one.batch}


def _answered(group: StoredGroup, found: Evaluations) -> Answered:
    members, judge, right = group.completions, found.judge, None
    if judge is not None:
        scores = [one.rewards[judge] if 0 <= judge < len(one.rewards) else None for one in members]
        right = sum(score is not None and score >= found.least - EPSILON for score in scores)
    text = one_line(members[0].text, MOST_TEXT) if members else ""
    return Answered(text, right, mean(one.total for one in members))
