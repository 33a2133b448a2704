"""From the YAML below `grpo_tui:` to a `Section`, with a finding for everything that does not fit.

It checks forms, names and whether files are there; it reads no data and imports no reward.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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
    Section,
)
from grpo_tui.config.section_rewards import read_rewards
from grpo_tui.config.section_start import read_gpus, read_launcher
from grpo_tui.config.section_values import ROOT, KeyPath, SectionValues, dotted
from grpo_tui.config.yaml_lines import YamlDocument
from grpo_tui.core.findings import Finding, Fix


def read_section(document: YamlDocument, places: Places) -> tuple[Section, list[Finding]]:
    """Read the section of a parsed config; a config without one gives an empty section.

    Args:
        document: the parsed file.
        places: where file names are looked up.
    """
    reader = _SectionReader(document, places)
    value = document.values.get(ROOT)
    if value is None:
        return Section(), []
    if not isinstance(value, dict):
        reader.error("section.type", (), f"grpo_tui must be a mapping of settings; it is {value!r}")
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
            chat=self.flag(("chat",), value.get("chat")),
            rewards=read_rewards(self, value.get("rewards")),
            launcher=read_launcher(self, value.get("launcher")),
            gpus=read_gpus(self, value.get("gpus")),
        )
        if section.chat is False and (section.system_prompt is not None or section.few_shot):
            self.error(
                "section.conflict",
                ("chat",),
                "grpo_tui.chat is false, so nothing would use system_prompt and few_shot",
                Fix("grpo_tui.chat", True),
            )
        probes = section.probe_prompts
        if probes is not None and probes.source == "holdout" and not section.holdout:
            self.error(
                "section.conflict",
                ("probe_prompts",),
                "grpo_tui.probe_prompts asks rows of the hold-out, and grpo_tui.holdout sets none aside",
                Fix("grpo_tui.holdout", 32),
            )
        return section

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
                self.error("section.type", path, f"{dotted(path)} must have the keys user and assistant")
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
            near = difflib.get_close_matches(str(kind).lower(), ANSWER_KINDS, n=1, cutoff=0.4)
            short = isinstance(self.written(("answer",)), str)
            key = "grpo_tui.answer" if short else "grpo_tui.answer.kind"
            self.error(
                "section.choice",
                ("answer", "kind"),
                f"grpo_tui.answer.kind is {kind!r}; it knows {', '.join(ANSWER_KINDS)}",
                Fix(key, near[0]) if near else Fix("grpo_tui.answer", None),
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
            message = "grpo_tui.answer.kind is regex, which needs a pattern"
            self.error("section.missing", path, message, Fix("grpo_tui.answer", None))
            return False
        try:
            re.compile(pattern)
        except re.error as problem:
            message = f"grpo_tui.answer.pattern is no regular expression: {problem}"
            self.error("section.type", path, message, Fix("grpo_tui.answer", None))
            return False
        return True

    def dataset(self, path: KeyPath, value: Any) -> str | None:
        name = self.text(path, value)
        if name is None:
            return None
        if "://" in name:
            message = (
                f"{dotted(path)} is an address; fetch the file and name it, or set dataset_name to a Hub name"
            )
            self.error("section.address", path, message)
            return None
        source = split_file_source(name)
        if source is not None:
            found = self.file(path, source[0])
            return f"{found}:{source[1]}"
        if not name.lower().endswith(DATA_SUFFIXES):
            self.error(
                "section.choice",
                path,
                f"{dotted(path)} must be a csv, tsv, jsonl, json or parquet file, or file.py:function; it "
                f"is '{name}'. "
                "A dataset of the Hub stands in dataset_name, at the left margin",
                Fix("dataset_name", name) if not Path(name).suffix or name.count("/") == 1 else None,
            )
            return None
        return str(self.file(path, name))

    def filters(self, value: Any) -> Filters:
        path = ("filters",)
        if value is None:
            return Filters()
        if not isinstance(value, dict):
            self.error(
                "section.type", path, "grpo_tui.filters must be a mapping, as `max_prompt_tokens: 512`"
            )
            return Filters()
        self.refuse_unknown(path, value, FILTER_KEYS)
        least, most = (
            self.whole_number((*path, key), value.get(key), "tokens")
            for key in ("min_prompt_tokens", "max_prompt_tokens")
        )
        if least is not None and most is not None and least > most:
            self.error(
                "section.conflict",
                (*path, "min_prompt_tokens"),
                f"grpo_tui.filters keeps no row: min_prompt_tokens {least} is above max_prompt_tokens {most}",
                Fix("grpo_tui.filters.min_prompt_tokens", None),
            )
        if most == 0:
            self.error(
                "section.range", (*path, "max_prompt_tokens"), f"{dotted(path)} keeps no row with 0 tokens"
            )
        nulls = value.get("drop_null")
        columns: tuple[str, ...] = ()
        if isinstance(nulls, list):
            columns = tuple(str(name) for name in nulls)
            nulls = True
        return Filters(
            min_prompt_tokens=least,
            max_prompt_tokens=most,
            drop_null=self.flag((*path, "drop_null"), nulls) or False,
            null_columns=columns,
            drop_duplicates=self.flag((*path, "drop_duplicates"), value.get("drop_duplicates")) or False,
        )

    def probe_prompts(self, value: Any) -> ProbePrompts | None:
        path = ("probe_prompts",)
        if value is None or value is False:
            return None
        if not isinstance(value, dict):
            self.error("section.type", path, "grpo_tui.probe_prompts must be a mapping, as `every: 50`")
            return None
        self.refuse_unknown(path, value, PROBE_KEYS)
        texts: tuple[str, ...] = ()
        source = value.get("source", "holdout")
        if isinstance(source, list):
            texts, source = tuple(str(text) for text in source), ""
        elif source != "holdout":
            source = self.dataset((*path, "source"), source) or ""
        numbers = {}
        for key, of, most in (
            ("every", "steps", None),
            ("prompts", "rows", None),
            ("count", "completions", 64),
        ):
            number = self.whole_number((*path, key), value.get(key), of)
            if number == 0 or (most is not None and number is not None and number > most):
                limit = f"1 to {most}" if most is not None else "1 or more"
                self.error("section.range", (*path, key), f"{dotted((*path, key))} must be {limit}")
            elif number is not None:
                numbers[key] = number
        if texts:
            numbers["prompts"] = len(texts)
        temperature = self.number((*path, "temperature"), value.get("temperature"))
        if temperature is not None and not (temperature == 0 or 0.01 <= temperature <= 100):
            self.error(
                "section.range",
                (*path, "temperature"),
                f"{dotted((*path, 'temperature'))} must be 0 or 0.01 to 100",
            )
        return ProbePrompts(source=source, texts=texts, temperature=temperature, **numbers)
