"""Weights and modes in the pane Rewards: move one, mute a function or hear it alone; the advantages follow.

Mixed into the screen. Nothing is scored again, and the config stays as it is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from grpo_tui.ui.shell import Shell
from grpo_tui.ui.widgets.reward_functions import FunctionRows
from grpo_tui.ui.widgets.reward_table import SampleTable

if TYPE_CHECKING:
    from textual.screen import Screen

    from grpo_tui.present.rewards_view import RewardsView
    from grpo_tui.rewards.lab import Aggregation
    from grpo_tui.rewards.scoring import Report
    from grpo_tui.ui.lab_worker import LabWorker

STEP = 0.1
"""What an arrow adds to a weight or takes from it."""
SCALES = ("group", "batch", "none")
AGGREGATIONS = ("sum_then_normalize", "normalize_then_sum")


class WeightMoving(Shell):
    """The keys that change the weights."""

    worker: LabWorker | None = None
    report: Report | None = None
    _names: tuple[str, ...] = ()
    _weights: tuple[float, ...] = ()
    _first: tuple[float, ...] = ()
    """The config's."""
    _muted: frozenset[int] = frozenset()
    _modes: Aggregation | None = None
    """How totals become advantages, as a person chose it; as the config says when None."""

    @property
    def _rows(self) -> FunctionRows:
        return cast("Screen[Any]", self).query_one(FunctionRows)

    @property
    def on_weights(self) -> bool:
        """Whether the keys are those of the weights."""
        return self._rows.has_focus

    def take_weights(self, view: RewardsView, first: tuple[float, ...]) -> None:
        """Begin with a scoring's weights when its functions are others than before."""
        names = tuple(column.name for column in view.columns)
        self._first = first
        if view.own_modes:
            self._modes = None
        if names != self._names:
            self._names = names
            self._weights = tuple(column.weight for column in view.columns)
            self._muted = frozenset(k for k, column in enumerate(view.columns) if column.muted)

    def move_weight(self, by: float) -> None:
        """Change the chosen weight."""
        k = self._rows.chosen
        if k < len(self._weights):
            self.set_weight(k, round(self._weights[k] + by, 6))

    def set_weight(self, k: int, weight: float) -> None:
        """Set one weight; a muted function is heard again."""
        self._weights = (*self._weights[:k], weight, *self._weights[k + 1 :])
        self._muted -= {k}
        self._tell()

    def type_weight(self) -> None:
        """Ask for the chosen weight."""
        from grpo_tui.ui.screens.rewards_dialogs import WeightDialog

        k = self._rows.chosen
        if k >= len(self._weights):
            return

        def typed(weight: float | None) -> None:
            if weight is not None:
                self.set_weight(k, weight)

        cast("Screen[Any]", self).app.push_screen(WeightDialog(self._names[k], self._weights[k]), typed)

    def action_rewards_weights(self) -> None:
        """To the weights, or back to the samples."""
        screen = cast("Screen[Any]", self)
        if self._weights and not self.on_weights:
            self._rows.focus()
        else:
            screen.query_one(SampleTable).focus()

    def action_rewards_mute(self) -> None:
        """Leave the chosen function out, or hear it again."""
        k = self._rows.chosen
        if k >= len(self._weights):
            return
        muted = self._muted - {k} if k in self._muted else self._muted | {k}
        if len(muted) == len(self._weights):
            cast("Screen[Any]", self).app.notify("One function must be heard.", markup=False)
            return
        self._muted = muted
        self._tell()

    def action_rewards_alone(self) -> None:
        """Hear the chosen function alone, or all again."""
        k = self._rows.chosen
        if k < len(self._weights):
            alone = frozenset(range(len(self._weights))) - {k}
            self._muted = frozenset() if self._muted == alone else alone
            self._tell()

    def action_rewards_reset(self) -> None:
        """The config's weights and modes again, every function heard."""
        if self._first:
            self._weights, self._muted, self._modes = self._first, frozenset(), None
            self._tell()

    def action_rewards_scale(self) -> None:
        """Scale advantages by the group's spread, by the batch's, or not."""
        self._turn("scale_rewards", SCALES)

    def action_rewards_combine(self) -> None:
        """Normalize the sum of the rewards, or sum what was normalized."""
        self._turn("multi_objective_aggregation", AGGREGATIONS)

    def _turn(self, name: str, known: tuple[str, ...]) -> None:
        report = self.report
        if report is None:
            return
        modes = self._modes or report.aggregation
        now = getattr(modes, name)
        place = known.index(now) + 1 if now in known else 0
        self._modes = replace(modes, **{name: known[place % len(known)]})
        self._tell()

    def _tell(self) -> None:
        if self.worker is not None:
            self.worker.weigh(self._weights, self._muted, self._modes)
