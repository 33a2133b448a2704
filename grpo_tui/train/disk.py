"""Know a full disk from other failures, and look at the free space before a save.

Knows errno values, the words of the libraries that write checkpoints, and byte counts.
"""

from __future__ import annotations

import errno
import shutil
from pathlib import Path
from typing import Any

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
WORDS = (
    "no space left",
    "disk quota exceeded",
    "file too large",
    "os error 28",
    "os error 27",
    "os error 122",
)
"""What safetensors and torch say when a write fails for want of space; they keep no errno."""
TORN_WRITE = ("pytorchstreamwriter", "file write failed", "unexpected pos")
"""What torch says of any failed write; taken as a full disk when little space is left."""
LITTLE_BYTES = 1 << 20


class DiskFull(Exception):
    """A checkpoint could not be saved for want of space; the message says how much is missing where."""


def is_full(error: BaseException, folder: Path) -> bool:
    """True when a failed save means that the disk, the quota or the file-size limit is exhausted."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        text = str(current).lower()
        if isinstance(current, DiskFull) or (isinstance(current, OSError) and current.errno in FULL):
            return True
        if any(word in text for word in WORDS):
            return True
        if any(word in text for word in TORN_WRITE) and free_bytes(folder) < LITTLE_BYTES:
            return True
        current = current.__cause__ or current.__context__
    return False


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
