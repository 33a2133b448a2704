"""The `grpo_tui:` section of a config: settings that TRL has no key for.

Training, scoring, checks and export all take a `Section`. `fields.toml` describes its keys.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal

from grpo_tui.core.exchange import rebuilt

ANSWER_KINDS = ("gsm8k", "boxed", "tag", "regex")


@dataclass(frozen=True, slots=True)
class FewShot:
    """One worked example for the prompt."""

    user: str
    assistant: str


@dataclass(frozen=True, slots=True)
class AnswerSpec:
    """How to extract the reference answer from a column.

    Attributes:
        source: Column to read, by its name in the dataset or after `columns` (key `from`).
        kind: `gsm8k` (after `####`), `boxed`, `tag` or `regex` (its first group, or the whole match).
    """

    source: str
    kind: str
    to: str
    tag: str | None = None
    pattern: str | None = None


@dataclass(frozen=True, slots=True)
class Filters:
    """Which rows to drop before the holdout is split off.

    Attributes:
        min_prompt_tokens: Minimum prompt length, chat template included.
        max_prompt_tokens: Maximum prompt length, chat template included.
        null_columns: More columns that must not be null (`drop_null: [a, b]`).
        exclude: File of prompts not to train on, written by `grpo-tui prompts --export`.
        only: File of the only prompts to train on.
    """

    min_prompt_tokens: int | None = None
    max_prompt_tokens: int | None = None
    drop_null: bool = False
    null_columns: tuple[str, ...] = ()
    drop_duplicates: bool = False
    exclude: str | None = None
    only: str | None = None

    @property
    def needs_tokens(self) -> bool:
        """Whether the filters need the tokenizer."""
        return self.min_prompt_tokens is not None or self.max_prompt_tokens is not None


FILTER_KEYS = ("min_prompt_tokens", "max_prompt_tokens", "drop_null", "drop_duplicates", "exclude", "only")


@dataclass(frozen=True, slots=True)
class ProbePrompts:
    """Prompts to answer and score regularly while training.

    Attributes:
        source: `holdout`, a data file, or `file.py:function`; empty when `texts` is given.
        every: Interval in steps.
        prompts: Number of rows, spread evenly over the source.
        count: Completions per prompt.
        temperature: Sampling temperature. None uses that of the run; 0 decodes greedily.
        add: Texts of more prompts.
        remove: Texts of prompts among the chosen rows to leave out.
    """

    source: str = "holdout"
    texts: tuple[str, ...] = ()
    every: int = 50
    prompts: int = 4
    count: int = 4
    temperature: float | None = None
    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()


PROBE_KEYS = ("source", "every", "prompts", "count", "temperature", "add", "remove")


@dataclass(frozen=True, slots=True)
class Evaluate:
    """Evaluations of the policy while training.

    Attributes:
        every: Interval in steps.
        rows: Number of held-out rows, spread evenly over all of them.
        samples: Completions per row.
        k: The k of pass@k, at most `samples`. None uses `samples`.
    """

    every: int = 50
    rows: int = 40
    samples: int = 4
    k: int | None = None

    @property
    def pass_k(self) -> int:
        """The k of pass@k."""
        return self.samples if self.k is None else self.k


EVALUATE_KEYS = tuple(each.name for each in fields(Evaluate))


@dataclass(frozen=True, slots=True)
class RewardEntry:
    """One entry of `grpo_tui.rewards`.

    Attributes:
        name: Name in the metric `rewards/<name>/mean`.
        source: A TRL name, a dotted path, an absolute `file.py:function`, or a reward model.
        weight: None when the entry has no weight: the one in `reward_weights`, else 1.
        params: Keyword arguments for a factory, a class or the function.
    """

    name: str
    source: str
    weight: float | None = None
    params: dict[str, Any] = field(default_factory=dict)
    line: int | None = None


NOTIFY_ON = ("error", "warning", "end")


@dataclass(frozen=True, slots=True)
class Notify:
    """Which events to report, and how.

    Attributes:
        on: `end` and severities of findings. `warning` includes errors.
        webhook: An http or https URL, which is a secret, or `$NAME` of a variable that holds it.
    """

    on: tuple[str, ...] = ("error", "end")
    command: str | None = None
    webhook: str | None = None

    def masked(self) -> Notify:
        """Return a copy without the secret part of the URL."""
        return replace(self, webhook=masked_url(self.webhook) if self.webhook is not None else None)


NOTIFY_KEYS = tuple(each.name for each in fields(Notify))


RULE_DOES = ("pause", "stop")


@dataclass(frozen=True, slots=True)
class OnRule:
    """An action that the run takes when a condition is met.

    Attributes:
        when: The condition, as `core.conditions` parses it.
        do: One of `RULE_DOES`. `stop` saves a checkpoint first.
    """

    when: str
    do: str


@dataclass(frozen=True, slots=True)
class Stage:
    """A part of a run with its own settings.

    Attributes:
        set: Settings that replace those of the config, as dotted key to value.
        steps: Number of steps; None for a stage that ends by a condition.
        until: Condition on a metric, as `core.conditions` parses it.
        at_most: Most steps when `until` is given.
        reference: What the KL is measured from: the run's base model, or the policy as the stage began.
        optimizer: Whether the stage keeps the optimizer's state or begins with an empty one.
    """

    name: str
    set: dict[str, Any] = field(default_factory=dict)
    steps: int | None = None
    until: str | None = None
    at_most: int | None = None
    reference: Literal["base", "stage start"] = "base"
    optimizer: Literal["kept", "new"] = "kept"

    @property
    def limit(self) -> int:
        """Most steps of the stage."""
        return self.steps or self.at_most or 1


STAGE_KEYS = tuple(each.name for each in fields(Stage))


def masked_url(url: str) -> str:
    """Return scheme and host of a URL. A variable's name is returned unchanged."""
    if url.startswith("$"):
        return url
    scheme, _, rest = url.partition("://")
    host = re.split(r"[/?#]", rest, maxsplit=1)[0].rpartition("@")[2]
    return f"{scheme}://{host}/…" if rest else "…"


@dataclass(frozen=True, slots=True)
class Section:
    """The validated `grpo_tui:` section. `fields.toml` describes the keys."""

    columns: dict[str, str] = field(default_factory=dict)
    system_prompt: str | None = None
    few_shot: tuple[FewShot, ...] = ()
    answer: AnswerSpec | None = None
    dataset: str | None = None
    eval_dataset: str | None = None
    filters: Filters = Filters()
    holdout: int = 0
    probe_prompts: ProbePrompts | None = None
    evaluate: Evaluate | None = None
    chat: bool | None = None
    rewards: tuple[RewardEntry, ...] = ()
    launcher: str | None = None
    gpus: tuple[str, ...] = ()
    health: dict[str, dict[str, float] | None] = field(default_factory=dict)
    """By rule id. None turns the rule off."""
    notify: Notify | None = None
    on: tuple[OnRule, ...] = ()
    stages: tuple[Stage, ...] = ()

    @property
    def wants_chat(self) -> bool:
        """Whether to turn string prompts into message lists."""
        if self.chat is not None:
            return self.chat
        return self.system_prompt is not None or bool(self.few_shot)

    def to_json(self) -> dict[str, Any]:
        """Return plain data that `from_json` reads."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Section:
        """Rebuild a section from the data of `to_json`.

        Raises:
            ValueError: The data has another shape.
        """
        return rebuilt(cls, data)


SECTION_KEYS = tuple(each.name for each in fields(Section))
