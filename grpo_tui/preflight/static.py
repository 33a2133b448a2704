"""What can be said of a config at once, in milliseconds: no child process, no model, no data.

Puts together the checks of `config` and the rules about this machine and the output folder. The order of
`RULES` is that of the findings of one line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo_tui.config.resolve import Inspected, inspect_config, inspect_saved
from grpo_tui.config.rules import Settings
from grpo_tui.config.rules_grpo import grpo_findings, lora_findings
from grpo_tui.config.rules_nested import nested_findings, value_findings
from grpo_tui.config.rules_sharded import sharded_findings
from grpo_tui.config.rules_training import metric_findings, training_findings
from grpo_tui.config.rules_vllm import vllm_findings
from grpo_tui.config.run_config import RunConfig
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
"""The rules about a config alone."""


@dataclass(frozen=True, slots=True)
class Source:
    """What is checked.

    Attributes:
        path: the config file; where there is none, the place that names are looked up beside.
        text: what stands in an editor, checked in place of the file; None reads the file.
        saved: a run's own config, checked in place of a file.
        overrides: `K=V` texts.
    """

    path: Path
    text: str | None = None
    saved: RunConfig | None = None
    overrides: tuple[str, ...] = ()

    def inspect(self, world_size: int | None) -> Inspected:
        """Read it as far as it goes."""
        if self.saved is not None:
            return inspect_saved(self.saved, self.overrides, world_size=world_size)
        return inspect_config(self.path, self.overrides, world_size=world_size, text=self.text)


@dataclass(frozen=True, slots=True)
class Launch:
    """How the run would be started.

    Attributes:
        world_size: number of training processes; None when the launcher does not say.
        launcher: words such as `accelerate launch --num_processes 2`.
        root: the run folder; `output_dir`, else `outputs/NAME`, when None.
        resume: whether it goes on with a run, so that a run in the folder is no obstacle.
        gpus: those it is put on, as `CUDA_VISIBLE_DEVICES` names them; those of the environment when empty.
    """

    world_size: int | None = 1
    launcher: tuple[str, ...] = ()
    root: Path | None = None
    resume: bool = False
    gpus: tuple[str, ...] = ()


def static_check(source: Source, start: Launch | None = None, machine: Machine | None = None) -> Preflight:
    """Check a config without loading anything and without asking a server.

    Args:
        source: the file or the text.
        start: how it would be started; one process in its own folder when None.
        machine: what the machine has; this one when None.
    """
    start = start or Launch()
    inspected = source.inspect(start.world_size)
    return of_inspected(inspected, start, machine)


def of_inspected(inspected: Inspected, start: Launch, machine: Machine | None = None) -> Preflight:
    """Check a config that was read already; see `static_check`."""
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
    """Return what the rules find beyond the checks of `config`."""
    # It needs `packaging`, which an installation without TRL may lack.
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
    """Return what servers and ports say, which may take a second each; no part of a live check."""
    return [*server_findings(settings, machine), *port_findings(settings, start.launcher, machine)]


def resolved_values(settings: Settings) -> dict[str, Any]:
    """The value of every field of TRL; None where the default is computed at import time.

    What a person's secret may be is left out.
    """
    return {
        name: settings.get(name)
        for name, info in settings.fields.items()
        if info.default is not NoDefault.REQUIRED and not name.endswith("_token")
    }


def known_steps(settings: Settings) -> int | None:
    """Optimizer steps of the run as far as the config alone says."""
    steps = settings.get("max_steps")
    return int(steps) if is_number(steps) and steps > 0 else None


def unexplained(findings: Iterable[Finding]) -> list[Finding]:
    """Leave out what another finding at the same key says better."""
    found = list(findings)
    refused = {f.field for f in found if f.id in ("config.not-installed", "config.type", "config.range")}
    return [f for f in found if not (f.field in refused and f.id in ("packages.version", "config.unused"))]
