"""Parse `grpo_tui.stages`, parts of a run that train one after the other with their own settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from grpo_tui.config.meant import nearest
from grpo_tui.config.run_config import is_secret
from grpo_tui.config.section import STAGE_KEYS, Stage
from grpo_tui.config.section_parts import warn_of_unknown
from grpo_tui.config.trl_fields import load_fields
from grpo_tui.core.findings import Finding, Fix
from grpo_tui.core.text import one_line

if TYPE_CHECKING:
    from grpo_tui.config.section_reader import KeyPath, SectionValues
    from grpo_tui.config.settings import Settings

KEY = "grpo_tui.stages"
ALIASES = {
    "condition": "until",
    "limit": "at_most",
    "max_steps": "steps",
    "overrides": "set",
    "settings": "set",
    "when": "until",
}
"""Common wrong names of the keys."""
SHARDING = ("deepspeed", "fsdp")
"""What saves a model in parts: a key of the config, or in lower case accelerate's `distributed_type`."""
CHOICES = {"reference": ("base", "stage start"), "optimizer": ("kept", "new")}
"""Values of the keys that take one of two, the default first."""
LENGTHS = ("max_steps", "num_train_epochs")
SAME = (
    "output_dir", "run_name", "resume_from_checkpoint", "deepspeed", "fsdp", "fsdp_config", "optim", "env",
    "grpo_tui.stages", "grpo_tui.launcher", "grpo_tui.gpus", "grpo_tui.notify",
)  # fmt: skip
"""Settings that cannot differ between stages. Nor can those of the model."""


def read_stages(values: SectionValues, value: Any) -> tuple[Stage, ...]:
    """Parse the stages and add a finding to `values` for each invalid one."""
    found = list(_stages(values, values.listed(("stages",), value, "must be a list of {name, set, steps}")))
    names = [stage.name for stage in found]
    for place, name in enumerate(names):
        if name in names[:place]:
            said = f"Two stages are named {name}. Rename one of them"
            values.error("section.conflict", ("stages", place, "name"), said)
    return tuple(found)


def _stages(values: SectionValues, items: list[Any]) -> Iterator[Stage]:
    for place, item in enumerate(items):
        path = ("stages", place)
        if not isinstance(item, dict):
            values.wrong(path, f"must be {{name, set, steps}}; it is {item!r}")
            continue
        values.refuse_unknown(path, item, STAGE_KEYS, ALIASES)
        name = values.text((*path, "name"), item.get("name"))
        if not name:
            values.error("section.missing", path, f"{KEY}.{place} needs a name")
        more: dict[str, Any] = {key: _count(values, (*path, key), item) for key in ("steps", "at_most")}
        until = _until(values, (*path, "until"), item.get("until"))
        if not _ends(values, path, item):
            continue
        more |= {key: _choice(values, (*path, key), item.get(key), known) for key, known in CHOICES.items()}
        given = _set(values, (*path, "set"), item.get("set"))
        yield Stage(name or str(place + 1), given, until=until, **more)


def _count(values: SectionValues, path: KeyPath, item: Mapping[str, Any]) -> int | None:
    number = values.whole_number(path, item.get(str(path[-1])), "steps")
    if number == 0:
        values.error("section.range", path, f"{KEY}.{path[1]}.{path[2]} must be 1 or more")
    return number


def _choice(values: SectionValues, path: KeyPath, value: Any, known: tuple[str, str]) -> Any:
    if value is None or value in known:
        return value or known[0]
    key, near = f"{KEY}.{path[1]}.{path[2]}", nearest(str(value), known)
    said = f"{key} is {value!r}. Use `{known[0]}` or `{known[1]}`"
    values.error("section.choice", path, said, Fix(key, near or None))
    return known[0]


def start_findings(settings: Settings, path: KeyPath, stage: Stage) -> Iterator[Finding]:
    """Yield what contradicts how a stage begins.

    Args:
        settings: The config as the stage trains it.
    """
    if by := next((name for name in SHARDING if settings.get(name)), None):
        yield from sharded_start(settings, path, stage, by)
    elif stage.reference == "stage start" and not settings.number("beta"):
        why = "the KL is not computed with beta 0. Set beta in this stage"
        yield _not_possible(settings, path, stage, "reference", why)


def sharded_start(settings: Settings, path: KeyPath, stage: Stage, by: str) -> Iterator[Finding]:
    """Yield what contradicts how a stage begins when `by`, one of `SHARDING`, shards the model."""
    if stage.reference == "stage start":
        why = f"{by} saves the model in parts, which cannot be loaded as a reference"
        yield _not_possible(settings, path, stage, "reference", why)
    if stage.optimizer == "new" and by == "deepspeed":
        why = "DeepSpeed loads the optimizer together with the model"
        yield _not_possible(settings, path, stage, "optimizer", why)


def _not_possible(settings: Settings, path: KeyPath, stage: Stage, key: str, why: str) -> Finding:
    name, value, line = one_line(stage.name, 40), getattr(stage, key), settings.document.line(*path, key)
    said = f"stage {name}: `{key}: {value}` is not possible: {why}, or leave out {key}"
    field = ".".join(map(str, (*path, key)))
    return Finding("section.conflict", "error", field, line, said, Fix(field, None))


def _ends(values: SectionValues, path: KeyPath, item: Mapping[str, Any]) -> bool:
    """Return whether a stage says when it ends, in one of the two ways."""
    key = f"{KEY}.{path[1]}"
    given = {name for name in ("steps", "until", "at_most") if item.get(name) is not None}
    if given in ({"steps"}, {"until", "at_most"}):
        return True
    if given == {"until"}:
        said = f"{key} needs at_most, the steps after which the stage ends even if its condition never holds"
        values.error("section.missing", path, said)
    elif "until" in given:
        said = f"{key} has until. Give its limit as at_most, not as steps"
        values.error("section.conflict", (*path, "steps"), said)
    elif given == {"steps", "at_most"} or given == {"at_most"}:
        said = f"{key} has at_most without until. Use steps for a stage of a fixed length"
        values.error("section.conflict", (*path, "at_most"), said)
    else:
        said = f"{key} needs steps, or until with at_most, such as `until: reward >= 2 over 20 steps`"
        values.error("section.missing", path, said)
    return False


def _until(values: SectionValues, path: KeyPath, value: Any) -> str | None:
    if value is None:
        return None
    text, key = str(value), f"{KEY}.{path[1]}.until"
    condition = values.condition(path, text, key)
    if condition is None:
        return None
    if condition.kind not in ("metric", "gain"):
        said = f"{key} is {text!r}. A stage ends by a metric, such as `reward >= 2 over 20 steps`"
        values.error("section.choice", path, said, Fix(key, None))
        return None
    never = "This stage only ends at its limit"
    warn_of_unknown(values, path, condition.name, never, "its condition only holds")
    return text


def _set(values: SectionValues, path: KeyPath, value: Any) -> dict[str, Any]:
    """Read the settings of a stage as dotted key to value."""
    value = values.mapping(path, value, "must be a mapping of settings to values") or {}
    nested = value.get("grpo_tui")
    inside = {f"grpo_tui.{key}": item for key, item in nested.items()} if isinstance(nested, dict) else {}
    found = {str(key): item for key, item in value.items() if key != "grpo_tui"} | inside
    for key, item in found.items():
        if why := _refused(key, item):
            values.error("section.conflict", (*path, key), f"{KEY}.{path[1]}.set: {why}")
    return found


def _refused(key: str, value: Any) -> str:
    """Return why a stage cannot set a key; empty if it can."""
    info = load_fields().get(key.partition(".")[0])
    if key in LENGTHS:
        return f"{key} has no effect in a stage. Set its steps instead"
    if (
        (info is not None and info.owner == "ModelConfig")
        or key in SAME
        or key.startswith("grpo_tui.stages.")
    ):
        return f"{key} is the same for all stages. Move it out of the stage"
    if is_secret(key, value):
        return f"{key} would be written into the run's record. Move it out of the stage"
    return ""
