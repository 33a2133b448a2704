"""What a run was started with, for the commands that take a run folder as a config. Knows `run.json`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from grpo_tui.cli.errors import CommandError
from grpo_tui.cli.launcher import launcher_words
from grpo_tui.cli.words import sets
from grpo_tui.config.resolve import inspect_saved, reload_config
from grpo_tui.config.run_config import ConfigError, RunConfig
from grpo_tui.core.text import shell_word
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.spec import RunSpec, read_spec


def saved_run(path: Path) -> tuple[RunFolder, RunSpec, RunConfig]:
    """The run of a folder, how it was started, and its config.

    Raises:
        CommandError: There is none, or it cannot be read.
    """
    folder = RunFolder(path.absolute())
    if not folder.spec.exists():
        raise CommandError(f"{path}: no run here (it has no run.json); give a TRL YAML config")
    try:
        spec = read_spec(folder.spec)
        return folder, spec, RunConfig.from_json(spec.config, folder.root)
    except (OSError, ValueError) as error:
        run = shell_word(folder.root)
        raise CommandError(
            f"{folder.spec} cannot be read: {error}\n"
            f"`grpo-tui train CONFIG.yaml --run-dir {run} --resume` goes on with the config itself"
        ) from error


def overridden(
    saved: RunConfig, overrides: Sequence[str], size: int | None = None, *, force: bool = False
) -> RunConfig:
    """Return a run's config with `--set` applied.

    Args:
        saved: The config of the run.
        overrides: `K=V` texts.
        size: Number of training processes, None when it is not known.
        force: Whether errors may remain, as long as they leave a config.

    Raises:
        CommandError: The overrides do not fit.
    """
    if not overrides:
        return saved
    if force and (config := inspect_saved(saved, overrides, world_size=size).config) is not None:
        return config
    try:
        return reload_config(saved, overrides, world_size=size)
    except ConfigError as error:
        raise CommandError(str(error)) from error


def launcher_of_run(spec: RunSpec, saved: RunConfig, overrides: Sequence[str]) -> tuple[str, ...]:
    """Return the launcher that a run was started with, unless `--set` names another."""
    if not sets(overrides, "grpo_tui.launcher"):
        return spec.launcher
    return launcher_words(inspect_saved(saved, overrides, world_size=None).section.launcher)
