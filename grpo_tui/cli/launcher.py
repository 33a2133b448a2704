"""Read `--launcher`: the words that start the ranks, and how many ranks they start.

Knows the flags of `accelerate launch` and `torchrun`; everything else they take is passed on unread.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import yaml

from grpo_tui.cli.errors import CommandError

KNOWN = (("accelerate", "launch"), ("torchrun",))
COUNTS = ("--num_processes", "--num-processes", "--nproc_per_node", "--nproc-per-node")
MACHINES = ("--num_machines", "--num-machines", "--nnodes")


def launcher_words(text: str | None) -> tuple[str, ...]:
    """The words of `--launcher`, none when it was not given.

    Raises:
        CommandError: It is no launcher the program knows.
    """
    if text is None:
        return ()
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise CommandError(f"--launcher {text}: {error}") from error
    if not any(words[: len(known)] == known for known in KNOWN):
        raise CommandError(f'--launcher {text}: write it as "accelerate launch …" or "torchrun …"')
    return words


def world_size(words: tuple[str, ...]) -> int | None:
    """How many ranks a launcher starts: 1 without one, None when its words do not say."""
    if not words:
        return 1
    for position, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in COUNTS:
            text = value if equals else words[position + 1] if position + 1 < len(words) else ""
            return int(text) if text.isdigit() else None
        if name in ("--config_file", "--config-file"):
            return _from_file(Path(value if equals else words[position + 1]))
    return None


def accelerate_config(words: tuple[str, ...]) -> dict[str, Any] | None:
    """The body of the config file that a launcher is given, None without one."""
    for position, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in ("--config_file", "--config-file") and (equals or position + 1 < len(words)):
            return _body(Path(value if equals else words[position + 1]))
    return None


def spans_machines(words: tuple[str, ...]) -> bool:
    """Whether the ranks are on several machines, so that those of this one are not all."""
    file = accelerate_config(words) or {}
    return any(word.partition("=")[0] in MACHINES for word in words) or file.get("num_machines", 1) != 1


def _from_file(path: Path) -> int | None:
    count = _body(path).get("num_processes")
    return count if isinstance(count, int) else None


def _body(path: Path) -> dict[str, Any]:
    try:
        body: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise CommandError(f"--launcher: accelerate's config {path} cannot be read: {error}") from error
    return body if isinstance(body, dict) else {}
