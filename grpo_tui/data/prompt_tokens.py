"""How many tokens a prompt is for the model: chat template, generation prompt and special tokens included.

The same call that GRPOTrainer makes. It imports transformers inside its functions and knows no dataset.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grpo_tui.config.run_config import RunConfig

_AT_ONCE = 512


class NoTokenizerError(ValueError):
    """The tokenizer of the policy is not at hand; the message says which and why."""


def load_tokenizer(config: RunConfig, *, fetch: bool = True) -> Any:
    """Load the policy's tokenizer, or processor, as GRPOTrainer does.

    Args:
        config: the run's config.
        fetch: whether it may be fetched from the Hub; else only what is on this machine is used.

    Raises:
        NoTokenizerError: there is none.
    """
    from transformers import AutoProcessor

    try:
        return AutoProcessor.from_pretrained(
            config.model,
            revision=config.model_args.get("model_revision", "main"),
            truncation_side="left",
            padding_side="left",
            trust_remote_code=bool(config.grpo.get("trust_remote_code", False)),
            local_files_only=not fetch,
        )
    except Exception as error:
        first = str(error).strip().partition("\n")[0]
        raise NoTokenizerError(
            f"no tokenizer of {config.model} ({type(error).__name__}: {first[:200]})"
        ) from error


def prompt_lengths(
    tokenizer: Any, prompts: Sequence[Any], template: dict[str, Any] | None = None
) -> list[int]:
    """Return the number of tokens of each prompt, (N,), as the model will get it.

    Args:
        tokenizer: what `load_tokenizer` gave.
        prompts: (N,) texts, or lists of messages.
        template: `chat_template_kwargs` of the config.

    Raises:
        NoTokenizerError: the tokenizer has no chat template, or refuses the messages.
    """
    lengths: list[int] = []
    for start in range(0, len(prompts), _AT_ONCE):
        part = list(prompts[start : start + _AT_ONCE])
        if isinstance(part[0], str):
            ids = tokenizer(text=part)["input_ids"]
        else:
            try:
                ids = tokenizer.apply_chat_template(
                    conversation=part,
                    add_generation_prompt=True,
                    tokenize=True,
                    return_dict=True,
                    **(template or {}),
                )["input_ids"]
            except Exception as error:
                first = str(error).strip().partition("\n")[0]
                raise NoTokenizerError(
                    f"the chat template cannot write the prompts: {first[:200]}"
                ) from error
        lengths += [len(one) for one in ids]
    return lengths
