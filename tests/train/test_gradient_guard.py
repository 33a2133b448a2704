"""A NaN gradient never reaches the weights: the step is skipped, the run pauses, the finding is open."""

from __future__ import annotations

import math
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from grpo_tui.core import records as r
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.mailbox import Mailbox
from grpo_tui.store.read_series import metric_rows
from grpo_tui.store.reader import RunReader
from grpo_tui.store.status import read_status
from grpo_tui.train.gradient_guard import GradientGuard, GradientLost
from grpo_tui.train.session import Session
from tests.train.tiny import run_recorded, weights_hash


def nan_in_step_2(session: Session, trainer: Any) -> None:
    """Have one parameter's gradient of the second step be NaN."""
    parameter = next(p for p in trainer.model.parameters() if p.requires_grad)
    parameter.register_hook(lambda gradient: gradient * (math.nan if trainer.state.global_step == 1 else 1))


def test_a_nan_gradient_skips_its_step_and_pauses_the_run(tmp_path: Path) -> None:
    weights: dict[int, str] = {}

    def at_safe_point(session: Session, trainer: Any) -> None:
        weights[int(trainer.state.global_step)] = weights_hash(trainer)
        if session.controller.pause_wanted:
            Mailbox(RunFolder(tmp_path).commands).submit("resume", {})

    _, last, _ = run_recorded(
        tmp_path, at_safe_point=at_safe_point, before_train=nan_in_step_2, max_steps=4, logging_steps=4
    )

    assert weights[2] == weights[1], "the second step was not applied"
    assert len({weights[2], weights[3], last}) == 3, "the others were"
    history = Mailbox(RunFolder(tmp_path).commands).history(set())
    (resumed,) = {command.id: outcome for command, outcome in history if command.kind == "resume"}.values()
    assert resumed is not None
    assert (resumed.applied, resumed.step, resumed.reason) == (True, 2, ""), "the run had paused"
    with closing(RunReader(tmp_path / "run.db")) as reader:
        assert [step for _, step, values in metric_rows(reader) if values.get(r.SKIPPED)] == [2]
    finding = next(f for f in read_status(tmp_path).findings if f.id == "policy.gradient-nan")
    assert "the weights are not affected" in finding.message


class OtherRank:
    """A rank among two, whose other rank says what is given."""

    first = False

    def __init__(self, other: bool) -> None:
        self.other = other

    def any_of(self, *flags: bool) -> tuple[bool, ...]:
        return tuple(flag or self.other for flag in flags)


@pytest.mark.parametrize("other", [False, True])
def test_a_rank_skips_what_another_one_skips(other: bool) -> None:
    parameter = SimpleNamespace(grad=1.0)
    trainer: Any = SimpleNamespace(
        accelerator=SimpleNamespace(scaler=None),
        args=SimpleNamespace(fp16=False),
        is_deepspeed_enabled=False,
        model=SimpleNamespace(parameters=lambda: [parameter]),
        _get_grad_norm=lambda: 0.5,
    )
    said: list[str] = []
    guard = GradientGuard(trainer, said.append, 1, OtherRank(other), said.append, lambda: "")  # type: ignore
    guard.install()
    trainer._get_grad_norm()
    guard.on_pre_optimizer_step(None, SimpleNamespace(global_step=6), None)
    assert (parameter.grad is None) == other
    assert said == (["the gradient of step 7 is NaN or infinite. The step was skipped"] if other else [])


def test_deepspeed_has_applied_the_step_so_the_run_ends() -> None:
    trainer: Any = SimpleNamespace(
        accelerator=SimpleNamespace(scaler=None),
        args=SimpleNamespace(fp16=False),
        is_deepspeed_enabled=True,
        _get_grad_norm=lambda: math.nan,
    )
    ranks: Any = SimpleNamespace(any_of=lambda *flags: flags, first=True)
    guard = GradientGuard(trainer, print, 1, ranks, print, lambda: "Resume from checkpoint-4")
    guard.install()
    trainer._get_grad_norm()
    with pytest.raises(GradientLost, match=r"step 7 .* DeepSpeed .* Resume from checkpoint-4"):
        guard.on_pre_optimizer_step(None, SimpleNamespace(global_step=6), None)
