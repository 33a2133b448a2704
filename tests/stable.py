"""Texts that are the same on every machine, in every folder and at any time."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import grpo_tui
from grpo_tui.core.findings import Finding

PACKAGE = Path(grpo_tui.__file__).parent


def stable(text: str, here: Path | None = None) -> str:
    """Return a text with seven digits of each number, and names for folders, versions and this process."""
    for path, name in ((here, "<here>"), (PACKAGE, "<package>"), (PACKAGE.parent, "<source>")):
        if path is not None:
            text = text.replace(str(path), name)
    text = re.sub(r"(?<![\w.])-?\d+\.\d{6,}(?:e[-+]?\d+)?", lambda m: str(float(f"{float(m[0]):.7g}")), text)
    text = re.sub(r"\b(trl|transformers|datasets|torch|peft) \d[\w.+]*", r"\1 <version>", text)
    return re.sub(rf'("pid": ){os.getpid()}\b', r"\1<pid>", text)


FEW = 12
"""How many values are on one line."""


def as_lines(value: Any, indent: str = "") -> str:
    """Return a value of JSON as lines: lists of plain values on one, and all else that has few.

    How lines break is a matter of the structure alone: a folder of another length changes nothing.
    """
    parts = _parts(value)
    if _count(value) <= FEW or (isinstance(value, list | tuple) and not any(map(_parts, parts))):
        return json.dumps(value, ensure_ascii=False, default=str)
    names = [f"{json.dumps(name)}: " for name in value] if isinstance(value, dict) else [""] * len(parts)
    inner = [
        f"{indent} {name}{as_lines(part, indent + ' ')}" for name, part in zip(names, parts, strict=True)
    ]
    first, last = "{}" if isinstance(value, dict) else "[]"
    return f"{first}\n" + ",\n".join(inner) + f"\n{indent}{last}"


def _parts(value: Any) -> list[Any]:
    return list(
        value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    )


def _count(value: Any) -> int:
    return sum(map(_count, parts)) if (parts := _parts(value)) else 1


def beside(first: list[str], lines: list[str]) -> list[str]:
    """Return the lines that a first text does not have, and how many it has."""
    return [
        *(line for line in lines if line not in first),
        f"and {sum(one in first for one in lines)} as above",
    ]


def told(found: Finding) -> str:
    """Return a finding of a check as a line, with its fix."""
    place = f"{found.field or '–'}" + (f":{found.line}" if found.line is not None else "")
    fix = f"\n      fix {found.fix.field}: {json.dumps(found.fix.value)}" if found.fix is not None else ""
    return f"   {found.severity} {found.id} {place}: {found.message}{fix}"


def table(rows: Iterable[tuple[str, Iterable[Finding]]]) -> str:
    """Return what is found by what was given."""
    return "".join(f"{name}\n" + "".join(f"{told(one)}\n" for one in found) + "\n" for name, found in rows)


def given(test: Callable[..., Any]) -> list[Any]:
    """Return the rows that a parametrized test is given."""
    return [row for mark in reversed(test.pytestmark) for row in mark.args[1]]  # type: ignore[attr-defined]
