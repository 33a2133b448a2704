"""What screens may ask of the app: the newest data, and to send a command to the open run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from textual.signal import Signal

if TYPE_CHECKING:
    from textual.screen import Screen

    from grpo_tui.core.commands import Outcome
    from grpo_tui.present.runs_view import RunRow
    from grpo_tui.present.train_view import TrainView
    from grpo_tui.store.layout import RunFolder
    from grpo_tui.ui.config_wish import ConfigWish
    from grpo_tui.ui.preferences import Preferences
    from grpo_tui.ui.rewards_wish import RewardsWish


class AppShell(Protocol):
    """The app, as the screens see it."""

    view: TrainView | None
    """The open run's newest view."""
    rows: tuple[RunRow, ...]
    rows_complete: bool
    turning: str
    """`pause` or `resume` while the newest of them is on its way; empty when none is."""
    view_signal: Signal[TrainView | None]
    runs_signal: Signal[tuple[tuple[RunRow, ...], bool]]
    clock: Callable[[], float]
    preferences: Preferences
    before_leaving: Callable[[Callable[[], None]], bool] | None
    """Asked before the screen is left: whether to wait, for it will leave by itself."""

    @property
    def roots(self) -> tuple[Path, ...]:
        """The folders that are looked through for runs."""

    @property
    def places(self) -> str:
        """The folders that are looked through, in words."""

    @property
    def run_folder(self) -> RunFolder | None:
        """The open run's folder."""

    def copy(self, what: str, text: str) -> None:
        """Put a text into the clipboard of the person's own machine, and say so."""

    def prefer(self, **changes: Any) -> None:
        """Remember other preferences, named as in `Preferences`."""

    def open_run(self, path: Path) -> None:
        """Follow a run and show it in Train."""

    def show_rewards(self, wish: RewardsWish) -> None:
        """Show these rewards, or these samples, in their pane."""

    def offer_rewards(self, wish: RewardsWish) -> None:
        """Show these rewards when their pane is looked at next."""

    def show_config(self, wish: ConfigWish) -> None:
        """Open this config in its pane."""

    def take_config_wish(self) -> ConfigWish | None:
        """What the pane Config was asked to open since it was last looked at."""

    def show_generations(self, query: str = "", group: int | None = None) -> None:
        """Show what a query finds in Generations, with the cursor on a group."""

    def take_generations_wish(self) -> tuple[str, int | None] | None:
        """The query and the group that Generations was asked for since it was last looked at."""

    def take_rewards_wish(self) -> RewardsWish | None:
        """What the pane Rewards was asked for since it was last looked at."""

    def steer(
        self,
        kind: str,
        args: Mapping[str, Any] | None = None,
        then: Callable[[Outcome], None] | None = None,
    ) -> None:
        """Send a command to the open run; `then` gets its outcome when it was applied."""


class Shell:
    """Gives a screen its app, typed."""

    @property
    def shell(self) -> AppShell:
        """The app."""
        return cast("AppShell", cast("Screen[Any]", self).app)
