"""`grpo-tui plan`: estimate a run without loading anything."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from grpo_tui.cli.errors import OK, CommandError, reported
from grpo_tui.cli.plain import print_json
from grpo_tui.cli.saved_run import (
    accelerate_config,
    launcher_of_run,
    launcher_words,
    overridden,
    saved_run,
    world_size,
)
from grpo_tui.config.plan.memory import CARDS, Device, card
from grpo_tui.config.resolve import inspect_config, inspect_saved, startable
from grpo_tui.config.run_config import ConfigError, RunConfig
from grpo_tui.config.settings import Settings
from grpo_tui.core.text import one_line
from grpo_tui.preflight.facts import Facts
from grpo_tui.preflight.machine import this_machine
from grpo_tui.preflight.planning import plan_of
from grpo_tui.preflight.report import Part
from grpo_tui.preflight.static import Launch
from grpo_tui.present.known_rates import known_rates
from grpo_tui.present.plan_text import plan_list


def plan_config(parsed: Any) -> int:
    """`grpo-tui plan CONFIG`."""
    config, words = _config(parsed)
    device = _device(parsed.gpu) if parsed.gpu else None
    accelerate_config(words)  # a plan would pass over a file that cannot be read
    made = plan_of(
        Settings.of_config(config, parsed.world_size or world_size(words)),
        _counted(config, words, parsed) if parsed.count else Facts(),
        this_machine(),
        config.run_root,
        launcher=words,
        rates=known_rates([Path.cwd(), config.run_root.absolute().parent], config.model),
        device=device,
        rows=parsed.rows,
        prompt_tokens=parsed.prompt_tokens,
    )
    if parsed.json:
        print_json(made.to_json())
        return OK
    for line in plan_list(made):
        print(line)
    return OK


def _counted(config: RunConfig, words: tuple[str, ...], parsed: Any) -> Facts:
    """Count rows, tokens and parameters in the preflight process. Report on stderr what cannot be."""
    from grpo_tui.cli.plain import show_progress
    from grpo_tui.preflight.run import check
    from grpo_tui.rewards.consent import required

    required(config, "data", "model")

    inspected = inspect_saved(config, world_size=parsed.world_size or world_size(words))
    parts: tuple[Part, ...] = ("static", "model", "data")
    facts = check(inspected, Launch(words), progress=show_progress, parts=parts).facts
    show_progress("")
    for what, part in (("model", facts.model), ("data", facts.data)):
        problem = part.problem if part is not None else "it could not be read"
        if problem:
            print(f"the {what} is not counted: {one_line(problem, 200)}", file=sys.stderr)
    return facts


def _device(name: str) -> Device:
    found = card(name)
    if found is None:
        raise CommandError(
            f"--gpu {name}: give its memory, such as 80GB, or one of {', '.join(sorted(CARDS))}"
        )
    return found


def _config(parsed: Any) -> tuple[RunConfig, tuple[str, ...]]:
    path: Path = parsed.config
    if path.is_dir():
        _, spec, saved = saved_run(path)
        return overridden(saved, parsed.overrides), launcher_of_run(spec, saved, parsed.overrides)
    found = inspect_config(path, parsed.overrides, world_size=None)
    with reported(ConfigError):
        return startable(found, force=True), launcher_words(found.settings.section.launcher)
