"""`grpo-tui plan`: estimate a run without loading anything."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from grpo_tui.cli.errors import OK, CommandError
from grpo_tui.cli.plain import print_json
from grpo_tui.cli.saved_run import (
    accelerate_config,
    launcher_of_run,
    launcher_words,
    overridden,
    saved_run,
    world_size,
)
from grpo_tui.config.plan import Device, Plan, Surroundings, plan, read_shape
from grpo_tui.config.plan.memory import CARDS, card
from grpo_tui.config.resolve import inspect_config, inspect_saved
from grpo_tui.config.run_config import ConfigError, RunConfig
from grpo_tui.config.settings import Settings
from grpo_tui.core.text import one_line
from grpo_tui.preflight.facts import Facts
from grpo_tui.preflight.machine import this_machine
from grpo_tui.preflight.planning import device_of, shape_of_facts
from grpo_tui.preflight.report import Part
from grpo_tui.preflight.static import Launch
from grpo_tui.present.known_rates import known_rates, measured
from grpo_tui.present.plan_text import plan_list


def plan_config(parsed: Any) -> int:
    """`grpo-tui plan CONFIG`."""
    config, words = _config(parsed)
    made = plan_on(config, words, parsed)
    if parsed.json:
        print_json(made.to_json())
        return OK
    for line in plan_list(made):
        print(line)
    return OK


def plan_on(config: RunConfig, words: tuple[str, ...], parsed: Any) -> Plan:
    """Return the plan of a config for this machine or for the GPU of `--gpu`."""
    machine = this_machine()
    device = (
        _device(parsed.gpu)
        if parsed.gpu
        else device_of(config, machine, alone=not words and (parsed.world_size or 1) == 1)
    )
    root = config.run_root
    facts = _counted(config, words, parsed) if parsed.count else Facts()
    data = facts.data if facts.data is not None and not facts.data.problem else None
    lengths = data.prompt_tokens if data is not None else None
    lora = Settings.of_config(config).flag("use_peft")
    known = measured(config.model, device, lora=lora)
    rates = known_rates([Path.cwd(), root.absolute().parent], config.model)
    return plan(
        config,
        Surroundings(
            world_size=parsed.world_size or world_size(words) or 1,
            rows=parsed.rows or (data.train_rows if data is not None else None),
            prompt_tokens=parsed.prompt_tokens or (lengths.most if lengths is not None else None),
            model=shape_of_facts(facts.model) or read_shape(config.model),
            device=device,
            accelerate=accelerate_config(words),
            correction=known.correction,
            free_bytes=machine.free(root.absolute()),
            rates=(*rates, *known.rates),
        ),
    )


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
    if found.config is None:
        raise CommandError(str(ConfigError(found.findings, path)))
    return found.config, launcher_words(found.settings.section.launcher)
