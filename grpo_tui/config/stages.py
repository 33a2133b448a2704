"""The config of each stage of a run, from the config of the whole run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from grpo_tui.config.resolve import inspect_stage, startable
from grpo_tui.config.reward_list import about_rewards, with_list
from grpo_tui.config.run_config import RunConfig
from grpo_tui.config.trl_fields import load_fields
from grpo_tui.core.findings import errors_of
from grpo_tui.core.stages import StageNow


def stage_at(
    base: RunConfig,
    before: StageNow | None = None,
    step: int = 0,
    *,
    marker: Mapping[str, Any] | None = None,
    size: int | None = 1,
    force: bool = False,
) -> tuple[RunConfig, StageNow | None]:
    """Return what a run trains from a checkpoint of this step on, or first: a config, and its stage if any.

    Args:
        before: The stage that trained last; None if there was none.
        marker: What the checkpoint says about itself, for `end_of_stage`.
        size: Number of training processes, None when unknown.
        force: Accept errors, as long as a config results.

    Raises:
        ConfigError: The stage cannot train.
    """
    stages = base.section.stages
    if not stages:
        return base, None
    starts = tuple(start for start in before.starts if start <= step) if before is not None else ()
    starts = starts[: len(stages)] or (step,)
    end = end_of_stage(starts[-1], stages[len(starts) - 1].limit, step, marker or {})
    if step >= end and len(starts) < len(stages):
        starts = (*starts, step)
    return _begun(base, starts, "", size=size, force=force)


def end_of_stage(start: int, limit: int, step: int, marker: Mapping[str, Any]) -> int:
    """Return the last step of the stage that trains from a checkpoint of this step on.

    That is the `max_steps` set while the stage trained, which a resume restores. A limit that the config
    changed since the checkpoint wins.

    Args:
        start: Step after which the stage began. Its checkpoint is of the stage before.
        limit: Most steps of the stage, by the config.
        marker: What the checkpoint says about itself.
    """
    end = start + limit
    settings, live = marker.get("settings") or {}, marker.get("live") or {}
    held = live.get("max_steps")
    restored = step > start and settings.get("max_steps", end) == end
    return held if restored and isinstance(held, int) else end


def next_stage(now: StageNow, step: int, because: str, *, size: int | None = 1) -> tuple[RunConfig, StageNow]:
    """Return the stage that follows one that ended after `step`.

    Raises:
        ConfigError: The stage cannot train.
    """
    base = RunConfig.from_json(now.base)
    return _begun(base, (*now.starts, step), because, size=size, force=False)


def with_rewards(base: RunConfig, place: int, listed: Mapping[str, Any]) -> RunConfig:
    """Return a run's config with another list of rewards, while the stage at `place` trains.

    Args:
        listed: The list, as `reward_list.listed_in` gives it.

    Raises:
        ValueError: That stage has a list of its own, or a later stage cannot train with the new one.
    """
    stages = base.section.stages
    own = about_rewards([f"{key}=" for key in stages[place].set])
    if own:
        raise ValueError(f"stage {stages[place].name} sets {own[0].rstrip('=')}")
    new = with_list(base, listed)
    for later in range(place, len(stages)):
        if wrong := errors_of(inspect_stage(new, later, world_size=None).findings):
            raise ValueError(f"stage {stages[later].name} cannot train with them: {wrong[0].message}")
    return new


def settings_changed(base: RunConfig, place: int) -> list[tuple[str, Any, Any]]:
    """Return key, old and new value of the settings that differ from the stage before."""
    before, now = (base.section.stages[at].set for at in (place - 1, place))
    found = []
    for key in {**now, **before}:
        usual = base.raw.get(key, base.setting(key) if key in load_fields() else None)
        old, new = before.get(key, usual), now.get(key, usual)
        if old != new:
            found.append((key, old, new))
    earlier, stage = base.section.stages[place - 1 : place + 1]
    if earlier.reference != stage.reference:
        found.append(("reference", earlier.reference, stage.reference))
    if stage.optimizer == "new":
        found.append(("optimizer", "kept", "new"))
    return found


def _begun(
    base: RunConfig, starts: Sequence[int], because: str, *, size: int | None, force: bool
) -> tuple[RunConfig, StageNow]:
    stages, place = base.section.stages, len(starts) - 1
    config = startable(inspect_stage(base, place, starts[-1], world_size=size), force=force)
    begun = zip(starts, stages, strict=False)
    now = StageNow(
        names=tuple(stage.name for stage in stages),
        starts=tuple(starts),
        limit=stages[place].limit,
        later=sum(stage.limit for stage in stages[place + 1 :]),
        base=base.to_json(),
        because=because,
        references=tuple(start if stage.reference == "stage start" else 0 for start, stage in begun),
        new_optimizer=stages[place].optimizer == "new",
    )
    return config, now
