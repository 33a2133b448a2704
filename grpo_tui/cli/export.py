"""`grpo-tui export`: write a config as a train.py, a run's config as it ended, or a run as a bundle."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from grpo_tui.cli.errors import OK, REFUSED, CommandError, reported
from grpo_tui.cli.saved_run import saved_run
from grpo_tui.cli.words import refuse_unused
from grpo_tui.config.draft_file import DraftFileError, write_text
from grpo_tui.config.export_script import NoSourceError, exportable, installed_versions
from grpo_tui.config.export_stages import write_scripts
from grpo_tui.config.resolve import inspect_config, inspect_saved
from grpo_tui.config.run_config import ConfigError, RunConfig
from grpo_tui.core import probe_changes
from grpo_tui.core.commands import REWARDS
from grpo_tui.core.records import SettingChanged
from grpo_tui.core.stages import START
from grpo_tui.core.text import one_line, safe, shell_word
from grpo_tui.present.formatting import plural, setting, size
from grpo_tui.store.layout import is_known
from grpo_tui.store.reader import RunReader


def config_as_ended(
    run: Path,
    overrides: Sequence[str],
    target: Path | None,
    more: Sequence[SettingChanged] = (),
    how: str = "as it ended",
) -> str:
    """Return the YAML text of a run's config with the settings in effect at its last step.

    Args:
        overrides: `K=V` texts that take precedence over both.
        more: Changes as if they had been made after the last step.
        how: What the first line says of the config.
        target: File for the text, None for the terminal. In another folder than that of the original config,
            the paths in it are absolute.
    """
    import yaml

    if not run.is_dir():
        raise CommandError(f"{run}: --format config takes a run folder")
    folder, _, saved = saved_run(run)
    with closing(RunReader(folder.database)) as reader:
        history = reader.lasting_settings()
    changes = [*history, *more]
    ended = settings_in_force(changes, saved)
    given = [f"{name}={json.dumps(value)}" for name, value in ended.items()]
    with reported(ConfigError):
        config = exportable(inspect_saved(saved, [*given, *overrides], world_size=None))
    named = ", ".join(f"{name} {setting(value)}" for name, value in ended.items())
    head = f"# The config of {one_line(folder.root.name)}"
    head += f" {how}: {one_line(named)}" if named else ""
    raw = config.raw if target is None or is_home(target, saved) else _moved(config, target)
    return f"{head}\n" + yaml.safe_dump(raw, sort_keys=False, allow_unicode=True)


def is_home(target: Path, saved: RunConfig) -> bool:
    """Return whether a file lies in the folder from which a config names files."""
    return target.absolute().parent.resolve() == home_of(saved).resolve()


def _moved(config: RunConfig, target: Path) -> dict[str, Any]:
    """Return the values of a config for a file in another folder, which means the same there.

    Raises:
        CommandError: A path in it has a meaning only in its own folder.
    """
    resolved = [config.model, config.grpo, config.model_args, config.script, config.mixture]
    known = set(_texts([*resolved, config.section.to_json()]))
    places = (home_of(config), Path(config.cwd))

    def absolute(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: absolute(item) for key, item in value.items()}
        if isinstance(value, list):
            return [absolute(item) for item in value]
        named = (str(place / value) for place in places) if isinstance(value, str) else ()
        return next((path for path in named if path in known), value)

    raw: dict[str, Any] = absolute(config.raw)
    there = inspect_saved(replace(config, raw=raw, path=target.absolute()), world_size=None).config
    if there is None or replace(there, path=config.path, raw=config.raw, findings=config.findings) != config:
        home = home_of(config)
        name = shell_word(home / target.name)
        raise CommandError(f"The config names files by paths from {home}. Write it there: -o {name}")
    return raw


def _texts(value: Any) -> Iterator[str]:
    """Yield every text in nested values."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)


def home_of(saved: RunConfig) -> Path:
    """Return the folder from which a config names files by paths."""
    return saved.path.parent if saved.path is not None else Path(saved.cwd or Path.cwd())


def settings_in_force(changes: Iterable[SettingChanged], saved: RunConfig) -> dict[str, object]:
    """Return the settings changed while training that differ from the config, by config key.

    `changes` are given oldest first. A resume writes its overrides into the config, which replaces earlier
    changes.
    """
    last: dict[str, object] = {}
    factor = 1.0
    for change in changes:
        if change.by == "config":
            last.pop(change.name, None)
            factor = 1.0 if change.name == "learning_rate" else factor
        elif change.name != "learning_rate":
            last[change.name] = change.new
        elif change.by != "resume" and change.old:
            factor *= float(change.new) / float(change.old)
    last.pop(REWARDS, None)  # the config names the same files
    last.pop(START, None)  # the schedule of a run of its own begins with it
    last |= _probe_prompts(last.pop(probe_changes.NAME, None), saved)
    weights = last.pop("reward_weights", None)
    if isinstance(weights, list):
        own = len(saved.section.rewards) == len(weights)
        keys = [f"grpo_tui.rewards.{place}.weight" for place in range(len(weights))]
        last |= dict(zip(keys, weights, strict=True)) if own else {"reward_weights": weights}
    if abs(factor - 1) > 1e-9:
        # The schedule changes the rate too, so scale the initial rate by the factor of the changes.
        last["learning_rate"] = float(f"{float(saved.setting('learning_rate')) * factor:.6g}")
    return last


def _probe_prompts(changes: object, saved: RunConfig) -> dict[str, object]:
    """Return the keys of the config that add and remove the probe prompts changed while training."""
    probes = saved.section.probe_prompts
    if not probe_changes.is_value(changes) or probes is None:
        return {}
    added = probe_changes.texts(changes, probe_changes.ADDED)
    gone = probe_changes.texts(changes, probe_changes.REMOVED)
    add = [*(text for text in probes.add if text not in gone), *added]
    remove = [*probes.remove, *(text for text in gone if text not in probes.remove)]
    wanted = (("add", add, probes.add), ("remove", remove, probes.remove))
    return {f"grpo_tui.probe_prompts.{key}": now for key, now, before in wanted if now != list(before)}


def export(parsed: Any) -> int:
    """`grpo-tui export CONFIG [-o FILE]`, or `grpo-tui export RUN --format bundle [-o PATH]`."""
    if parsed.format == "bundle":
        return _bundle(parsed)
    refuse_unused(parsed, "without --format bundle", "--with-model", "--trust")
    target: Path = parsed.output or Path("train.py")
    how = "grpo-tui train" if parsed.format == "config" else "python"
    if parsed.format == "config":
        texts = {target: config_as_ended(parsed.config, parsed.overrides, parsed.output)}
    else:
        with reported(NoSourceError, ConfigError):
            config = _config(parsed.config, parsed.overrides)
            texts = write_scripts(config, target, installed_versions())
    if parsed.output is None:
        if len(texts) > 1:
            raise CommandError(
                "A config with stages becomes one script per stage. Name them with -o train.py"
            )
        sys.stdout.write(texts[target])
        return OK
    for path in texts:
        if os.path.lexists(path):
            raise CommandError(f"{path} already exists and was left unchanged. Choose another file")
    with reported(DraftFileError):
        for path, text in texts.items():
            write_text(path, text)
            print(f"{path}: {len(text.splitlines())} lines. Train with `{how} {shell_word(path)}`")
    return OK


def _bundle(parsed: Any) -> int:
    from grpo_tui.ship.bundle import BundleError, write_bundle  # not for doctor, which imports this module

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
