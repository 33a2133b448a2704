"""Read how often each prompt of a run was answered right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from grpo_tui.core.prompt_memory import CLASSES, PromptClass, PromptMemory, classify
from grpo_tui.core.statistics import SAME
from grpo_tui.store.read_series import total_range
from grpo_tui.store.reader import RunReader
from grpo_tui.store.schema import NUMBER
from grpo_tui.store.values import prompt_from

PAGE = 500


@dataclass(frozen=True, slots=True)
class PromptMemories:
    """All training prompts of a run, in order of first appearance, and the share of right completions.

    Attributes:
        right: total from which on a completion is right: the highest of the run, as in the doctor's rules
            and in the query `all_right`. None when all totals are equal, so that nothing can be said.
    """

    right: float | None
    share: float
    prompts: tuple[PromptMemory, ...]

    def counts(self) -> dict[PromptClass, int]:
        """Return the number of prompts of each class."""
        found = Counter(prompt.kind for prompt in self.prompts)
        return {kind: found[kind] for kind in CLASSES}


def prompt_visits(reader: RunReader, right: float) -> list[tuple[str, int, int, int, int]]:
    """Return key, step, right completions, all completions and a group of every visit, by key and step.

    A completion is right from the total `right` on. Those without a finite total are left out.
    """
    rows = reader.all(
        f"SELECT g.prompt_key, g.step, sum(n >= :top), count(n), max(g.id) FROM"
        f" (SELECT group_id, {NUMBER.format('total')} AS n FROM completion) c"
        " JOIN generation_group g ON g.id = c.group_id WHERE g.mode = 'train' AND g.superseded = 0"
        " GROUP BY g.prompt_key, g.step, g.attempt, g.batch, g.idx HAVING count(n) > 0"
        " ORDER BY g.prompt_key, g.step, g.attempt, g.batch, g.idx",
        top=right - SAME,
    )
    return [(row[0], row[1], row[2], row[3], row[4]) for row in rows]


def prompt_memories(reader: RunReader) -> PromptMemories:
    """Read every training prompt. Completions without a finite total are left out.

    Holds four numbers per group in memory, and no text.
    """
    ends = total_range(reader)
    if ends is None:
        return PromptMemories(None, 0.0, ())
    rows = prompt_visits(reader, ends[1])
    found = [_memory(key, list(visits)) for key, visits in groupby(rows, key=lambda row: row[0])]
    share = sum(row[2] for row in rows) / max(1, sum(row[3] for row in rows))
    return PromptMemories(ends[1], share, tuple(sorted(found, key=lambda one: (one.first_step, one.group))))


def _memory(key: str, visits: Sequence[tuple[str, int, int, int, int]]) -> PromptMemory:
    kind, first, last = classify([(row[2], row[3]) for row in visits])
    newest = max(row[4] for row in visits)
    return PromptMemory(key, kind, len(visits), first, last, visits[0][1], visits[-1][1], newest)


def with_prompts(
    reader: RunReader, memories: Sequence[PromptMemory]
) -> Iterator[tuple[PromptMemory, str | list[Any]]]:
    """Yield each prompt as the run recorded it, a page at a time."""
    for start in range(0, len(memories), PAGE):
        page = memories[start : start + PAGE]
        marks = ",".join("?" * len(page))
        rows = reader.all(
            f"SELECT id, prompt FROM generation_group WHERE id IN ({marks})", *(one.group for one in page)
        )
        texts = {row[0]: row[1] for row in rows}
        yield from ((one, prompt_from(texts.get(one.group))) for one in page)


def groups_of_prompt(reader: RunReader, key: str, most: int) -> list[int]:
    """Return the numbers of a prompt's newest training groups, oldest first."""
    rows = reader.all(
        "SELECT id FROM generation_group WHERE prompt_key = ? AND mode = 'train' AND superseded = 0"
        " ORDER BY step DESC, id DESC LIMIT ?",
        key,
        most,
    )
    return [row[0] for row in reversed(rows)]
