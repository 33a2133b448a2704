"""What would do well, each with its reason: never in the way of a start, and shown apart from the findings.

Knows the config, and the facts of the data where they are there.
"""

from __future__ import annotations

from collections.abc import Iterator

from grpo_tui.config.batch import generation_batch_size
from grpo_tui.config.rules import Settings
from grpo_tui.config.rules_training import save_interval
from grpo_tui.core.findings import Finding
from grpo_tui.core.statistics import is_number
from grpo_tui.preflight.facts import DataFacts, Facts

FIRST_GROUPS = (4, 8)
LONG_RUN = 200
"""Steps from which a run is long enough to lose something by a late save."""
SAVE_EVERY = 100
FEW_ROWS = 50


def advice(settings: Settings, facts: Facts, steps: int | None) -> list[Finding]:
    """Return advice, the weightiest first.

    Args:
        settings: the config.
        facts: what is known of model and data; parts may be None.
        steps: optimizer steps of the whole run, None when nobody knows.
    """
    found = list(_saving(settings, steps))
    found += _group(settings)
    if facts.data is not None and not facts.data.problem:
        found += _rows(settings, facts.data)
    return found


def _saving(s: Settings, steps: int | None) -> Iterator[Finding]:
    every = save_interval(s)
    if not steps:
        return
    if s.strategy("save_strategy") == "no":
        message = (
            f"save_strategy is no: if the run ends early, its {steps} steps are lost; `stop` "
            "saves, a crash does not"
        )
        yield s.finding("advice.save", "info", "save_strategy", message, ("save_strategy", "steps"))
    elif every is not None and every >= 1 and every > steps:
        message = (
            f"save_steps is {every:g} and the run has {steps} steps, so nothing is saved before its end; "
            "a crash would "
            "lose it all"
        )
        yield s.finding("advice.save", "info", "save_steps", message, ("save_steps", _inside(steps)))
    elif every is not None and every > SAVE_EVERY and steps > LONG_RUN:
        message = (
            f"save_steps {every:g}: on a run of {steps} steps a save every {SAVE_EVERY} loses less to a crash"
        )
        yield s.finding("advice.save", "info", "save_steps", message, ("save_steps", SAVE_EVERY))


def _inside(steps: int) -> int:
    return min(SAVE_EVERY, max(1, steps // 4))


def _group(s: Settings) -> Iterator[Finding]:
    group = s.get("num_generations")
    if is_number(group) and group > max(FIRST_GROUPS):
        batch = generation_batch_size(s.get, s.world_size or 1)
        whole = next((first for first in reversed(FIRST_GROUPS) if batch % first == 0), None)
        message = (
            f"num_generations is {group}: begin with 4 or 8, so that the same batch holds more prompts, and "
            "scale up once the reward rises"
        )
        fix = ("num_generations", whole) if whole is not None else None
        yield s.finding("advice.group", "info", "num_generations", message, fix)


def _rows(s: Settings, data: DataFacts) -> Iterator[Finding]:
    rows = data.train_rows
    if rows is not None and 0 < rows < FEW_ROWS:
        message = f"{rows} rows are few: the model sees each again and again and learns them by heart"
        yield s.finding("advice.rows", "info", "dataset_name", message)
