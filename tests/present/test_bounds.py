"""What is kept of a run does not grow with its length."""

from __future__ import annotations

from grpo_tui.core.records import Completion
from grpo_tui.present.group_card import KEPT_GROUPS, SHOWN_GROUPS
from grpo_tui.present.run_state import ASKED_AGAIN, LATE, RunDelta, RunState, StepLook
from grpo_tui.present.series import KEPT_OPENING, KEPT_RECENT, MOST_BUCKETS
from grpo_tui.store.read_series import Point, StepStat
from grpo_tui.store.reader import StoredGroup
from grpo_tui.store.status import Status

STEPS = 5_000
PAGE = 100


def a_page(first: int) -> RunDelta:
    """A look at `PAGE` new steps, each with a group."""
    steps = range(first, first + PAGE)
    points = tuple(Point(step, step, float(step), step % 7 / 7) for step in steps)
    groups = tuple(
        StoredGroup(
            step, 1, step, 0, 0, "train", step, step, float(step), "What is 1 + 1?", "key", {}, 1.0, 0.5,
            (Completion(0, "2", (1.0,), 1.0, 0.5, 1, False), Completion(1, "3", (0.0,), 0.0, -0.5, 1, False)),
        )
        for step in steps
    )  # fmt: skip
    asked = range(max(1, first - LATE), first + PAGE)
    stats = tuple(StepStat(step, float(step), 1, 0.5, 0.0, None, 0.0, 0.0) for step in asked)
    look = StepLook(stats[-ASKED_AGAIN:], first + PAGE - 1 - LATE)
    return RunDelta(fresh=False, points={"reward": points, "loss": points}, groups=groups, steps=look)


def test_a_run_of_5_000_steps_is_kept_in_as_little_as_one_of_1_000() -> None:
    state = RunState("run", "/runs/run")
    for first in range(1, STEPS, PAGE):
        state.fold(a_page(first))
        view = state.view(Status(state="training", phase="update"), float(first))
    for series in state._series.values():
        assert len(series.buckets) <= MOST_BUCKETS + 1
        assert len(series.recent) <= KEPT_RECENT
        assert len(series.opening) <= KEPT_OPENING
    assert len(state._groups._newest) == KEPT_GROUPS
    assert len(state._groups._covariances) == KEPT_GROUPS
    assert len(state._groups._views) == len(view.groups) == SHOWN_GROUPS
    assert len(state._steps._newest) <= ASKED_AGAIN
    assert state._series["reward"].rows == STEPS
