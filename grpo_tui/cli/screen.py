"""Open the screen. Imports as little as it can: whatever it imports, the first paint waits for.

Knows where runs are looked for; what the screen shows is its own matter.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from grpo_tui.cli.errors import OK

if TYPE_CHECKING:
    from grpo_tui.ui.requests import ConfigWish, RewardsWish


def default_roots() -> list[Path]:
    """Where runs are looked for: `outputs/` and the current folder."""
    return [path for path in (Path("outputs"), Path(".")) if path.is_dir()]


def show(
    run: Path | None,
    roots: list[Path] | None = None,
    rewards: RewardsWish | None = None,
    config: ConfigWish | None = None,
) -> int:
    """Open the screen on what is given, else on the list; what ends it badly leaves the terminal whole."""
    from grpo_tui.cli.guard import guarded

    return guarded(lambda: _screen(run, roots or default_roots(), rewards, config), lambda: _going_on(run))


def _screen(
    run: Path | None, roots: list[Path], rewards: RewardsWish | None, config: ConfigWish | None
) -> int:
    from grpo_tui.cli.streams import last_word
    from grpo_tui.ui.app import run_app

    parting = run_app(roots=roots, run=run, rewards=rewards, config=config)
    if parting:
        last_word(parting)
    return OK


def _going_on(run: Path | None) -> str:
    """What a screen that broke leaves behind, in a sentence; empty when nothing goes on."""
    from grpo_tui.core.text import one_line
    from grpo_tui.store.status import read_status

    if run is None:
        return "no run was touched by it; `grpo-tui runs` lists them"
    return f"training goes on; `grpo-tui attach {one_line(str(run))}`" if read_status(run).live else ""
