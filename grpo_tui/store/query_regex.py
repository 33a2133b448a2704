"""What a text must hold for a regular expression to match it, read from the expression as two quick tests.

Looking for a few characters is many times quicker than matching, so a search looks for these first. And `re`
takes some 20 ns for each character of a text that it goes through in vain; putting a mark in the place of
each character and looking for a run of marks takes a tenth of that. What is not understood of an expression
is not tested.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
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


ASCII = range(128)
MOST_MARKS = 12
"""Characters side by side that are tested for."""
TRIED = 64
"""After so many texts it is known whether the test is of use."""

_ASCII_SET = frozenset(ASCII)
_ALPHABETS = int(re.ASCII | re.UNICODE | re.LOCALE)
"""Of these flags a group has one."""

_Kind = frozenset[int]
"""The ASCII characters that stand in one place."""


@dataclass(slots=True)
class Sieve:
    """Tells texts in which a pattern cannot match; of those it lets through, it knows nothing."""

    table: bytes
    """A mark for each byte."""
    marks: bytes
    """The run of marks that every match holds."""
    ascii_only: bool
    """Whether nothing is known of a text with other characters."""
    _tried: int = field(default=0, init=False)
    _passed: int = field(default=0, init=False)

    def lets(self, text: str) -> bool:
        """False when the pattern cannot match; a test that mostly says nothing is done no more."""
        if self._tried >= TRIED and 2 * self._passed > self._tried:
            return True
        if self.ascii_only and not text.isascii():
            return True
        marked = text.encode(errors="surrogatepass").translate(self.table)
        passes = self.marks[:1] in marked and self.marks in marked
        self._tried += 1
        self._passed += passes
        return passes


def sieve(pattern: str) -> Sieve | None:
    """The best test for a pattern that `re.compile` takes; None when nothing is known of it."""
    try:
        from re import _parser  # type: ignore[attr-defined]

        tree = _parser.parse(pattern)
        flags = tree.state.flags | re.compile(pattern).flags
        runs = list(_runs(list(tree), flags))
    except (ImportError, AttributeError, TypeError, ValueError, re.error, RecursionError):
        return None  # another Python parses otherwise
    best = max((window for run in runs for window in _windows(run)), key=_worth, default=())
    return _made(best) if best else None


def _worth(window: Sequence[_Kind]) -> float:
    """How seldom such a run is, by the sizes of its kinds."""
    return sum(math.log2(len(ASCII) / max(1, len(kind))) for kind in window)


def _windows(run: Sequence[_Kind]) -> Iterator[Sequence[_Kind]]:
    """Parts of a run in which any two kinds are the same or have no character in common."""
    for first in range(len(run)):
        last = first
        while (
            last < min(len(run), first + MOST_MARKS)
            and run[last]
            and all(run[last] == kind or not run[last] & kind for kind in run[first:last])
        ):
            last += 1
        if last > first:
            yield run[first:last]


def _made(window: Sequence[_Kind]) -> Sieve:
    kinds = list(dict.fromkeys(window))
    table = bytearray(256)
    for mark, kind in enumerate(kinds, 1):
        for char in kind:
            table[char] = mark
    if len(kinds) == 1:
        table[128:] = b"\x01" * 128  # any other character may be of this kind; it has two bytes or more
    return Sieve(bytes(table), bytes(kinds.index(kind) + 1 for kind in window), len(kinds) > 1)


def _runs(items: Sequence[Any], flags: int) -> Iterator[list[_Kind]]:
    """Runs of kinds that stand side by side in every match."""
    run: list[_Kind] = []
    for op, value in _flat(items, flags):
        if op == "KIND":
            run.append(value)
            continue
        if op == "AT":
            continue  # takes no character
        kind, least, most = value if op == "TIMES" else (None, 0, None)
        if kind is not None and least:
            run += [kind] * min(least, MOST_MARKS)
        if kind is None or least != most or least > MOST_MARKS:
            yield run
            run = [kind] * min(least, MOST_MARKS) if kind is not None else []
        if op == "INNER":
            yield from _runs(*value)
    yield run


def _flat(items: Sequence[Any], flags: int) -> Iterator[tuple[str, Any]]:
    """What stands one behind the other: kinds, once or some times, and what ends a run of them or not."""
    for op, value in items:
        name = str(op)
        if name in ("LITERAL", "NOT_LITERAL", "IN"):
            yield "KIND", _kind((op, value), flags)
        elif name in ("AT", "ASSERT", "ASSERT_NOT"):
            yield "AT", None
        elif name == "SUBPATTERN":
            _, added, removed, inner = value
            kept = flags & ~_ALPHABETS if added & _ALPHABETS else flags
            yield from _flat(list(inner), (kept | added) & ~removed)
        elif name == "ATOMIC_GROUP":
            yield from _flat(list(value), flags)
        elif name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            least, most, inner = value
            single = list(inner)
            if len(single) == 1 and str(single[0][0]) in ("LITERAL", "NOT_LITERAL", "IN"):
                yield "TIMES", (_kind(single[0], flags), int(least), int(most))
            else:
                yield ("INNER", (single, flags)) if least else ("BREAK", None)
        else:
            yield "BREAK", None


def _kind(item: Any, flags: int) -> _Kind:
    """Which ASCII characters one item matches, asked of `re` itself."""
    if str(item[0]) == "LITERAL" and not flags & re.IGNORECASE:
        return frozenset({item[1]} & _ASCII_SET)
    from re import _compiler, _parser  # type: ignore[attr-defined]

    state = _parser.State()
    state.flags = flags & ~re.DEBUG
    one = _compiler.compile(_parser.SubPattern(state, [item]), state.flags)
    return frozenset(char for char in ASCII if one.fullmatch(chr(char)))
