"""The shipped model: small, readable, and wrong often enough to have something to learn."""

from __future__ import annotations

import re

import pytest

from grpo_tui.demo import DEMO_MODEL
from grpo_tui.demo.make_model import ROLES, TAGS, make, make_tokenizer
from grpo_tui.demo.rewards import correctness, format_reward, incremental_format
from grpo_tui.demo.task import all_rows

ROWS = all_rows()
GOLD = [row["answer"] for row in ROWS]
NUMBER = r"\d{1,2}"
FORMS = re.compile(
    r"(?:<think>(?:{n}\+{n}={n}|{n} plus {n} is {n})</think>)?(?:<answer>{n}</answer>|{n})"
    r"|{n}\+{n}={n}|{n} plus {n} makes {n}\.|The sum of {n} and {n} is {n}\.".replace("{n}", NUMBER)
)
OPERANDS = re.compile(r"(\d+)(?:\+| plus | and )(\d+)")


@pytest.fixture(scope="module")
def loaded():
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(DEMO_MODEL, dtype="float32").eval()
    return model, AutoTokenizer.from_pretrained(DEMO_MODEL)


@pytest.fixture(scope="module")
def sampled(loaded) -> list[str]:
    """One completion of each question, drawn at temperature 1 from the whole distribution, as TRL does."""
    return answers(*loaded, do_sample=True, temperature=1.0, top_k=0)


def answers(model, tokenizer, **sampling) -> list[str]:
    import torch

    texts = [
        tokenizer.apply_chat_template(r["prompt"], add_generation_prompt=True, tokenize=False) for r in ROWS
    ]
    asked = tokenizer(texts, return_tensors="pt", padding=True)
    torch.manual_seed(0)
    with torch.no_grad():
        ids = model.generate(**asked, **sampling, max_new_tokens=40)
    return tokenizer.batch_decode(ids[:, asked["input_ids"].shape[1] :], skip_special_tokens=True)


def copied(texts: list[str]) -> list[bool]:
    """For every completion that names its operands: are they the question's, in its order?"""
    return [
        list(found.groups()) == re.findall(r"\d+", row["prompt"][0]["content"])
        for text, row in zip(texts, ROWS, strict=True)
        if (found := OPERANDS.search(text))
    ]


def test_the_model_has_about_800_000_parameters_in_at_most_2_megabytes(loaded) -> None:
    model, _ = loaded
    assert 700_000 < model.num_parameters() < 900_000
    assert sum(path.stat().st_size for path in DEMO_MODEL.rglob("*") if path.is_file()) <= 2_000_000


def test_sampled_completions_read_as_text(sampled) -> None:
    assert sum(FORMS.fullmatch(text) is not None for text in sampled) >= 0.97 * len(sampled)
    operands = copied(sampled)
    assert len(operands) > 250
    assert sum(operands) >= 0.97 * len(operands)


def test_greedy_completions_copy_both_operands(loaded) -> None:
    texts = answers(*loaded, do_sample=False)
    assert all(FORMS.fullmatch(text) for text in texts)
    operands = copied(texts)
    assert sum(operands) >= 0.99 * len(operands)


def test_the_model_is_wrong_about_half_the_time_and_mixes_formats(sampled) -> None:
    last_number = [re.findall(r"\d+", text)[-1:] for text in sampled]
    right = sum(found == [gold] for found, gold in zip(last_number, GOLD, strict=True)) / len(ROWS)
    assert 0.35 < right < 0.65
    total = (
        2.0 * sum(correctness(sampled, GOLD))
        + 0.5 * sum(format_reward(sampled))
        + 0.5 * sum(incremental_format(sampled))
    ) / len(ROWS)
    assert 0.4 < total < 1.2  # of 3: enough to start from, and far to go


def test_the_chat_template_and_the_tags_are_single_tokens(loaded) -> None:
    _, tokenizer = loaded
    whole = "<think>7+15=22</think><answer>22</answer>"
    assert len(tokenizer.encode(whole)) == 4 + len("7+15=22") + len("22")
    assert tokenizer.decode(tokenizer.encode(whole), skip_special_tokens=True) == whole
    messages = [{"role": "system", "content": "Add."}, {"role": "user", "content": "What is 7 + 15?"}]
    text = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    assert text == "<|system|>Add.<|end|><|user|>What is 7 + 15?<|end|><|assistant|>"
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert (tokenizer.eos_token, tokenizer.pad_token, tokenizer.padding_side) == ("<|end|>", "<pad>", "left")
    assert make_tokenizer().get_vocab() == tokenizer.get_vocab()
    assert {*TAGS, *ROLES} <= set(tokenizer.get_vocab())


def test_the_same_seed_makes_the_same_weights(tmp_path) -> None:
    from safetensors.torch import load_file

    made = []
    for name, seed in (("one", 3), ("two", 3), ("other", 4)):
        make(tmp_path / name, seed=seed, steps=3)
        made.append(load_file(tmp_path / name / "model.safetensors"))
    same = [all(made[0][key].equal(other[key]) for key in made[0]) for other in made[1:]]
    assert same == [True, False]
