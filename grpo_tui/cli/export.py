"""`grpo-tui export`: write a config as a stand-alone train.py, or the config with which a run ended."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from grpo_tui.cli.errors import OK, CommandError, reported
from grpo_tui.cli.export_config import config_as_ended
from grpo_tui.cli.saved_run import saved_run
from grpo_tui.config.draft_file import DraftFileError, write_text
from grpo_tui.config.export_script import exportable, installed_versions, write_script
from grpo_tui.config.export_sources import NoSourceError
from grpo_tui.config.resolve import inspect_config, inspect_saved
from grpo_tui.config.run_config import ConfigError, RunConfig
from grpo_tui.core.text import shell_word


def export(parsed: Any) -> int:
    """`grpo-tui export CONFIG [-o FILE]`."""
    target: Path = parsed.output or Path("train.py")
    if parsed.output is not None and target.exists():
        raise CommandError(f"{target} already exists and was left unchanged. Choose another file")
    how = "grpo-tui train" if parsed.format == "config" else "python"
    if parsed.format == "config":
        text = config_as_ended(parsed.config, parsed.overrides, parsed.output)
    else:
        with reported(NoSourceError):
            config = _config(parsed.config, parsed.overrides)
            text = write_script(config, target, installed_versions())
    if parsed.output is None:
        sys.stdout.write(text)
        return OK
    with reported(DraftFileError):
        write_text(target, text)
    print(f"{target}: {len(text.splitlines())} lines. Train with `{how} {shell_word(target)}`")
    return OK


def _config(path: Path, overrides: list[str]) -> RunConfig:
    if path.is_dir():
        found = inspect_saved(saved_run(path)[2], overrides, world_size=None)
    else:
        found = inspect_config(path, overrides, world_size=None)
    with reported(ConfigError):
        return exportable(found)
