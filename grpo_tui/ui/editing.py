"""Open a file in the user's editor at a line, and return to the screen afterwards."""

from __future__ import annotations

import contextlib
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

USUAL = ("nano", "vim", "vi")
"""Tried in this order when neither VISUAL nor EDITOR is set."""
WITH_COLON = ("hx", "helix", "micro", "kak", "subl", "zed", "lapce")
"""Editors that take `file:line`."""
WITH_GOTO = ("code", "codium", "code-insiders", "cursor", "windsurf")
"""Editors that take `--goto file:line`."""


def editor_command(environment: Mapping[str, str], file: Path, line: int | None) -> list[str] | None:
    """Return the command that opens a file at a line; None when no editor is found."""
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
    """Run an editor and return an error sentence or "". The app must have released the terminal."""
    try:
        with _signals_to_the_editor():
            code = subprocess.run(words, check=False).returncode
    except OSError as error:
        return f"{words[0]} cannot be started: {error.strerror}. Set EDITOR to an installed editor"
    return f"{words[0]} ended with exit code {code}" if code else ""


@contextlib.contextmanager
def _signals_to_the_editor() -> Iterator[None]:
    """Leave ctrl+c to the editor, and let ctrl+z stop this process too so that the shell takes over."""
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
    """A handler, unlike SIG_IGN, is not inherited by the editor."""
