"""From a resolved config to a GRPOTrainer, as `trl grpo` would build it plus what the section adds.

Knows configs, data and rewards; knows nothing of recording or steering.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grpo_tui.core.records import RewardFunctionInfo
from grpo_tui.train import compat

if TYPE_CHECKING:
    from grpo_tui.config.run_config import RunConfig
    from grpo_tui.data.load import Prompts
    from grpo_tui.rewards.loading import LoadedReward


def build_trainer(
    config: RunConfig,
    rewards: list[LoadedReward],
    prompts: Prompts,
    output_dir: Path,
    tell: Callable[[str], None] = lambda what: None,
) -> Any:
    """Build the trainer; loads the model.

    Args:
        config: The resolved config.
        rewards: Loaded rewards in TRL's order.
        prompts: The datasets.
        output_dir: The run folder, which overrides the config's `output_dir`.
        tell: Called with what is loaded now.
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
    return GRPOTrainer(
        model=config.model,
        reward_funcs=[reward.func for reward in rewards],
        args=args,
        train_dataset=prompts.train,
        eval_dataset=prompts.eval if args.eval_strategy != "no" else None,
        quantization_config=get_quantization_config(model_args),
        peft_config=get_peft_config(model_args),
    )


def reward_sources(rewards: list[LoadedReward], attempt: int) -> list[RewardFunctionInfo]:
    """What is known of each reward function, for the record."""
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
