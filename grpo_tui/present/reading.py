"""Format a completion for reading: structure colored and folded, compared with another one, or raw.

A block is what is between an opening and a closing tag (`<think> … </think>`), or a fenced piece of code;
outermost blocks fold. Marks are the tags themselves, a boxed answer, mathematics between dollars, fences, and
JSON keys. Parsing takes linear time, whatever a model wrote.

A comparison is word by word: runs of letters and digits, runs of white space, and every other character
alone. So `23` against `22` differs in one word, and a changed bracket does not affect its neighbours.

Words wrap at the width and line breaks stay. Only trailing blanks and folded text are left out. The output is
safe to show.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

from rich.cells import cell_len, chop_cells

from grpo_tui.core.answers import boxed_spans
from grpo_tui.core.text import safe
from grpo_tui.present.formatting import plural
from grpo_tui.present.train_view import Span

Kind = Literal["text", "tag", "code"]
Role = Literal["tag", "math", "boxed", "key", "fence"]

_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9_-]{0,31})>")
_FENCE = re.compile(r"^ {0,3}(```+|~~~+)[^\n`]*$", re.MULTILINE)
_MATH = re.compile(r"\$\$[^$]{1,2000}\$\$|\$[^$\n]{1,400}\$|\\\([^\n]{1,400}?\\\)|\\\[[^\0]{1,400}?\\\]")
_KEY = re.compile(r'"(?:[^"\\\n]|\\.){1,80}"(?=\s{0,4}:)')


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of the text. Blocks follow each other without a gap.

    Attributes:
        kind: `text` between blocks, `tag`, or `code`.
        name: Name of the tag, or language of the code.
        closed: Whether it is closed; a truncated completion leaves one open.
    """

    kind: Kind
    name: str
    start: int
    end: int
    inner: tuple[int, int]
    closed: bool = True


@dataclass(frozen=True, slots=True)
class Marked:
    """A range to color."""

    start: int
    end: int
    role: Role


def blocks(text: str) -> list[Block]:
    """Split a text into its outermost blocks and the text between them."""
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
    """Return the ranges to color, in order. Of two that overlap the first is kept."""
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
            continue  # a word in angle brackets, such as <br>, is not an unclosed block
        at = closing.end() if closing else len(text)
        yield Block("code" if fence else "tag", name, opening.start(), at, inner, closing is not None)


def _closings(openings: list[re.Match[str]]) -> dict[int, re.Match[str]]:
    """Return the closing match of each opening one, by the number of the opening one."""
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
            continue  # a tag in code is code, unless it closes one opened before
        elif match.group(1) == "/":
            fence = None
            if stack := waiting.get(match.group(2)):
                found[stack[0]] = match  # the outermost one; nested tags of the same name belong to it
                if len(stack) == 1:
                    waiting.pop(match.group(2))
                else:
                    stack.pop()
        else:
            waiting.setdefault(match.group(2), []).append(number)
    return found


def _leads(text: str, opening: re.Match[str]) -> bool:
    before = text[: opening.start()].rstrip(" \t")
    return not before or before.endswith(("\n", ">"))


Change = Literal["same", "gone", "new"]

_TOKENS = re.compile(r"\w+|\s+|[^\w\s]")
MOST_WORDS = 4_000
"""Words per side between the common beginning and end. Longer texts are compared by lines."""
MOST_LINES = 4_000


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of text that is in both, only in the first, or only in the second."""

    kind: Change
    text: str


def word_diff(before: str, after: str) -> list[Piece]:
    """Return the pieces in reading order, removed text before its replacement.

    All pieces except `new` ones spell `before`, all except `gone` ones spell `after`. A difference of more
    than `MOST_WORDS` words is compared by lines, and beyond `MOST_LINES` lines as a whole, to bound the time.
    """
    return _merged(_pieces(before, after))


def _pieces(before: str, after: str) -> Iterator[Piece]:
    first, second = _TOKENS.findall(before), _TOKENS.findall(after)
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
    count = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        count += 1
    return count


def _merged(pieces: Iterator[Piece]) -> list[Piece]:
    """Merge a blank between two changed words into the change, so that not every word is its own piece."""
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
    """Join changes without a common word in between into one removal and one addition."""
    changed = [n for n, piece in enumerate(run) if piece.kind != "same"]
    if not changed:
        return run
    first, last = changed[0], changed[-1] + 1
    gone = "".join(piece.text for piece in run[first:last] if piece.kind != "new")
    new = "".join(piece.text for piece in run[first:last] if piece.kind != "gone")
    inner = [Piece(kind, text) for kind, text in (("gone", gone), ("new", new)) if text]  # type: ignore[arg-type]
    return [*run[:first], *inner, *run[last:]]


ROLES = {"tag": "accent", "math": "strong", "boxed": "good", "key": "accent", "fence": "dim"}
FOLDED_HEAD = 60
TAB = "    "
_WORDS = re.compile(r"\s+|\S+")


def structured(text: str, folded: Collection[str] = (), found: Sequence[tuple[int, int]] = ()) -> list[Span]:
    """Return the text with its structure in colors."""
    spans: list[Span] = []
    colored = [(mark.start, mark.end, ROLES[mark.role]) for mark in marks(text)]
    hits = [(start, end, "match") for start, end in found if end > start]
    for block in blocks(text):
        if block.kind != "text" and (block.name or "code") in folded:
            spans += _folded(text, block)
        else:
            spans += _painted(text, block.start, block.end, colored, hits)
    return spans


def foldable(text: str) -> list[str]:
    """Return the distinct names of the blocks that can be folded, in order."""
    return list(dict.fromkeys((block.name or "code") for block in blocks(text) if block.kind != "text"))


def compared(before: str, after: str) -> list[Span]:
    """Return the differences in the notation of wdiff.

    Removed text is `[-…-]`, added text `{+…+}`, which works without colors.
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
    """Return the text with visible white space: `·` a blank, `→` a tab, `⏎` a line break, `␍` a return."""
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
    colored: Sequence[tuple[int, int, str]],
    hits: Sequence[tuple[int, int, str]],
) -> Iterator[Span]:
    """Yield a range of the text in spans. Search matches override the colors of the structure."""
    cuts = {start, end}
    inside = [place for place in (*colored, *hits) if place[0] < end and place[1] > start]
    for first, last, _ in inside:
        cuts |= {max(first, start), min(last, end)}
    edges = sorted(cuts)
    roles = _roles(edges, [place for place in inside if place[2] != "match"])
    over = _roles(edges, [place for place in inside if place[2] == "match"])
    for first, last, role, hit in zip(edges, edges[1:], roles, over, strict=False):
        yield (text[first:last], " ".join(part for part in (role or "text", hit) if part))


def _roles(edges: Sequence[int], places: Iterable[tuple[int, int, str]]) -> list[str]:
    found = [""] * max(0, len(edges) - 1)
    number = {edge: n for n, edge in enumerate(edges)}
    for first, last, role in places:
        for n in range(number.get(first, 0), number.get(last, len(found))):
            found[n] = role
    return found


def laid_out(spans: Iterable[Span], width: int) -> list[list[Span]]:
    """Wrap spans into lines of at most `width` cells. Longer words are split; line breaks stay."""
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
    """Wrap a row that is too long. Return the cells used in the last line."""
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
            lines.append([])  # the line breaks at these blanks
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
