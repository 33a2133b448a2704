"""`grpo-tui export CONFIG --format script`: a config as a stand-alone train.py.

Knows the command's words and files; the script is written by `config.export_script`.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import sys
from pathlib import Path
from typing import Any

from grpo_tui.cli.errors import OK, CommandError
from grpo_tui.cli.saved_run import saved_run
from grpo_tui.config.draft_file import DraftFileError, write_text
from grpo_tui.config.export_script import write_script
from grpo_tui.config.export_sources import NoSourceError
from grpo_tui.config.resolve import inspect_config, inspect_saved
from grpo_tui.config.run_config import ConfigError, RunConfig
from grpo_tui.core.findings import errors_of
from grpo_tui.core.text import shell_word


def export(parsed: Any) -> int:
    """`grpo-tui export CONFIG --format script [-o FILE]`."""
    config = _config(parsed.config, parsed.overrides)
    target: Path = parsed.output or Path("train.py")
    if parsed.output is not None and target.exists():
        raise CommandError(f"{target} is there already and stays as it is; name another file")
    try:
        text = write_script(config, target, _versions())
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
    """The config; a package that is not on this machine may be where the script will run."""
    if path.is_dir():
        found = inspect_saved(saved_run(path)[2], overrides, world_size=None)
    else:
        found = inspect_config(path, overrides, world_size=None)
    wrong = [error for error in errors_of(found.findings) if error.id != "config.not-installed"]
    if found.config is None or wrong:
        raise CommandError(str(ConfigError(wrong, found.file)))
    return found.config


def _versions() -> dict[str, str]:
    """Versions of what the script stands on, where they are known."""
    found = {}
    for package in ("trl", "transformers", "datasets"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found
