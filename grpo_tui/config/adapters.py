"""Check whether a checkpoint's LoRA adapter fits the config that resumes from it.

transformers reports a mismatch late and misleadingly ("can't find a checkpoint index", a page of tensor
sizes). Only `adapter_config.json` is read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from grpo_tui.config.trl_fields import load_fields
from grpo_tui.core.text import shell_word

_SAME = {
    "r": "lora_r",
    "lora_alpha": "lora_alpha",
    "use_rslora": "use_rslora",
    "use_dora": "use_dora",
    "target_modules": "lora_target_modules",
    "modules_to_save": "lora_modules_to_save",
}
"""Keys of the adapter, and the config keys that must match them."""


def adapter_mismatch(checkpoint: Path, model_args: Mapping[str, Any]) -> str | None:
    """Return why the config cannot resume from the checkpoint and how to fix it, None when it can."""
    wrong = adapter_conflicts(checkpoint, model_args)
    if not wrong:
        return None
    name, saved, _ = wrong[0]
    if name == "use_peft":
        held = f"a LoRA adapter (r {(_adapter(checkpoint) or {}).get('r')})" if saved else "a whole model"
        trained = "the whole model" if saved else "a LoRA adapter"
        return (
            f"{checkpoint.name} holds {held}, but this config trains {trained}. "
            f"To resume, add --set use_peft={_word(saved)}"
        )
    said = "; ".join(
        f"{name} {_word(saved)}, but this config has {_word(asked)}" for name, saved, asked in wrong
    )
    fix = " ".join(f"--set {name}={_word(saved)}" for name, saved, _ in wrong)
    return f"{checkpoint.name} was trained with {said}. An adapter keeps its shape. To resume: {fix}"


def adapter_conflicts(checkpoint: Path, model_args: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """Return where a checkpoint's adapter and a config differ: key, trained value, configured value.

    A difference in `use_peft` is the only entry, because nothing else can then be compared.
    """
    adapter = _adapter(checkpoint)
    use_peft = bool(model_args.get("use_peft"))
    if (adapter is not None) != use_peft:
        if adapter is not None and _adapter(Path(str(model_args.get("model_name_or_path")))) is not None:
            return []  # the model is itself an adapter, and training continues it
        return [("use_peft", adapter is not None, use_peft)]
    fields = load_fields()
    wrong = []
    for key, name in _SAME.items() if adapter is not None else ():
        asked = model_args.get(name, fields[name].default if name in fields else None)
        saved = (adapter or {}).get(key)
        if saved is None and isinstance(asked, bool):
            saved = False  # an older PEFT does not write the option
        if key == "modules_to_save":
            asked = asked or []  # PEFT adds none by itself
        if asked is not None and not _equal(asked, saved):
            wrong.append((name, saved, asked))
    return wrong


def adapter_as_model(folder: str) -> str | None:
    """Return why a folder with an adapter cannot be a run's model, None for other folders."""
    adapter = None if os.path.isfile(Path(folder) / "config.json") else _adapter(Path(folder))
    if adapter is None:
        return None
    return merge_first(folder, str(adapter.get("base_model_name_or_path") or "a model it does not name"))


def merge_first(adapter: str, base: str) -> str:
    """Return the error for an adapter used as a run's model, with the command that merges it."""
    return (
        f"{adapter} is a LoRA adapter of {base}, but TRL loads only whole models. Merge it first: "
        f"`grpo-tui merge {shell_word(adapter)} merged`, then use model_name_or_path: merged"
    )


def _adapter(folder: Path) -> dict[str, Any] | None:
    try:
        found = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _equal(asked: Any, saved: Any) -> bool:
    if isinstance(asked, list):
        if asked == ["all-linear"] or isinstance(saved, str):
            return True  # PEFT stores the expanded list
        return sorted(map(str, asked)) == sorted(map(str, saved or ()))
    if isinstance(asked, str):
        return True
    return bool(asked == saved) or (not asked and not saved)


def _word(value: Any) -> str:
    if isinstance(value, list):
        return f"[{','.join(sorted(map(str, value)))}]"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
