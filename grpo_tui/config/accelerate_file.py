"""What the words of a launcher say: how many ranks, and how they share a model, by switches and config file.

Reads one YAML file; starts nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

COUNTS = ("--num_processes", "--num-processes", "--nproc_per_node", "--nproc-per-node")
_FILE = ("--config_file", "--config-file")


class AccelerateFileError(ValueError):
    """The config file that a launcher is given cannot be read."""


def accelerate_settings(words: Sequence[str]) -> dict[str, Any] | None:
    """The body of accelerate's config file with what the switches change in it; None when nothing is said.

    Args:
        words: Those of the launcher, such as `accelerate launch --config_file zero3.yaml`.

    Raises:
        AccelerateFileError: The file cannot be read.
    """
    path = _value(words, _FILE)
    body = _read(Path(path)) if path else {}
    if "--use_deepspeed" in words or "--use-deepspeed" in words:
        inner = dict(body.get("deepspeed_config") or {})
        for name in (
            "zero_stage",
            "deepspeed_config_file",
            "offload_optimizer_device",
            "offload_param_device",
        ):
            value = _value(words, (f"--{name}", f"--{name.replace('_', '-')}"))
            if value is not None:
                inner[name] = int(value) if value.isdigit() else value
        body |= {"distributed_type": "DEEPSPEED", "deepspeed_config": inner}
    elif "--use_fsdp" in words or "--use-fsdp" in words:
        body |= {"distributed_type": "FSDP"}
    return body or None


def ranks_of(words: Sequence[str]) -> int | None:
    """How many ranks a launcher starts: 1 without one, None when its words do not say.

    Raises:
        AccelerateFileError: Its config file cannot be read.
    """
    if not words:
        return 1
    text = _value(words, COUNTS)
    if text is not None:
        return int(text) if text.isdigit() else None
    count = (accelerate_settings(words) or {}).get("num_processes")
    return count if isinstance(count, int) else None


def _value(words: Sequence[str], names: Sequence[str]) -> str | None:
    for position, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in names:
            return value if equals else words[position + 1] if position + 1 < len(words) else None
    return None


def _read(path: Path) -> dict[str, Any]:
    try:
        body: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise AccelerateFileError(f"accelerate's config {path} cannot be read: {error}") from error
    return dict(body) if isinstance(body, dict) else {}
