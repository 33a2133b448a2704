"""Folders of completions that TRL or verl logged, in the place of a run folder: read, never steered.

Knows the importers of the store and how a command finds its run.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from grpo_tui.cli.errors import CommandError
from grpo_tui.core.text import one_line
from grpo_tui.store.importers import LogFolderError, Source, find_sources, follow, opened, source_at
from grpo_tui.store.layout import RunFolder

NAMES = {"trl": "TRL", "verl": "verl"}


def log_source(path: Path) -> Source | None:
    """The logged completions that a folder holds: its own, or those of the one folder below it that has any.

    Raises:
        CommandError: Several folders below it have.
    """
    if not path.is_dir() or RunFolder(path).exists():
        return None
    own = source_at(path)
    if own is not None:
        return own
    found = find_sources([path])
    if len(found) > 1:
        names = ", ".join(one_line(str(source.root.relative_to(path.absolute())), 60) for source in found[:4])
        more = f" and {len(found) - 4} more" if len(found) > 4 else ""
        raise CommandError(
            f"{path}: several folders of logged completions are in it: {names}{more}; name one"
        )
    return found[0] if found else None


def copied(source: Source) -> Path:
    """The run folder of the copy of logged completions, brought up to date.

    Raises:
        CommandError: They cannot be read.
    """
    try:
        return opened(source)
    except LogFolderError as error:
        raise CommandError(str(error)) from error


@contextmanager
def followed(source: Source) -> Iterator[Path]:
    """As `copied`, and kept up to date until the end; says on stderr what it is that one looks at.

    Raises:
        CommandError: They cannot be read.
    """
    try:
        with follow(source) as root:
            print(f"grpo-tui: {what_it_is(source)}; read-only", file=sys.stderr)
            yield root
    except LogFolderError as error:
        raise CommandError(str(error)) from error


def what_it_is(source: Source) -> str:
    """A sentence without its end, such as `completions that TRL logged in DIR`."""
    return f"completions that {NAMES[source.kind]} logged in {one_line(str(source.folder))}"


def list_logs(roots: Sequence[Path]) -> list[tuple[Source, int]]:
    """Folders of logged completions under some roots, with the newest step of each."""
    found = [(source, source.files()) for source in find_sources(roots)]
    return [(source, files[-1][0]) for source, files in found if files]
