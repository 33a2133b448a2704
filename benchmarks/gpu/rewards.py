"""The rewards of the GPU checks: one that scores, one that tells its thread, one that hangs when asked.

Each takes the batch as TRL hands it over. They know nothing of the program under test.
"""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from pathlib import Path
from typing import Any

NUMBER = re.compile(r"-?\d+")


def right(completions: list[Any], answer: list[str], **kwargs: Any) -> list[float]:
    """1 where the last number of a completion is the answer, else 0."""
    found = [NUMBER.findall(completion[-1]["content"]) for completion in completions]
    return [float(bool(n) and n[-1] == gold) for n, gold in zip(found, answer, strict=True)]


def in_main_thread(completions: list[Any], **kwargs: Any) -> list[float]:
    """1 in the main thread, where a math parser's SIGALRM works, else 0."""
    try:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
    except ValueError:
        return [0.0] * len(completions)
    return [float(threading.current_thread() is threading.main_thread())] * len(completions)


def patient(completions: list[Any], hang_file: str, hang_rank: int, **kwargs: Any) -> list[float]:
    """0.5, after hanging once on one rank if a file asks for it; the file is gone when the hang begins."""
    flag = Path(hang_file)
    if int(os.environ.get("RANK", "0")) == hang_rank and flag.exists():
        flag.unlink()
        time.sleep(1000)
    return [0.5] * len(completions)
