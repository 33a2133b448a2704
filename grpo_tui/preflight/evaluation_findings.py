"""What follows from the rows to evaluate on: the run that trains well would end at its first evaluation.

Pure; it asks nobody.
"""

from __future__ import annotations

from collections.abc import Iterator

from grpo_tui.core.findings import Finding, Fix
from grpo_tui.preflight.data_facts import DataFacts, first_rows
from grpo_tui.preflight.judging import Judged
from grpo_tui.preflight.prompt_findings import leaving_out

ENDS = "the run ends at its first evaluation"


def evaluation_findings(facts: DataFacts, judged: Judged) -> Iterator[Finding]:
    """Judge the rows to evaluate on, where they are others than those trained on."""
    seen = facts.evaluation
    if seen is None:
        return
    own = judged.config.section.eval_dataset is not None
    key = "grpo_tui.eval_dataset" if own else "dataset_test_split"
    name = seen.origin.rpartition("/")[2] if seen.origin.startswith("/") else seen.origin
    where = name if own else f"{name}, split {judged.config.script.get('dataset_test_split', 'test')}"
    if seen.columns and seen.prompt_source not in seen.columns:
        message = (
            f"{where} has no column {seen.prompt_source}, which the prompt is read from; it has "
            f"{', '.join(seen.columns[:10])}: {ENDS}"
        )
        yield judged.found("data.no-prompt", "error", key, message)
        return
    if seen.problem:
        yield judged.found("data.unusable", "error", key, f"{seen.problem}; {ENDS}")
        return
    for bad in seen.bad:
        rows = first_rows(bad.rows, bad.count)
        what = f"the prompt {bad.reason}" if bad.what == "prompt" else f"no answer of the kind {bad.reason}"
        empty = bad.what == "answer" or bad.reason.startswith("is ")
        fix = leaving_out(facts, ["prompt"]) if empty and bad.count < seen.rows else None
        rule = f"data.bad-{bad.what}"
        yield judged.found(rule, "error", key, f"{where}, {rows}: {what}; {ENDS}", fix)
    if facts.answer_column and facts.answer_column in seen.lacking:
        message = (
            f"{where} lacks the column {facts.answer_column}, which the rows to train on have: a reward that "
            f"compares with it has nothing there, and {ENDS} if it insists"
        )
        yield judged.found("data.eval-columns", "warning", key, message, Fix("eval_strategy", "no"))
