"""What a check says of each fault, whole: its place, its sentence and its fix."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from grpo_tui.core.findings import Finding
from tests.preflight import test_borders as borders
from tests.preflight import test_rules as rules
from tests.stable import given, stable, table

Stored = Callable[[str, str], None]
Rows = Iterator[tuple[str, list[Finding] | tuple[Finding, ...]]]


def checked(folder: Path) -> Rows:
    for name, (change, *_) in rules.CASES.items():
        found = rules.look(folder, change)
        yield name, (*found.findings, *found.advice)
    machines = (rules.test_what_the_machine_lacks_is_found, rules.test_what_the_machine_has_is_not_missed)
    for test in machines:
        for change, where, *_ in given(test):
            yield (
                f"{change} on {[gpu.name for gpu in where.gpus]}",
                rules.look(folder, change, where).findings,
            )


def of_facts() -> Rows:
    for changes, section, settings, _ in borders.ROWS:
        facts = replace(borders.CLEAN, **changes)
        judged = borders.judged(section, settings)
        yield f"{changes} {section} {settings}", borders.data_findings(facts, borders.MODEL, judged)
    for column, sees, form, _ in given(borders.test_what_is_said_of_images):
        facts = replace(borders.CLEAN, columns=(borders.PROMPT, column), form=form)
        found = list(borders.image_findings(facts, borders.judged({}, {}), sees_images=sees))
        yield f"{column.name} {column.nulls} {column.empties} {sees} {form}", found
    for changes, _ in given(borders.test_what_is_said_of_the_model):
        known = replace(borders.MODEL, **{"linears": borders.LINEARS, **changes})
        yield f"{changes}", borders.model_findings(known, borders.judged({}, {}))
    for changes, data, section, _ in given(borders.test_what_is_said_of_the_tokenizer):
        told = borders.Facts(borders.MODEL, replace(borders.TOKENIZER, **changes), data)
        yield (
            f"{changes} {data.form} {section}",
            borders.tokenizer_findings(told, borders.judged(section, {})),
        )


def test_what_a_check_says_is_what_is_stored(stored: Stored, tmp_path: Path) -> None:
    stored("checked", stable(table(checked(tmp_path)), tmp_path))


def test_what_is_said_of_data_and_model_is_what_is_stored(stored: Stored) -> None:
    stored("facts", stable(table(of_facts())))
