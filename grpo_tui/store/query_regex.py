"""What a text must hold for a regular expression to match it, read from the expression.

Looking for a few characters is many times quicker than matching, so a search looks for these first. What is
not understood of an expression demands nothing. Knows Python's `re`; knows no SQL.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

_ODD_CASE = frozenset("iksIKS")
"""ASCII letters that match a letter outside ASCII when case is ignored: the dotted i, Kelvin, the long s."""


def demanded(pattern: str) -> tuple[str, ...]:
    """Texts one of which every match holds, ASCII letters in any case; empty when nothing is demanded.

    Args:
        pattern: A pattern that `re.compile` takes.
    """
    try:
        from re import _parser  # type: ignore[attr-defined]

        tree = _parser.parse(pattern)
        flags = tree.state.flags | re.compile(pattern).flags
        return _of_sequence(list(tree), bool(flags & re.IGNORECASE)) or ()
    except (ImportError, AttributeError, TypeError, ValueError, re.error, RecursionError):
        return ()  # another Python parses otherwise


def _of_sequence(items: Sequence[Any], ignoring: bool) -> tuple[str, ...] | None:
    """The best demand of what stands one behind the other."""
    found: list[tuple[str, ...]] = []
    run: list[str] = []

    def close() -> None:
        if run:
            found.append(("".join(run),))
        run.clear()

    for op, value in items:
        name = str(op)
        if name == "LITERAL":
            char = chr(value)
            if ignoring and (char in _ODD_CASE or not char.isascii()):
                close()
            else:
                run.append(char)
        elif name == "AT":
            continue  # takes no character
        else:
            close()
            inner = _of_group(name, value, ignoring)
            if inner:
                found.append(inner)
    close()
    return max(found, key=lambda texts: (min(map(len, texts)), -len(texts)), default=None)


def _of_group(name: str, value: Any, ignoring: bool) -> tuple[str, ...] | None:
    if name == "SUBPATTERN":
        _, added, _removed, inner = value
        return _of_sequence(list(inner), ignoring or bool(added & re.IGNORECASE))
    if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        least, _most, inner = value
        return _of_sequence(list(inner), ignoring) if least else None
    if name == "ATOMIC_GROUP":
        return _of_sequence(list(value), ignoring)
    if name == "BRANCH":
        parts = [_of_sequence(list(branch), ignoring) for branch in value[1]]
        if all(parts) and len(parts) <= 8:
            return tuple(text for part in parts if part for text in part)
    return None
