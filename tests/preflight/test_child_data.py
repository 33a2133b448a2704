"""What the child says of rows, and that its rows are those of training."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grpo_tui.config.resolve import load_config
from grpo_tui.config.settings import Settings
from grpo_tui.core.findings import Finding, Fix
from grpo_tui.data.load import load_prompts
from grpo_tui.data.sources import Rows
from grpo_tui.preflight.advice import checklist
from grpo_tui.preflight.checker import judge
from grpo_tui.preflight.child import table
from grpo_tui.preflight.child.hub import Hub
from grpo_tui.preflight.child.mapped import TRAIN
from grpo_tui.preflight.child.session import CheckSession, LoadedTokenizer
from grpo_tui.preflight.facts import Facts, ModelFacts, TokenizerFacts, Whereabouts
from grpo_tui.present.data_view import row_blocks

MODEL = Path(__file__).parents[2] / "grpo_tui" / "demo" / "model"
SUMS = [{"question": f"{n} + 1?", "answer": f"So it is.\n#### {n + 1}", "level": n % 3} for n in range(24)]
GSM = "columns: {prompt: question}\nanswer: gsm8k\nsystem_prompt: Think."


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


def session_of(
    folder: Path, rows: Any, section: str = "", base: str = "", name: str = "rows.jsonl"
) -> CheckSession:
    """A session over rows, which are a list, or the text of a file."""
    text = rows if isinstance(rows, str) else "".join(json.dumps(row) + "\n" for row in rows)
    (folder / name).write_text(text)
    lines = "".join(f"  {line}\n" for line in f"dataset: {name}\n{section}".splitlines())
    head = f"model_name_or_path: {MODEL}\nreward_funcs: [accuracy_reward]\nnum_generations: 4\n"
    size = "per_device_train_batch_size: 8\ngradient_accumulation_steps: 1\nmax_completion_length: 64\n"
    (folder / "run.yaml").write_text(f"{head}{size}{base}grpo_tui:\n{lines}")
    return CheckSession(load_config(folder / "run.yaml"), Hub(), lambda what: None)


def seen(session: CheckSession) -> Settings:
    return Settings.of_config(session.config, 1, lines=True)


def judged(session: CheckSession, *, tokens: bool = False) -> list[Finding]:
    """Findings of the data, and with tokens of tokenizer and lengths."""
    facts = Facts(data=session.data())
    if tokens:
        model = ModelFacts(Whereabouts("m", "folder", str(MODEL)), context=256, vocab=106)
        tokenizer = session.tokenizer(model)
        facts = Facts(model, tokenizer, session.measured() or session.facts_of_data)
    return list(judge(facts, seen(session)))


def only(found: list[Finding], rule: str) -> Finding:
    hits = [finding for finding in found if finding.id == rule]
    assert len(hits) == 1, [finding.id for finding in found]
    return hits[0]


# -- the same rows as training -------------------------------------------------------------------

SECTIONS = [
    GSM,
    "columns: {prompt: question, question: question}",
    "columns: {prompt: answer, answer: question}",
    f"{GSM}\nholdout: 5",
    f"{GSM}\nfilters: {{drop_duplicates: true, drop_null: true}}\nholdout: 3",
    f"{GSM}\nfilters: {{max_prompt_tokens: 17}}\nholdout: 4",
    "columns: {prompt: question}\nanswer: {from: answer, kind: gsm8k, to: gold}\nchat: true",
    "columns: {prompt: question}\nfew_shot:\n  - {user: '1+1?', assistant: '2'}",
]


@pytest.mark.parametrize("section", SECTIONS)
def test_the_rows_are_those_of_training(section: str, tmp_path: Path) -> None:
    rows = [*SUMS, SUMS[3], SUMS[7]]
    if "drop_null" in section:
        rows.append({"question": None, "answer": "#### 1", "level": 0})
        rows.append({"question": "?", "answer": "none", "level": 0})
    session = session_of(tmp_path, rows, section)
    judged(session, tokens=True)
    mapped = session.mapped
    assert mapped is not None
    prompts = load_prompts(session.config)
    trained = [i for i, fate in enumerate(mapped.fates) if fate == TRAIN]
    expected = prompts.train.to_list()
    assert [mapped.prompts[i] for i in trained] == [row["prompt"] for row in expected]
    for name in set(expected[0]) - {"prompt"}:
        assert [mapped.columns[name][i] for i in trained] == [row[name] for row in expected]
    held = [i for i, fate in enumerate(mapped.fates) if fate == "held out"]
    assert [mapped.prompts[i] for i in held] == (list(prompts.holdout["prompt"]) if prompts.holdout else [])
    facts = session.facts_of_data
    assert facts is not None
    assert (facts.train_rows, facts.held) == (len(trained), len(held))
    assert {column.name for column in facts.columns} == set(expected[0])


# -- findings ------------------------------------------------------------------------------------

PLAIN = [{"prompt": f"What is {n}?", "answer": str(n)} for n in range(30)]


def changed(**rows: dict[str, Any]) -> list[dict[str, Any]]:
    """The plain rows with some of them replaced, `row_3={...}` from 1."""
    made = [dict(row) for row in PLAIN]
    for name, row in rows.items():
        made[int(name.removeprefix("row_")) - 1].update(row)
    return made


def named(column: str) -> list[dict[str, Any]]:
    """The plain rows with one more column."""
    return [{**row, column: n} for n, row in enumerate(PLAIN)]


PAIR = {"chosen": "a", "rejected": "b"}
CASES: list[tuple[Any, str, str, str, Any]] = [
    # rows, section, severity and rule, what is said, value of the fix
    ([{"question": "2+2="}], "", "error data.no-prompt", "it has question", "question"),
    ([{"messages": [{"role": "user", "content": "x"}]}], "", "error data.no-prompt", "messages", "messages"),
    ([{"Prompt": "x"}], "", "error data.no-prompt", "it has Prompt", "Prompt"),
    (changed(row_7={"prompt": None}), "", "error data.bad-prompt", "row 7: the prompt is empty (null)", True),
    (
        changed(row_3={"prompt": " "}, row_9={"prompt": ""}),
        "", "error data.bad-prompt", "rows 3 and 9: the prompt is an empty text", True,
    ),
    (changed(row_4={"prompt": 5}), "", "error data.bad-prompt", "row 4: the prompt must be a text", None),
    (
        [*SUMS[:5], {"question": "?", "answer": "no mark", "level": 1}],
        GSM, "error data.bad-answer", "row 6: no answer of the kind gsm8k in the column answer (1 of 6", True,
    ),
    (
        changed(row_2={"prompt": [{"role": "user", "content": "hi"}]}),
        "", "error data.mixed-form", "messages in row 2", True,
    ),
    (
        changed(row_5={"answer": 5}),
        "", "warning data.mixed-types", "text in 29 rows, and a number in row 5", None,
    ),
    (
        [{**row, "hint": "h"} for row in PLAIN[:8]] + [{**PLAIN[8], "hint": None}],
        "", "warning data.nulls", "the column hint is empty (null) in row 9", True,
    ),
    (changed(row_8={"answer": None}), "", "warning data.gold-missing", "(column answer) in row 8", True),
    ([*PLAIN, PLAIN[0], PLAIN[1]], "", "warning data.duplicates", "2 rows (6 %)", True),
    (named("completions"), "", "error data.reserved-name", "completions", "completions"),
    (named("completion_ids"), "", "warning data.reserved-name", "reaches no reward", "completion_ids"),
    (named("trainer_state"), "", "warning data.reserved-name", "its own", "trainer_state"),
    (PLAIN[:1], "", "error data.smaller-than-batch", "1 row to train on, and one generation takes 2", 4),
    (PLAIN[:4], "holdout: 3", "error data.smaller-than-batch", "1 row to train on (3 more are held", 2),
    (PLAIN[:4], "holdout: 4", "error data.hold-out", "only 4 rows are left", 1),
    ([{**row, "answer": "yes"} for row in PLAIN], "", "warning data.one-answer", "100 % of the rows", None),
    ([{"prompt": row["prompt"]} for row in PLAIN], "", "info data.no-gold", "the prompt alone", None),
    ([{"prompt": "p", **PAIR}] * 4, "", "warning data.preference-pairs", "DPO", None),
    ([PAIR] * 4, "", "error data.preference-pairs", "needs a column prompt", None),
    (
        [*PLAIN, PLAIN[0]],
        "filters: {drop_duplicates: true}", "info data.filtered", "leaves out row 31 (1 of 31)", None,
    ),
    ("", "", "error data.unreadable", "is empty", None),
    ('{"prompt": "x"}\n{"prompt": \n', "", "error data.unreadable", "rows.jsonl:2", None),
    (PLAIN, "filters: {drop_null: [hint]}", "error data.unusable", "drop_null names the column hint", None),
    (
        [{**row, "hint": None if n % 2 else "h"} for n, row in enumerate(PLAIN)],
        "", "info data.nulls", "the column hint is empty (null) in rows 2, 4", None,
    ),
    (
        [{**r, "hint": None if n == 4 else "h", "more": "" if n % 2 else "m"} for n, r in enumerate(PLAIN)],
        "", "warning data.nulls", "the column hint is empty (null) in row 5", ["hint"],
    ),
    (
        [{**row, "hint": None} for row in changed(row_7={"prompt": None})],
        "", "error data.bad-prompt", "row 7", ["prompt"],
    ),
    ([{"prompt": None, "answer": "1"}] * 9, "", "error data.bad-prompt", "rows 1, 2", None),
    (SUMS, "columns: {prompt: Question}", "error data.unusable", "Did you mean question?", "question"),
    (SUMS, "columns: {question: prompt}", "error data.unusable", "wrong way round", {"prompt": "question"}),
    (
        PLAIN, "answer: {from: gold, kind: tag}",
        "error data.unusable", "reads the column gold", {"from": "answer", "kind": "tag"},
    ),
    (PLAIN, "answer: gsm8k", "error data.bad-answer", "(30 of 30 rows)", None),
    ([{"data": PLAIN}], "", "error data.no-prompt", "must be that list itself", None),
    (
        [{"prompt": json.dumps([{"role": "user", "content": row["prompt"]}])} for row in PLAIN],
        "", "warning data.quoted-messages", "holds a list of messages", None,
    ),
    (
        [{"prompt": str([{"role": "user", "content": row["prompt"]}])} for row in PLAIN],
        "", "warning data.quoted-messages", "rows 1, 2", None,
    ),
    ([{"prompt": [{"role": "human", "content": "hi"}]}], "", "warning data.role", "the role human", None),
    ([{"prompt": [{"role": "user", "content": " "}]}], "", "warning data.blank-turn", "row 1", None),
    (
        [{"prompt": [{"role": "user", "content": "?"}, {"role": "assistant", "content": n}]} for n in "12"],
        "", "warning data.answered", "rows 1 and 2", None,
    ),
    (PLAIN, "columns: {prompt: quest}", "error data.unusable", "prompt from the column quest", "prompt"),
]  # fmt: skip


@pytest.mark.parametrize(("rows", "section", "rule", "said", "fix"), CASES, ids=[case[2] for case in CASES])
def test_a_fault_of_the_data_is_told_with_its_rows(
    rows: Any, section: str, rule: str, said: str, fix: Any, tmp_path: Path
) -> None:
    session = session_of(tmp_path, rows, section)
    severity, _, rule = rule.partition(" ")
    found = only(judged(session), rule)
    assert found.severity == severity
    assert said in found.message
    assert (found.fix.value if found.fix is not None else None) == fix
    assert found.line is not None
    assert "\n" not in found.message


def test_sound_rows_have_no_finding(tmp_path: Path) -> None:
    assert judged(session_of(tmp_path, SUMS, GSM), tokens=True) == []


@pytest.mark.parametrize(
    "prompts",
    [
        [[{"role": "system", "content": "Add."}, {"role": "user", "content": f"{n}?"}] for n in range(30)],
        [f"<|user|>{n}?<|assistant|>" for n in range(30)],
    ],
    ids=["a system message", "the marks of the template in the text"],
)
def test_prompts_of_a_rarer_form_are_sound_too(prompts: list[Any], tmp_path: Path) -> None:
    rows = [{"prompt": prompt, "answer": str(n)} for n, prompt in enumerate(prompts)]
    assert judged(session_of(tmp_path, rows), tokens=True) == []


EVALUATION: list[tuple[list[dict[str, Any]], str, str, str, Any]] = [
    # rows to evaluate on, section, severity and rule, what is said, value of the fix
    ([{"question": "?", "answer": "1"}] * 4, "", "error data.no-prompt", "it has question, answer", None),
    (changed(row_17={"prompt": None}), "", "error data.bad-prompt", "row 17: the prompt is empty", True),
    (changed(row_9={"prompt": 5}), "", "error data.bad-prompt", "row 9: the prompt must be", None),
    ([{"prompt": f"{n}!"} for n in range(4)], "", "warning data.eval-columns", "the column answer", "no"),
    (
        [{"prompt": "a", "answer": "<answer>1</answer>"}, {"prompt": "b", "answer": "none"}],
        "answer: tag", "error data.bad-answer", "row 2: no answer of the kind tag", True,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("rows", "section", "rule", "said", "fix"), EVALUATION)
def test_the_rows_to_evaluate_on_are_judged_as_those_trained_on(
    rows: list[dict[str, Any]], section: str, rule: str, said: str, fix: Any, tmp_path: Path
) -> None:
    train = [{**row, "answer": f"<answer>{row['answer']}</answer>"} for row in PLAIN] if section else PLAIN
    (tmp_path / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    base = "eval_strategy: steps\neval_steps: 10\nper_device_eval_batch_size: 4\n"
    session = session_of(tmp_path, train, f"{section}\neval_dataset: test.jsonl".lstrip(), base)
    severity, _, rule = rule.partition(" ")
    found = only(judged(session), rule)
    assert (found.severity, found.field) == (severity, "grpo_tui.eval_dataset")
    assert said in found.message
    assert (found.fix.value if found.fix is not None else None) == fix


def test_an_evaluation_without_rows_is_offered_a_hold_out(tmp_path: Path) -> None:
    session = session_of(tmp_path, PLAIN, "", "eval_strategy: steps\neval_steps: 10\n")
    found = only(judged(session), "data.unusable")
    assert (found.field, found.fix) == ("eval_strategy", Fix("grpo_tui.holdout", 3))


def test_hostile_text_in_names_and_values_is_made_visible(tmp_path: Path) -> None:
    evil = "\x1b]52;c;aGk=\x07[/INST]"
    rows = [{"prompt": f"{evil}{n}", "answer": evil, evil: None} for n in range(30)]
    found = judged(session_of(tmp_path, rows))
    assert {"data.one-answer", "data.nulls"} <= {finding.id for finding in found}
    assert not any("\x1b" in finding.message for finding in found)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("rows.csv", "prompt,answer\nhi,1\n,2\nthere,3\n"),
        ("rows.tsv", "prompt\tanswer\nhi\t1\n\t2\nthere\t3\n"),
        ("rows.json", '[{"prompt": "hi", "answer": 1}, {"prompt": null, "answer": 2}]'),
    ],
)
def test_files_of_other_kinds_are_read_alike(name: str, text: str, tmp_path: Path) -> None:
    found = only(judged(session_of(tmp_path, text, name=name)), "data.bad-prompt")
    assert "row 2" in found.message


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (["007", "12", "100"], "row 1 says 007 and is read as 7"),
        (["7", "", "5"], "rows 1 and 3: row 1 says 7 and is read as 7.0"),
        (["a", "None", "NA"], "rows 2 and 3: row 2 says None and is read as nothing"),
        (["true", "false", "true"], "row 1 says true and is read as True"),
        (["1e3", "2", "3"], "row 1 says 1e3 and is read as 1000.0"),
        (["0.50", "1.5", "2.25"], ""),
        (["7", "12", "100"], ""),
        (["a", "", '"b, c"'], ""),
    ],
)
def test_an_answer_that_a_csv_loses_is_told_from_the_file(
    cells: list[str], said: str, tmp_path: Path
) -> None:
    text = "prompt,answer\n" + "".join(f'"{n}\n?",{cell}\n' for n, cell in enumerate(cells))
    found = [f for f in judged(session_of(tmp_path, text, name="rows.csv")) if f.id == "data.read-otherwise"]
    assert [f.severity for f in found] == (["warning"] if said else [])
    assert said in "".join(f.message for f in found)


@pytest.mark.parametrize("name", ["rows.jsonl", "ROWS.JSONL"])
def test_values_of_mixed_kinds_are_those_of_the_file_whatever_the_case_of_its_suffix(
    name: str, tmp_path: Path
) -> None:
    rows = "".join(json.dumps(row) + "\n" for row in changed(row_5={"answer": 5}))
    found = judged(session_of(tmp_path, rows, name=name))
    assert "text in 29 rows, and a number in row 5" in only(found, "data.mixed-types").message


def test_an_answer_that_a_file_of_tabs_loses_is_told_too(tmp_path: Path) -> None:
    text = "prompt\tanswer\n1, 2?\t007\n3?\t12\n"
    found = only(judged(session_of(tmp_path, text, name="rows.tsv")), "data.read-otherwise")
    assert "row 1 says 007 and is read as 7" in found.message


def test_dates_that_the_reader_makes_of_text_are_told(tmp_path: Path) -> None:
    rows = [{"prompt": f"{n}?", "answer": f"2024-01-{n + 10}"} for n in range(8)]
    found = only(judged(session_of(tmp_path, rows)), "data.dates")
    assert "the column answer holds dates in rows 1, 2, 3, 4, 5 and 3 more" in found.message
    assert "Python's datetime objects" in found.message


def test_a_csv_with_other_separators_is_recognised(tmp_path: Path) -> None:
    text = "prompt;answer\n" + "".join(f"{n};{n}\n" for n in range(9))
    found = only(judged(session_of(tmp_path, text, name="rows.csv")), "data.no-prompt")
    assert "separated by semicolons: a .csv wants commas" in found.message
    assert found.fix is None


def test_a_header_that_names_a_column_twice_is_told(tmp_path: Path) -> None:
    text = "prompt,answer,answer\n" + "".join(f"{n} + 1?,{n},{n + 1}\n" for n in range(9))
    found = only(judged(session_of(tmp_path, text, name="rows.csv")), "data.header-twice")
    assert found.severity == "warning"
    assert "names answer twice; the second one is read as answer.1" in found.message


def test_of_many_columns_the_first_are_named(tmp_path: Path) -> None:
    rows = [{"prompt": "x", **{f"c{n}": n for n in range(40)}}] * 8
    assert "c8, c9 and 30 more" in only(judged(session_of(tmp_path, rows)), "data.no-gold").message


def test_rows_to_evaluate_on_that_are_trained_on_too(tmp_path: Path) -> None:
    (tmp_path / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [*SUMS[4:6], *PLAIN[:1]]))
    with (tmp_path / "test.jsonl").open("a") as file:
        file.write(json.dumps({"question": "new?", "answer": "#### 1"}) + "\n")
    base = "eval_strategy: steps\neval_steps: 10\nper_device_eval_batch_size: 4\n"
    session = session_of(tmp_path, SUMS, f"{GSM}\neval_dataset: test.jsonl", base)
    found = only(judged(session), "data.overlap")
    assert "2 of 4 evaluation rows are also in the training data: rows 1 and 2" in found.message
    assert found.field == "grpo_tui.eval_dataset"


def test_a_large_file_is_sampled_and_said_to_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "MOST_ROWS", 10)
    session = session_of(tmp_path, SUMS, f"{GSM}\nholdout: 2")
    told = judged(session, tokens=True)
    found = only(told, "data.sampled")
    assert "10 of 24 rows, chosen at random" in found.message
    assert not [finding.id for finding in told if finding.severity == "error"]
    facts = session.facts_of_data
    assert facts is not None
    assert (facts.total, facts.looked_at, facts.train_rows) == (24, 10, None)
    assert session.table is not None
    outside = next(n for n in range(1, 25) if n not in session.table.numbers)
    view = session.row(outside)
    assert view.number == outside
    assert view.prompt[-1]["content"] == f"{outside - 1} + 1?"
    assert view.fate == "train or held out"
    assert view.tokens


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"question": "1 + 1?", "answer": "none"}, "rejected: no answer in answer"),
        ({"question": 7, "answer": "#### 1"}, "rejected: the prompt"),
    ],
)
def test_a_row_that_training_rejects_says_so_in_the_data_view(
    tmp_path: Path, row: dict[str, Any], reason: str
) -> None:
    session = session_of(tmp_path, [*SUMS, row], GSM)
    judged(session)
    view = session.row(len(SUMS) + 1)
    assert view.fate.startswith(reason)
    assert view.prompt is None
    (first, *_) = row_blocks(view, None)
    assert [(shown.label, shown.text) for shown in first.rows] == [("✗", view.fate)]


def test_a_stream_is_read_no_further_than_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "STREAMED_ROWS", 6)
    (tmp_path / "stream.py").write_text(
        "import datasets\n\n\ndef rows():\n    def make():\n"
        "        for n in range(10):\n            assert n < 7, 'read too far'\n"
        "            yield {'prompt': f'{n}?', 'answer': str(n)}\n"
        "    return datasets.IterableDataset.from_generator(make)\n"
    )
    session = session_of(tmp_path, PLAIN)
    section = replace(session.config.section, dataset=f"{tmp_path / 'stream.py'}:rows")
    session = CheckSession(replace(session.config, section=section), Hub(), lambda what: None)
    assert "the first 6 rows, since it is streamed" in only(judged(session), "data.sampled").message
    assert session.data().total is None
    assert session.row(99).number == 6
    held = CheckSession(
        replace(session.config, section=replace(section, holdout=2)), Hub(), lambda what: None
    )
    assert "needs all rows" in only(judged(held), "data.hold-out").message


@pytest.mark.parametrize(("place", "streamed", "is_offline"), [("hub", True, False), ("cached", False, True)])
def test_a_dataset_of_the_hub_is_never_fetched_for_a_look(
    place: Any, streamed: bool, is_offline: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import datasets
    from huggingface_hub import constants

    seen: list[tuple[bool, bool]] = []

    def load(config: Any) -> Rows:
        seen.append((bool(config.script.get("dataset_streaming")), constants.HF_HUB_OFFLINE))
        rows = datasets.Dataset.from_list(PLAIN)
        return Rows(rows.to_iterable_dataset() if seen[0][0] else rows, None, "some/data")

    class Known(Hub):
        def dataset(self, name: str, revision: str = "main") -> Whereabouts:
            return Whereabouts(name, place, download_bytes=5_000_000, free_bytes=10**12)

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(table, "load_rows", load)
    monkeypatch.setattr(table, "STREAMED_ROWS", 10)
    session = session_of(tmp_path, PLAIN)
    config = replace(
        session.config,
        section=replace(session.config.section, dataset=None),
        script={**session.config.script, "dataset_name": "some/data"},
    )
    session = CheckSession(config, Known(), lambda what: None)
    rules = {finding.id: finding for finding in judged(session)}
    assert seen == [(streamed, is_offline)]
    assert not constants.HF_HUB_OFFLINE
    assert ("data.download" in rules) == streamed
    if streamed:
        assert "the first 10 rows, since it is not on this machine yet" in rules["data.sampled"].message


# -- tokenizer and lengths -----------------------------------------------------------------------


def test_texts_for_a_model_with_a_chat_template(tmp_path: Path) -> None:
    session = session_of(tmp_path, PLAIN)
    found = only(judged(session, tokens=True), "tokenizer.string-prompts")
    assert (found.severity, found.field) == ("warning", "grpo_tui.chat")
    assert "The first prompt ends with: What is 0?" in found.message
    assert found.fix is not None
    mended = session_of(tmp_path, PLAIN, "chat: true")
    assert "tokenizer.string-prompts" not in {f.id for f in judged(mended, tokens=True)}


def test_lengths_are_those_of_trls_own_call(tmp_path: Path) -> None:
    from transformers import AutoProcessor

    session = session_of(tmp_path, SUMS, GSM)
    judged(session, tokens=True)
    tokenizer = AutoProcessor.from_pretrained(MODEL)
    assert session.mapped is not None
    ids = tokenizer.apply_chat_template(
        conversation=session.mapped.prompts, add_generation_prompt=True, tokenize=True, return_dict=True
    )["input_ids"]
    assert session.counts == [len(one) for one in ids]
    facts = session.facts_of_data
    assert facts is not None
    assert facts.prompt_tokens is not None
    assert facts.prompt_tokens.most == max(map(len, ids))
    assert sum(count for _, _, count in facts.prompt_tokens.bins) == len(SUMS)


def test_a_prompt_that_leaves_no_room_is_told_with_its_row(tmp_path: Path) -> None:
    rows = changed(row_6={"prompt": "x " * 150})
    found = only(judged(session_of(tmp_path, rows), tokens=True), "data.too-long")
    assert "one prompt has more than the 192 tokens that max_completion_length 64 leaves" in found.message
    assert ": row 6, the longest" in found.message
    assert found.fix is not None
    assert (found.fix.field, found.fix.value) == ("grpo_tui.filters.max_prompt_tokens", 192)
    mended = session_of(tmp_path, rows, "filters: {max_prompt_tokens: 192}")
    rules = {f.id: f for f in judged(mended, tokens=True)}
    assert "data.too-long" not in rules
    assert "max_prompt_tokens leaves out row 6" in rules["data.filtered"].message


@pytest.mark.parametrize(
    ("words", "completion", "vllm", "rule", "severity", "fix"),
    [
        (
            80,
            64,
            False,
            "data.too-long",
            "warning",
            ("max_completion_length", 93),
        ),  # most rows: shorter answers
        (120, 64, False, "data.too-long", "warning", None),
        (80, 64, True, "data.too-long", "error", ("max_completion_length", 93)),
        (10, 256, False, "data.no-room", "warning", None),
        (10, 256, True, "data.no-room", "error", None),
    ],
)
def test_prompts_and_completions_share_the_context(
    words: int, completion: int, vllm: bool, rule: str, severity: str, fix: Any, tmp_path: Path
) -> None:
    session = session_of(
        tmp_path, [{"prompt": f"{n:03}" + " x" * words, "answer": str(n)} for n in range(30)]
    )
    session.config.grpo.update(
        max_completion_length=completion if rule == "data.no-room" else 96, use_vllm=vllm
    )
    found = only(judged(session, tokens=True), rule)
    assert found.severity == severity
    assert (found.fix is not None and (found.fix.field, found.fix.value)) == (fix or False)
    item = checklist({}, [found], Facts(data=session.facts_of_data), None, None)[2]
    assert item.mark == {"warning": "warning", "error": "no"}[severity]


def test_long_gold_solutions_ask_for_longer_completions(tmp_path: Path) -> None:
    rows = [{"prompt": f"{n}?", "solution": "1 + 1 = 2, " * 10} for n in range(30)]
    session = session_of(tmp_path, rows)
    found = only(judged(session, tokens=True), "data.completion-length")
    assert session.facts_of_data is not None
    assert session.facts_of_data.gold_tokens is not None
    assert found.fix is not None
    assert found.fix.value % 64 == 0
    assert found.fix.value >= session.facts_of_data.gold_tokens.p99 > 64


@pytest.mark.parametrize(
    ("most", "counted", "last"), [(4, 5, 29), (10, 10, 28), (30, 30, 30), (2_000, 30, 30)]
)
def test_of_many_gold_solutions_some_from_every_part_are_counted(
    most: int, counted: int, last: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grpo_tui.preflight.child.session.MOST_GOLD", most)
    rows = [{"prompt": f"{n}?", "solution": "1 + 1 = 2, " * (10 + n)} for n in range(30)]
    session = session_of(tmp_path, rows)
    judged(session, tokens=True)
    assert session.facts_of_data is not None
    found = session.facts_of_data.gold_tokens
    assert found is not None
    assert (found.count, found.longest[0][0]) == (counted, last)


def spoilt_tokenizer(folder: Path, **changes: Any) -> Path:
    """The demo's tokenizer with other settings."""
    made = folder / "tokenizer"
    made.mkdir()
    for file in MODEL.iterdir():
        if file.suffix != ".safetensors":
            (made / file.name).write_bytes(file.read_bytes())
    settings = json.loads((made / "tokenizer_config.json").read_text())
    template = changes.pop("template", "")
    if template is None:
        (made / "chat_template.jinja").unlink()
    elif template:
        (made / "chat_template.jinja").write_text(template)
    (made / "tokenizer_config.json").write_text(json.dumps({**settings, **changes}))
    return made


MESSAGES = [{"prompt": [{"role": "user", "content": f"{n}?"}], "answer": str(n)} for n in range(30)]
REFUSES = "{{ raise_exception('System role not supported') }}"
THINK = "{% for m in messages %}{{ m['content'] }}{% endfor %}<|assistant|><think>\n"


@pytest.mark.parametrize(
    ("changes", "rule", "said"),
    [
        ({"template": None}, "tokenizer.no-template", "no chat template"),
        ({"template": REFUSES}, "tokenizer.refused", "System role not supported"),
        ({"template": THINK}, "tokenizer.opens-think", "already ends with <think>"),
        ({"pad_token": None}, "tokenizer.no-pad", "pads with the end token <|end|>"),
        ({"eos_token": None}, "tokenizer.no-eos", "no completion ever ends"),
    ],
)
def test_a_fault_of_the_tokenizer_is_told(
    changes: dict[str, Any], rule: str, said: str, tmp_path: Path
) -> None:
    session = session_of(tmp_path, MESSAGES)
    folder = spoilt_tokenizer(tmp_path, **changes)
    session.data()
    model = ModelFacts(Whereabouts("m", "folder", str(folder)), context=256, vocab=106)
    facts = Facts(model, session.tokenizer(model), session.measured() or session.facts_of_data)
    found = only(list(judge(facts, seen(session))), rule)
    assert said in found.message


@pytest.mark.parametrize(("enable", "written"), [("", "none"), ("false", "False"), ("true", "True")])
def test_the_template_gets_the_keywords_of_the_config(enable: str, written: str, tmp_path: Path) -> None:
    base = f"chat_template_kwargs: {{enable_thinking: {enable}}}\n" if enable else ""
    template = f"{{{{ enable_thinking | default('none') }}}}{EACH}{TURN}{END}"
    folder = spoilt_tokenizer(tmp_path, template=template)
    session = session_of(tmp_path, MESSAGES, base=base)
    session.data()
    facts = session.tokenizer(ModelFacts(Whereabouts("m", "folder", str(folder)), context=256, vocab=106))
    session.measured()
    assert facts.rendered == f"{written}<|user|>0?<|end|><|assistant|>"
    assert session.row(2).rendered == f"{written}<|user|>1?<|end|><|assistant|>"
    assert session.tokens is not None
    count = len(session.tokens.tokenizer(str(facts.rendered), add_special_tokens=False)["input_ids"])
    assert (facts.rendered_tokens, session.counts[0]) == (count, count)


def test_prompts_are_counted_and_shown_whole_however_the_tokenizer_was_saved(tmp_path: Path) -> None:
    """Files of trained models often hold the length and the padding of their training."""
    folder = spoilt_tokenizer(tmp_path)
    saved = json.loads((folder / "tokenizer.json").read_text())
    special = [{"SpecialToken": {"id": "<|end|>", "type_id": 0}}]
    saved |= {
        "truncation": {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0},
        "padding": {"strategy": {"Fixed": 40}, "direction": "Left", "pad_to_multiple_of": None, "pad_id": 0,
                    "pad_type_id": 0, "pad_token": "<pad>"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [*special, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"<|end|>": {"id": "<|end|>", "ids": [2], "tokens": ["<|end|>"]}},
        },
    }  # fmt: skip
    (folder / "tokenizer.json").write_text(json.dumps(saved))
    session = session_of(tmp_path, MESSAGES)
    tokens = LoadedTokenizer(session.config, ModelFacts(Whereabouts("m", "folder", str(folder))))
    assert tokens.counts(["1 + 1?", "2"], messages=True) == [6, 1]
    assert tokens.counts(["1 + 1?", "2"], messages=False) == [7, 2], "with the token that begins a text"
    assert tokens.counts([], messages=False) == []
    assert tokens.rendered("7?<|end|>8") == "<|end|>7?<|end|>8"
    assert tokens.rendered("<|end|><|end|>7?") == "<|end|><|end|><|end|>7?"


def conversation(*turns: tuple[str, Any]) -> list[dict[str, Any]]:
    return [{"prompt": [{"role": r, "content": c} for r, c in turns], "answer": str(n)} for n in range(30)]


PART = {"type": "text", "text": "What is 1 + 1?"}
PICTURE = {"type": "image", "image": "a.png"}
ASKS = ("user", "What is 1 + 1?")
EACH = "{% for m in messages %}"
TURN = "<|{{ m['role'] }}|>{{ m['content'] }}<|end|>"
END = "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
READS_PARTS = EACH + "{% for p in m['content'] %}{{ p['text'] }}{% endfor %}" + END
NO_SYSTEM = EACH + "{% if m['role'] != 'system' %}" + TURN + "{% endif %}" + END
NO_TOOL = (
    EACH + "{% if m['role'] == 'system' %}{{ raise_exception('no system here') }}{% endif %}" + TURN + END
)
TWICE = EACH + TURN + "{% endfor %}" + EACH + "{% if loop.last %}" + TURN + "{% endif %}" + END
GOES_ON = (
    EACH + "<|{{ m['role'] }}|>{{ m['content'] }}{% if not (loop.last and m['role'] == 'assistant') %}<|end|>"
    "{% endif %}{% endfor %}{% if messages[-1]['role'] != 'assistant' %}<|assistant|>{% endif %}"
)
NO_THOUGHT = EACH + "<|{{ m['role'] }}|>{{ m['content'].split('</think>')[-1] }}<|end|>" + END
SHOTS = (("user", "2?"), ("assistant", "<think>a</think>4"), ASKS)
AS_JSON = EACH + "<|{{ m['role'] }}|>{{ m['content'] | tojson }}<|end|>" + END

WRITTEN: list[tuple[str, list[Any], str, str, str]] = [
    # the template ("" for the demo's), rows, severity and rule, what is said of it
    ("a list of parts", conversation(("user", [PART])), "", "error repr", "rows 1, 2, 3, 4, 5 and 25"),
    ("beside a text", conversation(("system", "Add."), ("user", [PART, PART])), "", "error repr", ""),
    ("as JSON", conversation(("user", [PART])), AS_JSON, "error repr", "brackets and quotes"),
    ("parts, read", conversation(("user", [PART, PART])), READS_PARTS, "", ""),
    ("an image", conversation(("user", [PICTURE, PART])), "", "error image", "reads text only"),
    ("a dropped system", conversation(("system", "Add."), ASKS), NO_SYSTEM, "warning lost", "system"),
    ("a refusal in row 31", [*conversation(ASKS), *conversation(("system", "Add."), ASKS)[:1]], NO_TOOL,
     "error refused", "row 31: the chat template rejects the prompt: no system here"),
    ("a doubled turn", conversation(ASKS), TWICE, "warning doubled", "what the user says twice"),
    ("a closed beginning", conversation(ASKS, ("assistant", "<think>")), "",
     "warning closed", "closes it: <|end|><|assistant|> follows"),
    ("a beginning that goes on", conversation(ASKS, ("assistant", "<think>")), GOES_ON, "", ""),
    ("thoughts cut out", conversation(*SHOTS), NO_THOUGHT, "warning cut", "assistant"),
    ("thoughts kept", conversation(*SHOTS), "", "", ""),
    ("a part without a type", conversation(("user", [{"text": "1 + 1?"}])), "",
     "error bad-prompt", "holds a part without a type"),
    ("a text for a part", conversation(("user", ["1 + 1?"])), "", "error bad-prompt", "a part is"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "template", "rule", "said"), [case[1:] for case in WRITTEN], ids=[case[0] for case in WRITTEN]
)
def test_a_prompt_is_compared_with_what_the_template_makes_of_it(
    rows: list[Any], template: str, rule: str, said: str, tmp_path: Path
) -> None:
    session = session_of(tmp_path, rows)
    folder = spoilt_tokenizer(tmp_path, template=template)
    session.data()
    model = ModelFacts(Whereabouts("m", "folder", str(folder)), context=256, vocab=106)
    facts = Facts(model, session.tokenizer(model), session.measured() or session.facts_of_data)
    found = [f for f in judge(facts, seen(session)) if f.id.startswith(("data.temp", "data.bad"))]
    named = [f"{f.severity} {f.id.removeprefix('data.').removeprefix('template-')}" for f in found]
    assert named == ([rule] if rule else [])
    assert said in "".join(f.message for f in found)


COLUMNS: list[tuple[dict[str, Any], bool, str, str]] = [
    # a column beside messages, whether the model sees images, severity and rule, what is said
    ({"images": None}, False, "error data.images", "the column images is empty (null) in every row"),
    ({"image": None}, True, "error data.images", "the column image is empty"),
    ({"images": ["a.png"]}, False, "error data.images", "this model reads text only"),
    ({"images": ["a.png"]}, True, "", ""),
    ({"images": []}, False, "", ""),
    ({"tools": ["add"]}, False, "warning data.unread-column", "the column tools"),
    ({"chat_template_kwargs": {"enable_thinking": True}}, False, "warning data.unread-column", "config"),
]  # fmt: skip


@pytest.mark.parametrize(("column", "sees", "rule", "said"), COLUMNS)
def test_a_column_with_a_meaning_for_trl_is_judged_by_the_model(
    column: dict[str, Any], sees: bool, rule: str, said: str, tmp_path: Path
) -> None:
    session = session_of(tmp_path, [{**row, **column} for row in MESSAGES])
    facts = Facts(
        data=session.data(), tokenizer=TokenizerFacts(name="any", eos="e", pad="p", sees_images=sees)
    )
    found = [f for f in judge(facts, seen(session)) if f.id not in ("data.nulls", "data.empties")]
    assert [f"{f.severity} {f.id}" for f in found if f.id.startswith("data.")] == ([rule] if rule else [])
    assert said in "".join(f.message for f in found)
    fixes = [f.fix for f in found if f.fix is not None]
    assert fixes == ([Fix(f"grpo_tui.columns.my_{next(iter(column))}", next(iter(column)))] if rule else [])


def test_a_row_shows_what_the_model_gets(tmp_path: Path) -> None:
    session = session_of(tmp_path, SUMS, GSM)
    judged(session, tokens=True)
    view = session.row(3)
    assert view.rendered == "<|system|>Think.<|end|><|user|>2 + 1?<|end|><|assistant|>"
    assert (view.columns["answer"], view.answer_column, view.fate, view.total) == ("3", "answer", "train", 24)
    assert view.source == SUMS[2]
    assert session.row(0).number == 1
    assert session.row(999).number == 24
    assert session.holding("23 + 1") == [24]
    assert session.holding("SO IT") == list(range(1, 25))
    assert session.holding("so it") == list(range(1, 25)), "whatever the case, in the text or in the words"
    assert session.random_row(4).number == session.random_row(4).number
