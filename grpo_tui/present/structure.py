"""Find the structure of a completion: blocks that fold, and marks to colour. Knows texts; paints nothing.

A block is what stands between an opening tag and its closing one (`<think> … </think>`), or a fenced stretch
of code; the outermost ones fold. Marks are the tags themselves, a boxed answer, mathematics between dollars,
fences, and keys of JSON. Reading takes time in proportion to the text, whatever a model wrote.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from grpo_tui.core.answers import boxed_spans

Kind = Literal["text", "tag", "code"]
Role = Literal["tag", "math", "boxed", "key", "fence"]

_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9_-]{0,31})>")
_FENCE = re.compile(r"^ {0,3}(```+|~~~+)[^\n`]*$", re.MULTILINE)
_MATH = re.compile(r"\$\$[^$]{1,2000}\$\$|\$[^$\n]{1,400}\$|\\\([^\n]{1,400}?\\\)|\\\[[^\0]{1,400}?\\\]")
_KEY = re.compile(r'"(?:[^"\\\n]|\\.){1,80}"(?=\s{0,4}:)')


@dataclass(frozen=True, slots=True)
class Block:
    """A stretch of the text; blocks follow each other without a gap.

    Attributes:
        kind: `text` between blocks, `tag`, or `code`.
        name: name of the tag, or the language of the code.
        start, end: places in the text, the tags or fences included.
        inner: start and end of what is inside.
        closed: whether it ends as it should; a truncated completion leaves one open.
    """

    kind: Kind
    name: str
    start: int
    end: int
    inner: tuple[int, int]
    closed: bool = True


@dataclass(frozen=True, slots=True)
class Marked:
    """A stretch to colour."""

    start: int
    end: int
    role: Role


def blocks(text: str) -> list[Block]:
    """The outermost blocks and what stands between them, in order; they spell the text."""
    found: list[Block] = []
    at = 0
    for block in _outermost(text):
        if block.start > at:
            found.append(Block("text", "", at, block.start, (at, block.start)))
        found.append(block)
        at = block.end
    if at < len(text) or not found:
        found.append(Block("text", "", at, len(text), (at, len(text))))
    return found


def marks(text: str) -> list[Marked]:
    """What is coloured, by place; of two that overlap the first one stays."""
    wanted = [Marked(m.start(), m.end(), "tag") for m in _TAG.finditer(text)]
    wanted += [Marked(start, end, "boxed") for start, end in boxed_spans(text)]
    wanted += [Marked(m.start(), m.end(), "fence") for m in _FENCE.finditer(text)]
    wanted += [Marked(m.start(), m.end(), "math") for m in _MATH.finditer(text)]
    wanted += [Marked(m.start(), m.end(), "key") for m in _KEY.finditer(text)]
    wanted.sort(key=lambda mark: (mark.start, -mark.end))
    found: list[Marked] = []
    for mark in wanted:
        if not found or mark.start >= found[-1].end:
            found.append(mark)
    return found


def _outermost(text: str) -> Iterator[Block]:
    """Tags and fences that no other one holds, in order."""
    openings = sorted([*_TAG.finditer(text), *_FENCE.finditer(text)], key=lambda match: match.start())
    closings = _closings(openings)
    at = 0
    for number, opening in enumerate(openings):
        if opening.start() < at or opening.group(1) == "/":
            continue
        closing = closings.get(number)
        fence = opening.re is _FENCE
        name = opening.group(0).strip(" `~") if fence else opening.group(2)
        inner = (opening.end(), closing.start() if closing else len(text))
        if closing is None and not fence and not _leads(text, opening):
            continue  # a word in angle brackets, such as <br>, is no block that somebody forgot to close
        at = closing.end() if closing else len(text)
        yield Block("code" if fence else "tag", name, opening.start(), at, inner, closing is not None)


def _closings(openings: list[re.Match[str]]) -> dict[int, re.Match[str]]:
    """The match that closes each opening one, by the number of the opening one."""
    found: dict[int, re.Match[str]] = {}
    waiting: dict[str, list[int]] = {}
    fence: int | None = None
    for number, match in enumerate(openings):
        if match.re is _FENCE:
            if fence is None:
                fence = number
            elif match.group(1).startswith(openings[fence].group(1)) and match.group(0).strip(" `~") == "":
                found[fence], fence = match, None
        elif fence is not None and not (match.group(1) == "/" and match.group(2) in waiting):
            continue  # tags inside code are code; one that closes what began before ends the code too
        elif match.group(1) == "/":
            fence = None
            if stack := waiting.get(match.group(2)):
                found[stack[0]] = match  # the outermost; what is repeated inside belongs to it
                if len(stack) == 1:
                    waiting.pop(match.group(2))
                else:
                    stack.pop()
        else:
            waiting.setdefault(match.group(2), []).append(number)
    return found


def _leads(text: str, opening: re.Match[str]) -> bool:
    """True for an unclosed tag that begins the text or a line, as one that ran into the limit does."""
    before = text[: opening.start()].rstrip(" \t")
    return not before or before.endswith(("\n", ">"))
