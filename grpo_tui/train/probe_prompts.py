"""Before training and every so many steps the same prompts are answered, scored and kept beside the groups.

At the safe point, so that no later number changes: random states, TRL's metrics and what rewards have
learned stay as they were. The rewards are called where training calls them; asynchronous ones and reward
models, which only TRL can call, abstain. Knows nothing of where the prompts come from or who looks at the
answers.
"""

from __future__ import annotations

import copy
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from transformers import TrainerCallback

from grpo_tui.core.records import Completion, GenerationBatch, Group, Record
from grpo_tui.train import compat
from grpo_tui.train.capture import HIDDEN_COLUMNS, Capture
from grpo_tui.train.desk import RewardDesk, is_async
from grpo_tui.train.phases import PhaseClock
from grpo_tui.train.ranks import Ranks
from grpo_tui.train.reward_state import restore_reward_states, reward_states
from grpo_tui.train.sampling import Drawn, draw, unchanged_randomness
from grpo_tui.train.settings import Refused

Row = Mapping[str, Any]


class ProbePrompts:
    """Asks the rows of one run.

    Args:
        trainer: the GRPOTrainer, hooked.
        rows: what is asked, with a column `prompt`.
        every: steps from one time to the next.
        count: completions of each.
        temperature: of sampling; None for that of the run.
        put: takes the records.
        capture: numbers the batches.
        desk: calls the rewards.
        phases: told what goes on.
        attempt: the attempt it belongs to.
    """

    def __init__(
        self,
        trainer: Any,
        rows: Sequence[Row],
        *,
        every: int,
        count: int,
        temperature: float | None,
        put: Callable[[Record], None],
        capture: Capture,
        desk: RewardDesk,
        phases: PhaseClock,
        attempt: int,
    ) -> None:
        self._trainer, self._rows = trainer, list(rows)
        self._every, self._count, self._temperature = every, count, temperature
        self._put, self._capture, self._desk, self._phases = put, capture, desk, phases
        self._attempt = attempt
        self._asked_at = -1
        self._told: set[str] = set()
        self._first = Ranks(trainer).first

    def safe_point(self) -> None:
        """Ask, when it is time; a step counts once, though its safe point can come twice."""
        step = int(self._trainer.state.global_step)
        if step % self._every or step == self._asked_at:
            return
        self._asked_at = step
        names, functions = self._trainer.reward_func_names, self._trainer.reward_funcs
        learned = copy.deepcopy(reward_states(names, functions))
        with self._phases.during("eval"), unchanged_randomness():
            # On every rank: each may hold a part of the model, and a batch has one number on all of them.
            drawn = [self._drawn(row) for row in self._rows]
            number = self._capture.next_number()
            if self._first:
                asked = [(row, one) for row, one in zip(self._rows, drawn, strict=True) if one]
                try:
                    self._record(step, number, asked)
                except Exception as error:
                    self._tell(f"answers to probe prompts are not kept: {type(error).__name__}: {error}")
        restore_reward_states(names, functions, learned)

    def _drawn(self, row: Row) -> Drawn | None:
        try:
            return draw(self._trainer, row["prompt"], count=self._count, temperature=self._temperature)
        except Exception as error:  # a look at the policy is no reason to end its training
            why = str(error) if isinstance(error, Refused) else f"{type(error).__name__}: {error}"
            self._tell(f"a probe prompt cannot be asked: {why}")
            return None

    def _record(self, step: int, number: int, asked: Sequence[tuple[Row, Drawn]]) -> None:
        if not asked:
            return
        self._desk.batch = number
        rows = [row for row, drawn in asked for _ in drawn.ids]
        ids = [one for _, drawn in asked for one in drawn.ids]
        cut = [one for _, drawn in asked for one in drawn.truncated]
        texts = [self._trainer._tokenizer.decode(one, skip_special_tokens=True) for one in ids]
        rewards, extra = self._scores(rows, texts, ids)
        totals = _totals(self._trainer, rewards)
        completions = [
            Completion(
                index=place % self._count,
                text=text,
                rewards=tuple(rewards[place]),
                total=totals[place],
                advantage=0.0,  # nothing is learnt from it
                tokens=len(ids[place]),
                truncated=cut[place],
                extra={name: values[place] for name, values in extra.items() if place < len(values)},
            )
            for place, text in enumerate(texts)
        ]
        groups = tuple(
            Group(
                index,
                row["prompt"],
                {key: value for key, value in row.items() if key not in HIDDEN_COLUMNS},
                tuple(completions[index * self._count : (index + 1) * self._count]),
            )
            for index, (row, _) in enumerate(asked)
        )
        self._put(GenerationBatch(self._attempt, number, 0, "probe", step, step, time.time(), groups))

    def _scores(
        self, rows: Sequence[Row], texts: Sequence[str], ids: Sequence[list[int]]
    ) -> tuple[list[list[float | None]], dict[str, list[Any]]]:
        """What each function gives, (completions, functions), and what they kept beside them."""
        extra: dict[str, list[Any]] = {}
        prompts = [row["prompt"] for row in rows]
        columns = {key: [row[key] for row in rows] for key in rows[0] if key not in HIDDEN_COLUMNS}
        given: list[Sequence[Any]] = []
        for function, name in zip(self._trainer.reward_funcs, self._trainer.reward_func_names, strict=True):
            answers = [
                text if isinstance(prompt, str) else [{"role": "assistant", "content": text}]
                for prompt, text in zip(prompts, texts, strict=True)
            ]
            try:
                if not _callable_here(function):
                    raise TypeError("only TRL itself can call it")
                values = function(
                    prompts=list(prompts),
                    completions=answers,
                    completion_ids=[list(one) for one in ids],
                    trainer_state=self._trainer.state,
                    log_extra=lambda key, kept: extra.__setitem__(key, list(kept)),
                    log_metric=lambda *_: None,
                    **{key: list(column) for key, column in columns.items()},
                )
            except Exception as error:
                self._tell(f"{name} does not score probe prompts: {type(error).__name__}: {error}")
                self._desk.failed_function, self._desk.failed_sample = None, ""
                values = [None] * len(texts)
            given.append(values)
        return [[_number(values[place]) for values in given] for place in range(len(texts))], extra

    def _tell(self, sentence: str) -> None:
        if sentence not in self._told:
            self._told.add(sentence)
            print(f"grpo-tui: {sentence}", file=sys.stderr, flush=True)


class AskedAtFirst(TrainerCallback):
    """Asks before the first step of a run, so that the untrained policy stands beside what it becomes."""

    def __init__(self, probes: ProbePrompts) -> None:
        self._probes = probes

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """A resumed run was asked already."""
        if state.global_step == 0:
            self._probes.safe_point()


def _callable_here(function: Any) -> bool:
    import torch

    return callable(function) and not is_async(function) and not isinstance(function, torch.nn.Module)


def _totals(trainer: Any, rewards: list[list[float | None]]) -> list[float | None]:
    import torch

    filled = [[math.nan if value is None else value for value in row] for row in rewards]
    return compat.totals(
        trainer, torch.tensor(filled, dtype=torch.float32, device=trainer.accelerator.device)
    )


def _number(value: Any) -> float | None:
    return None if value is None or math.isnan(float(value)) else float(value)
