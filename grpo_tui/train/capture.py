"""Capture every generation batch, with rewards and advantages, as TRL computed them.

Wraps two methods of the trainer: rewards are seen in one, advantages in the other, before TRL
shuffles. Builds records only from what TRL has brought to the host. Knows nothing of storage.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from grpo_tui.core.records import Completion, GenerationBatch, Group, Mode, Record
from grpo_tui.core.text import whole_text
from grpo_tui.rewards.contract import copied
from grpo_tui.train import compat
from grpo_tui.train.desk import RewardDesk
from grpo_tui.train.phases import PhaseClock

HIDDEN_COLUMNS = ("prompt", "completion", "completion_ids")


@dataclass(frozen=True, slots=True)
class _Scored:
    """One batch between the reward call and the advantages."""

    prompts: list[Any]
    answers: list[tuple[str, list[dict[str, Any]] | None]]
    ids: list[list[int]]
    rewards: list[list[float | None]]
    totals: list[float | None]
    truncated: list[bool]
    masked: list[bool]
    extra: dict[str, list[Any]]
    columns: list[dict[str, Any]]


class Capture:
    """Hooks the generation of one trainer."""

    def __init__(
        self, trainer: Any, put: Callable[[Record], None], phases: PhaseClock, desk: RewardDesk, attempt: int
    ):
        self._trainer, self._put, self._phases, self._desk, self._attempt = (
            trainer,
            put,
            phases,
            desk,
            attempt,
        )
        self._numbers = itertools.count(0)
        self._scored: _Scored | None = None
        self.newest_prompt: Any = None
        """The first prompt of the newest batch, for sampling without a prompt."""

    def next_number(self) -> int:
        """The number of the next generation batch, for completions that TRL did not generate."""
        return next(self._numbers)

    def install(self) -> None:
        """Put the hooks in place."""
        compat.wrap(self._trainer, "_calculate_rewards", self._around_rewards)
        compat.wrap(self._trainer, "_generate_and_score_completions", self._around_generation)

    def _around_rewards(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def calculate_rewards(inputs: Any, prompts: Any, completions: Any, ids: Any) -> Any:
            self._desk.returned = {}
            # Before the rewards: what they change in these lists was never generated.
            asked, answered, made = copied(prompts), [_readable(c) for c in completions], copied(ids)
            with self._phases.during("reward"):
                rewards = original(inputs, prompts, completions, ids)
            self._scored = self._score(inputs, asked, answered, made, rewards)
            return rewards

        return calculate_rewards

    def _around_generation(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def generate_and_score(inputs: Any) -> Any:
            trainer = self._trainer
            mode: Mode = compat.mode(trainer)
            step = int(trainer.state.global_step)
            last_step = compat.last_step_of_batch(trainer) if mode == "train" else step
            self._desk.batch = number = self.next_number()
            if mode == "train":
                self._phases.enter("generate")
            output = original(inputs)
            if mode == "train":
                self._phases.enter("update")
                step += 1
            if self._scored is not None:
                groups = self._groups(self._scored, output["advantages"].tolist())
                rank = int(trainer.accelerator.process_index)
                self._put(
                    GenerationBatch(
                        self._attempt,
                        number,
                        rank,
                        mode,
                        step,
                        last_step,
                        time.time(),
                        groups,
                    )
                )
                self.newest_prompt = self._scored.prompts[0]
                self._scored = None
            return output

        return generate_and_score

    def _score(self, inputs: Any, prompts: Any, answers: Any, ids: Any, rewards: Any) -> _Scored:
        trainer = self._trainer
        count = len(prompts)
        start = int(trainer.accelerator.process_index) * count
        local = rewards[start : start + count]
        ends = compat.end_tokens(trainer)
        truncated = [bool(row) and row[-1] not in ends for row in ids]
        return _Scored(
            prompts=list(prompts),
            answers=answers,
            ids=ids,
            rewards=self._with_abstentions(local.tolist()),
            totals=compat.totals(trainer, local),
            truncated=truncated,
            masked=[cut and bool(getattr(trainer, "mask_truncated_completions", False)) for cut in truncated],
            extra=compat.pending_extra(trainer),
            columns=[
                {key: value for key, value in row.items() if key not in HIDDEN_COLUMNS} for row in inputs
            ],
        )

    def _with_abstentions(self, rows: list[list[float]]) -> list[list[float | None]]:
        """The gathered rewards, with None where a function said None and its own precision elsewhere.

        In the tensor None and NaN are one, and 0.7 is 0.699999988; what the functions returned tells more.
        """
        result: list[list[float | None]] = [list(row) for row in rows]
        for index, values in self._desk.returned.items():
            if len(values) != len(result):
                continue
            for row, value in zip(result, values, strict=True):
                row[index] = None if value is None else _number(value, row[index])
        return result

    def _groups(self, scored: _Scored, advantages: Sequence[float]) -> tuple[Group, ...]:
        size = max(1, compat.group_size(self._trainer))
        first = int(self._trainer.accelerator.process_index) * len(scored.prompts)
        groups: dict[int, list[Completion]] = {}
        member: dict[int, int] = {}
        for i in range(len(scored.prompts)):
            number = (first + i) // size
            member.setdefault(number, i)
            text, messages = scored.answers[i]
            groups.setdefault(number, []).append(
                Completion(
                    index=(first + i) % size,
                    text=text,
                    rewards=tuple(scored.rewards[i]),
                    total=scored.totals[i],
                    advantage=float(advantages[i]),
                    tokens=len(scored.ids[i]),
                    truncated=scored.truncated[i],
                    extra={name: values[i] for name, values in scored.extra.items() if i < len(values)},
                    messages=messages,
                    masked=scored.masked[i],
                )
            )
        return tuple(
            Group(number, scored.prompts[member[number]], scored.columns[member[number]], tuple(rows))
            for number, rows in groups.items()
        )


def _number(value: Any, fallback: float | None) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return fallback
    # A value outside float32 is infinite for TRL; what TRL used is what is kept.
    return fallback if fallback is not None and math.isinf(fallback) else number


def _readable(completion: Any) -> tuple[str, list[dict[str, Any]] | None]:
    """The text of a completion, and its messages when they say more than one plain answer."""
    if isinstance(completion, str):
        return completion, None
    plain = (
        len(completion) == 1
        and set(completion[0]) <= {"role", "content"}
        and isinstance(completion[0].get("content"), str)
    )
    return whole_text(completion), None if plain else copied(completion)
