"""One thing a person can do, as a row of the table of keys; knows no key and does nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grpo_tui.present.runs_view import RunRow


@dataclass(frozen=True, slots=True)
class Action:
    """One thing a person can do."""

    id: str
    key: str
    """As Textual names it; empty when only the palette has it."""
    label: str
    """A word or two, for the footer."""
    help: str
    """One sentence, for the help and the palette."""
    pane: str
    """`all`, `runs`, `config`, `rewards`, `train`, or a screen that opens over them: `hardware`, `probes`,
    `data`, `chart`, `overlay`, and `zoom` for what the last two share."""
    needs: str = ""
    """What the open run must be: `open`, `process` (it has one), `live` (and takes commands), `running`,
    `paused` or `reward`; in the list of runs
    `chosen`, `ended` or `marked`; empty for nothing."""
    footer: int = 0
    """Rank in the footer, 1 first; 0 for not there."""
    dangerous: bool = False
    """Asks once before it is done."""
    part: str = ""
    """What must show, or have the focus, for the footer to name it: a lower part of Train, `large`, `chart`;
    in Rewards `scored`, `weights` or `busy`; in the data view
    `matches`; in Config `form`, `text`, `search`, `empty`, `edited`, `found`
    or `fixable`; `typing` where a letter is no key; or a state of the open run. Several are parted by
    commas."""
    shown: str = ""
    """How the key is written, when not as it is named; in the footer with its partner, `[ ]`."""

    @property
    def method(self) -> str:
        """Name of the Textual action."""
        return self.id.replace(".", "_")

    @property
    def target(self) -> str:
        """The Textual action with its owner, for a click or the palette."""
        return f"{'app' if self.pane == 'all' else 'screen'}.{self.method}"

    @property
    def key_shown(self) -> str:
        """The key as the footer names it."""
        return self.shown or self.key

    @property
    def key_alone(self) -> str:
        """The key without the one it shares a name with in the footer."""
        pair = self.key_shown.split()
        return self.key if self.key in pair else pair[-1] if pair else ""


@dataclass(frozen=True, slots=True)
class Listed:
    """What the list of runs has to act on: the run under the cursor, and how many are marked."""

    row: RunRow | None = None
    marked: int = 0
