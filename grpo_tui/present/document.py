"""Write a text with tables and charts as Markdown or as one HTML page.

A document is a list of blocks of plain text. All escaping happens here: names, prompts and messages can come
from anyone's run folder.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from grpo_tui.core.text import one_line, safe
from grpo_tui.present.formatting import digits_apart, fixed
from grpo_tui.present.glyphs import spark
from grpo_tui.present.svg_chart import Curve, line_chart


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading; levels start at 1."""

    text: str
    level: int = 1


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph."""

    text: str


@dataclass(frozen=True, slots=True)
class Items:
    """A bulleted list."""

    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells under a head."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Code:
    """Preformatted lines, optionally in a language."""

    lines: tuple[str, ...]
    language: str = ""


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines over the steps, with a label. Markdown shows the SVG `file`, or without one a line of text."""

    label: str
    curves: tuple[Curve, ...]
    file: str = ""


Block = Heading | Paragraph | Items | Table | Code | Chart

CURVE = 48
"""Width of a line in a text chart, in block characters."""
_SPECIAL = re.compile(r"[\\`*\[\]~|#!$@]|(?<![^\W_])_|_(?![^\W_])|(?<=:)/(?=/)|(?<=www)\.|^[-+=]")
"""What Markdown treats as markup or a link, except an underscore inside a word."""
_NUMBERED = re.compile(r"^(\d+)([.)])(?=\s|$)")


def markdown(blocks: Iterable[Block]) -> str:
    """Return a document as GitHub-flavored Markdown."""
    return "\n".join(f"{_markdown(block)}\n" for block in blocks)


def escaped(text: str) -> str:
    """Return text on one line, escaped for Markdown."""
    shown = _SPECIAL.sub(r"\\\g<0>", html.escape(one_line(text), quote=False))
    return _NUMBERED.sub(r"\1\\\2", shown)


def _markdown(block: Block) -> str:
    match block:
        case Heading(text, level):
            return f"{'#' * level} {escaped(text)}"
        case Paragraph(text):
            return escaped(text)
        case Items(texts):
            return "\n".join(f"- {escaped(text)}" for text in texts)
        case Table(head, rows):
            lines = [map(escaped, head), ["---"] * len(head), *(map(escaped, row) for row in rows)]
            return "\n".join(f"| {' | '.join(line)} |" for line in lines)
        case Code(lines, language):
            return _fenced(lines, language)
        case Chart(label, _, file):
            return f"![{escaped(label)}]({quote(file)})" if file else _markdown(_in_text(block))


def _fenced(lines: Sequence[str], language: str) -> str:
    text = safe("\n".join(lines))
    fence = "`" * max([3, *(len(ticks) + 1 for ticks in re.findall("`+", text))])
    return f"{fence}{language}\n{text}\n{fence}"


def _in_text(chart: Chart) -> Table:
    """Return a chart as a table of sparklines on one scale, with their first and last values."""
    lines = [[bucket.smooth for bucket in curve.buckets] for curve in chart.curves]
    known = [value for line in lines for value in line if value is not None]
    low, high = (min(known), max(known)) if known else (None, None)
    rows = []
    for curve, line in zip(chart.curves, lines, strict=True):
        own = [value for value in line if value is not None]
        ends = (own[0], own[-1]) if own else (None, None)
        digits = digits_apart(ends)
        cells = (fixed(ends[0], digits), spark(line, CURVE, low, high), fixed(ends[1], digits))
        rows.append((curve.name, *cells))
    return Table((chart.label, "First", "Smoothed", "Last"), tuple(rows))


# -- HTML ---------------------------------------------------------------------------------------------

_STYLE = (
    "body{font:15px/1.5 sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "body{color:#222;background:#fff}"
    "table{border-collapse:collapse}th,td{text-align:left;padding:.2rem .8rem;border-bottom:1px solid #ddd}"
    "td,li,p{overflow-wrap:anywhere}pre{overflow-x:auto;background:#f6f6f6;padding:.8rem}svg{max-width:100%}"
)
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def html_page(title: str, blocks: Iterable[Block]) -> str:
    """Return a document as a page that loads nothing and runs no code."""
    head = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f"<title>{_text(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
    )
    return head + "\n".join(map(_html, blocks)) + "\n</body>\n</html>\n"


def _text(text: str) -> str:
    return html.escape(one_line(text))


def _html(block: Block) -> str:
    match block:
        case Heading(text, level):
            return f"<h{level}>{_text(text)}</h{level}>"
        case Paragraph(text):
            return f"<p>{_text(text)}</p>"
        case Items(texts):
            return f"<ul>{''.join(f'<li>{_text(text)}</li>' for text in texts)}</ul>"
        case Table(head, rows):
            lines = [_row("th", head), *(_row("td", row) for row in rows)]
            return "<table>\n" + "\n".join(lines) + "\n</table>"
        case Code(lines):
            return f"<pre>{html.escape(safe(chr(10).join(lines)))}</pre>"
        case Chart(label, curves):
            return line_chart(curves, label)


def _row(tag: str, cells: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{_text(cell)}</{tag}>' for cell in cells)}</tr>"
