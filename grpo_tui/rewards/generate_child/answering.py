"""Let a loaded model answer prompts, a batch at a time, as `GRPOTrainer` generates without vLLM.

Chat prompts go through the chat template, texts as they are; a completion ends with the first end token.
It knows no rewards, and nothing of the process that asked.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from grpo_tui.rewards.generate_child.policy import Policy


@dataclass(frozen=True, slots=True)
class Answer:
    """One completion.

    Attributes:
        row: which prompt it answers, from 0.
        completion: a text, or a list with one message for a chat prompt.
        tokens: its length, the end token among them.
        truncated: whether it was cut off at the length limit.
    """

    row: int
    completion: Any
    tokens: int
    truncated: bool


@dataclass(frozen=True, slots=True)
class Batch:
    """Completions that were generated together, and the seconds it took."""

    answers: tuple[Answer, ...]
    seconds: float


def answered(
    policy: Policy,
    prompts: Sequence[Any],
    count: int,
    settings: Mapping[str, Any],
    template: Mapping[str, Any],
    size: int,
) -> Iterator[Batch]:
    """Generate `count` completions of each prompt, all of one prompt after each other.

    A batch that does not fit into the GPU's memory is tried again in halves.

    Args:
        policy: the model.
        prompts: texts, or lists of messages.
        count: completions of each.
        settings: of `GenerationConfig`.
        template: `chat_template_kwargs`.
        size: completions generated together.
    """
    import torch
    from transformers import GenerationConfig

    rendered = [prompt_ids(policy, prompt, template) for prompt in prompts]
    asked = [row for row in range(len(prompts)) for _ in range(count)]
    config = GenerationConfig(**settings, disable_compile=True)
    while asked:
        rows = asked[:size]
        start = time.monotonic()
        try:
            ids = _generate(policy, [rendered[row] for row in rows], config)
        except torch.cuda.OutOfMemoryError:
            if size == 1:
                raise
            torch.cuda.empty_cache()
            size = max(1, len(rows) // 2)
            continue
        seconds = time.monotonic() - start
        asked = asked[size:]
        yield Batch(
            tuple(_answer(policy, prompts, rendered, r, i) for r, i in zip(rows, ids, strict=True)), seconds
        )


def prompt_ids(policy: Policy, prompt: Any, template: Mapping[str, Any]) -> list[int]:
    """Return a prompt's token ids, rendered as TRL renders it."""
    if isinstance(prompt, str):
        return list(policy.processor(text=[prompt])["input_ids"][0])
    tokenized = policy.processor.apply_chat_template(
        conversation=[list(prompt)],
        add_generation_prompt=True,
        tokenize=True,
        return_dict=True,
        **template,
    )
    return list(tokenized["input_ids"][0])


def _generate(policy: Policy, prompts: Sequence[list[int]], config: Any) -> list[list[int]]:
    """The completions' ids, each up to its first end token."""
    import torch

    width = max(map(len, prompts))
    padding = policy.tokenizer.pad_token_id
    ids = torch.tensor([[padding] * (width - len(p)) + p for p in prompts], device=policy.device)
    mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts], device=policy.device)
    with torch.no_grad(), mixed_precision(policy):
        whole = policy.model.generate(input_ids=ids, attention_mask=mask, generation_config=config)
    return [until_end(row, policy.ends) for row in whole[:, width:].tolist()]


def until_end(ids: list[int], ends: Sequence[int]) -> list[int]:
    """Return token ids up to the first end token, which is kept."""
    end = next((place for place, token in enumerate(ids) if token in ends), None)
    return ids if end is None else ids[: end + 1]


def mixed_precision(policy: Policy) -> AbstractContextManager[Any]:
    """Return the mixed precision that accelerate wraps the model into for training."""
    import torch

    if not policy.mixed:
        return nullcontext()
    return torch.autocast(policy.device.partition(":")[0], dtype=getattr(torch, policy.mixed))


def _answer(
    policy: Policy, prompts: Sequence[Any], rendered: Sequence[list[int]], row: int, ids: list[int]
) -> Answer:
    tokenizer = policy.tokenizer
    truncated = not ids or ids[-1] not in (*policy.ends, tokenizer.pad_token_id)
    if isinstance(prompts[row], str):
        completion: Any = policy.processor.batch_decode([ids], skip_special_tokens=True)[0]
    elif getattr(tokenizer, "response_template", None) or getattr(tokenizer, "response_schema", None):
        from trl.chat_template_utils import parse_response

        completion = [parse_response(tokenizer, ids, prefix=rendered[row], tools=None)]
    else:
        text = policy.processor.batch_decode([ids], skip_special_tokens=True)[0]
        completion = [{"role": "assistant", "content": text}]
    return Answer(row, completion, len(ids), truncated)
