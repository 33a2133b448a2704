"""Run grpo-tui, and have its main thread note each key and each picture: a benchmark's way into it.

    KEYED_INTO=FILE python benchmarks/_keyed.py attach RUN

Appends a JSON line for every key that arrives and every picture that is sent: the time on the clock, the
main thread's processor time, and counts of work by then. No part of the product.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import time
from collections import Counter
from typing import Any

from textual import events
from textual._compositor import Compositor
from textual.app import App
from textual.css.stylesheet import Stylesheet

from grpo_tui.ui.textual_private import PatientDriver

OUT = open(os.environ["KEYED_INTO"], "a", buffering=1, encoding="utf-8")  # noqa: SIM115 - as long as the process
COUNTS: Counter[str] = Counter()


def note(what: str) -> None:
    """Write one line."""
    line = {"what": what, "clock_s": time.perf_counter(), "cpu_s": time.thread_time(), **COUNTS}
    OUT.write(json.dumps(line) + "\n")


def count(of: type, method: str, name: str) -> None:
    """Count the calls of a method."""
    own = getattr(of, method)

    def counted(self: Any, *args: Any, **keywords: Any) -> Any:
        COUNTS[name] += 1
        return own(self, *args, **keywords)

    setattr(of, method, counted)


def watch() -> None:
    """Note keys and pictures from now on."""
    take, show, send = App.on_event, App._display, PatientDriver._put

    async def on_event(self: Any, event: Any) -> None:
        if isinstance(event, events.Key) and not event.is_forwarded:
            note("key")
        await take(self, event)

    def display(self: Any, screen: Any, picture: Any) -> None:
        show(self, screen, picture)
        if picture is not None and not self._batch_count:
            note("picture")

    def put(self: Any, data: str | None) -> None:
        COUNTS["bytes"] += len(data or "")
        send(self, data)

    App.on_event, App._display, PatientDriver._put = on_event, display, put  # type: ignore[method-assign]
    COUNTS.update(styled=0, laid_out=0, bytes=0)
    count(Stylesheet, "apply", "styled")
    count(Compositor, "reflow", "laid_out")


if __name__ == "__main__":
    watch()
    sys.argv = ["grpo-tui", *sys.argv[1:]]
    runpy.run_module("grpo_tui", run_name="__main__")
