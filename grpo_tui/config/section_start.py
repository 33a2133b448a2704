"""`grpo_tui.launcher` and `grpo_tui.gpus`: how a run is started, from YAML to words and names of GPUs.

It starts nothing and looks at no GPU; whether a launcher is known and a GPU is there is asked at the start.
"""

from __future__ import annotations

import re
import shlex
from typing import Any

from grpo_tui.config.section_values import SectionValues

_CONFIG_FLAGS = ("--config_file", "--config-file")
_GPU = re.compile(r"\d+|GPU-[0-9a-fA-F-]+|MIG-[\w/-]+")


def read_launcher(values: SectionValues, value: Any) -> str | None:
    """Read the words that start the ranks; accelerate's config file is looked up beside this one first."""
    path = ("launcher",)
    text = values.text(path, value)
    if text is None:
        return None
    try:
        words = shlex.split(text)
    except ValueError as problem:
        values.error("section.type", path, f"grpo_tui.launcher cannot be split into words: {problem}")
        return None
    if words[:2] != ["accelerate", "launch"] and words[:1] != ["torchrun"]:
        values.error(
            "section.choice",
            path,
            f'grpo_tui.launcher is "{text}"; write it as "accelerate launch …" or "torchrun …"',
        )
        return None
    for place, word in enumerate(words):
        flag, equals, name = word.partition("=")
        if flag not in _CONFIG_FLAGS:
            continue
        if equals:
            words[place] = f"{flag}={values.file(path, name)}"
        elif place + 1 < len(words):
            words[place + 1] = str(values.file(path, words[place + 1]))
        else:
            values.error("section.type", path, f"grpo_tui.launcher: {flag} is not followed by a file")
    return shlex.join(words)


def read_gpus(values: SectionValues, value: Any) -> tuple[str, ...]:
    """Read the GPUs a run is put on: `2`, `[2, 3]` or `"2,3"`, numbers or UUIDs of nvidia-smi."""
    path = ("gpus",)
    if value is None:
        return ()
    items = value if isinstance(value, list) else str(value).split(",")
    found = tuple("" if isinstance(item, bool) else str(item).strip() for item in items)
    wrong = next((item for item in found if not _GPU.fullmatch(item)), None)
    if isinstance(value, bool) or wrong is not None or not found:
        values.error(
            "section.type",
            path,
            f"grpo_tui.gpus must be numbers of GPUs as nvidia-smi counts them, as [2, 3]; it is {value!r}",
        )
        return ()
    doubled = next((item for item in found if found.count(item) > 1), None)
    if doubled is not None:
        values.error("section.type", path, f"grpo_tui.gpus names the GPU {doubled} twice")
        return ()
    return found
