"""Suggest the next reward for a rewards file, and add it.

Probes show what each function looks at and what fools it. A reward is only suggested once probes and the last
score find no errors in the existing ones. Existing files are only added to, never replaced. The weights are
the usual advice for beginners: correctness weighs most, format less, length and style least.
"""

from __future__ import annotations

import ast
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
from grpo_tui.core.text import named_texts, one_line, whole_text
from grpo_tui.rewards.answer_format import Form, find_form
from grpo_tui.rewards.checks.together import MOST
from grpo_tui.rewards.lab import Lab
from grpo_tui.rewards.probes import ProbeReport, probe
from grpo_tui.rewards.sample_sources import PROBED_ROWS, rows_with_gold
from grpo_tui.rewards.samples import SampleError
from grpo_tui.rewards.scoring import Dataset, gold_column_of

DEFAULT_FORM = Form("tags", "think", "answer")
DEFAULT_WORDS = 300
"""Maximum words per completion when the config does not set a token limit."""
WORDS_PER_TOKEN = 0.75
"""Roughly, for English."""


class TemplateError(ValueError):
    """A file cannot take another reward. The message is for the user."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One reward of the template. Its role is `correctness`, `format`, `partial`, `length` or `style`."""

    role: str
    name: str
    weight: float
    says: str
    source: str


@dataclass(frozen=True, slots=True)
class Task:
    """Task that the template is written for. Unless the prompts ask for the format, a system prompt must."""

    form: Form = DEFAULT_FORM
    column: str = "answer"
    words: int = DEFAULT_WORDS
    asked: bool = False


_TEXTS = named_texts(Path(__file__).with_suffix(".txt"))


def stages(task: Task) -> tuple[Stage, ...]:
    """Return the rewards of the template, in the order in which they are added.

    The two format rewards exist only for answers between tags.
    """
    tags = _tags(task.form)
    correctness = _TEXTS["CORRECTNESS"].format(
        pattern=_pattern(task.form), column=task.column, where=_where(task.form), shown=_shown(task.form)
    )
    found = [Stage("correctness", "correctness", 2.0, "is the answer right?", correctness)]
    if task.form.style == "tags":
        whole = {
            "whole": _whole(task.form),
            "read": _read(task.form),
            "tags": _tuple(tags),
            "shown": _shown(task.form),
            "outside": "after" if task.form.think is None else "outside",
        }
        found += [
            Stage("format", "strict_format", 0.5, "does the completion match the format exactly?",
                  _TEXTS["STRICT"].format(**whole)),
            Stage("partial", "incremental_format", 0.5, "partial credit: how much of the format is there?",
                  _TEXTS["PARTIAL"].format(tags=_tuple(tags), read=_read(task.form))),
        ]  # fmt: skip
    return (
        *found,
        Stage("length", "not_too_long", 0.2, "does it end before it is truncated?",
              _TEXTS["LENGTH"].format(words=task.words)),
        Stage("style", "no_repetition", 0.2, "does it avoid repeating itself?", _TEXTS["STYLE"]),
    )  # fmt: skip


def begun_with(stage: Stage, task: Task, file: str) -> str:
    """Return the text of a new rewards file with one function."""
    return f"{_TEXTS['HEAD'].format(file=file)}\n\n{_TEXTS['TEXT_OF']}\n{stage.source}"


def with_stage(text: str, stage: Stage) -> str:
    """Return the text of a rewards file with one more function and its imports.

    Raises:
        TemplateError: the file is not valid Python, or already uses one of the names.
    """
    tree = parsed(text)
    known = _names(tree)
    new = _names(parsed(stage.source)) - {"TAGS"}
    if taken := sorted(new & known):
        raise TemplateError(f"the file has {', '.join(taken)} already, which {stage.name} would replace")
    parts = [text.rstrip("\n")]
    if "text_of" not in known:
        parts.append(_TEXTS["TEXT_OF"].rstrip("\n"))
    parts.append(stage.source.strip("\n"))
    whole = "\n\n\n".join(part for part in parts if part) + "\n"
    return _with_imports(whole, tree, known)


def parsed(text: str) -> ast.Module:
    """Parse a rewards file.

    Raises:
        TemplateError: it is not valid Python.
    """
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        at = f" in line {line}" if line else ""
        raise TemplateError(f"the file is not valid Python{at}: {getattr(error, 'msg', error)}") from error


def reward_names(text: str) -> list[str]:
    """Return the names of a file's reward functions: top-level functions that take `completions`.

    Raises:
        TemplateError: it is not valid Python.
    """
    return [
        node.name
        for node in parsed(text).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and not node.name.startswith("_")
        and "completions" in {a.arg for a in (*node.args.args, *node.args.kwonlyargs)}
    ]


def _with_imports(text: str, tree: ast.Module, known: set[str]) -> str:
    composing = [("unicodedata", "import unicodedata")] if "unicodedata." in text else []
    wanted = [("re", "import re"), *composing, ("Any", "from typing import Any")]
    missing = [line for name, line in wanted if name not in known]
    future = [n for n in tree.body if isinstance(n, ast.ImportFrom) and n.module == "__future__"]
    if not any(alias.name == "annotations" for node in future for alias in node.names):
        missing.insert(0, "from __future__ import annotations")
    if not missing:
        return text
    first = tree.body[0] if tree.body else None
    docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    after = max([first.end_lineno or 0 if docstring and first else 0, *(n.end_lineno or 0 for n in future)])
    lines = text.split("\n")
    block = [*([""] if after else []), *missing, *([] if after < len(lines) and not lines[after] else [""])]
    return "\n".join([*lines[:after], *block, *lines[after:]])


def _names(tree: ast.Module) -> set[str]:
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {name.id for t in targets for name in ast.walk(t) if isinstance(name, ast.Name)}
    return found


def _tags(form: Form) -> tuple[str, ...]:
    think = () if form.think is None else (f"<{form.think}>", f"</{form.think}>")
    return (*think, f"<{form.answer}>", f"</{form.answer}>")


def _read(form: Form) -> str:
    """Return the text that a format reward looks at, including a tag written by the chat template."""
    return f'"<{form.think}>" + text_of(completion)' if form.prefilled else "text_of(completion)"


def _tuple(tags: Sequence[str]) -> str:
    return "(" + ", ".join(f'"{tag}"' for tag in tags) + ")"


def _pattern(form: Form) -> str:
    if form.style == "boxed":
        return r"\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}"
    return r"####\s*([^\n]*)" if form.style == "hashes" else rf"<{form.answer}>(.*?)</{form.answer}>"


def _where(form: Form) -> str:
    where = {"boxed": "in \\boxed{}", "hashes": "behind `####`"}
    return where.get(form.style, f"inside `<{form.answer}>`").replace("\\", "")


def _whole(form: Form) -> str:
    answer = rf"<{form.answer}>\s*\S.*?</{form.answer}>\s*"
    if form.think is None:
        return f".*?{answer}"
    return rf"\s*<{form.think}>\s*\S.*?</{form.think}>\s*{answer}"


def _shown(form: Form) -> str:
    think = "" if form.think is None else f"<{form.think}>…</{form.think}>"
    if form.style != "tags":
        return f"`{think}{'… #### …' if form.style == 'hashes' else '… boxed …'}`"
    return f"`{think}<{form.answer}>…</{form.answer}>`"


WEIGHTS = {"correctness": 2.0, "format": 0.5, "partial": 0.5, "length": 0.2, "style": 0.2}
"""Default weight of each role in the total."""
_WORDS = {"length": ("long", "short", "length", "punish"), "style": ("repet", "style", "divers", "word")}
"""Words in the names of rewards whose role the probes cannot show."""


@dataclass(frozen=True, slots=True)
class Advice:
    """Next step for a rewards file: the reward to add, or what to `mend` first, one sentence each."""

    stage: Stage | None
    says: str
    mend: tuple[str, ...]
    weights: Mapping[str, float]


def advise(
    names: Sequence[str], task: Task, probed: ProbeReport | None = None, findings: Sequence[Finding] = ()
) -> Advice:
    """Return the reward that is missing, or the problems to fix before adding one."""
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
    """Return the task of the template. Its format is what `prompts` ask for, or else what `texts` read."""
    form = find_form(prompts, texts)
    known = Task()
    return Task(
        form=DEFAULT_FORM if form.style == "plain" else form,
        column=column or known.column,
        words=known.words if most_tokens is None else max(8, int(most_tokens * WORDS_PER_TOKEN)),
        asked=find_form(prompts).style != "plain",
    )


def stage_named(name: str, task: Task) -> Stage | None:
    """Return the template's reward with this function name or role."""
    return next((stage for stage in stages(task) if name in (stage.name, stage.role)), None)


def faults(names: Sequence[str], probed: ProbeReport | None, findings: Sequence[Finding]) -> list[str]:
    """Return what is wrong with these rewards, one sentence each."""
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
    """Return the `grpo_tui:` section of a config, with a system prompt if no prompt asks for the format."""
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
    plain = bool(text) and all(c.isalnum() or c in "_./-:" for c in text)
    return text if plain and text[0].isalpha() and text[-1] != ":" else json.dumps(text, ensure_ascii=False)


FILE_NAME = "rewards.py"


@dataclass(frozen=True, slots=True)
class Growth:
    """State of the rewards, and the next step. `file` is for the next reward and may not exist yet."""

    task: Task
    advice: Advice
    file: Path
    probed: ProbeReport | None = None


def task_of(config: RunConfig, dataset: Dataset | None, texts: Sequence[str] = ()) -> Task:
    """Return the task that a template is written for.

    Raises:
        TemplateError: the name of the answer column is not a valid parameter name.
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
    """Probe the loaded rewards and suggest the next one.

    Raises:
        LabError: scoring is not possible at all.
        SampleError: no column of the dataset looks like the reference answer.
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
    """Return the file for a config's next reward: the last reward's file, or else one beside the config."""
    for entry in reversed(config.section.rewards):
        parts = split_file_source(entry.source)
        if parts is not None:
            return Path(parts[0])
    folder = config.path.parent if config.path is not None else Path(config.cwd or ".")
    return folder / FILE_NAME


def start_file(path: Path, task: Task) -> Stage:
    """Write a new rewards file with one function.

    Raises:
        TemplateError: the file exists.
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
    """Add a reward to the end of a file, creating the file if needed. Do nothing if it has that reward.

    Raises:
        TemplateError: the file is not valid Python, or already uses one of the names.
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
    """Replace a file atomically and keep its permissions."""
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
    """Return the config with one more reward. Its file is not changed."""
    entry = RewardEntry(stage.name, f"{file.absolute()}:{stage.name}", stage.weight)
    section = replace(config.section, rewards=(*config.section.rewards, entry))
    weights = config.grpo.get("reward_weights")
    grpo = config.grpo if weights is None else {**config.grpo, "reward_weights": [*weights, stage.weight]}
    return replace(config, section=section, grpo=grpo)


def put_into_config(path: Path, file: Path, stage: Stage) -> None:
    """Add one reward to a config file, changing only the lines of the list.

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
