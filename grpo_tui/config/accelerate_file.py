"""What the words of `accelerate launch` say about how ranks share a model: its config file, and its switches.

Reads one YAML file; starts nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

_FILE = ("--config_file", "--config-file")
_DEEPSPEED = ("zero_stage", "deepspeed_config_file", "offload_optimizer_device", "offload_param_device")


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
