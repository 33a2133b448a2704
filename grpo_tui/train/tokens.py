"""Compute log-probability, entropy, rank and KL of each token; turn recorded text back into token ids.

One forward pass, with softmax and sums in float32 at temperature 1. Used by the child that loads checkpoints
and, at the safe point, by the live run: on every rank, because a rank may hold only part of the model. Random
state and training mode are restored. This module imports neither torch nor transformers at import time: the
child must first set the environment that they read.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grpo_tui.core.text import one_line, shell_word
from grpo_tui.core.token_scores import MOST_TOKENS, Token, TokenScores
from grpo_tui.train import compat
from grpo_tui.train.settings import Refused

ROWS_AT_ONCE = 128
"""Positions whose distributions are held in float32 at once."""
MOST_PARTS = 4
"""Maximum number of tokens for one character: its bytes in UTF-8."""
DIGITS = 6


class TokensError(ValueError):
    """The tokens cannot be scored; the message is one sentence for the user."""


@dataclass(frozen=True, slots=True)
class Tokenized:
    """A completion as token ids.

    Attributes:
        ids: The first `MOST_TOKENS` ids.
        of: Total number, including the end token.
        note: Why they differ from those generated; empty when nothing suggests that.
    """

    ids: list[int]
    of: int
    note: str


def tokenized(tokenizer: Any, text: str, end: int | None, recorded: int | None) -> Tokenized:
    """Turn a recorded completion back into token ids.

    Args:
        text: The completion as recorded, without special tokens.
        end: Id of the end token when the completion ended by itself, None when it was truncated.
        recorded: Recorded length in tokens, including the end token.
    """
    ids = list(tokenizer(text, add_special_tokens=False)["input_ids"])
    note = ""
    if tokenizer.decode(ids, skip_special_tokens=True) != text:
        note = "the tokens do not decode to exactly the recorded text"
    if end is not None:
        ids.append(end)
    if recorded is not None and len(ids) != recorded:
        note = f"the recorded text has {len(ids):,} tokens now; when it was generated it had {recorded:,}"
    return Tokenized(ids[:MOST_TOKENS], len(ids), note)


def end_token(tokenizer: Any, ends: Sequence[int]) -> int | None:
    """Return the tokenizer's end token if the run uses it, else the run's first."""
    own = tokenizer.eos_token_id
    return own if own is not None and (own in ends or not ends) else (ends[0] if ends else None)


def refuse_images(prompt: Any) -> None:
    """Refuse a prompt with images, of which only the text is recorded.

    Raises:
        TokensError: The prompt has images.
    """
    for message in prompt if isinstance(prompt, list) else ():
        content = message.get("content") if isinstance(message, dict) else None
        for part in content if isinstance(content, list) else ():
            if isinstance(part, dict) and part.get("type") == "image":
                raise TokensError("the prompt has images, which the run does not record")


def precision(model: Any, mixed: str) -> str:
    """Describe the precision of a model; `mixed` is the autocast dtype, empty for none."""
    kept = str(next(model.parameters()).dtype).removeprefix("torch.")
    return f"{kept}, {mixed} autocast" if mixed else kept


def refuse_long(model: Any, tokens: int) -> None:
    """Refuse more tokens than the model's context holds.

    Raises:
        TokensError: There are more.
    """
    config = getattr(model, "config", None)
    text = config.get_text_config() if config is not None and hasattr(config, "get_text_config") else config
    context = getattr(text, "max_position_embeddings", None)
    if context and tokens > context:
        raise TokensError(
            f"prompt and completion have {tokens:,} tokens, the model's context holds {context:,}"
        )


def logits_of(model: Any, prompt: Sequence[int], completion: Sequence[int], device: Any) -> Any:
    """Return the model's logits before each token of the completion.

    Args:
        model: In evaluation mode. Called without gradients, in the caller's precision.
        prompt: Token ids, at least one.

    Returns:
        (tokens, vocabulary) logits, in the model's precision.

    Raises:
        TokensError: Prompt or completion is empty, or together they exceed the model's context.
    """
    import torch

    if not prompt or not completion:
        raise TokensError(f"the {'completion' if prompt else 'prompt'} has no tokens")
    refuse_long(model, len(prompt) + len(completion))
    ids = torch.tensor([[*prompt, *completion]], device=device)
    keep = len(completion) + 1
    options = {"logits_to_keep": keep} if _keeps_logits(model) else {}
    with torch.no_grad():
        logits = model(input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False, **options).logits
    return logits[0, -keep:-1]


def _keeps_logits(model: Any) -> bool:
    import torch

    inner = model
    while isinstance(getattr(inner, "module", None), torch.nn.Module):
        inner = inner.module
    if hasattr(inner, "peft_config"):
        inner = inner.get_base_model()
    try:
        return "logits_to_keep" in inspect.signature(type(inner).forward).parameters
    except (TypeError, ValueError):
        return False


def figures(logits: Any, ids: Sequence[int], base: Any = None) -> dict[str, list[Any]]:
    """Compute log-probability, entropy and rank of each token, and its KL to a base model.

    Args:
        logits: (tokens, vocabulary), from `logits_of`.
        ids: (tokens,) the completion.
        base: As `logits`, from the base model; None for none.

    Returns:
        Columns: `logprob`, `entropy` (nats), `rank` (from 1), `likeliest` (an id), `likeliest_logprob`,
        `base_logprob` and `kl`: Σ p·(log p − log q) over the vocabulary, nats.
    """
    import torch

    names = ("logprob", "entropy", "rank", "likeliest", "likeliest_logprob", "base_logprob", "kl")
    columns: dict[str, list[Any]] = {name: [] for name in names}
    for start in range(0, len(ids), ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        chosen = torch.tensor(list(ids[rows]), device=logits.device).unsqueeze(1)
        logp = torch.log_softmax(logits[rows].float(), dim=-1)
        p = logp.exp()
        own = logp.gather(1, chosen)
        top, place = logp.max(dim=-1)
        columns["logprob"] += _rounded(own.squeeze(1))
        columns["entropy"] += _rounded(-torch.where(p > 0, p * logp, 0.0).sum(dim=-1))
        columns["rank"] += ((logp > own).sum(dim=-1) + 1).tolist()
        columns["likeliest"] += place.tolist()
        columns["likeliest_logprob"] += _rounded(top)
        if base is None:
            columns["base_logprob"] += [None] * len(p)
            columns["kl"] += [None] * len(p)
            continue
        logq = torch.log_softmax(base[rows].to(logits.device).float(), dim=-1)
        columns["base_logprob"] += _rounded(logq.gather(1, chosen).squeeze(1))
        # Rounding can push a sum slightly below 0, but a KL is never negative.
        columns["kl"] += _rounded(torch.where(p > 0, p * (logp - logq), 0.0).sum(dim=-1).clamp(min=0.0))
    return columns


def _rounded(values: Any) -> list[float]:
    return [round(value, DIGITS) for value in values.tolist()]


def tokens_of(
    tokenizer: Any, prompt: Sequence[int], ids: Sequence[int], columns: dict[str, list[Any]]
) -> tuple[Token, ...]:
    """Combine texts and figures of the tokens that follow `prompt`."""
    special = set(tokenizer.all_special_ids)
    texts = token_texts(tokenizer, prompt, ids)
    likeliest = {token: tokenizer.decode([token]) for token in set(columns["likeliest"])}
    return tuple(
        Token(
            id=token,
            text=texts[place],
            special=token in special,
            logprob=columns["logprob"][place],
            entropy=columns["entropy"][place],
            rank=columns["rank"][place],
            likeliest=likeliest[columns["likeliest"][place]],
            likeliest_logprob=columns["likeliest_logprob"][place],
            base_logprob=columns["base_logprob"][place],
            kl=columns["kl"][place],
        )
        for place, token in enumerate(ids)
    )


def token_texts(tokenizer: Any, before: Sequence[int], ids: Sequence[int]) -> list[str]:
    """Return what each token adds to the text.

    A character of several tokens appears with the last of them. Each token is decoded after the one before
    it, because some tokenizers drop the space of a first word.
    """
    texts: list[str] = []
    whole = [*before[-1:], *ids]
    start = first = len(whole) - len(ids)
    for place in range(first, len(whole)):
        ahead = tokenizer.decode(whole[start - 1 : start]) if start else ""
        both = tokenizer.decode(whole[max(0, start - 1) : place + 1])
        text = both[len(ahead) :] if both.startswith(ahead) else tokenizer.decode(whole[start : place + 1])
        last = place == len(whole) - 1
        if text.endswith("�") and not last and place - start < MOST_PARTS - 1:
            texts.append("")
            continue
        texts.append(text)
        start = place + 1
    return texts


def refused(error: Exception) -> TokensError:
    """Turn an exception of a model or tokenizer into a one-sentence error."""
    first = str(error).strip().partition("\n")[0]
    return TokensError(one_line(f"{type(error).__name__}: {first}", 300))


def live_tokens(trainer: Any, args: Mapping[str, Any]) -> dict[str, Any]:
    """Score the tokens of one completion with the live policy.

    Args:
        trainer: The GRPOTrainer, between two steps.
        args: `prompt` and `text` as recorded, `truncated`, `recorded` (number of tokens or None), and `base`:
            whether to compare with the reference, if one is in memory.

    Returns:
        `TokenScores.to_wire`.

    Raises:
        Refused: The completion cannot be scored.
    """
    if not isinstance(args.get("text"), str) or not isinstance(args.get("prompt"), str | list):
        folder = shell_word(str(trainer.args.output_dir))
        raise Refused(f"a completion is needed: `grpo-tui tokens {folder} --group N --from live`")
    try:
        return _looked_at(trainer, args)
    except TokensError as error:
        raise Refused(str(error)) from error


def _looked_at(trainer: Any, args: Mapping[str, Any]) -> dict[str, Any]:
    from grpo_tui.train.sampling import MAX_PROMPT_TOKENS

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
    import torch

    from grpo_tui.train.sampling import evaluating, unchanged_randomness

    # Use the model as TRL does for log-probabilities: a sharded one gathers itself, layer by layer.
    model, device = trainer.model, trainer.accelerator.device
    name, reference = compat.reference(trainer) if wanted else ("", None)
    try:
        with unchanged_randomness(), evaluating(model), trainer.accelerator.autocast():
            logits = logits_of(model, before, ids, device)
            other = None if reference is None else logits_of(reference, before, ids, device)
            if reference is None and name:
                with compat.without_adapter(trainer.accelerator.unwrap_model(model)):
                    other = logits_of(model, before, ids, device)
            return name, figures(logits, ids, other)
    except torch.cuda.OutOfMemoryError as error:
        torch.cuda.empty_cache()
        raise TokensError(
            f"{len(before) + len(ids):,} tokens do not fit into memory during training. Use a checkpoint "
            "instead"
        ) from error
