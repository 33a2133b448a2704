"""What the pane Config shall open: a file, with what was set on the command line. Plain data for the app."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ConfigWish:
    """A config to open.

    Attributes:
        path: the file.
        overrides: `K=V` words of the command line.
        run_dir: folder of the run, when one was named.
        launcher: words put before the training process.
        in_rewards: whether Rewards shows this file already.
    """

    path: Path
    overrides: tuple[str, ...] = ()
    run_dir: Path | None = None
    launcher: str | None = None
    in_rewards: bool = False
