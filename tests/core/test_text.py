"""Nothing a terminal would obey gets through, and nothing a person could read is lost."""

from __future__ import annotations

import pytest

from grpo_tui.core.text import one_line, prompt_text, safe, shorten


def test_no_control_character_survives_but_newline_and_tab() -> None:
    everything = "".join(map(chr, range(0x110)))
    shown = safe(everything)
    assert not [c for c in shown if (ord(c) < 0x20 and c not in "\n\t") or 0x7F <= ord(c) < 0xA0]
    assert all(c in shown for c in everything if c.isprintable())


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]52;c;cm0=\x07", "␛]52;c;cm0=␇"),
        ("a\rb", "a␍b"),
        ("\x9b31m", "␛[31m"),
        ("[/INST] [@click=app.quit]x[/]", "[/INST] [@click=app.quit]x[/]"),
        ("\ud800", "\ufffd"),
        ("\u202eevil", "<U+202E>evil"),
    ],
)
def test_what_a_terminal_would_obey_becomes_visible(text: str, shown: str) -> None:
    assert safe(text) == shown
    safe(text).encode("utf-8")


def test_one_line_shows_breaks_and_cuts_with_an_ellipsis() -> None:
    assert one_line("a\nb\tc", 80) == "a⏎b c"
    assert one_line("abcdef", 4) == "abc…"
    assert one_line("日本語", 5) == "日本…"
    assert one_line("日本語", 6) == "日本語"
    assert shorten("abc", 0) == ""


def test_a_long_text_costs_no_more_than_what_is_shown() -> None:
    assert one_line("x" * 10_000_000, 20) == "x" * 19 + "…"


def test_a_prompt_is_known_by_its_last_user_message() -> None:
    chat = [{"role": "system", "content": "s"}, {"role": "user", "content": [{"type": "text", "text": "q"}]}]
    assert prompt_text(chat) == "q"
    assert prompt_text("plain") == "plain"
    assert prompt_text([]) == ""
