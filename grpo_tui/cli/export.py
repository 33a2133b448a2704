"""`grpo-tui export`: write a config as a train.py, a run's config as it ended, or a run as a bundle."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from grpo_tui.cli.errors import OK, REFUSED, CommandError, reported
from grpo_tui.cli.export_config import config_as_ended
from grpo_tui.cli.saved_run import saved_run
from grpo_tui.cli.words import refuse_unused
from grpo_tui.config.draft_file import DraftFileError, write_text
from grpo_tui.config.export_script import exportable, installed_versions, write_script
from grpo_tui.config.export_sources import NoSourceError
from grpo_tui.config.resolve import inspect_config, inspect_saved
from grpo_tui.config.run_config import ConfigError, RunConfig
from grpo_tui.core.text import one_line, safe, shell_word
from grpo_tui.present.formatting import plural, size
from grpo_tui.ship.bundle import BundleError, write_bundle
from grpo_tui.store.layout import is_known


def export(parsed: Any) -> int:
    """`grpo-tui export CONFIG [-o FILE]`, or `grpo-tui export RUN --format bundle [-o PATH]`."""
    if parsed.format == "bundle":
        return _bundle(parsed)
    refuse_unused(parsed, "without --format bundle", "--with-model", "--trust")
    target: Path = parsed.output or Path("train.py")
    if parsed.output is not None and os.path.lexists(target):
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


def _bundle(parsed: Any) -> int:
    if parsed.overrides:
        raise CommandError("--set has no effect with --format bundle; leave it out")
    folder, spec, config = saved_run(parsed.config)
    if not (parsed.trust or is_known(folder.root)):
        raise CommandError(
            f"{parsed.config}: you did not start this run on this machine, so its config could put any of "
            "your files into the bundle. Read its config first. --trust exports the run",
            REFUSED,
        )
    target = parsed.output or Path(f"{folder.root.name}-bundle")
    with reported(BundleError):
        found = write_bundle(folder, spec, config, target, with_model=parsed.with_model)
    for note in found.notes:
        print(f"note: {one_line(note, 300)}", file=sys.stderr)
    print(safe(f"{target}: {plural(found.files, 'file')}, {size(found.size_bytes)}"))
    print(f"reproduce it with `grpo-tui reproduce {shell_word(target)} --verify`")
    return OK


def _config(path: Path, overrides: list[str]) -> RunConfig:
    if path.is_dir():
        found = inspect_saved(saved_run(path)[2], overrides, world_size=None)
    else:
        found = inspect_config(path, overrides, world_size=None)
    with reported(ConfigError):
        return exportable(found)
