"""Read the files of a run folder, in which others may have put anything, and write small JSON files there.

A file is read only when it is a regular file of that very folder: a link may lead anywhere, a pipe is waited
for, a device never ends. JSON is written whole or not at all, and read without ever raising.
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
"""A file beyond it is none of ours."""
NOT_REGULAR = frozenset({errno.ELOOP, errno.ENXIO, errno.ENOTDIR, errno.EISDIR})
"""How the system refuses to open a link, a pipe without a reader, or a folder."""


def write_json(path: Path, body: Any, *, indent: int | None = None, mode: int = 0o644) -> None:
    """Write the file beside and rename it.

    Raises:
        OSError: The folder is gone, full, or not ours to write; nothing is left of the attempt then.
    """
    text = dumps(body, ensure_ascii=False, default=str, indent=indent)
    # A lone surrogate, as of a file name that is not UTF-8, becomes the escape that JSON has for it.
    write_bytes(path, text.encode("utf-8", "backslashreplace"), mode=mode)


def write_bytes(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Write the file beside and rename it; raises as `write_json`."""
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
    """What writes of this file that were cut off have left beside it."""
    return list(path.parent.glob(f".{path.name}.*.new"))


def open_regular(path: Path, *, below: Path | None = None) -> BinaryIO:
    """Open a file for reading, without waiting and without following a link.

    Args:
        path: The file.
        below: The run folder; what comes after it in the path may be no link either. By default the
            folder of the file.

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
    """Return the file of a descriptor; close the descriptor of anything but a regular file."""
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise not_regular(path)
    return os.fdopen(descriptor, mode)


def not_regular(path: Path) -> OSError:
    """Return the refusal of a link, a pipe, a device or a folder under a file's name."""
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
    """Open a file to write at its end, made when it is missing; others cannot write it, whatever the umask.

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


def read_json(path: Path, *, below: Path | None = None, largest: int = LARGEST_BYTES) -> Any:
    """Return what the file says; None when there is none, it cannot be read, or it is not JSON."""
    try:
        return loads(read_regular(path, below=below, largest=largest))
    except (OSError, ValueError, RecursionError):
        return None


def read_object(
    path: Path, *, below: Path | None = None, largest: int = LARGEST_BYTES
) -> dict[str, Any] | None:
    """Return the file's names and values; None when it holds none."""
    body = read_json(path, below=below, largest=largest)
    return body if isinstance(body, dict) else None
