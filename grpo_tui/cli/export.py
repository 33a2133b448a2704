"""`grpo-tui export CONFIG --format script`: a config as a stand-alone train.py.

Knows the command's words and files; the script is written by `config.export_script`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from grpo_tui.cli.errors import OK, CommandError
from grpo_tui.cli.saved_run import saved_run
from grpo_tui.config.draft_file import DraftFileError, write_text
from grpo_tui.config.export_script import exportable, installed_versions, write_script
from grpo_tui.config.export_sources import NoSourceError
from grpo_tui.config.resolve import inspect_config, inspect_saved
from grpo_tui.config.run_config import ConfigError, RunConfig
from grpo_tui.core.text import shell_word


def export(parsed: Any) -> int:
    """`grpo-tui export CONFIG --format script [-o FILE]`."""
    config = _config(parsed.config, parsed.overrides)
    target: Path = parsed.output or Path("train.py")
    if parsed.output is not None and target.exists():
        raise CommandError(f"{target} is there already and stays as it is; name another file")
    try:
        text = write_script(config, target, installed_versions())
    except NoSourceError as error:
        raise CommandError(str(error)) from error
    if parsed.output is None:
        sys.stdout.write(text)
        return OK
    try:
        write_text(target, text)
    except DraftFileError as error:
        raise CommandError(str(error)) from error
    print(f"{target}: {len(text.splitlines())} lines; `python {shell_word(target)}` trains")
    return OK


def _config(path: Path, overrides: list[str]) -> RunConfig:
    """The config of a file or of a run."""
    if path.is_dir():
        found = inspect_saved(saved_run(path)[2], overrides, world_size=None)
    else:
        found = inspect_config(path, overrides, world_size=None)
    try:
        return exportable(found)
    except ConfigError as error:
        raise CommandError(str(error)) from error
