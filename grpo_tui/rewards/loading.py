"""Load the reward functions of a config, in TRL's order and under TRL's metric names.

The order is `reward_model_name_or_path`, `reward_funcs` as `trl grpo` reads them, then `grpo_tui.rewards`.
Names follow `get_callable_name` and `is_async_callable` in TRL 1.16. Neither torch nor TRL is imported until
one of TRL's own rewards is loaded.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from grpo_tui.config.meant import nearest
from grpo_tui.config.paths import split_file_source
from grpo_tui.config.run_config import RunConfig
from grpo_tui.config.section import RewardEntry
from grpo_tui.config.trl_fields import FACTORIES, SCRIPT_NAMES, TRL_NAMES
from grpo_tui.core.user_code import UserCodeError, load_dotted, load_from_file


def callable_name(func: Callable[..., Any]) -> str:
    """Return the name in TRL's metrics: of the function inside a partial, or of an instance's class."""
    while isinstance(func, functools.partial):
        func = func.func
    return str(getattr(func, "__name__", type(func).__name__))


def is_async(func: Callable[..., Any]) -> bool:
    """Return whether a call gives a coroutine, for functions, partials and callable instances."""
    while isinstance(func, functools.partial):
        func = func.func
    return inspect.iscoroutinefunction(func) or inspect.iscoroutinefunction(type(func).__call__)


def renamed(func: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a reward that TRL logs under `name`, wrapping it if its name differs.

    The wrapper keeps the signature, and an async reward stays a coroutine function.
    """
    if callable_name(func) == name:
        return func
    if is_async(func):

        async def call_async(*args: Any, **kwargs: Any) -> Any:
            return await func(*args, **kwargs)

        wrapper: Callable[..., Any] = call_async
    else:

        def call(*args: Any, **kwargs: Any) -> Any:
            return func(*args, **kwargs)

        wrapper = call
    functools.update_wrapper(wrapper, func, assigned=("__module__", "__doc__"), updated=())
    wrapper.__name__ = name
    return wrapper


RewardFunc = Callable[..., Any]


class RewardLoadError(ValueError):
    """A reward cannot be loaded. The message names the file, the line and the fix."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"reward {name}: {message}")
        self.name = name
        self.reason = message


@dataclass(frozen=True, slots=True)
class LoadedReward:
    """Reward function as GRPOTrainer takes it.

    Attributes:
        name: the name in TRL's metrics (`rewards/<name>/mean`).
        func: a callable, or the id or folder of a reward model, which TRL loads itself.
        origin_file: file that defines it, None for a reward model.
        sha256: hash of `source_text`, or of the name for a reward model.
    """

    name: str
    source: str
    weight: float
    func: RewardFunc | str
    origin_file: str | None
    origin_line: int | None
    sha256: str
    source_text: str | None
    params: dict[str, Any] = field(default_factory=dict)


def load_rewards(config: RunConfig) -> list[LoadedReward]:
    """Load every reward of a run.

    Raises:
        RewardLoadError: a reward cannot be found, imported or created.
    """
    return [load() for _, load in each_reward(config)]


def each_reward(config: RunConfig) -> list[tuple[str, Callable[[], LoadedReward]]]:
    """Return each reward's name with a function that loads it, so that one failure does not affect the rest.

    Raises:
        RewardLoadError: the length of `reward_weights` does not match the rewards.
    """
    found: list[tuple[str, Callable[[], LoadedReward]]] = []
    model = config.script.get("reward_model_name_or_path")
    if model:
        name = str(model).rstrip("/").rpartition("/")[2]
        found.append((name, functools.partial(_model, name, str(model), 1.0)))
    names = [str(source) for source in config.script.get("reward_funcs") or ()]
    found += [(name, functools.partial(_script_reward, name, config.cwd)) for name in names]
    found += [(e.name, functools.partial(load_entry, e, config.cwd)) for e in config.section.rewards]
    weights = config.grpo.get("reward_weights")
    if weights is None:
        return found
    if len(weights) != len(found):
        raise RewardLoadError("weights", f"reward_weights has {len(weights)} for {len(found)} rewards")
    return [
        (name, functools.partial(_weighted, load, float(weight)))
        for (name, load), weight in zip(found, weights, strict=True)
    ]


def weights_of(config: RunConfig) -> tuple[float, ...]:
    """Return the weight of each reward, in the order of `each_reward`."""
    return tuple(weight for _, weight in each_source(config))


def each_source(config: RunConfig) -> list[tuple[str, float]]:
    """Return source and weight of each reward, in the order of `each_reward`."""
    model = config.script.get("reward_model_name_or_path")
    given = [*([model] if model else []), *(config.script.get("reward_funcs") or ())]
    found = [(str(source), 1.0) for source in given]
    found += [(e.source, 1.0 if e.weight is None else e.weight) for e in config.section.rewards]
    weights = config.grpo.get("reward_weights") or [weight for _, weight in found]
    return [(source, float(weight)) for (source, _), weight in zip(found, weights, strict=False)]


def _weighted(load: Callable[[], LoadedReward], weight: float) -> LoadedReward:
    return replace(load(), weight=weight)


def load_entry(entry: RewardEntry, folder: str | None = None) -> LoadedReward:
    """Load one entry of `grpo_tui.rewards`.

    Args:
        entry: a `file.py:function` source must be absolute.
        folder: folder that dotted paths are imported from.

    Raises:
        RewardLoadError: the reward cannot be found, imported or created.
    """
    weight = 1.0 if entry.weight is None else entry.weight
    parts = split_file_source(entry.source)
    try:
        if parts is not None:
            found = load_from_file(*parts)
        elif entry.source in TRL_NAMES:
            return _from_trl(entry.name, entry.source, entry.params, weight, own_name=entry.name)
        elif ":" in entry.source or _is_dotted(entry.source):
            found = load_dotted(entry.source, folder)
        elif "/" in entry.source or Path(entry.source).is_dir():
            if entry.params:
                raise RewardLoadError(entry.name, f"{entry.source} is a reward model, which takes no params")
            return _model(entry.name, entry.source, weight)
        else:
            raise RewardLoadError(entry.name, _unknown(entry.source, TRL_NAMES))
    except UserCodeError as error:
        raise RewardLoadError(entry.name, str(error)) from error
    func = _made(entry.name, found, entry.params)
    if is_model(func):
        # TRL calls a model differently than a function, so it must stay a model. TRL names it by its config.
        own = str(getattr(getattr(func, "config", None), "_name_or_path", "") or entry.name)
        name = own.rstrip("/").rpartition("/")[2]
        return _described(name, entry.source, weight, func, found, {})
    return _described(entry.name, entry.source, weight, renamed(func, entry.name), found, entry.params)


def _script_reward(source: str, folder: str) -> LoadedReward:
    """Load one name of `reward_funcs` as TRL's script does: one of its own names, or a dotted path."""
    if source in SCRIPT_NAMES:
        return _from_trl(source, source, SCRIPT_NAMES[source] or {}, 1.0, own_name=None)
    if "." not in source:
        raise RewardLoadError(source, _unknown(source, tuple(SCRIPT_NAMES)))
    if split_file_source(source) is not None:
        raise RewardLoadError(
            source, f"reward_funcs takes names and dotted paths; put source: {source} under grpo_tui.rewards"
        )
    try:
        found = load_dotted(source, folder)
    except UserCodeError as error:
        raise RewardLoadError(source, str(error)) from error
    if not callable(found) or inspect.isclass(found):
        raise RewardLoadError(
            source,
            f"{source} is {_what(found)}; reward_funcs takes functions. Put a class with params under "
            "grpo_tui.rewards",
        )
    return _described(callable_name(found), source, 1.0, found, found, {})


def _from_trl(
    label: str, source: str, params: Mapping[str, Any], weight: float, own_name: str | None
) -> LoadedReward:
    try:
        found = getattr(importlib.import_module("trl.rewards"), source)
    except (ImportError, AttributeError) as error:
        raise RewardLoadError(label, f"the installed TRL cannot give {source}: {error}") from error
    func = found
    if source in FACTORIES:
        func = _call(label, found, params)
    elif params:
        func = functools.partial(found, **params)
    name = callable_name(func)
    if own_name is not None and own_name not in (source, name):
        name, func = own_name, renamed(func, own_name)
    return _described(name, source, weight, func, found, dict(params))


def _made(name: str, found: Any, params: Mapping[str, Any]) -> RewardFunc:
    if inspect.isclass(found):
        made = _call(name, found, params)
        if not callable(made):
            raise RewardLoadError(
                name, f"the class {found.__name__} has no __call__, so it cannot score completions"
            )
        return made
    if not callable(found):
        raise RewardLoadError(name, f"its source is {_what(found)}, not a function or a class")
    if not params:
        return found
    if is_model(found):
        raise RewardLoadError(name, "its source is a reward model, which takes no params")
    _require_parameters(name, found, params)
    bound = functools.partial(found, **params)
    bound.__name__ = callable_name(found)  # type: ignore[attr-defined]
    return bound


def _call(name: str, maker: Callable[..., Any], params: Mapping[str, Any]) -> Any:
    """Call a class or factory with its params, and name a parameter that does not fit."""
    _require_parameters(name, maker, params)
    try:
        inspect.signature(maker).bind(**params)
    except TypeError as error:
        raise RewardLoadError(name, f"params do not fit {_signature(maker)}: {error}") from error
    try:
        return maker(**params)
    except Exception as error:
        raise RewardLoadError(
            name, f"{callable_name(maker)}(…) failed: {type(error).__name__}: {error}"
        ) from error


def _require_parameters(name: str, target: Callable[..., Any], params: Mapping[str, Any]) -> None:
    known = inspect.signature(target).parameters
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in known.values()):
        return
    for key in params:
        if key not in known:
            near = nearest(key, known)
            hint = f"; did you mean {near}?" if near else ""
            raise RewardLoadError(name, f"{_signature(target)} has no parameter {key}{hint}")


def _model(name: str, source: str, weight: float) -> LoadedReward:
    digest = hashlib.sha256(source.encode()).hexdigest()
    return LoadedReward(name, source, weight, source, None, None, digest, None)


def _described(
    name: str, source: str, weight: float, func: RewardFunc, definition: Any, params: dict[str, Any]
) -> LoadedReward:
    target = definition
    while isinstance(target, functools.partial):
        target = target.func
    if not (inspect.isfunction(target) or inspect.isclass(target) or inspect.ismethod(target)):
        target = type(target)
    target = inspect.unwrap(target)
    file, line, text = None, None, None
    try:
        file = inspect.getsourcefile(target)
        line = inspect.getsourcelines(target)[1] or 1
        text = Path(file).read_text(encoding="utf-8") if file else None
    except (OSError, TypeError, UnicodeDecodeError):
        pass  # built in, or created at run time
    digest = hashlib.sha256((text if text is not None else repr(definition)).encode()).hexdigest()
    return LoadedReward(name, source, weight, func, file, line, digest, text, params)


def is_model(found: Any) -> bool:
    """Return whether TRL treats it as a reward model: an instance of torch's Module."""
    torch = sys.modules.get("torch")  # without torch there is no such instance
    return torch is not None and isinstance(found, torch.nn.Module)


def _is_dotted(source: str) -> bool:
    parts = source.split(".")
    return len(parts) > 1 and all(part.isidentifier() for part in parts)


def _unknown(source: str, known: tuple[str, ...]) -> str:
    near = nearest(source, known)
    hint = f" Did you mean {near}?" if near else f" TRL knows {', '.join(known)}."
    own = "Your own is written package.module.function or file.py:function"
    return f"there is no reward called {source}.{hint} {own}"


def _signature(target: Callable[..., Any]) -> str:
    return f"{callable_name(target)}{inspect.signature(target)}"


def _what(value: Any) -> str:
    return f"the class {value.__name__}" if inspect.isclass(value) else f"of type {type(value).__name__}"
