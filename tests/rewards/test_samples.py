"""Samples come from files, rows with gold answers and recorded runs; a mistake names its line."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from grpo_tui.config.resolve import load_config
from grpo_tui.config.run_config import RunConfig
from grpo_tui.core import records as r
from grpo_tui.demo import DEMO_CONFIG
from grpo_tui.rewards.answer_format import (
    FORMS,
    forms_for,
    gold_column,
    likely_form,
    short_answer,
    wrong_answer,
)
from grpo_tui.rewards.lab import Lab
from grpo_tui.rewards.sample_sources import MOST_GOLD_ROWS, dataset_rows, joined
from grpo_tui.rewards.samples import (
    Sample,
    SampleError,
    from_parquet_rows,
    from_run,
    gold_and_wrong,
    groups_of,
    read_jsonl,
    sample_words,
    samples_of_groups,
    save_jsonl,
    tags_of,
    with_columns_of,
)
from grpo_tui.rewards.scoring import Dataset
from grpo_tui.store.reader import RunReader, StoredGroup
from tests.ui.recorded_run import RecordedRun


def test_a_jsonl_file_gives_prompt_completion_and_columns(tmp_path: Path) -> None:
    file = tmp_path / "samples.jsonl"
    chat = {
        "prompt": [{"role": "user", "content": "q"}],
        "completion": [{"role": "assistant", "content": "a"}],
    }
    file.write_text(
        json.dumps({"prompt": "p", "completion": "c\u2028d", "answer": "4"}, ensure_ascii=False)
        + "\n\n"
        + json.dumps(chat)
        + "\n"
    )
    first, second = read_jsonl(file)
    assert first == Sample("p", "c\u2028d", {"answer": "4"})
    assert second.completion == chat["completion"]


@pytest.mark.parametrize(
    "text",
    [
        '\ufeff{"prompt": "p", "completion": "a"}\r\n\r\n{"prompt": "p", "completion": "b"}\r\n',
        '\n[{"prompt": "p", "completion": "a"},\n {"prompt": "p", "completion": "b"}]',
    ],
)
def test_a_file_of_another_editor_or_one_list_is_read_too(text: str, tmp_path: Path) -> None:
    (tmp_path / "samples.jsonl").write_bytes(text.encode())
    assert read_jsonl(tmp_path / "samples.jsonl") == [Sample("p", "a"), Sample("p", "b")]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"prompt": "p", "completion": "c"}\n{"prompt": "p"', ":2: this line is not valid JSON"),
        ('{"prompt": "p", "answer": "4"}', ":1: there is no completion; it has prompt, answer"),
        ('{"prompt": 3, "completion": "c"}', ":1: prompt must be a text or a list"),
        ("[1]", ", sample 1: a sample must be an object"),
        ('[{"prompt": "p"', "it begins as a list, but is not valid JSON"),
        ('{"prompt": "p", "completion": "c", "grpo_tui": {"tags": "a"}}', ":1: grpo_tui is"),
        ('{"prompt": "p", "completion": "c", "grpo_tui": 3}', ":1: grpo_tui is"),
        ('{"prompt": "p", "completion": "c", "grpo_tui": {"truncated": 1}}', ":1: grpo_tui is"),
        ("\n", "holds no sample"),
    ],
)
def test_a_line_that_is_no_sample_is_named(text: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "samples.jsonl"
    file.write_text(text)
    with pytest.raises(SampleError, match=words):
        read_jsonl(file)


def test_tags_are_kept_in_the_file_and_are_no_column_of_the_data(tmp_path: Path) -> None:
    file = tmp_path / "samples.jsonl"
    samples = [
        Sample("p", "c", {"answer": "4", "tags": ["a dataset's own"]}, tags=("hard", "odd")),
        Sample("p", [{"role": "assistant", "content": "d\u2028e"}], {"answer": "4"}, kind="gold"),
        Sample("p", "f"),
        Sample("p", "cut at", {"truncated": False}, truncated=True),
    ]
    save_jsonl(samples, file)
    assert read_jsonl(file) == samples
    assert [sample_words(sample) for sample in samples] == ["#hard #odd", "gold", "", ""]
    assert tags_of(" #hard, odd hard #") == ("hard", "odd")


def test_samples_of_one_prompt_are_a_group_in_whatever_order() -> None:
    samples = [Sample("a", "1"), Sample("b", "2"), Sample("a", "3"), Sample("a", "4", group="later")]
    assert groups_of(samples) == [[0, 2], [1], [3]]


def test_trls_parquet_rows_get_their_columns_from_the_dataset() -> None:
    rows = [
        {"step": 3, "prompt": "2+2?", "completion": "4", "correct": 1.0, "extracted": "4", "advantage": 0.7},
        {"step": 3, "prompt": "1+2?", "completion": "4", "correct": 0.0, "extracted": "4", "advantage": -0.7},
    ]
    samples = from_parquet_rows(rows, ["correct"], "completions_00003.parquet")
    assert samples[0].columns == {"extracted": "4"}
    assert samples[0].recorded == {"total": None, "advantage": 0.7}
    data = [{"prompt": "1+2?", "columns": {"answer": "3"}}, {"prompt": "2+2?", "columns": {"answer": "4"}}]
    assert [s.columns["answer"] for s in with_columns_of(samples, data)] == ["4", "3"]
    chat = Sample([{"role": "user", "content": "1+2?"}], "4", {"answer": "own"})
    assert with_columns_of([chat, replace(chat, columns={}), Sample("9?", "x")], data) == [
        chat, replace(chat, columns={"answer": "3"}), Sample("9?", "x"),
    ]  # fmt: skip
    with pytest.raises(SampleError, match="has no columns prompt and completion; it has text"):
        from_parquet_rows([{"text": "x"}], [], "other.parquet")


@pytest.mark.parametrize(
    ("answer", "wrong"),
    [
        ("72", "73"),
        ("1,299", "1,300"),
        ("-3", "-4"),
        ("$5.50", "$6.50"),
        ("12 km", "13 km"),
        ("1/2", "3/2"),
        ("A", "B"),
        ("(C)", "(B)"),
        ("Yes", "No"),
        ("Paris", "Rome"),
        ("", "something else"),
    ],
)
def test_a_wrong_answer_looks_like_the_right_one(answer: str, wrong: str) -> None:
    assert wrong_answer(answer, [answer, "Rome"]) == wrong


def test_the_short_answer_is_cut_out_of_a_solution() -> None:
    assert short_answer("Two and two make four.\n#### 1,004") == "1004"
    assert short_answer(r"so \boxed{\frac{1}{2}} it is") == r"\frac{1}{2}"
    assert short_answer(" Paris ") == "Paris"
    assert gold_column(["prompt", "level", "solution"]) == "solution"
    assert gold_column(["prompt", "level"]) is None


def test_gold_and_wrong_stand_side_by_side_in_every_form_that_is_asked_for() -> None:
    rows = [{"prompt": "2+2?", "columns": {"answer": "#### 4"}}]
    forms = forms_for("Write <reasoning>…</reasoning> then <solution>…</solution>")
    samples = gold_and_wrong(rows, forms)
    assert len(samples) == 2 * (1 + len(FORMS))
    gold, wrong = samples[:2]
    assert (gold.kind, wrong.kind) == ("gold", "wrong")
    assert "<solution>\n4\n</solution>" in str(gold.completion)
    assert "<solution>\n5\n</solution>" in str(wrong.completion)
    assert forms_for("Answer with a number.") == FORMS
    assert gold_and_wrong([{"prompt": "write", "columns": {"topic": "sea"}}], FORMS) == []


def test_a_recorded_run_gives_the_groups_of_a_step_and_the_best_and_the_worst(tmp_path: Path) -> None:
    run = RecordedRun(tmp_path)
    run.advance(3)
    run.close()
    reader = RunReader(tmp_path / "run.db")
    try:
        newest, first = from_run(reader), from_run(reader, 1)
        best, worst = from_run(reader, "best"), from_run(reader, "worst")
        with pytest.raises(SampleError, match="there are no completions at step 9; its newest step is 3"):
            from_run(reader, 9)
        groups = list(reader.iter_groups(mode="train"))
    finally:
        reader.close()
    assert len(newest) == len(first) == sum(len(g.completions) for g in groups if g.step == 1)
    means = [g.mean for g in groups if g.mean is not None]
    for found, mean in ((best, max(means)), (worst, min(means))):
        totals = [s.recorded["total"] for s in found if s.recorded is not None]
        assert sum(t for t in totals if t is not None) / len(totals) == pytest.approx(mean)


@pytest.mark.parametrize("step", [None, 4, "best"])
def test_a_run_without_completions_says_that_it_has_none(step: int | str | None, tmp_path: Path) -> None:
    run = RecordedRun(tmp_path)
    run.close()
    with closing(RunReader(tmp_path / "run.db")) as reader, pytest.raises(SampleError) as caught:
        from_run(reader, step)
    where = f"there are no completions at step {step}; " if step else ""
    assert str(caught.value) == f"{where}it has recorded none yet"


def test_a_recorded_completion_is_scored_as_it_was_generated() -> None:
    called = [{"role": "tool", "content": "4"}, {"role": "assistant", "content": "four"}]
    rows = (
        r.Completion(0, "4", (1.0,), 2.0, 0.5, 3, False),
        r.Completion(1, "four", (None,), None, -0.5, 9, True, messages=called, masked=True),
    )
    where = (5, 2, 7, 0, 1, "train", 3, 3, 0.0)
    group = StoredGroup(*where, "2 + 2?", "", {"answer": "4"}, 2.0, None, rows)
    assert samples_of_groups([group]) == [
        Sample(
            "2 + 2?", completion, {"answer": "4"}, "step 3, group 2, batch 7", truncated=truncated,
            recorded={"total": total, "advantage": advantage},
        )
        for completion, truncated, total, advantage in (("4", False, 2.0, 0.5), (called, True, None, -0.5))
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("system", "source", "written"),
    [
        (None, "search('<answer>(.*)</answer>')", "I work it out step by step.\n<answer>\n4\n</answer>"),
        (None, "<reasoning></reasoning> <result></result>",
         "<reasoning>\nI work it out step by step.\n</reasoning>\n<result>\n4\n</result>"),
        (None, "r'^<think>.*</think>'", "<think>\nI work it out step by step.\n</think>\nThe answer is 4"),
        (None, "LatexExtractionConfig()", "I work it out step by step.\nThe answer is $\\boxed{4}$."),
        (None, "x.split('####')", "I work it out step by step.\n#### 4"),
        (None, "c == a", "4"),
        ("Use <plan></plan> and <out></out>", "<answer>",
         "<plan>\nI work it out step by step.\n</plan>\n<out>\n4\n</out>"),
    ],
)  # fmt: skip
def test_the_gold_answer_is_written_as_prompt_or_rewards_ask(
    system: str | None, source: str, written: str
) -> None:
    assert likely_form([source], forms_for(system)).write("4") == written


def test_a_dataset_gives_enough_rows_for_the_checks_whatever_is_asked() -> None:
    asked: list[int] = []

    def rows(config: RunConfig, count: int) -> dict[str, Any]:
        asked.append(count)
        return {"rows": [{"prompt": "p", "columns": {}}], "columns": ["prompt"], "notes": ["few"]}

    lab, config = cast("Lab", SimpleNamespace(rows=rows)), load_config(DEMO_CONFIG)
    few = dataset_rows(lab, config, 1)
    assert few == Dataset(({"prompt": "p", "columns": {}},), ("prompt",), ("few",))
    dataset_rows(lab, config, MOST_GOLD_ROWS + 9)
    assert asked == [MOST_GOLD_ROWS, MOST_GOLD_ROWS + 9]
    assert dataset_rows(lab, replace(config, model=""), 1) is None, "functions alone have no dataset"


def test_only_samples_that_all_have_the_columns_of_the_dataset_are_left_as_they_are() -> None:
    def rows(config: RunConfig, count: int) -> dict[str, Any]:
        return {"rows": [{"prompt": "p", "columns": {"answer": "3"}}]}

    lab, config = cast("Lab", SimpleNamespace(rows=rows)), load_config(DEMO_CONFIG)
    dataset = Dataset((), ("prompt", "answer"))
    own, bare = Sample("p", "a", {"answer": "4"}), Sample("p", "b")
    for samples, answers in (([own], ["4"]), ([bare, own], ["3", "4"]), ([own, bare], ["4", "3"])):
        assert [s.columns["answer"] for s in joined(lab, config, dataset, samples)] == answers
    assert joined(lab, config, None, [bare]) == [bare]
    assert joined(lab, config, Dataset((), ("prompt",)), [bare]) == [bare]
