"""Compare two texts word by word: what stays, what went, what came. Knows nothing of completions.

Words are runs of letters and digits, runs of white space, and each other character alone, so that `23`
against `22` differs in one word and a changed bracket does not take its neighbours along.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

Kind = Literal["same", "gone", "new"]

_WORDS = re.compile(r"\w+|\s+|[^\w\s]")
MOST_WORDS = 4_000
"""Per side, of what lies between the common beginning and end; longer texts are compared line by line."""
MOST_LINES = 4_000


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of text that both have, only the first, or only the second."""

    kind: Kind
    text: str


def word_diff(before: str, after: str) -> list[Piece]:
    """Return the pieces in reading order, what went before what came in its place.

    All pieces but the `new` ones spell `before`, all but the `gone` ones spell `after`. Texts whose
    difference is longer than `MOST_WORDS` words are compared by lines, and beyond `MOST_LINES` lines as one
    whole, so that the answer comes at once.
    """
    return _merged(_pieces(before, after))


def _pieces(before: str, after: str) -> Iterator[Piece]:
    first, second = _WORDS.findall(before), _WORDS.findall(after)
    start = _shared_start(first, second)
    end = _shared_start(first[start:][::-1], second[start:][::-1])
    yield Piece("same", "".join(first[:start]))
    middle = first[start : len(first) - end], second[start : len(second) - end]
    if max(map(len, middle)) > MOST_WORDS:
        middle = tuple("".join(words).splitlines(keepends=True) for words in middle)  # type: ignore[assignment]
    if max(map(len, middle)) > MOST_LINES:
        middle = tuple(["".join(words)] for words in middle)  # type: ignore[assignment]
    yield from _matched(*middle)
    yield Piece("same", "".join(first[len(first) - end :]))


def _matched(first: Sequence[str], second: Sequence[str]) -> Iterator[Piece]:
    for tag, i, j, k, m in SequenceMatcher(None, first, second, autojunk=False).get_opcodes():
        if tag == "equal":
            yield Piece("same", "".join(first[i:j]))
        else:
            yield Piece("gone", "".join(first[i:j]))
            yield Piece("new", "".join(second[k:m]))


def _shared_start(first: Sequence[str], second: Sequence[str]) -> int:
    """How many words both begin with."""
    count = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        count += 1
    return count


def _merged(pieces: Iterator[Piece]) -> list[Piece]:
    """A blank between two changed words belongs to the change; without that every word would be a piece."""
    runs: list[list[Piece]] = [[]]
    for piece in pieces:
        if not piece.text:
            continue
        if piece.kind == "same" and not piece.text.isspace():
            runs += [[piece], []]
        else:
            runs[-1].append(piece)
    found: list[Piece] = []
    for run in runs:
        found += _joined(run)
    return found


def _joined(run: list[Piece]) -> list[Piece]:
    """Pieces without a common word between them, as one that went and one that came."""
    changed = [n for n, piece in enumerate(run) if piece.kind != "same"]
    if not changed:
        return run
    first, last = changed[0], changed[-1] + 1
    gone = "".join(piece.text for piece in run[first:last] if piece.kind != "new")
    new = "".join(piece.text for piece in run[first:last] if piece.kind != "gone")
    inner = [Piece(kind, text) for kind, text in (("gone", gone), ("new", new)) if text]  # type: ignore[arg-type]
    return [*run[:first], *inner, *run[last:]]
