"""Everything a person can do, in one table: it feeds the key bindings, the palette, the footer and the help.

The rows stand in one file for each pane, in the order of the help. Knows when an action can be done; what it
does stands in the screen (or the app) as `action_<id with _>`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from textual.binding import Binding, BindingType

from grpo_tui.ui.action import Action, Listed
from grpo_tui.ui.actions_app import EVERYWHERE, PANES
from grpo_tui.ui.actions_config import CONFIG
from grpo_tui.ui.actions_data import DATA
from grpo_tui.ui.actions_generations import GENERATIONS
from grpo_tui.ui.actions_rewards import REWARDS
from grpo_tui.ui.actions_runs import RUNS
from grpo_tui.ui.actions_train import TRAIN

if TYPE_CHECKING:
    from grpo_tui.present.train_view import TrainView

__all__ = ["ACTIONS", "Action", "Listed", "action", "bindings", "for_footer", "on_pane", "refusal"]

ACTIONS: tuple[Action, ...] = (*PANES, *TRAIN, *CONFIG, *DATA, *REWARDS, *GENERATIONS, *RUNS, *EVERYWHERE)

_BY_ID = {action.id: action for action in ACTIONS}


def action(action_id: str) -> Action:
    """The action of this name."""
    return _BY_ID[action_id]


def bindings(pane: str) -> list[BindingType]:
    """Key bindings of a pane, `all` for those of the app."""
    return [
        Binding(a.key, a.method, a.label or a.help, id=a.id, show=False)
        for a in ACTIONS
        if a.pane == pane and a.key
    ]


def on_pane(pane: str) -> list[Action]:
    """The actions of a pane and those that are everywhere."""
    own = (pane, "zoom") if pane in ("chart", "overlay") else (pane,)
    return [a for a in ACTIONS if a.pane in (*own, "all")]


def refusal(a: Action, view: TrainView | None, listed: Listed | None = None) -> str | None:
    """Why an action cannot be done now, in a sentence; None when it can."""
    if not a.needs:
        return None
    if a.pane == "runs":
        return _refusal_in_list(a.needs, listed or Listed())
    if view is None:
        return "No run is open: 1 shows the runs, enter opens one."
    if a.needs == "open":
        return None
    if view.state == "broken":
        return f"The run cannot be read, so nothing is sent to it: {view.trouble}"
    if view.state == "finished":
        return "The run is finished and takes no commands."
    if not view.live:
        return f"The run is {view.state}: nothing listens. {view.way_on}"
    if view.state == "starting" and a.needs != "process":
        return "The model is loading: possible after loading, once the first step is done. S stops at once."
    if a.needs == "running" and view.state == "paused":
        return "The run is paused already; r resumes."
    if a.needs == "paused" and view.state != "paused":
        return "The run is not paused."
    if a.needs == "reward" and view.phase != "reward":
        return f"No reward call runs now: the run is in {view.phase}."
    return None


def _refusal_in_list(needs: str, listed: Listed) -> str | None:
    row = listed.row
    if needs == "marked":
        return None if listed.marked >= 2 else "Mark two runs or more with space first."
    if row is None:
        return "No run is listed."
    if needs == "chosen":
        return None
    if row.trouble:
        return f"The run cannot be read: {row.trouble}"
    if row.state == "paused":
        return "The run is paused, not ended: open it with enter, there r goes on."
    if not row.ended:
        return f"The run is {row.state}: only a run that ended is resumed."
    if row.state == "finished":
        return "The run is finished; `grpo-tui train RUN --resume --set max_steps=N` adds steps."
    return None


def for_footer(
    pane: str, view: TrainView | None, listed: Listed | None = None, parts: Collection[str] = ()
) -> list[Action]:
    """What the footer names here and now, most important first, what belongs to the shown part before all."""
    shown = {*parts, view.state} if view is not None else set(parts)
    found: Iterable[Action] = (
        a
        for a in on_pane(pane)
        if a.footer
        and (not a.part or any(part in shown for part in a.part.split(",")))
        and refusal(a, view, listed) is None
    )
    return sorted(found, key=lambda a: (not a.part, a.footer))
