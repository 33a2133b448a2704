"""Let a rewards file grow: what it is for, whether its functions work, which comes next; and write it.

For commands and the pane alike. Functions are called by the lab alone; a file that is there is never
replaced, only added to.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from grpo_tui.config.paths import split_file_source
from grpo_tui.config.run_config import RunConfig
from grpo_tui.config.section import RewardEntry
from grpo_tui.core.findings import Finding
from grpo_tui.core.text import whole_text
from grpo_tui.rewards.lab import Lab
from grpo_tui.rewards.next_reward import Advice, advise, task_for
from grpo_tui.rewards.probing import ProbeReport, probe
from grpo_tui.rewards.samples import SampleError
from grpo_tui.rewards.scoring import Dataset, gold_column_of
from grpo_tui.rewards.sources import PROBED_ROWS, rows_with_gold
from grpo_tui.rewards.templates import (
    Stage,
    Task,
    TemplateError,
    begun_with,
    reward_names,
    stages,
    with_stage,
)

FILE_NAME = "rewards.py"
"""How a rewards file is called when nobody says otherwise."""


@dataclass(frozen=True, slots=True)
class Growth:
    """How rewards stand, and what comes next.

    Attributes:
        task: what they are for.
        advice: what to do now.
        file: the file that the next one is added to; it need not be there yet.
        probed: what the probes showed; None while there are no rewards.
    """

    task: Task
    advice: Advice
    file: Path
    probed: ProbeReport | None = None


def task_of(config: RunConfig, dataset: Dataset | None, texts: Sequence[str] = ()) -> Task:
    """What a template is to be written for.

    Args:
        config: of a run, or of functions alone.
        dataset: its first rows, None without any.
        texts: of the files of the rewards there are.

    Raises:
        TemplateError: the gold column has a name that Python cannot have as a parameter.
    """
    prompts = [config.section.system_prompt or ""]
    prompts += [whole_text(row["prompt"]) for row in (dataset.rows[:PROBED_ROWS] if dataset else ())]
    column = gold_column_of(config, dataset.columns) if dataset else None
    if column is not None and not column.isidentifier():
        raise TemplateError(
            f"the gold column is called {column!r}, which no function can take as a parameter; rename it "
            "with grpo_tui.columns: {answer: …}"
        )
    most = config.grpo.get("max_completion_length") if config.model else None
    return task_for(prompts, texts, column, most if isinstance(most, int) else None)


def growth(
    lab: Lab,
    config: RunConfig,
    dataset: Dataset | None,
    findings: Sequence[Finding] = (),
    tell: Callable[[str, str], None] | None = None,
) -> Growth:
    """Probe the rewards that the lab has loaded and say what comes next.

    Args:
        lab: with rewards loaded.
        config: the run's, for its prompts and data; or that of the functions alone.
        dataset: its rows, None for functions alone.
        findings: of the last score.
        tell: called with a function's name and what is done with it.

    Raises:
        LabError: the lab cannot score at all.
        SampleError: no column of the dataset looks like the gold answer.
        TemplateError: see `task_of`.
    """
    assert lab.config is not None
    task = task_of(config, dataset, [f.file_text for f in lab.functions if f.file_text])
    rows, column = rows_with_gold(lab, config, dataset, PROBED_ROWS)
    if not rows:
        raise SampleError("the dataset has no rows to try the rewards on")
    probed = probe(lab, rows[:PROBED_ROWS], column, made_up=dataset is None, tell=tell)
    advice = advise([f.name for f in lab.functions], task, probed, findings)
    return Growth(task, advice, file_of(lab.config), probed)


def file_of(config: RunConfig) -> Path:
    """The file that a config's next reward goes to: that of its last one, else one beside the config."""
    for entry in reversed(config.section.rewards):
        parts = split_file_source(entry.source)
        if parts is not None:
            return Path(parts[0])
    folder = config.path.parent if config.path is not None else Path(config.cwd or ".")
    return folder / FILE_NAME


def start_file(path: Path, task: Task) -> Stage:
    """Write a new rewards file with its one function.

    Raises:
        TemplateError: there is a file of this name.
        OSError: it cannot be written.
    """
    stage = stages(task)[0]
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(begun_with(stage, task, path.name))
    except FileExistsError:
        raise TemplateError(f"{path} is there already and stays as it is") from None
    return stage


def add_to_file(path: Path, stage: Stage, task: Task) -> None:
    """Add a reward at the end of a file; one that is not there is begun, one that has it stays as it is.

    Raises:
        TemplateError: the file is no Python, or has one of the names already.
        OSError: it cannot be read or written.
        UnicodeDecodeError: it is not UTF-8.
    """
    if not path.exists():
        path.write_text(begun_with(stage, task, path.name), encoding="utf-8")
        return
    with path.open(encoding="utf-8", newline="") as file:
        before = file.read()
    if stage.name in reward_names(before):
        return
    breaks = "\r\n" if "\r\n" in before else "\n"
    text = with_stage(before.replace("\r\n", "\n"), stage).replace("\n", breaks)
    _put(path.resolve(), text)


def _put(path: Path, text: str) -> None:
    """Write a file that is there whole or not at all; its permissions stay."""
    handle, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        os.chmod(beside, path.stat().st_mode & 0o7777)
        os.replace(beside, path)
    except OSError:
        os.unlink(beside)
        raise


def with_reward(config: RunConfig, file: Path, stage: Stage) -> RunConfig:
    """The config as it is with one reward more; its own file is not touched."""
    entry = RewardEntry(stage.name, f"{file.absolute()}:{stage.name}", stage.weight)
    section = replace(config.section, rewards=(*config.section.rewards, entry))
    weights = config.grpo.get("reward_weights")
    grpo = config.grpo if weights is None else {**config.grpo, "reward_weights": [*weights, stage.weight]}
    return replace(config, section=section, grpo=grpo)


def put_into_config(path: Path, file: Path, stage: Stage) -> None:
    """Name one reward more in a config; only the lines of the list change.

    Args:
        path: the config.
        file: the rewards file.
        stage: the reward.

    Raises:
        ValueError: the config cannot be read, edited or written, or has changed meanwhile.
    """
    from grpo_tui.config.draft import Draft

    draft = Draft.open(path)
    source = f"{os.path.relpath(file.absolute(), path.absolute().parent)}:{stage.name}"
    place = len(draft.get("grpo_tui.rewards") or ())
    draft.set(("grpo_tui", "rewards", place), {"name": stage.name, "source": source, "weight": stage.weight})
    weights = draft.get("reward_weights")
    if isinstance(weights, list):
        draft.set(("reward_weights", len(weights)), stage.weight)
    draft.save()
