"""What a rule sees of a config: every setting with its default, its line, and how a finding is made.

`rules.toml` has the rules that are a condition and a sentence, the modules `rules_*` those that need more.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any

from grpo_tui.config.section import Section
from grpo_tui.config.trl_fields import FieldInfo, NoDefault, load_fields
from grpo_tui.config.yaml_lines import YamlDocument, YamlError, parse_mapping
from grpo_tui.core.findings import SEVERITIES, Finding, Fix, Severity
from grpo_tui.core.statistics import is_number
from grpo_tui.core.text import safe

if TYPE_CHECKING:
    from grpo_tui.config.resolve import Inspected
    from grpo_tui.config.run_config import RunConfig

Change = tuple[str, Any]
"""A key and the value that it should have."""
REMOVE = None
"""As a fix's value: remove the key."""
_NAMES_FILE = Path(__file__).with_name("rule_names.toml")
NAMES: Mapping[str, Any] = tomllib.loads(_NAMES_FILE.read_text(encoding="utf-8"))
"""Names that the rules look for."""


@dataclass(frozen=True, slots=True)
class Settings:
    """A config for rules.

    Attributes:
        parts: coerced arguments by dataclass.
        section: the section `grpo_tui:`.
        fields: all fields of TRL, for defaults.
        document: the file, for lines.
        world_size: number of training processes; None when it is not known.
    """

    parts: Mapping[str, Mapping[str, Any]]
    section: Section
    fields: Mapping[str, FieldInfo]
    document: YamlDocument
    world_size: int | None = 1

    @classmethod
    def of(cls, inspected: Inspected, world_size: int | None) -> Settings:
        """Return what rules see of an inspected config."""
        return cls(inspected.parts, inspected.section, inspected.fields, inspected.document, world_size)

    @classmethod
    def of_config(cls, config: RunConfig, world_size: int | None = None) -> Settings:
        """Return what rules see of a checked config, with the lines of its file."""
        parts = {
            "GRPOConfig": config.grpo,
            "ModelConfig": config.model_args,
            "GRPOScriptArguments": config.script,
            "DatasetMixtureConfig": config.mixture,
        }
        return cls(parts, config.section, load_fields(), _written(config.path), world_size)

    def get(self, name: str) -> Any:
        """The value of a key, its default when it is not written; None where the default is computed."""
        info = self.fields.get(name)
        if info is None:
            return None
        written = self.parts.get(info.owner, {})
        if name in written:
            return written[name]
        return None if isinstance(info.default, NoDefault) else info.default

    def written(self, name: str) -> bool:
        """Whether the key has a value of its own that differs from TRL's default."""
        info = self.fields.get(name)
        if info is None or name not in self.parts.get(info.owner, {}):
            return False
        return bool(self.parts[info.owner][name] != info.default)

    @property
    def checkpointing(self) -> bool:
        """Whether gradients are checkpointed; the older name is read where the newer one is not set."""
        newer = self.get("activation_checkpointing")
        return bool(self.get("gradient_checkpointing") if newer is None else newer)

    def mapping(self, name: str) -> Mapping[str, Any]:
        """The value of a key that takes a mapping; empty for none, for a path and for other values."""
        value = self.get(name)
        return value if isinstance(value, dict) else {}

    def strategy(self, name: str) -> str:
        """One of transformers' strategies (`eval_strategy`) as text."""
        return str(self.get(name) or "no")

    @property
    def data_key(self) -> str:
        """The key that names the data."""
        if self.section.dataset is not None:
            return "grpo_tui.dataset"
        return "datasets" if self.get("datasets") else "dataset_name"

    def line(self, dotted: str) -> int | None:
        """The line of a dotted key, of its nearest parent where it has none."""
        return self.document.line(*_path(dotted))

    def finding(
        self, rule: str, severity: Severity, field: str | None, message: str, *fix: Change | None
    ) -> Finding:
        """Make a finding at a key.

        Args:
            rule: the rule's name, `domain.what`.
            severity: how bad it is.
            field: the key, dotted where nested.
            message: why, with the numbers; it may hold text of files and of the hub.
            fix: `(key, value)` of the smallest change; a value of None removes the key.
        """
        first = fix[0] if fix else None
        change = Fix(first[0], first[1]) if first is not None else None
        line = self.line(field) if field is not None else None
        return Finding(rule, severity, field, line, safe(message), change)

    def error(self, rule: str, field: str, message: str, *fix: Change | None) -> Finding:
        """Find that a run would fail, or train nothing."""
        return self.finding(rule, "error", field, message, *fix)

    def warning(self, rule: str, field: str, message: str, *fix: Change | None) -> Finding:
        """Find that a run does not do what the config says."""
        return self.finding(rule, "warning", field, message, *fix)

    def info(self, rule: str, field: str, message: str, *fix: Change | None) -> Finding:
        """Find that another value would do better."""
        return self.finding(rule, "info", field, message, *fix)

    def unused(self, field: str, why: str, *fix: Change) -> Finding:
        """Find that nothing reads a key; the fix removes it unless another is given."""
        return self.warning(
            "config.unused", field, f"{field} is not used: {why}", *(fix or ((field, REMOVE),))
        )

    def unused_together(self, names: Sequence[str], why: str, *fix: Change) -> Finding:
        """Find once that nothing reads any of several keys."""
        more = f" and {len(names) - 1} more of its keys" if len(names) > 1 else ""
        verb = "are" if len(names) > 1 else "is"
        return self.warning("config.unused", names[0], f"{names[0]}{more} {verb} not used: {why}", *fix)


def _written(path: Path | None) -> YamlDocument:
    """What stands in a file; nothing when it cannot be read."""
    try:
        return parse_mapping(path.read_text(encoding="utf-8")) if path is not None else YamlDocument({})
    except (OSError, UnicodeDecodeError, YamlError):
        return YamlDocument({})


def _path(dotted: str) -> tuple[str | int, ...]:
    return tuple(int(part) if part.isdigit() else part for part in dotted.split("."))


def yaml_said(value: Any) -> str:
    """A value as it stands in a file."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.15g}"
    return "empty" if value is None else str(value)


@cache
def rule_rows() -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """Return the rows of `rules.toml` by domain; the file says what they hold."""
    return tomllib.loads(Path(__file__).with_name("rules.toml").read_text(encoding="utf-8"))


HELPERS: Mapping[str, Any] = {
    "number": is_number,
    "said": yaml_said,
    **{each.__name__: each for each in (dict, int, isinstance, max, min, round, str)},
}
"""Functions that a row can call, beside `get`, `written` and `mapping`."""


class _Names(dict[str, Any]):
    """What a row can name: the helpers, what its domain knows, else the value of a key."""

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
        """Return what an expression of `rules.toml` comes to."""
        return eval(_compiled(expression), {"__builtins__": {}}, self)

    def told(self, value: Any) -> Any:
        """Return what an expression comes to that = marks as one, any other value as it is."""
        marked = isinstance(value, str) and value.startswith("=")
        return self.evaluated(value.removeprefix("=").strip()) if marked else value


STRATEGIES = ("eval_strategy", "logging_strategy", "save_strategy")


@cache
def _compiled(expression: str) -> CodeType:
    return compile(expression, "rules.toml", "eval")


def row_findings(settings: Settings, domain: str, **known: Any) -> Iterator[Finding]:
    """Apply the rules of one domain.

    Args:
        settings: the config.
        domain: a table of `rules.toml`.
        known: what its rows can name beside the keys of a config.
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
