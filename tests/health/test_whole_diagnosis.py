"""What all rules say of each run, whole: steps, numbers and remedies."""

from __future__ import annotations

from collections.abc import Callable

from tests.health.test_limits import RUNS, SCENES
from tests.stable import as_lines, stable


def test_what_the_rules_say_of_a_run_is_what_is_stored(stored: Callable[[str, str], None]) -> None:
    scenes = {**SCENES, **{f"run {number}": run for number, run in enumerate(RUNS)}}
    told = [
        f"{name}\n" + "".join(f"{as_lines(found.to_alert())}\n" for found in scene.judged(None))
        for name, scene in scenes.items()
    ]
    stored("diagnoses", stable("\n".join(told)))
