"""Suggest what to write in place of a key or value that TRL does not accept.

The texts are in `meant.toml` and cover TRL 1.x and transformers 5. Call `explain` only for a key that the
installed source does not define. This module changes and rejects nothing.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from grpo_tui.core.findings import Fix

SECTION = "grpo_tui"
"""The key of this program's own section, which can be mistyped too."""
_WORDS = tomllib.loads(Path(__file__).with_name("meant.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True, slots=True)
class Removed:
    """A key that is gone: what to do now, and the key that takes its value unchanged, if any."""

    now: str
    renamed_to: str | None = None


REMOVED: Mapping[str, Removed] = {
    key: Removed(**{"now": f"Rename `{key}` to `{entry.get('renamed_to')}`", **entry})
    for key, entry in _WORDS["removed"].items()
}
LAUNCHER_KEYS = frozenset(_WORDS["launcher_keys"])
OTHER_NAMES: Mapping[str, str] = _WORDS["other_names"]
"""Names from other programs or everyday speech, and TRL's name for the same thing."""
_LORA: Mapping[str, str] = _WORDS["lora"]
"""Keys of PEFT's LoraConfig, and what a TRL file calls them."""
_HOMES = {key: mapping for mapping, keys in _WORDS["homes"].items() for key in keys}
_TRAINERS = {
    key: (trainer, entry["why"]) for trainer, entry in _WORDS["trainers"].items() for key in entry["keys"]
}

_NEVER = ("never", "none", "off", "0")
_STRATEGIES = ("eval_strategy", "save_strategy", "logging_strategy")

_POWERS = {"k": 1_000, "m": 1_000_000}
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+(e[+-]?\d+)?")
_TIMES_TEN = re.compile(r"([+-]?[\d.]+)\s*(?:\*|·|×|x)\s*10\s*(?:\^|\*\*)?\s*([+-]?\d+)")
_LEADING = re.compile(r"([+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:\s?e[+-]?\d+)?)\s*([a-z%;,]*)")


def meant_number(value: Any) -> float | None:
    """Return the number that the user meant: `10%`, `0,9`, `20 steps`, `1k`, `[8]`, `0x10`."""
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
    """Return the choice that has another name elsewhere: `AdamW` is `adamw_torch`."""
    said = str(value).strip().lower()
    for word in (said, said.replace("-", "_").replace(" ", "_"), re.sub(r"[-_ ]", "", said)):
        if name in _STRATEGIES and word in _NEVER:
            return "no"
        meant = _WORDS["values"].get(name, {}).get(word)
        if meant is not None and meant in choices:
            return meant
    return None


def word_hint(name: str, value: Any) -> str:
    """Return a hint for a word that belongs to a neighboring field, empty for others."""
    hint = _WORDS["hints"].get(name, {}).get(str(value).strip().lower())
    return f". {hint}" if hint else ""


def meant_mapping(text: str) -> dict[str, Any] | None:
    """Return the mapping that a quoted text contains, in JSON, Python or YAML."""
    return _structure(text, dict)


def meant_list(text: str) -> list[Any] | None:
    """Return the list that a text such as `'[a, b]'` contains."""
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


def belongs_elsewhere(key: str, value: Any) -> tuple[str, Fix | None] | None:
    """Return where a key belongs, as the end of a sentence, and a fix. Without one, remove the key."""
    home = f"{_HOMES[key]}.{key}" if key in _HOMES else ""
    if key == "gradient_checkpointing_use_reentrant":
        home = "gradient_checkpointing_kwargs.use_reentrant"
    if home:
        return f"belongs in {home.partition('.')[0]}: set {home}", Fix(home, value)
    if key in _WORDS["environment"]:
        variable = key.upper()
        return f"is an environment variable: set {variable} under `env:`", Fix(f"env.{variable}", str(value))
    if key in _WORDS["secrets"]:
        store = f"`{_WORDS['secrets'][key]}` stores it on this machine"
        return f"is a secret: keep it out of the config. {store}", None
    if key in _TRAINERS:
        trainer, why = _TRAINERS[key]
        return f"is for TRL's {trainer} trainer: {why}", None
    if key in _WORDS["unsloth"]:
        told = "is an Unsloth argument: use Unsloth in your own script and call grpo_tui.monitor(trainer)"
        return told, None
    return (_WORDS["told"][key], None) if key in _WORDS["told"] else None


_LORA_MAPPINGS = ("peft_config", "lora_config", "peft", "lora")


Fits = Callable[[str, Any], bool]
"""Whether a key accepts a value, both as written."""


def explain(
    key: str,
    value: Any,
    known: Iterable[str],
    section_keys: Iterable[str],
    *,
    present: Container[str] = (),
    fits: Fits = lambda name, value: True,
) -> tuple[str, Fix | None]:
    """Return why a key is rejected, and a fix.

    Args:
        key: The key as written, which the installed TRL does not have.
        value: Its value, which the fix keeps.
        known: Valid keys at this level.
        section_keys: Keys of the `grpo_tui:` section.
        present: Keys at this level. The fix does not replace their values.
        fits: Whether another key accepts the value.
    """
    message, fix = _explained(key, value, list(known), section_keys, fits)
    if fix is None or fix.value is None or fix.field == key:
        return message, fix
    if fix.field in present:
        joined = message if message.endswith("?") else f"{message}."
        return f"{joined} {fix.field} is already set here, so remove this one", Fix(key, None)
    return message, fix


def _explained(
    key: str, value: Any, known: list[str], section_keys: Iterable[str], fits: Fits
) -> tuple[str, Fix | None]:
    if key in REMOVED:
        gone = REMOVED[key]
        name = gone.renamed_to if gone.renamed_to in known else None
        moves = name is not None and fits(name, value)
        fix = Fix(name, value) if name is not None and moves else Fix(key, None)
        return " ".join(gone.now.split()), fix
    underscored = key.strip().lstrip("-").replace("-", "_").replace(" ", "_")
    if underscored != key and underscored in known:
        return f"unknown key {key}: write it with underscores, as {underscored}", Fix(underscored, value)
    if key in LAUNCHER_KEYS:
        message = (
            f"{key} is a setting of accelerate, not of the training: pass it to the launcher, "
            f"as in --launcher 'accelerate launch --{key} …'"
        )
        return message, Fix(key, None)
    if key in section_keys:
        return f"{key} belongs under `grpo_tui:`", Fix(f"grpo_tui.{key}", value)
    inside = list(_inside(key, value, known))
    if inside:
        return inside[0][1], inside[0][2]
    if (elsewhere := belongs_elsewhere(underscored.lower(), value)) is not None:
        return f"{key} {elsewhere[0]}", elsewhere[1] or Fix(key, None)
    if OTHER_NAMES.get(key) in known and fits(OTHER_NAMES[key], value):
        return f"unknown key {key}: TRL calls it {OTHER_NAMES[key]}", Fix(OTHER_NAMES[key], value)
    for near in difflib.get_close_matches(underscored.lower(), [*known, SECTION], n=3, cutoff=0.7):
        if near == SECTION or fits(near, value):
            return f"unknown key {key}. Did you mean {near}?", Fix(near, value)
    if isinstance(value, dict) and value:
        names = ", ".join(map(str, list(value)[:4]))
        return f"unknown key {key}, and nothing in it ({names}) is a TRL key", Fix(key, None)
    return f"unknown key {key}: TRL and grpo-tui have no key with a similar name", Fix(key, None)


def others_inside(key: str, value: Any, known: Iterable[str]) -> list[tuple[str, str, Fix]]:
    """Return further TRL settings in a mapping that is not a TRL key: dotted key, message and fix of each.

    `explain` reports the first one. Without these, only that one would be moved and the others lost.
    """
    return list(_inside(key, value, list(known)))[1:]


def _inside(key: str, value: Any, known: list[str]) -> Iterator[tuple[str, str, Fix]]:
    """Yield the TRL settings in a mapping that is not a TRL key, each with the place where it belongs."""
    if not isinstance(value, dict):
        return
    if key in _LORA_MAPPINGS:
        names = ", ".join(f"{_LORA[k]}: {v}" for k, v in value.items() if k in _LORA)
        beside = f", with {names}" if names else ""
        message = f"unknown key {key}: to use LoRA set use_peft: true at the top level{beside}"
        yield key, message, Fix("use_peft", True)
        for inner, given in value.items():
            if inner in _LORA:
                name = f"{key}.{inner}"
                yield name, f"{name} is called {_LORA[inner]} in TRL", Fix(_LORA[inner], given)
        return
    nested = _nested(value, known)
    names = ", ".join(dict.fromkeys(name for name, _ in nested.values()))
    for place, (path, (name, given)) in enumerate(nested.items()):
        if place:
            yield ".".join((key, *path)), f"Move {name} to the top level", Fix(name, given)
        else:
            message = f"Move {names} to the top level and remove {key}: TRL keys are not nested"
            yield key, message, Fix(name, given)


def nearest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the known word most similar to `word`, or None when none is close."""
    found = difflib.get_close_matches(word.lower(), list(known), n=1, cutoff=cutoff)
    return found[0] if found else None


def _nested(value: dict[Any, Any], known: Iterable[str]) -> dict[tuple[str, ...], tuple[str, Any]]:
    """Return the known keys at any depth of a mapping, with their values, by path."""
    found: dict[tuple[str, ...], tuple[str, Any]] = {}
    allowed = set(known)
    waiting: list[tuple[tuple[str, ...], dict[Any, Any]]] = [((), value)]
    while waiting:
        path, mapping = waiting.pop(0)
        for key, inner in mapping.items():
            name = key.replace("-", "_") if isinstance(key, str) else ""
            if name in allowed and name not in {n for n, _ in found.values()}:
                found[(*path, key)] = (name, inner)
            elif isinstance(inner, dict):
                waiting.append(((*path, str(key)), inner))
    return found
