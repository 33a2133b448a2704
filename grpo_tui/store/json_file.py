"""Read files of a run folder safely, and write small JSON files there.

Others may have put anything into the folder. Only a regular file in that folder is read: a link may lead
anywhere, a pipe blocks, a device never ends. JSON is written whole or not at all. Reading JSON never raises.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import threading
from json import dumps, loads
from pathlib import Path
from typing import Any, BinaryIO

LARGEST_BYTES = 1 << 26
NOT_REGULAR = frozenset({errno.ELOOP, errno.ENXIO, errno.ENOTDIR, errno.EISDIR})
"""Errors of the system when the path is a link, a pipe without a reader, or a folder."""


def write_json(path: Path, body: Any, *, indent: int | None = None, mode: int = 0o644) -> None:
    """Replace the file whole: write a new one beside it and rename it.

    Raises:
        OSError: The folder is missing, full, or not writable. No partial file is left.
    """
    text = dumps(body, ensure_ascii=False, default=str, indent=indent)
    # A lone surrogate, from a file name that is not UTF-8, becomes a JSON escape.
    write_bytes(path, text.encode("utf-8", "backslashreplace"), mode=mode)


def write_bytes(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Replace the file whole. Raises as `write_json`."""
    beside = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.new")
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.replace(beside, path)
    except OSError:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
        raise


def unfinished(path: Path) -> list[Path]:
    """Return what interrupted writes of this file left beside it."""
    return list(path.parent.glob(f".{path.name}.*.new"))


def open_regular(path: Path, *, below: Path | None = None) -> BinaryIO:
    """Open a file for reading, without blocking and without following links.

    Args:
        below: No part of the path after this folder may be a link. By default the file's folder.

    Raises:
        OSError: There is no such file, or it is a link, a pipe, a device or a folder.
    """
    below = path.parent if below is None else below
    *folders, name = path.relative_to(below).parts
    at = os.open(below, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in folders:
            flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            outer, at = at, os.open(part, flags, dir_fd=at)
            os.close(outer)
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        descriptor = os.open(name, flags, dir_fd=at)
    except OSError as error:
        raise (not_regular(path) if error.errno in NOT_REGULAR else error) from error
    finally:
        os.close(at)
    return _regular(descriptor, path, "rb")


def _regular(descriptor: int, path: Path, mode: str) -> Any:
    """Open the descriptor as a file. Close it and raise unless it is a regular file."""
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise not_regular(path)
    return os.fdopen(descriptor, mode)


def not_regular(path: Path) -> OSError:
    """Return the error for a link, a pipe, a device or a folder in place of a file."""
    return OSError(errno.EINVAL, "not a regular file. Links, pipes and devices are not read", str(path))


def read_regular(path: Path, *, below: Path | None = None, largest: int = LARGEST_BYTES) -> bytes:
    """Return the content of a regular file; see `open_regular`.

    Raises:
        OSError: It cannot be read, or holds more than `largest` bytes.
    """
    with open_regular(path, below=below) as file:
        data = file.read(largest + 1)
    if len(data) > largest:
        raise OSError(errno.EFBIG, f"more than {largest:,} bytes", str(path))
    return data


def append_regular(path: Path) -> BinaryIO:
    """Open a file for appending; create it if missing. Other users cannot write it, whatever the umask.

    Raises:
        OSError: It cannot be written, or is a link, a pipe, a device or a folder.
    """
    flags = (
        os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    )
    try:
        descriptor = os.open(path, flags, 0o644)
    except OSError as error:
        raise (not_regular(path) if error.errno in NOT_REGULAR else error) from error
    return _regular(descriptor, path, "ab")


def read_object(
    path: Path, *, below: Path | None = None, largest: int = LARGEST_BYTES
) -> dict[str, Any] | None:
    """Return the JSON object in the file; None when it is missing, unreadable or something else."""
    try:
        body = loads(read_regular(path, below=below, largest=largest))
    except (OSError, ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None
