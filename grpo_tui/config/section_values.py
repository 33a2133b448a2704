"""Single values of the section `grpo_tui:` as their keys want them; what does not fit is a finding.

It knows no key: `section_reader`, `section_rewards` and `section_start` say which value stands where.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from grpo_tui.config.coerce import kind_of, numbers_in_text
from grpo_tui.config.paths import Places
from grpo_tui.config.section_meant import ROOT, section_fix
from grpo_tui.config.trl_fields import load_fields
from grpo_tui.config.yaml_lines import YamlDocument
from grpo_tui.core.findings import Finding, Fix
from grpo_tui.core.text import one_line

KeyPath = Sequence[str | int]


def dotted(path: KeyPath) -> str:
    """Return a path within the section as a key of the file: `grpo_tui.rewards.0.weight`."""
    return ".".join([ROOT, *(str(part) for part in path)])


class SectionValues:
    """Reads values of one document and gathers what is wrong with them.

    Attributes:
        document: the parsed file.
        places: where file names are looked up.
        findings: what was found so far.
    """

    def __init__(self, document: YamlDocument, places: Places) -> None:
        self.document = document
        self.places = places
        self.findings: list[Finding] = []

    def written(self, path: KeyPath) -> Any:
        """Return what stands at a key of the section; None where nothing does."""
        value: Any = self.document.values.get(ROOT)
        for part in path:
            holds = isinstance(value, dict) or (isinstance(value, list) and isinstance(part, int))
            try:
                value = value[part] if holds else None
            except (KeyError, IndexError):
                return None
        return value

    def line(self, path: KeyPath) -> int | None:
        """Return the line of a key of the section."""
        return self.document.line(ROOT, *path)

    def error(self, rule: str, path: KeyPath, message: str, fix: Fix | None = None) -> None:
        """Add an error; where a value does not fit and no fix is given, what was meant is offered."""
        if fix is None and rule in ("section.type", "section.range", "section.choice"):
            fix = section_fix(path, self.written(path))
        self.findings.append(Finding(rule, "error", dotted(path), self.line(path), message, fix))

    def info(self, path: KeyPath, message: str) -> None:
        """Say that a value was read otherwise than it was written."""
        self.findings.append(Finding("config.coerced", "info", dotted(path), self.line(path), message))

    def refuse_unknown(
        self,
        path: KeyPath,
        value: Mapping[str, Any],
        known: Sequence[str],
        aliases: Mapping[str, str] | None = None,
    ) -> None:
        """Add an error for each key that is none of `known`, with the nearest, or the place of a key of TRL.

        Args:
            path: the mapping.
            value: what stands there.
            known: its keys.
            aliases: what people call them.
        """
        for key in value:
            if key in known:
                continue
            if not path and key in load_fields():
                message = f"{key} is a key of TRL: it stands at the left margin, not under grpo_tui"
                there = key in self.document.values
                fix = Fix(dotted((key,)), None) if there else Fix(str(key), value[key])
                self.error("section.unknown-key", (key,), message, fix)
                continue
            meant = (aliases or {}).get(str(key))
            if meant is not None and meant not in value:
                message = f"{dotted(path)} has no key {key}; it is called {meant}"
                self.error(
                    "section.unknown-key", (*path, key), message, Fix(dotted((*path, meant)), value[key])
                )
                continue
            near = difflib.get_close_matches(str(key).replace("-", "_").lower(), known, n=1, cutoff=0.5)
            hint = f"Did you mean {near[0]}?" if near else f"It knows {', '.join(known)}"
            fix = Fix(dotted((*path, near[0])), value[key]) if near else Fix(dotted((*path, key)), None)
            self.error("section.unknown-key", (*path, key), f"{dotted(path)} has no key {key}. {hint}", fix)

    def text(self, path: KeyPath, value: Any) -> str | None:
        """Read a text; a number or truth value is read as the text it was written as."""
        if value is None or isinstance(value, str):
            return value
        if isinstance(value, (bool, int, float)):
            self.info(path, f"{dotted(path)} was {value!r}; read as the text '{value}'")
            return str(value)
        self.error("section.type", path, f"{dotted(path)} must be text; it is a {kind_of(value)}")
        return None

    def whole_number(self, path: KeyPath, value: Any, of: str) -> int | None:
        """Read a whole number, 0 or more.

        Args:
            path: the key.
            value: what stands there.
            of: what is counted, for the message.
        """
        if value is None:
            return None
        number = numbers_in_text(value)
        if number is not None and number.is_integer():
            self.info(path, f"{dotted(path)} was the text '{value}'; read as {int(number)}")
            value = int(number)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
        self.error(
            "section.type", path, f"{dotted(path)} must be a whole number of {of}, 0 or more; it is {value!r}"
        )
        return None

    def flag(self, path: KeyPath, value: Any) -> bool | None:
        """Read true or false, also written as yes and no."""
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str) and value.lower() in ("true", "yes", "on", "false", "no", "off"):
            read = value.lower() in ("true", "yes", "on")
            self.info(path, f"{dotted(path)} was the text '{value}'; read as {str(read).lower()}")
            return read
        self.error("section.type", path, f"{dotted(path)} must be true or false; it is {value!r}")
        return None

    def number(self, path: KeyPath, value: Any) -> float | None:
        """Read a number."""
        if value is None:
            return None
        number = numbers_in_text(value)
        if number is not None:
            self.info(path, f"{dotted(path)} was the text '{value}'; read as {number!r}")
            return number
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
        self.error(
            "section.type",
            path,
            f"{dotted(path)} must be a number; it is {value!r}",
            Fix(dotted(path), 1.0),
        )
        return None

    def file(self, path: KeyPath, name: str) -> Path:
        """Return the absolute path of a file beside the config, with an error when there is none."""
        found = self.places.beside_config(name)
        if not os.path.isfile(found):
            names = sorted(os.listdir(found.parent)) if os.path.isdir(found.parent) else []
            near = difflib.get_close_matches(found.name, names, n=1)
            hint = f". Did you mean {near[0]}?" if near else ""
            self.error(
                "section.missing-file",
                path,
                f"{dotted(path)}: there is no file {one_line(str(found), 200)}{hint}",
                self._near_file(path, name, near[0]) if near else None,
            )
        return found

    def _near_file(self, path: KeyPath, name: str, near: str) -> Fix | None:
        """The same value with the name of a file that is there."""
        written = self.written(path)
        if isinstance(written, str) and written.count(name) == 1:
            return Fix(dotted(path), written.replace(name, str(Path(name).with_name(near))))
        return None
