"""Parse `grpo_tui.evaluate`: evaluations on held-out rows while training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from grpo_tui.config.section import EVALUATE_KEYS, Evaluate, Section
from grpo_tui.core.findings import Finding, Fix
from grpo_tui.core.statistics import FEWEST_PROMPTS

if TYPE_CHECKING:
    from grpo_tui.config.section_reader import SectionValues

KEY = "grpo_tui.evaluate"
ALIASES = {
    "count": "samples",
    "interval": "every",
    "num_generations": "samples",
    "pass_at": "k",
    "prompts": "rows",
    "steps": "every",
}
"""Common wrong names of the keys."""
OF = {"every": "steps", "rows": "rows", "samples": "completions", "k": "completions"}
MOST_SAMPLES = 64


def read_evaluate(values: SectionValues, value: Any) -> Evaluate | None:
    """Parse the settings and add a finding to `values` for each invalid one."""
    if value is None or value is False:
        return None
    if not isinstance(value, dict):
        values.error("section.type", ("evaluate",), f"{KEY} must be a mapping, such as `every: 50`")
        return None
    before = len(values.findings)
    values.refuse_unknown(("evaluate",), value, EVALUATE_KEYS, ALIASES)
    found = Evaluate(**_numbers(values, value))
    if any(finding.severity == "error" for finding in values.findings[before:]):
        return None
    if found.pass_k > found.samples:
        said = (
            f"{KEY}.k is {found.k}, but each prompt gets {found.samples} completions. Lower k, or raise "
            "samples"
        )
        values.error("section.conflict", ("evaluate", "k"), said, Fix(f"{KEY}.samples", found.pass_k))
        return None
    return found


def _numbers(values: SectionValues, value: Mapping[Any, Any]) -> dict[str, int]:
    numbers = {}
    for key, of in OF.items():
        path = ("evaluate", key)
        number = values.whole_number(path, value.get(key), of)
        most = MOST_SAMPLES if key in ("samples", "k") else None
        if number == 0 or (most is not None and number is not None and number > most):
            limit = f"1 to {most}" if most is not None else "1 or more"
            values.error("section.range", path, f"{KEY}.{key} must be {limit}")
        elif number is not None:
            numbers[key] = number
    return numbers


def judge_evaluate(values: SectionValues, section: Section) -> None:
    """Add findings about conflicts between `evaluate` and the rest of the section."""
    wanted = section.evaluate
    if wanted is None:
        return
    top = values.document.values
    tested = str(top.get("eval_strategy", "no")) not in ("no", "False")
    if not section.holdout and section.eval_dataset is None and not tested:
        said = (
            f"{KEY} asks held-out rows, and the config has none. Set grpo_tui.holdout to "
            f"{max(40, wanted.rows)} or so, or grpo_tui.eval_dataset"
        )
        values.error("section.conflict", ("evaluate",), said, Fix("grpo_tui.holdout", max(40, wanted.rows)))
        return
    if section.holdout and wanted.rows > section.holdout:
        said = (
            f"{KEY}.rows is {wanted.rows}, but only {section.holdout} rows are held out, so "
            f"{section.holdout} are asked. Raise grpo_tui.holdout"
        )
        _warn(values, "rows", said, Fix("grpo_tui.holdout", wanted.rows))
    asked = min(wanted.rows, section.holdout) if section.holdout else wanted.rows
    if asked < FEWEST_PROMPTS:
        said = (
            f"{KEY} asks {asked} rows. No gain is shown on fewer than {FEWEST_PROMPTS}: raise rows, and "
            "grpo_tui.holdout with it"
        )
        _warn(values, "rows", said)


def _warn(values: SectionValues, key: str, said: str, fix: Fix | None = None) -> None:
    path = ("evaluate", key) if values.written(("evaluate", key)) is not None else ("evaluate",)
    values.findings.append(
        Finding("section.evaluate", "warning", f"{KEY}.{key}", values.line(path), said, fix)
    )
