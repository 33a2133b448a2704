"""Try the rewards of a config on reference and wrong answers of one row or a few.

The answer of one row is written in every common format, and each function is shown the one in which it
distinguishes right from wrong best.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from grpo_tui.config.paths import split_file_source
from grpo_tui.config.run_config import RunConfig
from grpo_tui.config.settings import Settings
from grpo_tui.config.trl_fields import TRL_NAMES
from grpo_tui.core.findings import Finding, Fix
from grpo_tui.core.text import one_line
from grpo_tui.preflight.facts import RowView
from grpo_tui.rewards.answer_format import GoldForm, forms_for
from grpo_tui.rewards.consent import NOT_RUN, ConsentError, not_run
from grpo_tui.rewards.lab import Lab, LabError
from grpo_tui.rewards.sample_sources import Origin, dataset_rows, samples_from
from grpo_tui.rewards.samples import SampleError, gold_and_wrong
from grpo_tui.rewards.score_report import FunctionInfo, FunctionScore
from grpo_tui.rewards.scoring import ScoreOptions, report


@dataclass(frozen=True, slots=True)
class GoldReward:
    """Scores of one function.

    Attributes:
        right: score of the reference answer, or None.
        wrong: score of a wrong answer, or None.
        failure: why it has no scores, or empty.
        skipped: why it was not called, or empty.
    """

    name: str
    weight: float
    right: float | None
    wrong: float | None
    form: str
    failure: str = ""
    skipped: str = ""


def gold_rewards(lab: Lab, row: RowView) -> tuple[GoldReward, ...]:
    """Score the reference answer of a row with the loaded rewards. Empty when the row has none.

    Raises:
        LabError: scoring is not possible at all. A single failing function does not raise.
    """
    if row.prompt is None or not row.answer_column or lab.config is None:
        return ()
    forms = forms_for(lab.config.section.system_prompt)
    samples = gold_and_wrong([{"prompt": row.prompt, "columns": row.columns}], forms, row.answer_column)
    if not samples:
        return ()
    asked = [info.index for info in lab.functions if info.kind != "model"]
    if not asked:
        return tuple(_unasked(info) for info in lab.functions)
    scored = lab.score(samples, only=asked, repeat_limit_s=0.0)
    return tuple(_best(result, forms) for result in scored.functions)


def _unasked(info: FunctionInfo) -> GoldReward:
    skipped = "a reward model, which is not loaded for a look"
    return GoldReward(info.name, info.weight, None, None, "", skipped=skipped)


def _best(result: FunctionScore, forms: tuple[GoldForm, ...]) -> GoldReward:
    """Return the format with the largest difference, then the highest score. Samples come in pairs."""
    if result.info.kind == "model":
        return _unasked(result.info)
    name, weight = result.info.name, result.info.weight
    if result.failure is not None:
        return GoldReward(name, weight, None, None, "", result.failure.text)
    names = [form.name for form in forms]
    pairs = list(zip(names, result.scores[::2], result.scores[1::2], strict=True))

    def worth(pair: tuple[str, float | None, float | None]) -> tuple[float, float]:
        _, right, wrong = pair
        low = float("-inf")
        return (low, low) if right is None else (right - (wrong or 0.0), right)

    form, right, wrong = max(pairs, key=worth)
    return GoldReward(name, weight, right, wrong, form)


ROWS = 4
LIMIT_S = 30.0
LOOK_S = 0.1

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class RewardLook:
    """Result of trying the rewards.

    Attributes:
        findings: of the checks, or why the rewards could not be tried.
        scored: number of scored completions.
        looked: whether the functions were called at all.
    """

    findings: tuple[Finding, ...] = ()
    scored: int = 0
    functions: tuple[str, ...] = field(default=())
    looked: bool = False


def look_at_rewards(
    config: RunConfig,
    settings: Settings,
    lab: Lab,
    cancel: threading.Event,
    progress: Progress | None = None,
) -> RewardLook:
    """Score reference and wrong answers of a few rows, and return the findings.

    Args:
        settings: the same config with line numbers.
        lab: stays open.
        cancel: setting it ends the running call, without findings.
        progress: called with one line for each new stage.
    """
    say = progress or (lambda what: None)
    kept, keys, models = split_models(config)
    left_out = tuple(_left_out(settings, key, name) for key, name in models)
    if not keys:
        return RewardLook(left_out)
    key = "grpo_tui.rewards" if config.section.rewards else "reward_funcs"
    try:
        with _ending(lab, cancel):
            say("loading the rewards")
            lab.load(kept)
            say("reading rows for the rewards")
            dataset = dataset_rows(lab, kept, ROWS)
            samples = samples_from(lab, kept, dataset, Origin("gold", ROWS))
            options = ScoreOptions(tell=lambda name, what: say(f"{name}: {what}" if name else what))
            found = report(lab, samples, dataset, options)
    except ConsentError as error:
        what = not_run("what the rewards give", error.codes)
        return RewardLook((settings.error(NOT_RUN, key, what), *left_out))
    except (LabError, SampleError) as error:
        if cancel.is_set():
            return RewardLook()
        message = f"the rewards could not be tried: {one_line(str(error), 400)}"
        return RewardLook((settings.error("rewards.not-tried", key, message), *left_out))
    results = found.scored.functions
    names = tuple(result.info.name for result in results if result.failure is None)
    infos = {result.info.name: result.info for result in results}
    placed = [_placed(settings, f, infos.get(f.field or ""), keys) for f in found.findings]
    return RewardLook((*placed, *left_out), len(found.scored.samples), names, True)


def split_models(config: RunConfig) -> tuple[RunConfig, list[str], list[tuple[str, str]]]:
    """Separate reward models, which may be as large as the policy, from a config's functions.

    Returns:
        The config with only its functions, the key of each function, and key and name of each model.
    """
    keys, models, weights = [], [], []
    given = config.grpo.get("reward_weights")
    model = config.script.get("reward_model_name_or_path")
    named = [("reward_model_name_or_path", str(model), True)] if model else []
    named += [("reward_funcs", str(name), False) for name in config.script.get("reward_funcs") or ()]
    named += [
        (f"grpo_tui.rewards.{i}", entry.source, names_model(entry.source))
        for i, entry in enumerate(config.section.rewards)
    ]
    for index, (key, source, is_model) in enumerate(named):
        if is_model:
            models.append((key, source.rstrip("/").rpartition("/")[2]))
            continue
        keys.append(key)
        if given is not None and index < len(given):
            weights.append(given[index])
    entries = tuple(e for e in config.section.rewards if not names_model(e.source))
    grpo = config.grpo if given is None else {**config.grpo, "reward_weights": weights}
    script = {name: value for name, value in config.script.items() if name != "reward_model_name_or_path"}
    kept = replace(config, grpo=grpo, script=script, section=replace(config.section, rewards=entries))
    return kept, keys, models


def names_model(source: str) -> bool:
    """Return whether a source is a reward model: a folder or a Hub name, and not code."""
    code = split_file_source(source) is not None or source in TRL_NAMES or ":" in source
    dotted = "/" not in source and "." in source
    return not code and not dotted and ("/" in source or os.path.isdir(source))


def _left_out(settings: Settings, key: str, name: str) -> Finding:
    message = f"the reward model {one_line(name, 80)} is not loaded by a check; `grpo-tui score` tries it"
    return settings.info("rewards.model", key, message)


def _placed(settings: Settings, finding: Finding, info: FunctionInfo | None, keys: Sequence[str]) -> Finding:
    """Move a finding from the line in the reward's file to the config key that names the reward."""
    fix = finding.fix
    if fix is not None and fix.field == "grpo_tui.columns" and isinstance(fix.value, dict) and fix.value:
        wanted, column = next(iter(fix.value.items()))  # keep the existing mappings
        fix = Fix(f"grpo_tui.columns.{wanted}", column)
    key = keys[info.index] if info is not None else finding.field
    message = finding.message
    if info is not None and info.file is not None and finding.line is not None:
        place = f"{Path(info.file).name}:{finding.line}"
        message += f" ({place})" if place not in message else ""
    line = settings.line(key) if key is not None else None
    return replace(finding, field=key, line=line, message=message, fix=fix)


@contextmanager
def _ending(lab: Lab, cancel: threading.Event) -> Iterator[None]:
    """Interrupt scoring from another thread when the user cancels, because a running call cannot check."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(LOOK_S):
            if cancel.is_set():
                lab.interrupt()  # repeatedly, as a new child may have started

    watcher = threading.Thread(target=watch, name="preflight-cancel", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
