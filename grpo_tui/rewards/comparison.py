"""Compute the result of a comparison from the policies' answers: measures, verdict, worst prompts.

All policies are measured against the first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from grpo_tui.core.paired import Difference, difference, pass_at, sizes_of, wins
from grpo_tui.core.statistics import mean
from grpo_tui.core.text import prompt_text
from grpo_tui.rewards.generating import DatasetRow
from grpo_tui.rewards.right_answers import Judge

MOST_WORST = 10
ByPrompt = Sequence[Sequence[float | None]]
"""For each policy one mean per prompt; None where nothing was scored."""


@dataclass(frozen=True, slots=True)
class Answers:
    """One policy's answers to one row, one entry per completion. `tokens` include the end token."""

    texts: tuple[str, ...]
    tokens: tuple[int, ...]
    truncated: tuple[bool, ...]
    scores: tuple[tuple[float | None, ...], ...]

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Answers:
        """Rebuild the answers from JSON."""
        scores = tuple(tuple(one) for one in data["scores"])
        return cls(tuple(data["texts"]), tuple(data["tokens"]), tuple(data["truncated"]), scores)


@dataclass(frozen=True, slots=True)
class Asked:
    """Questions, answers and rewards of a comparison."""

    names: Sequence[str]
    rows: Sequence[DatasetRow]
    answers: Sequence[Sequence[Answers]]
    rewards: Sequence[str]
    weights: Sequence[float]
    judge: Judge | None
    forms: Sequence[Judge]


@dataclass(frozen=True, slots=True)
class Measure:
    """One figure for every policy.

    Attributes:
        kind: `reward`, `pass@1`, `pass@k`, `total`, `length`, `truncated` or `format`.
    """

    name: str
    kind: str
    k: int | None
    by_prompt: ByPrompt

    def against_first(self, policy: int) -> Difference | None:
        """Return how far a policy is above the first."""
        return difference(self.by_prompt[0], self.by_prompt[policy])

    def to_json(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the shape that `grpo-tui compare --json` prints."""
        found = [(name, self.against_first(at)) for at, name in enumerate(names) if at]
        return {
            "name": self.name,
            "kind": self.kind,
            "k": self.k,
            "values": [mean(values) for values in self.by_prompt],
            "differences": [
                {"policy": name, "mean": known.mean, "low": known.low, "high": known.high}
                for name, known in found
                if known is not None
            ],
        }


def compared(asked: Asked) -> dict[str, Any]:
    """Return measures, wins, verdict and worst prompts, as `grpo-tui compare --json` prints them.

    The fraction of right answers decides if a reward can judge that, otherwise the total.
    """
    measures = measures_of(asked)
    total = next(one for one in measures if one.kind == "total")
    deciding = next((one for one in measures if one.kind == "pass@1"), total)
    others = [(at, name) for at, name in enumerate(asked.names) if at]
    known = {name: deciding.against_first(at) for at, name in others}
    counted = {name: wins(deciding.by_prompt[0], deciding.by_prompt[at]) for at, name in others}
    return {
        "deciding": deciding.name,
        "judge": None if asked.judge is None else asdict(asked.judge),
        "measures": [measure.to_json(asked.names) for measure in measures],
        "wins": [{"policy": name, **asdict(count)} for name, count in counted.items()],
        "verdict": [
            {"policy": name, "word": "not shown" if found is None else found.word}
            for name, found in known.items()
        ],
        "worst": [one for at, _ in others for one in _worst(asked, at, deciding, total)],
    }


def measures_of(asked: Asked) -> list[Measure]:
    """Return every figure, the deciding ones first.

    The answer format is left out if it equals another figure.
    """
    judge = asked.judge
    found: list[Measure] = []

    def add(
        name: str,
        kind: str,
        value: Callable[[Answers], float | None],
        judges: Sequence[Judge] = (),
        k: int | None = None,
    ) -> None:
        known = [_can_judge(judges, asked, row) for row in range(len(asked.rows))]
        values = [
            [value(one) if judged else None for one, judged in zip(policy, known, strict=True)]
            for policy in asked.answers
        ]
        found.append(Measure(name, kind, k, values))

    if judge is not None:
        for size in sizes_of(len(asked.answers[0][0].texts)):
            kind = "pass@1" if size == 1 else "pass@k"
            add(f"pass@{size}", kind, lambda one, k=size: _pass(one, judge, k), [judge], size)  # type: ignore[misc]
    add("total", "total", lambda one: mean(total_of(scores, asked.weights) for scores in one.scores))
    for index, name in enumerate(asked.rewards):
        add(name, "reward", lambda one, i=index: mean(scores[i] for scores in one.scores))  # type: ignore[misc]
    if asked.forms:
        add("answer format", "format", lambda one: _formed(one, asked.forms), asked.forms)
        if any(one.by_prompt == found[-1].by_prompt for one in found[:-1]):
            del found[-1]
    add("length", "length", lambda one: sum(one.tokens) / len(one.tokens))
    add("truncated", "truncated", lambda one: sum(one.truncated) / len(one.truncated))
    return found


def total_of(scores: Sequence[float | None], weights: Sequence[float]) -> float | None:
    """Return the weighted sum of a completion's scores as TRL computes it; None without scores."""
    known = [score * weight for score, weight in zip(scores, weights, strict=True) if score is not None]
    return math.fsum(known) if known else None


def _can_judge(judges: Sequence[Judge], asked: Asked, row: int) -> bool:
    """Return whether a row's answers can be judged. A prompt without columns may lack what a reward needs."""
    scores = [scores for policy in asked.answers for scores in policy[row].scores]
    silent = (all(one[judge.index] is None for one in scores) for judge in judges)
    return bool(asked.rows[row].columns) or not any(silent)


def _pass(one: Answers, judge: Judge, k: int) -> float:
    right = sum(judge.says_yes(scores[judge.index]) for scores in one.scores)
    return pass_at(k, right, len(one.scores))


def _formed(one: Answers, forms: Sequence[Judge]) -> float:
    whole = [all(form.says_yes(scores[form.index]) for form in forms) for scores in one.scores]
    return sum(whole) / len(whole)


def _worst(asked: Asked, policy: int, deciding: Measure, total: Measure) -> list[dict[str, Any]]:
    """Return the prompts on which a policy is furthest behind the first; ties are broken by the total."""
    found = []
    for at in range(len(asked.rows)):
        ours, theirs = deciding.by_prompt[0][at], deciding.by_prompt[policy][at]
        if ours is not None and theirs is not None and theirs < ours:
            tie = (total.by_prompt[policy][at] or 0.0) - (total.by_prompt[0][at] or 0.0)
            found.append((theirs - ours, tie, at, ours, theirs))
    return [
        {
            "name": asked.names[policy],
            "row": asked.rows[at].number,
            "prompt": prompt_text(asked.rows[at].prompt),
            "values": [ours, theirs],
            "base": _text(asked, 0, at, best=True),
            "policy": _text(asked, policy, at, best=False),
        }
        for _, _, at, ours, theirs in sorted(found)[:MOST_WORST]
    ]


def _text(asked: Asked, policy: int, row: int, *, best: bool) -> str:
    one, judge = asked.answers[policy][row], asked.judge

    def rank(at: int) -> tuple[bool, float]:
        scores = one.scores[at]
        right = judge is not None and judge.says_yes(scores[judge.index])
        return right, total_of(scores, asked.weights) or 0.0

    choose = max if best else min
    return one.texts[choose(range(len(one.texts)), key=rank)]
