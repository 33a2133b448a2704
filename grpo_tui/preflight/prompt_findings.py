"""What follows from odd prompts, and the filter that leaves out rows with nothing in them.

Pure; it asks nobody.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from grpo_tui.core.findings import Finding, Fix
from grpo_tui.preflight.data_facts import DataFacts, first_rows
from grpo_tui.preflight.judging import Judged

_KEY = "grpo_tui.filters.drop_null"


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
                f"{where}: the prompt ends with an answer of the assistant, each another: the model goes on "
                "from there, with the answer before it. Leave that message out"
            )
            yield judged.found("data.answered", "warning", key, message)
