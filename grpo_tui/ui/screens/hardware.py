"""The machine over the whole screen: GPUs and who is on them, processor, memory, ranks."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.screen import Screen

from grpo_tui.present.train_view import TrainView
from grpo_tui.ui.actions import bindings
from grpo_tui.ui.opened import LeftOnce
from grpo_tui.ui.shell import Shell
from grpo_tui.ui.widgets.footer import Footer
from grpo_tui.ui.widgets.hardware_list import HardwareList
from grpo_tui.ui.widgets.header import Header


class HardwareScreen(LeftOnce, Screen[None], Shell):
    """The machine of the open run."""

    BINDINGS = bindings("hardware")
    PANE = "hardware"

    def compose(self) -> ComposeResult:
        """Header, everything, footer."""
        yield Header("train")
        yield HardwareList(id="hardware")
        yield Footer("hardware")

    def on_mount(self) -> None:
        """Follow the run."""
        self.shell.view_signal.subscribe(self, self._on_view)
        self._on_view(self.shell.view)
        self.query_one(HardwareList).focus()

    def _on_view(self, view: TrainView | None) -> None:
        self.query_one(Header).show(view)
        self.query_one(Footer).show(view)
        self.query_one(HardwareList).show(view)

    def action_hardware_back(self) -> None:
        """Back to the run."""
        self.dismiss(None)

    def action_hardware_close(self) -> None:
        """Back to the run, by the key that opened it."""
        self.dismiss(None)

    def action_hardware_down(self) -> None:
        """A line on."""
        self.query_one(HardwareList).scroll_relative(y=1, animate=False)

    def action_hardware_up(self) -> None:
        """A line back."""
        self.query_one(HardwareList).scroll_relative(y=-1, animate=False)
