"""What resuming an ended run would do, read from its folder before anybody is asked.

Knows checkpoints and rows of the list; starts nothing.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from grpo_tui.core.text import one_line, shell_word
from grpo_tui.present.formatting import moment
from grpo_tui.store.checkpoints import newest_usable
from grpo_tui.store.layout import RunFolder

if TYPE_CHECKING:
    from grpo_tui.present.runs_view import RunRow


@dataclass(frozen=True, slots=True)
class ResumeOffer:
    """A resume that can be asked for; `refusal` says why it cannot, and what to do instead."""

    path: Path
    name: str
    checkpoint: str = ""
    """Name of the checkpoint's folder."""
    lines: tuple[str, ...] = ()
    """What will happen, a sentence each."""
    refusal: str = ""


def read_offer(row: RunRow) -> ResumeOffer:
    """Look for the checkpoint from which a run would go on."""
    best, passed = newest_usable(RunFolder(row.path))
    if best is None:
        torn = "; ".join(f"{v.path.name}: {v.reason}" for v in passed[:2])
        why = f" ({torn})" if torn else ""
        return ResumeOffer(
            row.path, row.name,
            refusal=one_line(f"{row.name} has no complete checkpoint to resume from{why}.", 300),
        )  # fmt: skip
    total = f" of {row.total_steps:,}" if row.total_steps else ""
    saved = moment(_written_at(best.path), time.time())
    lines = [f"Goes on from {best.path.name}, saved {saved}: the next step is {best.step + 1:,}{total}."]
    again = row.step - best.step
    if again == 1:
        lines.append(f"Step {row.step:,} is done again; what it recorded stays, marked superseded.")
    elif again > 1:
        lines.append(
            f"Steps {best.step + 1:,} to {row.step:,} are done again; what they recorded stays, superseded."
        )
    if best.reason:
        lines.append(f"Not exact: {best.reason}.")
    lines += [f"Passed over: {v.path.name}, {v.reason}." for v in passed[:2]]
    return ResumeOffer(row.path, row.name, best.path.name, tuple(one_line(line, 200) for line in lines))


def _written_at(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except OSError:
        return None


def resume_command(path: Path | str) -> str:
    """The command that resumes a run, to copy."""
    return f"grpo-tui train {shell_word(path)} --resume"
