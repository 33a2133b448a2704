"""What a finding's remedies come to in the next run's config."""

from __future__ import annotations

from typing import Any

import pytest

from grpo_tui.core.findings import Finding, Remedy
from grpo_tui.present.run_findings import to_write


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
