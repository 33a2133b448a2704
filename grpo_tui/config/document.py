"""Read a config file and apply `--set K=V` to it."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from grpo_tui.config import yaml_lines
from grpo_tui.core.findings import Finding

MOST_BYTES = 1_000_000
"""A config has a few kilobytes. Parsing a text of this size takes some seconds."""


class UnreadableError(ValueError):
    """The file cannot be read as a config. `finding` says why, with the line."""

    def __init__(self, message: str, line: int | None = None, key: str | None = None) -> None:
        super().__init__(message)
        self.finding = Finding("config.unreadable", "error", key, line, message)


def read_document(file: Path, *, loose: bool = False) -> yaml_lines.YamlDocument:
    """Read a config file. `loose` leaves duplicate keys to the caller.

    Raises:
        UnreadableError: The file is missing, too large, not UTF-8 text, or not a YAML mapping.
    """
    try:
        with file.open("rb") as opened:
            content = opened.read(MOST_BYTES + 1)
        text = content.decode("utf-8")
    except FileNotFoundError as error:
        raise UnreadableError("no such file") from error
    except IsADirectoryError as error:
        raise UnreadableError(f"{file} is a folder, not a config file") from error
    except UnicodeDecodeError as error:
        what, line = "UTF-16, not UTF-8 text", None
        if content[:2] not in (b"\xff\xfe", b"\xfe\xff"):
            what = f"not UTF-8 text (byte {error.start}, 0x{content[error.start]:02x})"
            line = content.count(b"\n", 0, error.start) + 1
        raise UnreadableError(f"{what}. Save the file as UTF-8", line) from error
    except OSError as error:
        raise UnreadableError(f"cannot be read: {error.strerror}") from error
    if len(content) > MOST_BYTES:
        raise UnreadableError(f"larger than {MOST_BYTES // 1_000_000} MB, too big for a config")
    return parse_document(text, loose=loose)


def parse_document(text: str, *, loose: bool = False) -> yaml_lines.YamlDocument:
    """Parse a config's text. `loose` leaves duplicate keys to the caller.

    Raises:
        UnreadableError: The text is not a YAML mapping.
    """
    try:
        return yaml_lines.parse_mapping(text, loose=loose)
    except yaml_lines.YamlError as error:
        raise UnreadableError(error.message, error.line, error.key) from error


def apply_overrides(document: yaml_lines.YamlDocument, overrides: Sequence[str]) -> list[Finding]:
    """Apply `K=V` overrides to the document. The keys they set lose their line."""
    findings = []
    for override in overrides:
        key, equals, text = override.partition("=")
        key = key.strip()
        message = None
        if not equals or not key:
            message = f"--set {override}: write it as KEY=VALUE"
        else:
            try:
                top = "grpo_tui" if key.startswith("grpo_tui.") else "value"
                value, plain = yaml_lines.parse_value(text, top)
                message = _set_dotted(document, key, value, plain)
            except yaml_lines.YamlError as error:
                message = f"--set {override}: {error.message}"
        if message is not None:
            findings.append(Finding("config.override", "error", key or None, None, message))
    return findings


def set_values(document: yaml_lines.YamlDocument, values: Mapping[str, Any]) -> list[Finding]:
    """Set dotted keys to values of the document's own language. The keys lose their line."""
    found = []
    for key, value in values.items():
        text = value if isinstance(value, str) else None
        if message := _set_dotted(document, key, copy.deepcopy(value), text):
            found.append(Finding("config.override", "error", key, None, message.removeprefix("--set ")))
    return found


def _set_dotted(document: yaml_lines.YamlDocument, key: str, value: Any, plain: str | None) -> str | None:
    """Set one dotted key. Return the error message, or None."""
    first, *rest = key.split(".")
    path: list[str | int] = [first, *(int(part) if part.isdigit() else part for part in rest)]
    target: Any = document.values
    for depth, part in enumerate(path):
        parent = ".".join(str(p) for p in path[:depth])
        if isinstance(target, list):
            if not isinstance(part, int) or part >= len(target):
                return f"--set {key}: {parent} is a list of {len(target)} and has no item {part}"
        elif not isinstance(target, dict):
            return f"--set {key}: {parent} is a single value and has no {part}"
        if depth == len(path) - 1:
            target[part] = value
        else:
            if isinstance(target, dict) and target.get(part) is None:
                target[part] = {}
            target = target[part]
    whole = tuple(path)
    for known in [p for p in document.lines if p[: len(whole)] == whole]:
        del document.lines[known]
    document.plain = {p: text for p, text in document.plain.items() if p[: len(whole)] != whole}
    if plain is not None:
        document.plain[whole] = plain
    return None
