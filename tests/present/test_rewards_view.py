"""A report of the lab as the pane Rewards says it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from grpo_tui.core.findings import Finding
from grpo_tui.present.rewards_view import (
    ADVANTAGE,
    TOTAL,
    Circumstances,
    cell,
    fitted,
    histogram,
    ordered,
    orders,
    rewards_view,
    sample_detail,
)
from grpo_tui.rewards.score_report import Failure
from tests.rewards.reports import made_report, samples, scores_of


def test_rows_hold_what_each_function_gave_and_the_groups_their_mean_and_gold() -> None:
    view = rewards_view(made_report(), about=Circumstances(title="demo.yaml", gold_column="answer"))
    assert [row.scores for row in view.rows[:3]] == [(1.0, 1.0, 1.0), (0.0, 1.0, 1.0), (0.0, 0.0, None)]
    assert [row.total for row in view.rows[:3]] == [3.0, 1.0, 0.0]
    assert [row.group for row in view.rows] == [0, 0, 0, 1, 1, 1]
    assert view.groups[0].prompt == "What is 0 + 7?"
    assert view.groups[1].gold == "8"
    assert view.groups[0].mean == pytest.approx(4 / 3)
    assert not view.groups[0].flat


def test_columns_say_coverage_share_range_and_what_goes_together() -> None:
    view = rewards_view(made_report())
    correctness, form, incremental = view.columns
    assert (correctness.low, correctness.high) == (0.0, 1.0)
    assert incremental.coverage == pytest.approx(2 / 3)
    assert sum(column.share or 0.0 for column in view.columns) == pytest.approx(1.0)
    assert form.like is not None
    assert form.like[0] == "correctness"


def test_a_histogram_counts_from_the_lowest_to_the_highest() -> None:
    assert histogram([]) == ""
    assert histogram([2.0, 2.0]) == "▇"
    assert histogram([0.0] * 6 + [1.0] * 3) == "▇      ▄"


def test_sorting_puts_the_best_on_top_then_the_worst_and_what_has_no_score_last() -> None:
    view = rewards_view(made_report())
    assert [row for _, row in ordered(view, None)] == [-1, 0, 1, 2, -1, 3, 4, 5]
    assert [row for _, row in ordered(view, TOTAL)] == [0, 3, 1, 4, 2, 5]
    assert [row for _, row in ordered(view, ADVANTAGE, low_first=True)] == [2, 5, 1, 4, 0, 3]
    assert [row for _, row in ordered(view, 2, low_first=True)][-2:] == [2, 5]
    assert list(orders(view)) == [None, TOTAL, ADVANTAGE, 0, 1, 2]


def test_only_cells_that_an_edited_file_changed_show_what_they_were() -> None:
    batch = samples()
    before = made_report(batch)
    given = scores_of(batch)
    given[1][2] = 1.0
    view = rewards_view(made_report(batch, given), before)
    assert view.changed == 1
    assert cell(view, view.rows[2], 1) == ("0.00→1.00", "accent")
    assert cell(view, view.rows[2], 0) == ("0.00", "text")
    assert cell(view, view.rows[2], 2) == ("none", "dim")
    other = rewards_view(made_report(samples(3)), before)
    assert other.changed == 0  # other samples are no change of the rewards


def test_not_a_number_and_infinity_are_shown_as_they_are() -> None:
    batch = samples()
    given = scores_of(batch)
    given[0][0], given[0][1] = math.nan, -math.inf
    view = rewards_view(made_report(batch, given))
    assert cell(view, view.rows[0], 0) == ("nan", "attention")
    assert cell(view, view.rows[1], 0) == ("-inf", "attention")
    assert [row for _, row in ordered(view, 0)][-1] == 0


def test_a_function_that_raises_names_the_sample_and_the_place() -> None:
    failure = Failure("raised", "ValueError", "no number", "/tasks/rewards.py", 12, sample=2)
    report = made_report(failure=failure)
    view = rewards_view(report)
    assert cell(view, view.rows[2], 0) == ("✗ here", "bad")
    assert cell(view, view.rows[0], 0)[0] == "failed"
    assert view.columns[0].failure == "ValueError: no number (rewards.py:12)"
    saw = sample_detail(report, 2).saw[0]
    assert saw.blamed
    assert "rewards.py:12" in saw.failure
    assert saw.printed == ("before it fell",)
    assert not sample_detail(report, 1).saw[0].blamed


def test_the_detail_shows_what_was_compared_and_every_column_safely() -> None:
    detail = sample_detail(made_report(), 2)
    assert detail.saw[0].compared == (("extracted", "7"), ("gold", "7"))
    assert (detail.saw[0].score, detail.saw[0].worth) == ("0.00", "0.00")
    assert detail.columns == (("answer", "a long way #### 7"),)
    assert "\x1b" not in detail.text()
    assert "\x1b" not in rewards_view(made_report()).rows[2].text
    assert "[@click=app.quit]" in detail.completion


def test_long_completions_keep_their_beginning_and_their_end() -> None:
    text = "<think>" + "so " * 200 + "</think><answer>42</answer>"
    shown = fitted(text, 60)
    assert len(shown) <= 60
    assert shown.startswith("<think>")
    assert shown.endswith("<answer>42</answer>")
    assert fitted("short", 60) == "short"
    assert fitted(text, 30).endswith("<answer>42</answer>")


def test_findings_are_counted_and_stay_errors_first() -> None:
    found = (Finding("a", "error", None, None, "x"), Finding("b", "warning", None, None, "y"))
    view = rewards_view(made_report(findings=found))
    assert view.counts() == (1, 1)
    assert [f.severity for f in view.report.findings] == ["error", "warning"]


def test_a_muted_function_is_marked_and_keeps_what_it_gave() -> None:
    report = replace(made_report(), weights=(2.0, 0.5, 0.5))
    view = rewards_view(report, about=Circumstances(muted=frozenset({1})))
    assert [column.muted for column in view.columns] == [False, True, False]
    assert view.rows[0].scores[1] == 1.0


def test_scores_have_the_decimals_that_tell_those_of_a_group_apart() -> None:
    close = [0.0512, 0.0537, 0.0525, 1.0, 1.0, 1.0]  # groups of three
    view = rewards_view(made_report(scores=[close, close, close], weights=(1.0, 0.0, 0.0)))
    digits = view.columns[0].digits
    assert len({f"{row.scores[0]:.{digits}f}" for row in view.rows[:3]}) == 3
    assert len({f"{row.total:.{view.digits}f}" for row in view.rows[:3]}) == 3


def test_a_filter_keeps_samples_with_every_word_and_a_hash_asks_for_a_tag() -> None:
    batch = samples()
    batch[1] = replace(batch[1], tags=("hard",))
    view = rewards_view(made_report(batch))

    def kept(words: str) -> list[int]:
        return [row for _, row in ordered(view, TOTAL, words=words)]

    assert kept("GOLD") == [0, 3], "the kind, in any case"
    assert kept("1 + 7 wrong") == [4], "prompt and kind, with every word"
    assert kept("inst") == [2, 5], "the completion"
    assert kept("#hard") == [1]
    assert kept("#har") == []
    assert ordered(view, None, words="#hard") == [(0, -1), (0, 1)], "only groups with a sample"
