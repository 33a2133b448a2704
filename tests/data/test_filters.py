"""What filters leave out, what they say of it, and that training, lab and evaluation see the same rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from grpo_tui.config.resolve import load_config
from grpo_tui.core.prompt_memory import prompt_hash
from grpo_tui.core.text import prompt_text
from grpo_tui.data.filters import load_tokenizer, prompt_lengths
from grpo_tui.data.load import DataError, Prompts, load_prompts
from grpo_tui.demo import DEMO_DIR

ROWS = [
    {"prompt": "What is 1 + 1?", "answer": "#### 2", "hint": "add"},
    {"prompt": None, "answer": "#### 3", "hint": None},
    {"prompt": "What is 1 + 1?", "answer": "#### 2", "hint": None},
    {"prompt": "  ", "answer": "#### 4", "hint": "add"},
    {"prompt": "What is 11 + 12?", "answer": "no idea", "hint": "add"},
    {"prompt": "What is 2 + 2?", "answer": None, "hint": "add"},
    {"prompt": "What is 19 + 20?", "answer": "#### 39", "hint": "add"},
    {"prompt": "1+1", "answer": "#### 2", "hint": "add"},
]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


def load(
    folder: Path, section: str, base: str = "", model: Path | str = DEMO_DIR / "model", **how: Any
) -> Prompts:
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    text = f"model_name_or_path: {model}\nreward_funcs: [accuracy_reward]\n{base}grpo_tui:\n"
    if not section.startswith("dataset:") and "dataset_name:" not in base:
        text += "  dataset: rows.jsonl\n"
    (folder / "run.yaml").write_text(text + "".join(f"  {line}\n" for line in section.splitlines()))
    return load_prompts(load_config(folder / "run.yaml"), **how)


@pytest.mark.parametrize(
    ("section", "kept", "words"),
    [
        (
            "filters: {drop_null: true}",
            [0, 4, 6, 7],
            [
                "4 of 8 rows removed by drop_null: missing values (2 in prompt, 1 in hint,",
                "the first is row 2)",
            ],
        ),
        (
            "filters: {drop_null: [answer]}",
            [0, 2, 4, 6, 7],
            ["3 of 8 rows removed", "2 in prompt, 1 in answer"],
        ),
        (
            "answer: gsm8k\nfilters: {drop_null: [answer]}",
            [0, 2, 6, 7],
            ["4 of 8 rows", "1 in answer (no gsm8k answer in it)"],
        ),
        (
            "filters: {drop_null: [answer], drop_duplicates: true}",
            [0, 4, 6, 7],
            ["1 of 5 rows removed by drop_duplicates: an earlier row has the same prompt"],
        ),
        (
            "filters: {drop_null: [answer], min_prompt_tokens: 4}",
            [0, 2, 4, 6],
            ["1 of 5 rows removed by min_prompt_tokens 4: prompts have 3 to 16 tokens"],
        ),
        (
            "filters: {drop_null: [answer], min_prompt_tokens: 4, max_prompt_tokens: 14}",
            [0, 2],
            ["3 of 5 rows removed by min_prompt_tokens 4, max_prompt_tokens 14"],
        ),
        (
            "answer: {kind: regex, pattern: '#### (3[0-9])'}\nfilters: {drop_null: [answer]}",
            [6],
            ["(no regex answer in it)"],
        ),
        (
            "columns: {gold: answer}\nanswer: {kind: gsm8k, to: gold}\nfilters: {drop_null: [gold]}",
            [0, 2, 6, 7],
            ["1 in gold (no gsm8k answer in it)"],
        ),
    ],
)
def test_what_is_left_out_is_counted_and_said(
    tmp_path: Path, section: str, kept: list[int], words: list[str]
) -> None:
    prompts = load(tmp_path, section)
    assert prompts.train["prompt"][:] == [ROWS[index]["prompt"] for index in kept]
    for sentence in words:
        assert sentence in " ".join(prompts.notes)


def test_filters_that_leave_nothing_out_say_nothing(tmp_path: Path) -> None:
    rows = tmp_path / "sound.jsonl"
    rows.write_text(json.dumps(ROWS[0]) + "\n" + json.dumps(ROWS[6]) + "\n")
    prompts = load(
        tmp_path,
        "dataset: sound.jsonl\nfilters: {drop_null: true, drop_duplicates: true, max_prompt_tokens: 99}",
    )
    assert (prompts.train.num_rows, prompts.notes) == (2, ())


def test_the_tokens_are_those_of_the_prompt_with_its_chat_template(tmp_path: Path) -> None:
    config = load_config(DEMO_DIR / "demo.yaml")
    prompt = [{"role": "user", "content": "What is 1 + 1?"}]
    tokenizer = load_tokenizer(config)
    text = tokenizer.apply_chat_template(prompt, tokenize=False, add_generation_prompt=True)
    wanted = len(tokenizer(text, add_special_tokens=False)["input_ids"])
    assert wanted > len(tokenizer("What is 1 + 1?")["input_ids"])
    assert prompt_lengths(tokenizer, [prompt, prompt]) == [wanted, wanted]
    limits = "chat: true\nfilters: {drop_null: [answer], max_prompt_tokens: %d}"
    kept = load(tmp_path, limits % wanted).train["prompt"]
    assert [prompt[-1]["content"] for prompt in kept] == ["What is 1 + 1?", "What is 1 + 1?", "1+1"]
    assert load(tmp_path, limits % (wanted - 1)).train.num_rows == 1


def test_evaluation_rows_are_filtered_too_and_the_holdout_comes_from_what_is_left(tmp_path: Path) -> None:
    prompts = load(
        tmp_path,
        "eval_dataset: rows.jsonl\nholdout: 1\nfilters: {drop_null: true, drop_duplicates: true}",
        "eval_strategy: steps\neval_steps: 5\n",
    )
    assert prompts.eval is not None
    assert prompts.holdout is not None
    assert (prompts.train.num_rows, prompts.holdout.num_rows, prompts.eval.num_rows) == (3, 1, 4)
    assert [note.startswith("evaluation: ") for note in prompts.notes] == [False, True]


@pytest.mark.parametrize(
    ("section", "words"),
    [
        (
            "filters: {min_prompt_tokens: 500, drop_null: [answer]}",
            "no rows left after grpo_tui.filters.min_prompt",
        ),
        ("filters: {drop_null: [gone]}", "names the column gone, which .* does not have; it has"),
        (
            "answer: {kind: boxed}\nfilters: {drop_null: true}",
            r"every row has missing values \(.*no boxed answer",
        ),
        ("filters: {drop_duplicates: true}", "row 2: the prompt is empty .*drop_null: true"),
    ],
)
def test_a_filter_that_cannot_work_says_why(tmp_path: Path, section: str, words: str) -> None:
    with pytest.raises(DataError, match=words):
        load(tmp_path, section)


@pytest.mark.parametrize("blank", ["", "  ", "\t", "\r"])
def test_blank_lines_of_a_filter_file_are_no_prompts(blank: str, tmp_path: Path) -> None:
    known = json.dumps({"hash": prompt_hash("1+1")})
    (tmp_path / "known.jsonl").write_text(f"{blank}\n{known}\n{blank}\n{blank}", newline="")
    assert load(tmp_path, "filters: {drop_null: true, only: known.jsonl}").train.num_rows == 1
    (tmp_path / "known.jsonl").write_text(f"{blank}\n{blank}", newline="")
    with pytest.raises(DataError, match="lists no prompts"):
        load(tmp_path, "filters: {drop_null: true, only: known.jsonl}")


def test_a_look_at_the_first_rows_says_that_it_is_one(tmp_path: Path) -> None:
    for most, kept, said in ((7, 4, ["only the first 7 of 8 rows were read"]), (8, 5, [])):
        prompts = load(tmp_path, "filters: {drop_null: [answer]}", most=most)
        assert prompts.train.num_rows == kept
        assert [note for note in prompts.notes if "first" in note and "read" in note] == said


def test_without_the_tokenizer_training_refuses_and_a_look_says_what_was_not_applied(tmp_path: Path) -> None:
    section = "filters: {drop_null: true, max_prompt_tokens: 5}"
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "config.json").write_text("{}")
    with pytest.raises(DataError, match="counts tokens, and there is no tokenizer of"):
        load(tmp_path, section, model=tmp_path / "empty")
    prompts = load(tmp_path, section, model=tmp_path / "empty", fetch=False)
    assert prompts.train.num_rows == 4
    assert any("max_prompt_tokens 5 not applied: no tokenizer of" in note for note in prompts.notes)


def test_a_stream_is_filtered_as_it_passes(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    base = f"dataset_name: {tmp_path / 'data'}\ndataset_streaming: true\n"
    prompts = load(tmp_path, "filters: {drop_null: true, max_prompt_tokens: 14}", base)
    assert [row["prompt"] for row in prompts.train] == ["What is 1 + 1?", "1+1"]
    with pytest.raises(DataError, match="needs all rows"):
        load(tmp_path, "filters: {drop_duplicates: true}", base)


@pytest.mark.parametrize(
    ("section", "asked"),
    [
        ("probe_prompts: {prompts: 2}\nholdout: 3", 2),
        ("probe_prompts: {source: rows.jsonl, prompts: 3}", 3),
        ("probe_prompts: {source: ['What is 7 + 8?', Say 3]}\nsystem_prompt: Think.", 2),
    ],
)
def test_probe_prompts_come_from_the_holdout_a_file_or_the_config(
    tmp_path: Path, section: str, asked: int
) -> None:
    prompts = load(tmp_path, f"{section}\nfilters: {{drop_null: [answer]}}")
    assert prompts.probes is not None
    assert len(prompts.probes) == asked
    given = [row["prompt"] for row in prompts.probes]
    if "source: rows.jsonl" in section:
        assert given == [ROWS[place]["prompt"] for place in (0, 2, 6)], (
            "spread over the five rows that are left"
        )
    if "holdout" in section:
        assert prompts.holdout is not None
        assert set(given) <= set(prompts.holdout["prompt"])
    if "Think" in section:
        assert [[m["content"] for m in p] for p in given] == [
            ["Think.", "What is 7 + 8?"],
            ["Think.", "Say 3"],
        ]
    assert load(tmp_path, "filters: {drop_null: [answer]}").probes is None


def test_probe_prompts_are_added_and_removed_by_their_text(tmp_path: Path) -> None:
    drop = "filters: {drop_null: [answer]}"
    section = "probe_prompts: {source: [Say 2, Say 3], add: [Say 4, Say 3, Say 4], remove: [Say 2]}"
    texts = load(tmp_path, f"{section}\n{drop}")
    assert texts.probes is not None
    assert [prompt_text(row["prompt"]) for row in texts.probes] == ["Say 3", "Say 4"]
    assert not [note for note in texts.notes if "probe_prompts" in note]
    section = "probe_prompts: {source: rows.jsonl, prompts: 3, add: [Say 4], remove: ['What is 1 + 1?', '5']}"
    rows = load(tmp_path, f"{section}\n{drop}")
    assert rows.probes is not None
    assert [row["prompt"] for row in rows.probes] == [ROWS[6]["prompt"], "Say 4"], (
        "both rows of this prompt are gone"
    )
    assert ["answer" in row for row in rows.probes] == [True, False]
    unknown = "grpo_tui.probe_prompts.remove: no probe prompt is '5'"
    assert [note for note in rows.notes if "probe_prompts" in note] == [unknown]
