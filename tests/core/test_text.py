"""Nothing a terminal would obey gets through, and nothing a person could read is lost."""

from __future__ import annotations

import unicodedata

import pytest
from rich.cells import cell_len

from grpo_tui.core.text import (
    completion_text,
    csv_text,
    ending,
    filled,
    one_line,
    prompt_text,
    safe,
    shorten,
    told_apart,
    transcript,
    whole_text,
    wrapped,
    written_text,
)


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
        ("a\u200bb\ufeff\u00ad\u200f", "a<U+200B>b<U+FEFF><U+00AD><U+200F>"),
        ("a\U000e0041", "a<U+E0041>"),
        ("pass\u200dword\u200c", "pass<U+200D>word<U+200C>"),
        ("\u26a0\ufe0f 1\ufe0f\u20e3 \U0001f468\u200d\U0001f469", "\u26a0 1\u20e3 \U0001f468\U0001f469"),
        ("\u0645\u06cc\u200c\u062e", "\u0645\u06cc\u200c\u062e"),
        ("e" + "\u0301" * 3, "e" + "\u0301" * 3),
        ("e" + "\u0301" * 99 + "x", "e" + "\u0301" * 4 + "<+95 marks>x"),
    ],
)
def test_what_a_terminal_would_obey_becomes_visible(text: str, shown: str) -> None:
    assert safe(text) == shown
    safe(text).encode("utf-8")


def test_making_safe_twice_changes_nothing_more() -> None:
    everything = "".join(map(chr, range(0x3000))) + "\u26a0\ufe0f\U000e0041" + "\u0301" * 40
    assert safe(safe(everything)) == safe(everything)


def test_words_are_wrapped_by_cells_and_none_is_lost() -> None:
    text = "a bc 日本語 " + "x" * 25 + " end"
    rows = wrapped(text, 8)
    assert "".join(rows).replace(" ", "") == text.replace(" ", "")
    assert all(sum(2 if c > "\u3000" else 1 for c in row) <= 8 for row in rows)
    assert wrapped("", 8) == [""]


def test_one_line_shows_breaks_and_cuts_with_an_ellipsis() -> None:
    assert one_line("a\nb\tc", 80) == one_line("a\nb\tc") == "a⏎b c"
    assert one_line("a\r\nb\r\n\r\nc", 80) == "a⏎b⏎⏎c", "a file from Windows shows one mark a break"
    assert one_line("a\rb\n\rc", 80) == "a␍b⏎␍c"
    assert one_line("abcdef", 4) == "abc…"
    assert one_line("日本語", 5) == "日本…"
    assert one_line("日本語", 6) == "日本語"
    assert shorten("abc", 0) == ""


def test_a_long_text_costs_no_more_than_what_is_shown() -> None:
    assert one_line("x" * 10_000_000, 20) == "x" * 19 + "…"


def test_a_prompt_is_known_by_its_last_user_message() -> None:
    chat = [{"role": "system", "content": "s"}, {"role": "user", "content": [{"type": "text", "text": "q"}]}]
    assert prompt_text(chat) == "q"
    assert prompt_text([*chat, {"role": "assistant", "content": "so"}]) == "q"
    shots = [{"role": "user", "content": "shot"}, {"role": "assistant", "content": "as"}]
    assert prompt_text([*shots, *chat]) == "q", "few-shot examples stand before what is asked"
    assert prompt_text([{"role": "system", "content": "s"}]) == "s", "none is by a user"
    assert prompt_text("plain") == "plain"
    assert prompt_text([]) == ""


def test_a_completion_of_several_turns_is_read_with_and_without_the_answers_of_tools() -> None:
    call = {"function": {"name": "add", "arguments": {"a": 1}}}
    turns = [
        {"role": "assistant", "thinking": "hm", "content": "I ask", "tool_calls": [call]},
        {"role": "tool", "name": "add", "content": "2\nexact"},
        {"content": "two"},
    ]
    own = ["[thinking] hm", "I ask", '[call] add({"a": 1})', "two"]
    assert written_text(turns).splitlines() == own
    assert transcript(turns).splitlines() == [*own[:3], "[tool add] 2", "  exact", "two"]
    assert written_text("plain") == transcript("plain") == "plain"


def test_names_that_would_look_alike_keep_their_end() -> None:
    assert told_apart(["reward_correct", "reward_format", "length"], 8) == ("…correct", "…_format", "length")
    assert told_apart(["correctness", "format_reward"], 8) == ("correct…", "format_…")
    assert told_apart(["same_long_name", "same_long_name"], 8) == ("same_lo…", "same_lo…")
    assert told_apart(["前缀_一", "前缀_二"], 5) == ("…_一", "…_二")


def test_a_chat_is_read_though_its_dataset_gave_every_block_every_key() -> None:
    image, words = {"type": "image", "text": None}, {"type": "text", "text": "q"}
    chat = [{"role": "system", "content": "s"}, {"role": "user", "content": [image, words]}]
    assert prompt_text(chat) == completion_text(chat) == "<image>q"
    assert whole_text(chat) == "s\n<image>q"
    assert (completion_text([]), whole_text([]), completion_text("t"), whole_text("t")) == ("", "", "t", "t")


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ('=HYPERLINK("http://x")', '\'=HYPERLINK("http://x")'),
        ("+1+cmd", "'+1+cmd"),
        ("- a list", "'- a list"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'\t=1"),
        ("\n=1", "'\n=1"),
        ("＝1+1", "'＝1+1"),
        ("-5", "-5"),
        ("+1.5e3", "+1.5e3"),
        ("a=b", "a=b"),
        ("", ""),
        ("\r=1", "\u240d=1"),
    ],
)
def test_no_cell_of_csv_is_a_formula(text: str, cell: str) -> None:
    assert csv_text(text) == cell


def test_cells_count_and_not_characters() -> None:
    assert (cell_len("abc"), cell_len("漢字"), cell_len("e\u0301")) == (3, 4, 1)
    assert filled("漢字", 6) == "漢字  "
    assert filled("漢字", 6, right=True) == "  漢字"
    assert filled("漢字漢字", 6) == "漢字漢字"
    assert ending("一二三四五", 5) == "\u2026四五"
    assert all(cell_len(row) <= 7 for row in wrapped("漢字漢字漢字 abc 漢字漢字漢", 7))


UNSEEN = (
    "SOFT HYPHEN", "COMBINING GRAPHEME JOINER", "ARABIC LETTER MARK", "HANGUL CHOSEONG FILLER",
    "HANGUL JUNGSEONG FILLER", "KHMER VOWEL INHERENT AQ", "KHMER VOWEL INHERENT AA",
    "MONGOLIAN FREE VARIATION SELECTOR ONE", "MONGOLIAN VOWEL SEPARATOR", "ZERO WIDTH SPACE",
    "LEFT-TO-RIGHT MARK", "RIGHT-TO-LEFT MARK", "LINE SEPARATOR", "RIGHT-TO-LEFT OVERRIDE", "WORD JOINER",
    "LEFT-TO-RIGHT ISOLATE", "NOMINAL DIGIT SHAPES", "HANGUL FILLER", "VARIATION SELECTOR-1",
    "VARIATION SELECTOR-14", "ZERO WIDTH NO-BREAK SPACE", "HALFWIDTH HANGUL FILLER",
    "INTERLINEAR ANNOTATION ANCHOR", "INTERLINEAR ANNOTATION TERMINATOR", "TAG SPACE", "CANCEL TAG",
    "VARIATION SELECTOR-17", "VARIATION SELECTOR-256",
)  # fmt: skip
SEEN = (
    "MONGOLIAN LETTER A", "HYPHENATION POINT", "NARROW NO-BREAK SPACE", "SUPERSCRIPT ZERO",
    "HANGUL LETTER KIYEOK", "HALFWIDTH HANGUL LETTER KIYEOK", "OBJECT REPLACEMENT CHARACTER",
    "KHMER VOWEL SIGN AA", "HANGUL JUNGSEONG A",
)  # fmt: skip


@pytest.mark.parametrize("name", UNSEEN)
def test_what_is_not_seen_or_moves_other_text_is_shown_by_its_number(name: str) -> None:
    character = unicodedata.lookup(name)
    assert safe(f"a{character}b") == f"a<U+{ord(character):04X}>b"


@pytest.mark.parametrize("name", SEEN)
def test_what_is_next_to_it_stays(name: str) -> None:
    assert safe(unicodedata.lookup(name)) == unicodedata.lookup(name)
