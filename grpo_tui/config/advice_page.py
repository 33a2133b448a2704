"""The advice on all fields as one page of Markdown, `docs/advice.md`; a test holds the page against it.

It arranges words that stand elsewhere and adds none but headings.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from grpo_tui.config.advice import ADVICE, Advice
from grpo_tui.config.field_groups import GROUPS
from grpo_tui.config.origins import all_fields, default_in_words, kind_in_words

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


def advice_page() -> str:
    """Return the page.

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


def _field(name: str, advice: Advice) -> Iterator[str]:
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
