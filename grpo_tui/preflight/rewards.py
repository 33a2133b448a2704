"""The rewards of a config on a few of its rows, with gold and wrong answers: the playground's findings.

It is given a lab. What is wrong with a reward is for `rewards.checks` to say.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from grpo_tui.config.batch import LineOf
from grpo_tui.config.run_config import RunConfig
from grpo_tui.core.findings import Finding, Fix
from grpo_tui.core.text import one_line
from grpo_tui.rewards.lab import Lab, LabError
from grpo_tui.rewards.samples import SampleError
from grpo_tui.rewards.score_report import FunctionInfo
from grpo_tui.rewards.scoring import Wish, report
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
    line_of: LineOf | None = None,
) -> RewardLook:
    """Score the gold and wrong answers of a few rows and say what the checks find.

    Args:
        config: the run's.
        lab: scores them; it stays open.
        cancel: when set, the call under way is ended and nothing is found.
        progress: called with one line on what is done.
        line_of: gives the line of a dotted key of the config.
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
            models = [info for info in lab.functions if info.kind == "model"]
            called = [info.index for info in lab.functions if info.kind != "model"]
            if not called:
                return RewardLook(tuple(_not_loaded(info, config, line_of) for info in models))
            scored = lab.score(samples, only=called, tell=wish.tell)
            found = report(lab, samples, dataset, wish, scored)
    except (LabError, SampleError) as error:
        if cancel.is_set():
            return RewardLook()
        message = f"the rewards could not be tried: {one_line(str(error), 400)}"
        key = "grpo_tui.rewards" if config.section.rewards else "reward_funcs"
        line = line_of(key) if line_of is not None else None
        return RewardLook((Finding("rewards.not-tried", "error", key, line, message),))
    results = found.scored.functions
    names = tuple(result.info.name for result in results if result.failure is None)
    infos = {result.info.name: result.info for result in results}
    skipped = {info.name for info in models}
    placed = [
        _placed(f, infos.get(f.field or ""), config, line_of)
        for f in found.findings
        if f.field not in skipped
    ]
    placed += [_not_loaded(info, config, line_of) for info in models]
    return RewardLook(tuple(placed), len(found.scored.samples), names, True)


def _not_loaded(info: FunctionInfo, config: RunConfig, line_of: LineOf | None) -> Finding:
    """A reward model is as large as a policy, and a check loads no weights."""
    key = _key_of(info, config)
    message = (
        f"the reward model {one_line(info.name, 80)} is not loaded by a check; `grpo-tui score` tries it"
    )
    return Finding("rewards.model", "info", key, line_of(key) if line_of is not None else None, message)


def _placed(
    finding: Finding, info: FunctionInfo | None, config: RunConfig, line_of: LineOf | None
) -> Finding:
    """A finding of the playground, which stands in the reward's file, as one of the config that names it."""
    fix = finding.fix
    if fix is not None and fix.field == "grpo_tui.columns" and isinstance(fix.value, dict) and fix.value:
        wanted, column = next(iter(fix.value.items()))  # beside those that are mapped already
        fix = Fix(f"grpo_tui.columns.{wanted}", column)
    key = _key_of(info, config) if info is not None else finding.field
    message = finding.message
    if info is not None and info.file is not None and finding.line is not None:
        place = f"{Path(info.file).name}:{finding.line}"
        message += f" ({place})" if place not in message else ""
    line = line_of(key) if line_of is not None and key is not None else None
    return replace(finding, field=key, line=line, message=message, fix=fix)


def _key_of(info: FunctionInfo, config: RunConfig) -> str:
    """The key that names a function: rewards stand in TRL's order, model, names, then the section."""
    index = info.index - bool(config.script.get("reward_model_name_or_path"))
    if index < 0:
        return "reward_model_name_or_path"
    named = len(config.script.get("reward_funcs") or ())
    return "reward_funcs" if index < named else f"grpo_tui.rewards.{index - named}"


@contextmanager
def _ending(lab: Lab, cancel: threading.Event) -> Iterator[None]:
    """End the lab from beside when somebody has had enough: a call under way cannot look itself."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(LOOK_S):
            if cancel.is_set():
                lab.interrupt()  # again until it is over: the child may have started since

    watcher = threading.Thread(target=watch, name="preflight-cancel", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
