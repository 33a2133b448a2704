"""What follows from columns that the section names and the rows do not have, with the column that was meant.

Pure; it asks nobody.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from typing import Any

from grpo_tui.core.findings import Finding, Fix
from grpo_tui.data.mapping import likely_prompt
from grpo_tui.preflight.data_facts import DataFacts
from grpo_tui.preflight.judging import Judged
from grpo_tui.rewards.answer_format import gold_column


def misnamed_columns(facts: DataFacts, judged: Judged) -> Iterator[Finding]:
    """Judge `grpo_tui.columns` and the column that the answer is cut from."""
    section, names = judged.config.section, facts.source_columns
    if not facts.problem:
        return
    missing = {wanted: source for wanted, source in section.columns.items() if source not in names}
    turned = {source: wanted for wanted, source in missing.items() if wanted in names}
    if "prompt" in turned and len(turned) == len(missing):
        message = (
            f"grpo_tui.columns is written the wrong way round: {_have(facts)}, and it maps the wanted name "
            f"to the column, as {', '.join(f'{wanted}: {source}' for wanted, source in turned.items())}"
        )
        whole = {**{w: s for w, s in section.columns.items() if w not in missing}, **turned}
        yield judged.found(
            "data.unusable", "error", "grpo_tui.columns", message, Fix("grpo_tui.columns", whole)
        )
        return
    for wanted, source in missing.items():
        near = _near(source, names) or (likely_prompt(names) if wanted == "prompt" else None)
        key = f"grpo_tui.columns.{wanted}"
        message = f"grpo_tui.columns wants {wanted} from the column {source}, and {_have(facts)}"
        yield judged.found(
            "data.unusable", "error", key, f"{message}{_meant(near)}", Fix(key, near) if near else None
        )
    spec = section.answer
    after = {*names, *section.columns}
    if missing or spec is None or spec.source in after:
        return
    near = _near(spec.source, names) or gold_column(list(names))
    message = f"grpo_tui.answer reads the column {spec.source}, and {_have(facts)}{_meant(near)}"
    fix = None
    if near is not None:
        given = {"from": near, "kind": spec.kind, "to": spec.to, "tag": spec.tag, "pattern": spec.pattern}
        kept: dict[str, Any] = {k: v for k, v in given.items() if v not in (None, "answer") or k == "from"}
        fix = Fix("grpo_tui.answer", kept)
    yield judged.found("data.unusable", "error", "grpo_tui.answer", message, fix)


def _near(name: str, names: Sequence[str]) -> str | None:
    lower = {each.lower(): each for each in names}
    found = difflib.get_close_matches(name.lower(), list(lower), n=1, cutoff=0.5)
    return lower[found[0]] if found else None


def _have(facts: DataFacts) -> str:
    return f"{facts.short} has {', '.join(facts.source_columns[:10])}"


def _meant(near: str | None) -> str:
    return f". Did you mean {near}?" if near else ""
