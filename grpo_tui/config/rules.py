"""Framework for the rules that check a config's settings.

`rules.toml` has the rules that consist of a condition and a sentence. More complex ones are in `rules_*.py`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any

from grpo_tui.config.settings import REMOVE, Settings
from grpo_tui.core.findings import SEVERITIES, Finding
from grpo_tui.core.statistics import is_number

_NAMES_FILE = Path(__file__).with_name("rule_names.toml")
NAMES: Mapping[str, Any] = tomllib.loads(_NAMES_FILE.read_text(encoding="utf-8"))
"""Lists of names for the rules."""


def yaml_said(value: Any) -> str:
    """Return a value as it would be written in a file."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.15g}"
    return "empty" if value is None else str(value)


@cache
def rule_rows() -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """Return the rules of `rules.toml` by domain. The file documents their format."""
    return tomllib.loads(Path(__file__).with_name("rules.toml").read_text(encoding="utf-8"))


HELPERS: Mapping[str, Any] = {
    "number": is_number,
    "said": yaml_said,
    **{each.__name__: each for each in (any, bool, dict, int, isinstance, len, max, min, round, str)},
}
"""Functions available in `rules.toml`, besides `get`, `written` and `mapping`."""


class _Names(dict[str, Any]):
    """Namespace of a rule: the helpers, the names of its domain, and the values of config keys."""

    def __init__(self, settings: Settings, known: Mapping[str, Any]) -> None:
        super().__init__(HELPERS)
        self.update(
            get=self.__getitem__,
            written=settings.written,
            mapping=settings.mapping,
            section=settings.section,
            world_size=settings.world_size,
            checkpointing=settings.checkpointing,
            **known,
        )
        self.settings = settings

    def __missing__(self, name: str) -> Any:
        top, *inner = name.split(".")
        value = self.settings.strategy(top) if top in STRATEGIES else self.settings.get(top)
        for part in inner:
            value = value.get(part) if isinstance(value, dict) else None
        return value

    def evaluated(self, expression: str) -> Any:
        """Evaluate an expression of `rules.toml`."""
        return eval(_compiled(expression), {"__builtins__": {}}, self)

    def told(self, value: Any) -> Any:
        """Evaluate a string that begins with `=`. Return any other value unchanged."""
        marked = isinstance(value, str) and value.startswith("=")
        return self.evaluated(value.removeprefix("=").strip()) if marked else value


STRATEGIES = ("eval_strategy", "logging_strategy", "save_strategy")


@cache
def _compiled(expression: str) -> CodeType:
    return compile(expression, "rules.toml", "eval")


def row_findings(settings: Settings, domain: str, **known: Any) -> Iterator[Finding]:
    """Apply the rules of one domain.

    Args:
        domain: A table of `rules.toml`.
        known: Names for the rules, in addition to the keys of the config.
    """
    names = _Names(settings, known)
    for row in rule_rows()[domain]:
        keys = row.get("unused") or row["key"]
        for key in [keys] if isinstance(keys, str) else keys:
            names["key"] = key = names.told(key)
            names["value"] = names[key]
            if "unused" in row and not settings.written(key):
                continue
            for name, expression in row.get("with", {}).items():
                names[name] = names.evaluated(expression)
            if names.evaluated(row["when"]):
                yield _found(settings, row, names)


def _found(settings: Settings, row: Mapping[str, Any], names: _Names) -> Finding:
    key, message = names["key"], row["says"].format_map(names)
    fix = names.told(row.get("fix"))
    if fix == "remove":
        fix = (key, REMOVE)
    elif isinstance(fix, dict):
        ((name, value),) = fix.items()
        fix = (name, names.told(value))
    if "unused" in row:
        return settings.unused(key, message, *([fix] if fix else []))
    severity = next(each for each in SEVERITIES if each in row)
    return settings.finding(row[severity], severity, key, message, fix)
