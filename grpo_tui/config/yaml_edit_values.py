"""One value as YAML text that YAML 1.1 (PyYAML, so TRL) and YAML 1.2 read alike.

Numbers carry a dot before their exponent, texts that would be read as something else are quoted, and a text
of several lines is a block scalar where it stands on lines of its own.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import yaml

WIDEST_INLINE = 96
"""Characters of a list or mapping that is still written on one line."""

_SAFE_START = re.compile(r"[\w./~+(<$^\\;é-]")
_NEVER_PLAIN = re.compile(r": |:$| #|^[-?:] |^[-?:]$|^(---|\.\.\.)")
_IN_FLOW = re.compile(r"[,\[\]{}]|:(?=$|[,\[\]{}\"'])")
_YAML_12 = re.compile(
    r"~|null|true|false|[-+]?\d[\d_,:]*|0o[0-7]+|0x[\da-f]+|[-+]?(\.\d+|\d[\d_]*(\.[\d_]*)?)(e[-+]?\d+)?|"
    r"[-+]?\.(inf|nan)|y|n|yes|no|on|off",
    re.IGNORECASE,
)
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0"}
_RESOLVER = yaml.SafeLoader("")


def scalar(value: Any, *, style: str | None = None, in_flow: bool = False) -> str:
    """Write one value on one line.

    Args:
        value: None, a truth value, a number, or a text.
        style: the sign of the quotes that stood there, kept for a text.
        in_flow: whether it stands inside `[…]` or `{…}`.

    Raises:
        TypeError: the value is of another kind.
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
    """Write any value on one line, collections as `[…]` and `{…}`."""
    if isinstance(value, Mapping):
        inside = (f"{scalar(key, in_flow=True)}: {inline(item, in_flow=True)}" for key, item in value.items())
        return "{" + ", ".join(inside) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(inline(item, in_flow=True) for item in value) + "]"
    return scalar(value, in_flow=in_flow)


def fits_one_line(value: Any) -> bool:
    """Whether a value is written on the line of its key: scalars, short lists of them, empty collections."""
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
    """Whether a text of several lines can be written as a block scalar."""
    return (
        "\n" in value
        and value.strip(" \n") != ""
        and not value.endswith("\n\n")  # how many there are would depend on the blank lines that follow
        and "\r" not in value
        and all(_printable(line) for line in value.split("\n"))
    )


def block_scalar(value: str, indent: int, parent: int) -> tuple[str, list[str]]:
    """Write a text as a block scalar.

    Args:
        value: the text; `can_be_block` holds, or it is one line that stood in a block before.
        indent: column of its lines.
        parent: column of the mapping or list it stands in.

    Returns:
        The header (`|` or `|-`, with a digit where the text begins with a space), and the lines.
    """
    body = value.rstrip("\n")
    header = "|" + (str(indent - parent) if body[:1] in (" ", "\n", "\t") else "")
    header += "" if value.endswith("\n") else "-"
    return header, [" " * indent + line if line else "" for line in body.split("\n")]


def entry(head: str, value: Any, column: int, step: int) -> list[str]:
    """Write `head` (as `key:` or `-`) with its value at a column of a block, over as many lines as it takes.

    Args:
        head: what stands before the value.
        value: the value.
        column: the column of `head`.
        step: by how much a level is indented.
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
    """True when a text without quotes is read as that text, by both versions of YAML."""
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
