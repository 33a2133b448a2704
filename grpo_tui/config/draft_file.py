"""Read and write config files without losing anything.

A file is written next to the target, synced, and renamed over it. Symbolic links and the file's mode are
kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import stat
from pathlib import Path

from grpo_tui.config.document import MOST_BYTES


class DraftFileError(ValueError):
    """The file cannot be read as text, or cannot be written."""


def read_text(path: Path) -> tuple[str, str]:
    """Return the text of a file and its hash. Line endings and byte order mark are kept.

    Raises:
        DraftFileError: The file is missing, too large, not a regular file, or not UTF-8.
    """
    try:
        with path.open("rb") as opened:
            content = opened.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise DraftFileError(f"{path} is larger than {MOST_BYTES // 1_000_000} MB, too big for a config")
        return content.decode("utf-8"), digest(content)
    except UnicodeDecodeError as error:
        raise DraftFileError(f"{path} is not UTF-8 text (byte {error.start})") from error
    except FileNotFoundError as error:
        raise DraftFileError(f"{path}: no such file") from error
    except OSError as error:
        raise DraftFileError(f"{path} cannot be read: {error.strerror}") from error


def digest(content: bytes) -> str:
    """Return the hash that detects changes of a file."""
    return hashlib.sha256(content).hexdigest()


def hash_on_disk(path: Path) -> str | None:
    """Return the current hash of a file, None if it is missing or unreadable."""
    try:
        return digest(path.read_bytes())
    except OSError:
        return None


def write_text(path: Path, text: str) -> str:
    """Write a file atomically and return the hash of its content.

    Raises:
        DraftFileError: The folder is missing or cannot be written, or the text cannot be encoded.
    """
    target = path.resolve()  # keep a symbolic link and write to its target
    try:
        content = text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise DraftFileError(f"a character at {error.start} cannot be written as UTF-8") from error
    there = _status(target)
    if there is not None and not there.st_mode & 0o222:
        raise DraftFileError(f"{path} is write-protected. Change its mode, or save under another name")
    beside = target.with_name(f".{target.name}.{os.getpid()}.{secrets.token_hex(4)}.new")
    try:
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    except OSError as error:
        raise DraftFileError(f"cannot write to {target.parent}: {error.strerror}") from error
    try:
        with os.fdopen(handle, "wb") as opened:
            opened.write(content)
            opened.flush()
            if there is not None:
                _keep_owner_and_mode(opened.fileno(), there)
            os.fsync(opened.fileno())
        os.replace(beside, target)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise DraftFileError(f"{path} cannot be written: {error.strerror}") from error
    _settle(target.parent)
    return digest(content)


def _status(target: Path) -> os.stat_result | None:
    try:
        return target.stat()
    except OSError:
        return None


def _keep_owner_and_mode(handle: int, there: os.stat_result) -> None:
    """Copy mode and, where permitted, owner of the old file."""
    mine = os.fstat(handle)
    if (mine.st_uid, mine.st_gid) != (there.st_uid, there.st_gid):
        with contextlib.suppress(OSError):
            os.fchown(handle, there.st_uid, there.st_gid)
    os.fchmod(handle, stat.S_IMODE(there.st_mode))


def _settle(folder: Path) -> None:
    """Sync the rename to disk, on file systems that support it."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        with contextlib.suppress(OSError):
            os.fsync(handle)
    finally:
        os.close(handle)
