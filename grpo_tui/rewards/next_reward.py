"""Which reward comes next: what there is, whether that works, and what is missing still.

Judged by the probes (what each function looks at, and what fools it) and by the last score's errors, so that
a next reward is proposed only when those before it work. Knows reports and texts; runs nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from grpo_tui.config.section import RewardEntry
from grpo_tui.core.findings import Finding
from grpo_tui.core.text import one_line
from grpo_tui.rewards.checks.together import MOST
from grpo_tui.rewards.form import find_form
from grpo_tui.rewards.probing import ProbeReport
from grpo_tui.rewards.templates import DEFAULT_FORM, WORDS_PER_TOKEN, Stage, Task, stages

WEIGHTS = {"correctness": 2.0, "format": 0.5, "partial": 0.5, "length": 0.2, "style": 0.2}
"""What a role is worth in the total, as long as nobody knows better."""
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
        task: what they are for.
        probed: what the probes made of them; None while there are none.
        findings: of the last score.
    """
    roles = {name: _role(name, probed) for name in names}
    weights = {name: WEIGHTS.get(role, 1.0) for name, role in roles.items()}
    if mend := faults(names, probed, findings):
        return Advice(None, "First make work what is there", tuple(mend), weights)
    missing = [stage for stage in stages(task) if stage.role not in roles.values()]
    if not missing:
        return Advice(None, "Nothing is missing: there is a reward of each kind", (), weights)
    if len(names) >= MOST:
        return Advice(None, f"There are {len(names)} rewards; three to five are enough", (), weights)
    stage = missing[0]
    works = f"{one_line(names[0], 40)} works. " if len(names) == 1 else f"All {len(names)} rewards work. "
    said = f"Next is {stage.name}, worth {stage.weight:g}: {stage.says}"
    return Advice(stage, f"{works if names else ''}{said}", (), weights)


def task_for(
    prompts: Sequence[str], texts: Sequence[str], column: str | None = None, most_tokens: int | None = None
) -> Task:
    """What the template is to be written for.

    Args:
        prompts: texts of some prompts, the system prompt among them; what they ask for counts most.
        texts: of the files of the rewards there are.
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
        for fault, words in (("fooled", "is fooled by"), ("unfair", "refuses right answers:")):
            if some := [kind.kind for kind in kinds if kind.fault == fault]:
                more = f" and {len(some) - 3} more" if len(some) > 3 else ""
                told.append(f"{words} {', '.join(f'“{kind}”' for kind in some[:3])}{more}")
        looks = probed.aspects.get(name) if probed is not None else None
        if looks is not None and looks.reversed:
            told.append("gives a wrong answer more than the right one")
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
