"""Sample completions of a prompt from the current policy, leaving the run as it was.

The random state of Python, NumPy and torch, the training mode and TRL's metrics are the same
afterwards, so no later number changes. Knows nothing of commands.
"""

from __future__ import annotations

import copy
import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from grpo_tui.data.mapping import prompt_problem
from grpo_tui.train import compat
from grpo_tui.train.settings import LEAST_TEMPERATURE, MOST_TEMPERATURE, Refused

MAX_COMPLETIONS = 64
SEVERAL = 8
"""Prompts of the data that are compared for what they all begin with."""
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
        before: what was put before a typed prompt, in words; empty for nothing.
    """

    rendered: str
    temperature: float
    ids: list[list[int]]
    truncated: list[bool]
    before: str = ""


def sample(trainer: Any, prompt: Any, *, count: int = 4, temperature: float | None = None) -> dict[str, Any]:
    """Generate `count` completions of one prompt; see `draw`.

    Returns:
        `{"prompt", "rendered", "before", "temperature", "completions": [{"text", "tokens", "truncated"}]}`.
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
        "before": drawn.before,
        "temperature": drawn.temperature,
        "completions": completions,
    }


def draw(trainer: Any, prompt: Any, *, count: int, temperature: float | None = None) -> Drawn:
    """Generate `count` completions of one prompt as token ids.

    Args:
        trainer: The GRPOTrainer, between two steps.
        prompt: A string or a list of chat messages. When the run trains on chat prompts a string
            becomes the user's message after what those all begin with.
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
    rendered, ids, before = _encode(trainer, prompt)
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
    return Drawn(rendered, config.temperature if config.do_sample else 0.0, kept, truncated, before)


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


def _encode(trainer: Any, prompt: Any) -> tuple[str, list[int], str]:
    """Render a prompt as training renders its own; a text gets before it what they all begin with.

    Returns:
        The prompt as text, its token ids, and what was put before it, in words.
    """
    said = ""
    if isinstance(prompt, str):
        rows = _some_prompts(trainer)
        if rows and not isinstance(rows[0], str):
            before = shared_beginning(rows)
            prompt, said = [*before, {"role": "user", "content": prompt}], _in_words(before)
    elif (problem := _problem(prompt)) is not None:
        raise Refused(f"the prompt {problem}")
    ids = compat.rendered_prompt(trainer, prompt)
    if ids is None:
        raise Refused("this TRL renders its prompts where they cannot be reached")
    rendered = prompt if isinstance(prompt, str) else trainer._tokenizer.decode(ids)
    return rendered, ids, said


def _some_prompts(trainer: Any) -> list[Any]:
    """A few prompts of the training data, spread over all of it; the first one of a stream."""
    rows = trainer.train_dataset
    if not hasattr(rows, "__getitem__"):
        return [row["prompt"] for row in itertools.islice(iter(rows), 1)]
    count = min(SEVERAL, len(rows))
    return [rows[index * len(rows) // count]["prompt"] for index in range(count)]


def shared_beginning(prompts: Sequence[Sequence[Mapping[str, Any]]]) -> list[Mapping[str, Any]]:
    """Return the messages before the last one that all prompts share: system prompt and examples."""
    beginnings = [prompt[:-1] for prompt in prompts]
    if len(beginnings) == 1:  # nothing says what else the others share
        return [message for message in beginnings[0][:1] if message["role"] == "system"]
    shared = itertools.takewhile(lambda turn: all(m == turn[0] for m in turn), zip(*beginnings, strict=False))
    return [turn[0] for turn in shared]


def _in_words(before: Sequence[Mapping[str, Any]]) -> str:
    """`the system prompt and 2 examples`, empty for nothing."""
    system = sum(message["role"] == "system" for message in before)
    examples = sum(message["role"] == "assistant" for message in before)
    parts = ["the system prompt"] * bool(system)
    if examples:
        parts.append(f"{examples} example{'s' if examples > 1 else ''}")
    return " and ".join(parts) or (f"{len(before)} messages" if before else "")


def _problem(prompt: Any) -> str | None:
    """What is wrong with messages that somebody sent; None when they can be rendered."""
    problem = prompt_problem(prompt)
    if problem is not None:
        return problem
    for message in prompt:
        content = message.get("content")
        typed = isinstance(content, list) and all(isinstance(p, Mapping) and "type" in p for p in content)
        if content is not None and not isinstance(content, str) and not typed:
            return (
                f"has a message of the {message['role']} whose content is neither a text nor a list of parts"
            )
    return None


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
