"""What a run was started with, for the commands that take a run folder as a config. Knows `run.json`."""

from __future__ import annotations

from pathlib import Path

from grpo_tui.cli.errors import CommandError
from grpo_tui.config.run_config import RunConfig
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
        return folder, spec, RunConfig.from_json(spec.config)
    except (OSError, ValueError) as error:
        run = shell_word(folder.root)
        raise CommandError(
            f"{folder.spec} cannot be read: {error}\n"
            f"`grpo-tui train CONFIG.yaml --run-dir {run} --resume` goes on with the config itself"
        ) from error
