"""What is said of data, model and tokenizer just at the border of a rule, and just beyond it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from grpo_tui.config.section import AnswerSpec, Filters, RewardEntry, Section
from grpo_tui.config.settings import Settings
from grpo_tui.config.trl_fields import load_fields
from grpo_tui.config.yaml_lines import YamlDocument
from grpo_tui.core.findings import Finding
from grpo_tui.preflight.data_findings import data_findings, image_findings
from grpo_tui.preflight.facts import (
    BadRows,
    ColumnFacts,
    DataFacts,
    EvaluationFacts,
    Facts,
    FilterFacts,
    KindCount,
    Lengths,
    LinearKind,
    LoraMatch,
    ModelFacts,
    TokenizerFacts,
    Whereabouts,
)
from grpo_tui.preflight.model_findings import model_findings, tokenizer_findings
from tests.preflight.machines import shape

GB = 10**9
PROMPT = ColumnFacts("prompt", "prompt", (KindCount("messages", 100, (1,)),))
ANSWER = ColumnFacts("answer", "answer", (KindCount("text", 100, (1,)),), top=(("4", 50),))
OTHER = ColumnFacts("level", "level", (KindCount("number", 100, (1,)),))
CLEAN = DataFacts(
    "/data/rows.jsonl",
    source_columns=("prompt", "answer"),
    columns=(PROMPT, ANSWER),
    form="messages",
    total=100,
    looked_at=100,
    train_rows=100,
    answer_column="answer",
)
LENGTHS = Lengths(100, 5, 7.0, 40, 50, 60, 100, ((3, 100), (4, 60)), by_length=((40, 98), (60, 1), (100, 1)))
SETTINGS = {
    "max_completion_length": 256,
    "num_generations": 8,
    "per_device_train_batch_size": 8,
    "gradient_accumulation_steps": 1,
}
HERE = Whereabouts("acme/toy", "cached")
MODEL = ModelFacts(HERE, architecture="LlamaForCausalLM", shape=shape(), context=1024, vocab=100)
TOKENIZER = TokenizerFacts("T", size=100, has_template=True, pad="<pad>", eos="<end>")


def judged(section: dict[str, Any], settings: dict[str, Any]) -> Settings:
    """A config with this section and these settings of GRPOConfig."""
    parts = {"GRPOConfig": {**SETTINGS, **settings}}
    return Settings(parts, Section(**section), load_fields(), YamlDocument({}))


def told(found: list[Finding]) -> list[str]:
    """Each finding as severity, rule, field and fix."""
    return [
        f"{f.severity} {f.id} {f.field}" + (f" -> {f.fix.field}: {f.fix.value}" if f.fix is not None else "")
        for f in found
    ]


def with_column(**changes: Any) -> dict[str, Any]:
    return {"columns": (PROMPT, ANSWER, replace(OTHER, **changes))}


def answers(**changes: Any) -> dict[str, Any]:
    return {"columns": (PROMPT, replace(ANSWER, **changes))}


def bad(what: str, count: int, reason: str = "is empty") -> dict[str, Any]:
    return {"bad": (BadRows(what, reason, count, (3,)),)}


def evaluated(*columns: str, bad: int = 0, **more: Any) -> dict[str, Any]:
    rows = (BadRows("prompt", "is empty", bad, (1,)),) if bad else ()
    return {"evaluation": EvaluationFacts("acme", 9, columns, bad=rows, **more)}


def elsewhere(needed: int, free: int | None = 2 * GB) -> Whereabouts:
    return Whereabouts("acme/toy", "hub", download_bytes=needed, free_bytes=free)


DATA = "dataset_name"
DROP = "grpo_tui.filters.drop_null"
NULLS = {"nulls": 25, "null_rows": (2, 9)}
CUT = {"answer": AnswerSpec("solution", "number", "answer")}
# what is changed of the facts, of the section, of the settings; what is said
ROWS: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any], list[str]]] = [
    ({}, {}, {}, []),
    # values that are missing
    (with_column(**NULLS), {}, {}, [f"warning data.nulls {DATA} -> {DROP}: True"]),
    ({"columns": (PROMPT, replace(ANSWER, empties=1), replace(OTHER, nulls=25))}, {}, {},
     [f"warning data.nulls {DATA} -> {DROP}: ['level']",
      f"warning data.gold-missing {DATA} -> {DROP}: ['answer']"]),
    (with_column(nulls=26), {}, {}, [f"info data.nulls {DATA}"]),
    (with_column(**NULLS), {"filters": Filters(drop_null=True)}, {}, []),
    (with_column(empties=1, empty_rows=(4,)), {}, {}, [f"info data.empties {DATA}"]),
    (answers(nulls=1, null_rows=(4,)), {}, {}, [f"warning data.gold-missing {DATA} -> {DROP}: True"]),
    (answers(empties=1, empty_rows=(4,)), {}, {}, [f"warning data.gold-missing {DATA} -> {DROP}: True"]),
    (answers(nulls=1), {"filters": Filters(drop_null=True)}, {}, []),
    # one answer for many rows
    (answers(top=(("4", 51),)), {}, {}, [f"warning data.one-answer {DATA}"]),
    (answers(top=(("4", 20),), kinds=(KindCount("text", 20, (1,)),)), {}, {},
     [f"warning data.one-answer {DATA}"]),
    (answers(top=(("4", 19),), kinds=(KindCount("text", 19, (1,)),)), {}, {}, []),
    # rows of one prompt
    ({"duplicates": 5, "duplicate_rows": (2,)}, {}, {},
     [f"warning data.duplicates {DATA} -> grpo_tui.filters.drop_duplicates: True"]),
    ({"duplicates": 4, "duplicate_rows": (2,)}, {}, {},
     [f"info data.duplicates {DATA} -> grpo_tui.filters.drop_duplicates: True"]),
    ({"overlap": 1, "eval_rows": 9, "overlap_rows": (2,)}, {}, {},
     ["warning data.overlap dataset_test_split"]),
    ({"overlap": 1, "eval_rows": 9, "overlap_rows": (2,)}, {"eval_dataset": "e.jsonl"}, {},
     ["warning data.overlap grpo_tui.eval_dataset"]),
    # rows for a step
    ({"train_rows": 1}, {}, {}, []),
    ({"train_rows": 3}, {}, {"per_device_train_batch_size": 24}, []),
    ({"train_rows": 2}, {}, {"per_device_train_batch_size": 24},
     [f"error data.smaller-than-batch {DATA} -> per_device_train_batch_size: 16"]),
    ({"train_rows": 2, "held": 2}, {}, {"per_device_train_batch_size": 24},
     [f"error data.smaller-than-batch {DATA} -> grpo_tui.holdout: 1"]),
    ({"train_rows": 2, "held": 1}, {}, {"per_device_train_batch_size": 24},
     [f"error data.smaller-than-batch {DATA} -> per_device_train_batch_size: 16"]),
    ({"train_rows": 2}, {}, {"generation_batch_size": 24}, [f"error data.smaller-than-batch {DATA}"]),
    ({"train_rows": 0}, {}, {}, [f"error data.smaller-than-batch {DATA}"]),
    # lengths
    ({"prompt_tokens": LENGTHS}, {}, {"max_completion_length": 924}, []),
    ({"prompt_tokens": LENGTHS}, {}, {"max_completion_length": 925},
     [f"warning data.too-long {'max_completion_length'} -> grpo_tui.filters.max_prompt_tokens: 99"]),
    ({"prompt_tokens": LENGTHS}, {}, {"max_completion_length": 925, "use_vllm": True},
     ["error data.too-long max_completion_length -> grpo_tui.filters.max_prompt_tokens: 99"]),
    ({"prompt_tokens": LENGTHS}, {}, {"max_completion_length": 1000},
     ["warning data.too-long max_completion_length -> max_completion_length: 924"]),
    ({"prompt_tokens": LENGTHS}, {}, {"max_completion_length": 1023},
     ["warning data.too-long max_completion_length -> max_completion_length: 924"]),
    ({"prompt_tokens": LENGTHS}, {}, {"max_completion_length": 1024},
     ["warning data.no-room max_completion_length"]),
    ({"prompt_tokens": LENGTHS}, {}, {"use_vllm": True, "vllm_max_model_length": 300},
     ["error data.too-long max_completion_length -> grpo_tui.filters.max_prompt_tokens: 44"]),
    ({"gold_tokens": LENGTHS}, {}, {"max_completion_length": 60}, []),
    ({"gold_tokens": LENGTHS}, {}, {"max_completion_length": 59},
     ["warning data.completion-length max_completion_length -> max_completion_length: 64"]),
    # rows that end the run
    (bad("prompt", 1), {}, {}, [f"error data.bad-prompt {DATA} -> {DROP}: True"]),
    (bad("prompt", 99), {}, {}, [f"error data.bad-prompt {DATA} -> {DROP}: True"]),
    (bad("prompt", 100), {}, {}, [f"error data.bad-prompt {DATA}"]),
    (bad("prompt", 1, "holds no message"), {}, {}, [f"error data.bad-prompt {DATA}"]),
    (bad("answer", 99, "number"), CUT, {}, [f"error data.bad-answer grpo_tui.answer -> {DROP}: True"]),
    (bad("answer", 100, "number"), CUT, {},
     ["error data.bad-answer grpo_tui.answer -> grpo_tui.answer: None"]),
    (bad("hold-out", 1), {}, {}, ["error data.hold-out grpo_tui.holdout -> grpo_tui.holdout: 10"]),
    ({**bad("hold-out", 1), "total": 5}, {}, {},
     ["error data.hold-out grpo_tui.holdout -> grpo_tui.holdout: 1"]),
    ({**bad("hold-out", 1), "total": 1}, {}, {}, ["error data.hold-out grpo_tui.holdout"]),
    ({**bad("hold-out", 1), "filters": (FilterFacts("min_prompt_tokens", 60, (1,)),)}, {}, {},
     ["error data.hold-out grpo_tui.holdout -> grpo_tui.holdout: 4",
      "info data.filtered grpo_tui.filters.min_prompt_tokens"]),
    ({"filters": (FilterFacts("min_prompt_tokens", 0),)}, {}, {}, []),
    ({"form": "mixed"}, {}, {}, [f"error data.mixed-form {DATA} -> grpo_tui.chat: True"]),
    # what a column holds
    (with_column(kinds=(KindCount("number", 99, (1,)), KindCount("text", 1, (7,)))), {}, {},
     [f"warning data.mixed-types {DATA}"]),
    (with_column(kinds=(KindCount("date", 100, (1,)),)), {}, {}, [f"warning data.dates {DATA}"]),
    (answers(otherwise=((3, "007", "7"),), otherwise_count=1), {}, {},
     [f"warning data.read-otherwise {DATA}"]),
    (with_column(otherwise=((3, "007", "7"),), otherwise_count=1), {}, {}, []),
    ({"columns": (PROMPT, OTHER), "answer_column": ""}, {}, {}, [f"info data.no-gold {DATA}"]),
    ({"sampled": "the first 50"}, {}, {}, [f"info data.sampled {DATA}"]),
    # names of columns
    ({"source_columns": ("question", "answer")}, {}, {},
     [f"error data.no-prompt {DATA} -> grpo_tui.columns.prompt: question"]),
    ({"source_columns": ("question", "answer")}, {"columns": {"prompt": "question"}}, {}, []),
    ({"source_columns": ("prompt", "a", "a.1")}, {}, {}, [f"warning data.header-twice {DATA}"]),
    ({"source_columns": ("prompt", "b.1")}, {}, {}, []),
    ({"source_columns": ("prompt", "completions")}, {}, {},
     [f"error data.reserved-name {DATA} -> grpo_tui.columns.my_completions: completions"]),
    ({"source_columns": ("prompt", "completions")}, {"columns": {"mine": "completions"}}, {}, []),
    ({"source_columns": ("prompt", "tools")}, {}, {},
     [f"warning data.unread-column {DATA} -> grpo_tui.columns.my_tools: tools"]),
    ({"preference": True}, {}, {}, [f"warning data.preference-pairs {DATA}"]),
    ({"preference": True, "source_columns": ("chosen", "rejected")}, {}, {},
     [f"error data.preference-pairs {DATA}"]),
    # what cannot be read or used
    ({"source_columns": (), "problem": "it is gone"}, {}, {}, [f"error data.unreadable {DATA}"]),
    ({"source_columns": (), "problem": "x", "where": Whereabouts("x", "gated")}, {}, {},
     [f"error data.gated {DATA}"]),
    ({"problem": "it cannot be mapped"}, {}, {}, [f"error data.unusable {DATA}"]),
    ({"problem": "eval_strategy is steps and …"}, {}, {},
     ["error data.unusable eval_strategy -> grpo_tui.holdout: 10"]),
    ({"problem": "eval_strategy is steps and …", "total": 1000}, {}, {},
     ["error data.unusable eval_strategy -> grpo_tui.holdout: 32"]),
    ({"problem": "eval_strategy is steps and …", "total": 1}, {}, {}, [f"error data.unusable {DATA}"]),
    ({"where": elsewhere(2 * GB)}, {}, {}, [f"info data.download {DATA}"]),
    ({"where": elsewhere(2 * GB + 1)}, {}, {}, [f"error data.disk {DATA}"]),
    ({"where": elsewhere(GB, None)}, {}, {}, [f"info data.download {DATA}"]),
    # columns that the section names
    ({"problem": "x", "source_columns": ("question",)}, {"columns": {"prompt": "Qestion"}}, {},
     ["error data.unusable grpo_tui.columns.prompt -> grpo_tui.columns.prompt: question"]),
    ({"problem": "x"}, {"columns": {"answer": "prompt", "prompt": "zz"}}, {},
     ["error data.unusable grpo_tui.columns.prompt -> grpo_tui.columns.prompt: prompt"]),
    ({"problem": "x", "source_columns": ("prompt", "q")}, {"columns": {"q": "prompt"}}, {},
     [f"error data.unusable {DATA}"]),
    ({"problem": "x", "source_columns": ("question", "a")}, {"columns": {"question": "prompt"}}, {},
     ["error data.unusable grpo_tui.columns -> grpo_tui.columns: {'prompt': 'question'}"]),
    ({"problem": "x"}, CUT, {},
     ["error data.unusable grpo_tui.answer -> grpo_tui.answer: {'from': 'answer', 'kind': 'number'}"]),
    # rows to evaluate on
    (evaluated("prompt", "answer"), {"eval_dataset": "e"}, {}, []),
    (evaluated("q"), {"eval_dataset": "e"}, {},
     ["error data.no-prompt grpo_tui.eval_dataset"]),
    (evaluated("prompt", problem="x"), {}, {},
     ["error data.unusable dataset_test_split"]),
    (evaluated("prompt", bad=8), {}, {},
     [f"error data.bad-prompt dataset_test_split -> {DROP}: True"]),
    (evaluated("prompt", bad=9), {}, {},
     ["error data.bad-prompt dataset_test_split"]),
    (evaluated("prompt", lacking=("answer",)), {}, {},
     ["warning data.eval-columns dataset_test_split -> eval_strategy: no"]),
    (evaluated("prompt", lacking=("level",)), {}, {}, []),
    ({"odd": (BadRows("role", "tutor", 1, (2,)), BadRows("none", "", 1, (2,)))}, {}, {},
     [f"warning data.role {DATA}"]),
    ({"odd": (BadRows("answered", "", 1, (2,)), BadRows("closed", "", 1, (2,)))}, {}, {},
     [f"warning data.answered {DATA}"]),
    ({"odd": (BadRows("closed", "", 1, (2,)),)}, {}, {}, [f"warning data.template-closed {DATA}"]),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(ROWS)))
def test_what_is_said_of_the_rows(number: int) -> None:
    facts, section, settings, expected = ROWS[number]
    found = data_findings(replace(CLEAN, **facts), MODEL, judged(section, settings))
    assert told(found) == expected


@pytest.mark.parametrize(
    ("kind", "names", "rows", "said"),
    [
        ("list", ("data",), 1, ". The rows stand inside data: the file must be that list itself"),
        ("messages", ("data",), 1, ". The rows stand inside data: the file must be that list itself"),
        ("text", ("data",), 1, "it has data"),
        ("list", ("data",), 2, "it has data"),
        ("list", ("data", "more"), 1, "it has data, more"),
    ],
)
def test_a_list_inside_one_object_is_told_from_rows(
    kind: str, names: tuple[str, ...], rows: int, said: str
) -> None:
    column = ColumnFacts("data", "data", (KindCount(kind, rows, (1,)),))
    for columns in ((column,), ()):
        facts = replace(CLEAN, source_columns=names, columns=columns, looked_at=rows)
        (found,) = [f for f in data_findings(facts, MODEL, judged({}, {})) if f.id == "data.no-prompt"]
        assert found.message.endswith(said if columns else f"it has {', '.join(names)}")


@pytest.mark.parametrize("first", [("What is 1?", "", "And 2?"), ("", ""), ()])
def test_a_column_that_may_be_the_prompt_is_shown_by_its_first_values(first: tuple[str, ...]) -> None:
    column = ColumnFacts("question", "question", (KindCount("text", 100, (1,)),), first=first)
    facts = replace(CLEAN, source_columns=("question",), columns=(column,))
    (found,) = [f for f in data_findings(facts, MODEL, judged({}, {})) if f.id == "data.no-prompt"]
    shown = ". question begins with What is 1? · And 2?" if any(first) else "it has question"
    assert found.message.endswith(shown)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("1 + 1?", "two"), "it has 1 + 1?, two. Does its first line name the columns?"),
        (("What is one more", "two"), ". Does its first line name the columns?"),
        (("level", "two words"), "it has level, two words"),
        (("level", "now three words"), ". Does its first line name the columns?"),
        (("level;text",), "separated by semicolons: a .csv wants commas, a .tsv tabs"),
    ],
)
def test_a_file_without_a_prompt_is_asked_for_its_header_when_one_name_is_none(
    names: tuple[str, ...], said: str
) -> None:
    facts = replace(CLEAN, source_columns=names, columns=(OTHER,))
    (found,) = data_findings(facts, MODEL, judged({}, {}))
    assert found.id == "data.no-prompt"
    assert found.message.endswith(said)


def test_the_rows_that_have_no_room_are_named_and_one_that_just_fits_is_not() -> None:
    three = replace(
        LENGTHS, longest=((3, 100), (4, 60), (5, 59)), by_length=((40, 97), (59, 1), (60, 1), (100, 1))
    )

    def said(longest: int) -> str:
        facts = replace(CLEAN, prompt_tokens=three)
        (found,) = data_findings(facts, MODEL, judged({}, {"max_completion_length": longest}))
        return found.message

    assert "one prompt has more than the 60 tokens" in said(1024 - 60)
    assert said(1024 - 60).endswith("of the context of 1,024: row 3, the longest 100")
    assert "2 of 100 prompts have more than the 59 tokens" in said(1024 - 59)
    assert said(1024 - 59).endswith("rows 3 and 4, the longest 100")


PICTURE = ColumnFacts("images", "images", (KindCount("list", 100, (1,)),))


@pytest.mark.parametrize(
    ("column", "sees", "form", "expected"),
    [
        (PICTURE, True, "messages", []),
        (PICTURE, False, "messages", [f"error data.images {DATA} -> grpo_tui.columns.my_images: images"]),
        (PICTURE, True, "text", [f"error data.images {DATA} -> grpo_tui.chat: True"]),
        (replace(PICTURE, empties=99), False, "text",
         [f"error data.images {DATA} -> grpo_tui.columns.my_images: images"]),
        (replace(PICTURE, empties=100), False, "text", []),
        (replace(PICTURE, nulls=99), True, "messages", []),
        (replace(PICTURE, nulls=100), True, "messages",
         [f"error data.images {DATA} -> grpo_tui.columns.my_images: images"]),
        (replace(PICTURE, name="image", empties=100), False, "text",
         [f"error data.images {DATA} -> grpo_tui.columns.my_image: image"]),
    ],
)  # fmt: skip
def test_what_is_said_of_images(column: ColumnFacts, sees: bool, form: str, expected: list[str]) -> None:
    facts = replace(CLEAN, columns=(PROMPT, column), form=form)
    assert told(list(image_findings(facts, judged({}, {}), sees_images=sees))) == expected


NAME = "model_name_or_path"
LINEARS = (
    LinearKind("q_proj", 8, 8, 2, "attention"),
    LinearKind("v_proj", 8, 8, 2, "attention"),
    LinearKind("up_proj", 8, 8, 2, "mlp"),
    LinearKind("lm_head", 8, 8, 1, "head"),
)
TARGETS = "lora_target_modules"


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, []),
        ({"where": Whereabouts("x", "missing", problem="x")}, [f"error model.missing {NAME}"]),
        ({"where": Whereabouts("x", "unreachable", problem="x")}, [f"error model.unreachable {NAME}"]),
        ({"where": elsewhere(2 * GB)}, [f"info model.download {NAME}"]),
        ({"where": elsewhere(2 * GB + 1)}, [f"error model.disk {NAME}"]),
        ({"where": elsewhere(GB, None)}, [f"info model.download {NAME}"]),
        ({"adapter": "runs/x"}, [f"error model.adapter {NAME}"]),
        ({"problem": "no such class"}, [f"error model.architecture {NAME}"]),
        ({"problem": "x", "where": Whereabouts("x", "missing", problem="x")},
         [f"error model.missing {NAME}"]),
        ({"architecture": "BertForMaskedLM"}, [f"error model.no-policy {NAME}"]),
        ({"architecture": "LlamaModel"}, [f"error model.no-policy {NAME}"]),
        ({"architecture": "GPT2LMHeadModel"}, []),
        ({"lora": LoraMatch(("q_proj",), 2, ("q_proj",))}, []),
        ({"lora": LoraMatch(("q_proj", "v_prj"), 2, ("q_proj",), ("v_prj",))},
         [f"warning model.lora-unmatched {TARGETS} -> {TARGETS}: ['q_proj', 'v_proj']"]),
        ({"lora": LoraMatch(("zz",), 0, (), (), "nothing matches")},
         [f"error model.lora-targets {TARGETS} -> {TARGETS}: ['q_proj', 'v_proj']"]),
        ({"lora": LoraMatch(("q_proj,up_proj",), 0, (), (), "x")},
         [f"error model.lora-targets {TARGETS} -> {TARGETS}: ['q_proj', 'up_proj']"]),
        ({"lora": LoraMatch(("q_proj,zz",), 0, (), (), "x")},
         [f"error model.lora-targets {TARGETS} -> {TARGETS}: ['.*\\\\.q_proj']"]),
        ({"lora": LoraMatch((), 0, (), (), "x"), "linears": LINEARS[2:]},
         [f"error model.lora-targets use_peft -> {TARGETS}: ['up_proj']"]),
        ({"lora": LoraMatch((), 0, (), (), "x"), "linears": ()}, ["error model.lora-targets use_peft"]),
    ],
)  # fmt: skip
def test_what_is_said_of_the_model(facts: dict[str, Any], expected: list[str]) -> None:
    known = replace(MODEL, **{"linears": LINEARS, **facts})
    assert told(model_findings(known, judged({}, {}))) == expected


TEXTS, CHATS = replace(CLEAN, form="text"), replace(CLEAN, form="messages")


@pytest.mark.parametrize(
    ("changes", "data", "section", "expected"),
    [
        ({}, CHATS, {}, []),
        ({}, TEXTS, {}, ["warning tokenizer.string-prompts grpo_tui.chat -> grpo_tui.chat: True"]),
        ({}, TEXTS, {"chat": False}, []),
        ({"special": ("<user>",)}, TEXTS, {}, []),
        ({"special": ("<s>",), "bos": "<s>"}, TEXTS, {},
         ["warning tokenizer.string-prompts grpo_tui.chat -> grpo_tui.chat: True"]),
        ({"has_template": False}, TEXTS, {}, []),
        ({"has_template": False}, CHATS, {}, [f"error tokenizer.no-template {DATA}"]),
        ({"has_template": False}, CHATS, {"chat": True},
         ["error tokenizer.no-template grpo_tui.chat -> grpo_tui.chat: False"]),
        ({"has_template": False}, CHATS, {"system_prompt": "x"},
         ["error tokenizer.no-template grpo_tui.chat"]),
        ({"has_template": False}, replace(CHATS, odd=(BadRows("quoted", "", 1, (1,)),)), {}, []),
        ({"problem": "x"}, CHATS, {}, [f"error tokenizer.refused {DATA}"]),
        ({"problem": "x"}, CHATS, {"system_prompt": "x"}, ["error tokenizer.refused grpo_tui.system_prompt"]),
        ({"name": "", "problem": "x"}, CHATS, {}, [f"error tokenizer.unreadable {NAME}"]),
        ({"eos": None}, CHATS, {}, [f"warning tokenizer.no-eos {NAME}"]),
        ({"eos": None, "pad": None}, CHATS, {}, [f"error tokenizer.no-eos {NAME}"]),
        ({"pad": None}, CHATS, {}, [f"info tokenizer.no-pad {NAME}"]),
        ({"size": 101}, CHATS, {}, [f"error tokenizer.vocabulary {NAME}"]),
        ({"size": 100}, CHATS, {}, []),
        ({"opens_think": True}, CHATS, {}, [f"info tokenizer.opens-think {NAME}"]),
        ({"opens_think": True}, CHATS, {"rewards": (RewardEntry("r", "trl:think_format_reward"),)},
         ["warning tokenizer.opens-think reward_funcs"]),
    ],
)  # fmt: skip
def test_what_is_said_of_the_tokenizer(
    changes: dict[str, Any], data: DataFacts, section: dict[str, Any], expected: list[str]
) -> None:
    facts = Facts(MODEL, replace(TOKENIZER, **changes), data)
    assert told(tokenizer_findings(facts, judged(section, {}))) == expected
    gone = replace(facts, model=replace(MODEL, where=Whereabouts("x", "missing")), tokenizer=TokenizerFacts())
    assert tokenizer_findings(gone, judged(section, {})) == [], "the model's own finding says why"
