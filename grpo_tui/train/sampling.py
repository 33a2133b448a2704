"""Sample completions of a prompt from the current policy, leaving the run as it was.

The random state of Python, NumPy and torch, the training mode and TRL's metrics are the same
afterwards, so no later number changes. Knows nothing of commands.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from grpo_tui.train import compat
from grpo_tui.train.settings import LEAST_TEMPERATURE, MOST_TEMPERATURE, Refused

MAX_COMPLETIONS = 64
MAX_PROMPT_TOKENS = 32_768
"""Longer ones would hold the run up for minutes, whatever the model could take."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """Completions of one prompt.

    Attributes:
        rendered: the prompt as the model got it.
        temperature: of sampling; 0 for the likeliest token.
        ids: (count,) token ids, the end token included.
        truncated: (count,) whether it was cut off.
    """

    rendered: str
    temperature: float
    ids: list[list[int]]
    truncated: list[bool]


def sample(trainer: Any, prompt: Any, *, count: int = 4, temperature: float | None = None) -> dict[str, Any]:
    """Generate `count` completions of one prompt; see `draw`.

    Returns:
        `{"prompt", "rendered", "temperature", "completions": [{"text", "tokens", "truncated"}]}`.
    """
    drawn = draw(trainer, prompt, count=count, temperature=temperature)
    completions = [
        {
            "text": trainer._tokenizer.decode(ids, skip_special_tokens=True),
            "tokens": len(ids),
            "truncated": truncated,
        }
        for ids, truncated in zip(drawn.ids, drawn.truncated, strict=True)
    ]
    return {
        "prompt": prompt,
        "rendered": drawn.rendered,
        "temperature": drawn.temperature,
        "completions": completions,
    }


def draw(trainer: Any, prompt: Any, *, count: int, temperature: float | None = None) -> Drawn:
    """Generate `count` completions of one prompt as token ids.

    Args:
        trainer: The GRPOTrainer, between two steps.
        prompt: A string or a list of chat messages. When the run trains on chat prompts a string
            becomes one user message.
        count: Number of completions, 1 to 64.
        temperature: Sampling temperature, by default that of the run; 0 takes the likeliest token.

    Raises:
        Refused: The prompt is too long or none, or there are too many completions, or no such temperature.
    """
    import torch
    from trl.models import unwrap_model_for_generation

    if not 1 <= count <= MAX_COMPLETIONS:
        raise Refused(f"count must be from 1 to {MAX_COMPLETIONS}, not {count}")
    tokenizer = trainer._tokenizer
    config = _generation_config(trainer, tokenizer)
    if temperature is not None:
        _set_temperature(config, temperature)
    rendered, ids = _encode(trainer, tokenizer, prompt)
    _refuse_long(trainer, len(ids), config.max_new_tokens or 0)
    refuse_unknown_tokens(trainer, ids)
    device = trainer.accelerator.device
    inputs = torch.tensor([ids] * count, device=device)
    ends = {*trainer.eos_token_ids} if hasattr(trainer, "eos_token_ids") else {tokenizer.eos_token_id}
    checkpointing = trainer.args.gradient_checkpointing_kwargs
    with (
        unchanged_randomness(),
        evaluating(trainer.model),
        unwrap_model_for_generation(
            trainer.model_wrapped, trainer.accelerator, gradient_checkpointing_kwargs=checkpointing
        ) as model,
        torch.no_grad(),
        compat.whole_parameters(trainer),
    ):
        output = model.generate(
            input_ids=inputs,
            attention_mask=torch.ones_like(inputs),
            generation_config=config,
            synced_gpus=compat.is_sharded(trainer),
        )
    kept, truncated = [], []
    for row in output[:, len(ids) :].tolist():
        end = next((i for i, token in enumerate(row) if token in ends), None)
        kept.append(row if end is None else row[: end + 1])
        truncated.append(end is None)
    return Drawn(rendered, config.temperature if config.do_sample else 0.0, kept, truncated)


def _set_temperature(config: Any, temperature: float) -> None:
    if temperature == 0:
        config.do_sample = False
        config.temperature = config.top_p = 1.0
        config.top_k = config.min_p = None
    elif LEAST_TEMPERATURE <= temperature <= MOST_TEMPERATURE:
        config.temperature = float(temperature)
    else:
        raise Refused(
            f"temperature must be 0 or from {LEAST_TEMPERATURE:g} to {MOST_TEMPERATURE:g}, not {temperature}"
        )


def _refuse_long(trainer: Any, tokens: int, new: int) -> None:
    """Refuse what the model cannot take, before the run waits for it."""
    model = trainer.accelerator.unwrap_model(trainer.model)
    text = model.config.get_text_config() if hasattr(model.config, "get_text_config") else model.config
    context = getattr(text, "max_position_embeddings", None)
    limit = min(MAX_PROMPT_TOKENS, context - new if context else MAX_PROMPT_TOKENS)
    if tokens == 0:
        raise Refused("the prompt is empty")
    if tokens > limit:
        reason = f"the model's context of {context:,} less {new:,} to generate" if context else "the most"
        raise Refused(f"the prompt has {tokens:,} tokens; {limit:,} can be sampled from ({reason})")


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


def refuse_unknown_tokens(trainer: Any, ids: Sequence[int]) -> None:
    """Refuse tokens without an embedding: on a GPU a look-up of one would end the process."""
    known = trainer.accelerator.unwrap_model(trainer.model).get_input_embeddings()
    rows = getattr(known, "num_embeddings", None)
    if rows is not None and ids and max(ids) >= rows:
        raise Refused(f"the text has a token that the model does not know: {max(ids):,} of {rows:,}")


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """Evaluate the model, and leave its mode, gradient checkpointing and sharded parameters as they were."""
    from torch.distributed.fsdp import FSDPModule

    training = model.training
    modules = list(model.modules())
    checkpointing = {m: m.gradient_checkpointing for m in modules if hasattr(m, "gradient_checkpointing")}
    sharded = [module for module in modules if isinstance(module, FSDPModule)]
    model.eval()
    try:
        yield
    except BaseException:
        if sharded and hasattr(sharded[0], "reset_iter_state"):
            sharded[0].reset_iter_state()  # what the forward that broke off has left, of the root's
        raise
    finally:
        model.train(training)
        for module, was in checkpointing.items():  # TRL turns it off, and on again only without an exception
            module.gradient_checkpointing = was
        # FSDP2 frees what it gathered for a forward in the backward, which does not come here.
        for module in sharded:
            module.reshard()


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
