"""What somebody probably meant by a value that its field cannot take: the fix offered with the refusal.

It changes nothing by itself and refuses nothing; a value it cannot guess has no meaning here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml

_WORDS: Mapping[str, Mapping[str, str]] = {
    "loss_type": {
        "drgrpo": "dr_grpo",
        "dr.grpo": "dr_grpo",
        "gspo": "grpo",
        "gspo_token": "grpo",
        "ppo": "grpo",
        "dapo_loss": "dapo",
    },
    "importance_sampling_level": {"gspo": "sequence", "seq": "sequence", "sentence": "sequence"},
    "optim": {
        "8bit": "adamw_8bit",
        "8bit_adam": "adamw_8bit",
        "adam": "adamw_torch",
        "adam8bit": "adamw_8bit",
        "adam_8bit": "adamw_8bit",
        "adamw": "adamw_torch",
        "adamw8bit": "adamw_8bit",
        "adamw_fused": "adamw_torch_fused",
        "adamw_hf": "adamw_torch",
    },
    "lr_scheduler_type": {
        "const": "constant",
        "cosine_with_warmup": "cosine",
        "linear_with_warmup": "linear",
    },
    "scale_rewards": {"0": "none", "1": "group", "off": "none", "std": "group"},
    "dtype": {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "half": "float16"},
    "bnb_4bit_quant_type": {"4bit": "nf4", "nf": "nf4"},
    "vllm_mode": {"colocated": "colocate", "local": "colocate", "remote": "server"},
    "report_to": {"false": "none", "no": "none", "w&b": "wandb", "wb": "wandb"},
}
_NEVER = ("never", "none", "off", "0")
_STRATEGIES = ("eval_strategy", "save_strategy", "logging_strategy")
_HINTS = {
    ("loss_type", "gspo"): "GSPO is loss_type: grpo with importance_sampling_level: sequence",
    ("loss_type", "ppo"): "GRPO's own clipped loss is PPO's, and is called grpo",
}

_POWERS = {"k": 1_000, "m": 1_000_000}
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+(e[+-]?\d+)?")
_TIMES_TEN = re.compile(r"([+-]?[\d.]+)\s*(?:\*|·|×|x)\s*10\s*(?:\^|\*\*)?\s*([+-]?\d+)")
_LEADING = re.compile(r"([+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:\s?e[+-]?\d+)?)\s*([a-z%;,]*)")


def meant_number(value: Any) -> float | None:
    """The number a value stands for to a person: `10%`, `0,9`, `20 steps`, `1k`, `[8]`, `0x10`."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, dict) and len(value) == 1:
        value = next(iter(value.values()))
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value)
    return _number_in(value.strip().lower()) if isinstance(value, str) else None


def _number_in(text: str) -> float | None:
    if re.fullmatch(r"0(x[\da-f]+|o[0-7]+|b[01]+)", text):
        return float(int(text, 0))
    if _DECIMAL_COMMA.fullmatch(text):
        return float(text.replace(",", "."))
    if found := _TIMES_TEN.fullmatch(text):
        try:
            return float(f"{found[1]}e{found[2]}")
        except ValueError:
            return None
    found = _LEADING.fullmatch(text)
    if found is None:
        return None
    number = float(found[1].replace("_", "").replace(" ", ""))
    if found[2] == "%":
        return number / 100
    return number * _POWERS.get(found[2], 1)


def meant_word(name: str, value: Any, choices: tuple[str, ...]) -> str | None:
    """The choice of a field that is called otherwise elsewhere: `AdamW` is `adamw_torch`."""
    said = str(value).strip().lower()
    for word in (said, said.replace("-", "_").replace(" ", "_"), re.sub(r"[-_ ]", "", said)):
        if name in _STRATEGIES and word in _NEVER:
            return "no"
        meant = _WORDS.get(name, {}).get(word)
        if meant is not None and meant in choices:
            return meant
    return None


def word_hint(name: str, value: Any) -> str:
    """What a word means that is no choice of this field but of the field's neighbours; empty for others."""
    hint = _HINTS.get((name, str(value).strip().lower()))
    return f". {hint}" if hint else ""


def meant_mapping(text: str) -> dict[str, Any] | None:
    """The mapping that a text in quotes stands for, in JSON, Python or YAML."""
    return _structure(text, dict)


def meant_list(text: str) -> list[Any] | None:
    """The list that a text such as `'[a, b]'` stands for."""
    text = text.strip()
    if not (text.startswith("[") and text.endswith("]")):
        return None
    return _structure(text, list)


def _structure(text: str, kind: type[Any]) -> Any:
    try:
        read = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    return read if isinstance(read, kind) else None
