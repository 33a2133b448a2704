"""Read `--launcher`: the words that start the ranks, and how many ranks they start.

Knows the flags of `accelerate launch` and `torchrun`; everything else they take is passed on unread.
"""

from __future__ import annotations

import shlex
from typing import Any

from grpo_tui.cli.errors import CommandError
from grpo_tui.config import accelerate_file
from grpo_tui.config.accelerate_file import AccelerateFileError, accelerate_settings, ranks_of

KNOWN = (("accelerate", "launch"), ("torchrun",))


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
    try:
        return ranks_of(words)
    except AccelerateFileError as error:
        raise CommandError(f"--launcher: {error}") from error


def accelerate_config(words: tuple[str, ...]) -> dict[str, Any] | None:
    """What accelerate's config file and the switches of a launcher say, None when they say nothing.

    Raises:
        CommandError: The file cannot be read.
    """
    try:
        return accelerate_settings(words)
    except AccelerateFileError as error:
        raise CommandError(f"--launcher: {error}") from error


def spans_machines(words: tuple[str, ...]) -> bool:
    """Whether the ranks are on several machines, so that those of this one are not all.

    Raises:
        CommandError: The config file of the launcher cannot be read.
    """
    try:
        return accelerate_file.spans_machines(words)
    except AccelerateFileError as error:
        raise CommandError(f"--launcher: {error}") from error
