"""A config's rewards as lines of a script: the person's files loaded by path, TRL's imported, ours copied.

It reads files to see what a name in them is, and runs none.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from grpo_tui.config.export_text import Script, call, literal
from grpo_tui.config.paths import split_file_source
from grpo_tui.config.run_config import RunConfig
from grpo_tui.config.trl_rewards import FACTORIES, SCRIPT_NAMES, TRL_NAMES

LIBRARY = "grpo_tui.rewards.library"
_WRAPPERS = ("AdaptiveWeight", "Clip", "Gate", "ScheduledWeight")
_INNER = ("reward", "when")

MADE = '''
def made(found, **params):
    """A class is made with its parameters; a function keeps them for its calls."""
    if inspect.isclass(found):
        return found(**params)
    return functools.partial(found, **params) if params else found
'''

RENAMED = '''
def renamed(reward, name):
    """A reward under the name that TRL is to log it by."""
    if inspect.iscoroutinefunction(reward) or inspect.iscoroutinefunction(type(reward).__call__):

        async def call(**kwargs):
            return await reward(**kwargs)

    else:

        def call(**kwargs):
            return reward(**kwargs)

    call.__name__ = name
    return call
'''


def add_rewards(script: Script, config: RunConfig) -> None:
    """Add the function `rewards`, and all that it needs."""
    lines = []
    model = config.script.get("reward_model_name_or_path")
    if model:
        lines.append(literal(str(model)))
    lines += [
        _from_script(script, str(source), config.cwd) for source in config.script.get("reward_funcs") or ()
    ]
    for entry in config.section.rewards:
        lines.append(_reward(script, entry.name, entry.source, entry.params, config.cwd))
    script.function(
        "def rewards():\n"
        '    """The reward functions, in TRL\'s order."""\n'
        "    return [\n" + "".join(f"        {line},\n" for line in lines) + "    ]"
    )


def _from_script(script: Script, source: str, cwd: str) -> str:
    """One name of `reward_funcs`, by the rules of TRL's own script."""
    if source not in SCRIPT_NAMES:
        return _imported(script, source, cwd)
    script.imports.add(("trl.rewards", source))
    params = SCRIPT_NAMES[source]
    return source if params is None else call(source, params)


def _reward(script: Script, name: str, source: str, params: Mapping[str, Any], cwd: str) -> str:
    parts = split_file_source(source)
    if parts is not None:
        found, own = _from_file(script, *parts, params)
    elif source in TRL_NAMES:
        script.imports.add(("trl.rewards", source))
        found, own = call(source, params) if source in FACTORIES else _with(script, source, params), source
    elif source.replace(":", ".").startswith(LIBRARY + "."):
        found, own = _from_library(script, source.replace(":", "."), params, cwd), None
    elif ":" in source or ("." in source and "/" not in source):
        script.need(MADE, "inspect", "functools")
        found, own = call("made", params, _imported(script, source.replace(":", "."), cwd)), None
    else:
        return literal(source)  # a reward model, which TRL loads and names itself
    if own == name:
        return found
    script.need(RENAMED, "inspect")
    return f"renamed({found}, {literal(name)})"


def _from_file(script: Script, file: str, name: str, params: Mapping[str, Any]) -> tuple[str, str | None]:
    """The expression for a name of a person's file, and the name it has by itself if that can be seen."""
    found = script.from_file(file, name)
    kind = _kind(Path(file), name)
    if kind is None:
        script.need(MADE, "inspect", "functools")
        return call("made", params, found), None
    if kind == "class":
        return call(found, params), name
    return _with(script, found, params), name


def _with(script: Script, found: str, params: Mapping[str, Any]) -> str:
    """A function with its params bound."""
    if not params:
        return found
    script.imports.add(("functools", None))
    return call("functools.partial", params, found)


def _from_library(script: Script, dotted: str, params: Mapping[str, Any], cwd: str) -> str:
    name = script.copy(dotted)
    if name not in _WRAPPERS:
        return call(name, params)
    written = {key: literal(value) for key, value in params.items()}
    for key in _INNER:
        inner = params.get(key)
        if isinstance(inner, (str, Mapping)):
            entry = {"source": inner} if isinstance(inner, str) else dict(inner)
            source = str(entry["source"])
            own = str(entry.get("name") or source.rpartition(":")[2].rpartition(".")[2])
            given = entry.get("params")
            inside = dict(given) if isinstance(given, Mapping) else {}
            written[key] = _reward(script, own, source, inside, cwd)
    return f"{name}({', '.join(f'{key}={value}' for key, value in written.items())})"


def _imported(script: Script, dotted: str, cwd: str) -> str:
    """An object of a module: that of the working folder, which TRL puts on the path, or an installed one."""
    module, _, name = dotted.rpartition(".")
    top = module.partition(".")[0]
    if cwd and (Path(cwd, top).is_dir() or Path(cwd, f"{top}.py").is_file()):
        script.path_folders.add(cwd)
    script.imports.add(("importlib", None))
    return f"importlib.import_module({literal(module)}).{name}"


def _kind(file: Path, name: str) -> str | None:
    """Whether a name at the top of a file is a function or a class; None when it cannot be seen."""
    try:
        body = ast.parse(file.read_text(encoding="utf-8")).body
    except (OSError, ValueError, SyntaxError):
        return None
    kinds = {
        node.name: "class" if isinstance(node, ast.ClassDef) else "function"
        for node in body
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and not node.decorator_list
    }
    return kinds.get(name)
