"""Find completions of a run: one engine for the pane Generations, for Rewards and for `grpo-tui completions`.

How it is called:

    search = Search(RunFolder(root).database)          # in the thread that will use it
    found = search.find('reward<0.2 and text ~ "wait"', "-advantage")
    page = search.rows(found.ids[0:50])                # bounded; no cursor stays open; at last search.close()

`find` blocks: call it in a thread of its own (one call at a time; a `Search` belongs to that thread, as a
reader does). Give it `on_part` to be told what was found so far, in that thread: while the order is by step,
the first page of a part is already that of the end. It is ended from any other thread by setting the
`threading.Event` that it was given as `cancel`, within some 20 ms, also in the middle of a regular
expression; it then returns what it has, with `complete` False. It never runs longer than `limit_s`. A query
that is not understood raises `QueryError` before any completion is read; `read_query` and `read_sort` tell so
without a run.

Nothing of a run is kept but the numbers of what was found (eight bytes each). A run that goes on is searched
as it is now: `Found.newest_group` says up to where, and `find(after_group=…)` searches only what came later.
Knows queries and runs; knows no screen.
"""

from __future__ import annotations

import itertools
import os
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import Any

from grpo_tui.store.found import NEWEST, Found, SortKey, over_steps, packed, read_sort
from grpo_tui.store.query_ast import Query
from grpo_tui.store.query_hint import hint
from grpo_tui.store.query_sql import Condition, RunNames, condition, sort_key
from grpo_tui.store.query_text import read_query
from grpo_tui.store.query_values import ordered
from grpo_tui.store.rollouts import IMPORTED, RolloutQueries
from grpo_tui.store.search_child import MOST_SLOW
from grpo_tui.store.search_scan import ChildScan, DirectScan, Scan, ScanFailed, ScanStopped

LIMIT_S = 20.0
"""A search ends after so long, with what it has."""
LOOK_S = 0.02
"""How often it is looked whether the search shall end."""
PART_S = 0.5
"""How often `on_part` is told at most, after the first time."""
LATE_S = 0.3
"""When it is told first in an order of which the first page is not known before the end."""
BLOCK = 12_000
"""Completions that one statement looks at; the first ones look at fewer, for a page at once."""
FIRST_BLOCK = 1_500
SAMPLE = 40
"""Texts by which it is known which characters are rare."""
SCANS = 4
"""Most statements at once in this process, each on a core of its own."""
CHILDREN = 8
"""Most child processes, on up to half of the cores where there are many."""

_PAIRS = "generation_group g CROSS JOIN completion c ON c.group_id = g.id"

_Answer = tuple[list[Any], int, int]
"""Rows, texts in which a pattern was given up, groups looked at."""


@dataclass(frozen=True, slots=True)
class _Job:
    """A search, ready to be run on part after part."""

    found: Found
    sql: str
    head: tuple[Any, ...]
    """Values before the ends of the block."""
    tail: tuple[Any, ...]
    patterns: tuple[str, ...]
    heavy: bool
    groups: int
    """How many groups there are to look at."""


class Search(RolloutQueries):
    """Finds completions and fetches their rows. Use it from one thread at a time.

    Args:
        path: `run.db`.
        scans: How many statements run at once; by default as many as cores, within `SCANS` and `CHILDREN`.

    Raises:
        RunDatabaseError: From the constructor, when there is no readable `run.db`.
    """

    def __init__(self, path: Path, scans: int | None = None) -> None:
        super().__init__(path)
        cores = os.cpu_count() or 1
        count = min(SCANS, cores) if scans is None else scans
        children = min(CHILDREN, max(count, cores // 2)) if scans is None else scans
        if not os.access(path.parent, os.W_OK):
            count = children = 1  # each connection may have to copy the file first
        self._count, self._most_children = max(1, count), max(1, children)
        self._direct: list[DirectScan] = []
        self._children: list[ChildScan] = []
        self._frequent: Counter[str] | None = None
        self._known_counts: dict[tuple[bool, int | None], tuple[int, Counter[int]]] = {}

    def close(self) -> None:
        """Close all connections and end the children."""
        scans: list[Scan] = [*self._direct, *self._children]
        for scan in scans:
            scan.close()
        self._direct, self._children = [], []
        super().close()

    def find(
        self,
        query: str | Query = "",
        sort: str | Sequence[SortKey] = NEWEST,
        *,
        superseded: bool = False,
        after_group: int = 0,
        cancel: threading.Event | None = None,
        on_part: Callable[[Found], None] | None = None,
        limit: int | None = None,
        limit_s: float = LIMIT_S,
    ) -> Found:
        """Find the completions of which a query holds.

        Args:
            query: A line of the language, or a query read from one; empty for all completions.
            sort: Keys as typed (`-reward,step`), or read from them; by default the newest step first.
            superseded: Also steps that a resume has done again.
            after_group: Only groups recorded after this one.
            cancel: Ends the search when it is set.
            on_part: Told what was found so far, in the calling thread.
            limit: So many are enough: while the order is by step, the search ends soon after them.
            limit_s: The search ends after so long.

        Raises:
            QueryError: The query or the sort key is not understood.
        """
        began = time.monotonic()
        job, counts = self._job(query, sort, superseded, after_group)
        state = _State(job, counts, began, on_part)
        cancel = cancel or threading.Event()
        blocks = list(self._blocks(job.found, after_group))
        scans = self._scans(len(blocks), in_children=job.heavy)
        by_step = bool(job.found.sort) and job.found.sort[0].field.name == "step"
        trouble = state.run(iter(blocks), scans, cancel, began + limit_s, limit if by_step else None)
        for child in [child for child in self._children if child.ended]:
            self._children.remove(child)
            child.close()
        found = replace(state.result(trouble), notes=self.notes())
        asked = not found.ids and found.complete
        return replace(found, hint=hint(self, found.query, self.run_names())) if asked else found

    # -- before ----------------------------------------------------------------------------------

    def run_names(self) -> RunNames:
        """What a query is understood by in this run."""
        modes = [row[0] for row in self._all("SELECT DISTINCT mode FROM generation_group")]
        totals = {mode: ends for mode in modes if (ends := self.total_range(mode)) is not None}
        return RunNames(
            self.function_names(),
            totals,
            self._has("generation_group", "high"),
            self._frequencies(),
            self.absent(),
            self._has("generation_group", "signal"),
            self._has("completion", "masked"),
            self._has_nul(),
        )

    def _has_nul(self) -> bool:
        """Whether a text holds a NUL; in a file without the index that knows, it is taken for none."""
        if self._one("SELECT 1 FROM sqlite_master WHERE name = 'completion_nul'") is None:
            return False
        found = self._one(
            "SELECT 1 FROM completion INDEXED BY completion_nul WHERE instr(text, char(0)) > 0 LIMIT 1"
        )
        return found is not None

    def _frequencies(self) -> Counter[str]:
        if not self._frequent:
            self._frequent = Counter()
            last = self._one("SELECT max(id) FROM completion")[0] or 0
            for number in range(min(SAMPLE, last)):
                row = self._one(
                    "SELECT substr(text, 1, 4000) FROM completion WHERE id >= ?", 1 + last * number // SAMPLE
                )
                self._frequent.update("" if row is None else row[0].lower())
        return self._frequent

    def _job(
        self, query: str | Query, sort: str | Sequence[SortKey], superseded: bool, after_group: int
    ) -> tuple[_Job, Counter[int]]:
        line = query if isinstance(query, str) else ""
        known = self.all_function_names()
        asked = read_query(query, known) if isinstance(query, str) else query
        keys = tuple(read_sort(sort, known) if isinstance(sort, str) else sort)
        names = self.run_names()
        wanted: Condition = condition(asked, names, line, superseded=superseded)
        columns = ["c.id", "g.step", "g.id"]
        head: list[Any] = []
        for key in keys:
            if key.field.name != "step":
                text, values = sort_key(key.field, names, sort if isinstance(sort, str) else "")
                columns.append(text)
                head += values
        newest = self._one("SELECT max(id) FROM generation_group")[0] or 0
        counts = self._counts(after_group, newest, everything=wanted.everything)
        found = Found(line, asked, keys, of=sum(counts.values()), newest_group=newest, complete=False)
        sql = f"SELECT {', '.join(columns)} FROM {_PAIRS} WHERE g.id BETWEEN ? AND ? AND {wanted.where}"
        heavy = wanted.heavy or any(key.field.name == "extra" for key in keys)
        job = _Job(found, sql, tuple(head), wanted.values, wanted.patterns, heavy, newest - after_group)
        return job, counts

    def _counts(self, after_group: int, newest: int, *, everything: bool) -> Counter[int]:
        """Completions by step, superseded ones among them only when everything is asked for.

        What was counted once is only added to: groups do not change, but by a resume, a new attempt.
        """
        if after_group or self.fact(IMPORTED) is not None:  # a copy may replace groups
            return self._counted(after_group, newest, everything=everything)
        key = everything, self._one("SELECT max(attempt) FROM attempt")[0]
        upto, counts = self._known_counts.get(key, (0, Counter()))
        if upto < newest:
            counts = counts + self._counted(upto, newest, everything=everything)
            self._known_counts[key] = newest, counts
        return counts

    def _counted(self, after_group: int, newest: int, *, everything: bool) -> Counter[int]:
        rows = self._all(
            f"SELECT g.step, count(*) FROM {_PAIRS} WHERE g.id > ? AND g.id <= ?"
            f" AND {'1' if everything else 'g.superseded = 0'} GROUP BY g.step",
            after_group,
            newest,
        )
        return Counter({row[0]: row[1] for row in rows})

    def _blocks(self, found: Found, after_group: int) -> Iterator[tuple[int, int]]:
        """First and last group of each block, the newest first unless the order asks for the oldest."""
        newest = found.newest_group
        # By number, not by group: a file may leave out most numbers, and the blocks must come to an end.
        per_group = max(1, found.of) / max(1, newest - after_group)
        size = FIRST_BLOCK
        forwards = bool(found.sort) and found.sort[0].field.name == "step" and not found.sort[0].descending
        low, high = after_group + 1, newest
        while low <= high:
            groups = max(1, int(size / per_group))
            if forwards:
                yield low, min(high, low + groups - 1)
                low += groups
            else:
                yield max(low, high - groups + 1), high
                high -= groups
            size = min(BLOCK, 2 * size)

    def _scans(self, blocks: int, *, in_children: bool) -> list[Scan]:
        """Who runs the statements; never more of them than there are blocks, but one."""
        if in_children:
            count = max(1, min(self._most_children, blocks))
            while len(self._children) < count:
                self._children.append(ChildScan(self.path))
            return list(self._children[:count])
        count = max(1, min(self._count, blocks))
        while len(self._direct) < count:
            self._direct.append(DirectScan(self.path))
        return list(self._direct[:count])


class _State:
    """A search under way: hands out blocks and gathers what comes back."""

    def __init__(
        self, job: _Job, counts: Counter[int], began: float, on_part: Callable[[Found], None] | None
    ) -> None:
        self._job = job
        self._counts = counts
        self._began = began
        self._on_part = on_part
        self._by_step = bool(job.found.sort) and job.found.sort[0].field.name == "step"
        self._tell_at = 0.0 if self._by_step else began + LATE_S
        self._hits: list[Any] = []
        self._early: dict[int, list[Any]] = {}
        """Hits of blocks that came back before one that stands before them in the order by step."""
        self._taken = 0
        self._slow = 0
        self._groups_done = 0

    def run(
        self,
        blocks: Iterator[tuple[int, int]],
        scans: list[Scan],
        cancel: threading.Event,
        until: float,
        enough: int | None,
    ) -> str | None:
        """Search block after block; returns why it ended early, None when it came to its end."""
        free: queue.SimpleQueue[Scan] = queue.SimpleQueue()
        for scan in scans:
            free.put(scan)
        numbers = itertools.count()
        running: dict[Future[_Answer], int] = {}
        trouble: str | None = None
        with ThreadPoolExecutor(len(scans), "search") as threads:
            while True:
                full = enough is not None and len(self._hits) >= enough
                while not full and len(running) < len(scans) and (block := next(blocks, None)) is not None:
                    running[threads.submit(self._scan, free, block)] = next(numbers)
                if not running:  # the blocks that were begun are the first ones, without a gap
                    return "" if full and next(blocks, None) is not None else None
                for future in wait(running, LOOK_S, FIRST_COMPLETED).done:
                    number = running.pop(future)
                    try:
                        self._take(number, future.result())
                    except ScanFailed as error:
                        trouble = str(error)
                    except ScanStopped:
                        trouble = "the search was ended from outside"
                if trouble is None:
                    trouble = self._ended(cancel, until)
                if trouble is not None:
                    for scan in scans:
                        scan.stop()
                    return trouble
                self._tell()

    def _scan(self, free: queue.SimpleQueue[Scan], block: tuple[int, int]) -> _Answer:
        job = self._job
        scan = free.get()
        try:
            rows, slow = scan.rows(job.sql, (*job.head, *block, *job.tail), job.patterns)
            return rows, slow, block[1] - block[0] + 1
        finally:
            free.put(scan)

    def _take(self, number: int, answer: _Answer) -> None:
        rows, slow, groups = answer
        if self._by_step:
            self._early[number] = rows
            while self._taken in self._early:
                self._hits += self._early.pop(self._taken)
                self._taken += 1
        else:
            self._hits += rows
        self._slow += slow
        self._groups_done += groups

    def _ended(self, cancel: threading.Event, until: float) -> str | None:
        if cancel.is_set():
            return ""
        if self._slow >= MOST_SLOW:
            return (
                f"the pattern takes too long: it was given up in {self._slow} completions;"
                " a repetition inside a repetition, such as (a+)+, makes it so"
            )
        if time.monotonic() > until:
            return f"the search was ended after {time.monotonic() - self._began:.0f} s, before its end"
        return None

    def _tell(self) -> None:
        now = time.monotonic()
        if self._on_part is not None and self._hits and now >= self._tell_at:
            self._on_part(self._gathered())
            # Each part is gathered anew; told ever more rarely, all of them together cost little.
            self._tell_at = now + max(PART_S, now - self._began)

    def result(self, trouble: str | None) -> Found:
        """What was found; `trouble` as `run` gave it."""
        while self._early:
            self._hits += self._early.popitem()[1]
        found = replace(self._gathered(), complete=trouble is None, trouble=trouble or "")
        if trouble is None and self._slow:
            found = replace(
                found, complete=False, trouble=f"in {self._slow} completions the pattern took too long"
            )
        if trouble is None:
            found = replace(found, searched=found.of)
        return found

    def _gathered(self) -> Found:
        found = self._job.found
        rows = sorted(self._hits)  # in order of recording, by the completions' own numbers
        column = len(found.sort) + 2 - sum(key.field.name == "step" for key in found.sort)
        for key in reversed(found.sort):
            if key.field.name == "step":
                rows.sort(key=itemgetter(1), reverse=key.descending)
            else:
                rows = ordered(rows, itemgetter(column), descending=key.descending)
                column -= 1
        return replace(
            found,
            ids=packed(map(itemgetter(0), rows)),
            group_of=packed(map(itemgetter(2), rows)),
            groups=len(set(map(itemgetter(2), rows))),
            searched=found.of * self._groups_done // max(1, self._job.groups),
            over_steps=over_steps(Counter(map(itemgetter(1), rows)), self._counts),
            seconds=time.monotonic() - self._began,
        )
