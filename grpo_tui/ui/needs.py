"""Say why an action is unavailable, from the state of the open run or of the run chosen in Runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from grpo_tui.core.commands import REPLAYED

if TYPE_CHECKING:
    from grpo_tui.present.runs_view import RunRow
    from grpo_tui.present.train_view import TrainView
    from grpo_tui.ui.actions import Action


NO_RUN = "No run is open. Press 1 for the list of runs, then enter to open one."


@dataclass(frozen=True, slots=True)
class Listed:
    """The run under the cursor in Runs, and the number of marked runs."""

    row: RunRow | None = None
    marked: int = 0


def refusal(a: Action, view: TrainView | None, listed: Listed | None = None) -> str | None:
    """Return a sentence that says why an action is unavailable; None when it is available."""
    if view is not None and view.replay is not None and a.acts:
        return REPLAYED
    if not a.needs:
        return None
    if a.pane == "runs":
        return _refusal_in_list(a.needs, listed or Listed())
    if view is None:
        return NO_RUN
    if a.needs == "open":
        return None
    if a.needs == "replay":
        return None if view.replay is not None else "This is not a replay."
    if view.state == "broken":
        return f"The run cannot be read, so nothing is sent to it: {view.trouble}"
    if view.state == "finished":
        return "The run is finished and takes no commands."
    if not view.live:
        return f"The run is {view.state}: it takes no commands. {view.way_on}"
    if view.state == "starting" and a.needs != "process":
        return "The model is still loading. Try again after the first step. S stops immediately."
    if a.needs == "running" and view.state == "paused":
        return "The run is already paused. Press P to resume it."
    if a.needs == "paused" and view.state != "paused":
        return "The run is not paused."
    if a.needs == "reward" and view.phase != "reward":
        return f"No reward call is running. Current phase: {view.phase}."
    return None


def _refusal_in_list(needs: str, listed: Listed) -> str | None:
    row = listed.row
    if needs == "marked":
        return None if listed.marked >= 2 else "Mark at least two runs with space first."
    if row is None:
        return "No run is listed."
    if needs == "chosen":
        return None
    if row.trouble:
        return f"The run cannot be read: {row.trouble}"
    if needs == "steps":
        return None if row.step else "The run has no step to replay yet."
    if row.state == "paused":
        return "The run is paused. Press enter to open it, then P to resume it."
    if not row.ended:
        return f"The run is {row.state}: only an ended run can be resumed."
    if row.state == "finished":
        return "The run is finished. `grpo-tui train RUN --resume --set max_steps=N` adds steps."
    return None
