"""Looks at an open config from a thread: what its text means, and whether its file has changed on disk.

What is asked is put down and done in turn; of one kind only the newest counts. A second thread looks at the
file each second. Knows messages, and no widget.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from textual.message import Message

from grpo_tui.ui.config_messages import ConfigDone, ConfigEvaluated, ConfigFailed, DiskChanged

if TYPE_CHECKING:
    from grpo_tui.config.plan import ModelShape, Surroundings
    from grpo_tui.config.resolve import Inspected
    from grpo_tui.core.findings import Finding
    from grpo_tui.preflight.machine import Machine
    from grpo_tui.present.config_evaluate import Evaluation, Snapshot

LOOK_S = 1.0
"""Seconds between two looks at the file."""
ROUND = 100_000_000
"""Free bytes are rounded so, for they change all the time."""
Stamp = tuple[int, int] | None


class ConfigWorker:
    """`run` and `watch` are the bodies of two threads.

    Args:
        post: takes a message for the screen, from any thread.
    """

    def __init__(self, post: Callable[[Message], object]) -> None:
        self._post = post
        self._jobs: dict[str, Callable[[], None]] = {}
        self._changed = threading.Condition()
        self._ended = threading.Event()
        self._before: Evaluation | None = None
        self._file: Path | None = None
        self._stamp: Stamp = None
        self._machine: Machine | None = None
        self._around: Surroundings | None = None
        self._shapes: dict[str, ModelShape | None] = {}

    # -- asked by the screen; returns at once ------------------------------------------------------

    def evaluate(self, snapshot: Snapshot) -> None:
        """Look at a config as it stands now."""
        self._ask("evaluate", partial(self._evaluate, snapshot))

    def do(self, kind: str, job: Callable[[], object]) -> None:
        """Do something else in the thread; its result is posted, and why it failed."""
        self._ask(kind, partial(self._do, kind, job))

    def follow(self, file: Path | None) -> None:
        """Look at this file from now on, as it is now; None for none."""
        self._stamp = None if file is None else stamp_of(file)
        self._file = file

    def stop(self) -> None:
        """End both threads soon."""
        self._ended.set()
        with self._changed:
            self._changed.notify_all()

    # -- the threads -----------------------------------------------------------------------------

    def run(self) -> None:
        """Do what is asked until stopped."""
        while (job := self._next()) is not None:
            job()

    def watch(self) -> None:
        """Look at the file until stopped; each change is told once."""
        while not self._ended.wait(LOOK_S):
            file, known = self._file, self._stamp
            if file is None:
                continue
            now = stamp_of(file)
            if now != known and file is self._file:
                self._stamp = now
                self._post(DiskChanged(file, gone=now is None))

    def _next(self) -> Callable[[], None] | None:
        with self._changed:
            while not self._jobs and not self._ended.is_set():
                self._changed.wait()
            return None if self._ended.is_set() else self._jobs.pop(next(iter(self._jobs)))

    def _ask(self, kind: str, job: Callable[[], None]) -> None:
        with self._changed:
            self._jobs.pop(kind, None)
            self._jobs[kind] = job
            self._changed.notify_all()

    # -- in the thread ---------------------------------------------------------------------------

    def _evaluate(self, snapshot: Snapshot) -> None:
        from grpo_tui.present.config_evaluate import evaluate

        before = self._before
        known = before if before is not None and before.snapshot.path == snapshot.path else None
        judge = partial(self._judge, snapshot) if self._machine is not None else None
        self._before = evaluate(snapshot, known, judge, self._around)
        self._post(ConfigEvaluated(self._before))
        around = self._surroundings(self._before)
        if judge is None or around != self._around:  # what takes longer is shown when it is known
            self._around = around
            self._before = evaluate(snapshot, known, partial(self._judge, snapshot), around)
            self._post(ConfigEvaluated(self._before))

    def _judge(self, snapshot: Snapshot, inspected: Inspected) -> Sequence[Finding]:
        """All that can be said without loading anything."""
        from grpo_tui.preflight.static import Start, of_inspected

        return of_inspected(inspected, Start(world_size=snapshot.world_size), self._machine).findings

    def _surroundings(self, evaluation: Evaluation) -> Surroundings:
        """What the plan needs beyond the config: the model's sizes, the GPU, the disk."""
        from grpo_tui.config.plan import Device, Surroundings, read_shape
        from grpo_tui.preflight.machine import free_bytes, this_machine

        if self._machine is None:
            self._machine = this_machine()
        parts = evaluation.inspected.parts
        model = str(parts.get("ModelConfig", {}).get("model_name_or_path") or "")
        if model not in self._shapes:
            self._shapes[model] = read_shape(model)
        free = free_bytes(evaluation.snapshot.path.parent)
        gpus = [gpu for gpu in self._machine.gpus if gpu.total_bytes]
        on_cpu = parts.get("GRPOConfig", {}).get("use_cpu") is True
        device = Device(gpus[0].name, gpus[0].total_bytes or 0) if gpus and not on_cpu else None
        return Surroundings(
            world_size=evaluation.snapshot.world_size or 1,
            model=self._shapes[model],
            device=device,
            free_bytes=None if free is None else free // ROUND * ROUND,
        )

    def _do(self, kind: str, job: Callable[[], object]) -> None:
        try:
            result = job()
        except (OSError, ValueError, RuntimeError) as error:
            self._post(ConfigFailed(kind, str(error)))
        else:
            self._post(ConfigDone(kind, result))


def stamp_of(file: Path) -> Stamp:
    """What tells that a file was written: its time and size; None when it is not there."""
    try:
        status = os.stat(file)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
