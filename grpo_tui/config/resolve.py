"""Turn a TRL config file and `--set` overrides into a checked `RunConfig`, or report all errors at once.

A file without a `grpo_tui:` section means what `trl grpo --config` makes of it. Neither torch nor TRL is
imported.
"""

from __future__ import annotations

import copy
import difflib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from grpo_tui.config import yaml_lines
from grpo_tui.config.adapters import adapter_as_model
from grpo_tui.config.batch import BATCH_KEYS, batch_findings
from grpo_tui.config.coerce import CoerceError, coerce, numbers_in_text
from grpo_tui.config.document import (
    UnreadableError,
    apply_overrides,
    parse_document,
    read_document,
    set_values,
)
from grpo_tui.config.meant import REMOVED, SECTION, explain, others_inside
from grpo_tui.config.packages import package_findings
from grpo_tui.config.paths import DATA_SUFFIXES, LONGEST_HUB_NAME, Places
from grpo_tui.config.ranges import range_findings
from grpo_tui.config.rules import row_findings
from grpo_tui.config.run_config import ConfigError, RunConfig
from grpo_tui.config.section import SECTION_KEYS, Section, Stage
from grpo_tui.config.section_reader import read_section
from grpo_tui.config.settings import Settings
from grpo_tui.config.stages_reader import LENGTHS, start_findings
from grpo_tui.config.trl_fields import (
    TARGETS,
    FieldInfo,
    FieldsUnavailableError,
    NoDefault,
    class_field_names,
    load_fields,
)
from grpo_tui.core.findings import Finding, Fix, errors_of
from grpo_tui.core.text import one_line

MOST_SHOWN = 120
"""Maximum length of a name in a message."""


def cross_findings(s: Settings, refused: Sequence[Finding]) -> list[Finding]:
    """Check keys against each other.

    Args:
        s: The config. Without a world size the batch arithmetic is skipped.
        refused: Errors of single keys. A key that they concern is not reported as missing too.
    """
    explained = {f.field for f in refused} | {f.fix.field for f in refused if f.fix is not None}
    in_section = s.document.values.get("grpo_tui")
    asked = in_section if isinstance(in_section, dict) else {}
    found = list(row_findings(s, "config", in_section=asked.get("dataset")))
    found += _local_model_findings(s)
    name = s.get("dataset_name")
    if name and not asked.get("dataset") and not s.get("datasets") and _is_no_file(str(name)):
        found.append(_no_such_file(s, str(name)))
    found += _reward_findings(s, asked.get("rewards"))
    if SECTION in explained:  # a misspelled section, which may contain what is missing
        explained |= {"dataset_name", "reward_funcs"}
    found = [f for f in found if f.field not in explained]
    found += row_findings(s, "unsupported")
    found += range_findings(s)
    found += package_findings(s)
    if s.world_size is not None and not explained & set(BATCH_KEYS):
        found += batch_findings(s, s.world_size)
    return found


def _local_model_findings(s: Settings) -> list[Finding]:
    """Check that a model given as a path is a folder with a model. Other names may be on the Hub."""
    name, key = str(s.get("model_name_or_path") or ""), "model_name_or_path"
    path = Path(name).expanduser()
    if not name:
        return []
    shown = one_line(name, MOST_SHOWN)
    if os.path.isdir(path):
        if os.path.isfile(path / "config.json"):
            return []
        if (adapter := adapter_as_model(name)) is not None:
            return [s.error("model.adapter", key, adapter)]
        message = f"no model in the folder {shown}: it has no config.json"
    elif os.path.isfile(path):
        message = f"model_name_or_path is the file {shown}. Use a folder with config.json, or a Hub id"
    elif name.startswith(("/", "./", "../", "~")):
        message = f"there is no folder {shown}"
    elif name.count("/") > 1 or " " in name or len(name) > LONGEST_HUB_NAME:
        message = f"'{shown}' is neither a folder here nor a valid Hub id"
    else:
        return []
    return [s.error("config.missing-model", key, message)]


def _is_no_file(name: str) -> bool:
    """Return whether a dataset name is that of a data file that does not exist."""
    local = "/" not in name or name.startswith(("/", "./", "../", "~"))
    return local and name.lower().endswith(DATA_SUFFIXES) and not os.path.exists(Path(name).expanduser())


def _no_such_file(s: Settings, name: str) -> Finding:
    folder = Path(name).expanduser().absolute().parent
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    near = difflib.get_close_matches(Path(name).name, names, n=1)
    hint = f". Did you mean {near[0]}?" if near else ""
    message = f"dataset_name: there is no file {one_line(str(folder / Path(name).name), 200)}{hint}"
    fix = ("dataset_name", str(Path(name).with_name(near[0]))) if near else None
    return s.error("config.missing-dataset", "dataset_name", message, fix)


def _reward_findings(s: Settings, in_section: Any) -> Iterator[Finding]:
    model = s.get("reward_model_name_or_path")
    names = [model] if model else []
    names += list(s.get("reward_funcs") or ())
    names += [entry.name for entry in s.section.rewards]
    weights, key = s.get("reward_weights"), "reward_weights"
    weighted = [entry.name for entry in s.section.rewards if entry.weight is not None]
    if not names and not in_section:
        message = (
            "no reward: set one in reward_funcs (such as accuracy_reward or my_module.my_reward), in "
            "reward_model_name_or_path, or in grpo_tui.rewards (such as source: rewards.py:correct)"
        )
        yield s.error("config.missing-reward", "reward_funcs", message)
    elif weights is not None and weighted:
        message = (
            f"weights are set twice, in reward_weights and for {', '.join(weighted)} in grpo_tui.rewards. "
            "Keep one of them"
        )
        yield s.error("config.conflict", key, message, (key, None))
    elif weights is not None and len(weights) != len(names):
        message = (
            f"reward_weights has {len(weights)} weight{'s' * (len(weights) != 1)} for {len(names)} "
            f"reward{'s' * (len(names) != 1)}, in this order: {', '.join(names)}"
        )
        fitted = (list(weights) + [1.0] * len(names))[: len(names)]
        yield s.error("config.weights", key, message, (key, fitted))


MOST_UNKNOWN = 20
"""Maximum number of unknown keys reported one by one. A file with more is probably not a config."""

_MODEL_PATHS = ("model_name_or_path", "reward_model_name_or_path")
_FILE_PATHS = ("dataset_name", "resume_from_checkpoint", "deepspeed", "fsdp_config", "accelerator_config")


BEYOND_OVERRIDE = (
    "config.unreadable",
    "config.override",
    "config.no-trl",
    "config.type",
    "config.unknown-key",
    "config.removed-key",
    "config.missing-model",
    "config.missing-dataset",
    "config.missing-reward",
)
"""Errors that leave no config to start, even with `--force`. So do errors in the section."""


@dataclass(frozen=True, slots=True)
class Inspected:
    """A config as far as it could be read, with all findings.

    Attributes:
        file: The absolute path, None if the config is not from a file.
        settings: The values that fit. Without fields if the file cannot be read or TRL is not installed.
        config: None after an error of `BEYOND_OVERRIDE`. Other errors leave one, which `--force` can start.
    """

    file: Path | None
    settings: Settings
    findings: tuple[Finding, ...]
    config: RunConfig | None


WorldSize = int | None | Callable[[Section], int | None]
"""Number of training processes, None if unknown, or a function that gets it from the config's launcher."""


def load_config(path: str | Path, overrides: Sequence[str] = (), *, world_size: WorldSize = 1) -> RunConfig:
    """Read and check a config file.

    Args:
        overrides: `K=V` texts. V is YAML, K may be dotted (`grpo_tui.holdout=8`,
            `grpo_tui.rewards.0.weight=2`).
        world_size: Number of training processes for the batch arithmetic. None skips that check.

    Raises:
        ConfigError: The file cannot start a run. `findings` has all errors.
    """
    return startable(inspect_config(path, overrides, world_size=world_size))


def inspect_config(
    path: str | Path,
    overrides: Sequence[str] = (),
    *,
    world_size: WorldSize = 1,
    text: str | None = None,
    document: yaml_lines.YamlDocument | None = None,
) -> Inspected:
    """Read a config as far as possible. Errors become findings.

    Args:
        path: The YAML file. File names in it are looked up next to it.
        overrides: As for `load_config`.
        world_size: As for `load_config`.
        text: Text of an editor. The file is then not read and need not exist.
        document: The parsed text. It is changed by the overrides.
    """
    file = Path(path).expanduser().absolute()
    try:
        if document is None:
            document = read_document(file, loose=True) if text is None else parse_document(text, loose=True)
    except UnreadableError as error:
        unread = Settings({}, Section(), {}, world_size=_world_size(world_size, Section()))
        return Inspected(file, unread, (error.finding,), None)
    return _inspect(document, file, Places(file.parent, Path.cwd()), overrides, world_size)


def inspect_saved(
    config: RunConfig, overrides: Sequence[str] = (), *, world_size: WorldSize = 1
) -> Inspected:
    """Inspect a stored config, as `inspect_config` does with a file, which may have changed.

    File names are resolved from where it was first loaded.
    """
    document, places = _stored(config)
    return _of_origin(_inspect(document, config.path, places, overrides, world_size), config)


def inspect_stage(config: RunConfig, place: int, first: int = 0, *, world_size: WorldSize = 1) -> Inspected:
    """Inspect a config as one of its stages trains it.

    Args:
        config: The config without the settings of a stage.
        place: Position of the stage, from 0.
        first: Step after which the stage begins.
        world_size: As for `load_config`.
    """
    document, places = _stored(config)
    stage = config.section.stages[place]
    return _of_origin(_stage(document, config.path, places, world_size, stage, first), config)


def _stored(config: RunConfig) -> tuple[yaml_lines.YamlDocument, Places]:
    """Return a copy of a stored config's document, and where its file names are looked up."""
    cwd = Path(config.cwd or Path.cwd())
    places = Places(config.path.parent if config.path is not None else cwd, cwd)
    return yaml_lines.YamlDocument(copy.deepcopy(config.raw)), places


def _of_origin(found: Inspected, config: RunConfig) -> Inspected:
    if found.config is None:
        return found
    return replace(found, config=replace(found.config, origin=config.origin))


def _stage(
    document: yaml_lines.YamlDocument,
    file: Path | None,
    places: Places,
    world_size: WorldSize,
    stage: Stage,
    first: int = 0,
) -> Inspected:
    """Inspect a document with the settings of a stage. Changes the document."""
    wrong = set_values(document, {**stage.set, "max_steps": first + stage.limit})
    document.values.pop("num_train_epochs", None)
    found = _inspect(document, file, places, (), world_size, stages=False)
    if wrong:
        return replace(found, findings=(*wrong, *found.findings), config=None)
    return found


def _stage_findings(
    document: yaml_lines.YamlDocument, inspected: Inspected, places: Places, world_size: WorldSize
) -> Iterator[Finding]:
    """Yield what is wrong with the stages only, and settings that they replace."""
    for key in LENGTHS:
        if key in document.values:
            said = f"{key} has no effect: grpo_tui.stages sets the number of steps"
            yield Finding("section.stages", "warning", key, document.line(key), said, Fix(key, None))
    for place, stage in enumerate(inspected.settings.section.stages):
        found = _stage(copy.deepcopy(document), inspected.file, places, world_size, stage)
        yield from of_stage(found.findings, inspected.findings, document, place, stage)
        yield from start_findings(found.settings, ("grpo_tui", "stages", place), stage)


def of_stage(
    found: Iterable[Finding],
    known: Iterable[Finding],
    document: yaml_lines.YamlDocument,
    place: int,
    stage: Stage,
) -> Iterator[Finding]:
    """Yield findings of a stage that are not among those of the config, with the stage's name and line."""
    said = {(one.id, one.message) for one in known}
    for one in found:
        message = f"stage {one_line(stage.name, 40)}: {one.message}"
        if not said.isdisjoint({(one.id, one.message), (one.id, message)}):
            continue
        path: list[str | int] = ["grpo_tui", "stages", place]
        own = next((key for key in stage.set if one.field and f"{one.field}.".startswith(f"{key}.")), None)
        if own is not None:
            path += ["set", own]
        field = ".".join(map(str, path))
        yield replace(one, field=field, line=document.line(*path), message=message, fix=None)


def startable(inspected: Inspected, *, force: bool = False) -> RunConfig:
    """Return the config. With `force`, accept errors as long as a config results.

    Raises:
        ConfigError: It cannot start a run. `findings` has all errors.
    """
    if inspected.config is None or (errors_of(inspected.findings) and not force):
        raise ConfigError(inspected.findings, inspected.file)
    return inspected.config


def _inspect(
    document: yaml_lines.YamlDocument,
    file: Path | None,
    places: Places,
    overrides: Sequence[str],
    world_size: WorldSize,
    *,
    stages: bool = True,
) -> Inspected:
    """Inspect a document.

    Args:
        stages: Whether the document is a whole config, not that of one of its stages.
    """
    findings = [Finding("config.unreadable", "error", t.key, t.line, t.message) for t in document.twice]
    findings += apply_overrides(document, overrides)
    try:
        fields = load_fields()
    except FieldsUnavailableError as error:
        findings.append(Finding("config.no-trl", "error", None, None, str(error)))
        unread = Settings({}, Section(), {}, document, _world_size(world_size, Section()))
        return Inspected(file, unread, tuple(findings), None)
    section, section_findings = read_section(document, places)
    resolver = _Resolver(document, fields, places)
    parts = resolver.parts()
    if stages and section.stages:
        parts["GRPOConfig"]["max_steps"] = sum(stage.limit for stage in section.stages)
    findings += resolver.findings + section_findings
    settings = Settings(parts, section, fields, document, _world_size(world_size, section))
    findings += cross_findings(settings, errors_of(findings))
    beyond = errors_of(section_findings) or any(f.id in BEYOND_OVERRIDE for f in errors_of(findings))
    config = None
    if not beyond:
        config = config_of(settings, file, places.cwd)
        config = replace(config, findings=tuple(findings), env=resolver.env)
    inspected = Inspected(file, settings, tuple(findings), config)
    if not stages or not section.stages:
        return inspected
    findings += _stage_findings(document, inspected, places, world_size)
    if config is not None:
        config = replace(config, findings=tuple(findings))
    return replace(inspected, findings=tuple(findings), config=config)


def config_of(settings: Settings, file: Path | None, cwd: Path) -> RunConfig:
    """Return the settings as a config, complete or not, without environment and findings."""
    return RunConfig(
        path=file,
        model=settings.model,
        grpo=dict(settings.parts["GRPOConfig"]),
        model_args=dict(settings.parts["ModelConfig"]),
        script=dict(settings.parts["GRPOScriptArguments"]),
        mixture=dict(settings.parts["DatasetMixtureConfig"]),
        section=settings.section,
        raw=dict(settings.document.values),
        cwd=str(cwd),
    )


def _world_size(asked: WorldSize, section: Section) -> int | None:
    return asked(section) if callable(asked) else asked


class _Resolver:
    """Assigns the keys of a document to TRL's dataclasses and converts their values."""

    def __init__(self, document: yaml_lines.YamlDocument, fields: Any, places: Places) -> None:
        self.document = document
        self.fields = fields
        self.places = places
        self.findings: list[Finding] = []
        self.env: dict[str, str] = {}

    def parts(self) -> dict[str, dict[str, Any]]:
        """Return the explicitly set arguments of each dataclass."""
        parts: dict[str, dict[str, Any]] = {owner: {} for owner in TARGETS}
        unknown = 0
        for key, value in self.document.values.items():
            if key == "grpo_tui":
                self._old_numbers(("grpo_tui",), value)
                continue
            if key == "env":
                self._read_env(value)
            elif key in self.fields:
                info = self.fields[key]
                try:
                    parts[info.owner][key] = self._value(info, copy.deepcopy(value))
                except CoerceError as error:
                    self._refuse(key, error)
            elif (unknown := unknown + 1) > MOST_UNKNOWN:
                continue
            else:
                self._strange(key, value)
        if unknown > MOST_UNKNOWN:
            message = f"and {unknown - MOST_UNKNOWN} more unknown keys"
            self.findings.append(Finding("config.unknown-key", "error", None, None, message))
        return parts

    def _strange(self, key: str, value: Any) -> None:
        """Report a key that TRL does not have, and the settings inside it."""
        rule = "config.removed-key" if key in REMOVED else "config.unknown-key"
        present = self.document.values
        message, fix = explain(key, value, self.fields, SECTION_KEYS, present=present, fits=self._fits)
        self._add(rule, "error", key, message, self._as_number(fix))
        for inner, words, moved in others_inside(key, value, self.fields):
            if moved.field not in present:
                self._add(rule, "error", inner, words, self._as_number(moved))

    def _as_number(self, fix: Fix | None) -> Fix | None:
        """Return the fix of a moved value with a number for text such as `1e-6`, if its new key takes one."""
        if fix is None or fix.field not in self.fields or not self._fits(fix.field, fix.value):
            return fix
        read = coerce(self.fields[fix.field], fix.value).value
        return Fix(fix.field, read) if isinstance(fix.value, str) and isinstance(read, int | float) else fix

    def _fits(self, name: str, value: Any) -> bool:
        try:
            coerce(self.fields[name], value)
        except CoerceError:
            return False
        return True

    def _value(self, info: FieldInfo, value: Any) -> Any:
        self._old_number((info.name,), value)
        coerced = coerce(info, value)
        if coerced.note is not None:
            self._add("config.coerced", "info", info.name, coerced.note, Fix(info.name, coerced.value))
        value = coerced.value
        if isinstance(value, dict):
            value = self._nested(value, (info.name,))
            # Store the meaning, so that the saved values are read the same without the file's quotes.
            self.document.values[info.name] = copy.deepcopy(value)
        if info.name == "model_init_kwargs" and isinstance(value, dict) and "torch_dtype" in value:
            message = (
                "Rename model_init_kwargs.torch_dtype to dtype: TRL ignores the old name silently and loads "
                "the model in float32"
            )
            fix = Fix("model_init_kwargs.dtype", str(value["torch_dtype"]).removeprefix("torch."))
            self._add("config.removed-key", "error", "model_init_kwargs.torch_dtype", message, fix)
        if info.name == "datasets" and isinstance(value, list):
            return [self._mixture_entry(index, dict(entry)) for index, entry in enumerate(value)]
        if isinstance(value, str) and value and info.name in _MODEL_PATHS:
            return self._anchored(info.name, value, self.places.model_path(value))
        if isinstance(value, str) and value and info.name in _FILE_PATHS:
            return self._anchored(info.name, value, self.places.existing_path(value))
        return value

    def _anchored(self, key: str, written: str, found: str) -> str:
        """Report a file found next to the config, where TRL itself would not look."""
        if found != written and not os.path.exists(self.places.cwd / Path(written).expanduser()):
            message = f"{key} is relative to the folder of the config: {found}"
            self._add("config.beside", "info", key, message, None)
        return found

    def _nested(self, value: dict[str, Any], path: yaml_lines.Path) -> dict[str, Any]:
        """Convert unquoted numbers inside a mapping such as `1e-5`, which YAML reads as strings."""
        read: dict[str, Any] = {}
        for key, item in value.items():
            where = (*path, str(key))
            self._old_number(where, item)
            number = numbers_in_text(item)
            if number is not None and where in self.document.plain:
                dotted = ".".join(map(str, where))
                message = f"{dotted} was the text '{item}'; read as {number!r}"
                self._add("config.coerced", "info", dotted, message, Fix(dotted, number))
                item = number
            read[key] = self._nested(item, where) if isinstance(item, dict) else item
        return read

    def _old_numbers(self, path: yaml_lines.Path, value: Any) -> None:
        inner = (
            value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        )
        for part, item in inner:
            self._old_numbers((*path, part), item)
        self._old_number(path, value)

    def _old_number(self, path: yaml_lines.Path, value: Any) -> None:
        """Warn about a number that YAML 1.1 reads differently: 020 as 16, 1:30 as 90."""
        written = self.document.plain.get(path, "")
        if not isinstance(value, int | float) or isinstance(value, bool):
            return
        key = ".".join(map(str, path))
        if re.fullmatch(r"[+-]?0[0-7_]+", written):
            meant: int | None = int(written.replace("_", ""))
            how = f"YAML reads {key}: {written} as the octal number {value}"
        elif ":" in written:
            meant, how = None, f"YAML reads {key}: {written} as the base-60 number {value}"
        else:
            return
        if meant != value:
            self._add("config.yaml-number", "warning", key, how, Fix(key, meant))

    def _mixture_entry(self, index: int, entry: dict[str, Any]) -> dict[str, Any]:
        known = class_field_names("DatasetConfig")
        for key in entry:
            if key not in known:
                message, fix = explain(str(key), entry[key], known, ())
                dotted = f"datasets.{index}.{key}"
                message = message.replace(f"unknown key {key}", f"unknown key {key} in `datasets:`")
                nested = Fix(f"datasets.{index}.{fix.field}", fix.value) if fix is not None else None
                line = self.document.line("datasets", index, key)
                self.findings.append(Finding("config.unknown-key", "error", dotted, line, message, nested))
        if not isinstance(entry.get("path"), str):
            key, line = f"datasets.{index}.path", self.document.line("datasets", index)
            message = f"datasets.{index} needs a path: a Hub name, a folder, or a format such as json with "
            message += "data_files"
            self.findings.append(Finding("config.type", "error", key, line, message))
            return entry
        entry["path"] = self.places.existing_path(entry["path"])
        files = entry.get("data_files")
        if isinstance(files, str):
            entry["data_files"] = self.places.existing_path(files)
        elif isinstance(files, list):
            entry["data_files"] = [self.places.existing_path(str(name)) for name in files]
        return entry

    def _read_env(self, value: Any) -> None:
        if not isinstance(value, dict):
            self._add("config.type", "error", "env", "env must be a mapping of environment variables", None)
            return
        self.env = {str(name): str(item) for name, item in value.items()}

    def _refuse(self, key: str, error: CoerceError) -> None:
        info = self.fields[key]
        removable = error.remove or (key not in _MODEL_PATHS and not isinstance(info.default, NoDefault))
        suggestion = error.suggestion
        if suggestion is None and isinstance(self.document.values[key], bool):
            suggestion = self.document.plain.get((key,))  # `run_name: on`, meant as text
        fix = Fix(key, suggestion) if suggestion is not None or removable else None
        self._add("config.type", "error", key, str(error), fix)

    def _add(self, rule: str, severity: Any, key: str, message: str, fix: Fix | None) -> None:
        line = self.document.line(*key.split("."))
        if rule == "config.coerced" and line is None:
            return  # from the command line, where nothing has to be written differently
        self.findings.append(Finding(rule, severity, key, line, message, fix))
