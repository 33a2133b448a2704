"""Config and launcher of an existing run, for commands that take a run folder as a config."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from grpo_tui.cli.errors import CommandError, reported
from grpo_tui.cli.words import sets
from grpo_tui.config import accelerate_file
from grpo_tui.config.accelerate_file import AccelerateFileError, accelerate_settings, ranks_of
from grpo_tui.config.resolve import inspect_saved, startable
from grpo_tui.config.run_config import ConfigError, RunConfig
from grpo_tui.config.section import Section
from grpo_tui.core.text import shell_word
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.spec import RunSpec, read_spec


def saved_run(path: Path) -> tuple[RunFolder, RunSpec, RunConfig]:
    """Return the run of a folder, how it was started, and its config, which has all of its stages."""
    folder = RunFolder(path.absolute())
    if not folder.spec.exists():
        raise CommandError(f"{path}: no run here (it has no run.json). Give a TRL YAML config")
    try:
        spec = read_spec(folder.spec)
        config = spec.stage.base if spec.stage is not None else spec.config
        return folder, spec, RunConfig.from_json(config, folder.root)
    except (OSError, ValueError) as error:
        run = shell_word(folder.root)
        raise CommandError(
            f"{folder.spec} cannot be read: {error}\nResume with the original config: `grpo-tui train "
            f"CONFIG.yaml --run-dir {run} --resume`"
        ) from error


def overridden(saved: RunConfig, overrides: Sequence[str]) -> RunConfig:
    """Return a run's config with `--set` applied."""
    if not overrides:
        return saved
    with reported(ConfigError):
        return startable(inspect_saved(saved, overrides, world_size=None))


def launcher_of_run(spec: RunSpec, saved: RunConfig, overrides: Sequence[str]) -> tuple[str, ...]:
    """Return the launcher that a run was started with, unless `--set` names another."""
    if not sets(overrides, "grpo_tui.launcher"):
        return spec.launcher
    return launcher_words(inspect_saved(saved, overrides, world_size=None).settings.section.launcher)


KNOWN = (("accelerate", "launch"), ("torchrun",))


def launcher_words(text: str | None) -> tuple[str, ...]:
    """Split the value of `--launcher`. Empty when it was not given."""
    if text is None:
        return ()
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise CommandError(f"--launcher {text}: {error}") from error
    if not any(words[: len(known)] == known for known in KNOWN):
        raise CommandError(f'--launcher {text}: write it as "accelerate launch …" or "torchrun …"')
    return words


def world_size(words: tuple[str, ...]) -> int | None:
    """Return the number of ranks: 1 without a launcher, None when its command line does not say."""
    with reported(AccelerateFileError, before="--launcher: "):
        return ranks_of(words)


def own_world_size(section: Section) -> int | None:
    """Return the number of ranks that the config's own launcher starts."""
    return world_size(launcher_words(section.launcher))


def accelerate_config(words: tuple[str, ...]) -> dict[str, Any] | None:
    """Return accelerate's config file with the launcher's options applied, None when both are empty."""
    with reported(AccelerateFileError, before="--launcher: "):
        return accelerate_settings(words)


def spans_machines(words: tuple[str, ...]) -> bool:
    """Return whether the ranks run on several machines."""
    with reported(AccelerateFileError, before="--launcher: "):
        return accelerate_file.spans_machines(words)
