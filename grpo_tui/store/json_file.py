"""Small JSON files of a run folder: written whole or not at all, and read without ever raising.

Others may have put anything under these names. Knows files and JSON, not what the files say.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import threading
from pathlib import Path
from typing import Any

LARGEST_BYTES = 1 << 26
"""A file beyond it is none of ours."""


def write_json(path: Path, body: Any, *, indent: int | None = None, mode: int = 0o644) -> None:
    """Write the file beside and rename it.

    Raises:
        OSError: The folder is gone, full, or not ours to write; nothing is left of the attempt then.
    """
    text = json.dumps(body, ensure_ascii=False, default=str, indent=indent)
    beside = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.new")
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, mode)
        with os.fdopen(descriptor, "wb") as file:
            # A lone surrogate, as of a file name that is no UTF-8, becomes the escape that JSON has for it.
            file.write(text.encode("utf-8", "backslashreplace"))
        os.replace(beside, path)
    except OSError:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
        raise


def unfinished(path: Path) -> list[Path]:
    """What writes of this file that were cut off have left beside it."""
    return list(path.parent.glob(f".{path.name}.*.new"))


def read_json(path: Path) -> Any:
    """What the file says; None when there is none, it cannot be read, or it is no JSON."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > LARGEST_BYTES:
            return None  # a pipe would be waited for
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None


def read_object(path: Path) -> dict[str, Any] | None:
    """The file's names and values; None when it holds none."""
    body = read_json(path)
    return body if isinstance(body, dict) else None
