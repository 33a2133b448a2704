"""A recorded run equals plain TRL, number for number, and holds every completion exactly once."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grpo_tui.demo.rewards import correctness, format_reward
from grpo_tui.store.layout import RunFolder
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


Seen = list[tuple[str, str, list[float], float]]

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
        outer = trainer._generate_and_score_completions

        def watched(inputs: Any) -> Any:
            output = outer(inputs)
            mode = "train" if trainer.model.training else "eval"
            n = len(inputs)
            texts = [c[0]["content"] for c in list(trainer._logs["completion"])[-n:]]
            rewards = np.array([list(trainer._logs["rewards"][f])[-n:] for f in trainer.reward_func_names]).T
            for text, row, advantage in zip(texts, rewards, output["advantages"].tolist(), strict=True):
                seen.append((mode, text, row.tolist(), advantage))
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


@pytest.fixture(scope="module", params=COMBINATIONS)
def ran(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    arguments, folder = COMBINATIONS[request.param], tmp_path_factory.mktemp("ran")
    plain_rows, plain_weights = run_plain(folder / "plain", **arguments)
    seen: Seen = []
    rows, weights, _ = run_recorded(folder / "recorded", before_train=_watch(seen), **arguments)
    reader = RunReader(RunFolder(folder / "recorded").database)
    return Ran(arguments, plain_rows, plain_weights, rows, weights, seen, reader)


def test_rows_and_final_weights_equal_plain_trl(ran: Ran) -> None:
    assert repr(ran.rows) == repr(ran.plain_rows)
    assert ran.weights == ran.plain_weights
    stored = [(step, without_times(values)) for _, step, values in metric_rows(ran.reader)]
    assert _sorted(stored) == _sorted(ran.rows)


def test_every_completion_is_stored_once_with_its_rewards_and_advantage(ran: Ran) -> None:
    groups = list(ran.reader.iter_groups())
    assert ran.reader.completion_count() == len(ran.seen) > 0
    stored = [(g.mode, c) for g in groups for c in g.completions]
    assert len(stored) == len(ran.seen)
    for (mode, completion), (seen_mode, text, rewards, advantage) in zip(stored, ran.seen, strict=True):
        assert (mode, completion.text) == (seen_mode, text)
        assert completion.advantage == advantage
        for ours, theirs in zip(completion.rewards, rewards, strict=True):
            assert np.isnan(theirs) if ours is None else np.float32(ours) == np.float32(theirs)
    _check_shape(groups, ran.arguments)


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
