"""How a field's value is asked for and shown for editing: by a switch, from a list, on a line, as YAML.

Knows types and values; sets nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from grpo_tui.config.coerce import CoerceError, kinds_of
from grpo_tui.config.draft_words import value_of_words
from grpo_tui.config.trl_fields import NoDefault
from grpo_tui.config.yaml_edit_values import block_lines, inline

if TYPE_CHECKING:
    from grpo_tui.config.origins import FieldValue

Kind = Literal["toggle", "choose", "line", "text", "yaml"]


@dataclass(frozen=True, slots=True)
class Way:
    """How one field is edited.

    Attributes:
        kind: in which form it is asked for: at once, from a list, on one line, as a text of several lines, as
            YAML.
        text: what to begin with.
        choices: what can be chosen.
    """

    kind: Kind
    text: str
    choices: tuple[str, ...] = ()


def as_written(value: FieldValue) -> Any:
    """A field's value as a person would write it: as it stands, but for a text that is read as a number."""
    if value.origin == "default" or (isinstance(value.written, str) and not isinstance(value.value, str)):
        return value.value
    return value.written  # a path, say, which a start would use in full


def way_of(value: FieldValue) -> Way:
    """How a field is edited, now."""
    kinds = kinds_of(value.info.annotation)
    now = as_written(value)
    if kinds == {"bool"}:
        return Way("toggle", words_of(now))
    several = "dict" in kinds or any(kind.startswith("list") for kind in kinds)
    if value.choices and not several:
        return Way("choose", words_of(now), value.choices)
    if several or isinstance(now, list | dict):
        block = isinstance(now, list | dict) and now
        return Way("yaml", "\n".join(block_lines(now, 0, 2)) if block else words_of(now))
    long = isinstance(now, str) and "\n" in now
    if long or value.name == "grpo_tui.system_prompt":
        return Way("text", now if isinstance(now, str) else "")
    return Way("line", words_of(now))


def words_of(value: Any) -> str:
    """A value as a person would type it; nothing for none."""
    if value is None or isinstance(value, NoDefault):
        return ""
    return value if isinstance(value, str) else inline(value)


def in_lines(text: str) -> str:
    """YAML that was typed over lines as words of a field: set in, as it would stand below the key."""
    return "\n".join(f"  {line}" if line.strip() else "" for line in text.split("\n")) + "\n"


def refusal(name: str, words: str, kind: Kind = "line") -> str:
    """Why words do not fit a field, empty when they do; no words are the default."""
    if not words.strip():
        return ""
    try:
        value_of_words(name, in_lines(words) if kind == "yaml" else words)
    except CoerceError as error:
        return str(error)
    return ""
