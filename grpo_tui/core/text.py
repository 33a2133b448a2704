"""Make text from models, datasets, logs and exceptions safe to show and short enough to read.

Such text may contain control characters that a terminal obeys (ESC, OSC 52, C1) and characters that reorder
or hide others (bidirectional controls, zero-width characters, stacked accents). Here they become visible. The
result is plain text: never pass it on as markup.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.cells import cell_len, chop_cells

_FORMULA = ("=", "+", "-", "@", "\t", "\n", "＝", "＋", "－", "＠")
_TABLE: dict[int, str] = {code: chr(0x2400 + code) for code in range(0x20) if code not in (0x09, 0x0A)}
_TABLE[0x7F] = "\u2421"
_TABLE.update({code: f"\u241b{chr(code - 0x40)}" for code in range(0x80, 0xA0)})
_TABLE.update(dict.fromkeys(range(55296, 57344), "�"))
# Characters that reorder text, or whose width differs between terminals: bidirectional controls, zero-width
# and filler characters, line separators, interlinear annotations, tags, and variation selectors that can
# carry hidden bytes.
_UNSEEN = (
    0x00AD, 0x034F, 0x061C, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), 0x200B, 0x200E, 0x200F,
    *range(0x2028, 0x202F), *range(0x2060, 0x2070), 0x3164, *range(0xFE00, 0xFE0E), 0xFEFF, 0xFFA0,
    *range(0xFFF9, 0xFFFC), *range(0xE0000, 0xE01F0),
)  # fmt: skip
_TABLE.update({code: f"<U+{code:04X}>" for code in _UNSEEN})

_MARKS = "\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
MOST_MARKS = 4
"""Combining marks kept on one character. A taller stack covers the lines above and below."""
_PILE = re.compile(f"([{_MARKS}]{{{MOST_MARKS}}})([{_MARKS}]+)")
_JOINERS = re.compile("[\u200c\u200d\ufe0e\ufe0f]")


def safe(text: str) -> str:
    """Return `text` with every control character made visible. Newlines and tabs are kept.

    Lone surrogates become the replacement character, so the result can always be encoded. Joiners and
    variation selectors in emoji are removed, because terminals disagree on the width of the combined emoji.
    """
    shown = text.translate(_TABLE)
    if shown.isascii():
        return shown
    if _JOINERS.search(shown):
        shown = _JOINERS.sub(_joiner, shown)
    return (
        _PILE.sub(lambda pile: f"{pile[1]}<+{len(pile[2])} marks>", shown) if _PILE.search(shown) else shown
    )


def _joiner(found: re.Match[str]) -> str:
    """Keep, remove or show a joiner or selector, depending on the script before it."""
    before = found.string[found.start() - 1] if found.start() else ""
    if found[0] == "\u200c" and "\u0590" <= before <= "\u109f":
        return found[0]
    if before >= "\u0590" or (
        found[0] >= "\ufe00" and before in ("#", "*", "\u00a9", "\u00ae", *"0123456789")
    ):
        return ""
    return f"<U+{ord(found[0]):04X}>"


def csv_text(text: str) -> str:
    """Return a safe text for a CSV cell, with a leading `'` if a spreadsheet would run it as a formula.

    See OWASP, CSV Injection. Numbers are left unchanged.
    """
    shown = safe(text)
    if not shown.startswith(_FORMULA):
        return shown
    try:
        float(shown)
    except ValueError:
        return f"'{shown}"
    return shown


def one_line(text: str, width: int | None = None) -> str:
    """Return `text` safe and on one line, with line breaks as `⏎`, truncated to `width` cells with `…`."""
    if width is not None and len(text) > 4 * width + 16:
        text = text[: 4 * width + 16]  # one enormous completion must not cost a whole pass per row
    line = safe(text.replace("\r\n", "\n")).replace("\n", "\u23ce").replace("\t", " ")
    return line if width is None else shorten(line, width)


def shell_word(path: object) -> str:
    """Return a path as one shell word that is safe to show and to copy."""
    return one_line(shlex.quote(str(path)))


def filled(text: str, width: int, *, right: bool = False) -> str:
    """Pad `text` with spaces to `width` terminal cells; `right` aligns it to the right."""
    blanks = " " * (width - cell_len(text))
    return blanks + text if right else text + blanks


def shorten(text: str, width: int) -> str:
    """Truncate `text` to `width` terminal cells, with `…` at the end."""
    if width <= 0 or cell_len(text) <= width:
        return text if width > 0 else ""
    return (chop_cells(text, width - 1)[0] if width > 1 else "") + "\u2026"


def told_apart(names: Sequence[str], width: int) -> tuple[str, ...]:
    """Truncate names to `width` cells. Names that would become equal are truncated at the start instead."""
    short = [shorten(name, width) for name in names]
    return tuple(
        one if one == name or short.count(one) == names.count(name) else ending(name, width)
        for name, one in zip(names, short, strict=True)
    )


def ending(text: str, width: int) -> str:
    """Truncate `text` to `width` terminal cells, with `…` at the beginning."""
    if cell_len(text) <= width:
        return text
    kept = text[-width:]
    while kept and cell_len(kept) + 1 > width:
        kept = kept[1:]
    return "\u2026" + kept


def wrapped(text: str, width: int) -> list[str]:
    """Wrap the words of one line at `width` terminal cells. Longer words are split."""
    width = max(2, width)
    rows, used = [""], 0
    for word in text.split():
        cells = cell_len(word)
        if used and used + 1 + cells <= width:
            rows[-1] += f" {word}"
            used += 1 + cells
            continue
        if used:
            rows.append("")
        rows[-1:] = chop_cells(word, width) or [word]
        used = cell_len(rows[-1])
    return rows


def message_text(content: Any) -> str:
    """Return the text of a chat message's content, which is a string or a list of content blocks."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(map(_block_text, content))
    return "" if content is None else str(content)


def _block_text(block: Any) -> str:
    """Return a block's text, or its type.

    A dataset gives every block all keys, with None where a block has no value.
    """
    if not isinstance(block, Mapping):
        return str(block)
    text = block.get("text")
    return f"<{block.get('type', 'block')}>" if text is None else str(text)


def completion_text(completion: str | Sequence[Mapping[str, Any]]) -> str:
    """Return a completion, or the content of its last message when it is a conversation."""
    if isinstance(completion, str):
        return completion
    return message_text(completion[-1].get("content")) if completion else ""


def whole_text(messages: str | Sequence[Mapping[str, Any]]) -> str:
    """Return a prompt or completion, or the contents of all its messages, one per line."""
    if isinstance(messages, str):
        return messages
    return "\n".join(message_text(message.get("content")) for message in messages)


THOUGHTS = ("thinking", "reasoning", "reasoning_content")
"""Keys in which chat templates store a model's reasoning."""


def written_text(completion: str | Sequence[Mapping[str, Any]]) -> str:
    """Return what the model itself wrote: reasoning, answers and tool calls, but no tool results."""
    if isinstance(completion, str):
        return completion
    return "\n".join(_written(message) for message in completion if _is_own(message))


def transcript(completion: str | Sequence[Mapping[str, Any]]) -> str:
    """Return a completion for reading: the model's text, and other messages marked by role and indented."""
    if isinstance(completion, str):
        return completion
    parts = []
    for message in completion:
        who = " ".join(str(message[key]) for key in ("role", "name") if message.get(key))
        said = f"[{who}] {message_text(message.get('content'))}".replace("\n", "\n  ")
        parts.append(_written(message) if _is_own(message) else said)
    return "\n".join(parts)


def _is_own(message: Mapping[str, Any]) -> bool:
    return message.get("role", "assistant") == "assistant"


def _written(message: Mapping[str, Any]) -> str:
    parts = [f"[{key}] {message[key]}" for key in THOUGHTS if message.get(key)]
    if content := message_text(message.get("content")):
        parts.append(content)
    calls = message.get("tool_calls")
    parts += [f"[call] {_call(call)}" for call in (calls if isinstance(calls, list) else ())]
    return "\n".join(parts)


def _call(call: Any) -> str:
    function = call.get("function", call) if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or "name" not in function:
        return str(call)
    import json  # not needed for the first paint

    arguments = function.get("arguments")
    told = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False, default=str)
    return f"{function['name']}({told})"


def prompt_text(prompt: Any) -> str:
    """Return the recognisable part of a prompt: the last user message, or the string itself."""
    if isinstance(prompt, str):
        return prompt
    if not prompt:
        return ""
    turns = [m for m in prompt if m.get("role") == "user"] or prompt
    return message_text(turns[-1].get("content"))


def named_texts(file: Path) -> dict[str, str]:
    """Return the sections of a file by the name in the `%% name` line above each."""
    parts = re.split(r"^%% (\w+)\n", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))
