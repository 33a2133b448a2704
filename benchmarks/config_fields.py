"""How long the core takes to have every config field with help, value and advice, and what an edit costs.

    python benchmarks/config_fields.py [--rounds N] [--config FILE]

First: in fresh processes, from the first import of the draft to all fields of a file with help, value,
origin, findings and advice; the budget, with the screen on top, is 0.5 s. Then in one process: a value set in
the form, a key typed in the text, a search, a comparison, each until all values and findings are there anew.
Beside the time on the clock stands that of the processor, which a busy machine stretches less.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

FIRST = """
import json, sys, time
started, used = time.perf_counter(), time.process_time()
from grpo_tui.config.draft import Draft
from grpo_tui.config.advice import advice_on
imported, imported_used = time.perf_counter(), time.process_time()
draft = Draft.open(sys.argv[1])
values = draft.values()
told = sum(bool(value.info.help) for value in values.values())
advised = sum(advice_on(name) is not None for name in values)
ended, ended_used = time.perf_counter(), time.process_time()
times = [(imported - started, imported_used - used), (ended - started, ended_used - used)]
print(json.dumps([*times, len(values), told, advised]))
"""


def spread(times_s: list[tuple[float, float]]) -> str:
    """Medians on the clock and of the processor, and the slowest, in milliseconds."""
    clock, processor = (statistics.median(each) * 1e3 for each in zip(*times_s, strict=True))
    return f"{clock:7.1f} ms  processor {processor:6.1f} ms  slowest {max(times_s)[0] * 1e3:.1f} ms"


def timed(action: Callable[[int], object], rounds: int) -> list[tuple[float, float]]:
    """Seconds of each round, on the clock and of the processor."""
    times = []
    for n in range(rounds):
        started, used = time.perf_counter(), time.process_time()
        action(n)
        times.append((time.perf_counter() - started, time.process_time() - used))
    return times


def main() -> None:
    """Print each figure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--config", type=Path, default=Path(__file__).parents[1] / "configs/gsm8k.yaml")
    parsed = parser.parse_args()
    first = []
    for _ in range(parsed.rounds):
        done = subprocess.run(
            [sys.executable, "-c", FIRST, parsed.config], capture_output=True, text=True, check=True
        )
        first.append(json.loads(done.stdout))
    _, _, fields, told, advised = first[0]
    print(f"{fields} fields, {told} with help, {advised} with advice, of {parsed.config.name}")
    print(f"  imports            {spread([row[0] for row in first])}")
    print(f"  all fields, fresh  {spread([row[1] for row in first])}")

    from grpo_tui.config.advice import search_fields
    from grpo_tui.config.config_diff import Side, diff
    from grpo_tui.config.draft import Draft

    draft = Draft.open(parsed.config)
    defaults = Side.defaults()

    def set_value(n: int) -> None:
        draft.set("learning_rate", (n + 2) * 1e-6)
        draft.values()

    def type_key(_: int) -> None:
        draft.replace_text(draft.text + "#")
        draft.values()

    draft.values()
    search_fields("")
    print(f"  a value set        {spread(timed(set_value, parsed.rounds))}")
    print(f"  a key typed        {spread(timed(type_key, parsed.rounds))}")
    print(f"  a search           {spread(timed(lambda _: search_fields('batch size'), parsed.rounds))}")
    print(f"  a comparison       {spread(timed(lambda _: diff(draft, defaults), parsed.rounds))}")


if __name__ == "__main__":
    main()
