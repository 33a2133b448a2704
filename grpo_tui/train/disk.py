"""Know a disk that cannot be written from other failures, and look at the free space before a save.

Knows errno values, the words of the libraries that write checkpoints, and byte counts.
"""

from __future__ import annotations

import errno
import re
import shutil
from pathlib import Path
from typing import Any

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
UNWRITABLE = FULL | {
    errno.EIO, errno.EROFS, errno.EACCES, errno.EPERM, errno.ESTALE, errno.ENOTCONN, errno.ENODEV,
    errno.EREMOTEIO,
}  # fmt: skip
"""Full, or gone for a while as the disk of another machine may be: nothing that training has done wrong."""
NUMBER = re.compile(r"(?:os error |errno )(\d+)", re.IGNORECASE)
"""How safetensors, and Python, spell an errno in what they say."""
WORDS = ("no space left", "disk quota exceeded", "file too large")
TORN_WRITE = ("pytorchstreamwriter", "file write failed", "unexpected pos")
"""What torch says of any failed write, without a reason; with a quota there may be much space left."""
LITTLE_BYTES = 1 << 20


class DiskFull(Exception):
    """A checkpoint could not be written; the message says how much room is missing where, or what failed."""


def cannot_write(error: BaseException) -> bool:
    """True when a save failed because the disk is full, at its quota or limit, or does not answer."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        text = str(current).lower()
        if isinstance(current, DiskFull) or (isinstance(current, OSError) and current.errno in UNWRITABLE):
            return True
        if any(word in text for word in WORDS + TORN_WRITE):
            return True
        told = NUMBER.search(text)
        if told is not None and int(told[1]) in UNWRITABLE:
            return True
        current = current.__cause__ or current.__context__
    return False


def first_line(error: BaseException) -> str:
    """What a failed write says, short; a torn one says nothing that helps."""
    text = (str(error).strip() or type(error).__name__).splitlines()[0]
    if any(word in text.lower() for word in TORN_WRITE):
        return f"a write was cut off, as by a full disk, a quota or a limit of file sizes ({text[:100]})"
    return text[:200]


def free_bytes(folder: Path) -> int:
    """Free bytes on the file system of a folder, or of the nearest parent that exists."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return shutil.disk_usage(folder).free


def checkpoint_bytes(trainer: Any) -> int:
    """About how large a checkpoint of this trainer is: what is saved of the weights, and AdamW's two moments.

    With an adapter only trainable parameters are saved. Optimizer moments count four bytes each.
    """
    parameters = list(trainer.model.parameters())
    trained = [p for p in parameters if p.requires_grad]
    saved = trained if hasattr(trainer.model, "peft_config") else parameters
    weights = sum(p.numel() * p.element_size() for p in saved)
    moments = 0 if trainer.args.save_only_model else 8 * sum(p.numel() for p in trained)
    return int(1.05 * (weights + moments)) + LITTLE_BYTES


def readable(size: int) -> str:
    """A byte count for a person."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            return f"{size:.1f} {unit}" if unit != "bytes" and size < 100 else f"{size:.0f} {unit}"
        size /= 1000  # type: ignore[assignment]
    return ""
