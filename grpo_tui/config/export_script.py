"""`write_script`: a config as a stand-alone `train.py` that needs TRL and no part of this package.

It does what the run does: the same rows, rewards, weights, adapters and settings. What is recorded, shown
and steered is left out. It is pure text: nothing is imported or loaded.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grpo_tui.config.export_data import add_data
from grpo_tui.config.export_rewards import add_rewards
from grpo_tui.config.export_text import Script, arguments, literal
from grpo_tui.config.rules import Settings
from grpo_tui.config.rules_vllm import server_command
from grpo_tui.config.run_config import ConfigError, RunConfig
from grpo_tui.core.findings import errors_of
from grpo_tui.core.text import one_line

if TYPE_CHECKING:
    from grpo_tui.config.resolve import Inspected

_LEFT_OUT = "(not kept)"


def exportable(found: Inspected) -> RunConfig:
    """The config of what was read; a package that is not on this machine may be where the script will run.

    Raises:
        ConfigError: something else is wrong with it.
    """
    wrong = [error for error in errors_of(found.findings) if error.id != "config.not-installed"]
    if found.config is None or wrong:
        raise ConfigError(wrong, found.file)
    return found.config


def installed_versions() -> dict[str, str]:
    """Versions of what a script stands on, where they are known."""
    found = {}
    for package in ("trl", "transformers", "datasets"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found


def write_script(config: RunConfig, target: Path, versions: dict[str, str] | None = None) -> str:
    """Return the text of a script that trains what a config says.

    Args:
        config: the checked config.
        target: where the script will lie; files are named from there.
        versions: of the packages it was written with, for its docstring.

    Raises:
        NoSourceError: a reward of this package cannot be copied.
    """
    script = Script(target.parent)
    kept = RunConfig.from_json({**config.to_record(), "raw": {}})  # without keys and tokens
    add_data(script, kept)
    add_rewards(script, kept)
    secret = sorted(
        key for part in (kept.grpo, kept.env) for key, value in part.items() if value == _LEFT_OUT
    )
    main = _main(script, kept)
    doc = _docstring(script, kept, target.name, versions or {}, secret)
    env = {key: value for key, value in kept.env.items() if value != _LEFT_OUT}
    before = ""
    if env:
        before = f"import os\n\nos.environ.update({literal(env)})  # before anything reads it\n"
    return script.text(doc, before, main)


def _docstring(
    script: Script, config: RunConfig, target: str, versions: dict[str, str], secret: list[str]
) -> str:
    name = config.path.name if config.path is not None else "a config"
    gpus = f"CUDA_VISIBLE_DEVICES={','.join(config.section.gpus)} " if config.section.gpus else ""
    words = shlex.split(config.section.launcher or "python")
    launcher = shlex.join(script.path(word) if Path(word).is_file() else word for word in words)
    written = ", ".join(f"{package} {version}" for package, version in versions.items())
    lines = [
        f"Train {config.model} with GRPO, as {name} says.",
        "",
        f"Start it:  {gpus}{launcher} {target}",
        "",
        f"Written by grpo-tui{f' for {written}' if written else ''}. It needs TRL and what the rewards need.",
    ]
    if config.grpo.get("use_vllm") and config.grpo.get("vllm_mode") == "server":
        lines.append(f"The server comes first: {server_command(Settings.of_config(config))}")
    if secret:
        lines.append(f"Left out, for they are keys: {', '.join(secret)}.")
    safe = (one_line(line, 300).replace("\\", "/").replace('"""', "'''") for line in lines)
    return "\n".join(safe) + "\n"


def _main(script: Script, config: RunConfig) -> str:
    script.imports |= {("trl", "GRPOConfig"), ("trl", "GRPOTrainer")}
    settings = {key: value for key, value in config.grpo.items() if value != _LEFT_OUT}
    resume = settings.pop("resume_from_checkpoint", None)
    settings.setdefault("output_dir", str(config.run_root))
    weights = [1.0 if entry.weight is None else entry.weight for entry in config.section.rewards]
    if "reward_weights" not in settings and any(weight != 1.0 for weight in weights):
        before = config.reward_count - len(weights)
        settings["reward_weights"] = [1.0] * before + weights
    settings["model_init_kwargs"] = {**_model_kwargs(config), **(settings.get("model_init_kwargs") or {})}
    lines = [
        "def main():",
        '    """Train, and save the model."""',
        "    train_dataset, eval_dataset = prompts()",
        f"    args = GRPOConfig(\n{arguments(settings, 8)}    )",
    ]
    more = ""
    if config.model_args.get("use_peft") or any(config.model_args.get(f"load_in_{n}bit") for n in (4, 8)):
        names = ("ModelConfig", "get_peft_config", "get_quantization_config")
        script.imports |= {("trl", name) for name in names}
        lines.append(f"    model_config = ModelConfig(\n{arguments(config.model_args, 8)}    )")
        more = (
            "        quantization_config=get_quantization_config(model_config),\n"
            "        peft_config=get_peft_config(model_config),\n"
        )
    lines += [
        "    trainer = GRPOTrainer(",
        f"        model={literal(config.model)},",
        "        reward_funcs=rewards(),",
        "        args=args,",
        "        train_dataset=train_dataset,",
        f"        eval_dataset=eval_dataset,\n{more}    )",
        f"    trainer.train({'' if resume is None else f'resume_from_checkpoint={literal(resume)}'})",
        "    trainer.save_model(args.output_dir)",
    ]
    return "\n".join(lines)


def _model_kwargs(config: RunConfig) -> dict[str, Any]:
    """What the model is loaded with; the dtype always, for TRL's own default is another in a script."""
    known = config.model_args
    found: dict[str, Any] = {"dtype": known.get("dtype", "float32")}
    if known.get("model_revision"):
        found["revision"] = known["model_revision"]
    if known.get("attn_implementation"):
        found["attn_implementation"] = known["attn_implementation"]
    if config.grpo.get("trust_remote_code"):
        found["trust_remote_code"] = True
    return found
