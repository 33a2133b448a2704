"""docs/diagnosis.md holds a page for each rule, made of the table of rules."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from grpo_tui.core.findings import RULES, page

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "diagnosis.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("rule", RULES)
def test_the_page_of_a_rule_is_the_one_of_the_table(rule: str) -> None:
    assert page(RULES[rule]) in TEXT


def test_the_page_has_no_rule_that_is_not_there() -> None:
    assert re.findall(r"^### (\S+\.\S+)$", TEXT, re.M) == list(RULES)


@pytest.mark.parametrize("rule", RULES)
def test_every_limit_is_told(rule: str) -> None:
    told = RULES[rule].reports + RULES[rule].silent
    assert not [name for name in RULES[rule].limits if f"{{{name}}}" not in told]
