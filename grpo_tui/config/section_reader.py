"""From the YAML below `grpo_tui:` to a `Section`, with a finding for everything that does not fit.

It checks forms, names and whether files are there; it reads no data and imports no reward.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from grpo_tui.config.coerce import numbers_in_text
from grpo_tui.config.paths import DATA_SUFFIXES, Places, split_file_source
from grpo_tui.config.section import (
    ANSWER_KINDS,
    SECTION_KEYS,
    AnswerSpec,
    FewShot,
    RewardEntry,
    Section,
)
from grpo_tui.config.yaml_lines import YamlDocument
from grpo_tui.core.findings import Finding, Fix

_ROOT = "grpo_tui"


def read_section(document: YamlDocument, places: Places) -> tuple[Section, list[Finding]]:
    """Read the section of a parsed config; a config without one gives an empty section.

    Args:
        document: the parsed file.
        places: where file names are looked up.
    """
    reader = _SectionReader(document, places)
    value = document.values.get(_ROOT)
    if value is None:
        return Section(), []
    if not isinstance(value, dict):
        reader.error("section.type", (), f"grpo_tui must be a mapping of settings; it is {value!r}")
        return Section(), reader.findings
    return reader.section(value), reader.findings


class _SectionReader:
    def __init__(self, document: YamlDocument, places: Places) -> None:
        self.document = document
        self.places = places
        self.findings: list[Finding] = []

    def error(self, rule: str, path: Sequence[str | int], message: str, fix: Fix | None = None) -> None:
        self.findings.append(
            Finding(rule, "error", _dotted(path), self.document.line(_ROOT, *path), message, fix)
        )

    def info(self, path: Sequence[str | int], message: str) -> None:
        line = self.document.line(_ROOT, *path)
        self.findings.append(Finding("config.coerced", "info", _dotted(path), line, message))

    def section(self, value: Mapping[str, Any]) -> Section:
        self.refuse_unknown((), value, SECTION_KEYS)
        section = Section(
            columns=self.columns(value.get("columns")),
            system_prompt=self.text(("system_prompt",), value.get("system_prompt")),
            few_shot=self.few_shot(value.get("few_shot")),
            answer=self.answer(value.get("answer")),
            dataset=self.dataset(("dataset",), value.get("dataset")),
            eval_dataset=self.dataset(("eval_dataset",), value.get("eval_dataset")),
            holdout=self.whole_number(("holdout",), value.get("holdout")),
            chat=self.flag(("chat",), value.get("chat")),
            rewards=self.rewards(value.get("rewards")),
        )
        if section.chat is False and (section.system_prompt is not None or section.few_shot):
            self.error(
                "section.conflict",
                ("chat",),
                "grpo_tui.chat is false, so nothing would use system_prompt and few_shot",
                Fix("grpo_tui.chat", True),
            )
        return section

    def refuse_unknown(
        self, path: Sequence[str | int], value: Mapping[str, Any], known: Sequence[str]
    ) -> None:
        for key in value:
            if key in known:
                continue
            near = difflib.get_close_matches(str(key).replace("-", "_").lower(), known, n=1, cutoff=0.5)
            hint = f"Did you mean {near[0]}?" if near else f"It knows {', '.join(known)}"
            fix = Fix(_dotted((*path, near[0])), value[key]) if near else Fix(_dotted((*path, key)), None)
            self.error("section.unknown-key", (*path, key), f"{_dotted(path)} has no key {key}. {hint}", fix)

    def text(self, path: Sequence[str | int], value: Any) -> str | None:
        if value is None or isinstance(value, str):
            return value
        if isinstance(value, (bool, int, float)):
            self.info(path, f"{_dotted(path)} was {value!r}; read as the text '{value}'")
            return str(value)
        self.error("section.type", path, f"{_dotted(path)} must be text; it is a {type(value).__name__}")
        return None

    def whole_number(self, path: Sequence[str | int], value: Any) -> int:
        if value is None:
            return 0
        number = numbers_in_text(value)
        if number is not None and number == int(number):
            self.info(path, f"{_dotted(path)} was the text '{value}'; read as {int(number)}")
            value = int(number)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
        self.error(
            "section.type",
            path,
            f"{_dotted(path)} must be a whole number of rows, 0 or more; it is {value!r}",
        )
        return 0

    def flag(self, path: Sequence[str | int], value: Any) -> bool | None:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str) and value.lower() in ("true", "yes", "on", "false", "no", "off"):
            read = value.lower() in ("true", "yes", "on")
            self.info(path, f"{_dotted(path)} was the text '{value}'; read as {str(read).lower()}")
            return read
        self.error("section.type", path, f"{_dotted(path)} must be true or false; it is {value!r}")
        return None

    def columns(self, value: Any) -> dict[str, str]:
        if value is None:
            return {}
        if isinstance(value, dict) and all(
            isinstance(k, str) and isinstance(v, str) for k, v in value.items()
        ):
            return dict(value)
        self.error(
            "section.type",
            ("columns",),
            "grpo_tui.columns must map a wanted name to a column of the dataset, as `prompt: question`",
        )
        return {}

    def few_shot(self, value: Any) -> tuple[FewShot, ...]:
        if value is None:
            return ()
        if not isinstance(value, list):
            self.error(
                "section.type",
                ("few_shot",),
                "grpo_tui.few_shot must be a list of {user, assistant} examples",
            )
            return ()
        shots = []
        for index, item in enumerate(value):
            path = ("few_shot", index)
            if not isinstance(item, dict) or not {"user", "assistant"} <= set(item):
                self.error("section.type", path, f"{_dotted(path)} must have the keys user and assistant")
                continue
            self.refuse_unknown(path, item, ("user", "assistant"))
            user = self.text((*path, "user"), item["user"])
            assistant = self.text((*path, "assistant"), item["assistant"])
            if user is not None and assistant is not None:
                shots.append(FewShot(user, assistant))
        return tuple(shots)

    def answer(self, value: Any) -> AnswerSpec | None:
        if value is None:
            return None
        if isinstance(value, str):
            value = {"kind": value}
        if not isinstance(value, dict):
            self.error("section.type", ("answer",), "grpo_tui.answer must be a mapping, as `kind: gsm8k`")
            return None
        self.refuse_unknown(("answer",), value, ("from", "kind", "to", "tag", "pattern"))
        kind = value.get("kind")
        if kind not in ANSWER_KINDS:
            near = difflib.get_close_matches(str(kind), ANSWER_KINDS, n=1, cutoff=0.4)
            self.error(
                "section.choice",
                ("answer", "kind"),
                f"grpo_tui.answer.kind is {kind!r}; it knows {', '.join(ANSWER_KINDS)}",
                Fix("grpo_tui.answer.kind", near[0]) if near else None,
            )
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
            self.error("section.missing", path, "grpo_tui.answer.kind is regex, which needs a pattern")
            return False
        try:
            re.compile(pattern)
        except re.error as problem:
            self.error("section.type", path, f"grpo_tui.answer.pattern is no regular expression: {problem}")
            return False
        return True

    def dataset(self, path: Sequence[str | int], value: Any) -> str | None:
        name = self.text(path, value)
        if name is None:
            return None
        source = split_file_source(name)
        if source is not None:
            found = self.file(path, source[0])
            return f"{found}:{source[1]}"
        if not name.lower().endswith(DATA_SUFFIXES):
            self.error(
                "section.choice",
                path,
                f"{_dotted(path)} must be a csv, tsv, jsonl, json or parquet file, or file.py:function; it "
                f"is '{name}'. "
                "A dataset of the Hub stands in dataset_name, at the left margin",
                Fix("dataset_name", name),
            )
            return None
        return str(self.file(path, name))

    def file(self, path: Sequence[str | int], name: str) -> Path:
        found = self.places.beside_config(name)
        if not found.is_file():
            names = sorted(p.name for p in found.parent.iterdir()) if found.parent.is_dir() else []
            near = difflib.get_close_matches(found.name, names, n=1)
            hint = f". Did you mean {near[0]}?" if near else ""
            self.error("section.missing-file", path, f"{_dotted(path)}: there is no file {found}{hint}")
        return found

    def rewards(self, value: Any) -> tuple[RewardEntry, ...]:
        if value is None:
            return ()
        if not isinstance(value, list):
            self.error(
                "section.type",
                ("rewards",),
                "grpo_tui.rewards must be a list of {name, source, weight, params}",
            )
            return ()
        entries = [
            entry for index, item in enumerate(value) if (entry := self.reward(index, item)) is not None
        ]
        seen: dict[str, RewardEntry] = {}
        for entry in entries:
            if entry.name in seen:
                line = f" (the other on line {seen[entry.name].line})" if seen[entry.name].line else ""
                self.findings.append(
                    Finding(
                        "section.duplicate-reward",
                        "error",
                        "grpo_tui.rewards",
                        entry.line,
                        f"two rewards are called {entry.name}{line}; their metrics would share one name. "
                        "Rename one",
                    )
                )
            seen[entry.name] = entry
        return tuple(entries)

    def reward(self, index: int, item: Any) -> RewardEntry | None:
        path = ("rewards", index)
        if isinstance(item, str):
            item = {"source": item}
        if not isinstance(item, dict):
            self.error("section.type", path, f"{_dotted(path)} must be a mapping with source; it is {item!r}")
            return None
        self.refuse_unknown(path, item, ("name", "source", "weight", "params"))
        name = self.text((*path, "name"), item.get("name"))
        source = self.text((*path, "source"), item.get("source")) or name
        if not source:
            self.error(
                "section.missing",
                path,
                f"{_dotted(path)} needs source: a TRL name, pkg.mod:func or file.py:func",
            )
            return None
        parts = split_file_source(source)
        if parts is not None:
            source = f"{self.file((*path, 'source'), parts[0])}:{parts[1]}"
            name = name or parts[1].rpartition(".")[2]
        else:
            name = name or re.split(r"[.:/]", source.rstrip("/"))[-1]
            source = self.places.model_path(source)
        params = item.get("params")
        if params is not None and not (isinstance(params, dict) and all(isinstance(k, str) for k in params)):
            self.error(
                "section.type",
                (*path, "params"),
                f"{_dotted((*path, 'params'))} must be a mapping of arguments",
            )
            params = None
        weight = self.weight((*path, "weight"), item.get("weight"))
        return RewardEntry(
            name, source, weight, self.numbers(path, params or {}), self.document.line(_ROOT, *path)
        )

    def weight(self, path: Sequence[str | int], value: Any) -> float | None:
        if value is None:
            return None
        number = numbers_in_text(value)
        if number is not None:
            self.info(path, f"{_dotted(path)} was the text '{value}'; read as {number!r}")
            return number
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
        self.error(
            "section.type",
            path,
            f"{_dotted(path)} must be a number; it is {value!r}",
            Fix(_dotted(path), 1.0),
        )
        return None

    def numbers(self, path: Sequence[str | int], params: dict[str, Any]) -> dict[str, Any]:
        """Read `1e-5` written without quotes as the number it is meant to be."""
        read = dict(params)
        for key, value in params.items():
            where = (*path, "params", key)
            number = numbers_in_text(value)
            if number is not None and (_ROOT, *where) in self.document.plain:
                self.info(where, f"{_dotted(where)} was the text '{value}'; read as {number!r}")
                params[key] = read[key] = number
        return read


def _dotted(path: Sequence[str | int]) -> str:
    return ".".join([_ROOT, *(str(part) for part in path)])
