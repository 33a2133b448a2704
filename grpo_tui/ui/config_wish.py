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


def config_of_run(root: Path) -> Path | None:
    """The file that a run was started with; None when it names none, or when the file is gone."""
    from grpo_tui.rewards.consent import note_named
    from grpo_tui.store.layout import RunFolder
    from grpo_tui.store.spec import read_spec

    try:
        named = read_spec(RunFolder(root).spec).config.get("path")
        path = Path(named) if isinstance(named, str) else None
        if path is None or not path.is_file():
            return None
    except (OSError, ValueError):
        return None
    note_named(path, root)
    return path
