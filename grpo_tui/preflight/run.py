"""`check`: run every part of the preflight, cheapest first, and report each as soon as it is known.

Results for model, data and rewards take seconds, so they are remembered until the config or a file that it
names changes. Calls block, so a screen makes them from a thread.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from grpo_tui.config.plan.making import Plan
from grpo_tui.config.resolve import Inspected, inspect_stage, of_stage
from grpo_tui.config.run_config import RunConfig, stamps_of
from grpo_tui.config.settings import Settings
from grpo_tui.core.closing import Closing
from grpo_tui.core.findings import Finding, errors_of
from grpo_tui.preflight.advice import advice, checklist
from grpo_tui.preflight.checker import CheckCancelledError, Checked, Checker
from grpo_tui.preflight.facts import Facts
from grpo_tui.preflight.folder import root_of
from grpo_tui.preflight.machine import Machine, this_machine
from grpo_tui.preflight.model_findings import facts_findings
from grpo_tui.preflight.planning import plan_findings, plan_of
from grpo_tui.preflight.report import PARTS, Part, Preflight, in_order
from grpo_tui.preflight.rewards import LIMIT_S, RewardLook, look_at_rewards
from grpo_tui.preflight.static import Launch, known_steps, reach_findings, static_check, unexplained
from grpo_tui.rewards.consent import NOT_RUN
from grpo_tui.rewards.lab import Lab

Tell = Callable[[Preflight], None]
"""Called with everything known so far, after each part."""
Progress = Callable[[str], None]
"""Called with one line for each new stage."""

WAIT_S = 0.1
LOADING: tuple[Part, ...] = ("model", "data", "rewards")
"""Parts that start a process."""
QUICK: tuple[Part, ...] = ("static", "plan")


def check(
    inspected: Inspected,
    start: Launch | None = None,
    *,
    tell: Tell | None = None,
    progress: Progress | None = None,
    cancel: threading.Event | None = None,
    parts: Sequence[Part] = PARTS,
    machine: Machine | None = None,
    memory: Memory | None = None,
    children: Children | None = None,
) -> Preflight:
    """Check a config before it starts, and each of its stages.

    Args:
        tell: called after each part with everything known, from this thread or a part's own.
        cancel: setting it skips the rest.
        machine: this machine when None.
        memory: results of earlier checks, used where nothing has changed.
        children: processes that the caller keeps for the next check and closes. When None, they end with this
            call.

    Returns:
        All results, or those so far if cancelled.
    """
    with ExitStack() as ending:
        kept = children or ending.enter_context(Children())
        more: dict[str, Any] = {"progress": progress, "cancel": cancel, "parts": parts, "machine": machine}
        more |= {"memory": memory or Memory(), "children": kept}
        found = _check(inspected, start, tell=tell, **more)
        settings, config = inspected.settings, inspected.config
        for place, stage in enumerate(settings.section.stages):
            if config is None or (cancel is not None and cancel.is_set()):
                break
            one = _check(inspect_stage(config, place, world_size=settings.world_size), start, **more)
            own = of_stage(one.findings, found.findings, settings.document, place, stage)
            found = replace(found, findings=in_order([*found.findings, *own]))
            if tell is not None:
                tell(found)
        return found


def _check(
    inspected: Inspected,
    start: Launch | None,
    *,
    tell: Tell | None = None,
    progress: Progress | None,
    cancel: threading.Event | None,
    parts: Sequence[Part],
    machine: Machine | None,
    memory: Memory,
    children: Children,
) -> Preflight:
    start = start or Launch()
    env = dict(inspected.config.env) if inspected.config is not None else {}
    if start.gpus:
        env["CUDA_VISIBLE_DEVICES"] = ",".join(start.gpus)
    machine = machine or this_machine(env)
    first, settings = static_check(inspected, start, machine), inspected.settings
    if not settings.fields:
        return first
    root = start.root or root_of(settings, inspected.file)
    tell, cancel = tell or (lambda so_far: None), cancel or threading.Event()
    held = (tuple(parts), tell, progress, cancel, memory, children)
    flight = _Flight(first, settings, start, machine, root, *held)
    flight.say()
    flight.reached = tuple(reach_findings(settings, start, machine))
    flight.say()
    if inspected.config is not None and any(part in LOADING for part in parts):
        _load(flight, inspected.config)
    return flight.result()


class Children(Closing):
    """Processes for data and rewards, started when first needed; a context manager."""

    def __init__(self) -> None:
        self.checker: Checker | None = None
        self.lab: Lab | None = None

    def close(self) -> None:
        """End both processes."""
        held, self.checker, self.lab = (self.checker, self.lab), None, None
        for one in filter(None, held):
            one.close()


@dataclass(slots=True)
class _Flight:
    first: Preflight
    settings: Settings
    start: Launch
    machine: Machine
    root: Path
    parts: tuple[Part, ...]
    tell: Tell
    progress: Progress | None
    cancel: threading.Event
    memory: Memory
    children: Children
    reached: tuple[Finding, ...] = ()
    facts: Facts = field(default_factory=Facts)
    checked: tuple[Finding, ...] = ()
    rewards: RewardLook | None = None
    done: list[Part] = field(default_factory=lambda: ["static"])
    made: tuple[Facts, Plan] | None = None
    trouble: Exception | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def say(self) -> None:
        """Report everything known so far. Parts call this from their own threads."""
        with self.lock:
            self.tell(self.result())

    def result(self) -> Preflight:
        """Return everything known so far."""
        made = self._plan()
        found = [*self.first.findings, *self.reached, *self.checked]
        found += facts_findings(self.settings, self.facts)
        tips: list[Finding] = []
        if self.rewards is not None:
            said = _unsaid(self.rewards.findings, found)
            found += [f for f in said if f.severity != "info"]
            tips = [f for f in said if f.severity == "info"]
        if made is not None:
            found += plan_findings(self.settings, made)
        ordered = in_order(unexplained(found))
        steps = made.steps.total if made is not None else known_steps(self.settings)
        done = [part for part in PARTS if part in self.done or (part == "plan" and made is not None)]
        return replace(
            self.first,
            findings=ordered,
            advice=(*advice(self.settings, self.facts, steps), *tips),
            plan=made.to_json() if made is not None else None,
            checklist=checklist(self.settings, ordered, self.facts, self.rewards, made),
            facts=self.facts,
            done=tuple(done),
        )

    def _plan(self) -> Plan | None:
        if self.first.config is None or "plan" not in self.parts:
            return None
        refused = {f.id for f in errors_of(self.first.findings)}
        if any(name.startswith("batch.") for name in refused):
            return None  # conflicting sizes cannot be planned
        if self.made is None or self.made[0] is not self.facts:
            launcher = self.start.launcher
            made = plan_of(self.settings, self.facts, self.machine, self.root, launcher=launcher)
            self.made = (self.facts, made)
        return self.made[1]


def _unsaid(found: Sequence[Finding], before: Sequence[Finding]) -> list[Finding]:
    """Drop rewards that could not be tried if an error in config or data already explains it."""
    cause = ("data.", "checker.", "config.weights", "config.conflict")
    known = any(f.id.startswith(cause) for f in errors_of(before))
    return [f for f in found if not (known and f.id == "rewards.not-tried")]


def _load(flight: _Flight, config: RunConfig) -> None:
    """Check model, data and rewards in parallel processes."""
    memory, cancel, children = flight.memory, flight.cancel, flight.children
    key = memory.key(config, flight.settings.world_size)
    known = memory.rewards.get(key)
    beside: threading.Thread | None = None
    if "rewards" in flight.parts and known is not None:
        flight.rewards = known
        flight.done.append("rewards")
    elif "rewards" in flight.parts:
        lab = children.lab = children.lab or Lab(limit_s=LIMIT_S)
        beside = threading.Thread(target=_rewards, args=(flight, config, lab, key), daemon=True)
        beside.start()
    try:
        if "model" in flight.parts or "data" in flight.parts:
            _facts(flight, config, key)
        while beside is not None and beside.is_alive() and not cancel.is_set():
            beside.join(WAIT_S)
    except BaseException:
        cancel.set()
        raise
    finally:
        if cancel.is_set() and beside is not None and beside.is_alive():
            children.lab = None  # it may still be starting; its thread closes it
    if flight.trouble is not None:
        raise flight.trouble


def _rewards(flight: _Flight, config: RunConfig, lab: Lab, key: str) -> None:
    """Try the rewards. Runs in a separate thread, and closes `lab` if the check was cancelled."""
    try:
        found = look_at_rewards(config, flight.settings, lab, flight.cancel, flight.progress)
        if flight.cancel.is_set():
            return
        if found.looked:
            keep(flight.memory.rewards, key, found)
        flight.rewards = found
        flight.done.append("rewards")
        flight.say()
    except Exception as error:  # re-raised by the waiting thread
        flight.trouble = error
    finally:
        if flight.cancel.is_set():
            lab.close()


def _facts(flight: _Flight, config: RunConfig, key: str) -> None:
    known = flight.memory.checked.get(key)
    if known is None:
        wanted = (["data"] if "data" in flight.parts else []) + ["model", "tokenizer"]

        def take(checked: Checked) -> None:
            flight.facts, flight.checked = checked.facts, checked.findings
            flight.say()

        checker = flight.children.checker = flight.children.checker or Checker()
        checker.listen(flight.progress, flight.cancel)
        try:
            known = checker.check(config, settings=flight.settings, parts=wanted, tell=take)
        except CheckCancelledError:
            return
        if not any(f.id in ("checker.failed", NOT_RUN) for f in known.findings):
            keep(flight.memory.checked, key, known)
    flight.facts, flight.checked = known.facts, known.findings
    flight.done += [part for part in ("model", "data") if part in flight.parts]
    flight.say()


MOST = 8
"""Number of configs to remember. The oldest is dropped first."""


class Memory:
    """Results by config and file stamps. Not thread-safe."""

    def __init__(self) -> None:
        self.checked: dict[str, Checked] = {}
        self.rewards: dict[str, RewardLook] = {}

    def key(self, config: RunConfig, world_size: int | None) -> str:
        """Return a hash of a config and the state of all files that it names."""
        body = config.to_json()
        for name in ("findings", "raw"):
            body.pop(name)
        text = json.dumps([body, world_size, stamps_of(config)], sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()


def keep(known: dict[str, Any], key: str, found: Any) -> None:
    """Store a result, and drop the oldest if there are too many."""
    known[key] = found
    if len(known) > MOST:
        del known[next(iter(known))]
