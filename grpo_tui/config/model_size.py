"""How large a model folder's weights are on disk; opens no file."""

from __future__ import annotations

import os
from pathlib import Path

_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")


def folder_bytes(model: str) -> int | None:
    """Return the bytes of a local model's weights; None for a Hub name and a folder without any."""
    folder = Path(model).expanduser()
    if not model or not os.path.isdir(folder):
        return None
    files = [file for pattern in _WEIGHTS for file in folder.glob(pattern)]
    return sum(file.stat().st_size for file in files) or None
