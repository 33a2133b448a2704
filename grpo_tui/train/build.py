"""Build a GRPOTrainer from a resolved config, as `trl grpo` would, plus what the `grpo_tui` section adds.

A trial run gets the longest prompts first, so that two steps show the memory and time of the longest batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grpo_tui.core.records import RewardFunctionInfo
from grpo_tui.core.text import prompt_text
from grpo_tui.data.filters import NoTokenizerError, load_tokenizer, prompt_lengths
from grpo_tui.train import compat

if TYPE_CHECKING:
    from grpo_tui.config.run_config import RunConfig
    from grpo_tui.data.load import Prompts
    from grpo_tui.rewards.loading import LoadedReward
    from grpo_tui.train.session import Session


def build_trainer(
    config: RunConfig,
    rewards: list[LoadedReward],
    prompts: Prompts,
    output_dir: Path,
    tell: Callable[[str], None] = lambda what: None,
    reference: Path | None = None,
) -> Any:
    """Build the trainer and load the model.

    Args:
        output_dir: The run folder, which overrides the config's `output_dir`.
        reference: Checkpoint that the KL is measured from, instead of the base model. A resume loads the
            policy's own weights.
    """
    tell("loading torch and TRL")
    from trl import GRPOConfig, GRPOTrainer, ModelConfig, get_peft_config, get_quantization_config

    model_args = ModelConfig(**config.model_args)
    arguments = dict(config.grpo)
    arguments.pop("resume_from_checkpoint", None)
    arguments["output_dir"] = str(output_dir)
    weights = [reward.weight for reward in rewards]
    if "reward_weights" not in arguments and any(weight != 1.0 for weight in weights):
        arguments["reward_weights"] = weights
    args = GRPOConfig(**arguments)
    compat.silence_table()
    args.model_init_kwargs = {
        "revision": model_args.model_revision,
        "trust_remote_code": args.trust_remote_code,
        "attn_implementation": model_args.attn_implementation,
        "dtype": model_args.dtype,
        **(args.model_init_kwargs or {}),
    }
    tell("loading the model")
    adapted = bool(model_args.use_peft)
    trainer = GRPOTrainer(
        model=config.model if reference is None or adapted else str(reference),
        reward_funcs=[reward.func for reward in rewards],
        args=args,
        train_dataset=prompts.train,
        eval_dataset=prompts.eval if args.eval_strategy != "no" else None,
        quantization_config=get_quantization_config(model_args),
        peft_config=get_peft_config(model_args),
    )
    if reference is not None and adapted:
        _add_reference_adapter(trainer, reference)
    elif reference is not None:  # TRL loads the policy and its reference from the same folder
        trainer.model.config._name_or_path = config.model
    return trainer


def _add_reference_adapter(trainer: Any, checkpoint: Path) -> None:
    """Measure the KL from this checkpoint's adapter, which TRL looks up as `ref`. It is not saved again."""
    trainer.model.load_adapter(str(checkpoint), "ref")
    trainer.model.save_pretrained = partial(trainer.model.save_pretrained, selected_adapters=["default"])


def reward_sources(rewards: list[LoadedReward], attempt: int) -> list[RewardFunctionInfo]:
    """Return the record entries of the reward functions."""
    return [
        RewardFunctionInfo(
            attempt,
            index,
            reward.name,
            reward.weight,
            f"{reward.origin_file}:{reward.origin_line}" if reward.origin_file else reward.source,
            reward.sha256 or "",
            reward.source_text or "",
        )
        for index, reward in enumerate(rewards)
    ]


FACT = "smoke"
"""Key of a fact: `prompt_tokens` of the longest prompt, and the number of `rows`."""
MOST_TOKENIZED = 2_000


def longest_first(session: Session, config: RunConfig, prompts: Prompts) -> Prompts:
    """Return the prompts with the longest first. A stream is left in its order."""
    if not hasattr(prompts.train, "select"):
        print("grpo-tui: the rows are streamed; the trial takes the first ones, not the longest", flush=True)
        session.fact(FACT, {"prompt_tokens": None, "rows": None})
        return prompts
    template = config.grpo.get("chat_template_kwargs")
    try:
        tokenizer = load_tokenizer(config)
        order, most = by_length(
            list(prompts.train["prompt"]), lambda part: prompt_lengths(tokenizer, part, template)
        )
    except NoTokenizerError as error:
        print(f"grpo-tui: {error}; prompts are sorted by their number of characters", flush=True)
        order, most = by_length(list(prompts.train["prompt"]), None)
    session.fact(FACT, {"prompt_tokens": most, "rows": len(order)})
    return replace(prompts, train=prompts.train.select(order))


def by_length(
    prompts: list[Any], measure: Callable[[list[Any]], list[int]] | None
) -> tuple[list[int], int | None]:
    """Return row numbers by length, longest first, and the longest's tokens, None without `measure`."""
    characters = [len(prompt_text(prompt)) for prompt in prompts]
    order = sorted(range(len(prompts)), key=lambda row: -characters[row])
    if measure is None or not order:
        return order, None
    front = order[:MOST_TOKENIZED]
    tokens = dict(zip(front, measure([prompts[row] for row in front]), strict=True))
    front.sort(key=lambda row: -tokens[row])
    return front + order[len(front) :], tokens[front[0]]
