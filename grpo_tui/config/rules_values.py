"""Rules about single values inside the mappings of a config: texts where a number or a truth value belongs.

A quoted "false" is true to whoever asks for its truth, and "0.1" cannot be multiplied. What keys a mapping
has is `rules_nested`'s.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from grpo_tui.config.coerce import numbers_in_text
from grpo_tui.config.meant_values import meant_word
from grpo_tui.config.rules import REMOVE, Settings
from grpo_tui.core.findings import Finding

_MAPPINGS = (
    "accelerator_config",
    "activation_checkpointing_kwargs",
    "generation_kwargs",
    "gradient_checkpointing_kwargs",
    "lr_scheduler_kwargs",
    "model_init_kwargs",
)
_TEXTS = frozenset(
    {
        "cache_dir",
        "code_revision",
        "device_map",
        "prefix",
        "revision",
        "stop",
        "stop_strings",
        "subfolder",
        "token",
        "variant",
    }
)
"""Keys of these mappings whose values are texts, whatever they look like."""
_TRUTH = {"true": True, "false": False}
_DTYPES = ("auto", "bfloat16", "float16", "float32")


def value_findings(settings: Settings) -> list[Finding]:
    """Return what is wrong with values inside mappings."""
    found: list[Finding] = []
    for name in _MAPPINGS:
        found += _texts(settings, name, settings.mapping(name))
    found += _template(settings)
    found += _model(settings)
    return found


def _texts(s: Settings, where: str, given: Any) -> Iterator[Finding]:
    for key, value in given.items():
        field = f"{where}.{key}"
        if isinstance(value, dict):
            yield from _texts(s, field, value)
        elif isinstance(value, str) and key not in _TEXTS:
            word = value.strip().lower()
            meant = _TRUTH.get(word, numbers_in_text(word))
            if meant is None:
                continue
            if isinstance(meant, float) and meant.is_integer() and word.lstrip("+-").isdigit():
                meant = int(meant)
            kind = "a truth value" if isinstance(meant, bool) else "a number"
            message = f"{field} is the text '{value}', where {kind} belongs; nothing reads it as one later"
            yield s.finding("nested.text", "error", field, message, (field, meant))


def _template(s: Settings) -> Iterator[Finding]:
    for key, value in s.mapping("chat_template_kwargs").items():
        if isinstance(value, str) and value.strip().lower() in _TRUTH:
            field = f"chat_template_kwargs.{key}"
            message = f"{field} is the text '{value}', and every text is true to a chat template"
            yield s.finding("nested.text", "warning", field, message, (field, _TRUTH[value.strip().lower()]))


def _model(s: Settings) -> Iterator[Finding]:
    given = s.mapping("model_init_kwargs")
    dtype = given.get("dtype")
    if dtype is not None and dtype not in _DTYPES:
        field = "model_init_kwargs.dtype"
        word = str(dtype).lower().removeprefix("torch.")
        meant = word if word in _DTYPES else meant_word("dtype", word, _DTYPES)
        message = f"{field} is {dtype}, and TRL takes {', '.join(_DTYPES)} alone"
        yield s.finding("nested.dtype", "error", field, message, (field, meant or REMOVE))
    if isinstance(given.get("config"), dict):
        field = "model_init_kwargs.config"
        message = f"{field} is a mapping, and the model takes a folder or the name of one there"
        yield s.finding("nested.model-config", "error", field, message, (field, REMOVE))
    quantized = given.get("quantization_config")
    if isinstance(quantized, dict) and not s.get("use_peft"):
        on = next((n for n in ("load_in_4bit", "load_in_8bit") if quantized.get(n)), None)
        if on is not None:
            field = "model_init_kwargs.quantization_config"
            message = (
                f"{field} ({on}) makes the weights untrainable, and use_peft is false: nothing is trained"
            )
            yield s.finding("lora.quantized-alone", "error", field, message, (field, REMOVE))
