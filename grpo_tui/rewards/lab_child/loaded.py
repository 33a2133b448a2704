"""Load the rewards of a config, each time from the current text of the user's files.

A module is the user's if its file is in one of the given folders and not part of the installation or of this
program. Such modules are unloaded before rewards are loaded again. Reward models are loaded and called as in
`GRPOTrainer.__init__` and `_calculate_rewards` of TRL 1.16, but on the CPU.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from grpo_tui.children.serving import message_of
from grpo_tui.config.paths import split_file_source
from grpo_tui.config.run_config import RunConfig
from grpo_tui.core.user_code import FILE_MODULES, UserCodeError, forget_module, installed_folders, within
from grpo_tui.rewards.checks.source_text import RewardSource
from grpo_tui.rewards.lab_child.calls import Ready, captured, place_of
from grpo_tui.rewards.loading import (
    LoadedReward,
    RewardLoadError,
    each_reward,
    is_async,
    is_model,
    weights_of,
)


class RewardModels:
    """Cache of reward models, which a reload of the rewards does not change."""

    def __init__(self) -> None:
        self._loaded: dict[str, tuple[Any, Any]] = {}

    def load(self, source: Any, config: RunConfig) -> tuple[Any, Any]:
        """Return model and tokenizer.

        Args:
            source: id or folder, or the model itself.
            config: its `model_init_kwargs`, `dtype` and revision apply to reward models too.
        """
        arguments = init_arguments(config)
        key = f"{source} {sorted(arguments.items(), key=str)}" if isinstance(source, str) else ""
        if key and key in self._loaded:
            return self._loaded[key]
        from transformers import AutoModelForSequenceClassification, AutoTokenizer, PreTrainedModel

        model = source
        if isinstance(source, str):
            model = AutoModelForSequenceClassification.from_pretrained(source, num_labels=1, **arguments)
        tokenizer = None
        if isinstance(model, PreTrainedModel):
            name = model.config._name_or_path
            revision = arguments.get("revision") if isinstance(source, str) else None
            tokenizer = AutoTokenizer.from_pretrained(
                name, revision=revision, trust_remote_code=bool(arguments.get("trust_remote_code"))
            )
            if tokenizer.pad_token_id is None:
                tokenizer.pad_token = tokenizer.eos_token
            # The score is read at the last token that is not padding, so the model must know that token.
            model.config.get_text_config().pad_token_id = tokenizer.pad_token_id
            model = model.to("cpu").eval()
        if key:
            self._loaded[key] = (model, tokenizer)
        return model, tokenizer


def init_arguments(config: RunConfig) -> dict[str, Any]:
    """Return the keyword arguments for loading a model, as TRL passes them for policy and reward models."""
    given = config.model_args
    arguments = {
        "revision": given.get("model_revision", "main"),
        "trust_remote_code": bool(config.grpo.get("trust_remote_code", False)),
        "attn_implementation": given.get("attn_implementation"),
        "dtype": given.get("dtype", "float32"),
        **(config.grpo.get("model_init_kwargs") or {}),
    }
    arguments.pop("device_map", None)
    return arguments


def mixed_of(config: RunConfig) -> str:
    """Return `bfloat16` or `float16` if training uses mixed precision, or an empty text."""
    if config.grpo.get("fp16"):
        return "float16"
    half = config.grpo.get("bf16")
    return "bfloat16" if half or half is None else ""  # None: TRL's own default


def score(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[Any],
    completions: Sequence[Any],
    template_arguments: Mapping[str, Any],
    mixed: str,
) -> list[float]:
    """Return the model's first logit for each prompt with its completion.

    Args:
        prompts, completions: texts, or lists of messages.
        mixed: `bfloat16` or `float16` if training uses mixed precision, which applies to reward models too.
    """
    import torch

    if isinstance(prompts[0], str):
        texts = [p + c for p, c in zip(prompts, completions, strict=True)]
    else:
        from trl.data_utils import apply_chat_template

        texts = [
            apply_chat_template({"messages": p + c}, tokenizer, **template_arguments)["text"]
            for p, c in zip(prompts, completions, strict=True)
        ]
    inputs = tokenizer(
        text=texts, return_tensors="pt", padding=True, padding_side="right", add_special_tokens=False
    )
    dtype = torch.bfloat16 if mixed == "bfloat16" else torch.float16
    with torch.inference_mode(), torch.autocast("cpu", dtype=dtype, enabled=bool(mixed)):
        logits = model(**inputs).logits.float()
    return logits[:, 0].tolist()


_OURS = "grpo_tui"


def _resolver() -> Callable[[str], str]:
    """Return an `os.path.realpath` that looks at each folder once: TRL alone imports 3,000 modules."""

    @cache
    def resolved(path: str) -> str:
        folder, base = os.path.split(path)
        if folder in ("", path) or base in ("", ".", ".."):
            return os.path.realpath(path)
        whole = os.path.join(resolved(folder), base)
        return os.path.realpath(whole) if os.path.islink(whole) else whole

    return resolved


class UserModules:
    """Modules that belong to the user, without those in `kept` that the child itself needs."""

    def __init__(self, kept: Iterable[str]) -> None:
        self._kept = frozenset(kept)
        self.roots: set[str] = set()

    def files(self) -> list[str]:
        """Return the sorted files of the user's loaded modules."""
        return sorted({file for _, file in self._loaded()})

    def modules(self) -> dict[str, ModuleType]:
        """Return the user's loaded modules by name."""
        return {name: sys.modules[name] for name, _ in self._loaded()}

    def is_own(self, file: str) -> bool:
        """Return whether a source file is the user's."""
        return self._owns(os.path.realpath(file))

    def _owns(self, resolved: str) -> bool:
        return any(within(resolved, root) for root in self.roots) and not any(
            within(resolved, folder) for folder in installed_folders()
        )

    def forget(self) -> None:
        """Unload the user's modules."""
        for name, _ in self._loaded():
            forget_module(name)
        importlib.invalidate_caches()

    def _loaded(self) -> list[tuple[str, str]]:
        found = []
        resolved = _resolver()
        for name, module in sys.modules.copy().items():  # an import may change it
            file = getattr(module, "__file__", None)
            if not isinstance(file, str) or not file.endswith(".py") or name in self._kept:
                continue
            ours = name == _OURS or name.startswith(f"{_OURS}.")
            own = not ours and name != "__main__" and self._owns(resolved(file))
            if name.startswith(FILE_MODULES) or own:
                found.append((name, file))
        return found


class Rewards:
    """Rewards of one config."""

    def __init__(self, modules: UserModules, models: RewardModels) -> None:
        self._modules, self._models = modules, models
        self.ready: list[Ready | None] = []

    def load(
        self,
        config: RunConfig,
        tell: Callable[[int], None] = lambda index: None,
        left_out: Mapping[int, Mapping[str, Any]] | None = None,
    ) -> list[dict[str, Any]]:
        """Load every reward and return descriptions. A reward that fails has a `failure` and is not ready.

        Raises:
            RewardLoadError: the weights do not match the rewards.
        """
        self._modules.roots |= folders_of(config)
        self._modules.forget()
        self.ready = []
        descriptions = []
        rewards = zip(each_reward(config), weights_of(config), strict=True)
        for index, ((name, load), weight) in enumerate(rewards):
            if left_out and index in left_out:
                self.ready.append(None)
                failure = dict(left_out[index])
                descriptions.append({**_unloaded(name, weight), "index": index, "failure": failure})
                continue
            tell(index)
            with captured() as printed:
                ready, description = self._one(name, weight, load, config)
            self.ready.append(ready)
            descriptions.append({**description, "index": index})
            if description.get("failure") and printed.text:
                description["failure"]["message"] += f"; it printed: {printed.text[-300:]}"
        return descriptions

    def _one(
        self, name: str, weight: float, load: Callable[[], LoadedReward], config: RunConfig
    ) -> tuple[Ready | None, dict[str, Any]]:
        description = _unloaded(name, weight)
        try:
            reward = load()
            ready = self._made_ready(reward, load, config)
        except BaseException as error:
            description["failure"] = self._load_failure(error)
            return None, description
        model = ready.is_model
        return ready, {
            "name": reward.name,
            "weight": reward.weight,
            "kind": "model" if model else "async" if ready.is_async else "function",
            "source": reward.source,
            "file": None if model else reward.origin_file,
            "line": None if model else reward.origin_line,
            "sha256": reward.sha256,
            "file_text": "" if model else reward.source_text or "",
            "params": sorted(reward.params),
            "saves_state": hasattr(inspect.unwrap(ready.target), "state_dict"),
            "parameters": None if model else _parameters(reward.func, set(reward.params)),
        }

    def _made_ready(self, reward: LoadedReward, load: Callable[[], LoadedReward], config: RunConfig) -> Ready:
        if isinstance(reward.func, str) or is_model(reward.func):
            call = self._model_call(reward.func, config)
            return Ready(reward.name, call, False, True, {}, lambda: call)
        broad = {}
        if reward.origin_file and reward.source_text:
            handlers = RewardSource(reward.source_text, reward.origin_line).broad_handlers()
            if handlers:
                broad = {reward.origin_file: [(h.first, h.last) for h in handlers]}

        def again() -> Callable[..., Any]:
            self._modules.forget()
            func = load().func
            assert callable(func)
            return func

        return Ready(reward.name, reward.func, is_async(reward.func), False, broad, again)

    def _model_call(self, source: Any, config: RunConfig) -> Callable[..., Any]:
        model, tokenizer = self._models.load(source, config)
        template = config.grpo.get("chat_template_kwargs") or {}
        mixed = mixed_of(config) if config.model else ""  # without a run, the model is used unchanged

        def call(prompts: Any, completions: Any, **kwargs: Any) -> list[float]:
            return score(model, tokenizer, prompts, completions, template, mixed)

        return call

    def _load_failure(self, error: BaseException) -> dict[str, Any]:
        cause = error.__cause__
        if isinstance(cause, UserCodeError):
            place: tuple[str | None, int | None] = (cause.file, cause.line)
        elif isinstance(error, RewardLoadError):
            place = (None, None)
        else:
            place = place_of(error, self._modules.is_own)
        kind = "" if isinstance(error, RewardLoadError) else type(error).__name__
        message = f"{kind}: {message_of(error)}"
        if isinstance(error, RewardLoadError):
            message = cause.reason if isinstance(cause, UserCodeError) and cause.line else error.reason
        return {"kind": "load", "type": kind, "message": message, "file": place[0], "line": place[1]}


def _unloaded(name: str, weight: float) -> dict[str, Any]:
    return {"name": name, "weight": weight, "kind": "", "source": name}


def folders_of(config: RunConfig) -> set[str]:
    """Return the resolved folders that hold the user's modules of a config."""
    folders = {config.cwd or os.getcwd()}
    if config.path is not None:
        folders.add(str(config.path.parent))
    for entry in config.section.rewards:
        parts = split_file_source(entry.source)
        if parts is not None:
            folders.add(str(Path(parts[0]).absolute().parent))
    return {str(Path(folder).resolve()) for folder in folders}


def _parameters(function: Any, bound: set[str]) -> list[tuple[str, int, str]] | None:
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    return [
        (
            p.name,
            int(p.kind),
            "empty"
            if p.default is p.empty
            else "none"
            if p.default is None and p.name not in bound
            else "blank"
            if isinstance(p.default, str | list | tuple | dict) and not p.default and p.name not in bound
            else "other",
        )
        for p in found
    ]
