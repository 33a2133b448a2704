"""What a person types into one field, read as that field's type.

It knows the fields' types, no file and no other field.
"""

from __future__ import annotations

from typing import Any

from grpo_tui.config import yaml_lines
from grpo_tui.config.coerce import CoerceError, coerce, kinds_of, numbers_in_text
from grpo_tui.config.origins import all_fields, top_field
from grpo_tui.config.section_fields import SECTION

_TEXT_PARTS = frozenset(
    {"name", "source", "kind", "from", "to", "tag", "pattern", "user", "assistant", "path", "split"}
)
"""Last parts of a dotted key whose value is a text, whatever it looks like."""


def value_of_words(key: str, words: str) -> Any:
    """Return the value that words stand for: `5e-6` for a rate is a number, `no` for a name is a text.

    Args:
        key: the dotted key.
        words: what was typed, not empty.

    Raises:
        CoerceError: they do not fit; it may hold a suggestion.
    """
    info = all_fields().get(key)
    if info is not None and info.choices is None and kinds_of(info.annotation) <= {"str", "none"}:
        return words if "\n" in words else words.strip()
    below = key != top_field(key)
    if below and key.rpartition(".")[2] in _TEXT_PARTS and key.startswith((f"{SECTION}.", "datasets.")):
        return words if "\n" in words else words.strip()
    try:
        value, plain = yaml_lines.parse_value(words)
    except yaml_lines.YamlError as error:
        raise CoerceError(f"{key} cannot be read: {error.message}") from error
    if info is None or info.owner == SECTION:
        return _number_meant(value) if plain else value
    return coerce(info, value).value


def _number_meant(value: Any) -> Any:
    """Read `1e-5`, which YAML 1.1 takes for text, as the number it is meant to be."""
    number = numbers_in_text(value)
    return value if number is None else number
