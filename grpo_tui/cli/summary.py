"""What a config would run, in four lines, before anything is started.

Knows configs and TRL's defaults; loads neither model nor data.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from grpo_tui.config.batch import generation_batch_size
from grpo_tui.config.run_config import RunConfig
from grpo_tui.config.trl_fields import load_fields


def summary(config: RunConfig, root: Path, world_size: int | None) -> list[str]:
    """Model, rewards, batch and folder of a run that was not started yet."""
    fields = load_fields()

    def setting(name: str) -> Any:
        return config.grpo[name] if name in config.grpo else fields[name].default

    size, group = generation_batch_size(setting, world_size or 1), int(setting("num_generations"))
    steps, epochs = setting("max_steps"), setting("num_train_epochs")
    length = f"{steps:,} steps" if isinstance(steps, int) and steps > 0 else f"{epochs:g} epochs"
    ranks = "" if world_size in (1, None) else f", on {world_size} ranks"
    return [
        f"model    {config.model}{', LoRA' if config.model_args.get('use_peft') else ''}",
        f"rewards  {', '.join(_rewards(config)) or 'none'}",
        f"batch    {size} completions = {size // group} prompts × {group}{ranks}; {length}",
        f"folder   {root}",
    ]


def _rewards(config: RunConfig) -> list[str]:
    names = [str(config.script[key]) for key in ("reward_model_name_or_path",) if config.script.get(key)]
    names += [str(name) for name in config.script.get("reward_funcs") or ()]
    return names + [
        entry.name if entry.weight in (None, 1.0) else f"{entry.name} × {entry.weight:g}"
        for entry in config.section.rewards
    ]
