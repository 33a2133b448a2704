"""What screens and widgets share: the typed app, questions to the user, and work in threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

from grpo_tui.ui.messages import ConsentAsked

if TYPE_CHECKING:
    from textual.screen import Screen

    from grpo_tui.rewards.consent import Code
    from grpo_tui.ui.app import GrpoApp

T = TypeVar("T")


class Shell:
    """Mixin for a screen, a widget or the app."""

    @property
    def shell(self) -> GrpoApp:
        return cast("GrpoApp", cast("Screen[Any]", self).app)

    def ask(self, dialog: Screen[T], then: Callable[[T], object]) -> None:
        """Show a dialog. `then` gets the answer; after escape or a no it is not called."""

        def answered(answer: T | None) -> None:
            if answer is not None and answer is not False:
                then(answer)

        self.shell.push_screen(dialog, answered)

    def asks_consent(
        self,
        codes: tuple[Code, ...],
        again: Callable[[], object],
        otherwise: Callable[[], object] = lambda: None,
    ) -> bool:
        """Ask about code that is not the user's own. Return whether there is any. Safe from any thread.

        `again` is called after a yes, and `otherwise` after a no.
        """
        if codes:
            cast("Screen[Any]", self).post_message(ConsentAsked(codes, again, otherwise))
        return bool(codes)

    def in_thread(self, group: str, job: Callable[[], T], then: Callable[[T], object] | None = None) -> None:
        """Run a job in a thread. The app reports its failure by the name of the group.

        `then` gets the result, in the thread of the screen and while this is part of it.
        """
        node = cast("Screen[Any]", self)

        def take(result: T) -> None:
            if then is not None and node.is_attached:
                then(result)

        def work() -> None:
            node.call_later(take, job())

        self.shell.run_worker(work, thread=True, group=group, exit_on_error=False)
