"""What is told of a tokenizer beside its model and the prompts, and with which fix."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from grpo_tui.config.resolve import load_config
from grpo_tui.config.settings import Settings
from grpo_tui.core.findings import Finding
from grpo_tui.demo import DEMO_CONFIG
from grpo_tui.preflight.checker import judge
from grpo_tui.preflight.facts import BadRows, DataFacts, Facts, ModelFacts, TokenizerFacts, Whereabouts

GOOD = TokenizerFacts("T", size=90, has_template=True, pad="<pad>", eos="<end>", rendered="<user>2+2?<bot>")
MODEL = ModelFacts(Whereabouts("m", "folder", "/m"), architecture="L", vocab=90)
TEXTS = DataFacts("rows.jsonl", source_columns=("prompt",), form="text", total=400, train_rows=400)


def told(
    tokenizer: TokenizerFacts, model: ModelFacts = MODEL, form: str = "messages", **data: Any
) -> list[Finding]:
    config = load_config(DEMO_CONFIG)
    facts = Facts(model=model, tokenizer=tokenizer, data=replace(TEXTS, form=form, **data))
    return [f for f in judge(facts, Settings.of_config(config, 1)) if f.id.startswith("tokenizer.")]


@pytest.mark.parametrize(
    ("tokenizer", "form", "rule", "severity", "said"),
    [
        ({"size": 91}, "messages", "vocabulary", "error", "has 91 tokens and the model's embedding 90 rows"),
        ({"pad": None}, "messages", "no-pad", "info", "TRL pads with the end token <end>"),
        ({"eos": None}, "messages", "no-eos", "warning", "no completion ever ends by itself"),
        ({"eos": None, "pad": None}, "messages", "no-eos", "error", "no completion ever ends by itself"),
        ({"has_template": False}, "messages", "no-template", "error", "TRL stops in the first step"),
        ({"has_template": False}, "mixed", "no-template", "error", "TRL stops in the first step"),
        ({}, "text", "string-prompts", "warning", "The first prompt ends with: <user>2+2?<bot>"),
        ({"problem": "no role"}, "messages", "refused", "error", "row by row, no role"),
        ({"opens_think": True}, "messages", "opens-think", "info", "already ends with <think>"),
        ({"name": "", "problem": "no file"}, "messages", "unreadable", "error", "no file"),
    ],
)
def test_each_fault_of_a_tokenizer_is_told(
    tokenizer: dict[str, Any], form: str, rule: str, severity: str, said: str
) -> None:
    (found,) = told(replace(GOOD, **tokenizer), form=form)
    assert (found.id, found.severity) == (f"tokenizer.{rule}", severity)
    assert said in found.message
    if rule == "string-prompts":
        assert found.fix is not None
        assert found.fix.to_json() == {"field": "grpo_tui.chat", "value": True}


def test_a_tokenizer_without_a_fault_is_told_nothing_of() -> None:
    assert told(GOOD) == []
    assert told(replace(GOOD, has_template=False), form="text") == []
    assert told(replace(GOOD, special=("<user>",)), form="text") == [], "written in the template's own marks"
    assert told(replace(GOOD, bos="<s>", special=("<s>",)), form="text"), "a first token is no mark of it"
    assert told(GOOD, form="text", odd=(BadRows("quoted", "", 1, (1,)),)) == [], "told as quoted"
    assert told(GOOD, model=replace(MODEL, shape=None)) == []


@pytest.mark.parametrize(("place", "rules"), [("hub", 1), ("missing", 0)])
def test_a_tokenizer_that_cannot_be_read_is_told_unless_its_model_is_not_there(
    place: Any, rules: int
) -> None:
    gone = replace(MODEL, where=Whereabouts("m", place, ""))
    assert gone.where.here is False
    assert len(told(TokenizerFacts(problem="no file"), model=gone)) == rules
