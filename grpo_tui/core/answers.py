r"""Cuts the gold answer out of a longer text: after `####`, in `\boxed{}`, in a tag, or by a pattern.

Pure functions on text; None means "there is none", never an empty answer. It knows no dataset.
"""

from __future__ import annotations

import re

_THOUSANDS = re.compile(r"[+-]?\\?\$?\s*\d{1,3}(,\d{3})+(\.\d+)?")
_BOXED = re.compile(r"\\(?:boxed|fbox)\s*\{")


def extract(text: str, kind: str, tag: str | None = None, pattern: str | None = None) -> str | None:
    """Return the answer in a text, or None when the text holds none.

    Args:
        text: the whole solution.
        kind: `gsm8k`, `boxed`, `tag` or `regex`.
        tag: the tag's name for `tag`.
        pattern: the expression for `regex`.

    Raises:
        ValueError: an unknown kind.
    """
    if kind == "gsm8k":
        return after_hashes(text)
    if kind == "boxed":
        return last_boxed(text)
    if kind == "tag":
        return last_tag(text, tag or "answer")
    if kind == "regex":
        return by_pattern(text, pattern or "")
    raise ValueError(f"no way to extract an answer is called {kind!r}")


def after_hashes(text: str) -> str | None:
    """Return what stands after the last `####` on its line, as GSM8K writes its answers.

    A number loses its thousands commas and a dollar sign: `#### $1,200` gives `1200`.
    """
    _, hashes, rest = text.rpartition("####")
    if not hashes:
        return None
    answer = rest.strip().partition("\n")[0].strip()
    if _THOUSANDS.fullmatch(answer):
        answer = answer.replace(",", "")
    if re.fullmatch(r"[+-]?\\?\$\s*[\d.]+", answer):
        answer = answer.replace("\\", "").replace("$", "").replace(" ", "")
    return answer or None


def last_boxed(text: str) -> str | None:
    r"""Return the content of the last `\boxed{…}` that is closed; braces inside it are counted."""
    for match in reversed(list(_BOXED.finditer(text))):
        content = _to_closing_brace(text, match.end())
        if content is not None:
            return content.strip() or None
    return None


def boxed_spans(text: str) -> list[tuple[int, int]]:
    r"""Return start and end of every `\boxed{…}` that is closed and in no other one, in order."""
    found: list[tuple[int, int]] = []
    at = 0
    while match := _BOXED.search(text, at):
        content = _to_closing_brace(text, match.end())
        if content is None:
            return found  # a brace is open: whatever follows is inside it
        at = match.end() + len(content) + 1
        found.append((match.start(), at))
    return found


def last_tag(text: str, tag: str) -> str | None:
    """Return the content of the last `<tag>…</tag>`, over lines."""
    name = re.escape(tag.strip("<>"))
    found = re.findall(rf"<{name}>((?:(?!<{name}>).)*?)</{name}>", text, re.DOTALL)
    return (found[-1].strip() or None) if found else None


def by_pattern(text: str, pattern: str) -> str | None:
    """Return the first group of the first match, or the whole match when the pattern has no group."""
    match = re.search(pattern, text)
    if match is None:
        return None
    found = match.group(1) if match.re.groups else match.group(0)
    return found.strip() or None if found is not None else None


def _to_closing_brace(text: str, start: int) -> str | None:
    depth = 1
    position = start
    while position < len(text):
        character = text[position]
        if character == "\\":
            position += 2
            continue
        depth += (character == "{") - (character == "}")
        if depth == 0:
            return text[start:position]
        position += 1
    return None
