"""Write values as YAML that YAML 1.1 (PyYAML, and so TRL) and YAML 1.2 read alike.

Numbers have a dot before their exponent. Strings that would be read as another type are quoted. Multi-line
strings become block scalars where possible.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import yaml

WIDEST_INLINE = 96
"""Maximum width of a list or mapping on one line."""

_SAFE_START = re.compile(r"[\w./~+(<$^\\;é-]")
_NEVER_PLAIN = re.compile(r": |:$| #|^[-?:] |^[-?:]$|^(---|\.\.\.)")
_IN_FLOW = re.compile(r"[,\[\]{}?]|:(?=$|[,\[\]{}\"'])")
_YAML_12 = re.compile(
    r"~|null|true|false|[-+]?\d[\d_,:]*|0o[0-7]+|0x[\da-f]+|[-+]?(\.\d+|\d[\d_]*(\.[\d_]*)?)(e[-+]?\d+)?|"
    r"[-+]?\.(inf|nan)|y|n|yes|no|on|off",
    re.IGNORECASE,
)
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0"}
_RESOLVER = yaml.SafeLoader("")


def scalar(value: Any, *, style: str | None = None, in_flow: bool = False) -> str:
    """Write a scalar on one line.

    Args:
        style: The previous quote character, which a string keeps.
        in_flow: Whether it is inside `[…]` or `{…}`.

    Raises:
        TypeError: The value has another type.
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _number(value)
    if not isinstance(value, str):
        raise TypeError(f"a {type(value).__name__} cannot be written into a config")
    if not _printable(value) or style == '"':
        return '"' + "".join(_escaped(c) for c in value) + '"'
    if style == "'" or not _plain(value, in_flow):
        return "'" + value.replace("'", "''") + "'"
    return value


def inline(value: Any, *, in_flow: bool = False) -> str:
    """Write a value on one line, with collections as `[…]` and `{…}`."""
    if isinstance(value, Mapping):
        inside = (f"{scalar(key, in_flow=True)}: {inline(item, in_flow=True)}" for key, item in value.items())
        return "{" + ", ".join(inside) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(inline(item, in_flow=True) for item in value) + "]"
    return scalar(value, in_flow=in_flow)


def fits_one_line(value: Any) -> bool:
    """Return whether a value fits on the line of its key: scalars, short lists of them, empty collections."""
    if isinstance(value, str):
        return not can_be_block(value)
    if isinstance(value, Mapping):
        return not value
    if isinstance(value, Sequence):
        return not any(isinstance(v, (Mapping, list)) or "\n" in str(v) for v in value) and (
            len(inline(value)) <= WIDEST_INLINE
        )
    return True


def can_be_block(value: str) -> bool:
    """Return whether a multi-line string can be written as a block scalar."""
    return (
        "\n" in value
        and value.strip(" \n") != ""
        and not value.endswith("\n\n")  # blank lines after the scalar would change their number
        and "\r" not in value
        and all(_printable(line) for line in value.split("\n"))
    )


def block_scalar(value: str, indent: int, parent: int) -> tuple[str, list[str]]:
    """Write a string as a block scalar.

    Args:
        value: A string that `can_be_block`, or one line that was in a block before.
        indent: Column of its lines.
        parent: Column of the enclosing mapping or list.

    Returns:
        The header (`|` or `|-`, with a digit if the text begins with a space), and the lines.
    """
    body = value.rstrip("\n")
    header = "|" + (str(indent - parent) if body[:1] in (" ", "\n", "\t") else "")
    header += "" if value.endswith("\n") else "-"
    return header, [" " * indent + line if line else "" for line in body.split("\n")]


def entry(head: str, value: Any, column: int, step: int) -> list[str]:
    """Write a block entry on as many lines as it needs.

    Args:
        head: `key:` or `-`.
        column: Column of `head`.
        step: Indentation per level.
    """
    lead = " " * column + head
    if fits_one_line(value) or (head == "-" and _short_mapping(value)):
        return [f"{lead} {inline(value)}"]
    if isinstance(value, str):
        header, lines = block_scalar(value, column + step, column)
        return [f"{lead} {header}", *lines]
    inner = block_lines(value, column + step, step)
    if head == "-" and isinstance(value, Mapping):
        inner = block_lines(value, column + 2, step)
        return [f"{lead} {inner[0].lstrip(' ')}", *inner[1:]]
    return [lead, *inner]


def block_lines(value: Any, column: int, step: int) -> list[str]:
    """Write a non-empty mapping or list as block lines at a column."""
    if isinstance(value, Mapping):
        heads = [(f"{scalar(key)}:", item) for key, item in value.items()]
    else:
        heads = [("-", item) for item in value]
    return [line for head, item in heads for line in entry(head, item, column, step)]


def _short_mapping(value: Any) -> bool:
    return (
        isinstance(value, Mapping)
        and all("\n" not in str(item) and not isinstance(item, list) for item in value.values())
        and len(inline(value)) <= WIDEST_INLINE
    )


def _number(value: float) -> str:
    if math.isnan(value):
        return ".nan"
    if math.isinf(value):
        return ".inf" if value > 0 else "-.inf"
    text = repr(value)
    if 0 < abs(value) < 0.001:  # a learning rate: 2.0e-4 rather than 0.0002
        text = f"{Decimal(text):e}"
    mantissa, e, exponent = text.partition("e")
    if not e:
        return mantissa
    sign = "-" if exponent.startswith("-") else "+"
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}e{sign}{exponent.lstrip('+-').lstrip('0')}"


def _plain(value: str, in_flow: bool) -> bool:
    """Return whether both versions of YAML read the unquoted text as this string."""
    if not value or value != value.strip() or not _SAFE_START.match(value) or _NEVER_PLAIN.search(value):
        return False
    if (in_flow and _IN_FLOW.search(value)) or _YAML_12.fullmatch(value):
        return False
    return str(_RESOLVER.resolve(yaml.ScalarNode, value, (True, False))) == "tag:yaml.org,2002:str"


def _printable(value: str) -> bool:
    return not yaml.reader.Reader.NON_PRINTABLE.search(value) and not any(
        c in value for c in "\n\r\x85\u2028\u2029\ufeff\t"
    )


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character == "\t" or not _printable(character):
        code = ord(character)
        return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
    return character
