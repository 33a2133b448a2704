"""The part of a config that lists its rewards, as plain data that another config of the run can take over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from grpo_tui.config.run_config import RunConfig
from grpo_tui.config.section import Section

KEYS = ("reward_model_name_or_path", "reward_funcs", "reward_weights")
"""Keys outside `grpo_tui` that list rewards."""


def about_rewards(overrides: Sequence[str]) -> tuple[str, ...]:
    """Return the `K=V` texts that set rewards or their weights."""
    names = tuple(f"{name}." for name in (*KEYS, "grpo_tui.rewards"))
    return tuple(text for text in overrides if f"{text.partition('=')[0].strip()}.".startswith(names))


def listed_in(config: RunConfig) -> dict[str, Any]:
    """Return the rewards of a config as JSON data, and as they are written in the file."""
    return {
        "rewards": [{**asdict(entry), "line": None} for entry in config.section.rewards],
        "keys": {key: config.script.get(key, config.grpo.get(key)) for key in KEYS},
        "written": _written(config.raw),
    }


def _written(raw: Mapping[str, Any]) -> dict[str, Any]:
    section = raw.get("grpo_tui")
    written = {key: raw[key] for key in KEYS if key in raw}
    if isinstance(section, Mapping) and "rewards" in section:
        written["rewards"] = section["rewards"]
    return written


def with_written(raw: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a config file with the rewards that another file writes."""
    return _replaced(raw, _written(other))


def _replaced(raw: Mapping[str, Any], written: dict[str, Any]) -> dict[str, Any]:
    own = {key: value for key, value in (raw.get("grpo_tui") or {}).items() if key != "rewards"}
    if "rewards" in written:
        own["rewards"] = written.pop("rewards")
    kept = {key: value for key, value in raw.items() if key not in KEYS}
    return kept | written | ({"grpo_tui": own} if own else {})


def same_list(one: RunConfig, other: RunConfig) -> bool:
    """Return whether two configs list the same rewards with the same weights and parameters."""
    first, second = listed_in(one), listed_in(other)
    return all(first[part] == second[part] for part in ("rewards", "keys"))


def with_list(config: RunConfig, listed: Mapping[str, Any]) -> RunConfig:
    """Return a config with the rewards of another, as `listed_in` gives them.

    Raises:
        ValueError: The data is no list of rewards.
    """
    try:
        section = Section.from_json({**config.section.to_json(), "rewards": listed["rewards"]})
        given = {key: value for key, value in listed["keys"].items() if key in KEYS and value is not None}
        written = dict(listed["written"])
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"this is not a list of rewards: {error!r}") from error
    script = {key: value for key, value in config.script.items() if key not in KEYS}
    grpo = {key: value for key, value in config.grpo.items() if key not in KEYS}
    weights = {key: given.pop(key) for key in ("reward_weights",) if key in given}
    return replace(
        config,
        section=replace(config.section, rewards=section.rewards),
        script=script | given,
        grpo=grpo | weights,
        raw=_replaced(config.raw, written),
    )
