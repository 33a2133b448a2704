"""Find the model, adapter and tokenizer that a command-line argument names.

It may be `base`, a run, `RUN@STEP`, a folder with a model, or a folder with an adapter. An existing path
comes first, so a folder named `RUN@STEP` is that folder. Only file names, sizes and small JSON files are
read; no model is loaded.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from grpo_tui.config.resolve import load_config
from grpo_tui.config.run_config import ConfigError, RunConfig
from grpo_tui.core.text import one_line, shell_word
from grpo_tui.store.checkpoints import Verdict, judge, newest_usable, weights_fault
from grpo_tui.store.comparisons import BASE
from grpo_tui.store.json_file import read_object
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.spec import read_spec
from grpo_tui.store.status import final_step

MODEL_CONFIG = "config.json"
ADAPTER_CONFIG = "adapter_config.json"
TOKENIZER_FILES = ("tokenizer_config.json", "tokenizer.json")
_BITS = ("load_in_4bit", "load_in_8bit")


class PolicyError(ValueError):
    """The argument does not name a loadable policy; the message is for the user."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Where a policy is stored.

    Attributes:
        name: As the user called it.
        model: Folder or Hub id of the whole model; with an adapter, of its base.
        adapter: Folder of its LoRA adapter; None for a whole model.
        run: Folder of the run that trained it or starts from it; None without one.
        step: Optimizer step it was saved at; None when unknown, and for a base.
        tokenizer: Folder or Hub id of its tokenizer.
        live: When the process started that has it in memory; None for a stored policy.
    """

    name: str
    model: str
    adapter: str | None = None
    run: Path | None = None
    step: int | None = None
    tokenizer: str = ""
    live: float | None = None


def resolve(word: str, of: Path | None = None) -> Policy:
    """Return the policy that an argument names.

    Args:
        of: The run or config whose base model `base` refers to.

    Raises:
        PolicyError: It names none, or files are missing or incomplete.
    """
    path = Path(word).expanduser()
    if path.exists():
        return _of_path(word, path.absolute())
    if word == BASE:
        if of is None:
            raise PolicyError("base needs a run or a config that says which model it started from")
        return base_policy(config_of(of))
    run, at, step = word.rpartition("@")
    root = Path(run).expanduser().absolute()
    if at and RunFolder(root).exists():
        if step == "live":
            raise PolicyError(
                f"{_shown(word)}: only chat and compare take the live policy. Save it with `grpo-tui "
                f"checkpoint {shell_word(run)}`, then name RUN@STEP"
            )
        if not step.isdecimal():
            raise PolicyError(f"{_shown(word)}: {_shown(step)} is not a step. {_steps(root, run)}")
        return _of_step(word, run, root, int(step))
    missing = run if at and step.isdecimal() else word
    raise PolicyError(
        f"{_shown(missing)}: no such run, model folder or adapter folder. "
        "`grpo-tui runs` lists the runs it can find"
    )


def config_of(of: Path) -> RunConfig:
    """Return the config of a run folder, or of a YAML file.

    Raises:
        PolicyError: It cannot be read.
    """
    if not of.is_dir():
        try:
            return load_config(str(of), (), world_size=None)
        except ConfigError as error:
            raise PolicyError(str(error)) from error
    folder = RunFolder(of.absolute())
    try:
        return RunConfig.from_json(read_spec(folder.spec).config, folder.root)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise PolicyError(
            f"{of}: the run's base model is not known, because run.json cannot be read ({reason})"
        ) from error


def base_policy(config: RunConfig) -> Policy:
    """Return the model that a config trains, before training.

    Raises:
        PolicyError: The config names none, or its folder is gone.
    """
    run = config.origin if config.origin is not None and config.origin.is_dir() else None
    if not config.model:
        raise PolicyError(f"{config.origin or config.path} does not name a model")
    return Policy(BASE, _present(config.model), run=run, tokenizer=config.model)


def config_for(policy: Policy, config: RunConfig) -> RunConfig:
    """Return the config with which a policy's model is loaded.

    A config that quantizes its model does so for its own base, with or without an adapter. Another whole
    model, such as a merged one, is loaded as it is stored, by transformers like those it is compared with.
    """
    loaded = replace(config, model=policy.model)
    quantized = any(map(config.model_args.get, _BITS))
    if policy.adapter is not None or policy.model == config.model or not quantized:
        return loaded
    whole = {name: value for name, value in config.model_args.items() if name not in _BITS}
    return replace(loaded, model_args=whole, grpo={**config.grpo, "use_vllm": False})


def _of_path(word: str, path: Path) -> Policy:
    """Return the policy in an existing folder: a run, one of its checkpoints, or other files."""
    if not path.is_dir():
        raise PolicyError(f"{_shown(word)} is a file. Name a run, a model folder or an adapter folder")
    if RunFolder(path).exists():
        return _of_run(word, path)
    kind, _, step = path.name.rpartition("-")
    if kind == "checkpoint" and step.isdecimal() and RunFolder(path.parent).exists():
        return _of_step(word, str(Path(word).parent), path.parent, int(step))
    if not any((path / name).is_file() for name in (MODEL_CONFIG, ADAPTER_CONFIG)):
        raise PolicyError(
            f"{_shown(word)}: neither a run (run.db), a model ({MODEL_CONFIG}) nor an adapter "
            f"({ADAPTER_CONFIG}) is in this folder"
        )
    if fault := weights_fault(path, links=True):
        raise PolicyError(f"{_shown(word)} cannot be loaded: {fault}")
    return _of_weights(Policy(word, ""), path, None)


def _of_run(word: str, root: Path) -> Policy:
    """Return the final model of a run, or its newest complete checkpoint."""
    final = final_step(root)
    if final is not None:
        return _of_weights(Policy(word, "", run=root, step=final), root, _config(root))
    newest, passed = newest_usable(RunFolder(root))
    if newest is not None:
        return _of_weights(Policy(word, "", run=root, step=newest.step), newest.path, _config(root))
    if (root / ADAPTER_CONFIG).is_file() or (root / MODEL_CONFIG).is_file():
        if not (fault := weights_fault(root)):
            return _of_weights(Policy(word, "", run=root), root, _config(root))
        raise PolicyError(f"{_shown(word)}: its final model cannot be loaded: {fault}")
    why = f" ({passed[0].path.name}: {passed[0].reason})" if passed else ""
    raise PolicyError(
        f"{_shown(word)} has neither a final model nor a complete checkpoint{why}. `grpo-tui compare` "
        "and `grpo-tui chat` also take base, the model it started from"
    )


def _of_step(word: str, run: str, root: Path, step: int) -> Policy:
    """Return the checkpoint of a step, or the final model if training ended there."""
    path = root / f"checkpoint-{step}"
    verdict = judge(path) if path in RunFolder(root).checkpoints() else None
    if verdict is not None and verdict.usable:
        return _of_weights(Policy(word, "", run=root, step=step), path, _config(root))
    if final_step(root) == step:
        return _of_weights(Policy(word, "", run=root, step=step), root, _config(root))
    if verdict is not None:
        raise PolicyError(f"{_shown(word)} is incomplete: {verdict.reason}. {_newest(root, run)}")
    raise PolicyError(f"{_shown(word)}: the run has no checkpoint of step {step}. {_steps(root, run)}")


def _of_weights(policy: Policy, folder: Path, config: RunConfig | None) -> Policy:
    """Fill in the paths for the weights in a folder: a whole model, or an adapter on its base."""
    own = next((str(folder) for name in TOKENIZER_FILES if (folder / name).is_file()), "")
    adapter = read_object((folder / ADAPTER_CONFIG).resolve())
    if adapter is None or (folder / MODEL_CONFIG).is_file():
        base = config.model if config is not None else str(folder)
        return replace(policy, model=str(folder), tokenizer=own or base)
    if adapter.get("megatron_config"):
        # PEFT would import the module that such an adapter names, whoever made it.
        raise PolicyError(f"{folder} is an adapter for Megatron, which is not supported")
    base = _present(_base(adapter, folder, config), f"the base model of the adapter {folder}")
    if (Path(base) / ADAPTER_CONFIG).is_file() and not (Path(base) / MODEL_CONFIG).is_file():
        raise PolicyError(f"{base}, the base of {folder}, is itself an adapter. Merge it first")
    return replace(policy, model=base, adapter=str(folder), tokenizer=own or base)


def _base(adapter: Mapping[str, Any], folder: Path, config: RunConfig | None) -> str:
    """Return the base of an adapter, as named by its run's config or by the adapter."""
    named = config.model if config is not None else ""
    named = named or str(adapter.get("base_model_name_or_path") or "")
    if not named:
        raise PolicyError(f"{folder / ADAPTER_CONFIG} does not name a base model (base_model_name_or_path)")
    return str(Path(named).absolute()) if Path(named).is_dir() else named


def _present(model: str, what: str = "the model") -> str:
    """Return a model's name, and refuse a missing folder. A Hub id has at most one slash."""
    looks_like_path = model.startswith(("/", ".", "~")) or model.count("/") > 1
    if looks_like_path and not Path(model).is_dir():
        raise PolicyError(f"{what} is missing: there is no folder {_shown(model)}. Restore it")
    return model


def _config(root: Path) -> RunConfig | None:
    try:
        config = config_of(root)
    except PolicyError:
        return None
    return config if config.model else None


def _newest(root: Path, run: str) -> str:
    newest, _ = newest_usable(RunFolder(root))
    if newest is None:
        return "The run has no complete checkpoint"
    return f"The newest complete checkpoint is {shell_word(f'{run}@{newest.step}')}"


def _steps(root: Path, run: str) -> str:
    verdicts: list[Verdict] = [judge(path) for path in RunFolder(root).checkpoints()]
    steps = [str(verdict.step) for verdict in verdicts if verdict.usable]
    if not steps:
        return "It has no complete checkpoint"
    return f"Complete checkpoints of {_shown(run)}: {', '.join(steps)}"


def _shown(text: str | os.PathLike[str]) -> str:
    return one_line(str(text), 200)
