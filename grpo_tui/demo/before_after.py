"""The same held-out questions, answered by the model before training and after it.

The training process asks twice, at its start and its end; what comes out is plain data for the store and the
screen. Asking leaves the random state and the model's mode as they were, so that a run with these questions
equals one without. It does not know when it is asked, where the answers are kept or how they are shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

HELD_QUESTIONS = 6
"""How many held-out rows are asked."""

ANSWER_TOKENS = 48
"""Longest answer, in tokens."""


@dataclass(frozen=True, slots=True)
class BeforeAfter:
    """One held-out question and what the model said to it, decoded greedily."""

    prompt: str
    """The question as the person would send it."""
    gold: str
    """The right answer."""
    before: str
    """What the model said before training."""
    after: str
    """What it said afterwards."""


def held_rows(rows: Sequence[Mapping[str, Any]], count: int = HELD_QUESTIONS) -> list[Mapping[str, Any]]:
    """Return `count` rows spread evenly over the held-out rows, or all of them when there are fewer."""
    if count >= len(rows):
        return list(rows)
    return [rows[index * len(rows) // count] for index in range(count)]


def prompt_text(prompt: str | Sequence[Mapping[str, Any]]) -> str:
    """Return the question for a person to read: the prompt itself, or its last message."""
    return prompt if isinstance(prompt, str) else str(prompt[-1]["content"])


def answer(
    model: PreTrainedModel | str | Path,
    tokenizer: PreTrainedTokenizerBase | None,
    prompts: Sequence[str | Sequence[Mapping[str, Any]]],
    *,
    max_new_tokens: int = ANSWER_TOKENS,
) -> list[str]:
    """Return the model's greedy answer to each prompt, special tokens removed.

    Args:
        model: A model, or the folder of one; from a folder it is loaded in float32 on the CPU.
        tokenizer: Its tokenizer; may be None when `model` is a folder.
        prompts: Message lists, which go through the chat template, or plain text, which does not.
        max_new_tokens: Where an answer is cut off.

    Raises:
        ValueError: A model was given without its tokenizer.
    """
    if not prompts:
        return []
    with _random_state_kept():
        if isinstance(model, str | Path):
            from transformers import AutoModelForCausalLM, AutoTokenizer

            tokenizer = tokenizer or AutoTokenizer.from_pretrained(model)
            model = AutoModelForCausalLM.from_pretrained(model, dtype="float32")
        if tokenizer is None:
            raise ValueError("answer() was given a model without its tokenizer; pass the tokenizer too")
        texts = [
            prompt
            if isinstance(prompt, str)
            else tokenizer.apply_chat_template(list(prompt), add_generation_prompt=True, tokenize=False)
            for prompt in prompts
        ]
        return _decode_greedily(model, tokenizer, texts, max_new_tokens)


def compared(
    rows: Sequence[Mapping[str, Any]], before: Sequence[str], after: Sequence[str], gold: str = "answer"
) -> list[BeforeAfter]:
    """Join rows and their answers.

    Args:
        rows: What was asked, with the columns `prompt` and the one named by `gold`.
        before: The answers before training, in the order of `rows`.
        after: The answers afterwards, in the same order.
        gold: Name of the column with the right answer; a row without it gives an empty text.
    """
    return [
        BeforeAfter(prompt_text(row["prompt"]), str(row.get(gold, "")), earlier, later)
        for row, earlier, later in zip(rows, before, after, strict=True)
    ]


def to_json(answers: Sequence[BeforeAfter]) -> list[dict[str, str]]:
    """Return the answers as plain data for JSON."""
    return [asdict(item) for item in answers]


def from_json(data: Sequence[Mapping[str, str]]) -> list[BeforeAfter]:
    """Return the answers that `to_json` wrote.

    Raises:
        KeyError: An entry lacks one of the four fields.
    """
    return [BeforeAfter(item["prompt"], item["gold"], item["before"], item["after"]) for item in data]


def _decode_greedily(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: list[str], max_new_tokens: int
) -> list[str]:
    """Generate without sampling, padding on the left, and give the model back in the mode it was in."""
    import torch
    from transformers import GenerationConfig

    asked = tokenizer(
        texts, return_tensors="pt", padding=True, padding_side="left", add_special_tokens=False
    ).to(model.device)
    greedy = GenerationConfig(
        do_sample=False,
        max_new_tokens=max_new_tokens,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            ids = model.generate(
                input_ids=asked["input_ids"], attention_mask=asked["attention_mask"], generation_config=greedy
            )
    finally:
        model.train(was_training)
    return tokenizer.batch_decode(ids[:, asked["input_ids"].shape[1] :], skip_special_tokens=True)


@contextmanager
def _random_state_kept() -> Iterator[None]:
    """Put the random state of Python, NumPy and torch (every CUDA device too) back as it was."""
    import random

    import numpy as np
    import torch

    python, numpy, cpu = random.getstate(), np.random.get_state(), torch.get_rng_state()
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        torch.set_rng_state(cpu)
        if cuda:
            torch.cuda.set_rng_state_all(cuda)
