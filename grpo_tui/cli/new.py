"""`grpo-tui new`: create a config from a preset, or a rewards file."""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from grpo_tui.cli.errors import FAILED, OK, CommandError, reported
from grpo_tui.cli.score import told
from grpo_tui.cli.words import refuse_unused
from grpo_tui.config.meant import nearest
from grpo_tui.config.presets import PresetError, copy_preset, presets
from grpo_tui.config.run_config import RunConfig
from grpo_tui.config.section import RewardEntry
from grpo_tui.core.text import one_line, shell_word
from grpo_tui.rewards.lab import DEFAULT_LIMIT_S, Lab, LabError
from grpo_tui.rewards.next_reward import (
    Growth,
    Stage,
    Task,
    TemplateError,
    add_to_file,
    growth,
    put_into_config,
    reward_names,
    section,
    stage_named,
    stages,
    start_file,
    task_of,
)
from grpo_tui.rewards.sample_sources import dataset_rows
from grpo_tui.rewards.samples import SampleError
from grpo_tui.rewards.scoring import Dataset, config_of_functions


def new(parsed: Any) -> int:
    """`grpo-tui new KIND …`."""
    if parsed.list and parsed.kind is not None:
        raise CommandError(f"--list only prints the presets. Leave out --list or {parsed.kind}")
    if parsed.list or parsed.kind == "config":
        return list_presets() if parsed.list else new_config(parsed)
    if parsed.kind is None:
        raise CommandError(
            "use `grpo-tui new config` or `grpo-tui new rewards`. `grpo-tui new --list` lists the presets"
        )
    return new_rewards(parsed)


def new_rewards(parsed: Any) -> int:
    """`grpo-tui new rewards FILE.py`. Exit 1 when `--next` adds nothing."""
    path: Path = parsed.file
    if path.suffix != ".py":
        raise CommandError(f"{path}: a rewards file is Python. Name it {path.with_suffix('.py')}")
    if parsed.write and parsed.config is None:
        raise CommandError("--write adds the reward to a config. Say which with --config CONFIG")
    if parsed.next is None and parsed.config is None:
        refuse_unused(parsed, "without --config or --next, which call functions", "--timeout")
    if parsed.next is None and path.exists():
        raise CommandError(
            f"{path} already exists. Add the next reward to it with --next, or name another file"
        )
    if parsed.next is not None and not path.is_file():
        raise CommandError(f"{path}: no such file. Leave out --next to create it")
    try:
        return _begin(path, parsed) if parsed.next is None else _go_on(path, parsed)
    except (LabError, SampleError, TemplateError) as error:
        raise CommandError(f"{path}: {error}" if isinstance(error, TemplateError) else str(error)) from error


def _begin(path: Path, parsed: Any) -> int:
    task = Task()
    if parsed.config is not None:
        config = _config(parsed.config)
        with Lab(limit_s=parsed.timeout or DEFAULT_LIMIT_S) as lab:
            told("", "reading the data")
            task = task_of(config, dataset_rows(lab, config))
        told("", "")
    stage = start_file(path, task)
    _tell(path, stage, task, {stage.name: stage.weight}, parsed)
    return OK


def _go_on(path: Path, parsed: Any) -> int:
    names = reward_names(path.read_text(encoding="utf-8"))
    config = _config(parsed.config) if parsed.config is not None else None
    now = _tried(path, names, config, parsed.timeout or DEFAULT_LIMIT_S)
    stage = now.advice.stage
    if parsed.next:
        stage = stage_named(parsed.next, now.task)
        if stage is None:
            known = ", ".join(f"{one.role} ({one.name})" for one in stages(now.task))
            raise CommandError(f"--next {one_line(parsed.next, 40)}: unknown reward. Known: {known}")
    if stage is None:
        print(f"{path}: {now.advice.says}")
        for sentence in now.advice.mend:
            print(f"  {sentence}")
        if now.advice.mend and now.probed is not None and now.probed.kinds:
            words = " ".join(shell_word(f"{path}:{name}") for name in names)
            print(f"The completions: grpo-tui probe {words} --show")
        return FAILED
    if stage.name in names:
        raise TemplateError(f"it already has {stage.name}")
    add_to_file(path, stage, now.task)
    weights = {**now.advice.weights, stage.name: stage.weight}
    _tell(path, stage, now.task, weights, parsed)
    return OK


def _tried(path: Path, names: list[str], config: RunConfig | None, limit_s: float) -> Growth:
    """Run the file's rewards on the config's rows, or on made-up ones without a config."""
    if not names:
        raise TemplateError(
            "it has no reward. A reward is a top-level function with a parameter `completions`"
        )
    functions = config_of_functions([f"{path}:{name}" for name in names])
    with Lab(limit_s=limit_s) as lab:
        told("", "loading torch…")
        lab.load(functions)
        dataset: Dataset | None = dataset_rows(lab, config) if config is not None else None
        found = growth(lab, config or functions, dataset, tell=told)
    told("", "")
    return found


def _config(path: Path) -> RunConfig:
    """Load a config that may have no reward yet."""
    from grpo_tui.config.resolve import config_of, inspect_config
    from grpo_tui.config.run_config import ConfigError
    from grpo_tui.core.findings import errors_of

    found = inspect_config(path, world_size=None)
    if found.config is not None:
        return found.config
    errors = [error for error in errors_of(found.findings) if error.id != "config.missing-reward"]
    if errors:
        raise CommandError(str(ConfigError(tuple(errors), found.file)))
    return config_of(found.settings, found.file, Path.cwd())


def _tell(path: Path, stage: Stage, task: Task, weights: Mapping[str, float], parsed: Any) -> None:
    """Add the reward to the config with `--write`. Print what was done and the next steps."""
    config: Path | None = parsed.config
    trouble = ""
    if parsed.write and config is not None:  # before any output, because a closed pipe could prevent it
        try:
            put_into_config(config, path, stage)
        except ValueError as error:
            trouble = f"the reward was not added to {config}: {one_line(str(error), 300)}"
    what = "written" if parsed.next is None else "added"
    print(f"{path}: {stage.name} {what}, weight {stage.weight:g}: {stage.says}\n")
    if trouble:
        raise CommandError(trouble, FAILED)
    if parsed.write:
        print(f"Added it to {config}.")
    if not parsed.write or not task.asked:
        for line in lines(path, task, weights, config):
            print(line)
    words = " ".join(shell_word(f"{path}:{name}") for name in weights)
    given = f" --config {shell_word(config)}" if config is not None else ""
    print(f"\nFind loopholes:     grpo-tui probe {words}")
    print(f"See their scores:   grpo-tui rewards {words}")
    print(f"Add the next:       grpo-tui new rewards {shell_word(path)} --next{given}")


def lines(path: Path, task: Task, weights: Mapping[str, float], config: Path | None = None) -> Iterator[str]:
    """Return the section to add to a config, as lines."""
    place = os.path.relpath(path, config.parent) if config is not None else path.name
    yield f"For {one_line(str(config), 60) if config is not None else 'a config beside it'}:"
    yield ""
    entries = [RewardEntry(name, f"{place}:{name}", weight) for name, weight in weights.items()]
    yield section(entries, task).rstrip("\n")


_WIDTH = 110


def list_presets() -> int:
    """`grpo-tui new --list`."""
    found = presets()
    indent = max(len(preset.name) for preset in found) + 2
    for preset in found:
        print(f"{preset.name:{indent}}" + _folded(preset.title, indent))
        print(" " * indent + _folded(re.split(r"[.:] ", preset.gpu)[0].rstrip("."), indent))
    print("\nA copy of one:  grpo-tui new config FILE.yaml --preset NAME")
    return OK


def new_config(parsed: Any) -> int:
    """`grpo-tui new config FILE.yaml --preset NAME`. Exit 2 when the copy cannot be made."""
    target: Path = parsed.file
    if target.suffix not in (".yaml", ".yml"):
        raise CommandError(f"{target}: a config is YAML. Name it {target.with_suffix('.yaml')}")
    known = {preset.name: preset for preset in presets()}
    if parsed.preset is None:
        names = ", ".join(known)
        raise CommandError(
            f"choose a preset, such as --preset {next(iter(known))}. Available: {names}.\n"
            "`grpo-tui new --list` says what each trains and on which GPU"
        )
    preset = known.get(parsed.preset)
    if preset is None:
        near = nearest(parsed.preset, known)
        hint = f"did you mean {near}?" if near else "`grpo-tui new --list` shows them"
        raise CommandError(f"unknown preset {parsed.preset}; {hint}")
    try:
        with reported(PresetError):
            written = copy_preset(preset, target)
    except OSError as error:
        raise CommandError(f"{error.filename}: {error.strerror}") from error
    print(f"{written[0]}: a copy of {preset.name}")
    for place in dict.fromkeys(f"{p.parent}/" if p.parent != target.parent else p for p in written[1:]):
        print(place)
    for label, text in (("Needs", preset.needs), ("Hardware", preset.gpu), ("Expect", preset.expects)):
        print(f"\n{label:10}" + _folded(text, 10))
    print(f"\nCheck it:  grpo-tui check {shell_word(target)}")
    print(f"Start it:  grpo-tui train {shell_word(target)}")
    return OK


def _folded(text: str, indent: int) -> str:
    lines = textwrap.wrap(text, _WIDTH - indent, break_long_words=False, break_on_hyphens=False)
    return ("\n" + " " * indent).join(lines)
