r"""Extract the reference answer from a longer text.

None means that the text has no answer. An answer is never empty.
"""

from __future__ import annotations

import re
import unicodedata

_PLAIN = (
    {code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}
    | dict.fromkeys([0xA0, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000], " ")
    | {0x2212: "-"}
)
_GROUPED = re.compile(r"(?<=\d)(?:[\u00a0\u2007\u2009\u202f]|\\,)(?=\d{3}(?!\d))")
_ONE_NUMBER = re.compile(r"[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?")
_THOUSANDS = re.compile(r"[+-]?\\?\$?\s*\d{1,3}(,\d{3})+(\.\d+)?")
_BOXED = re.compile(r"\\(?:boxed|fbox)\s*\{")


def extract(text: str, kind: str, tag: str | None = None, pattern: str | None = None) -> str | None:
    """Return the answer in a text, or None.

    Args:
        kind: `gsm8k`, `boxed`, `tag` or `regex`.

    Raises:
        ValueError: The kind is unknown.
    """
    if kind == "gsm8k":
        return after_hashes(text)
    if kind == "boxed":
        return _plain_number(last_boxed(text))
    if kind == "tag":
        return _plain_number(last_tag(text, tag or "answer"))
    if kind == "regex":
        return _plain_number(by_pattern(text, pattern or ""))
    raise ValueError(f"no way to extract an answer is called {kind!r}")


def plain_characters(text: str) -> str:
    """Replace typographic variants with the characters of a keyboard.

    Full-width letters, digits and signs become ASCII, U+2212 becomes a hyphen, and each Unicode space a plain
    one. Accents are composed (NFC). Non-breaking and thin spaces between thousands are removed.
    """
    return unicodedata.normalize("NFC", _GROUPED.sub("", text).translate(_PLAIN))


def _plain_number(answer: str | None) -> str | None:
    """Return a number in plain characters, any other answer unchanged."""
    plain = plain_characters(answer).strip() if answer is not None else ""
    return plain if _ONE_NUMBER.fullmatch(plain) else answer


def after_hashes(text: str) -> str | None:
    """Return the rest of the line after the last `####`, as in GSM8K.

    A number loses its thousands separators and dollar sign: `#### $1,200` gives `1200`.
    """
    _, hashes, rest = text.rpartition("####")
    if not hashes:
        return None
    answer = _plain_number(rest.strip().partition("\n")[0].strip()) or ""
    if _THOUSANDS.fullmatch(answer):
        answer = answer.replace(",", "")
    if re.fullmatch(r"[+-]?\\?\$\s*[\d.]+", answer):
        answer = answer.replace("\\", "").replace("$", "").replace(" ", "")
    return answer or None


def last_boxed(text: str) -> str | None:
    r"""Return the content of the last closed `\boxed{…}`, with nested braces."""
    for match in reversed(list(_BOXED.finditer(text))):
        content = _to_closing_brace(text, match.end())
        if content is not None:
            return content.strip() or None
    return None


def boxed_spans(text: str) -> list[tuple[int, int]]:
    r"""Return start and end of each closed, outermost `\boxed{…}`, in order."""
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
    """Return the content of the last `<tag>…</tag>`, which may span lines."""
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
