"""Lay a completion out for reading: structure coloured and folded, compared with another one, or raw.

Words wrap at the width, line breaks stay; only blanks at the end of a line and what is folded are left out.
Knows texts and roles; knows nothing of where they are painted. What leaves here is safe to show.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from rich.cells import cell_len, chop_cells

from grpo_tui.core.text import safe
from grpo_tui.present.formatting import plural
from grpo_tui.present.structure import Block, blocks, marks
from grpo_tui.present.train_view import Span
from grpo_tui.present.word_diff import word_diff

ROLES = {"tag": "accent", "math": "strong", "boxed": "good", "key": "accent", "fence": "dim"}
FOLDED_HEAD = 60
"""Characters of a folded block that still show."""
TAB = "    "
_WORDS = re.compile(r"\s+|\S+")


def structured(text: str, folded: Collection[str] = (), found: Sequence[tuple[int, int]] = ()) -> list[Span]:
    """The text with its structure in colours.

    Args:
        text: a completion.
        folded: names of the blocks that are shown as one line.
        found: places that a search has hit, start and end each.
    """
    spans: list[Span] = []
    coloured = [(mark.start, mark.end, ROLES[mark.role]) for mark in marks(text)]
    hits = [(start, end, "match") for start, end in found if end > start]
    for block in blocks(text):
        if block.kind != "text" and block_name(block) in folded:
            spans += _folded(text, block)
        else:
            spans += _painted(text, block.start, block.end, coloured, hits)
    return spans


def block_name(block: Block) -> str:
    """The name by which a block folds."""
    return block.name or "code"


def foldable(text: str) -> list[str]:
    """Names of the blocks that can be folded, each once, in order."""
    return list(dict.fromkeys(block_name(block) for block in blocks(text) if block.kind != "text"))


def compared(before: str, after: str) -> list[Span]:
    """What `after` has that `before` has not, and the other way round, in the notation of wdiff.

    What went stands as `[-…-]`, what came as `{+…+}`: the brackets say it without colours.
    """
    spans: list[Span] = []
    for piece in word_diff(before, after):
        if piece.kind == "same":
            spans.append((piece.text, "text"))
        elif piece.kind == "gone":
            spans.append((f"[-{piece.text}-]", "bad"))
        else:
            spans.append(("{+" + piece.text + "+}", "good"))
    return spans


def raw(text: str) -> list[Span]:
    """The text with its white space visible: `·` a blank, `→` a tab, `⏎` a line break, `␍` a return."""
    spans: list[Span] = []
    for part in re.split(r"([ \t\r\n]+)", text):
        if part.strip(" \t\r\n"):
            spans.append((part, "text"))
        elif part:
            shown = part.replace("\r", "␍").replace(" ", "·").replace("\t", "→").replace("\n", "⏎\n")
            spans.append((shown, "dim"))
    return spans


def _folded(text: str, block: Block) -> Iterator[Span]:
    inside = text[slice(*block.inner)]
    head = " ".join(inside[: 4 * FOLDED_HEAD].split())[:FOLDED_HEAD]
    rows = inside.strip("\n").count("\n") + 1
    size = f"{len(inside):,} characters" + (f", {plural(rows, 'line')}" if rows > 1 else "")
    name = f"<{block.name}>" if block.kind == "tag" else f"code {block.name}".rstrip()
    yield (f"▸ {name} ", "accent")
    yield (f"{size}{'' if block.closed else ', not closed'}   ", "dim")
    yield (head + ("…" if len(head) < len(inside.strip()) else ""), "dim")
    if text[block.end : block.end + 1] not in ("\n", ""):
        yield ("\n", "text")


def _painted(
    text: str,
    start: int,
    end: int,
    coloured: Sequence[tuple[int, int, str]],
    hits: Sequence[tuple[int, int, str]],
) -> Iterator[Span]:
    """A stretch of the text in spans; a hit of the search goes over the colours of the structure."""
    cuts = {start, end}
    inside = [place for place in (*coloured, *hits) if place[0] < end and place[1] > start]
    for first, last, _ in inside:
        cuts |= {max(first, start), min(last, end)}
    edges = sorted(cuts)
    roles = _roles(edges, [place for place in inside if place[2] != "match"])
    over = _roles(edges, [place for place in inside if place[2] == "match"])
    for first, last, role, hit in zip(edges, edges[1:], roles, over, strict=False):
        yield (text[first:last], " ".join(part for part in (role or "text", hit) if part))


def _roles(edges: Sequence[int], places: Iterable[tuple[int, int, str]]) -> list[str]:
    """The role of each stretch between two edges; empty where no place covers it."""
    found = [""] * max(0, len(edges) - 1)
    number = {edge: n for n, edge in enumerate(edges)}
    for first, last, role in places:
        for n in range(number.get(first, 0), number.get(last, len(found))):
            found[n] = role
    return found


def laid_out(spans: Iterable[Span], width: int) -> list[list[Span]]:
    """Lines of at most `width` cells: words wrap, a longer word is cut, line breaks stay."""
    width = max(2, width)
    lines: list[list[Span]] = [[]]
    used = 0
    for text, role in spans:
        for number, row in enumerate(safe(text.replace("\r\n", "\n")).replace("\t", TAB).split("\n")):
            if number:
                lines.append([])
                used = 0
            if not row:
                continue
            if used + cell_len(row) <= width:
                lines[-1].append((row, role))
                used += cell_len(row)
                continue
            used = _wrapped(row, role, lines, used, width)
    return lines


def _wrapped(row: str, role: str, lines: list[list[Span]], used: int, width: int) -> int:
    """Put a row that is too long into lines; gives the cells used of the last one."""
    pending = ""
    pending_w = 0
    for word in _WORDS.findall(row):
        cells = cell_len(word)
        if used + pending_w + cells <= width:
            pending += word
            pending_w += cells
            continue
        if pending:
            lines[-1].append((pending, role))
            used, pending, pending_w = used + pending_w, "", 0
        if word.isspace():
            lines.append([])  # the blanks at the end of a line are what it is broken at
            used = 0
            continue
        if used:
            lines.append([])
            used = 0
        parts = chop_cells(word, width) if cells > width else [word]
        for part in parts[:-1]:
            lines[-1].append((part, role))
            lines.append([])
        pending, pending_w = parts[-1], cell_len(parts[-1])
    if pending:
        lines[-1].append((pending, role))
        used += pending_w
    return used
