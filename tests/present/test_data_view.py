"""Rows of a dataset in figures, as the command prints and the screen paints them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePath

import pytest

from grpo_tui.core.findings import Finding, Fix
from grpo_tui.preflight.facts import ColumnFacts, DataFacts, KindCount, Lengths, RowView
from grpo_tui.present.data_view import BAR, DataBlock, LabelledRow, row_blocks, statistics_blocks, summary

FACTS = DataFacts(
    "rows.jsonl",
    columns=(
        ColumnFacts("prompt", "question", (KindCount("text", 30, (1,)),), distinct=28),
        ColumnFacts(
            "answer", "answer", (KindCount("text", 27, (1,)), KindCount("number", 3, (2,))), 1, (8,),
            distinct=2, top=(("7", 24), ("", 6)),
        ),
    ),
    total=40, looked_at=30, train_rows=28, held=2, answer_column="answer",
    prompt_tokens=Lengths(30, 5, 7.0, 7, 9, 9, 1200, ((4, 1200), (2, 9)), ((5, 6, 10), (7, 7, 20)), ()),
)  # fmt: skip


def block(blocks: list[DataBlock], title: str) -> DataBlock:
    return next(block for block in blocks if block.title == title)


def test_columns_lengths_and_answers_in_figures() -> None:
    blocks = statistics_blocks(FACTS, [])
    assert [b.title for b in blocks] == ["columns", "prompt, in tokens", "answers"]
    assert block(blocks, "columns").notes == ("30 rows checked",)
    assert [(row.label, row.text) for row in block(blocks, "columns").rows] == [
        ("prompt", "text, from question, 28 different"),
        ("answer", "text 27, number 3, 1 null, 2 different"),
    ]
    lengths = block(blocks, "prompt, in tokens")
    assert lengths.notes == ("median 7", "95 % 9", "99 % 9", "most 1,200")
    assert [(row.label.strip(), row.text) for row in lengths.rows] == [
        ("5 to     6", "▇" * (BAR // 2) + " 10"),
        ("7", "▇" * BAR + " 20"),
        ("longest", "row 4 (1,200), row 2 (9)"),
    ]
    answers = block(blocks, "answers")
    assert answers.notes == ("2 different",)
    assert [(row.label, row.text.split("▇")[-1]) for row in answers.rows] == [
        ("7", " 24  80 %"),
        ("(blank)", " 6  20 %"),
    ]


@pytest.mark.parametrize(("counts", "bars"), [((1, 0), (BAR, 0)), ((1, 1), (BAR, BAR)), ((1, 900), (1, BAR))])
def test_the_longest_bar_is_whole_and_whatever_there_is_has_one(
    counts: tuple[int, int], bars: tuple[int, int]
) -> None:
    assert FACTS.prompt_tokens is not None
    bins = tuple((number, number, count) for number, count in enumerate(counts))
    few = replace(FACTS, prompt_tokens=replace(FACTS.prompt_tokens, bins=bins))
    rows = block(statistics_blocks(few, []), "prompt, in tokens").rows
    assert tuple(row.text.count("▇") for row in rows[:2]) == bars


def test_of_what_the_rewards_receive_the_right_answer_stands_out() -> None:
    view = RowView(1, 4, {"question": "2 + 2?", "level": None}, "2 + 2?", {"answer": "4", "level": None})
    for answer, roles in (("answer", ["strong", "text"]), ("", ["text", "text"])):
        blocks = row_blocks(replace(view, answer_column=answer), None)
        shown = block(blocks, "what the rewards receive")
        assert [(row.label, row.text, row.role) for row in shown.rows] == [
            ("answer", "4", roles[0]), ("level", "null", roles[1])
        ]  # fmt: skip
        assert shown.notes == ("right answer: answer" if answer else "no column with a right answer",)
        assert [row.role for row in block(blocks, "in the source").rows] == ["text", "dim"]


def test_answers_that_come_once_each_are_not_drawn_as_bars() -> None:
    answer = replace(FACTS.columns[1], top=(("7", 1), ("8", 1)))
    once = statistics_blocks(replace(FACTS, columns=(answer,)), [])
    assert (block(once, "answers").notes, block(once, "answers").rows) == (("2 different", "each once"), ())


def test_one_line_says_what_is_trained_on_and_what_is_wrong() -> None:
    found = Finding("data.null", "warning", None, None, "a null", Fix("grpo_tui.filters.drop_null", True))
    told = [(rank, text) for rank, text, _ in summary(FACTS, [found])]
    assert (4, "28 trained on") in told
    assert (5, "2 held out") in told
    assert (1, "⚠ 1 warning") in told
    assert not any("sound" in text for _, text in told)
    assert (3, "✓ sound", "good") in summary(FACTS, [])
    sampled = [text for _, text, _ in summary(replace(FACTS, sampled="the first 30"), [])]
    assert "the first 30" in sampled
    assert "2 held out" not in sampled
    stream = summary(replace(FACTS, total=None, train_rows=None, held=0), [])
    assert [text for _, text, _ in stream] == ["rows.jsonl", "prompts of 5 to 1,200 tokens", "✓ sound"]
    for rows in (40, None):
        assert "trained on" not in str(summary(replace(FACTS, train_rows=rows), []))
    errors = [replace(found, severity="error")] * 2
    assert [(rank, text) for rank, text, _ in summary(FACTS, [*errors, found])][-2:] == [
        (1, "✗ 2 errors"), (1, "⚠ 1 warning")
    ]  # fmt: skip
    assert "sound" not in str(summary(FACTS, errors))
    assert "sound" not in str(summary(replace(FACTS, prompt_tokens=None), [])), "not all is known yet"
    assert summary(None, []) == [(0, "reading the data …", "dim")]
    told_first = statistics_blocks(FACTS, [found])[0].rows[0].text
    assert told_first == "a null\nfix: grpo_tui.filters.drop_null: true"


def test_a_row_shows_what_the_model_and_the_rewards_get_before_its_source() -> None:
    messages = [{"role": "system", "content": "Add."}, {"role": "user", "content": "2 + 2?"}]
    row = RowView(1_003, 1_200, {"数": ["é", PurePath("x")]}, messages, {"answer": "4"}, "<|im|>Add.", 7)

    def titles(view: RowView) -> list[str]:
        return [one.title for one in row_blocks(view, None)]

    received, source = "what the rewards receive", "in the source"
    assert titles(row) == ["row 1,003 of 1,200", "as the model sees it", received, "prompt", source]
    assert titles(replace(row, total=None))[0] == "row 1,003"
    assert titles(replace(row, rendered="", columns={})) == ["row 1,003 of 1,200", "prompt", source]
    assert titles(replace(row, prompt="2 + 2?")) == [
        "row 1,003 of 1,200",
        "as the model sees it",
        received,
        source,
    ]
    assert titles(replace(row, prompt="2 + 2?", rendered="")) == [
        "row 1,003 of 1,200",
        "prompt",
        received,
        source,
    ]
    assert titles(replace(row, prompt=None)) == [
        "row 1,003 of 1,200",
        "as the model sees it",
        received,
        source,
    ]
    first, seen, _, prompt, told = row_blocks(row, None)
    assert (first.notes, first.rows) == (("trained on", "7 tokens"), ())
    assert (seen.rows[0].text, seen.rows[0].marks) == ("<|im|>Add.", ("<|im|>",))
    assert (prompt.notes, [(one.label, one.text) for one in prompt.rows]) == (
        ("2 messages",), [("system", "Add."), ("user", "2 + 2?")]
    )  # fmt: skip
    assert [(one.label, one.text) for one in told.rows] == [("数", '["é", "x"]')]
    fates = {"held out": (), "rejected: no prompt": (LabelledRow("✗", "rejected: no prompt", "bad"),)}
    for fate, rows in fates.items():
        first = row_blocks(replace(row, fate=fate, tokens=None), None)[0]
        assert (first.notes, first.rows) == ((fate,), rows)
    broken = row_blocks(replace(row, fate="rejected: no prompt", problem="it has no end"), None)[0]
    assert broken.rows == (LabelledRow("✗", "it has no end", "bad"),)
