"""What a pane shall open: a config, or rewards with where their samples come from. Plain data for the app."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grpo_tui.config.run_config import RunConfig
    from grpo_tui.rewards.sample_sources import Origin


@dataclass(frozen=True, slots=True)
class ConfigRequest:
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


@dataclass(frozen=True, slots=True)
class RewardsRequest:
    """Rewards to load and samples to score.

    Attributes:
        title: whose rewards these are, such as the file's name.
        config: reads the config, in the lab's thread; raises ValueError with a sentence.
        origin: where the samples come from; the usual place when None.
        run: the run whose rewards they are, None when a person named them.
        file: the config they stand in, which Config shows too; None when it is another's or there is none.
        overrides: `K=V` words that were given with it.
    """

    title: str
    config: Callable[[], RunConfig]
    origin: Origin | None = None
    run: Path | None = None
    file: Path | None = None
    overrides: tuple[str, ...] = ()


def rewards_of_run(root: Path, group: int | None = None) -> RewardsRequest:
    """The rewards of a run, on the completions of its newest step, or of one of its groups."""

    def read() -> RunConfig:
        from grpo_tui.config.run_config import RunConfig
        from grpo_tui.store.layout import RunFolder
        from grpo_tui.store.spec import read_spec

        try:
            return RunConfig.from_json(read_spec(RunFolder(root).spec).config, root)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ValueError(
                f"the rewards of this run are unknown: its run.json cannot be read ({reason}). Name them "
                "instead: grpo-tui rewards CONFIG, or grpo-tui rewards FILE.py:FUNCTION"
            ) from error

    from grpo_tui.rewards.sample_sources import Origin

    origin = Origin("run", run=root, group=group)
    return RewardsRequest(root.name, read, origin, root)
