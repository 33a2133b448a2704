"""What the words of a launcher say: how many ranks, and how they share a model, by switches and config file.

Reads one YAML file; starts nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from grpo_tui.config.trl_fields import FieldsUnavailableError, parse_source

COUNTS = ("--num_processes", "--num-processes", "--nproc_per_node", "--nproc-per-node")
MACHINES = ("--num_machines", "--num-machines", "--nnodes")
_FILE = ("--config_file", "--config-file")
_PARSERS = {
    "accelerate": ("accelerate", "commands/launch.py"),
    "torchrun": ("torch", "distributed/run.py"),
}
_BARE = ("store_true", "store_false", "store_const", "count", "help", "version", "check_env")


class AccelerateFileError(ValueError):
    """The config file that a launcher is given cannot be read."""


def accelerate_settings(words: Sequence[str]) -> dict[str, Any] | None:
    """The body of accelerate's config file with what the switches change in it; None when nothing is said.

    Args:
        words: Those of the launcher, such as `accelerate launch --config_file zero3.yaml`.

    Raises:
        AccelerateFileError: The file cannot be read.
    """
    path = _value(words, _FILE)
    body = _read(Path(path)) if path else {}
    if "--use_deepspeed" in words or "--use-deepspeed" in words:
        inner = dict(body.get("deepspeed_config") or {})
        for name in (
            "zero_stage",
            "deepspeed_config_file",
            "offload_optimizer_device",
            "offload_param_device",
        ):
            value = _value(words, (f"--{name}", f"--{name.replace('_', '-')}"))
            if value is not None:
                inner[name] = int(value) if value.isdigit() else value
        body |= {"distributed_type": "DEEPSPEED", "deepspeed_config": inner}
    elif "--use_fsdp" in words or "--use-fsdp" in words:
        body |= {"distributed_type": "FSDP"}
    return body or None


def ranks_of(words: Sequence[str]) -> int | None:
    """How many ranks a launcher starts: 1 without one, None when its words do not say.

    Raises:
        AccelerateFileError: Its config file cannot be read.
    """
    if not words:
        return 1
    text = _value(words, COUNTS)
    if text is not None:
        return int(text) if text.isdigit() else None
    count = (accelerate_settings(words) or {}).get("num_processes")
    return count if isinstance(count, int) else None


def spans_machines(words: Sequence[str]) -> bool:
    """Whether the ranks are on several machines, so that those of this one are not all.

    Raises:
        AccelerateFileError: Its config file cannot be read.
    """
    file = accelerate_settings(words) or {}
    return any(word.partition("=")[0] in MACHINES for word in words) or file.get("num_machines", 1) != 1


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a launcher: whether a value follows, whether it is a whole number, what it may be."""

    takes_value: bool
    whole: bool = False
    choices: tuple[str, ...] = ()


@lru_cache(maxsize=2)
def options_of(launcher: str) -> Mapping[str, Option]:
    """Return the options of `accelerate launch` or `torchrun`, read from the source of the installed one.

    Names have underscores. A launcher that is not installed, or is written otherwise, has none.
    """
    try:
        tree = parse_source(*_PARSERS[launcher])
    except (KeyError, FieldsUnavailableError):
        return {}
    found: dict[str, Option] = {}
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument"):
            continue
        given = {keyword.arg: keyword.value for keyword in node.keywords}
        action = given.get("action")
        named = getattr(action, "value", None) or getattr(action, "id", None)
        choices = given.get("choices")
        listed = [item.value for item in getattr(choices, "elts", ()) if isinstance(item, ast.Constant)]
        whole = getattr(given.get("type"), "id", "") == "int"
        option = Option(named not in _BARE, whole, tuple(map(str, listed)))
        for argument in node.args:
            if isinstance(argument, ast.Constant) and str(argument.value).startswith("-"):
                found[underscored(str(argument.value))] = option
    return found


def underscored(word: str) -> str:
    """Return an option's name as this module's tables have it: `--num-processes` as `--num_processes`."""
    return "--" + word[2:].replace("-", "_") if word.startswith("--") else word


def _value(words: Sequence[str], names: Sequence[str]) -> str | None:
    for position, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in names:
            return value if equals else words[position + 1] if position + 1 < len(words) else None
    return None


def _read(path: Path) -> dict[str, Any]:
    try:
        body: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise AccelerateFileError(f"accelerate's config {path} cannot be read: {error}") from error
    return dict(body) if isinstance(body, dict) else {}
