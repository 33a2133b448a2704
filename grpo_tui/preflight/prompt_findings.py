"""What follows from odd prompts, and the filter that leaves out rows with nothing in them.

Pure; it asks nobody.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from grpo_tui.core.findings import Finding, Fix, Severity
from grpo_tui.preflight.data_facts import DataFacts, first_rows
from grpo_tui.preflight.judging import Judged

_KEY = "grpo_tui.filters.drop_null"
_REPR = (
    "the content of a message is a list of parts, and this model's chat template writes it as Python prints "
    "a list, brackets and quotes included. Write the content as one text: "
    '{{"role": "user", "content": "…"}}'
)
_IMAGE = (
    "a message holds an image, and this model reads text only: TRL stops in the first step. Remove the "
    "image, or name a vision-language model"
)
_LOST = (
    "the chat template leaves out what the {detail} says. Put that text into the user's message, or give the "
    "tokenizer a template that writes it"
)
_CUT = (
    "the chat template leaves out a part of what the {detail} says, as some templates do with the text in "
    "<think>"
)
_CLOSED = (
    "the prompt ends with the beginning of an answer, and the chat template closes it: {detail} follows. "
    "GRPOTrainer always asks for a new turn (add_generation_prompt) and never sets continue_final_message, "
    "so the model cannot continue that text. Remove the message. To begin every answer with it, write it at "
    "the end of the template's generation prompt"
)
_WRITTEN: Mapping[str, tuple[Severity, str]] = {
    "repr": ("error", _REPR),
    "image": ("error", _IMAGE),
    "refused": ("error", "{detail}. TRL stops when it reaches such a row"),
    "lost": ("warning", _LOST),
    "doubled": ("warning", "the chat template writes what the {detail} says twice"),
    "cut": ("warning", _CUT),
    "closed": ("warning", _CLOSED),
}
"""What a chat template does to messages: severity and sentence for each kind of `DataFacts.odd`."""


def leaving_out(facts: DataFacts, columns: Sequence[str]) -> Fix | None:
    """The filter that leaves out the rows where one of these columns is empty; None when none would be left.

    It names the columns where others may be empty too: those would leave rows out that are meant.
    """
    known = {column.name: column.nulls + column.empties for column in facts.columns}
    if any(known.get(name, 0) >= facts.looked_at for name in columns):
        return None
    others = any(count for name, count in known.items() if name not in columns and name != "prompt")
    named = [name for name in columns if name != "prompt"] or ["prompt"]
    return Fix(_KEY, named if others else True)


def prompt_findings(facts: DataFacts, judged: Judged) -> Iterator[Finding]:
    """Judge what training takes and nobody means."""
    answered = any(odd.what == "answered" for odd in facts.odd)
    for odd in facts.odd:
        where = f"{facts.short}, {first_rows(odd.rows, odd.count)}"
        key = judged.data_key
        if odd.what == "quoted":
            message = (
                f"{where}: the prompt is a text that holds a list of messages, as CSV files have it; it "
                "reaches the model as it stands, quotes and all. Write the messages as JSON Lines"
            )
            yield judged.found("data.quoted-messages", "warning", key, message)
        elif odd.what == "role":
            message = (
                f"{where}: a message has the role {odd.reason}, which chat templates pass over without a "
                "word; they know system, user and assistant"
            )
            yield judged.found("data.role", "warning", key, message)
        elif odd.what == "blank":
            yield judged.found("data.blank-turn", "warning", key, f"{where}: a message of the user is blank")
        elif odd.what == "answered":
            message = (
                f"{where}: the prompt ends with an answer of the assistant, a different one in each row. The "
                "model sees that answer and begins another turn. Remove that message"
            )
            yield judged.found("data.answered", "warning", key, message)
        elif odd.what in _WRITTEN and not (odd.what == "closed" and answered):
            severity, text = _WRITTEN[odd.what]
            message = f"{where}: {text.format(detail=odd.reason)}"
            yield judged.found(f"data.template-{odd.what}", severity, key, message)
