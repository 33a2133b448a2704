"""What a finding's remedies come to in the next run's config."""

from __future__ import annotations

from typing import Any

import pytest

from grpo_tui.core.findings import Finding, Remedy
from grpo_tui.present.run_findings import RunFinding, to_write


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (0.5, "0.5"), (2, "2"), (0, "0"), (0.0, "0.0"), (True, "true"), (False, "false"), ("", '""'),
        ("cosine", '"cosine"'), (None, None),
    ],
)  # fmt: skip
def test_each_value_that_a_remedy_sets_is_a_line_of_the_config(value: Any, written: str | None) -> None:
    remedies = (Remedy("in words alone"), Remedy("a value", "beta", value))
    finding = Finding("policy.kl", "warning", None, None, "said", remedies=remedies)
    assert list(to_write(finding)) == ([] if written is None else [("config", f"beta: {written}")])


def test_the_change_offered_is_a_setting_that_the_run_can_take_while_it_trains() -> None:
    words, next_run = Remedy("look at the data", live=True), Remedy("more", "num_generations", 16)
    live, second = Remedy("lower", "beta", 0.5, live=True), Remedy("raise", "temperature", 1.2, live=True)
    for remedies, change in (
        ((words, next_run, live, second), live),
        ((words, next_run), None),
        ((), None),
    ):
        finding = Finding("policy.kl", "warning", None, None, "said", remedies=remedies)
        assert RunFinding(finding, open=True).change == change
