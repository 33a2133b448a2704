"""What was meant by a value of the section `grpo_tui:` that does not fit: the fix offered with the error.

A key of the section that nobody can guess the value of is left out: each has a default.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from grpo_tui.config.coerce import names_in
from grpo_tui.config.meant_values import meant_number
from grpo_tui.core.findings import Fix

ROOT = "grpo_tui"
PROBE_EVERY = 50
_COUNTS = ("holdout", "min_prompt_tokens", "max_prompt_tokens", "every", "prompts", "count")
REWARD_ALIASES = {
    "args": "params",
    "callable": "source",
    "coef": "weight",
    "file": "source",
    "func": "source",
    "function": "source",
    "import": "source",
    "kwargs": "params",
    "parameters": "params",
    "path": "source",
    "reward": "source",
    "scale": "weight",
}
"""What people call the keys of a reward."""


def section_fix(path: Sequence[str | int], value: Any) -> Fix:
    """Return the fix for a value at a path within the section, as it was written."""
    key = ".".join([ROOT, *(str(part) for part in path)])
    return Fix(key, _meant([str(part) for part in path], value))


def _meant(path: list[str], value: Any) -> Any:
    """What can stand there instead; None leaves the key out."""
    match path:
        case ["rewards"]:
            return _rewards(value)
        case ["columns"]:
            return _columns(value)
        case ["few_shot"]:
            return [value] if isinstance(value, dict) and {"user", "assistant"} <= set(value) else None
        case ["system_prompt"]:
            return "\n".join(map(str, value)) if isinstance(value, list) else None
        case ["launcher"]:
            return _launcher(value)
        case ["gpus"]:
            unique = list(dict.fromkeys(value)) if isinstance(value, list) else []
            return unique if unique and all(isinstance(n, int) and n >= 0 for n in unique) else None
        case ["filters"]:
            return {"max_prompt_tokens": value} if _whole(value) else None
        case ["filters", "drop_null"] if isinstance(value, str):
            return names_in(value, spaced=True) or [value]
        case ["probe_prompts"]:
            return (
                {"every": value if _whole(value) else PROBE_EVERY} if value is True or _whole(value) else None
            )
        case ["chat"] | ["filters", _] if value in (0, 1):
            return bool(value) if path[-1] in ("chat", "drop_null", "drop_duplicates") else None
    number = meant_number(value) if path and path[-1] in _COUNTS else None
    usable = number is not None and math.isfinite(number) and number >= 1
    return round(number) if usable and number is not None else None


def _rewards(value: Any) -> list[Any] | None:
    if isinstance(value, str):
        return names_in(value, spaced=True) or [value]
    if not isinstance(value, dict):
        return None
    if "source" in value or "name" in value:
        return [value]
    if value and all(isinstance(source, str) for source in value.values()):
        return [{"name": name, "source": source} for name, source in value.items()]
    return None


def _columns(value: Any) -> dict[str, str] | None:
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, str):
        return {"prompt": value} if value != "prompt" else None
    if isinstance(value, dict):
        return {str(k): str(v) for k, v in value.items() if isinstance(v, str | int)} or None
    return None


def _launcher(value: Any) -> str | None:
    words = [str(word) for word in value] if isinstance(value, list) else str(value).split()
    if words[:1] == ["accelerate"] and words[1:2] != ["launch"]:
        words.insert(1, "launch")
    known = words[:2] == ["accelerate", "launch"] or words[:1] == ["torchrun"]
    return " ".join(words) if known and not any("'" in word or '"' in word for word in words) else None


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
