"""Look at the tokens of a completion with the policy of a live run as it is now, leaving the run as it was.

At the safe point, on every rank, because a rank may hold a part of the model. The random state and the
training mode are the same afterwards. Knows nothing of commands.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from grpo_tui.core.token_scores import TokenScores
from grpo_tui.train import compat
from grpo_tui.train.sampling import MAX_PROMPT_TOKENS, evaluating, unchanged_randomness
from grpo_tui.train.settings import Refused
from grpo_tui.train.token_figures import (
    TokensError,
    end_token,
    figures,
    logits_of,
    precision,
    refuse_images,
    refused,
    tokenized,
    tokens_of,
)


def live_tokens(trainer: Any, args: Mapping[str, Any]) -> dict[str, Any]:
    """Look at one completion.

    Args:
        trainer: the GRPOTrainer, between two steps.
        args: `prompt` and `text` as recorded, `truncated`, `recorded` (its tokens, or None), and `base`:
            whether it shall be compared with the reference, where one is in memory.

    Returns:
        `TokenScores.to_wire`.

    Raises:
        Refused: the completion cannot be looked at.
    """
    if not isinstance(args.get("text"), str) or not isinstance(args.get("prompt"), str | list):
        raise Refused("a completion is needed: grpo-tui tokens RUN --group N --from live")
    try:
        return _looked_at(trainer, args)
    except TokensError as error:
        raise Refused(str(error)) from error


def _looked_at(trainer: Any, args: Mapping[str, Any]) -> dict[str, Any]:
    tokenizer = trainer._tokenizer
    refuse_images(args["prompt"])
    try:
        before = compat.rendered_prompt(trainer, args["prompt"])
    except Exception as error:
        raise TokensError(f"the prompt cannot be rendered: {refused(error)}") from error
    if before is None:
        raise TokensError("this TRL renders its prompts where they cannot be reached")
    if len(before) > MAX_PROMPT_TOKENS:
        raise Refused(f"the prompt has {len(before):,} tokens; the most is {MAX_PROMPT_TOKENS:,}")
    ends = getattr(trainer, "eos_token_ids", None) or [tokenizer.eos_token_id]
    end = None if args.get("truncated") else end_token(tokenizer, ends)
    found = tokenized(tokenizer, args["text"], end, args.get("recorded"))
    start = time.monotonic()
    base, columns = _figures(trainer, before, found.ids, wanted=bool(args.get("base", True)))
    mixed = {"fp16": "float16", "bf16": "bfloat16"}.get(str(trainer.accelerator.mixed_precision), "")
    return TokenScores(
        tokens=tokens_of(tokenizer, before, found.ids, columns),
        policy=f"the policy at step {int(trainer.state.global_step):,}",
        base=base,
        of=found.of,
        recorded=args.get("recorded"),
        retokenized=bool(found.note),
        note=found.note,
        prompt=tokenizer.decode(before),
        prompt_tokens=len(before),
        temperature=float(trainer.temperature),
        precision=precision(trainer.model, mixed),
        device=str(trainer.accelerator.device),
        seconds=time.monotonic() - start,
    ).to_wire()


def _figures(
    trainer: Any, before: list[int], ids: list[int], *, wanted: bool
) -> tuple[str, dict[str, list[Any]]]:
    """Name of the reference, and the columns."""
    import torch

    # Through the model as TRL takes it for log-probabilities: what is sharded gathers itself, layer by layer.
    model, device = trainer.model, trainer.accelerator.device
    name, reference = compat.reference(trainer) if wanted else ("", None)
    try:
        with (
            unchanged_randomness(),
            evaluating(model),
            trainer.accelerator.autocast(),
        ):
            logits = logits_of(model, before, ids, device)
            other = None
            if reference is not None:
                other = logits_of(reference, before, ids, device)
            elif name:
                with compat.without_adapter(trainer.accelerator.unwrap_model(model)):
                    other = logits_of(model, before, ids, device)
            return name, figures(logits, ids, other)
    except torch.cuda.OutOfMemoryError as error:
        torch.cuda.empty_cache()
        raise TokensError(
            f"{len(before) + len(ids):,} tokens do not fit beside the training; ask a checkpoint instead"
        ) from error
