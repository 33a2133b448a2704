"""Evaluate the policy while it trains: the measures of `compare`, on held-out rows, at the safe point.

Based on the probe prompts (`train/sampling.py`), which leave later numbers unchanged. Each evaluation uses
the same rows and the same random seed. Results are recorded as metrics of the step, and as the fact
`evaluations`, from which a resume continues the series.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from grpo_tui.config.run_config import RunConfig
from grpo_tui.config.section import Evaluate
from grpo_tui.core.evaluations import (
    FACT,
    GAIN,
    HIGH,
    LOW,
    PREFIX,
    WITHOUT_GAIN,
    Evaluation,
    Evaluations,
    Means,
)
from grpo_tui.core.paired import difference
from grpo_tui.core.records import Fact, Group, MetricRow
from grpo_tui.core.statistics import mean
from grpo_tui.present.evaluation_text import verdict
from grpo_tui.present.formatting import setting as shown
from grpo_tui.rewards.comparison import Answers, Asked, Measure, measures_of
from grpo_tui.rewards.generating import DatasetRow
from grpo_tui.rewards.right_answers import MEASURED_ROWS, Judge, Measures, find_judge, made_of
from grpo_tui.rewards.score_report import FunctionInfo, FunctionScore
from grpo_tui.train import compat
from grpo_tui.train.checkpoints import Checkpoints, DiskFull
from grpo_tui.train.ranks import Ranks
from grpo_tui.train.sampling import Drawn, ProbeSampler, Row, encode, generate, generation_config, until_end
from grpo_tui.train.settings import Refused

SHOWN = ("pass@1", "pass@k", "total", "reward")
"""Kinds of measures recorded with their gain."""


SAMPLING = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "max_new_tokens")
"""Settings that decide how the policy answers. Evaluations with other values cannot be compared."""

RANKS_APART = 1_000_003
"""Distance between the seeds of two ranks; larger than the number of completions per rank."""


class Evaluator(ProbeSampler):
    """Evaluates the policy of one run.

    Args:
        rows: Held-out rows.
        config: Provides the system prompt and the column with the right answer.
        sources: Text of each reward's file, from which its answer format is derived.
        earlier: Evaluations of a resumed run up to its checkpoint; None without any.
        common: As for `ProbeSampler`.
    """

    about, one_of = "the evaluation", "a prompt of the evaluation"

    def __init__(
        self,
        trainer: Any,
        rows: Sequence[Row],
        wanted: Evaluate,
        *,
        config: RunConfig,
        sources: Sequence[str],
        earlier: Evaluations | None,
        checkpoints: Checkpoints,
        ranks: Ranks,
        **common: Any,
    ) -> None:
        super().__init__(
            trainer, rows, every=wanted.every, count=wanted.samples, temperature=None, ranks=ranks, **common
        )
        self._ranks, self._checkpoints = ranks, checkpoints
        self._config, self._sources = config, sources
        self._sizes = (1, wanted.pass_k)
        self._weights = tuple(float(weight) for weight in trainer.reward_weights.tolist())
        self._key = self._key_of(wanted)
        self._found = earlier if earlier is not None and earlier.key == self._key else None
        if earlier is not None and self._found is None:
            self._tell(
                "the rows, the samples or the rewards of grpo_tui.evaluate have changed, so a new series of "
                "evaluations begins"
            )
        self._is_best = False
        self._sampling: dict[str, float | None] = {}
        """Settings with which the evaluation under way samples."""

    def _key_of(self, wanted: Evaluate) -> str:
        names = list(self._trainer.reward_func_names)
        body = [[row["prompt"] for row in self._rows], wanted.samples, wanted.pass_k, names]
        return hashlib.sha256(json.dumps(body, sort_keys=True, default=str).encode()).hexdigest()[:16]

    # -- when ------------------------------------------------------------------------------------

    def at_start(self) -> None:
        """Evaluate before the first step, or after a resume if the evaluation of its step is missing."""
        step = int(self._trainer.state.global_step)
        known = self._found
        best = known.best if known is not None else None
        self._checkpoints.best_is(self._ranks.from_first(best.step if best is not None else None))
        due = known is None or (step % self._every == 0 and known.at(step) is None)
        if self._ranks.from_first(due):
            self._evaluate(step)

    def safe_point(self) -> None:
        """Evaluate when due, and after the last step."""
        step = int(self._trainer.state.global_step)
        last = bool(self._trainer.control.should_training_stop)
        if step != self._asked_at and (step % self._every == 0 or last):
            self._evaluate(step)

    def now(self) -> tuple[str, dict[str, Any]]:
        """Evaluate at the current step, unless that was done, and return what it shows and the figures.

        Raises:
            Refused: There is no result. The log says why.
        """
        step = int(self._trainer.state.global_step)
        self._sampling = _sampling(generation_config(self._trainer))
        known = self._found
        if self._ranks.from_first(known is None or known.at(step) is None or self._other_sampling(known)):
            self._evaluate(step)
        found = self._ranks.from_first(self._shown(step))
        if found is None:
            raise Refused("the policy could not be evaluated; the log says why")
        reason, figures = found
        return reason, figures

    def _shown(self, step: int) -> tuple[str, dict[str, Any]] | None:
        known = self._found
        one = known.at(step) if known is not None else None
        if known is None or one is None:
            return None
        gain = known.gain(one)
        figures = {"measure": known.deciding, "value": one.value, "best": known.best is one}
        return verdict(known)[1], figures | {"gain": asdict(gain) if gain is not None else None}

    def _evaluate(self, step: int) -> None:
        self._is_best = False
        self._sampling = _sampling(generation_config(self._trainer))
        self._ask(step)
        if self._ranks.from_first(self._is_best):
            try:
                self._checkpoints.keep_best()
            except DiskFull as problem:
                self._tell(f"the best evaluation so far is at step {step}, and it is not saved: {problem}")

    # -- asking ----------------------------------------------------------------------------------

    def _draw_all(self) -> list[Drawn | None]:
        """Answer the rows, divided among the ranks."""
        config = generation_config(self._trainer)
        encoded: list[tuple[str, list[int], str] | None] = []
        for row in self._rows:
            try:
                encoded.append(encode(self._trainer, row["prompt"], config.max_new_tokens or 0))
            except Exception as error:
                self._tell_unasked(error)
                encoded.append(None)
        places = [place for place, one in enumerate(encoded) if one is not None]
        if not places:
            return [None] * len(encoded)
        share = -(-len(places) // self._ranks.size)
        mine = places[self._ranks.rank :: self._ranks.size]
        # The same number on every rank: ranks that hold a part of the model generate together.
        filled = mine + places[:1] * (share - len(mine))
        prompts = [one[1] for place in filled if (one := encoded[place]) is not None]
        problem, answers = "", list[tuple[list[int], bool]]()
        try:
            answers = self._answers(prompts, config)
        except Exception as error:  # evaluating must not end the training
            problem = f"the policy cannot be evaluated: {type(error).__name__}: {error}"
        every = self._ranks.of_each((problem, mine, answers))
        drawn: list[Drawn | None] = [None] * len(encoded)
        for said, taken, given in every:
            if said:
                self._tell(said)
                return [None] * len(encoded)
            for at, place in enumerate(taken):
                part, one = given[at * self._count : (at + 1) * self._count], encoded[place]
                ids, cut = [ids for ids, _ in part], [cut for _, cut in part]
                drawn[place] = one and Drawn(one[0], config.temperature, ids, cut, one[2])
        return drawn

    def _answers(self, prompts: list[list[int]], config: Any) -> list[tuple[list[int], bool]]:
        """Complete each prompt `count` times from the same seed each time, with vLLM if the run uses it."""
        import torch

        seed = int(self._trainer.args.seed) + RANKS_APART * self._ranks.rank
        if self._trainer.use_vllm:
            torch.manual_seed(seed)  # for vLLM in this process; a server has its own random state
            ends = compat.end_tokens(self._trainer)
            found = compat.generate_with_vllm(self._trainer, prompts, self._count)
            return [until_end(ids, ends) for ids in found]
        asked = [ids for ids in prompts for _ in range(self._count)]
        together = compat.generated_at_once(self._trainer)
        answers: list[tuple[list[int], bool]] = []
        for start in range(0, len(asked), together):
            part = generate(self._trainer, asked[start : start + together], config, seed=seed + start)
            answers += zip(*part, strict=True)
        return answers

    # -- what came out ---------------------------------------------------------------------------

    def _record(self, step: int, number: int, asked: Sequence[tuple[Row, Drawn]]) -> tuple[Group, ...]:
        groups = super()._record(step, number, asked)
        if not groups:
            return groups
        answers = [_answers_of(group) for group in groups]
        rows = [DatasetRow(at + 1, group.prompt, group.columns) for at, group in enumerate(groups)]
        if self._found is not None and (changed := self._other_sampling(self._found)):
            self._tell(f"{', '.join(changed)}: sampling changed, so a new series of evaluations begins")
            self._found = None
        judge = self._judge(rows, answers) if self._found is None else _judge_of(self._found)
        places = {id(row): at for at, row in enumerate(self._rows)}
        found = self._measures(rows, answers, judge, [places[id(row)] for row, _ in asked])
        self._keep(step, number, found, judge)
        return groups

    def _other_sampling(self, known: Evaluations) -> list[str]:
        """Return the sampling settings that differ from those of a series."""
        return [
            f"{name} {shown(known.sampling[name])} → {shown(value)}"
            for name, value in self._sampling.items()
            if name in known.sampling and known.sampling[name] != value
        ]

    def _measures(
        self, rows: list[DatasetRow], answers: list[Answers], judge: Judge | None, places: list[int]
    ) -> list[tuple[Measure, Means]]:
        """Return every measure with its mean per row; None for rows that were not answered."""
        names = list(self._trainer.reward_func_names)
        weights = self._weights if self._found is None else self._found.weights
        found = []
        for measure in measures_of(Asked(["now"], rows, [answers], names, weights, judge, ())):
            if measure.k is not None and measure.k not in self._sizes:
                continue
            means: list[float | None] = [None] * len(self._rows)
            for place, value in zip(places, measure.by_prompt[0], strict=True):
                means[place] = value
            name = f"reward/{measure.name}" if measure.kind == "reward" else measure.name
            found.append((measure, Means(name, tuple(means))))
        return found

    def _keep(self, step: int, number: int, found: list[tuple[Measure, Means]], judge: Judge | None) -> None:
        deciding = next(means for measure, means in found if measure.kind in ("pass@1", "total"))
        before = self._found
        if before is None:
            before = Evaluations(
                key=self._key,
                deciding=deciding.name,
                judge=judge.index if judge is not None else None,
                judge_name=judge.name if judge is not None else "",
                least=judge.least if judge is not None else 0.0,
                weights=self._weights,
                samples=self._count,
                first=tuple(means for _, means in found),
            )
        before = replace(before, sampling=self._sampling)
        now = Evaluation(step, mean(deciding.by_prompt), deciding.by_prompt, number)
        known = replace(before, done=(*before.done, now))
        self._found = known
        # The model before the first step is the base model, which needs no checkpoint.
        self._is_best = known.best is now and step > 0
        values = _values(known, found)
        self._put(Fact(FACT, known.to_json()))
        self._put(MetricRow(self._attempt, step, time.time(), values))

    def _judge(self, rows: list[DatasetRow], answers: list[Answers]) -> Judge | None:
        """Find the reward that decides what is right, as `compare` does."""
        from grpo_tui.rewards.scoring import gold_column_of

        names = list(self._trainer.reward_func_names)
        infos = [FunctionInfo(at, name, self._weights[at], "function", "") for at, name in enumerate(names)]
        column = gold_column_of(self._config, list(rows[0].columns))
        samples = made_of(rows[:MEASURED_ROWS], self._config, column, self._sources)
        tokenizer = self._trainer._tokenizer
        asked: list[Mapping[str, Any]] = [{"prompt": one.prompt, **one.columns} for one in samples]
        texts = [one.completion for one in samples]
        ids = [list(tokenizer(text, add_special_tokens=False).input_ids) for text in texts]
        made, _ = self._scores(asked, texts, ids)

        def by_function(scores: Sequence[Sequence[float | None]]) -> tuple[FunctionScore, ...]:
            return tuple(FunctionScore(info, tuple(one[info.index] for one in scores)) for info in infos)

        every = [scores for one in answers for scores in one.scores]
        return find_judge(Measures(tuple(samples), by_function(made), column is not None), by_function(every))


def _sampling(config: Any) -> dict[str, float | None]:
    """Return the settings with which a run samples, by name."""
    return {name: getattr(config, name, None) for name in SAMPLING}


def _values(known: Evaluations, found: Sequence[tuple[Measure, Means]]) -> dict[str, float | None]:
    """Return the metrics of the newest evaluation; gains from the second one on."""
    first = {one.name: one.by_prompt for one in known.first}
    values: dict[str, float | None] = {}
    for measure, means in found:
        name = PREFIX + means.name
        values[name] = mean(means.by_prompt)
        if len(known.done) == 1 or measure.kind not in SHOWN or means.name not in first:
            continue
        gain = difference(first[means.name], means.by_prompt)
        if gain is not None:
            values |= {name + GAIN: gain.mean, name + LOW: gain.low, name + HIGH: gain.high}
    values[WITHOUT_GAIN] = known.without_gain
    return values


def _judge_of(known: Evaluations) -> Judge | None:
    if known.judge is None:
        return None
    return Judge(known.judge, known.judge_name, known.least, "as in the first evaluation")


def _answers_of(group: Group) -> Answers:
    members = group.completions
    return Answers(
        tuple(one.text for one in members),
        tuple(one.tokens for one in members),
        tuple(one.truncated for one in members),
        tuple(tuple(_finite(score) for score in one.rewards) for one in members),
    )


def _finite(score: float | None) -> float | None:
    return score if score is not None and math.isfinite(score) else None
