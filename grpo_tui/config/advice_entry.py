"""The shape of one piece of advice on a field; it holds words only and knows no config."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Choice:
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
class Advice:
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
    choices: Mapping[str, Choice] = field(default_factory=dict)
    value: object = None

    def words(self) -> str:
        """All of its text, for a search."""
        parts = [self.choose, self.why, self.when, self.cost, self.older]
        parts += [f"{name} {each.text} {each.source}" for name, each in self.choices.items()]
        return " ".join(part for part in parts if part)
