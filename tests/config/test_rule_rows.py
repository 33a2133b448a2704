"""The rows of `rules.toml` name keys of TRL and what they are given, and nothing else."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from string import Formatter
from typing import Any

import pytest

from grpo_tui.config import rules_nested
from grpo_tui.config.rules import HELPERS, rule_rows
from grpo_tui.config.rules_nested import sampling_names
from grpo_tui.config.trl_fields import load_fields

GIVEN = {"get", "written", "mapping", "section", "world_size", "checkpointing", "key", "value", "grpo_tui"}
OF_A_DOMAIN = {
    "advice": {"batch", "rows", "steps"},
    "config": {"in_section"},
    "grpo": {"small_model"},
    "hardware": {"gpus", "in_bf16"},
    "hardware-none": {"in_bf16"},
    "hardware-old": {"in_bf16", "who"},
    "launch-alone": {"chosen", "gpus"},
    "launch-several": {"launcher"},
    "model": {"architecture", "context", "experts"},
    "vllm": {"server_flags"},
}
ROWS = [(domain, row) for domain, rows in rule_rows().items() for row in rows]


def expressions(row: Mapping[str, Any]) -> Iterator[str]:
    yield row["when"]
    yield from row.get("with", {}).values()
    fix = row.get("fix")
    for value in (row.get("key"), *(fix.values() if isinstance(fix, dict) else [fix])):
        if isinstance(value, str) and value.startswith("="):
            yield value.removeprefix("=").strip()


@pytest.mark.parametrize(("domain", "row"), ROWS, ids=lambda part: part if isinstance(part, str) else "")
def test_a_row_names_what_there_is(domain: str, row: Mapping[str, Any]) -> None:
    found = [node for text in expressions(row) for node in ast.walk(ast.parse(text, mode="eval"))]
    names = [node for node in found if isinstance(node, ast.Name)]
    named = {node.id for node in names} - {node.id for node in names if isinstance(node.ctx, ast.Store)}
    named |= {name.partition(".")[0] for _, name, _, _ in Formatter().parse(row["says"]) if name}
    keys = row.get("unused") or row["key"]
    named |= {key.partition(".")[0] for key in ([keys] if isinstance(keys, str) else keys) if key[0] != "="}
    fix = row.get("fix")
    named |= {name.partition(".")[0] for name in fix} if isinstance(fix, dict) else set()
    given = GIVEN | HELPERS.keys() | row.get("with", {}).keys() | OF_A_DOMAIN.get(domain, set())
    assert named <= given | load_fields().keys()
    assert not row.get("with", {}).keys() & load_fields().keys()


@pytest.mark.parametrize(
    ("installed", "names"),
    [
        (
            "class SamplingParams:\n    n: int = 1\n    new_name: float = 0.0\n    _own: int = 0\n",
            {"n", "new_name"},
        ),
        ("SamplingParams = None\n", rules_nested._SAMPLING),
    ],
)
def test_vllm_is_asked_for_its_settings_where_it_is_installed_and_can_be_read(
    installed: str, names: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules_nested, "parse_source", lambda package, file: ast.parse(installed))
    assert sampling_names.__wrapped__() == names
