"""`grpo-tui log RUN`: print and follow the output of a run.

On a terminal, lines have time and level and are safe to show. In a pipe, they are unchanged.
"""

from __future__ import annotations

import re
import sys
import time
from collections import deque
from typing import Any

from grpo_tui.cli.errors import OK, CommandError
from grpo_tui.cli.look import run_folder
from grpo_tui.core.text import one_line
from grpo_tui.present.formatting import clock, date
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.log_lines import LogReader, StoredLine
from grpo_tui.store.status import ENDED, read_status

POLL_S = 0.3
INTERRUPTED = 130
SIGNS = {"error": "E ", "warning": "W "}


def log(parsed: Any) -> int:
    """Print the log. Exit 0 even when nothing matches."""
    folder = RunFolder(run_folder(parsed.run))
    pattern = _pattern(parsed.regex)
    reader = LogReader(folder.database)
    query = {"level": parsed.level, "words": parsed.search or "", "pattern": pattern}
    seen = _newest(reader)
    lines = reader.lines(**query, last=seen)
    for line in lines if parsed.tail is None else deque(lines, maxlen=parsed.tail):
        _print(line)
    try:
        if parsed.follow:
            _follow(folder, reader, query, seen)
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        reader.close()
    return OK


def _follow(folder: RunFolder, reader: LogReader, query: dict[str, Any], seen: int) -> None:
    """Print new lines until the run ends. The last line may change, so it is printed after the next one."""
    while True:
        ended = read_status(folder.root).state in ENDED  # read before the lines, so that none is missed
        newest = _newest(reader) - (0 if ended else 1)
        for line in reader.lines(**query, after=seen, last=newest):
            _print(line)
        seen = max(seen, newest)
        if ended:
            return
        sys.stdout.flush()
        time.sleep(POLL_S)


def _newest(reader: LogReader) -> int:
    found = reader.page(newest=True, limit=1, piece=1)
    return found[0].id if found else 0


def _print(line: StoredLine) -> None:
    if sys.stdout.isatty():
        when = f"{date(line.at)} {clock(line.at)}"
        print(f"{when}  {SIGNS.get(line.level, '  ')}{one_line(line.text)}")
    else:
        print(line.text)


def _pattern(text: str | None) -> re.Pattern[str] | None:
    try:
        return None if text is None else re.compile(text)
    except re.error as error:
        raise CommandError(f"--regex {text!r}: {error}") from error
