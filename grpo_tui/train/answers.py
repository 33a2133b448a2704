"""The same held-out questions, answered and scored before training and after it.

The training process asks twice, at its start and its end. Asking leaves the random state and the
model's mode as they were, so that a run with these questions equals one without. Knows nothing of
where the answers are kept or how they are shown.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grpo_tui.core.text import prompt_text
from grpo_tui.train.desk import is_async
from grpo_tui.train.sampling import evaluating, unchanged_randomness

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

ANSWER_TOKENS = 48
"""Longest answer, in tokens."""


def held_rows(rows: Sequence[Mapping[str, Any]], count: int) -> list[Mapping[str, Any]]:
    """`count` rows spread evenly over the held-out rows, or all of them when there are fewer."""
    if count >= len(rows):
        return list(rows)
    return [rows[index * len(rows) // count] for index in range(count)]


def answer(
    model: PreTrainedModel | str | Path,
    tokenizer: PreTrainedTokenizerBase | None,
    prompts: Sequence[str | Sequence[Mapping[str, Any]]],
    *,
    max_new_tokens: int = ANSWER_TOKENS,
) -> list[str]:
    """The model's greedy answer to each prompt, special tokens removed.

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
    with unchanged_randomness():
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
        with evaluating(model):
            return _decode_greedily(model, tokenizer, texts, max_new_tokens)


def _decode_greedily(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: list[str], max_new_tokens: int
) -> list[str]:
    """Generate without sampling, padding on the left."""
    import torch
    from transformers import GenerationConfig

    options = {"return_tensors": "pt", "padding": True, "padding_side": "left", "add_special_tokens": False}
    asked = tokenizer(texts, **options).to(model.device)
    greedy = GenerationConfig(
        do_sample=False,
        max_new_tokens=max_new_tokens,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    with torch.no_grad():
        ids = model.generate(
            input_ids=asked["input_ids"], attention_mask=asked["attention_mask"], generation_config=greedy
        )
    return tokenizer.batch_decode(ids[:, asked["input_ids"].shape[1] :], skip_special_tokens=True)


def score(
    functions: Sequence[Any],
    weights: Sequence[float],
    rows: Sequence[Mapping[str, Any]],
    texts: Sequence[str],
) -> list[float | None] | None:
    """The weighted reward of each answer, as the run's own functions give it.

    Args:
        functions: Reward functions in TRL's order.
        weights: One weight per function.
        rows: Dataset rows, one per answer.
        texts: The answers.

    Returns:
        One total per answer, None for an answer that no function scored; None instead of the list
        when a function is asynchronous or a model, which only TRL itself can call.
    """
    if not all(callable(function) and not is_async(function) for function in functions):
        return None
    prompts = [row["prompt"] for row in rows]
    chat = not isinstance(prompts[0], str)
    completions = [[{"role": "assistant", "content": text}] if chat else text for text in texts]
    columns = {key: [row[key] for row in rows] for key in rows[0] if key != "prompt"}

    def ignore(*_: Any) -> None:
        return None

    totals: list[float | None] = [None] * len(texts)
    for function, weight in zip(functions, weights, strict=True):
        given = function(
            prompts=prompts,
            completions=completions,
            completion_ids=[[] for _ in texts],
            trainer_state=None,
            log_extra=ignore,
            log_metric=ignore,
            **columns,
        )
        for index, value in enumerate(given):
            if value is not None and not math.isnan(float(value)):
                totals[index] = (totals[index] or 0.0) + weight * float(value)
    return totals


def compared(
    rows: Sequence[Mapping[str, Any]],
    before: Sequence[str],
    after: Sequence[str],
    scores: Callable[[Sequence[str]], Sequence[float | None] | None],
    gold: str = "answer",
) -> dict[str, Any]:
    """The record of both answers to every question.

    Args:
        rows: What was asked, with the columns `prompt` and, where there is one, `gold`.
        before: The answers before training, in the order of `rows`.
        after: The answers afterwards, in the same order.
        scores: Gives the reward of each of some answers, or None when it cannot.
        gold: Name of the column with the right answer.

    Returns:
        `{"rows": [{"prompt", "gold", "before", "after", "before_reward", "after_reward"}],
        "before_reward", "after_reward", "gain"}`; rewards are None where they are not known.
    """
    earlier, later = scores(before), scores(after)
    entries = []
    for index, row in enumerate(rows):
        entries.append(
            {
                "prompt": prompt_text(row["prompt"]),
                "gold": str(row.get(gold, "")),
                "before": before[index],
                "after": after[index],
                "before_reward": None if earlier is None else earlier[index],
                "after_reward": None if later is None else later[index],
            }
        )
    first, last = _mean(earlier), _mean(later)
    gain = None if first is None or last is None else last - first
    return {"rows": entries, "before_reward": first, "after_reward": last, "gain": gain}


def _mean(values: Sequence[float | None] | None) -> float | None:
    known = [value for value in values or () if value is not None]
    return sum(known) / len(known) if known else None
