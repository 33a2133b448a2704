"""What importance sampling for vLLM leaves of a batch, by TRL's own weights."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from grpo_tui.core.records import EFFECTIVE, LEFT_OUT
from grpo_tui.store.read_series import metric_rows
from grpo_tui.store.reader import RunReader
from grpo_tui.store.status import read_status
from grpo_tui.train.session import Session
from tests.train.tiny import run_recorded


def like_vllm(unknown: int) -> Callable[[Session, Any], None]:
    """Return log-probabilities with the completions, as vLLM does.

    TRL takes an unknown one (None) for its own, so that the weight is 1. The tokens of one completion in
    `unknown`, or of all others if it is negative, were nearly impossible for vLLM, so that their weight is
    above any limit.
    """

    def around(session: Session, trainer: Any) -> None:
        generate = trainer._generate_single_turn

        def generate_single_turn(*args: Any) -> Any:
            trainer.use_vllm = False
            ids, _ = generate(*args)
            trainer.use_vllm = True
            odd = [(n % abs(unknown) == 0) == (unknown > 0) for n in range(len(ids))]
            return ids, [[-1000.0 if one else None] * len(row) for one, row in zip(odd, ids, strict=True)]

        trainer._generate_single_turn = generate_single_turn

    return around


@pytest.mark.parametrize(("mode", "left_out"), [("sequence_mask", 0.25), ("token_mask", None)])
def test_the_weights_that_are_0_are_counted_as_trl_computed_them(
    tmp_path: Path, mode: str, left_out: float | None
) -> None:
    rows, _, _ = run_recorded(
        tmp_path,
        before_train=like_vllm(4),
        max_steps=2,
        vllm_importance_sampling_mode=mode,
        learning_rate=0.0,
    )
    assert [values["sampling/importance_sampling_ratio/min"] for _, values in rows[:2]] == [0.0, 0.0]
    with closing(RunReader(tmp_path / "run.db")) as reader:
        found = [values for _, _, values in metric_rows(reader) if LEFT_OUT in values]
    assert len(found) == 2, "one row a step"
    for values in found:
        share = values[LEFT_OUT]
        # All other weights are 1: their mean is 1 - share, and so is the effective sample size.
        assert share == pytest.approx(1 - values["sampling/importance_sampling_ratio/mean"])
        assert values[EFFECTIVE] == pytest.approx(1 - share)
        assert 0 < share < 1
        assert left_out is None or share == left_out


def test_completions_that_are_left_out_are_a_finding_of_a_run_that_trains(tmp_path: Path) -> None:
    run_recorded(tmp_path, before_train=like_vllm(-4), max_steps=14, learning_rate=0.0)
    finding = next(one for one in read_status(tmp_path).findings if one.id == "policy.mismatch")
    assert "75 % of the weights are 0, and the effective sample size is 25 %" in finding.message
    assert finding.evidence[LEFT_OUT] == 0.75


def test_without_vllm_nothing_is_said_of_weights(tmp_path: Path) -> None:
    run_recorded(tmp_path, max_steps=1)
    with closing(RunReader(tmp_path / "run.db")) as reader:
        assert not [values for _, _, values in metric_rows(reader) if LEFT_OUT in values]
