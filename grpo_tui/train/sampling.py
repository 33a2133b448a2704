"""Sample completions of a prompt from the current policy, leaving the run as it was.

The random state of Python, NumPy and torch, the training mode and TRL's metrics are the same
afterwards, so no later number changes. Knows nothing of commands.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

MAX_COMPLETIONS = 64


def sample(trainer: Any, prompt: Any, *, count: int = 4, temperature: float | None = None) -> dict[str, Any]:
    """Generate `count` completions of one prompt.

    Args:
        trainer: The GRPOTrainer, between two steps.
        prompt: A string or a list of chat messages. When the run trains on chat prompts a string
            becomes one user message.
        count: Number of completions, 1 to 64.
        temperature: Sampling temperature, by default that of the run.

    Returns:
        `{"prompt", "rendered", "temperature", "completions": [{"text", "tokens", "truncated"}]}`.
    """
    import torch
    from trl.models import unwrap_model_for_generation

    count = max(1, min(MAX_COMPLETIONS, int(count)))
    tokenizer = trainer._tokenizer
    rendered, ids = _encode(trainer, tokenizer, prompt)
    config = _generation_config(trainer, tokenizer)
    if temperature is not None:
        config.temperature = float(temperature)
    device = trainer.accelerator.device
    inputs = torch.tensor([ids] * count, device=device)
    ends = {*trainer.eos_token_ids} if hasattr(trainer, "eos_token_ids") else {tokenizer.eos_token_id}
    with (
        unchanged_randomness(),
        evaluating(trainer.model),
        unwrap_model_for_generation(trainer.model_wrapped, trainer.accelerator) as model,
        torch.no_grad(),
    ):
        output = model.generate(
            input_ids=inputs, attention_mask=torch.ones_like(inputs), generation_config=config
        )
    completions = []
    for row in output[:, len(ids) :].tolist():
        end = next((i for i, token in enumerate(row) if token in ends), None)
        kept = row if end is None else row[: end + 1]
        text = tokenizer.decode(kept, skip_special_tokens=True)
        completions.append({"text": text, "tokens": len(kept), "truncated": end is None})
    return {
        "prompt": prompt,
        "rendered": rendered,
        "temperature": config.temperature,
        "completions": completions,
    }


@contextmanager
def unchanged_randomness() -> Iterator[None]:
    """Give every random state back as it was."""
    import numpy
    import torch

    states = random.getstate(), numpy.random.get_state(), torch.get_rng_state()
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else None
    try:
        yield
    finally:
        random.setstate(states[0])
        numpy.random.set_state(states[1])
        torch.set_rng_state(states[2])
        if cuda is not None:
            torch.cuda.set_rng_state_all(cuda)


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """Evaluation mode, and back to what it was."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


def _encode(trainer: Any, tokenizer: Any, prompt: Any) -> tuple[str, list[int]]:
    first = trainer.train_dataset[0]["prompt"] if hasattr(trainer.train_dataset, "__getitem__") else prompt
    if isinstance(prompt, str) and not isinstance(first, str):
        prompt = [{"role": "user", "content": prompt}]
    if isinstance(prompt, str):
        return prompt, tokenizer(prompt)["input_ids"]
    options = getattr(trainer, "chat_template_kwargs", None) or {}
    rendered = tokenizer.apply_chat_template(prompt, add_generation_prompt=True, tokenize=False, **options)
    return rendered, tokenizer(rendered, add_special_tokens=False)["input_ids"]


def _generation_config(trainer: Any, tokenizer: Any) -> Any:
    existing = getattr(trainer, "generation_config", None)
    if existing is not None:
        return copy.deepcopy(existing)
    from transformers import GenerationConfig

    # With vLLM the trainer has no configuration for `generate`; these are the run's own values.
    return GenerationConfig(
        max_new_tokens=trainer.max_completion_length,
        do_sample=True,
        temperature=trainer.temperature,
        top_p=trainer.top_p,
        top_k=trainer.top_k,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        disable_compile=True,
    )
