"""Framework for the rules that check a config's settings.

`rules.toml` has the rules that consist of a condition and a sentence. More complex ones are in `rules_*.py`.
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
"""A key and its new value."""
REMOVE = None
"""Value of a fix that removes the key."""
_NAMES_FILE = Path(__file__).with_name("rule_names.toml")
NAMES: Mapping[str, Any] = tomllib.loads(_NAMES_FILE.read_text(encoding="utf-8"))
"""Lists of names for the rules."""


@dataclass(frozen=True, slots=True)
class Settings:
    """A config, as rules see it.

    Attributes:
        parts: Converted arguments by dataclass.
        world_size: Number of training processes, None if unknown.
    """

    parts: Mapping[str, Mapping[str, Any]]
    section: Section
    fields: Mapping[str, FieldInfo]
    document: YamlDocument
    world_size: int | None = 1

    @classmethod
    def of(cls, inspected: Inspected, world_size: int | None) -> Settings:
        """Create the settings of an inspected config."""
        return cls(inspected.parts, inspected.section, inspected.fields, inspected.document, world_size)

    @classmethod
    def of_config(cls, config: RunConfig, world_size: int | None = None) -> Settings:
        """Create the settings of a checked config, with the lines of its file."""
        parts = {
            "GRPOConfig": config.grpo,
            "ModelConfig": config.model_args,
            "GRPOScriptArguments": config.script,
            "DatasetMixtureConfig": config.mixture,
        }
        return cls(parts, config.section, load_fields(), _written(config.path), world_size)

    def get(self, name: str) -> Any:
        """Return the value of a key or its default, None for a computed default."""
        info = self.fields.get(name)
        if info is None:
            return None
        written = self.parts.get(info.owner, {})
        if name in written:
            return written[name]
        return None if isinstance(info.default, NoDefault) else info.default

    def written(self, name: str) -> bool:
        """Return whether the config sets the key to something other than TRL's default."""
        info = self.fields.get(name)
        if info is None or name not in self.parts.get(info.owner, {}):
            return False
        return bool(self.parts[info.owner][name] != info.default)

    @property
    def checkpointing(self) -> bool:
        """Whether gradient checkpointing is on. The newer of its two keys wins."""
        newer = self.get("activation_checkpointing")
        return bool(self.get("gradient_checkpointing") if newer is None else newer)

    def mapping(self, name: str) -> Mapping[str, Any]:
        """Return the value of a key if it is a mapping, else an empty one."""
        value = self.get(name)
        return value if isinstance(value, dict) else {}

    def strategy(self, name: str) -> str:
        """Return one of transformers' strategies (`eval_strategy`) as a string."""
        return str(self.get(name) or "no")

    @property
    def data_key(self) -> str:
        """The key that names the dataset."""
        if self.section.dataset is not None:
            return "grpo_tui.dataset"
        return "datasets" if self.get("datasets") else "dataset_name"

    def line(self, dotted: str) -> int | None:
        """Return the line of a dotted key, or of its nearest parent."""
        return self.document.line(*_path(dotted))

    def finding(
        self, rule: str, severity: Severity, field: str | None, message: str, *fix: Change | None
    ) -> Finding:
        """Create a finding about a key.

        Args:
            rule: Name of the rule, `domain.what`.
            message: The reason, with numbers. It may contain untrusted text.
            fix: `(key, value)` of the smallest change. None as the value removes the key.
        """
        first = fix[0] if fix else None
        change = Fix(first[0], first[1]) if first is not None else None
        line = self.line(field) if field is not None else None
        return Finding(rule, severity, field, line, safe(message), change)

    def error(self, rule: str, field: str, message: str, *fix: Change | None) -> Finding:
        """Create a finding: the run would fail, or train nothing."""
        return self.finding(rule, "error", field, message, *fix)

    def warning(self, rule: str, field: str, message: str, *fix: Change | None) -> Finding:
        """Create a finding: the run would not do what the config says."""
        return self.finding(rule, "warning", field, message, *fix)

    def info(self, rule: str, field: str, message: str, *fix: Change | None) -> Finding:
        """Create a finding: another value would be better."""
        return self.finding(rule, "info", field, message, *fix)

    def unused(self, field: str, why: str, *fix: Change) -> Finding:
        """Create a finding: nothing reads the key. The fix removes it by default."""
        return self.warning(
            "config.unused", field, f"{field} is not used: {why}", *(fix or ((field, REMOVE),))
        )

    def unused_together(self, names: Sequence[str], why: str, *fix: Change) -> Finding:
        """Create one finding for several keys that nothing reads."""
        more = f" and {len(names) - 1} more of its keys" if len(names) > 1 else ""
        verb = "are" if len(names) > 1 else "is"
        return self.warning("config.unused", names[0], f"{names[0]}{more} {verb} not used: {why}", *fix)


def _written(path: Path | None) -> YamlDocument:
    """Read a config file, empty if it cannot be read."""
    try:
        return parse_mapping(path.read_text(encoding="utf-8")) if path is not None else YamlDocument({})
    except (OSError, UnicodeDecodeError, YamlError):
        return YamlDocument({})


def _path(dotted: str) -> tuple[str | int, ...]:
    return tuple(int(part) if part.isdigit() else part for part in dotted.split("."))


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
    **{each.__name__: each for each in (dict, int, isinstance, max, min, round, str)},
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
