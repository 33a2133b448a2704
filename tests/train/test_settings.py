"""What a person may set in mid-run, and what would break the run and is refused instead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from grpo_tui.core.records import Record
from grpo_tui.train.settings import Refused, Settings
from tests.train.tiny import make_trainer

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("learning_rate", True, "takes a number"),
        ("learning_rate", 0, "`pause` holds"),
        ("learning_rate", -1, "above 0"),
        ("learning_rate", "1e400", "finite"),
        ("temperature", 1e308, "from 0.01 to 100"),
        ("temperature", 1e-40, "from 0.01 to 100"),
        ("temperature", False, "takes a number"),
        ("reward_weights", [True, 1], "takes a number"),
        ("reward_weights", [1, "nan"], "finite"),
        ("reward_weights", [1], "takes 2 numbers"),
        ("beta", 0.1, "cannot change in mid-run"),
    ],
)
def test_a_value_that_would_break_the_run_is_refused_and_changes_nothing(
    tmp_path: Path, name: str, value: Any, reason: str
) -> None:
    trainer = make_trainer(tmp_path)
    trainer.create_optimizer_and_scheduler(num_training_steps=4)
    records: list[Record] = []
    settings = Settings(trainer, records.append, 1)
    before = settings.current()
    with pytest.raises(Refused, match=reason):
        settings.apply({"reward_weights": [2, 2], name: value} if name != "reward_weights" else {name: value})
    assert settings.current() == before
    assert records == []
