"""Numbers, durations and times as a person reads them."""

from __future__ import annotations

import math
import time
from pathlib import Path

import pytest

from grpo_tui.present import formatting as f
from grpo_tui.present.glyphs import few_glyphs, to_ascii


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (None, "–"),
        (0.04, "0.0 s"),
        (9.9, "9.9 s"),
        (42, "42 s"),
        (130, "2m10s"),
        (59.7, "1m00s"),
        (7500, "2h05m"),
        (190_000, "2d4h"),
        (math.inf, "–"),
        (-3, "0.0 s"),
    ],
)
def test_a_duration_is_short_at_every_size(seconds: float | None, shown: str) -> None:
    assert f.duration(seconds) == shown


def test_numbers_of_one_column_share_a_precision() -> None:
    values = [0.5, 12.25, None, math.inf]
    digits = f.digits_for(values)
    assert [f.fixed(v, digits) for v in values] == ["0.5", "12.2", "–", "inf"]


@pytest.mark.parametrize(
    ("largest", "digits"),
    [(1000, 0), (999, 1), (10, 1), (9.9, 2), (0.1, 2), (0.09, 3), (0.01, 3), (0.009, 4)],
)
def test_the_largest_of_a_column_says_how_many_decimals_it_has(largest: float, digits: int) -> None:
    assert f.digits_for([0.001, -largest, math.nan]) == digits


@pytest.mark.parametrize(
    ("value", "shown"),
    [(9_999_999.0, "9,999,999.00"), (1e7, "1.0e7"), (-3.7e29, "-3.7e29"), (1e300, "1.0e300")],
)
def test_a_number_too_large_for_any_column_is_written_with_an_exponent(value: float, shown: str) -> None:
    assert f.fixed(value) == shown
    assert len(f.compact(value)) <= 9


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ([0.0512, 0.0537, 0.0498], ["0.0512", "0.0537", "0.0498"]),
        ([1.0512, 1.0537], ["1.0512", "1.0537"]),
        ([3.0, 1.0, 0.25], ["3.00", "1.00", "0.25"]),
        ([0.0, 0.0], ["0.00", "0.00"]),
        ([None], ["–"]),
    ],
)
def test_totals_that_differ_look_different(values: list[float | None], shown: list[str]) -> None:
    assert [f.fixed(value, f.digits_apart(values)) for value in values] == shown


def test_minus_zero_is_written_as_zero() -> None:
    assert f.percent(-0.001) == "0 %"
    assert f.fixed(-0.0001) == "0.00"
    assert f.fixed(-0.2) == "-0.20"


@pytest.mark.parametrize(
    ("value", "shown"),
    [(5e-4, "5e-4"), (2.5e-06, "2.5e-6"), (0.9, "0.9"), (0, "0"), ([2.0, 0.5], "2 0.5"), ("x", "x")],
)
def test_a_setting_is_spelled_so_that_it_can_be_set_again(value: object, shown: str) -> None:
    assert f.setting(value) == shown
    if isinstance(value, int | float):
        assert float(f.setting(value)) == pytest.approx(value)


def test_recent_times_are_relative_and_old_ones_by_the_clock() -> None:
    now = 1_770_000_000.0
    assert [f.moment(now - age, now) for age in (0, 12, 200)] == ["now", "12 s ago", "3 min ago"]
    assert ":" in f.moment(now - 7200, now)
    assert f.moment(now - 4e7, now).startswith("20")
    assert f.moment(None, now) == "–"


@pytest.mark.parametrize(
    ("at", "shown"),
    [
        ((2026, 2, 3, 15, 0, 1), "now"),
        ((2026, 2, 3, 14, 59, 59), "now"),
        ((2026, 2, 3, 14, 59, 58), "2 s ago"),
        ((2026, 2, 3, 14, 59, 0), "1 min ago"),
        ((2026, 2, 3, 14, 0, 0), "14:00"),
        ((2026, 2, 3, 0, 0, 0), "00:00"),
        ((2026, 2, 2, 23, 59, 0), "02 Feb 23:59"),
        ((2026, 1, 3, 15, 0, 0), "03 Jan 15:00"),
        ((2025, 12, 31, 23, 59, 0), "2025-12-31"),
        ((2025, 2, 3, 15, 0, 0), "2025-02-03"),  # the same day of the year
    ],
)
def test_a_moment_says_as_much_of_the_date_as_tells_it_from_today(
    at: tuple[int, int, int, int, int, int], shown: str
) -> None:
    now = time.mktime((2026, 2, 3, 15, 0, 0, 0, 0, -1))
    assert f.moment(time.mktime((*at, 0, 0, -1)), now) == shown


def test_a_console_without_braille_gets_ascii_too() -> None:
    assert few_glyphs({"TERM": "linux", "LANG": "C.UTF-8"})
    assert few_glyphs({"TERM": "xterm-256color", "LC_ALL": "C"})
    assert not few_glyphs({"TERM": "xterm-16color", "LANG": "C.UTF-8"})
    assert to_ascii("✂ ▶") == "c >"
    assert to_ascii("0.16 → 0.77") == "0.16 ->0.77", "not a comparison, in as many cells"


@pytest.mark.parametrize(
    ("value", "cells", "text"),
    [
        (1.234, 4, "1.23"), (12.34, 4, "12.3"), (123.4, 4, "123"), (123_456.789, 8, "123,457"),
        (123_456.789, 4, "1e5"), (-123_456.789, 6, "-1.2e5"), (3.4e38, 4, "3e38"), (1e308, 8, "1.0e308"),
        (None, 4, "–"), (float("nan"), 4, "nan"), (float("-inf"), 4, "-inf"), (0.0, 4, "0.00"),
    ],
)  # fmt: skip
def test_a_number_in_few_cells_is_shorter_but_never_another_number(
    value: float | None, cells: int, text: str
) -> None:
    assert f.within(value, cells) == text
    assert len(text) <= cells


def test_a_long_path_is_truncated_at_its_beginning() -> None:
    path = Path("/somewhere/quite/far/from/here/config.yaml")
    shown = f.path_text(path, 20)
    assert shown.startswith("…")
    assert shown.endswith("/here/config.yaml")
    assert len(shown) == 20
    assert f.path_text(path, 80) == str(path)
