"""Start a run, or resume one that ended: a child process does what `grpo-tui train … --detach` does.

Knows the command and its answer. The screen never imports what starts a training process, nor waits for it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from grpo_tui.core.text import one_line

PATIENCE_S = 120.0
"""So long a start may take before the screen says that it got no answer."""


def resume_run(path: Path) -> tuple[bool, str]:
    """Resume a run and wait until it has started.

    Returns:
        Whether it started, and what the command said, on one line and safe to show.
    """
    return start_run([str(path), "--resume"], "resumed")


def start_run(words: Sequence[str], done_word: str = "started") -> tuple[bool, str]:
    """Start a run by the command and wait until it has started.

    Args:
        words: of `grpo-tui train`, without `--detach`.
        done_word: what is said when the command has nothing to say.

    Returns:
        As `resume_run`.
    """
    words = [sys.executable, "-m", "grpo_tui", "train", *words, "--detach"]
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PATIENCE_S,
            start_new_session=True,  # a hang-up of the terminal must not end a start half way
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False, f"no answer within {PATIENCE_S:.0f} s; `grpo-tui status RUN` tells what became of it"
    except OSError as error:
        return False, one_line(f"it could not be started: {error}", 300)
    said = [line.removeprefix("grpo-tui: ").strip() for line in done.stderr.splitlines() if line.strip()]
    if done.returncode == 0:
        return True, one_line("; ".join(said) or done_word, 300)
    return False, one_line(" ".join(said[-4:]) or f"it ended with exit code {done.returncode}", 400)
