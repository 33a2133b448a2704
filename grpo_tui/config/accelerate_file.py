"""What a launcher's command line says: how many ranks, and how they share a model."""

from __future__ import annotations

import ast
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from grpo_tui.config.trl_fields import FieldsUnavailableError, parse_source

COUNTS = ("--num_processes", "--num-processes", "--nproc_per_node", "--nproc-per-node")
MACHINES = ("--num_machines", "--num-machines", "--nnodes")
PORTS = ("--main_process_port", "--main-process-port", "--master_port", "--master-port")
_FILE = ("--config_file", "--config-file")
_KINDS = {
    "--multi_gpu": "MULTI_GPU",
    "--tpu": "XLA",
    "--use_fsdp": "FSDP",
    "--use_megatron_lm": "MEGATRON_LM",
}
_PARSERS = {
    "accelerate": ("accelerate", "commands/launch.py"),
    "torchrun": ("torch", "distributed/run.py"),
}
_BARE = ("store_true", "store_false", "store_const", "count", "help", "version", "check_env")


class AccelerateFileError(ValueError):
    """The launcher's config file cannot be read."""


def accelerate_settings(words: Sequence[str]) -> dict[str, Any] | None:
    """Return accelerate's config file with the command line options applied, None when both are empty.

    Without `--config_file`, accelerate reads the file that `accelerate config` has written, if there is one.

    Args:
        words: Command line of the launcher, such as `accelerate launch --config_file zero3.yaml`.

    Raises:
        AccelerateFileError: The file cannot be read.
    """
    named = option_value(words, _FILE)
    path = Path(named) if named else _default_file(words)
    body = _read(path) if path is not None else {}
    if "--use_deepspeed" in words or "--use-deepspeed" in words:
        inner = dict(body.get("deepspeed_config") or {})
        for name in (
            "zero_stage",
            "deepspeed_config_file",
            "offload_optimizer_device",
            "offload_param_device",
        ):
            value = option_value(words, (f"--{name}", f"--{name.replace('_', '-')}"))
            if value is not None:
                inner[name] = int(value) if value.isdigit() else value
        body |= {"distributed_type": "DEEPSPEED", "deepspeed_config": inner}
    else:  # these win over the file
        for flag, kind in _KINDS.items():
            if flag in (underscored(word) for word in words):
                body |= {"distributed_type": kind}
    return body or None


def _default_file(words: Sequence[str]) -> Path | None:
    caches = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    home = Path(os.environ.get("HF_HOME", f"{caches}/huggingface")).expanduser()
    path = home / "accelerate/default_config.yaml"
    reads = words and words[0] == "accelerate" and "--cpu" not in words
    return path if reads and path.is_file() else None


def ranks_of(words: Sequence[str]) -> int | None:
    """Return the number of ranks: 1 without a launcher, None when its command line does not say.

    `torchrun` also takes it from the environment.

    Raises:
        AccelerateFileError: The launcher's config file cannot be read.
    """
    if not words:
        return 1
    text = option_value(words, COUNTS)
    if text is None and words[0] == "torchrun":
        text = os.environ.get("PET_NPROC_PER_NODE")
    if text is not None:
        return int(text) if text.isdigit() else None
    count = (accelerate_settings(words) or {}).get("num_processes")
    return count if isinstance(count, int) else None


def spans_machines(words: Sequence[str]) -> bool:
    """Return whether the ranks run on several machines.

    Raises:
        AccelerateFileError: The launcher's config file cannot be read.
    """
    file = accelerate_settings(words) or {}
    named = option_value(words, MACHINES)
    if named is None and list(words[:1]) == ["torchrun"]:
        named = os.environ.get("PET_NNODES")
    return named not in ("1", "1:1") if named is not None else file.get("num_machines", 1) != 1


def meeting_port(words: Sequence[str]) -> int | None:
    """Return the port that the command line or accelerate's config names for the ranks to meet.

    Raises:
        AccelerateFileError: The launcher's config file cannot be read.
    """
    named = str(option_value(words, PORTS) or (accelerate_settings(words) or {}).get("main_process_port"))
    return int(named) if named.isdigit() else None


def on_a_port(words: Sequence[str], port: int) -> tuple[str, ...]:
    """Return the command line with a port of its own for the ranks to meet, unless it says where they meet.

    Without one, accelerate and older versions of torchrun take the same port for every run of a machine.
    """
    try:
        other = words[0] not in ("accelerate", "torchrun")  # such as a test's own command
        named = other or ranks_of(words) == 1 or spans_machines(words) or meeting_port(words) is not None
    except AccelerateFileError:
        return tuple(words)
    # torch's launcher, which accelerate uses too, takes its options from the environment as well.
    given = [*map(underscored, words), *(f"--{n[4:].lower()}" for n in os.environ if n.startswith("PET_"))]
    if named or any(name.startswith(("--rdzv", "--master", "--standalone")) for name in given):
        return tuple(words)
    if words[0] == "torchrun":
        return (words[0], "--standalone", *words[1:])
    return (*words[:2], PORTS[0], str(port), *words[2:])


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a launcher. `whole` means that its value is an integer."""

    takes_value: bool
    whole: bool = False
    choices: tuple[str, ...] = ()


@lru_cache(maxsize=2)
def options_of(launcher: str) -> Mapping[str, Option]:
    """Return the options of `accelerate launch` or `torchrun`, parsed from the installed source.

    Names are spelled with underscores. Empty when the launcher is not installed or its source is not as
    expected.
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
    """Return an option's name with underscores: `--num-processes` becomes `--num_processes`."""
    return "--" + word[2:].replace("-", "_") if word.startswith("--") else word


def option_value(words: Sequence[str], names: Sequence[str]) -> str | None:
    """Return the value of the last of these options, None without one or for an option at the end."""
    for position in reversed(range(len(words))):
        name, equals, value = words[position].partition("=")
        if name in names:
            return value if equals else words[position + 1] if position + 1 < len(words) else None
    return None


def _read(path: Path) -> dict[str, Any]:
    try:
        body: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise AccelerateFileError(f"accelerate's config {path} cannot be read: {error}") from error
    return dict(body) if isinstance(body, dict) else {}
