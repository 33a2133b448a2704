"""A recorded run equals plain TRL, number for number, and holds every completion exactly once."""

from __future__ import annotations

import asyncio
import itertools
import os
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grpo_tui.demo.rewards import correctness, format_reward
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.live import read_rank
from grpo_tui.store.read_series import metric_rows
from grpo_tui.store.reader import RunReader, StoredGroup
from grpo_tui.train.session import Session
from tests.train.tiny import run_plain, run_recorded, without_times

pytestmark = pytest.mark.slow


async def slow_length(completions: Any, **kwargs: Any) -> list[float]:
    await asyncio.sleep(0.001)
    return [len(c[0]["content"]) / 100 for c in completions]


def half_abstains(completions: Any, **kwargs: Any) -> list[float | None]:
    return [None if i % 2 else 0.5 for i in range(len(completions))]


@dataclass(frozen=True)
class Own:
    """What TRL itself holds of one completion."""

    mode: str
    text: str
    rewards: list[float]
    advantage: float
    total: float | None
    tokens: int
    ends: bool
    prompt: list[dict[str, str]]
    answer: str
    batch: int
    step: int


Seen = list[Own]

COMBINATIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "evaluation": {"evaluate": True, "eval_strategy": "steps", "eval_steps": 2},
    "two iterations, four micro-batches a generation, logged every third step": {
        "per_device_train_batch_size": 4,
        "steps_per_generation": 4,
        "num_iterations": 2,
        "gradient_accumulation_steps": 1,
        "logging_steps": 3,
        "max_steps": 10,
    },
    "gradient accumulation and KL": {
        "per_device_train_batch_size": 8,
        "gradient_accumulation_steps": 2,
        "beta": 0.04,
    },
    "async and abstaining rewards": {"rewards": [correctness, slow_length, half_abstains, format_reward]},
    "data-loader workers and an epoch's end": {"dataloader_num_workers": 2, "rows": 12, "max_steps": 7},
}


def _watch(seen: Seen) -> Any:
    """Collect what TRL itself holds of every batch, below our hooks."""

    def before_train(session: Session, trainer: Any) -> None:
        outer, batches = trainer._generate_and_score_completions, list[int]()

        def watched(inputs: Any) -> Any:
            batches.append(0)
            trains = trainer.model.training
            step = trainer.state.global_step + trains
            output = outer(inputs)
            n = len(inputs)
            texts = [c[0]["content"] for c in list(trainer._logs["completion"])[-n:]]
            rewards = np.array([list(trainer._logs["rewards"][f])[-n:] for f in trainer.reward_func_names]).T
            lengths = output["completion_mask"].sum(1).tolist()
            ids = output["completion_ids"].tolist()
            for i, (text, row, advantage) in enumerate(
                zip(texts, rewards, output["advantages"].tolist(), strict=True)
            ):
                known = row[~np.isnan(row)]
                seen.append(
                    Own(
                        "train" if trains else "eval",
                        text,
                        row.tolist(),
                        advantage,
                        float(known.sum()) if len(known) else None,
                        lengths[i],
                        ids[i][lengths[i] - 1] == trainer.processing_class.eos_token_id,
                        inputs[i]["prompt"],
                        inputs[i]["answer"],
                        len(batches) - 1,
                        step,
                    )
                )
            return output

        trainer._generate_and_score_completions = watched

    return before_train


@dataclass(frozen=True)
class Ran:
    """One combination, trained by plain TRL and recorded."""

    arguments: dict[str, Any]
    plain_rows: list[tuple[int, dict[str, Any]]]
    plain_weights: str
    rows: list[tuple[int, dict[str, Any]]]
    weights: str
    seen: Seen
    reader: RunReader
    folder: RunFolder


@pytest.fixture(scope="module", params=COMBINATIONS)
def ran(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    arguments, folder = COMBINATIONS[request.param], tmp_path_factory.mktemp("ran")
    plain_rows, plain_weights = run_plain(folder / "plain", **arguments)
    seen: Seen = []
    rows, weights, _ = run_recorded(folder / "recorded", before_train=_watch(seen), **arguments)
    recorded = RunFolder(folder / "recorded")
    reader = RunReader(recorded.database)
    return Ran(arguments, plain_rows, plain_weights, rows, weights, seen, reader, recorded)


def test_rows_and_final_weights_equal_plain_trl(ran: Ran) -> None:
    assert repr(ran.rows) == repr(ran.plain_rows)
    assert ran.weights == ran.plain_weights
    stored = [(step, without_times(values)) for _, step, values in metric_rows(ran.reader)]
    assert _sorted(stored) == _sorted(ran.rows)


def test_every_completion_is_stored_once_with_its_rewards_and_advantage(ran: Ran) -> None:
    groups = list(ran.reader.iter_groups())
    assert ran.reader.completion_count() == len(ran.seen) > 0
    stored = [(g, c) for g in groups for c in g.completions]
    for (group, completion), own in zip(stored, ran.seen, strict=True):
        assert (group.mode, group.batch, group.step) == (own.mode, own.batch, own.step)
        assert (group.prompt, group.columns["answer"]) == (own.prompt, own.answer)
        assert (group.attempt, group.rank) == (1, 0)
        assert (completion.text, completion.tokens) == (own.text, own.tokens)
        assert (completion.truncated, completion.masked) == (not own.ends, False)
        assert completion.advantage == own.advantage
        assert completion.total == (None if own.total is None else pytest.approx(own.total, rel=1e-5))
        for ours, theirs in zip(completion.rewards, own.rewards, strict=True):
            assert np.isnan(theirs) if ours is None else np.float32(ours) == np.float32(theirs)
    _check_shape(groups, ran.arguments)


def test_calls_phases_and_the_attempt_are_those_of_the_run(ran: Ran) -> None:
    rewards = ran.arguments.get("rewards", [correctness, format_reward])
    database = sqlite3.connect(ran.folder.database)
    batches = {own.batch for own in ran.seen}
    calls = database.execute("SELECT batch, function, outcome, error, attempt, rank FROM reward_call")
    assert sorted(calls) == sorted(
        (batch, function, "ok", "", 1, 0) for batch in batches for function in range(len(rewards))
    )
    names = [(f.index, f.name, f.weight) for f in ran.reader.reward_functions()]
    assert names == [(index, function.__name__, 1.0) for index, function in enumerate(rewards)]
    columns = "phase, step, started_at, duration_s"
    spans = database.execute(f"SELECT {columns} FROM phase ORDER BY started_at").fetchall()
    database.close()
    steps = ran.arguments.get("max_steps", 6)
    begun = {own.step - 1 for own in ran.seen if own.mode == "train"}  # the steps that had ended by then
    for phase, during in (("generate", begun), ("reward", begun), ("update", {*begun, steps} - {0})):
        assert {step for name, step, *_ in spans if name == phase} >= during
    assert spans[0][0] == "load"
    for (_, _, at, lasted), (_, _, next_at, _) in itertools.pairwise(spans):
        assert at + lasted == pytest.approx(next_at, abs=1e-3), "no moment is without a phase"
    (attempt,) = ran.reader.attempts()
    assert (attempt.attempt, attempt.pid, attempt.state, attempt.step) == (1, os.getpid(), "finished", steps)
    assert (attempt.total_steps, attempt.resumed_from, attempt.error) == (steps, None, None)
    assert ran.reader.dropped() == {}
    rank = read_rank(ran.folder.rank(0))
    assert rank is not None
    assert (rank.step, rank.attempt, rank.ended, rank.closed) == (steps, 1, "finished", True)
    assert rank.reward_call is None


def _sorted(rows: list[tuple[int, dict[str, Any]]]) -> str:
    """The rows as text, in which NaN equals NaN; the order of keys within a row says nothing."""
    return repr([(step, sorted(values.items())) for step, values in rows])


def _rewriting(prompts: Any, completions: Any, **kwargs: Any) -> list[float]:
    count = len(completions)
    for prompt, completion in zip(prompts, completions, strict=True):
        completion[0]["content"] = "rewritten"
        prompt[-1]["content"] = "rewritten"
    completions.clear()
    return [float(i) for i in range(count)]


def test_what_a_reward_changes_in_its_arguments_does_not_change_the_record(tmp_path: Path) -> None:
    plain, changed = tmp_path / "plain", tmp_path / "changed"
    run_recorded(plain, rewards=[lambda completions, **kw: [1.0] * len(completions)], max_steps=1)
    run_recorded(changed, rewards=[_rewriting], max_steps=1)
    kept = [
        [(g.prompt, [c.text for c in g.completions]) for g in RunReader(RunFolder(folder).database).groups()]
        for folder in (plain, changed)
    ]
    assert kept[0] == kept[1]
    assert "rewritten" not in str(kept[1])


def _check_shape(groups: list[StoredGroup], arguments: dict[str, Any]) -> None:
    assert all(len(g.completions) == 4 for g in groups)
    assert all([c.index for c in g.completions] == [0, 1, 2, 3] for g in groups)
    assert all(g.step <= g.last_step for g in groups)
    training = [g for g in groups if g.mode == "train"]
    if arguments.get("num_iterations") == 2:
        # Eight micro-batches of one optimizer step each share a generation: steps 1-8, then 9-10.
        assert {(g.step, g.last_step) for g in training} == {(1, 8), (9, 10)}
    elif "gradient_accumulation_steps" not in arguments and "rows" not in arguments:
        assert sorted({g.step for g in training}) == list(range(1, 7))
