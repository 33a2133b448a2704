"""Which completion of a batch makes a reward function raise, found by scoring each alone.

Shared by training and the lab. It knows how TRL calls a reward, not who calls it, and sets no alarm: a call
that hangs is its caller's concern.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from grpo_tui.core.text import completion_text, prompt_text, shorten


def guilty_samples(
    call: Callable[..., Any], error: type[BaseException], kwargs: Mapping[str, Any], limit_s: float = 1e9
) -> list[int]:
    """Return the completions that raise `error` when scored alone; empty when every one or none does.

    Args:
        call: the reward function, called with keyword arguments alone.
        error: the class of what it raised for the whole batch; others come out of here.
        kwargs: what it was called with; a list as long as the completions holds one entry for each.
        limit_s: seconds after which no further completion is tried, and none is blamed.
    """
    completions = kwargs.get("completions")
    if not isinstance(completions, list):
        return []
    guilty: list[int] = []
    end = time.monotonic() + limit_s
    for i in range(len(completions)):
        if time.monotonic() > end:
            return []
        one = slice(i, i + 1)
        alone = {k: v[one] if _per_sample(v, completions) else v for k, v in kwargs.items()}
        try:
            call(**alone)
        except error:
            guilty.append(i)
    return [] if len(guilty) == len(completions) else guilty


def sample_in_words(kwargs: Mapping[str, Any], index: int) -> str:
    """Return `completion "…" of prompt "…"` for one completion of a batch."""
    text = completion_text(kwargs["completions"][index])
    prompt = prompt_text((kwargs.get("prompts") or [""])[index])
    return f'completion "{shorten(text, 200)}" of prompt "{shorten(prompt, 100)}"'


def _per_sample(value: Any, completions: list[Any]) -> bool:
    return isinstance(value, list) and len(value) == len(completions)
