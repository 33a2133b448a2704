"""From small files of every kind to the prompts TRL trains on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from grpo_tui.config.resolve import load_config
from grpo_tui.data import sources
from grpo_tui.data.load import DataError, Prompts, load_prompts

ROWS = [{"question": f"{n}+1?", "answer": f"It is\n#### {n + 1}", "level": n % 3} for n in range(20)]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


def write_rows(file: Path, rows: list[dict]) -> Path:
    from datasets import Dataset

    if file.suffix == ".jsonl":
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif file.suffix == ".json":
        file.write_text(json.dumps(rows))
    elif file.suffix == ".csv":
        Dataset.from_list(rows).to_csv(str(file))
    elif file.suffix == ".tsv":
        Dataset.from_list(rows).to_csv(str(file), sep="\t")
    else:
        Dataset.from_list(rows).to_parquet(str(file))
    return file


def load(folder: Path, section: str, base: str = "") -> Prompts:
    text = "model_name_or_path: m\nreward_funcs: [accuracy_reward]\n" + base
    if section:
        text += "grpo_tui:\n" + "".join(f"  {line}\n" for line in section.splitlines())
    (folder / "run.yaml").write_text(text)
    return load_prompts(load_config(folder / "run.yaml"))


MAPPED = "columns: {prompt: question}\nanswer: gsm8k\nsystem_prompt: Think."


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".csv", ".tsv", ".parquet"])
def test_a_file_becomes_prompts_with_messages_and_extracted_answers(tmp_path: Path, suffix: str) -> None:
    write_rows(tmp_path / f"rows{suffix}", ROWS)
    prompts = load(tmp_path, f"dataset: rows{suffix}\n{MAPPED}")
    assert prompts.train.num_rows == 20
    assert set(prompts.train.column_names) == {"prompt", "answer", "level"}
    first = prompts.train[0]
    assert first["prompt"] == [{"role": "system", "content": "Think."}, {"role": "user", "content": "0+1?"}]
    assert first["answer"] == "1"
    assert first["level"] == 0
    assert prompts.eval is None
    assert prompts.holdout is None


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".csv", ".tsv", ".parquet"])
def test_the_case_of_a_suffix_changes_nothing(tmp_path: Path, suffix: str) -> None:
    small = write_rows(tmp_path / f"rows{suffix}", ROWS)
    small.rename(tmp_path / f"ROWS{suffix.upper()}")
    assert load(tmp_path, f"dataset: ROWS{suffix.upper()}\n{MAPPED}").train.num_rows == 20


def test_few_shot_examples_stand_between_system_prompt_and_question(tmp_path: Path) -> None:
    write_rows(tmp_path / "rows.jsonl", ROWS)
    section = f"dataset: rows.jsonl\n{MAPPED}\nfew_shot:\n  - {{user: '1+1?', assistant: '2'}}"
    roles = [message["role"] for message in load(tmp_path, section).train[3]["prompt"]]
    assert roles == ["system", "user", "assistant", "user"]


SYSTEM, ASK, SAY, MORE = (
    {"role": "system", "content": "own"},
    {"role": "user", "content": "question"},
    {"role": "assistant", "content": "reply"},
    {"role": "user", "content": "again"},
)
SHOTS = [{"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "2"}]


@pytest.mark.parametrize("system", [None, "new"])
@pytest.mark.parametrize("shots", [[], SHOTS], ids=["plain", "examples"])
@pytest.mark.parametrize(
    "prompt",
    ["question", [ASK], [SYSTEM, ASK], [SYSTEM, ASK, SAY, MORE], [ASK, SAY, MORE]],
    ids=["text", "turn", "system", "system-turns", "turns"],
)
def test_a_prompt_is_one_system_message_then_the_examples_then_its_own_turns(
    tmp_path: Path, prompt: Any, shots: list[dict[str, str]], system: str | None
) -> None:
    write_rows(tmp_path / "rows.jsonl", [{"messages": prompt}])
    section = "dataset: rows.jsonl\ncolumns: {prompt: messages}"
    if system is not None:
        section += f"\nsystem_prompt: {system}"
    if shots:
        section += "\nfew_shot:\n  - {user: '1+1?', assistant: '2'}"
    turns = [ASK] if isinstance(prompt, str) else [turn for turn in prompt if turn["role"] != "system"]
    first = [{"role": "system", "content": "new"}] if system else [SYSTEM] if SYSTEM in [*prompt] else []
    wanted = prompt if isinstance(prompt, str) and not shots and not system else [*first, *shots, *turns]
    assert load(tmp_path, section).train[0]["prompt"] == wanted


def test_a_turn_that_only_calls_a_tool_needs_no_content(tmp_path: Path) -> None:
    call = {"type": "function", "function": {"name": "add", "arguments": {"a": 1}}}
    result = {"role": "tool", "name": "add", "content": "2"}
    turns = [ASK, {"role": "assistant", "content": None, "tool_calls": [call]}, result]
    write_rows(tmp_path / "rows.jsonl", [{"prompt": turns}])
    prompt = load(tmp_path, "dataset: rows.jsonl\nsystem_prompt: new").train[0]["prompt"]
    assert [turn["role"] for turn in prompt] == ["system", "user", "assistant", "tool"]
    assert [turn["content"] for turn in prompt] == ["new", ASK["content"], None, "2"]
    assert prompt[2]["tool_calls"] == [call]


def test_without_a_system_prompt_strings_stay_strings(tmp_path: Path) -> None:
    write_rows(tmp_path / "rows.jsonl", ROWS)
    assert load(tmp_path, "dataset: rows.jsonl\ncolumns: {prompt: question}").train[0]["prompt"] == "0+1?"


def test_message_prompts_keep_their_turns_and_the_sections_system_prompt_replaces_theirs(
    tmp_path: Path,
) -> None:
    turns = [{"role": "system", "content": "old"}, {"role": "user", "content": "hi"}]
    write_rows(tmp_path / "rows.jsonl", [{"messages": turns}])
    section = "dataset: rows.jsonl\ncolumns: {prompt: messages}\n"
    assert load(tmp_path, section).train[0]["prompt"] == turns
    replaced = load(tmp_path, section + "system_prompt: new").train[0]["prompt"]
    assert replaced == [{"role": "system", "content": "new"}, turns[1]]


@pytest.mark.parametrize(
    ("columns", "names", "prompt", "answer"),
    [
        ("{prompt: question, answer: answer}", {"prompt", "answer"}, "q", "a"),
        ("{prompt: answer, answer: question}", {"prompt", "answer"}, "a", "q"),
        ("{prompt: question, question: question}", {"prompt", "question", "answer"}, "q", "a"),
    ],
)
def test_columns_are_renamed_swapped_or_kept_beside(
    tmp_path: Path, columns: str, names: set[str], prompt: str, answer: str
) -> None:
    write_rows(tmp_path / "rows.jsonl", [{"question": "q", "answer": "a"}])
    train = load(tmp_path, f"dataset: rows.jsonl\ncolumns: {columns}").train
    assert set(train.column_names) == names
    assert (train[0]["prompt"], train[0]["answer"]) == (prompt, answer)


def test_a_mapped_prompt_replaces_a_prompt_column_of_the_dataset(tmp_path: Path) -> None:
    write_rows(tmp_path / "rows.jsonl", [{"prompt": "old", "question": "new"}])
    train = load(tmp_path, "dataset: rows.jsonl\ncolumns: {prompt: question}").train
    assert train.to_list() == [{"prompt": "new"}]


def test_the_holdout_is_set_aside_by_seed_and_never_trained_on(tmp_path: Path) -> None:
    write_rows(tmp_path / "rows.jsonl", ROWS)
    section = f"dataset: rows.jsonl\n{MAPPED}\nholdout: 5"
    first, again = load(tmp_path, section), load(tmp_path, section)
    other = load(tmp_path, section, "seed: 7\n")
    answers = lambda rows: [row["answer"] for row in rows]  # noqa: E731
    assert first.holdout is not None
    assert answers(first.holdout) == answers(again.holdout)
    assert answers(first.holdout) != answers(other.holdout)
    assert first.holdout.num_rows == 5
    assert sorted(answers(first.holdout) + answers(first.train), key=int) == [str(n + 1) for n in range(20)]


def test_rows_with_the_prompt_of_a_held_out_row_are_not_trained_on(tmp_path: Path) -> None:
    write_rows(tmp_path / "rows.jsonl", [{"prompt": f"p{n % 5}", "n": n} for n in range(20)])
    prompts = load(tmp_path, "dataset: rows.jsonl\nholdout: 2")
    held = set(prompts.holdout["prompt"])
    assert not held & set(prompts.train["prompt"])
    assert prompts.train.num_rows == 20 - 4 * len(held)
    assert "not trained on" in prompts.notes[0]


def test_evaluation_takes_the_eval_dataset_or_the_holdout_or_is_refused(
    tmp_path: Path,
) -> None:
    write_rows(tmp_path / "rows.jsonl", ROWS)
    write_rows(tmp_path / "test.csv", ROWS[:3])
    section = f"dataset: rows.jsonl\n{MAPPED}\n"
    on = "eval_strategy: steps\n"
    assert load(tmp_path, section + "eval_dataset: test.csv", on).eval.num_rows == 3
    (tmp_path / "own.py").write_text(
        "def parts(): return {'test': [], 'dev': [{'question': '1+1?', 'answer': '#### 2'}]}\n"
    )
    named = load(tmp_path, section + "eval_dataset: own.py:parts", on + "dataset_test_split: dev\n")
    assert named.eval["answer"][:] == ["2"]
    held = load(tmp_path, section + "holdout: 4", on)
    assert held.eval.to_list() == held.holdout.to_list()
    with pytest.raises(DataError, match=r"grpo_tui\.eval_dataset, grpo_tui\.holdout"):
        load(tmp_path, section, on)


def test_a_local_folder_is_loaded_with_its_splits_as_trl_does(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    write_rows(tmp_path / "d" / "train.jsonl", [{"prompt": "a"}, {"prompt": "b"}])
    write_rows(tmp_path / "d" / "test.jsonl", [{"prompt": "c"}])
    prompts = load(tmp_path, "", "dataset_name: d\neval_strategy: steps\n")
    assert prompts.train["prompt"][:] == ["a", "b"]
    assert prompts.eval["prompt"][:] == ["c"]
    with pytest.raises(DataError, match="no split dev; it has train, test"):
        load(tmp_path, "", "dataset_name: d\ndataset_train_split: dev\n")
    splits = "dataset_train_split: test\ndataset_test_split: train\n"
    swapped = load(tmp_path, "", f"dataset_name: d\neval_strategy: steps\n{splits}")
    assert (swapped.train["prompt"][:], swapped.eval["prompt"][:]) == (["c"], ["a", "b"])
    with pytest.raises(DataError, match="eval_dataset"):
        load(tmp_path, "", "dataset_name: d\neval_strategy: steps\ndataset_test_split: dev\n")


@pytest.mark.parametrize(
    ("name", "is_no_file"), [("lost.JSONL", True), ("some/rows", False), ("d.json", False)]
)
def test_a_name_that_is_no_dataset_says_whether_a_file_was_looked_for(
    tmp_path: Path, name: str, is_no_file: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    import datasets

    def unreachable(*args: object, **options: object) -> None:
        raise ConnectionError("no such dataset\nand more")

    monkeypatch.setattr(datasets, "load_dataset", unreachable)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d.json").mkdir()
    lost = tmp_path / "lost.JSONL"
    lost.touch()
    text = f"model_name_or_path: m\nreward_funcs: [accuracy_reward]\ndataset_name: {name}\n"
    (tmp_path / "run.yaml").write_text(text)
    config = load_config(tmp_path / "run.yaml")
    lost.unlink()
    with pytest.raises(DataError) as caught:
        load_prompts(config)
    said, _, file = str(caught.value).partition(" There is no file ")
    assert said.endswith(f"{name}: no such dataset")
    assert file == (f"{lost}." if is_no_file else "")


def test_a_saved_dataset_and_a_single_file_can_be_named(tmp_path: Path) -> None:
    from datasets import Dataset, DatasetDict

    saved, other = Dataset.from_list([{"prompt": "a"}]), Dataset.from_list([{"prompt": "c"}])
    saved.save_to_disk(str(tmp_path / "saved"))
    assert load(tmp_path, "", "dataset_name: saved\n").train["prompt"][:] == ["a"]
    DatasetDict(easy=saved, hard=other).save_to_disk(str(tmp_path / "both"))
    splits = "dataset_train_split: easy\ndataset_test_split: hard\n"
    both = load(tmp_path, "", f"dataset_name: both\neval_strategy: steps\n{splits}")
    assert (both.train["prompt"][:], both.eval["prompt"][:]) == (["a"], ["c"])
    with pytest.raises(DataError, match="no split train; it has easy, hard"):
        load(tmp_path, "", "dataset_name: both\n")
    write_rows(tmp_path / "one.jsonl", [{"prompt": "b"}])
    assert load(tmp_path, "", "dataset_name: one.jsonl\n").train["prompt"][:] == ["b"]


def test_trls_mixture_is_loaded_by_trl(tmp_path: Path) -> None:
    write_rows(tmp_path / "a.jsonl", [{"prompt": "a"}])
    write_rows(tmp_path / "b.jsonl", [{"prompt": "b"}])
    base = "datasets:\n  - {path: json, data_files: a.jsonl}\n  - {path: json, data_files: b.jsonl}\n"
    assert load(tmp_path, "", base).train["prompt"][:] == ["a", "b"]


@pytest.mark.parametrize(
    "body",
    [
        "return [{'prompt': 'a'}, {'prompt': 'b'}]",
        "return ({'prompt': p} for p in 'ab')",
        "return {'prompt': ['a', 'b']}",
        "from datasets import Dataset; return Dataset.from_dict({'prompt': ['a', 'b']})",
        "import datasets as d; return d.DatasetDict(train=d.Dataset.from_dict({'prompt': ['a', 'b']}))",
    ],
)
def test_a_function_of_ones_own_may_give_rows_in_any_usual_form(tmp_path: Path, body: str) -> None:
    (tmp_path / "mine.py").write_text(f"def rows():\n    {body}\n")
    assert load(tmp_path, "dataset: mine.py:rows").train["prompt"][:] == ["a", "b"]


@pytest.mark.parametrize(
    ("source", "word"),
    [
        ("def rows():\n    x = 1\n    return 1 / 0\n", r"mine\.py:3: rows\(\) failed: ZeroDivisionError"),
        ("def rows():\n    raise SystemExit(3)\n", r"mine\.py:2: rows\(\) failed: SystemExit: 3"),
        ("def rows():\n    raise ValueError('x' * 9999)\n", r"failed: ValueError: x{200,300}…$"),
        (
            "from functools import partial\nrows = partial(int, 'x')\n",
            r"mine\.py: rows\(\) failed: ValueError",
        ),
        ("def rows():\n    return 3\n", "returned int. It must return"),
        ("def rows():\n    return ['a']\n", "row 1 is 'a'"),
        ("def row():\n    return []\n", "Did you mean row"),
        ("def rows(:\n", r"mine\.py:1: "),
        ("import not_installed_thing\ndef rows(): return []\n", r"mine\.py:1: .*imports not_installed_thing"),
    ],
)
def test_a_function_that_fails_is_told_with_file_and_line(tmp_path: Path, source: str, word: str) -> None:
    (tmp_path / "mine.py").write_text(source)
    with pytest.raises(DataError, match=word):
        load(tmp_path, "dataset: mine.py:rows")


def test_a_generator_without_an_end_is_left_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "MOST_DRAWN", 5)
    source = "import itertools\ndef rows(): return ({'prompt': str(n)} for n in itertools.%s)\n"
    (tmp_path / "mine.py").write_text(source % "count()")
    with pytest.raises(DataError, match=r"mine\.py:rows did not end after 5 rows.*Let it end"):
        load(tmp_path, "dataset: mine.py:rows")
    (tmp_path / "mine.py").write_text(source % "islice(itertools.count(), 4)")
    assert load(tmp_path, "dataset: mine.py:rows").train["prompt"] == ["0", "1", "2", "3"]


@pytest.mark.parametrize(
    ("rows", "section", "word"),
    [
        (
            [{"question": "q"}],
            "",
            r"no column prompt; it has question.*\n.*\n.*columns: \{prompt: question\}",
        ),
        ([{"Prompt": "q"}], "", r"columns: \{prompt: Prompt\}"),
        ([{"messages": [{"role": "user", "content": "q"}]}], "", r"columns: \{prompt: messages\}"),
        ([{"question": "q"}], "columns: {prompt: questoin}", "Did you mean question"),
        ([{"prompt": "a"}, {"prompt": None}], "", r"row 2: the prompt is empty \(null\)"),
        ([{"prompt": "a"}, {"prompt": "b"}, {"prompt": "  "}], "", "row 3: the prompt is an empty text"),
        ([{"prompt": 3}], "", "row 1: the prompt is 3"),
        ([{"prompt": [{"role": "user", "content": None}]}], "", "row 1: .*the user without content"),
        (
            [{"prompt": [ASK, {"role": "assistant", "content": None, "tool_calls": []}]}],
            "",
            "row 1: .*the assistant without content",
        ),
        ([{"prompt": []}], "", "row 1: .*an empty list of messages"),
        ([{"prompt": [{"content": "q"}]}], "", "row 1: .*not a message. A message has role and content"),
        ([{"prompt": [{"role": "user", "content": [{"text": "q"}]}]}], "", "row 1: .*in the content of a"),
        (
            [{"prompt": None}, {"prompt": [{"role": "user", "content": None}]}],
            "filters: {drop_null: true}",
            "row 2: .*the user without content",
        ),
        ([{"prompt": "a", "completions": "x"}], "", "column completions"),
        (
            [{"prompt": "a", "answer": "#### 1"}, {"prompt": "b", "answer": "two"}],
            "answer: gsm8k",
            "row 2: no #### in the column answer .'two'.; 1 of 2 rows",
        ),
        ([{"prompt": "a", "anser": "1"}], "answer: gsm8k", "Did you mean anser"),
        ([{"prompt": "a"}], "holdout: 1", "one must be left to train on"),
    ],
)
def test_rows_that_cannot_be_used_are_refused_with_row_and_fix(
    tmp_path: Path, rows: list[dict], section: str, word: str
) -> None:
    write_rows(tmp_path / "rows.jsonl", rows)
    with pytest.raises(DataError, match=word) as caught:
        load(tmp_path, f"dataset: rows.jsonl\n{section}")
    assert "rows.jsonl" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ('{"prompt": "a"}\n{"prompt": \n', r"rows\.jsonl:2: this line is not valid JSON"),
        ("", r"rows\.jsonl is empty"),
        ("\n\n", r"rows\.jsonl has no rows"),
        (b'{"prompt": "a"}\n{"prompt": "caf\xe9"}\n', r"rows\.jsonl:2: not UTF-8 text \(byte 0xe9\)"),
        ('{"prompt": "a"}\n'.encode("utf-16"), r"rows\.jsonl:1: not UTF-8 text \(byte 0xff\)"),
        ('{"prompt": ' + "[" * 3000 + "]" * 3000 + "}\n", r"rows\.jsonl:1: this line is nested too deeply"),
        (
            '{"prompt": []}\n{"prompt": ' + "[" * 300 + "]" * 300 + "}\n",
            r"rows\.jsonl:2: this line is nested too deeply",
        ),
        ('{"prompt": "a"}\n3\n', r"rows\.jsonl:2: this line is not a row"),
    ],
    ids=[
        "no JSON",
        "empty",
        "no rows",
        "Latin-1",
        "UTF-16",
        "nested",
        "nested for datasets alone",
        "no object",
    ],
)
def test_a_broken_file_is_refused_with_the_line(tmp_path: Path, text: str | bytes, word: str) -> None:
    (tmp_path / "rows.jsonl").write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(DataError, match=word):
        load(tmp_path, "dataset: rows.jsonl")


def test_a_file_with_brackets_in_its_name_is_read(tmp_path: Path) -> None:
    write_rows(tmp_path / "rows[1].jsonl", [{"prompt": "a"}])
    assert load(tmp_path, "dataset: 'rows[1].jsonl'").train.num_rows == 1


STREAM = """
import datasets, json

def rows():
    return datasets.IterableDataset.from_generator(lambda: map(json.loads, open("rows.jsonl")))
"""


@pytest.mark.parametrize(
    "section",
    [
        MAPPED,
        "columns: {prompt: question, question: level}\nchat: true",
        "columns: {prompt: question}\nanswer: gsm8k\nfilters: {drop_null: true}",
    ],
)
def test_a_stream_becomes_the_rows_that_its_file_does(tmp_path: Path, section: str) -> None:
    """A stream tells its columns, or only with its first row."""
    (tmp_path / "d").mkdir()
    rows = [*ROWS[:3], {**ROWS[3], "answer": "no number"}] if "drop_null" in section else ROWS
    write_rows(tmp_path / "d" / "train.jsonl", rows)
    file = write_rows(tmp_path / "rows.jsonl", rows)
    (tmp_path / "stream.py").write_text(STREAM.replace("rows.jsonl", str(file)))
    streams = [
        load(tmp_path, section, "dataset_name: d\ndataset_streaming: true\n"),
        load(tmp_path, f"dataset: stream.py:rows\n{section}"),
    ]
    whole = list(load(tmp_path, f"dataset: rows.jsonl\n{section}").train)
    assert len(whole) == (3 if "drop_null" in section else 20)
    assert [list(stream.train) for stream in streams] == [whole, whole]


@pytest.mark.parametrize(
    ("section", "said"),
    [(f"{MAPPED}\nholdout: 2", "streamed"), ("columns: {prompt: qestion}", "Did you mean question")],
)
def test_what_a_stream_cannot_give_is_said(tmp_path: Path, section: str, said: str) -> None:
    (tmp_path / "stream.py").write_text(STREAM.replace("rows.jsonl", str(tmp_path / "rows.jsonl")))
    write_rows(tmp_path / "rows.jsonl", ROWS)
    with pytest.raises(DataError, match=said):
        load(tmp_path, f"dataset: stream.py:rows\n{section}")
    (tmp_path / "rows.jsonl").write_text("")
    with pytest.raises(DataError):
        load(tmp_path, "dataset: stream.py:rows")


def test_the_rows_to_evaluate_on_are_held_out_ones_spread_evenly(tmp_path: Path) -> None:
    write_rows(tmp_path / "rows.jsonl", ROWS)
    section = f"dataset: rows.jsonl\n{MAPPED}\nholdout: 6\nevaluate: {{rows: 3}}"
    prompts = load(tmp_path, section)
    assert prompts.holdout is not None
    assert prompts.evaluated is not None
    assert prompts.evaluated["prompt"] == prompts.holdout["prompt"][::2]
    assert load(tmp_path, f"dataset: rows.jsonl\n{MAPPED}\nholdout: 6").evaluated is None
    write_rows(tmp_path / "other.jsonl", ROWS[:2])
    both = load(tmp_path, f"{section}\neval_dataset: other.jsonl", "eval_strategy: steps\n")
    assert both.eval is not None
    assert both.eval.num_rows == 2, "TRL's own evaluation takes the set that is named for it"
    assert both.evaluated.to_list() == prompts.evaluated.to_list()


def test_without_a_holdout_the_rows_of_the_evaluation_set_are_evaluated_on(tmp_path: Path) -> None:
    write_rows(tmp_path / "rows.jsonl", ROWS)
    write_rows(tmp_path / "other.jsonl", ROWS[:2])
    section = f"dataset: rows.jsonl\neval_dataset: other.jsonl\n{MAPPED}\nevaluate: {{rows: 3}}"
    prompts = load(tmp_path, section)
    assert prompts.eval is None
    assert prompts.evaluated is not None
    assert prompts.evaluated["answer"] == ["1", "2"]
    assert prompts.train.num_rows == 20
    (tmp_path / "own.py").write_text(
        "def parts(): return {'test': [], 'dev': [{'question': 'a', 'answer': '#### 7'}]}"
    )
    section = section.replace("other.jsonl", "own.py:parts")
    assert load(tmp_path, section, "dataset_test_split: dev\n").evaluated["answer"] == ["7"]
