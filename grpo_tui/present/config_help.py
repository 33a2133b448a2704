"""What a field of a config is, in words: its type, its default, what TRL says, what we advise.

Knows fields and findings as plain data; knows no widget.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grpo_tui.core.findings import Finding


@dataclass(frozen=True, slots=True)
class FieldHelp:
    """What is said of one field.

    Attributes:
        name: the field.
        facts: type, choices and default, each a few words.
        findings: what was found of it, errors first.
        advice: what we would do, and why.
        help: TRL's own text.
    """

    name: str
    facts: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    advice: tuple[str, ...] = ()
    help: str = ""
