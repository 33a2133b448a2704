"""Run the probes of some rows through the lab and say who is fooled, for commands and panes.

Rows come from the dataset, or are made up where a function is tried alone. It shows nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from grpo_tui.core.text import prompt_text, whole_text
from grpo_tui.rewards.form import Form, find_form
from grpo_tui.rewards.gold_forms import GOLD_COLUMNS, gold_column, short_answer, wrong_answers
from grpo_tui.rewards.lab import Lab
from grpo_tui.rewards.probe_report import Aspect, KindReport, Verdict, aspect, by_kind, judge
from grpo_tui.rewards.probes import Probe, ProbeRow, make_probes
from grpo_tui.rewards.samples import Sample
from grpo_tui.rewards.score_report import FunctionScore, Scored

TOTAL = "total"
_OTHER_FORM = ("TypeError", "AttributeError", "KeyError", "IndexError")
"""What code raises that takes messages for texts."""
MADE_UP = (
    ("What is 17 + 25?", "42"),
    ("A shop sells 1,250 tickets at 2 dollars each. What does it take in, in dollars?", "2500"),
    ("What is half of 7? Give a decimal number.", "3.5"),
)
"""Questions and answers for functions that are tried without a dataset."""


@dataclass(frozen=True, slots=True)
class ProbeReport:
    """What the probes showed.

    Attributes:
        form: the form the completions were written in.
        rows: how many rows there were.
        probes: how many completions were scored.
        functions: what the lab says of each function.
        aspects: by the name of each function that scored, what it looks at, on most of the rows.
        kinds: verdicts by function and kind.
        verdicts: all of them.
        made_up: True when the rows are not the dataset's.
    """

    form: Form
    rows: int
    probes: int
    functions: tuple[FunctionScore, ...]
    aspects: Mapping[str, Aspect]
    kinds: tuple[KindReport, ...]
    verdicts: tuple[Verdict, ...]
    made_up: bool = False

    @property
    def failed(self) -> bool:
        """Whether a function gave no scores."""
        return any(function.failure is not None for function in self.functions)

    def to_json(self) -> dict[str, Any]:
        """The shape that `grpo-tui probe --json` prints."""
        return {
            "form": asdict(self.form),
            "rows": self.rows,
            "probes": self.probes,
            "made_up": self.made_up,
            "functions": [
                {
                    "name": function.info.name,
                    "looks_at": looks_at(self.aspects.get(function.info.name)),
                    "error": function.failure.text if function.failure is not None else None,
                }
                for function in self.functions
            ],
            "kinds": [
                {**{key: getattr(kind, key) for key in ("function", "kind", "fault", "rows", "of")},
                 "why": kind.example.why}
                for kind in self.kinds
            ],
            "verdicts": [asdict(verdict) for verdict in self.verdicts],
        }  # fmt: skip


def looks_at(found: Aspect | None) -> list[str]:
    """What a function tells apart, in words."""
    if found is None:
        return []
    words = {"answer": found.answer, "form": found.form, "answer, the wrong way round": found.reversed}
    return [word for word, holds in words.items() if holds]


def probe(
    lab: Lab,
    rows: Sequence[Mapping[str, Any]],
    column: str | None,
    *,
    made_up: bool = False,
    tell: Callable[[str, str], None] | None = None,
) -> ProbeReport:
    """Score the probes of some rows with the lab's loaded rewards.

    Args:
        lab: with a config loaded.
        rows: `{"prompt", "columns"}`.
        column: the column with the gold answer, which every row has.
        made_up: whether the rows are not the dataset's.
        tell: called with a function's name and what is done with it.

    Raises:
        LabError: the lab cannot score at all.
    """
    form, made = probes_for(lab, rows, column)
    samples = as_samples(rows, made)
    scored = lab.score(samples, tell=tell, repeat_limit_s=0.0)
    if made_up:
        scored = _also_as_messages(lab, scored, tell)
    working = [function for function in scored.functions if function.failure is None]
    given: dict[str, Sequence[float | None]] = {f.info.name: f.scores for f in working}
    if len(working) > 1:
        given[TOTAL] = lab.aggregate(scored).totals
    verdicts, aspects = _judged(made, given)
    return ProbeReport(
        form, len(rows), len(samples), scored.functions, aspects, tuple(by_kind(verdicts, len(rows))),
        tuple(verdicts), made_up,
    )  # fmt: skip


def _also_as_messages(lab: Lab, scored: Scored, tell: Callable[[str, str], None] | None) -> Scored:
    """Ask again, in messages, the functions that cannot read texts; without a config nothing says which."""
    failed = {
        f.info.index for f in scored.functions if f.failure is not None and f.failure.type in _OTHER_FORM
    }
    if not failed:
        return scored
    chat = [replace(s, prompt=[{"role": "user", "content": s.prompt}]) for s in scored.samples]
    again = lab.score(chat, only=failed, tell=tell, repeat_limit_s=0.0)
    both = zip(scored.functions, again.functions, strict=True)
    return replace(scored, functions=tuple(new if new.failure is None else old for old, new in both))


def probes_for(
    lab: Lab, rows: Sequence[Mapping[str, Any]], column: str | None
) -> tuple[Form, list[list[Probe]]]:
    """The form that the rows and the loaded rewards ask for, and each row's probes in it."""
    asked = [whole_text(row["prompt"]) for row in rows]
    form = find_form(asked, [f.file_text for f in lab.functions if f.file_text])
    return form, [make_probes(row, form) for row in _probe_rows(rows, column)]


def as_samples(rows: Sequence[Mapping[str, Any]], made: Sequence[Sequence[Probe]]) -> list[Sample]:
    """The probes of each row as samples, whose kind says what they try."""
    return [
        Sample(row["prompt"], one.text, row["columns"], group=f"row {number + 1}", kind=one.kind)
        for number, (row, probes) in enumerate(zip(rows, made, strict=True))
        for one in probes
    ]


def made_up_rows(columns: Sequence[str]) -> tuple[list[dict[str, Any]], str | None]:
    """Rows for functions without a dataset, and their gold column.

    Args:
        columns: names of the columns that the functions read.

    Returns:
        The rows as `{"prompt", "columns"}`; the column is None when no name says where the gold answer goes.
    """
    column = gold_column(columns)
    names = [name for name in columns if name in GOLD_COLUMNS] or ["answer"]
    rows = [{"prompt": prompt, "columns": dict.fromkeys(names, answer)} for prompt, answer in MADE_UP]
    return rows, column or names[0]


def _probe_rows(rows: Sequence[Mapping[str, Any]], column: str | None) -> list[ProbeRow]:
    golds = [short_answer(row["columns"].get(column)) if column is not None else "" for row in rows]
    wrongs = wrong_answers(golds)
    return [
        ProbeRow(prompt_text(row["prompt"]), gold, wrong, tuple(other for other in golds if other != gold))
        for row, gold, wrong in zip(rows, golds, wrongs, strict=True)
    ]


def _judged(
    made: Sequence[Sequence[Probe]], given: Mapping[str, Sequence[float | None]]
) -> tuple[list[Verdict], dict[str, Aspect]]:
    verdicts: list[Verdict] = []
    seen: dict[str, list[Aspect]] = {name: [] for name in given}
    start = 0
    for number, probes in enumerate(made):
        scores = {name: values[start : start + len(probes)] for name, values in given.items()}
        verdicts += judge(probes, scores, number)
        place = {one.kind: i for i, one in enumerate(probes)}
        for name, values in scores.items():
            seen[name].append(aspect(*(values[place[kind]] for kind in ("right", "wrong", "formless"))))
        start += len(probes)
    return verdicts, {name: _mostly(found) for name, found in seen.items()}


def _mostly(found: Sequence[Aspect]) -> Aspect:
    """What holds on more than half of the rows."""

    def most(name: str) -> bool:
        return sum(getattr(one, name) for one in found) * 2 > len(found)

    return Aspect(most("answer"), most("form"), most("reversed"))
