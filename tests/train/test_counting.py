"""Every completion TRL generated is in the store exactly once, with what TRL computed for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grpo_tui.store.layout import RunFolder
from grpo_tui.store.reader import RunReader, StoredGroup
from grpo_tui.train.session import Session
from tests.train.test_equal_to_trl import COMBINATIONS
from tests.train.tiny import run_recorded

Seen = list[tuple[str, str, list[float], float]]


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


@pytest.mark.slow
@pytest.mark.parametrize("name", COMBINATIONS)
def test_every_completion_is_stored_once_with_its_rewards_and_advantage(name: str, tmp_path: Path) -> None:
    seen: Seen = []
    run_recorded(tmp_path, before_train=_watch(seen), **COMBINATIONS[name])
    reader = RunReader(RunFolder(tmp_path).database)
    groups = list(reader.iter_groups())
    assert reader.completion_count() == len(seen) > 0
    stored = [(g.mode, c) for g in groups for c in g.completions]
    assert len(stored) == len(seen)
    for (mode, completion), (seen_mode, text, rewards, advantage) in zip(stored, seen, strict=True):
        assert (mode, completion.text) == (seen_mode, text)
        assert completion.advantage == advantage
        for ours, theirs in zip(completion.rewards, rewards, strict=True):
            assert np.isnan(theirs) if ours is None else np.float32(ours) == np.float32(theirs)
    _check_shape(groups, COMBINATIONS[name])


def _rewriting(prompts: Any, completions: Any, **kwargs: Any) -> list[float]:
    count = len(completions)
    for prompt, completion in zip(prompts, completions, strict=True):
        completion[0]["content"] = "rewritten"
        prompt[-1]["content"] = "rewritten"
    completions.clear()
    return [float(i) for i in range(count)]


@pytest.mark.slow
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
