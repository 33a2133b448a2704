"""The rewards of a config on a few of its rows, with gold and wrong answers: the playground's findings.

It is given a lab. What is wrong with a reward is for `rewards.checks` to say.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from grpo_tui.config.run_config import RunConfig
from grpo_tui.core.findings import Finding
from grpo_tui.core.text import one_line
from grpo_tui.rewards.lab import Lab, LabError
from grpo_tui.rewards.samples import SampleError
from grpo_tui.rewards.scoring import Report, Wish, report
from grpo_tui.rewards.sources import Origin, dataset_rows, samples_from

ROWS = 4
"""Rows whose gold and wrong answers are scored."""
LIMIT_S = 30.0
"""Seconds a single call may take before it counts as hanging."""
LOOK_S = 0.1

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class RewardLook:
    """What a look at the rewards gave.

    Attributes:
        findings: of the checks, and why the rewards could not be tried.
        scored: how many completions were scored.
        functions: names of the functions that gave scores.
        looked: whether the functions were called at all.
    """

    findings: tuple[Finding, ...] = ()
    scored: int = 0
    functions: tuple[str, ...] = field(default=())
    looked: bool = False


def look_at_rewards(
    config: RunConfig,
    lab: Lab,
    cancel: threading.Event | None = None,
    progress: Progress | None = None,
) -> RewardLook:
    """Score the gold and wrong answers of a few rows and say what the checks find.

    Args:
        config: the run's.
        lab: scores them; it stays open.
        cancel: when set, the call under way is ended and nothing is found.
        progress: called with one line on what is done.
    """
    say = progress or (lambda what: None)
    cancel = cancel or threading.Event()
    try:
        with _ending(lab, cancel):
            say("loading the rewards")
            lab.load(config)
            say("reading rows for the rewards")
            dataset = dataset_rows(lab, config, ROWS)
            samples = samples_from(lab, config, dataset, Origin("gold", ROWS))
            wish = Wish(tell=lambda name, what: say(f"{name}: {what}" if name else what))
            found = report(lab, samples, dataset, wish)
    except (LabError, SampleError) as error:
        if cancel.is_set():
            return RewardLook()
        message = f"the rewards could not be tried: {one_line(str(error), 400)}"
        return RewardLook((Finding("rewards.not-tried", "error", "grpo_tui.rewards", None, message),))
    return _of_report(found)


def _of_report(found: Report) -> RewardLook:
    names = tuple(result.info.name for result in found.scored.functions if result.failure is None)
    return RewardLook(found.findings, len(found.scored.samples), names, True)


@contextmanager
def _ending(lab: Lab, cancel: threading.Event) -> Iterator[None]:
    """End the lab from beside when somebody has had enough: a call under way cannot look itself."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(LOOK_S):
            if cancel.is_set():
                lab.interrupt()
                return

    watcher = threading.Thread(target=watch, name="preflight-cancel", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
