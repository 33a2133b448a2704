"""Checks that take milliseconds: no child process, no model, no data.

Combines the checks of `config` with the rules about this machine and the run folder. Findings on the same
line follow the order of `RULES`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo_tui.config.resolve import Inspected
from grpo_tui.config.rules_nested import nested_findings, value_findings
from grpo_tui.config.rules_sharded import sharded_findings
from grpo_tui.config.rules_training import grpo_findings, lora_findings, metric_findings, training_findings
from grpo_tui.config.rules_vllm import vllm_findings
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
class Launch:
    """How a run would be started.

    Attributes:
        launcher: words such as `accelerate launch --num_processes 2`.
        root: run folder. `output_dir`, or else `outputs/NAME`, when None.
        resume: whether to continue a run, so that a run in the folder is no obstacle.
        gpus: GPUs as in `CUDA_VISIBLE_DEVICES`. Those of the environment when empty.
    """

    launcher: tuple[str, ...] = ()
    root: Path | None = None
    resume: bool = False
    gpus: tuple[str, ...] = ()


def static_check(
    inspected: Inspected, start: Launch | None = None, machine: Machine | None = None
) -> Preflight:
    """Check a config without loading anything or asking a server.

    Args:
        start: the default folder without a launcher when None.
        machine: this machine when None.
    """
    start, settings = start or Launch(), inspected.settings
    if not settings.fields:
        return Preflight(None, in_order(inspected.findings), done=("static",), world_size=settings.world_size)
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
        world_size=settings.world_size,
    )


def rule_findings(settings: Settings, start: Launch, machine: Machine, file: Path | None) -> list[Finding]:
    """Return the findings of rules beyond the checks of `config`."""
    # This needs `packaging`, which may be missing without TRL.
    from grpo_tui.preflight.machine_findings import version_findings

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
