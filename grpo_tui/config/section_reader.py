"""Parse the YAML below `grpo_tui:` into a `Section`, with a finding for each invalid value.

Checks types, names and whether files exist. Reads no data and imports no reward.
"""

from __future__ import annotations

import difflib
import math
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from grpo_tui.config.coerce import kind_of, names_in, numbers_in_text
from grpo_tui.config.meant import meant_number, nearest
from grpo_tui.config.paths import DATA_SUFFIXES, Places, split_file_source
from grpo_tui.config.section import (
    ANSWER_KINDS,
    FILTER_KEYS,
    PROBE_KEYS,
    SECTION_KEYS,
    AnswerSpec,
    FewShot,
    Filters,
    ProbePrompts,
    RewardEntry,
    Section,
)
from grpo_tui.config.section_parts import (
    judge_evaluate,
    read_evaluate,
    read_health,
    read_notify,
    read_on,
)
from grpo_tui.config.stages_reader import read_stages
from grpo_tui.config.trl_fields import load_fields
from grpo_tui.config.yaml_lines import YamlDocument
from grpo_tui.core.conditions import Condition, ConditionError, parse
from grpo_tui.core.findings import Finding, Fix
from grpo_tui.core.text import one_line

ROOT = "grpo_tui"
MOST_SAMPLES = 64
_COUNTS = (
    "holdout", "min_prompt_tokens", "max_prompt_tokens", "every", "prompts", "count", "rows", "samples", "k",
)  # fmt: skip
REWARD_ALIASES = {
    "args": "params",
    "callable": "source",
    "coef": "weight",
    "file": "source",
    "func": "source",
    "function": "source",
    "import": "source",
    "kwargs": "params",
    "parameters": "params",
    "path": "source",
    "reward": "source",
    "scale": "weight",
}
"""Common wrong names of a reward's keys."""


def _meant(path: list[str], value: Any) -> Any:
    """Return the value that was probably meant, or None to remove the key."""
    match path:
        case ["rewards"]:
            return _rewards(value)
        case ["columns"]:
            return _columns(value)
        case ["few_shot"]:
            return [value] if isinstance(value, dict) and {"user", "assistant"} <= set(value) else None
        case ["system_prompt"]:
            return "\n".join(map(str, value)) if isinstance(value, list) else None
        case ["launcher"]:
            return _launcher(value)
        case ["gpus"]:
            numbers = isinstance(value, list) and all(isinstance(n, int) and n >= 0 for n in value)
            return list(dict.fromkeys(value)) or None if numbers else None
        case ["filters"]:
            return {"max_prompt_tokens": value} if _whole(value) else None
        case ["filters", "drop_null"] if isinstance(value, str):
            return names_in(value, spaced=True) or [value]
        case ["probe_prompts"] | ["evaluate"]:
            return {"every": 50 if value is True else value} if value is True or _whole(value) else None
        case ["chat"] | ["filters", _] if value in (0, 1):
            return bool(value) if path[-1] in ("chat", "drop_null", "drop_duplicates") else None
    number = meant_number(value) if path and path[-1] in _COUNTS else None
    usable = number is not None and math.isfinite(number) and number >= 1
    return round(number) if usable and number is not None else None


def _rewards(value: Any) -> list[Any] | None:
    if isinstance(value, str):
        return names_in(value, spaced=True) or [value]
    if not isinstance(value, dict):
        return None
    if "source" in value or "name" in value:
        return [value]
    if value and all(isinstance(source, str) for source in value.values()):
        return [{"name": name, "source": source} for name, source in value.items()]
    return None


def _columns(value: Any) -> dict[str, str] | None:
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, str):
        return {"prompt": value} if value != "prompt" else None
    if isinstance(value, dict):
        return {str(k): str(v) for k, v in value.items() if isinstance(v, str | int)} or None
    return None


def _launcher(value: Any) -> str | None:
    words = [str(word) for word in value] if isinstance(value, list) else str(value).split()
    if words[:1] == ["accelerate"] and words[1:2] != ["launch"]:
        words.insert(1, "launch")
    known = words[:2] == ["accelerate", "launch"] or words[:1] == ["torchrun"]
    return " ".join(words) if known and not any("'" in word or '"' in word for word in words) else None


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


KeyPath = Sequence[str | int]


def dotted(path: KeyPath) -> str:
    """Return a path within the section as a dotted key, such as `grpo_tui.rewards.0.weight`."""
    return ".".join([ROOT, *(str(part) for part in path)])


class SectionValues:
    """Reads values of one document and collects findings about them."""

    def __init__(self, document: YamlDocument, places: Places) -> None:
        self.document = document
        self.places = places
        self.findings: list[Finding] = []

    def written(self, path: KeyPath) -> Any:
        """Return the raw value at a path within the section, None if there is none."""
        value: Any = self.document.values.get(ROOT)
        for part in path:
            holds = isinstance(value, dict) or (isinstance(value, list) and isinstance(part, int))
            try:
                value = value[part] if holds else None
            except (KeyError, IndexError):
                return None
        return value

    def line(self, path: KeyPath) -> int | None:
        """Return the line of a key in the section."""
        return self.document.line(ROOT, *path)

    def error(self, rule: str, path: KeyPath, message: str, fix: Fix | None = None) -> None:
        """Add an error. An invalid value without a `fix` gets one for what was probably meant."""
        if fix is None and rule in ("section.type", "section.range", "section.choice"):
            fix = Fix(dotted(path), _meant(list(map(str, path)), self.written(path)))
        self.findings.append(Finding(rule, "error", dotted(path), self.line(path), message, fix))

    def wrong(self, path: KeyPath, what: str, fix: Fix | None = None) -> None:
        """Add a type error whose message is the key followed by `what`."""
        self.error("section.type", path, f"{dotted(path)} {what}", fix)

    def warn(self, rule: str, path: KeyPath, message: str, fix: Fix | None = None) -> None:
        """Add a warning."""
        self.findings.append(Finding(rule, "warning", dotted(path), self.line(path), message, fix))

    def info(self, path: KeyPath, was: Any, read: Any, said: str | None = None) -> None:
        """Report that a value was converted to `read`, in words `said`."""
        key, fix = dotted(path), Fix(dotted(path), read)
        message = f"{key} was {was}; read as {read if said is None else said}"
        self.findings.append(Finding("config.coerced", "info", key, self.line(path), message, fix))

    def mapping(self, path: KeyPath, value: Any, what: str) -> dict[Any, Any] | None:
        """Return a mapping, None for no value. Any other value is an error: the key, then `what`."""
        if value is None or isinstance(value, dict):
            return value
        self.wrong(path, what)
        return None

    def listed(self, path: KeyPath, value: Any, what: str) -> list[Any]:
        """Return a list, empty for no value. Any other value is an error: the key, then `what`."""
        if value is None or isinstance(value, list):
            return value or []
        self.wrong(path, what)
        return []

    def refuse_unknown(
        self,
        path: KeyPath,
        value: Mapping[str, Any],
        known: Sequence[str],
        aliases: Mapping[str, str] | None = None,
    ) -> None:
        """Add an error for each key not in `known`.

        The fix is the closest known key, or the top level for a key of TRL.

        Args:
            aliases: Common wrong names → valid keys.
        """
        for key in value:
            if key in known:
                continue
            if not path and key in load_fields():
                message = f"Move {key} to the top level: it is a TRL key and not part of grpo_tui"
                there = key in self.document.values
                fix = Fix(dotted((key,)), None) if there else Fix(str(key), value[key])
                self.error("section.unknown-key", (key,), message, fix)
                continue
            meant = (aliases or {}).get(str(key))
            near = nearest(str(key).replace("-", "_"), known, cutoff=0.5)
            hint = f"Did you mean {near}?" if near else f"Known keys: {', '.join(known)}"
            if meant is not None and meant not in value:
                near, hint = meant, f"Use {meant}"
            fix = Fix(dotted((*path, near)), value[key]) if near else Fix(dotted((*path, key)), None)
            message = f"unknown key {key} in {dotted(path)}. {hint}"
            self.error("section.unknown-key", (*path, key), message, fix)

    def text(self, path: KeyPath, value: Any) -> str | None:
        """Read a string. Numbers and booleans are converted, with a notice."""
        if value is None or isinstance(value, str):
            return value
        if isinstance(value, (bool, int, float)):
            self.info(path, repr(value), str(value), f"the text '{value}'")
            return str(value)
        self.wrong(path, f"must be text; it is a {kind_of(value)}")
        return None

    def whole_number(self, path: KeyPath, value: Any, of: str) -> int | None:
        """Read an integer of at least 0.

        Args:
            of: What is counted, for the message.
        """
        if value is None:
            return None
        number = numbers_in_text(value)
        if number is not None and number.is_integer():
            self.info(path, f"the text '{value}'", int(number))
            value = int(number)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
        self.wrong(path, f"must be a whole number of {of}, 0 or more; it is {value!r}")
        return None

    def flag(self, path: KeyPath, value: Any) -> bool | None:
        """Read a boolean, also written as yes, no, on or off."""
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str) and value.lower() in ("true", "yes", "on", "false", "no", "off"):
            read = value.lower() in ("true", "yes", "on")
            self.info(path, f"the text '{value}'", read, str(read).lower())
            return read
        self.wrong(path, f"must be true or false; it is {value!r}")
        return None

    def number(self, path: KeyPath, value: Any) -> float | None:
        """Read a number."""
        if value is None:
            return None
        number = numbers_in_text(value)
        if number is not None:
            self.info(path, f"the text '{value}'", number)
            return number
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
        self.wrong(path, f"must be a number; it is {value!r}", Fix(dotted(path), 1.0))
        return None

    def counts(
        self, path: KeyPath, value: Mapping[Any, Any], of: Mapping[str, str], limited: Sequence[str]
    ) -> dict[str, int]:
        """Read the integers of at least 1 in a mapping.

        Args:
            of: Key → what is counted, for the message.
            limited: Keys with at most `MOST_SAMPLES`.
        """
        numbers = {}
        for key, what in of.items():
            number, limit = self.whole_number((*path, key), value.get(key), what), key in limited
            if number == 0 or (number is not None and limit and number > MOST_SAMPLES):
                allowed = f"1 to {MOST_SAMPLES}" if limit else "1 or more"
                self.error("section.range", (*path, key), f"{dotted((*path, key))} must be {allowed}")
            elif number is not None:
                numbers[key] = number
        return numbers

    def condition(self, path: KeyPath, text: str, unless: str) -> Condition | None:
        """Read a condition. The fix of an invalid one is what was meant, or to remove the key `unless`."""
        try:
            return parse(text)
        except ConditionError as error:
            fix = Fix(dotted(path), error.meant) if error.meant else Fix(unless, None)
            message = f"{dotted(path)} is {text!r}, which is not a condition. {error}"
            self.error("section.choice", path, message, fix)
            return None

    def file(self, path: KeyPath, name: str) -> Path:
        """Return the absolute path of a file named relative to the config. A missing file is an error."""
        found = self.places.beside_config(name)
        if not os.path.isfile(found):
            names = sorted(os.listdir(found.parent)) if os.path.isdir(found.parent) else []
            alike = [other for other in names if other.endswith(".py") == found.name.endswith(".py")]
            near = difflib.get_close_matches(found.name, alike, n=1)
            hint, written, fix = f". Did you mean {near[0]}?" if near else "", self.written(path), None
            if near and isinstance(written, str) and written.count(name) == 1:
                fix = Fix(dotted(path), written.replace(name, str(Path(name).with_name(near[0]))))
            message = f"{dotted(path)}: there is no file {one_line(str(found), 200)}{hint}"
            self.error("section.missing-file", path, message, fix)
        return found


def read_rewards(values: SectionValues, value: Any) -> tuple[RewardEntry, ...]:
    """Parse the list of rewards and add a finding to `values` for each invalid entry."""
    value = values.listed(("rewards",), value, "must be a list of {name, source, weight, params}")
    read = [(index, _reward(values, index, item)) for index, item in enumerate(value)]
    entries = [entry for _, entry in read if entry is not None]
    seen: dict[str, RewardEntry] = {}
    for index, entry in read:
        if entry is None:
            continue
        if entry.name in seen:
            line = f" (the other on line {seen[entry.name].line})" if seen[entry.name].line else ""
            said = (
                f"two rewards are named {entry.name}{line}, so their metrics would share one name. Rename one"
            )
            fix = _renamed(index, value[index], entry.name, [e.name for e in entries])
            found = Finding("section.duplicate-reward", "error", "grpo_tui.rewards", entry.line, said, fix)
            values.findings.append(found)
        seen[entry.name] = entry
    return tuple(entries)


def _renamed(index: int, item: Any, name: str, taken: list[str]) -> Fix:
    """Return a fix that gives the second of two equally named rewards a unique name."""
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
        values.wrong(path, f"must be a mapping with source; it is {item!r}")
        return None
    values.refuse_unknown(path, item, ("name", "source", "weight", "params"), REWARD_ALIASES)
    name = values.text((*path, "name"), item.get("name"))
    source = values.text((*path, "source"), item.get("source")) or name
    if not source and any(REWARD_ALIASES.get(str(key)) == "source" for key in item):
        return None  # already reported, with its fix
    if not source:
        said = f"{dotted(path)} needs source: a TRL name, pkg.mod:func or file.py:func"
        values.error("section.missing", path, said)
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
        values.wrong((*path, "params"), "must be a mapping of arguments")
        params = None
    weight = values.number((*path, "weight"), item.get("weight"))
    params = _placed(values, _numbers(values, path, params or {}))
    return RewardEntry(name, source, weight, params, values.line(path))


def _placed(values: SectionValues, value: Any) -> Any:
    """Make every `file.py:function` inside a param absolute, as in a reward that wraps another one."""
    if isinstance(value, dict):
        return {key: _placed(values, inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_placed(values, inner) for inner in value]
    parts = split_file_source(value) if isinstance(value, str) else None
    file = values.places.beside_config(parts[0]) if parts is not None else None
    return f"{file}:{parts[1]}" if parts is not None and file is not None and os.path.isfile(file) else value


def _numbers(values: SectionValues, path: KeyPath, params: dict[str, Any]) -> dict[str, Any]:
    """Convert unquoted numbers such as `1e-5`, which YAML reads as strings."""
    read = dict(params)
    for key, value in params.items():
        where = (*path, "params", key)
        number = numbers_in_text(value)
        if number is not None and (ROOT, *where) in values.document.plain:
            values.info(where, f"the text '{value}'", number)
            params[key] = read[key] = number
    return read


_CONFIG_FLAGS = ("--config_file", "--config-file")
_GPU = re.compile(r"\d+|GPU-[0-9a-fA-F-]+|MIG-[\w/-]+")


def read_launcher(values: SectionValues, value: Any) -> str | None:
    """Parse the launcher's command line. Its config file is looked up next to this config first."""
    path = ("launcher",)
    text = values.text(path, value)
    if text is None:
        return None
    try:
        words = shlex.split(text)
    except ValueError as problem:
        values.wrong(path, f"is not a valid command line: {problem}")
        return None
    if words[:2] != ["accelerate", "launch"] and words[:1] != ["torchrun"]:
        said = f'grpo_tui.launcher is "{text}". Use "accelerate launch …" or "torchrun …"'
        values.error("section.choice", path, said)
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
            values.error("section.type", path, f"grpo_tui.launcher: give a file after {flag}")
    return shlex.join(words)


def read_gpus(values: SectionValues, value: Any) -> tuple[str, ...]:
    """Parse the GPUs: `2`, `[2, 3]` or `"2,3"`, with numbers or UUIDs of nvidia-smi."""
    path = ("gpus",)
    if value is None:
        return ()
    items = value if isinstance(value, list) else str(value).split(",")
    found = tuple("" if isinstance(item, bool) else str(item).strip() for item in items)
    wrong = next((item for item in found if not _GPU.fullmatch(item)), None)
    if isinstance(value, bool) or wrong is not None or not found:
        values.wrong(path, f"must be a list of GPU numbers from nvidia-smi, such as [2, 3]; it is {value!r}")
        return ()
    doubled = next((item for item in found if found.count(item) > 1), None)
    if doubled is not None:
        values.wrong(path, f"names the GPU {doubled} twice")
        return ()
    return found


def read_section(document: YamlDocument, places: Places) -> tuple[Section, list[Finding]]:
    """Parse the section of a config. A config without one gives an empty section."""
    reader = _SectionReader(document, places)
    value = document.values.get(ROOT)
    if value is None:
        return Section(), []
    if not isinstance(value, dict):
        reader.wrong((), f"must be a mapping of settings; it is {value!r}")
        return Section(), reader.findings
    return reader.section(value), reader.findings


class _SectionReader(SectionValues):
    def section(self, value: Mapping[str, Any]) -> Section:
        self.refuse_unknown((), value, SECTION_KEYS)
        section = Section(
            columns=self.columns(value.get("columns")),
            system_prompt=self.text(("system_prompt",), value.get("system_prompt")),
            few_shot=self.few_shot(value.get("few_shot")),
            answer=self.answer(value.get("answer")),
            dataset=self.dataset(("dataset",), value.get("dataset")),
            eval_dataset=self.dataset(("eval_dataset",), value.get("eval_dataset")),
            filters=self.filters(value.get("filters")),
            holdout=self.whole_number(("holdout",), value.get("holdout"), "rows") or 0,
            probe_prompts=self.probe_prompts(value.get("probe_prompts")),
            evaluate=read_evaluate(self, value.get("evaluate")),
            chat=self.flag(("chat",), value.get("chat")),
            rewards=read_rewards(self, value.get("rewards")),
            launcher=read_launcher(self, value.get("launcher")),
            gpus=read_gpus(self, value.get("gpus")),
            health=read_health(self, value.get("health")),
            notify=read_notify(self, value.get("notify")),
            on=read_on(self, value.get("on")),
            stages=read_stages(self, value.get("stages")),
        )
        if section.chat is False and (section.system_prompt is not None or section.few_shot):
            said = "grpo_tui.chat is false, so system_prompt and few_shot would not be used"
            self.error("section.conflict", ("chat",), said, Fix("grpo_tui.chat", True))
        probes = section.probe_prompts
        if probes is not None and probes.source == "holdout" and not section.holdout:
            said = "uses the holdout set, but grpo_tui.holdout is 0. Set it to 32 or so"
            path, fix = ("probe_prompts",), Fix("grpo_tui.holdout", 32)
            self.error("section.conflict", path, f"{dotted(path)} {said}", fix)
        judge_evaluate(self, section)
        return section

    def columns(self, value: Any) -> dict[str, str]:
        if value is None:
            return {}
        if isinstance(value, dict) and all(
            isinstance(k, str) and isinstance(v, str) for k, v in value.items()
        ):
            return dict(value)
        self.wrong(("columns",), "must map a new name to a dataset column, such as `prompt: question`")
        return {}

    def few_shot(self, value: Any) -> tuple[FewShot, ...]:
        shots = []
        examples = self.listed(("few_shot",), value, "must be a list of {user, assistant} examples")
        for index, item in enumerate(examples):
            path = ("few_shot", index)
            if not isinstance(item, dict) or not {"user", "assistant"} <= set(item):
                self.wrong(path, "must have the keys user and assistant")
                continue
            self.refuse_unknown(path, item, ("user", "assistant"))
            user = self.text((*path, "user"), item["user"])
            assistant = self.text((*path, "assistant"), item["assistant"])
            if user is not None and assistant is not None:
                shots.append(FewShot(user, assistant))
        return tuple(shots)

    def answer(self, value: Any) -> AnswerSpec | None:
        if isinstance(value, str):
            value = {"kind": value}
        value = self.mapping(("answer",), value, "must be a mapping, such as `kind: gsm8k`")
        if value is None:
            return None
        self.refuse_unknown(("answer",), value, ("from", "kind", "to", "tag", "pattern"))
        kind = value.get("kind")
        if kind not in ANSWER_KINDS:
            near = nearest(str(kind), ANSWER_KINDS, cutoff=0.4)
            short = isinstance(self.written(("answer",)), str)
            key = "grpo_tui.answer" if short or near is None else "grpo_tui.answer.kind"
            said = f"grpo_tui.answer.kind must be one of {', '.join(ANSWER_KINDS)}; it is {kind!r}"
            self.error("section.choice", ("answer", "kind"), said, Fix(key, near))
            return None
        pattern = self.text(("answer", "pattern"), value.get("pattern"))
        if kind == "regex" and not self.is_pattern(pattern):
            return None
        tag = self.text(("answer", "tag"), value.get("tag"))
        return AnswerSpec(
            source=self.text(("answer", "from"), value.get("from")) or "answer",
            kind=kind,
            to=self.text(("answer", "to"), value.get("to")) or "answer",
            tag=(tag or "answer") if kind == "tag" else tag,
            pattern=pattern,
        )

    def is_pattern(self, pattern: str | None) -> bool:
        path = ("answer", "pattern")
        if not pattern:
            message = "grpo_tui.answer.kind: regex needs a pattern"
            self.error("section.missing", path, message, Fix("grpo_tui.answer", None))
            return False
        try:
            re.compile(pattern)
        except re.error as problem:
            self.wrong(path, f"is not a valid regular expression: {problem}", Fix("grpo_tui.answer", None))
            return False
        return True

    def dataset(self, path: KeyPath, value: Any) -> str | None:
        name = self.text(path, value)
        if name is None:
            return None
        if "://" in name:
            message = f"{dotted(path)} is a URL. Download the file and use its path, or set dataset_name"
            self.error("section.address", path, message)
            return None
        source = split_file_source(name)
        if source is not None:
            found = self.file(path, source[0])
            return f"{found}:{source[1]}"
        if not name.lower().endswith(DATA_SUFFIXES):
            message = (
                f"{dotted(path)} must be a csv, tsv, jsonl, json or parquet file, or file.py:function; it is "
                f"'{name}'. For a Hub dataset set dataset_name at the top level"
            )
            fix = Fix("dataset_name", name) if not Path(name).suffix or name.count("/") == 1 else None
            self.error("section.choice", path, message, fix)
            return None
        return str(self.file(path, name))

    def filters(self, value: Any) -> Filters:
        path = ("filters",)
        value = self.mapping(path, value, "must be a mapping, such as `max_prompt_tokens: 512`")
        if value is None:
            return Filters()
        self.refuse_unknown(path, value, FILTER_KEYS)
        least, most = (
            self.whole_number((*path, key), value.get(key), "tokens")
            for key in ("min_prompt_tokens", "max_prompt_tokens")
        )
        if least is not None and most is not None and least > most:
            key = (*path, "min_prompt_tokens")
            said = f"{dotted(path)} keeps no row: min_prompt_tokens {least} is above max_prompt_tokens {most}"
            self.error("section.conflict", key, said, Fix(dotted(key), None))
        if most == 0:
            key = (*path, "max_prompt_tokens")
            self.error("section.range", key, f"{dotted(key)} 0 keeps no row")
        nulls = value.get("drop_null")
        columns: tuple[str, ...] = ()
        if isinstance(nulls, list):
            columns = tuple(str(name) for name in nulls)
            nulls = True
        files = {
            key: str(self.file((*path, key), name))
            for key in ("exclude", "only")
            if (name := self.text((*path, key), value.get(key))) is not None
        }
        return Filters(
            **files,
            min_prompt_tokens=least,
            max_prompt_tokens=most,
            drop_null=self.flag((*path, "drop_null"), nulls) or False,
            null_columns=columns,
            drop_duplicates=self.flag((*path, "drop_duplicates"), value.get("drop_duplicates")) or False,
        )

    def probe_prompts(self, value: Any) -> ProbePrompts | None:
        path, value = ("probe_prompts",), None if value is False else value
        value = self.mapping(path, value, "must be a mapping, such as `every: 50`")
        if value is None:
            return None
        self.refuse_unknown(path, value, PROBE_KEYS)
        texts: tuple[str, ...] = ()
        source = value.get("source", "holdout")
        if isinstance(source, list):
            texts, source = tuple(str(text) for text in source), ""
        elif source != "holdout":
            source = self.dataset((*path, "source"), source) or ""
        counted = {"every": "steps", "prompts": "rows", "count": "completions"}
        numbers = self.counts(path, value, counted, ("count",))
        if texts:
            numbers["prompts"] = len(texts)
        temperature = self.number((*path, "temperature"), value.get("temperature"))
        if temperature is not None and not (temperature == 0 or 0.01 <= temperature <= 100):
            key = (*path, "temperature")
            self.error("section.range", key, f"{dotted(key)} must be 0 or 0.01 to 100")
        add, remove = (self._prompts((*path, key), value.get(key)) for key in ("add", "remove"))
        return ProbePrompts(
            source=source, texts=texts, temperature=temperature, add=add, remove=remove, **numbers
        )

    def _prompts(self, path: KeyPath, value: Any) -> tuple[str, ...]:
        """Read a list of prompts as texts."""
        texts = self.listed(path, value, f"must be a list of texts; it is a {kind_of(value)}")
        read = [self.text((*path, place), text) for place, text in enumerate(texts)]
        for place, text in enumerate(read):
            if text is None or not text.strip():
                self.wrong((*path, place), "must be the text of a prompt; it is empty")
        return tuple(text for text in read if text)
