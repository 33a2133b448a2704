"""Open a file at a line in the person's own editor, and come back to the screen when it ends."""

from __future__ import annotations

import contextlib
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

USUAL = ("nano", "vim", "vi")
"""Tried in this order where neither VISUAL nor EDITOR says more."""
WITH_COLON = ("hx", "helix", "micro", "kak", "subl", "zed", "lapce")
"""Editors that take `file:line`."""
WITH_GOTO = ("code", "codium", "code-insiders", "cursor", "windsurf")
"""Editors that take `--goto file:line`."""


def editor_command(environment: Mapping[str, str], file: Path, line: int | None) -> list[str] | None:
    """The words that open a file at a line; None when there is no editor."""
    chosen = environment.get("VISUAL") or environment.get("EDITOR")
    if chosen:
        try:
            words = shlex.split(chosen)
        except ValueError:
            words = [chosen]
    else:
        words = [found for found in USUAL if shutil.which(found)][:1]
    if not words:
        return None
    name = Path(words[0]).name
    if line is None:
        return [*words, str(file)]
    if name in WITH_GOTO:
        return [*words, "--goto", f"{file}:{line}"]
    return [*words, f"{file}:{line}"] if name in WITH_COLON else [*words, f"+{line}", str(file)]


def edit(words: list[str]) -> str:
    """Run an editor on the terminal, which must have been given back; returns what went wrong, or nothing."""
    try:
        with _signals_to_the_editor():
            code = subprocess.run(words, check=False).returncode
    except OSError as error:
        return f"{words[0]} cannot be started: {error.strerror}. Set EDITOR to an installed editor"
    return f"{words[0]} ended with exit code {code}" if code else ""


@contextlib.contextmanager
def _signals_to_the_editor() -> Iterator[None]:
    """Ctrl+C is the editor's alone, and ctrl+z stops this process with it, for the shell to take over."""
    number = signal.SIGINT, signal.SIGTSTP, signal.SIGCONT
    before = {n: signal.getsignal(n) for n in number}
    signal.signal(signal.SIGINT, _nothing)
    signal.signal(signal.SIGTSTP, signal.SIG_DFL)
    signal.signal(signal.SIGCONT, signal.SIG_DFL)
    try:
        yield
    finally:
        for n, handler in before.items():
            if handler is not None:
                signal.signal(n, handler)


def _nothing(number: int, frame: object) -> None:
    """Unlike ignoring it, this is not handed on to the editor."""
