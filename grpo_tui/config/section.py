"""The section `grpo_tui:`: what TRL's command cannot say. The only module that reads it.

Training, lab, checker and export all take a `Section`. Keys:

- `columns`: name wanted → column of the dataset, as `prompt: question`. The column is renamed.
- `system_prompt`: text put before every prompt. `few_shot`: list of `{user, assistant}` between it and the
  prompt.
- `answer`: `{from, kind, to, tag, pattern}`, the gold answer cut out of a longer text. `kind` is `gsm8k`
  (after `####`), `boxed`, `tag` or `regex` (its first group, or the whole match).
- `dataset`, `eval_dataset`: a csv, tsv, jsonl, json or parquet file, or `file.py:function`.
- `filters`: `{min_prompt_tokens, max_prompt_tokens, drop_null, drop_duplicates}`, rows left out and counted.
- `holdout`: rows set aside by seed and never trained on.
- `probe_prompts`: `{source, every, prompts, count, temperature}`, prompts answered and scored meanwhile.
- `chat`: whether string prompts become message lists; by default when there is a system prompt or a few-shot
  example.
- `rewards`: list of `{name, source, weight, params}`.
- `launcher`: the words that start several ranks, as on the command line.
- `gpus`: the GPUs the run is put on.
- `health`: rules of the diagnosis by id, each with limits that replace its own, or false.
- `notify`: `{on, command, webhook}`, who is told of findings and of the end.
- `on`: list of `{when, do}`, conditions on which the run pauses or stops.

It loads neither data nor rewards.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from grpo_tui.core.exchange import rebuilt

ANSWER_KINDS = ("gsm8k", "boxed", "tag", "regex")


@dataclass(frozen=True, slots=True)
class FewShot:
    """One worked example: what the user says and what the assistant answers."""

    user: str
    assistant: str


@dataclass(frozen=True, slots=True)
class AnswerSpec:
    """How the gold answer is cut out of a column.

    Attributes:
        source: the column read, by its name in the dataset or after `columns` (key `from`).
        kind: one of `ANSWER_KINDS`.
        to: the column written.
        tag: the tag's name for `kind: tag`.
        pattern: the regular expression for `kind: regex`.
    """

    source: str
    kind: str
    to: str
    tag: str | None = None
    pattern: str | None = None


@dataclass(frozen=True, slots=True)
class Filters:
    """Rows that are left out before anything is set aside or trained on.

    Attributes:
        min_prompt_tokens: fewest tokens of a prompt as the model gets it, chat template included.
        max_prompt_tokens: most tokens of it.
        drop_null: whether rows go whose prompt or gold answer is missing.
        null_columns: further columns that must not be null (`drop_null: [a, b]`).
        drop_duplicates: whether only the first row of each prompt stays.
    """

    min_prompt_tokens: int | None = None
    max_prompt_tokens: int | None = None
    drop_null: bool = False
    null_columns: tuple[str, ...] = ()
    drop_duplicates: bool = False

    @property
    def needs_tokens(self) -> bool:
        """Whether the tokenizer has to be at hand."""
        return self.min_prompt_tokens is not None or self.max_prompt_tokens is not None


FILTER_KEYS = ("min_prompt_tokens", "max_prompt_tokens", "drop_null", "drop_duplicates")


@dataclass(frozen=True, slots=True)
class ProbePrompts:
    """Prompts that are answered and scored every so many steps of a run.

    Attributes:
        source: `holdout`, a data file, or `file.py:function`; empty where `texts` are given.
        texts: the prompts themselves.
        every: steps from one time to the next.
        prompts: how many of the source's rows are asked, spread evenly over them.
        count: completions of each.
        temperature: of sampling; None for that of the run, 0 for the likeliest token.
    """

    source: str = "holdout"
    texts: tuple[str, ...] = ()
    every: int = 50
    prompts: int = 4
    count: int = 4
    temperature: float | None = None


PROBE_KEYS = ("source", "every", "prompts", "count", "temperature")


@dataclass(frozen=True, slots=True)
class RewardEntry:
    """One reward function that TRL's command cannot name.

    Attributes:
        name: the metric's name, `rewards/<name>/mean`.
        source: a TRL name, a dotted path, an absolute `file.py:function`, or a reward model.
        weight: its weight, None when the entry gives none (then 1, or what `reward_weights` says).
        params: keyword arguments for a factory, a class or the function.
        line: line of the entry in the config file.
    """

    name: str
    source: str
    weight: float | None = None
    params: dict[str, Any] = field(default_factory=dict)
    line: int | None = None


NOTIFY_ON = ("error", "warning", "end")


@dataclass(frozen=True, slots=True)
class Notify:
    """Who is told what happens to a run.

    Attributes:
        on: `end`, and the severities of findings; `warning` includes errors.
        command: run by the shell.
        webhook: an http or https URL, which is a secret, or `$NAME` of the variable that holds it.
    """

    on: tuple[str, ...] = ("error", "end")
    command: str | None = None
    webhook: str | None = None

    def masked(self) -> Notify:
        """Return it without what is secret in the URL."""
        return replace(self, webhook=masked_url(self.webhook) if self.webhook is not None else None)


NOTIFY_KEYS = tuple(each.name for each in fields(Notify))


RULE_DOES = ("pause", "stop")


@dataclass(frozen=True, slots=True)
class OnRule:
    """What the run does by itself when a condition holds.

    Attributes:
        when: the condition, as `core.conditions` reads it.
        do: one of `RULE_DOES`; `stop` saves first.
    """

    when: str
    do: str


def masked_url(url: str) -> str:
    """Return scheme and host of a URL; the name of a variable as it is."""
    if url.startswith("$"):
        return url
    scheme, _, rest = url.partition("://")
    host = re.split(r"[/?#]", rest, maxsplit=1)[0].rpartition("@")[2]
    return f"{scheme}://{host}/…" if rest else "…"


@dataclass(frozen=True, slots=True)
class Section:
    """The section `grpo_tui:` of one config, checked. See the module docstring for the keys."""

    columns: dict[str, str] = field(default_factory=dict)
    system_prompt: str | None = None
    few_shot: tuple[FewShot, ...] = ()
    answer: AnswerSpec | None = None
    dataset: str | None = None
    eval_dataset: str | None = None
    filters: Filters = Filters()
    holdout: int = 0
    probe_prompts: ProbePrompts | None = None
    chat: bool | None = None
    rewards: tuple[RewardEntry, ...] = ()
    launcher: str | None = None
    gpus: tuple[str, ...] = ()
    health: dict[str, dict[str, float] | None] = field(default_factory=dict)
    """None turns a rule off."""
    notify: Notify | None = None
    on: tuple[OnRule, ...] = ()

    @property
    def wants_chat(self) -> bool:
        """Whether string prompts become message lists."""
        if self.chat is not None:
            return self.chat
        return self.system_prompt is not None or bool(self.few_shot)

    def to_json(self) -> dict[str, Any]:
        """Return plain data that `from_json` reads."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Section:
        """Rebuild a section from what `to_json` gave.

        Raises:
            ValueError: it is something else.
        """
        return rebuilt(cls, data)


SECTION_KEYS = tuple(each.name for each in fields(Section))
