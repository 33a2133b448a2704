"""Begin a replay of a run."""

from __future__ import annotations

from pathlib import Path

from grpo_tui.core.findings import Finding
from grpo_tui.health.reading import doctor_before
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.reader import RunReader
from grpo_tui.store.replay import SPEED, Replay, begin


def start_replay(root: Path, at: int | None = None, speed: float = SPEED) -> Replay:
    """Show a run as of a step, or of its first one, to every reader of this process."""
    replay = Replay(at, _open_then, speed)
    begin(RunFolder(root).database, replay)
    return replay


def _open_then(reader: RunReader) -> list[Finding]:
    """Return the findings that were open. The newest step was judged when the next one began."""
    moment = reader.moment
    return [] if moment is None else doctor_before(reader, moment.step).open_findings()
