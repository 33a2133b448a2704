"""`grpo_tui.rewards` of a config file, from YAML to `RewardEntry`s. It imports no reward."""

from __future__ import annotations

import os
import re
from typing import Any

from grpo_tui.config.coerce import numbers_in_text
from grpo_tui.config.paths import split_file_source
from grpo_tui.config.section import RewardEntry
from grpo_tui.config.section_meant import REWARD_ALIASES
from grpo_tui.config.section_values import ROOT, KeyPath, SectionValues, dotted
from grpo_tui.core.findings import Finding, Fix


def read_rewards(values: SectionValues, value: Any) -> tuple[RewardEntry, ...]:
    """Read the list of rewards; what does not fit is a finding of `values`."""
    if value is None:
        return ()
    if not isinstance(value, list):
        values.error(
            "section.type", ("rewards",), "grpo_tui.rewards must be a list of {name, source, weight, params}"
        )
        return ()
    read = [(index, _reward(values, index, item)) for index, item in enumerate(value)]
    entries = [entry for _, entry in read if entry is not None]
    seen: dict[str, RewardEntry] = {}
    for index, entry in read:
        if entry is None:
            continue
        if entry.name in seen:
            line = f" (the other on line {seen[entry.name].line})" if seen[entry.name].line else ""
            values.findings.append(
                Finding(
                    "section.duplicate-reward",
                    "error",
                    "grpo_tui.rewards",
                    entry.line,
                    f"two rewards are called {entry.name}{line}; their metrics would share one name. "
                    "Rename one",
                    _renamed(index, value[index], entry.name, [e.name for e in entries]),
                )
            )
        seen[entry.name] = entry
    return tuple(entries)


def _renamed(index: int, item: Any, name: str, taken: list[str]) -> Fix:
    """The second of two rewards of one name under a name of its own."""
    free = next(f"{name}_{n}" for n in range(2, len(taken) + 3) if f"{name}_{n}" not in taken)
    key = f"{ROOT}.rewards.{index}"
    if isinstance(item, str):
        return Fix(key, {"name": free, "source": item})
    return Fix(f"{key}.name", free)


def _reward(values: SectionValues, index: int, item: Any) -> RewardEntry | None:
    path = ("rewards", index)
    if isinstance(item, str):
        item = {"source": item}
    if not isinstance(item, dict):
        values.error("section.type", path, f"{dotted(path)} must be a mapping with source; it is {item!r}")
        return None
    values.refuse_unknown(path, item, ("name", "source", "weight", "params"), REWARD_ALIASES)
    name = values.text((*path, "name"), item.get("name"))
    source = values.text((*path, "source"), item.get("source")) or name
    if not source and any(REWARD_ALIASES.get(str(key)) == "source" for key in item):
        return None  # told already, with its fix
    if not source:
        values.error(
            "section.missing",
            path,
            f"{dotted(path)} needs source: a TRL name, pkg.mod:func or file.py:func",
        )
        return None
    parts = split_file_source(source)
    if parts is not None:
        source = f"{values.file((*path, 'source'), parts[0])}:{parts[1]}"
        name = name or parts[1].rpartition(".")[2]
    else:
        name = name or re.split(r"[.:/]", source.rstrip("/"))[-1]
        source = values.places.model_path(source)
    params = item.get("params")
    if params is not None and not (isinstance(params, dict) and all(isinstance(k, str) for k in params)):
        values.error(
            "section.type", (*path, "params"), f"{dotted((*path, 'params'))} must be a mapping of arguments"
        )
        params = None
    weight = values.number((*path, "weight"), item.get("weight"))
    params = _placed(values, _numbers(values, path, params or {}))
    return RewardEntry(name, source, weight, params, values.line(path))


def _placed(values: SectionValues, value: Any) -> Any:
    """A param with the `file.py:function` in it made absolute, as a reward around a reward names one."""
    if isinstance(value, dict):
        return {key: _placed(values, inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_placed(values, inner) for inner in value]
    parts = split_file_source(value) if isinstance(value, str) else None
    file = values.places.beside_config(parts[0]) if parts is not None else None
    return f"{file}:{parts[1]}" if parts is not None and file is not None and os.path.isfile(file) else value


def _numbers(values: SectionValues, path: KeyPath, params: dict[str, Any]) -> dict[str, Any]:
    """Read `1e-5` written without quotes as the number it is meant to be."""
    read = dict(params)
    for key, value in params.items():
        where = (*path, "params", key)
        number = numbers_in_text(value)
        if number is not None and (ROOT, *where) in values.document.plain:
            values.info(where, f"{dotted(where)} was the text '{value}'; read as {number!r}")
            params[key] = read[key] = number
    return read
