"""Checks that take milliseconds: no child process, no model, no data.

Combines the checks of `config` with the rules about this machine and the run folder. Findings on the same
line follow the order of `RULES`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo_tui.config.resolve import Inspected, inspect_config, inspect_saved
from grpo_tui.config.rules_grpo import grpo_findings, lora_findings
from grpo_tui.config.rules_nested import nested_findings, value_findings
from grpo_tui.config.rules_sharded import sharded_findings
from grpo_tui.config.rules_training import metric_findings, training_findings
from grpo_tui.config.rules_vllm import vllm_findings
from grpo_tui.config.run_config import RunConfig
from grpo_tui.config.settings import Settings
from grpo_tui.config.trl_fields import NoDefault
from grpo_tui.core.findings import Finding
from grpo_tui.core.statistics import is_number
from grpo_tui.preflight.advice import advice
from grpo_tui.preflight.facts import Facts
from grpo_tui.preflight.folder import folder_findings, root_of
from grpo_tui.preflight.machine import Machine, this_machine
from grpo_tui.preflight.machine_findings import (
    hardware_findings,
    launch_findings,
    port_findings,
    server_findings,
    server_note,
)
from grpo_tui.preflight.report import Preflight, in_order

RULES: tuple[Callable[[Settings], list[Finding]], ...] = (
    training_findings,
    metric_findings,
    grpo_findings,
    vllm_findings,
    lora_findings,
    nested_findings,
    value_findings,
    sharded_findings,
)
"""Rules that only need the config."""


@dataclass(frozen=True, slots=True)
class Source:
    """Config to check.

    Attributes:
        path: the config file, or without one the place that relative names start from.
        text: an editor's text, checked instead of the file.
        saved: a run's own config, checked instead of a file.
        overrides: `K=V` texts.
    """

    path: Path
    text: str | None = None
    saved: RunConfig | None = None
    overrides: tuple[str, ...] = ()

    def inspect(self, world_size: int | None) -> Inspected:
        """Parse the config as far as possible."""
        if self.saved is not None:
            return inspect_saved(self.saved, self.overrides, world_size=world_size)
        return inspect_config(self.path, self.overrides, world_size=world_size, text=self.text)


@dataclass(frozen=True, slots=True)
class Launch:
    """How a run would be started.

    Attributes:
        world_size: number of training processes, None if the launcher does not say.
        launcher: words such as `accelerate launch --num_processes 2`.
        root: run folder. `output_dir`, or else `outputs/NAME`, when None.
        resume: whether to continue a run, so that a run in the folder is no obstacle.
        gpus: GPUs as in `CUDA_VISIBLE_DEVICES`. Those of the environment when empty.
    """

    world_size: int | None = 1
    launcher: tuple[str, ...] = ()
    root: Path | None = None
    resume: bool = False
    gpus: tuple[str, ...] = ()


def static_check(source: Source, start: Launch | None = None, machine: Machine | None = None) -> Preflight:
    """Check a config without loading anything or asking a server.

    Args:
        start: one process in the default folder when None.
        machine: this machine when None.
    """
    start = start or Launch()
    inspected = source.inspect(start.world_size)
    return of_inspected(inspected, start, machine)


def of_inspected(inspected: Inspected, start: Launch, machine: Machine | None = None) -> Preflight:
    """Check a config that has been parsed; see `static_check`."""
    if not inspected.fields:
        return Preflight(None, in_order(inspected.findings), done=("static",), world_size=start.world_size)
    settings = Settings.of(inspected, start.world_size)
    env = inspected.config.env if inspected.config is not None else {}
    found = list(inspected.findings)
    found += rule_findings(settings, start, machine or this_machine(env), inspected.file)
    note = server_note(settings)
    return Preflight(
        inspected.config,
        in_order(unexplained(found)),
        advice=tuple(advice(settings, Facts(), known_steps(settings))),
        resolved=resolved_values(settings),
        notes=(note,) if note else (),
        done=("static",),
        world_size=start.world_size,
    )


def rule_findings(settings: Settings, start: Launch, machine: Machine, file: Path | None) -> list[Finding]:
    """Return the findings of rules beyond the checks of `config`."""
    # This needs `packaging`, which may be missing without TRL.
    from grpo_tui.preflight.package_versions import version_findings

    found: list[Finding] = []
    for rules in RULES:
        found += rules(settings)
    found += hardware_findings(settings, machine)
    found += version_findings(settings, machine)
    found += launch_findings(settings, start.launcher, machine)
    found += folder_findings(settings, start.root or root_of(settings, file), resume=start.resume)
    return found


def reach_findings(settings: Settings, start: Launch, machine: Machine) -> list[Finding]:
    """Return findings on servers and ports. Each may take a second, so live checks skip them."""
    return [*server_findings(settings, machine), *port_findings(settings, start.launcher, machine)]


def resolved_values(settings: Settings) -> dict[str, Any]:
    """Return the value of every TRL field, None where the default is computed at import time.

    Fields that may hold a secret are left out.
    """
    return {
        name: settings.get(name)
        for name, info in settings.fields.items()
        if info.default is not NoDefault.REQUIRED and not name.endswith("_token")
    }


def known_steps(settings: Settings) -> int | None:
    """Return the optimizer steps of the run, None unless the config sets them."""
    steps = settings.get("max_steps")
    return int(steps) if is_number(steps) and steps > 0 else None


def unexplained(findings: Iterable[Finding]) -> list[Finding]:
    """Drop findings that another finding on the same key explains better."""
    found = list(findings)
    refused = {f.field for f in found if f.id in ("config.not-installed", "config.type", "config.range")}
    return [f for f in found if not (f.field in refused and f.id in ("packages.version", "config.unused"))]
