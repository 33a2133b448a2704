"""The prompts of a run by class, as rows of a table."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from grpo_tui.core.prompt_memory import PromptMemory, prompt_hash
from grpo_tui.core.text import filled, one_line
from grpo_tui.present.formatting import compact, percent
from grpo_tui.store.prompt_memory import PromptMemories

SORTS: dict[str, Callable[[PromptMemory], float]] = {
    "step": lambda one: one.first_step,
    "visits": lambda one: one.visits,
    "first": lambda one: one.first,
    "last": lambda one: one.last,
    "change": lambda one: one.last - one.first,
}
"""Sort keys; a `-` before one turns the order."""
RATES = ("first", "last", "change")
"""Sort keys that put the class `few` last in either order."""


def chosen(prompts: Iterable[PromptMemory], kinds: Collection[str], sort: str) -> list[PromptMemory]:
    """Return the prompts of some classes, of all when empty, sorted by a key of `SORTS`."""
    found = [one for one in prompts if not kinds or one.kind in kinds]
    if sort:
        found.sort(key=SORTS[sort.lstrip("-")], reverse=sort.startswith("-"))
        if sort.lstrip("-") in RATES:  # those of a few visits say little
            found.sort(key=lambda one: one.kind == "few")
    return found


ROW = ("hash", "class", "visits", "first", "last", "first_step", "last_step", "group", "prompt")
"""Documented keys of a prompt."""


def prompt_row(one: PromptMemory, prompt: Any) -> dict[str, Any]:
    """Return a prompt's documented keys."""
    values = (prompt_hash(prompt), one.kind, one.visits, one.first, one.last, one.first_step, one.last_step)
    return dict(zip(ROW, (*values, one.group, prompt), strict=True))


def right_line(found: PromptMemories) -> str:
    """Say what counts as right."""
    if found.right is None:
        return "Every completion got the same total, or none was scored, so no prompt can be judged."
    return (
        f"{len(found.prompts):,} training prompts. A completion is right when it gets the highest total of "
        f"the run, {compact(found.right)}: {percent(found.share)} do."
    )


_WIDTHS = 11, 7, 7, 7, 13, 8


def _cells(*cells: str) -> str:
    first, *rest = zip(cells, _WIDTHS, strict=False)
    return filled(*first) + "".join(filled(text, width, right=True) for text, width in rest)


def table_head() -> str:
    """Return the names of the columns."""
    return _cells("class", "seen", "first", "last", "steps", "group") + "  prompt"


def table_line(one: PromptMemory, text: str, width: int) -> str:
    """Return a prompt on one line of at most `width` cells."""
    steps = f"{one.first_step:,}–{one.last_step:,}"
    cells = _cells(
        one.kind, f"{one.visits:,}", percent(one.first), percent(one.last), steps, f"{one.group:,}"
    )
    return f"{cells}  {one_line(text.strip(), max(12, width - sum(_WIDTHS) - 2))}"
