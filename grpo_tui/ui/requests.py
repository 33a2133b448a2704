"""Requests to open a config or rewards in a pane, as plain data."""

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
        overrides: `K=V` arguments from the command line.
        run_dir: Run folder, if the user named one.
        launcher: Command in front of the training process, such as `accelerate launch`.
        in_rewards: Rewards already shows this file.
        of_run: The open run named the file, not the user.
    """

    path: Path
    overrides: tuple[str, ...] = ()
    run_dir: Path | None = None
    launcher: str | None = None
    in_rewards: bool = False
    of_run: bool = False


def config_of_run(root: Path) -> Path | None:
    """Return the config file a run was started with; None when none is recorded or it no longer exists."""
    from grpo_tui.rewards.consent import note_named

    path = recorded_path(root)
    try:
        if path is None or not path.is_file():
            return None
    except (OSError, ValueError):
        return None
    note_named(path, root)
    return path


def recorded_path(root: Path) -> Path | None:
    """Return the path of the config that a run was started with, whether or not it still exists."""
    from grpo_tui.store.layout import RunFolder
    from grpo_tui.store.spec import read_spec

    try:
        named = read_spec(RunFolder(root).spec).config.get("path")
    except (OSError, ValueError):
        return None
    return Path(named) if isinstance(named, str) and named else None


@dataclass(frozen=True, slots=True)
class RewardsRequest:
    """Rewards to load and samples to score.

    Attributes:
        title: What the rewards belong to, such as a file name.
        config: Reads the config in the lab's thread. Raises ValueError with a sentence for the user.
        origin: Source of the samples; None for the default.
        run: The run they belong to; None when the user named the rewards directly.
        file: The config that contains them, to open in Config too; None for another run's or none.
        overrides: `K=V` arguments given with the file.
    """

    title: str
    config: Callable[[], RunConfig]
    origin: Origin | None = None
    run: Path | None = None
    file: Path | None = None
    overrides: tuple[str, ...] = ()


def rewards_of_run(root: Path, group: int | None = None) -> RewardsRequest:
    """Return the rewards of a run, on one of its groups or the completions of its newest step."""

    def read() -> RunConfig:
        from grpo_tui.config.run_config import RunConfig
        from grpo_tui.config.section import Section
        from grpo_tui.rewards.samples import weighed_as_now
        from grpo_tui.store.layout import RunFolder
        from grpo_tui.store.reader import script_arguments
        from grpo_tui.store.spec import read_spec

        try:
            config = RunConfig.from_json(read_spec(RunFolder(root).spec).config, root)
        except (OSError, ValueError) as error:
            if (
                arguments := script_arguments(RunFolder(root))
            ) is not None:  # only the script has its rewards
                return RunConfig(None, "", dict(arguments), {}, {}, {}, Section(), origin=root)
            reason = getattr(error, "strerror", None) or error
            raise ValueError(
                f"the rewards of this run are unknown: its run.json cannot be read ({reason}). Name them "
                "instead: grpo-tui rewards CONFIG, or grpo-tui rewards FILE.py:FUNCTION"
            ) from error
        return weighed_as_now(config, root)

    from grpo_tui.rewards.sample_sources import Origin

    origin = Origin("run", run=root, group=group)
    return RewardsRequest(root.name, read, origin, root)
