"""A completion token by token, as lines: how surprising each token was, and which were the most surprising.

A token is between two `│`, and below it is its surprise −log p in whole nats, so that it works without
colors. The output is safe to show.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len, chop_cells

from grpo_tui.core.text import one_line, safe, wrapped
from grpo_tui.core.token_scores import MOST_TOKENS, Token, TokenScores
from grpo_tui.present.formatting import duration, fixed, plural, within
from grpo_tui.present.train_view import Span

Line = list[Span]
UNSURE, SURPRISED, STRUCK = 0.7, 2.3, 4.6
"""Surprise in nats from which a token is colored: probabilities of a half, a tenth and a hundredth."""
LISTED = 20
LEGEND = "below each token −log p in nats: 1 is p 37 %, 2 14 %, 5 0.7 %, + from 9.5 on"
NOTHING = "◌"
"""Shown for a token without its own cell: the first part of a character, or a combining mark."""
PREFERRED = 24


def role_of(token: Token) -> str:
    """Return the color role of a token by its surprise."""
    if token.surprise >= STRUCK:
        return "bad"
    if token.surprise >= SURPRISED:
        return "attention"
    return "text" if token.surprise >= UNSURE else "dim"


def sign_of(token: Token) -> str:
    """Return a token's surprise in one cell: blank below a half, then whole nats, `+` from 9.5 on."""
    if token.surprise < 0.5:
        return " "
    return "+" if token.surprise >= 9.5 else str(max(1, math.floor(token.surprise + 0.5)))


def visible(text: str) -> str:
    """Return a token's text on one line, at least one cell wide, with visible white space."""
    shown = safe(text).replace("\r", "␍").replace("\n", "⏎").replace("\t", "→")
    if not shown.strip():
        shown = shown.replace(" ", "·")
    return shown if cell_len(shown) else NOTHING + shown


@dataclass(frozen=True, slots=True)
class HeatRow:
    """A row of tokens: text, role and position of each, -1 for a boundary; below it the surprise."""

    pieces: list[tuple[str, str, int]]
    signs: Line

    def lines(self, chosen: int | None = None) -> list[Line]:
        """Return the tokens, with the one at `chosen` marked, and their surprise."""
        tokens = [
            (text, f"{role} selected" if place == chosen else role) for text, role, place in self.pieces
        ]
        return [tokens, self.signs]


def heat_rows(scores: TokenScores, width: int) -> list[HeatRow]:
    """Arrange the tokens in rows of at most `width` cells. Line breaks start a row; wide tokens are split."""
    width = max(8, width)
    rows = [HeatRow([], [])]
    used = 0
    for place, token in enumerate(scores.tokens):
        text, role = visible(token.text), role_of(token)
        parts = chop_cells(text, width - 1) if cell_len(text) > width - 1 else [text]
        for number, part in enumerate(parts):
            cells = cell_len(part)
            if used and used + cells + 1 > width:
                rows.append(HeatRow([], []))
                used = 0
            rows[-1].pieces.append((part, role, place))
            rows[-1].pieces.append(("│" if number == len(parts) - 1 else " ", "rule", -1))
            sign = sign_of(token) if number == 0 else " "
            rows[-1].signs.append((sign + " " * cells, role))
            used += cells + 1
        if "\n" in token.text:
            rows.append(HeatRow([], []))
            used = 0
    return [row for row in rows if row.pieces]


def heat_lines(scores: TokenScores, width: int) -> list[Line]:
    """Return two lines per row of tokens: the tokens, and their surprise."""
    return [line for row in heat_rows(scores, width) for line in row.lines()]


def line_of(rows: Sequence[HeatRow], place: int) -> int:
    """Return the line in which a token begins, from 0."""
    return next((2 * n for n, row in enumerate(rows) if any(at == place for _, _, at in row.pieces)), 0)


def head_lines(scores: TokenScores, width: int) -> list[Line]:
    """Return the heading: the policy, its mean figures, and notes."""
    figures = f"mean log p {fixed(scores.mean_logprob, 3)}, entropy {fixed(scores.mean_entropy, 3)}" + (
        f", KL {fixed(scores.mean_kl, 4)}" if scores.mean_kl is not None else ""
    )
    against = f" against {scores.base}" if scores.base else ""
    lines: list[Line] = [
        [(" ", "text"), (one_line(f"{scores.policy}{against}", max(10, width - 2)), "strong")],
        [(f" {figures}", "text"), ("  nats a token", "dim")],
    ]
    run = f"log p at temperature 1; the run samples at {scores.temperature:g}"
    where = f"{scores.precision}, {scores.device}, {duration(scores.seconds)}"
    how = f"{plural(scores.of, 'token')}, {run}; {where}"
    lines += [[(f" {row}", "dim")] for row in wrapped(one_line(how), max(16, width - 2))]
    if scores.of > len(scores.tokens):
        cut = f"only the first {MOST_TOKENS:,} of {scores.of:,} tokens were scored"
        lines += _warning(cut, width)
    if scores.retokenized:
        why = f"these may differ from the generated tokens: {scores.note}"
        lines += _warning(why, width)
    return lines


def _warning(text: str, width: int) -> list[Line]:
    rows = wrapped(one_line(text), max(16, width - 4))
    return [[(f" {'⚠' if number == 0 else ' '} {row}", "attention")] for number, row in enumerate(rows)]


def surprising_lines(
    scores: TokenScores, width: int, most: int = LISTED, chosen: int | None = None
) -> list[Line]:
    """Return a heading, then the most surprising tokens."""
    with_base = bool(scores.base)
    name_w = max(8, min(PREFERRED, width - 58 - (8 if with_base else 0)))
    columns = f"{'p':>8}{'log p':>8}{'rank':>7}{'entropy':>9}" + (f"{'KL':>8}" if with_base else "")
    lines: list[Line] = [[(f"  {'at':>5}  {'token':{name_w}}{columns}  more likely", "dim")]]
    for place in scores.most_surprising(most):
        token = scores.tokens[place]
        here = " selected" if place == chosen else ""
        name = one_line(visible(token.text), name_w - 1)
        figures = (
            f"{_probability(token.logprob):>8}{within(token.logprob, 7):>8}{token.rank:>7,}"
            f"{fixed(token.entropy):>9}" + (f"{within(token.kl, 7):>8}" if with_base else "")
        )
        line: Line = [
            ("❙ " if here else "  ", "accent" + here),
            (f"{place + 1:>5}  ", "dim" + here),
            (name + " " * (name_w - cell_len(name)), role_of(token) + here),
            (figures, "text" + here),
        ]
        if token.rank > 1:
            room = max(4, width - 2 - 7 - name_w - len(figures) - 11)
            other = one_line(visible(token.likeliest), room)
            line.append((f"  {other} {_probability(token.likeliest_logprob)}", "dim" + here))
        if here:
            used = sum(cell_len(text) for text, _ in line)
            line.append((" " * max(0, width - used), "text" + here))
        lines.append(line)
    return lines


def _probability(logprob: float) -> str:
    share = 100 * math.exp(logprob)
    if share >= 99.95:
        return "100 %"
    if share >= 0.095:
        return f"{share:.1f} %" if share >= 9.95 else f"{share:.2g} %"
    return f"{share / 100:.0e}".replace("e-0", "e-")
