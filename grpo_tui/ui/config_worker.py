"""Evaluate the open config in a thread, and watch its file for changes.

Jobs run one after another; only the newest of each kind counts. A second thread checks the file every second.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual.message import Message

from grpo_tui.config.run_config import GONE, Stamp, stamp
from grpo_tui.core.text import one_line
from grpo_tui.ui.kit.jobs import Jobs
from grpo_tui.ui.messages import ConfigEvaluated, DiskChanged

if TYPE_CHECKING:
    from grpo_tui.config.plan.making import Plan
    from grpo_tui.config.plan.memory import Device
    from grpo_tui.config.plan.model import ModelShape
    from grpo_tui.config.plan.time import Rate
    from grpo_tui.config.resolve import Inspected
    from grpo_tui.core.findings import Finding
    from grpo_tui.preflight.machine import Machine
    from grpo_tui.preflight.report import Preflight
    from grpo_tui.preflight.run import Children, Memory
    from grpo_tui.present.config_view import OpenConfig, Snapshot


class ConfigCheck:
    """The full check, one at a time. Call `run` in a thread.

    Findings are cached until the config or a file it names changes. The checking processes are kept as well.
    """

    def __init__(self) -> None:
        self._cancel = threading.Event()
        self._closed = False
        self._turn = threading.Lock()
        self._memory: Memory | None = None
        self._children: Children | None = None

    def run(
        self,
        snapshot: Snapshot,
        root: Path | None,
        say: Callable[[str], Any],
        tell: Callable[[Preflight], Any],
    ) -> tuple[Preflight, bool] | str:
        """Check a config. Return the results and whether they are complete, or why there are none.

        Args:
            snapshot: The config.
            root: The run folder, if the user named one.
            say: Takes progress as one line, in this thread.
            tell: Takes the results so far, in this thread.
        """
        from grpo_tui.preflight.run import Children, Memory, check
        from grpo_tui.preflight.static import Launch
        from grpo_tui.present.config_evaluate import launcher_of, read

        with self._turn:
            if self._closed:
                return "the screen was closed"
            self._cancel.clear()
            self._memory = self._memory or Memory()
            self._children = self._children or Children()
            try:
                inspected = read(snapshot).inspected
                found = check(
                    inspected,
                    Launch(launcher_of(snapshot, inspected.settings.section), root),
                    tell=tell,
                    progress=lambda line: say(one_line(line, 100)),
                    cancel=self._cancel,
                    memory=self._memory,
                    children=self._children,
                )
                return found, not self._cancel.is_set()
            except (OSError, ValueError, RuntimeError) as error:
                self._children.close()
                return one_line(str(error), 300)

    @property
    def cancelled(self) -> bool:
        return self._cancel.is_set()

    def cancel(self) -> None:
        self._cancel.set()

    def close(self) -> None:
        self._closed = True
        self._cancel.set()
        with self._turn:
            if self._children is not None:
                self._children.close()
                self._children = None


LOOK_S = 1.0


class ConfigWorker:
    """Evaluates configs. Call `run` and `watch` in two threads; both call `post`.

    `roots` are folders whose runs show how fast this machine is.
    """

    def __init__(self, post: Callable[[Message], object], roots: Sequence[Path] = ()) -> None:
        self._post, self._roots = post, roots
        self._jobs: Jobs[Snapshot] = Jobs()
        self._before: OpenConfig | None = None
        self._followed: tuple[Path | None, Stamp] = (None, GONE)
        """The file and its last known state. Replaced as one tuple, because both threads use it."""
        self.machine: Machine | None = None
        self._shapes: dict[str, ModelShape | None] = {}
        self._rates: dict[str, tuple[Rate, ...]] = {}
        self.run_dir: Path | None = None
        """Run folder, if the user named one."""
        self.open_run: Path | None = None
        """The run that was started with this config and is open."""
        self.device: Device | None = None
        """The device the run should fit on; None for what it would use on this machine."""
        self.checked: tuple[str, Preflight] | None = None
        """The text last checked in full, and the result."""

    # -- called by the screen; returns at once -----------------------------------------------------

    def evaluate(self, snapshot: Snapshot) -> None:
        self._jobs.ask("evaluate", snapshot)

    def follow(self, file: Path | None) -> None:
        """Watch this file for changes from its current state; None for no file."""
        self._followed = (file, GONE if file is None else stamp(file))

    def stop(self) -> None:
        self._jobs.stop()

    # -- the threads -----------------------------------------------------------------------------

    def run(self) -> None:
        """Evaluate configs until stopped. TRL's fields are read first."""
        from grpo_tui.present.config_evaluate import read_fields

        read_fields()
        while (snapshot := self._jobs.next()) is not None:
            self._evaluate(snapshot)

    def watch(self) -> None:
        """Watch the file until stopped. Each change is posted once."""
        while not self._jobs.stopped.wait(LOOK_S):
            followed = self._followed
            file, known = followed
            if file is None or (now := stamp(file)) == known:
                continue
            if self._followed is followed:
                self._followed = (file, now)
                self._post(DiskChanged(file, gone=now == GONE))

    # -- in the worker thread --------------------------------------------------------------------

    def _evaluate(self, snapshot: Snapshot) -> None:
        """Post the fields first. GPUs, model size and earlier runs take longer and follow when known."""
        from grpo_tui.present.config_evaluate import evaluate

        before = self._before
        known = before if before is not None and before.snapshot.path == snapshot.path else None
        if self.machine is None:
            self._look_around(self._show(evaluate(snapshot, known)))
        if self._look_around(self._show(evaluate(snapshot, known, self._judge, self._plan))):
            self._show(evaluate(snapshot, known, self._judge, self._plan))

    def _show(self, found: OpenConfig) -> OpenConfig:
        self._before = found
        self._post(ConfigEvaluated(found))
        return found

    def _look_around(self, state: OpenConfig) -> bool:
        """Collect what the plan needs to know. Return whether that included anything new about the model."""
        from grpo_tui.config.plan.model import read_shape
        from grpo_tui.preflight.machine import this_machine
        from grpo_tui.present.known_rates import known_rates

        if self.machine is None:
            self.machine = this_machine()
        model = state.inspected.settings.model
        if not model or model in self._shapes:
            return False
        self._shapes[model] = read_shape(model)
        self._rates[model] = known_rates(self._roots, model)
        return True

    def _judge(self, snapshot: Snapshot, inspected: Inspected) -> Sequence[Finding]:
        """Return findings that need nothing loaded, or those of a full check of the same text."""
        from grpo_tui.preflight.static import Launch, static_check
        from grpo_tui.present.config_evaluate import launcher_of, start_beside

        if self.checked is not None and self.checked[0] == snapshot.text:
            return start_beside(self.checked[1].findings)
        start = Launch(launcher_of(snapshot, inspected.settings.section), self.run_dir)
        return start_beside(static_check(inspected, start, self.machine).findings)

    def _plan(self, snapshot: Snapshot, inspected: Inspected) -> Plan | None:
        """Plan the run on this machine, using counts from a full check if there was one."""
        from grpo_tui.config.plan.model import read_shape
        from grpo_tui.preflight.facts import Facts
        from grpo_tui.preflight.folder import root_of
        from grpo_tui.preflight.planning import plan_of
        from grpo_tui.present.config_evaluate import launcher_of, plan_of_parts

        settings, machine = inspected.settings, self.machine
        model = settings.model
        if machine is None:
            return None
        if inspected.config is None:
            return plan_of_parts(inspected, self._shapes.get(model) or read_shape(model), self.device)
        facts = self.checked[1].facts if self.checked is not None else Facts()
        same_model = facts.model is not None and facts.model.where.name == model
        return plan_of(
            settings,
            facts if same_model else replace(facts, model=None),
            machine,
            self.run_dir or root_of(settings, snapshot.path),
            launcher=launcher_of(snapshot, settings.section),
            shape=None if same_model else self._shapes.get(model),
            rates=self._rates.get(model, ()),
            device=self.device,
            run=self.open_run,
        )
