"""A recorded run equals plain TRL, number for number."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from grpo_tui.demo.rewards import correctness, format_reward
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.read_series import metric_rows
from grpo_tui.store.reader import RunReader
from tests.train.tiny import run_plain, run_recorded, without_times


async def slow_length(completions: Any, **kwargs: Any) -> list[float]:
    await asyncio.sleep(0.001)
    return [len(c[0]["content"]) / 100 for c in completions]


def half_abstains(completions: Any, **kwargs: Any) -> list[float | None]:
    return [None if i % 2 else 0.5 for i in range(len(completions))]


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


@pytest.mark.slow
@pytest.mark.parametrize("name", COMBINATIONS)
def test_rows_and_final_weights_equal_plain_trl(name: str, tmp_path: Path) -> None:
    arguments = COMBINATIONS[name]
    plain_rows, plain_weights = run_plain(tmp_path / "plain", **arguments)
    rows, weights, _ = run_recorded(tmp_path / "recorded", **arguments)
    assert repr(rows) == repr(plain_rows)
    assert weights == plain_weights

    reader = RunReader(RunFolder(tmp_path / "recorded").database)
    stored = [(step, without_times(values)) for _, step, values in metric_rows(reader)]
    assert _sorted(stored) == _sorted(rows)


def _sorted(rows: list[tuple[int, dict[str, Any]]]) -> str:
    """The rows as text, in which NaN equals NaN; the order of keys within a row says nothing."""
    return repr([(step, sorted(values.items())) for step, values in rows])
