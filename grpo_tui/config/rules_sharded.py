"""Rules about FSDP and DeepSpeed: conflicting settings, and unknown keys of their mappings.

accelerate's own config file is not checked here, because the launcher reads it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from grpo_tui.config.meant import nearest
from grpo_tui.config.rules import NAMES, row_findings, yaml_said
from grpo_tui.config.rules_nested import misnamed
from grpo_tui.config.settings import Settings
from grpo_tui.core.findings import Finding
from grpo_tui.core.text import one_line

FSDP_NAMES = frozenset(NAMES["fsdp"])
"""Keys of `fsdp_config` that TrainingArguments reads, each with or without the prefix `fsdp_`."""
_FIRST_VERSION = tuple(NAMES["fsdp_first_version"])
_FSDP_WORDS = tuple(NAMES["fsdp_words"])
_WRAPS = ("TRANSFORMER_BASED_WRAP", "SIZE_BASED_WRAP", "NO_WRAP")
_STATES = ("FULL_STATE_DICT", "LOCAL_STATE_DICT", "SHARDED_STATE_DICT")

_SAME_IN_DEEPSPEED: Mapping[str, str] = NAMES["same_in_deepspeed"]
"""Values of a DeepSpeed config that must be `auto` or equal to the training's."""


def sharded_findings(settings: Settings) -> list[Finding]:
    """Return findings about FSDP and DeepSpeed."""
    found = list(row_findings(settings, "fsdp"))
    if settings.get("fsdp"):
        found += _fsdp(settings)
    found += _deepspeed(settings)
    return found


def _fsdp(s: Settings) -> Iterator[Finding]:
    given = {str(key).removeprefix("fsdp_"): value for key, value in s.mapping("fsdp_config").items()}
    words = s.get("fsdp")
    for word in str(words).split() if isinstance(words, str) else []:
        if word not in _FSDP_WORDS and word not in ("True", "true"):
            near = nearest(word, _FSDP_WORDS)
            message = f"fsdp must be one of {', '.join(_FSDP_WORDS)}, or true; it is {word}"
            yield s.error("sharded.fsdp-word", "fsdp", message, ("fsdp", near or True))
        elif word in ("no_shard", "hybrid_shard", "hybrid_shard_zero2") and _version(given) == 2:
            message = f"fsdp {word} needs FSDP 1. Version 2 is used, which shards fully or by gradient"
            yield s.error("sharded.fsdp-word", "fsdp", message, ("fsdp", "full_shard"))
    yield from _fsdp_config(s, given)


def _version(given: Mapping[str, Any]) -> int | None:
    """Return the FSDP version, None if it is not a number."""
    written = given.get("version", 2)
    return int(written) if str(written).isdigit() else None


def _fsdp_config(s: Settings, given: Mapping[str, Any]) -> Iterator[Finding]:
    for key in s.mapping("fsdp_config"):
        plain = str(key).removeprefix("fsdp_")
        field = f"fsdp_config.{key}"
        if plain not in FSDP_NAMES:
            yield misnamed(s, "fsdp_config", key, given[plain], FSDP_NAMES, f"unknown key {field}")
        elif plain in _FIRST_VERSION and _version(given) == 2:
            yield s.unused(field, "it is a setting of FSDP 1, and version 2 is used")
    for key, known in (("auto_wrap_policy", _WRAPS), ("state_dict_type", _STATES)):
        value = given.get(key)
        if value is not None and value not in known:
            field = f"fsdp_config.{key}"
            message = f"{field} must be one of {', '.join(known)}; it is {yaml_said(value)}"
            fix = (field, nearest(str(value), known) or known[0])
            yield s.error("sharded.fsdp-value", field, message, fix)


def _deepspeed(s: Settings) -> Iterator[Finding]:
    value = s.get("deepspeed")
    if not value:
        return
    body = value
    if isinstance(value, str):
        try:
            body = json.loads(Path(value).expanduser().read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            why = f"is not valid JSON: {error}"
            if isinstance(error, OSError):
                why = f"cannot be read: {error.strerror}"
            message = f"deepspeed: {one_line(value, 120)} {why}"
            yield s.error("sharded.deepspeed-file", "deepspeed", message)
            return
    if not isinstance(body, dict):
        return
    yield from mismatches(s, body)
    zero = body.get("zero_optimization")
    if isinstance(zero, dict) and zero.get("stage") == 3:
        yield from row_findings(s, "zero-3")


def mismatches(s: Settings, body: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield an error for each value of a DeepSpeed config that differs from the training's."""
    for dotted, name in _SAME_IN_DEEPSPEED.items():
        there: Any = body
        for part in dotted.split("."):
            there = there.get(part) if isinstance(there, dict) else None
        here = s.get(name)
        if there is None or there == "auto" or here is None or there == here:
            continue
        message = (
            f"the DeepSpeed config has {dotted} {yaml_said(there)}, but {name} is "
            f"{yaml_said(here)}; they must be equal"
        )
        field = name if s.written(name) else "deepspeed"
        yield s.error("sharded.deepspeed-value", field, message, (name, there))
