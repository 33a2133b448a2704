"""Which reward comes next: what there is, whether that works, what is missing; and write it into the file.

Judged by the probes (what each function looks at, and what fools it) and by the last score's errors, so that
a next reward is proposed only when those before it work. Functions are called by the lab alone. An existing
file is never replaced, only added to.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from grpo_tui.config.paths import split_file_source
from grpo_tui.config.run_config import RunConfig
from grpo_tui.config.section import RewardEntry
from grpo_tui.core.findings import Finding
from grpo_tui.core.text import one_line, whole_text
from grpo_tui.rewards.answer_format import find_form
from grpo_tui.rewards.checks.together import MOST
from grpo_tui.rewards.lab import Lab
from grpo_tui.rewards.probes import ProbeReport, probe
from grpo_tui.rewards.sample_sources import PROBED_ROWS, rows_with_gold
from grpo_tui.rewards.samples import SampleError
from grpo_tui.rewards.scoring import Dataset, gold_column_of
from grpo_tui.rewards.templates import (
    DEFAULT_FORM,
    WORDS_PER_TOKEN,
    Stage,
    Task,
    TemplateError,
    begun_with,
    reward_names,
    stages,
    with_stage,
)

WEIGHTS = {"correctness": 2.0, "format": 0.5, "partial": 0.5, "length": 0.2, "style": 0.2}
"""What a role is worth in the total, as long as no one knows better."""
_WORDS = {"length": ("long", "short", "length", "punish"), "style": ("repet", "style", "divers", "word")}
"""What names a reward that the probes tell nothing of."""


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do with a rewards file now.

    Attributes:
        stage: the reward to add; None when something is to be mended first, or nothing is missing.
        says: why, in one sentence.
        mend: what does not work yet, a sentence each.
        weights: the file's functions, with the weight of each to begin with.
    """

    stage: Stage | None
    says: str
    mend: tuple[str, ...] = ()
    weights: Mapping[str, float] | None = None


def advise(
    names: Sequence[str], task: Task, probed: ProbeReport | None = None, findings: Sequence[Finding] = ()
) -> Advice:
    """Return the reward that is missing beside some, or what is to be mended before it.

    Args:
        names: the rewards there are, by their names in TRL's metrics.
        probed: what the probes made of them; None while there are none.
    """
    roles = {name: _role(name, probed) for name in names}
    weights = {name: WEIGHTS.get(role, 1.0) for name, role in roles.items()}
    if mend := faults(names, probed, findings):
        return Advice(None, "First fix the rewards that are there", tuple(mend), weights)
    missing = [stage for stage in stages(task) if stage.role not in roles.values()]
    if not missing:
        return Advice(None, "Nothing to add: there is a reward of each kind", (), weights)
    if len(names) >= MOST:
        return Advice(None, f"There are {len(names)} rewards already; 3 to 5 are enough", (), weights)
    stage = missing[0]
    works = f"{one_line(names[0], 40)} works. " if len(names) == 1 else f"All {len(names)} rewards work. "
    said = f"Next: {stage.name}, weight {stage.weight:g}: {stage.says}"
    return Advice(stage, f"{works if names else ''}{said}", (), weights)


def task_for(
    prompts: Sequence[str], texts: Sequence[str], column: str | None = None, most_tokens: int | None = None
) -> Task:
    """What the template is to be written for.

    Args:
        prompts: texts of some prompts, the system prompt among them; what they ask for counts most.
        column: the dataset column with the gold answer.
        most_tokens: `max_completion_length`.
    """
    form = find_form(prompts, texts)
    known = Task()
    return Task(
        form=DEFAULT_FORM if form.style == "plain" else form,
        column=column or known.column,
        words=known.words if most_tokens is None else max(8, int(most_tokens * WORDS_PER_TOKEN)),
        asked=find_form(prompts).style != "plain",
    )


def stage_named(name: str, task: Task) -> Stage | None:
    """The reward of the template with this function name or role."""
    return next((stage for stage in stages(task) if name in (stage.name, stage.role)), None)


def faults(names: Sequence[str], probed: ProbeReport | None, findings: Sequence[Finding]) -> list[str]:
    """What keeps rewards of these names from working, a sentence each."""
    found: dict[str, list[str]] = {name: [] for name in names}
    for function in probed.functions if probed is not None else ():
        if function.failure is not None and function.info.name in found:
            found[function.info.name].append(f"fails: {one_line(function.failure.text, 200)}")
    for name, told in found.items():
        kinds = [kind for kind in (probed.kinds if probed is not None else ()) if kind.function == name]
        for fault, words in (("fooled", "is fooled by"), ("unfair", "rejects right answers:")):
            if some := [kind.kind for kind in kinds if kind.fault == fault]:
                more = f" and {len(some) - 3} more" if len(some) > 3 else ""
                told.append(f"{words} {', '.join(f'“{kind}”' for kind in some[:3])}{more}")
        looks = probed.aspects.get(name) if probed is not None else None
        if looks is not None and looks.reversed:
            told.append("scores a wrong answer above the right one")
    lines = [f"{one_line(name, 40)} {sentence}" for name, told in found.items() for sentence in told]
    errors = [f for f in findings if f.severity == "error" and f.field in found and not found[f.field]]
    return [*lines, *(one_line(finding.message, 200) for finding in errors)]


def _role(name: str, probed: ProbeReport | None) -> str:
    """What a function is for: known by its name in the template, else by what the probes show."""
    known = {stage.name: stage.role for stage in stages(Task())}
    if name in known:
        return known[name]
    looks = probed.aspects.get(name) if probed is not None else None
    if probed is not None and looks is not None and looks.answer:
        return "correctness"
    if probed is not None and looks is not None and looks.form:
        scores = next(f.scores for f in probed.functions if f.info.name == name)
        return "partial" if len({score for score in scores if score is not None}) > 2 else "format"
    return next((role for role, words in _WORDS.items() if any(w in name.lower() for w in words)), "")


def section(rewards: Sequence[RewardEntry], task: Task) -> str:
    """The `grpo_tui:` section of a config that has these rewards.

    Args:
        rewards: as they are to stand there, sources relative to the config.
        task: what they are for; a form that no prompt asks for is asked for here.
    """
    lines = ["grpo_tui:"]
    if not task.asked:
        form = task.form
        tags = [*([f"<{form.think}>", "your reasoning", f"</{form.think}>"] if form.think else []),
                f"<{form.answer}>", "the answer", f"</{form.answer}>"]  # fmt: skip
        lines += ["  system_prompt: |", *(f"    {line}" for line in ("Write exactly in this form:", *tags))]
    lines.append("  rewards:")
    for entry in rewards:
        weight = 1.0 if entry.weight is None else entry.weight
        params = f", params: {json.dumps(entry.params, ensure_ascii=False)}" if entry.params else ""
        words = f"name: {_quoted(entry.name)}, source: {_quoted(entry.source)}, weight: {weight}{params}"
        lines.append(f"    - {{{words}}}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """A text as a value in YAML's short form."""
    plain = bool(text) and all(c.isalnum() or c in "_./-:" for c in text)
    return text if plain and text[0].isalpha() and text[-1] != ":" else json.dumps(text, ensure_ascii=False)


FILE_NAME = "rewards.py"
"""How a rewards file is called when no one says otherwise."""


@dataclass(frozen=True, slots=True)
class Growth:
    """How rewards stand, and what comes next.

    Attributes:
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

    Raises:
        TemplateError: the gold column has a name that Python cannot have as a parameter.
    """
    prompts = [config.section.system_prompt or ""]
    prompts += [whole_text(row["prompt"]) for row in (dataset.rows[:PROBED_ROWS] if dataset else ())]
    column = gold_column_of(config, dataset.columns) if dataset else None
    if column is not None and not column.isidentifier():
        raise TemplateError(
            f"the answer column is called {column!r}, which cannot be a parameter name. Rename it "
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
        raise TemplateError(f"{path} already exists and was left unchanged") from None
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
