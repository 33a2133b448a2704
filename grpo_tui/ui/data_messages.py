"""What the data view's threads tell it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grpo_tui.preflight.checker import Checked
    from grpo_tui.preflight.facts import RowView
    from grpo_tui.preflight.gold_rewards import GoldReward
    from grpo_tui.rewards.consent import Code


class DataBusy(Message):
    """Something is done that takes a moment; empty when nothing is."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self.what = what


class DataKnown(Message):
    """Facts and findings as far as they are known."""

    def __init__(self, checked: Checked) -> None:
        super().__init__()
        self.checked = checked


class DataRow(Message):
    """A row."""

    def __init__(self, view: RowView) -> None:
        super().__init__()
        self.view = view


class DataMatches(Message):
    """The rows that hold some words."""

    def __init__(self, words: str, rows: tuple[int, ...]) -> None:
        super().__init__()
        self.words, self.rows = words, rows


class DataGold(Message):
    """What the rewards give for a row's right answer, or why that is not known; `codes` waits for a yes."""

    def __init__(
        self, number: int, golds: Sequence[GoldReward] | None, why: str, codes: tuple[Code, ...] = ()
    ) -> None:
        super().__init__()
        self.number, self.golds, self.why, self.codes = number, golds, why, codes


class DataTrouble(Message):
    """What was asked could not be done; the text is for the user, `codes` waits for a yes."""

    def __init__(self, text: str, codes: tuple[Code, ...] = ()) -> None:
        super().__init__()
        self.text, self.codes = text, codes
