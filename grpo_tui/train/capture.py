"""Capture every generation batch, with rewards and advantages as TRL computed them.

Wraps methods of the trainer: one sees the rewards, another the advantages, before TRL shuffles. Records are
built only from what TRL has already copied to the host.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import iscoroutinefunction
from typing import Any

from grpo_tui.core.records import (
    ALONE,
    EFFECTIVE,
    LEFT_OUT,
    TOOLS,
    Completion,
    GenerationBatch,
    Group,
    Mode,
    PhaseSpan,
    Record,
)
from grpo_tui.core.text import written_text
from grpo_tui.rewards.contract import copied
from grpo_tui.train import compat
from grpo_tui.train.phases import PhaseClock
from grpo_tui.train.reward_runner import RewardRunner

HIDDEN_COLUMNS = ("prompt", "completion", "completion_ids")


_Answer = tuple[str, list[dict[str, Any]] | None]
"""The model's own text in a completion, and all messages when it is more than one plain text."""


@dataclass(frozen=True, slots=True)
class _Scored:
    prompts: list[Any]
    answers: list[_Answer]
    tokens: list[int]
    rewards: list[list[float | None]]
    totals: list[float | None]
    truncated: list[bool]
    masked: list[bool]
    extra: dict[str, list[Any]]
    columns: list[dict[str, Any]]


class Capture:
    """Hooks the generation of one trainer."""

    def __init__(
        self,
        trainer: Any,
        put: Callable[[Record], None],
        phases: PhaseClock,
        runner: RewardRunner,
        attempt: int,
    ):
        self._trainer, self._put, self._phases, self._runner = trainer, put, phases, runner
        self._attempt = attempt
        self._numbers = itertools.count(0)
        self._scored: _Scored | None = None
        self._own: list[list[bool]] = []
        self._weights: list[tuple[float, float]] = []
        self._tools: dict[str, tuple[int, int, float]] = {}
        """Of each tool that could be called since the last row: calls, failed ones, seconds of the others."""
        self.newest_prompt: Any = None
        """First prompt of the newest batch, for `sample` without a prompt."""

    def next_number(self) -> int:
        """Return a batch number for completions that TRL did not generate."""
        return next(self._numbers)

    def figures(self) -> dict[str, float]:
        """Return metrics of the batches since the last call: importance sampling, and calls of tools."""
        taken, self._weights = self._weights, []
        called, self._tools = self._tools, {}
        means = [sum(values) / len(taken) for values in zip(*taken, strict=True)]
        return dict(zip((LEFT_OUT, EFFECTIVE), means, strict=False)) | {
            f"{TOOLS}{name}/{what}": float(value)
            for name, sums in called.items()
            for what, value in zip(("calls", "failed", "seconds"), sums, strict=True)
        }

    def install(self) -> None:
        """Wrap the trainer's methods."""
        compat.wrap(self._trainer, "_generate", self._around_generate)
        if self._trainer.accelerator.num_processes > 1:
            compat.wrap(self._trainer, "_generate_single_turn", self._around_turn)
        compat.wrap_tools(self._trainer, self._timed)
        compat.wrap(self._trainer, "_calculate_rewards", self._around_rewards)
        compat.wrap(self._trainer, "_generate_and_score_completions", self._around_generation)

    def _around_generate(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def generate(prompts: Any) -> Any:
            self._own = []
            output = original(prompts)
            masks = output[2]  # per completion: 1 for a token of the model, 0 for one of a tool
            self._own = [] if masks is None else [[bool(own) for own in mask] for mask in masks]
            return output

        return generate

    def _around_turn(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Time what a rank generates by itself: `_generate` ends when all ranks have."""

        def generate_single_turn(*args: Any, **kwargs: Any) -> Any:
            began_at = time.time()
            output = original(*args, **kwargs)
            trainer, took_s = self._trainer, max(0.0, time.time() - began_at)
            if compat.mode(trainer) == "train":
                rank, step = int(trainer.accelerator.process_index), int(trainer.state.global_step) + 1
                self._put(PhaseSpan(self._attempt, rank, ALONE, step, began_at, took_s))
            return output

        return generate_single_turn

    def _timed(self, name: str, tool: Callable[..., Any]) -> Callable[..., Any]:
        self._tools.setdefault(name, (0, 0, 0.0))

        async def awaited(**arguments: Any) -> Any:
            with self._calling(name):
                return await tool(**arguments)

        def called(**arguments: Any) -> Any:
            with self._calling(name):
                return tool(**arguments)

        return awaited if iscoroutinefunction(tool) else called

    @contextmanager
    def _calling(self, name: str) -> Iterator[None]:
        began, failed = time.perf_counter(), 1
        try:
            yield
            failed = 0
        finally:
            calls, failures, seconds = self._tools[name]
            took = 0.0 if failed else time.perf_counter() - began  # a call may fail at once, or at a timeout
            self._tools[name] = calls + 1, failures + failed, seconds + took

    def _around_rewards(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def calculate_rewards(inputs: Any, prompts: Any, completions: Any, ids: Any) -> Any:
            self._runner.returned = {}
            # Copy before the rewards run: what they change in these lists was never generated.
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
            self._runner.batch = number = self.next_number()
            if mode == "train":
                self._phases.enter("generate")
            output = original(inputs)
            if mode == "train":
                self._phases.enter("update")
                step += 1
            if self._scored is not None:
                groups = self._groups(self._scored, output["advantages"].tolist())
                rank, first = int(trainer.accelerator.process_index), self._runner.first
                at, attempt = time.time(), self._attempt
                batch = GenerationBatch(attempt, number, rank, mode, step, last_step, at, groups, first)
                self._put(batch)
                self.newest_prompt = self._scored.prompts[0]
                self._scored = None
                if mode == "train" and not rank:
                    self._weights += _importance(output)
            return output

        return generate_and_score

    def _score(self, inputs: Any, prompts: Any, answers: Any, ids: Any, rewards: Any) -> _Scored:
        trainer = self._trainer
        count = len(prompts)
        start = int(trainer.accelerator.process_index) * count
        local = rewards[start : start + count]
        ends = compat.end_tokens(trainer)
        truncated = [bool(row) and row[-1] not in ends for row in ids]
        marked = [len(own) for own in self._own] == [len(row) for row in ids]
        owned = self._own if marked else [[True] * len(row) for row in ids]
        return _Scored(
            prompts=list(prompts),
            answers=[
                self._parted(answer, row, own) for answer, row, own in zip(answers, ids, owned, strict=True)
            ],
            tokens=[sum(own) for own in owned],
            rewards=self._with_abstentions(local.tolist()),
            totals=compat.totals(trainer, local),
            truncated=truncated,
            masked=[cut and bool(getattr(trainer, "mask_truncated_completions", False)) for cut in truncated],
            extra=compat.pending_extra(trainer),
            columns=[
                {key: value for key, value in row.items() if key not in HIDDEN_COLUMNS} for row in inputs
            ],
        )

    def _parted(self, answer: _Answer, ids: list[int], own: list[bool]) -> _Answer:
        """Split an answer into messages where a `rollout_func` put text between the model's tokens."""
        _, messages = answer
        if all(own) or (messages is not None and len(messages) > 1):
            return answer
        parts = [
            {
                "role": "assistant" if mine else "tool",
                "content": self._trainer._tokenizer.decode([i for i, _ in run], skip_special_tokens=True),
            }
            for mine, run in itertools.groupby(zip(ids, own, strict=True), key=lambda pair: pair[1])
        ]
        return written_text(parts), parts

    def _with_abstentions(self, rows: list[list[float]]) -> list[list[float | None]]:
        """Return rewards as the functions returned them, with None where they abstained.

        In TRL's float32 tensor None and NaN look the same, and 0.7 is 0.699999988.
        """
        result: list[list[float | None]] = [list(row) for row in rows]
        for index, values in self._runner.returned.items():
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
                    tokens=scored.tokens[i],
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


def _importance(output: Any) -> list[tuple[float, float]]:
    """Return the fraction of the weights for vLLM that are 0, and their effective sample size; empty without.

    `importance_sampling_ratio` has the shape (B, 1), one per completion, or (B, T), one per token. Masking
    sets a weight to 0. TRL logs the minimum, mean and maximum.
    """
    weights = output.get("importance_sampling_ratio")
    if weights is None:
        return []
    if weights.shape[1] > 1:
        weights = weights[(output["completion_mask"] * output.get("tool_mask", 1)).bool()]
    weights = weights.detach().double().flatten()
    whole, squares = float(weights.sum()), float((weights**2).sum())
    if not len(weights) or not math.isfinite(squares):
        return []
    effective = whole**2 / (len(weights) * squares) if squares else 0.0
    return [(float((weights == 0).double().mean()), effective)]


def _number(value: Any, fallback: float | None) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return fallback
    # A value outside float32 is infinite in TRL. Keep what TRL used.
    return fallback if fallback is not None and math.isinf(fallback) else number


def _readable(completion: Any) -> _Answer:
    if isinstance(completion, str):
        return completion, None
    plain = (
        len(completion) == 1
        and set(completion[0]) <= {"role", "content"}
        and isinstance(completion[0].get("content"), str)
    )
    return written_text(completion), None if plain else copied(completion)
