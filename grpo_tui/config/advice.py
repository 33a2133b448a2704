"""Read our advice on the fields of a config: what to choose, why, when something else, what it costs.

The words are in `advice.toml`, written for TRL 1.16; a test holds that every field and choice named there is
one of the installed TRL's. Whether a value is wrong is the checks' business.
"""

from __future__ import annotations

import textwrap
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from grpo_tui.config.fields import GROUPS, all_fields, default_in_words, kind_in_words

_HEAD = """\
# Advice on the fields

What to choose for a GRPO run, why, when something else, and what it costs; written for TRL 1.16. The pane
*Config* and `grpo-tui config fields NAME` show the same beside TRL's own help. This page is made by
`grpo-tui config fields --markdown > docs/advice.md`.

The formulas are those of TRL's `GRPOTrainer`: r is the ratio of the policy's probability of a token now to
that when it was sampled, A the advantage, T the tokens of a completion, B the completions of a batch.
"""
_WIDTH = 124
_PARTS = (("when", "Else"), ("cost", "Cost"), ("older", "Older guides"))


@dataclass(frozen=True, slots=True)
class FieldChoice:
    """One value of an enumerated field.

    Attributes:
        text: what it does and when it is right.
        formula: how it is computed, in plain signs; empty where there is nothing to compute.
        source: the paper or the place in TRL's source it is from.
    """

    text: str
    formula: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class FieldAdvice:
    """What we advise on one field.

    Attributes:
        choose: what to choose, one sentence.
        why: the reason.
        when: in which cases another value is right; empty where there are none.
        cost: what the choice costs in memory, time or risk; empty where nothing.
        older: where older guides say something else, what they say and why it no longer holds.
        choices: the values of an enumerated field, each explained.
        value: the value to begin with, where it is one and the same for most runs; None where it depends.
    """

    choose: str
    why: str
    when: str = ""
    cost: str = ""
    older: str = ""
    choices: Mapping[str, FieldChoice] = field(default_factory=dict)
    value: object = None

    def words(self) -> str:
        """Return all of its text, for a search."""
        parts = [self.choose, self.why, self.when, self.cost, self.older]
        parts += [f"{name} {each.text} {each.source}" for name, each in self.choices.items()]
        return " ".join(part for part in parts if part)


def _read() -> dict[str, FieldAdvice]:
    table = tomllib.loads(Path(__file__).with_name("advice.toml").read_text(encoding="utf-8"))
    advice = {}
    for name, entry in table.items():
        choices = {value: FieldChoice(**_unwrapped(each)) for value, each in entry.pop("choices", {}).items()}
        advice[name] = FieldAdvice(**_unwrapped(entry), choices=choices)
    return advice


def _unwrapped(entry: dict[str, Any]) -> dict[str, Any]:
    """Join the lines of each text; other values stay."""
    return {key: " ".join(value.split()) if isinstance(value, str) else value for key, value in entry.items()}


ADVICE: Mapping[str, FieldAdvice] = MappingProxyType(_read())
"""Advice by field; those of the section are dotted."""


def advice_on(name: str) -> FieldAdvice | None:
    """Return the advice on a field; None where there is nothing to say."""
    return ADVICE.get(name)


def choice_advice(name: str, value: str) -> FieldChoice | None:
    """Return what is said on one value of an enumerated field; None where nothing is."""
    advice = ADVICE.get(name)
    return advice.choices.get(value) if advice is not None else None


def advice_page() -> str:
    """Return the advice on all fields as one page of Markdown, `docs/advice.md`.

    Raises:
        FieldsUnavailableError: TRL is not installed.
    """
    return _HEAD + "".join(f"{line}\n" for line in _lines())


def _lines() -> Iterator[str]:
    for group in GROUPS:
        names = [name for name in group.names if name in ADVICE]
        yield ""
        yield f"## {group.title}"
        yield ""
        yield group.about
        for name in names:
            yield ""
            yield from _field(name, ADVICE[name])


def _field(name: str, advice: FieldAdvice) -> Iterator[str]:
    info = all_fields()[name]
    kind = "one of the values below" if advice.choices else kind_in_words(info.annotation)
    yield f"### `{name}`"
    yield ""
    yield from _wrapped(f"**{advice.choose}** {advice.why} ({kind}; default: {default_in_words(info)})")
    for part, title in _PARTS:
        if text := getattr(advice, part):
            yield ""
            yield from _wrapped(f"*{title}:* {text}")
    if advice.choices:
        yield ""
    for value in info.choices or ():
        if value in advice.choices:
            choice = advice.choices[value]
            formula = f" `{choice.formula}`" if choice.formula else ""
            source = f" ({choice.source})" if choice.source else ""
            yield from _wrapped(f"- `{value}`: {choice.text}{formula}{source}", "  ")


def _wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
