"""What is said of every way in which a training process can end without a word, whole."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import replace
from itertools import product

from grpo_tui.store.live import RankState
from grpo_tui.supervisor.last_word import verdict

CODES = (None, 0, 1, 137, -200, *(-number for number in sorted(signal.Signals) if number < 32))
LAST = RankState(rank=0, pid=7, started=None, phase="generate")
DOING = (
    None, *(replace(LAST, phase=phase) for phase in ("load", "generate", "reward", "update", "save",
    "eval", "wait", "x")),
    replace(LAST, phase="reward", reward_function="judge"),
)  # fmt: skip


def test_what_is_said_of_an_end_is_what_is_stored(stored: Callable[[str, str], None]) -> None:
    told = []
    ways = [*product(CODES, [False], [False]), *product((None, 0, 1, -9, -15), (False, True), (False, True))]
    for code, starved, launched in ways:
        state, error = verdict(code, LAST, starved=starved, launched=launched)
        told.append(f"{code} starved {starved} launched {launched}: {state} {error}")
    told += [
        f"{last and (last.phase, last.reward_function)}: {verdict(None, last, log='a.log')}" for last in DOING
    ]
    stored("verdicts", "\n".join(told) + "\n")
