"""Search the completions of a run: one engine for Generations, Rewards and `grpo-tui completions`.

    search = Search(RunFolder(root).database)          # in the thread that will use it
    found = search.find('reward<0.2 and text ~ "wait"', "-advantage")
    page = rollouts_of(search.run, found.ids[0:50])    # bounded; no cursor stays open
    search.close()

`find` blocks. Call it in its own thread, one call at a time: a `Search` belongs to that thread. It calls
`on_part` in that thread with what was found so far. While results are ordered by step, the first page of a
part is already final. To end a search from another thread, set its `cancel` event: it returns within about
20 ms (0.2 s during a slow regular expression) with what it has and `complete` False. It never runs longer
than `limit_s`. An invalid query raises `QueryError` before any completion is read; `read_query` and
`read_sort` check a query without a run.

Only the numbers of the results are kept (eight bytes each). `Found.newest_group` says how far a live run was
searched, and `find(after_group=…)` searches only what came later. A search without results gets a hint when
its query cannot match anything in this run.
"""

from __future__ import annotations

import contextlib
import difflib
import itertools
import os
import queue
import re
import sqlite3
import threading
import time
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grpo_tui.store.connection import Shown, open_reader
from grpo_tui.store.query import (
    EVERYTHING,
    NUMBERS,
    Between,
    Comparison,
    Field,
    Query,
    QueryError,
    fields,
    leaves,
    read_field,
    read_query,
)
from grpo_tui.store.query_functions import ordered, parsed, register
from grpo_tui.store.query_sql import Condition, RunNames, condition, sort_key
from grpo_tui.store.read_series import total_range
from grpo_tui.store.reader import RunReader
from grpo_tui.store.rollouts import IMPORTED, absent_fields, all_function_names, import_notes

if TYPE_CHECKING:
    import regex


BUCKETS = 40


@dataclass(frozen=True, slots=True)
class SortKey:
    """A field to sort by. Completions without a value come last in either direction."""

    field: Field
    descending: bool = False

    def __str__(self) -> str:
        return f"-{self.field}" if self.descending else str(self.field)


NEWEST = (SortKey(Field("step"), descending=True),)
OLDEST = (SortKey(Field("step")),)


_KEY = re.compile(
    r"""\s*(?P<sign>[-+−]?)(?P<field>(?:"[^"]*"|'[^']*'|[^,"'])*?)(?:[\s:]+(?P<way>asc|desc))?\s*,""",
    re.IGNORECASE,
)


def read_sort(text: str, functions: Collection[str] = ()) -> tuple[SortKey, ...]:
    """Parse sort keys: `reward`, `-advantage`, `step,-rewards.format`, `reward desc`; empty: newest first.

    Raises:
        QueryError: A key is not a field.
    """
    if not text.strip():
        return NEWEST
    keys = []
    at = 0
    while at <= len(text):
        key = _KEY.match(f"{text},", at)
        if key is None:
            raise QueryError("a quote in it is not closed", text, at)
        at = key.end()
        word = key["field"].strip()
        try:
            field = read_field(word, functions)
        except QueryError as error:
            place = key.start("field") + key["field"].index(word)
            raise QueryError(str(error), text, place + error.at) from None
        turned = bool(key["sign"].strip("+")) != ((key["way"] or "").lower() == "desc")
        keys.append(SortKey(field, turned))
    return tuple(keys)


@dataclass(frozen=True, slots=True)
class StepHits:
    """Number of completions found in a range of steps, both ends included."""

    first_step: int
    last_step: int
    hits: int
    of: int


@dataclass(frozen=True, slots=True)
class Found:
    """Results of a search, complete or so far: numbers of completions, for `rollouts_of`.

    Attributes:
        sort: Order of `ids`; ties are in order of recording.
        searched, of: Number of completions examined, and to examine.
        over_steps: Distribution over steps, in order, without steps that have no completion.
        complete: False while the search continues, and when it ended early.
        trouble: Why it ended early, or what could not be searched, as a sentence; empty when all was well.
        hint: What may be wrong with a query that found nothing; usually empty.
        notes: Notes about imported logs, such as a file that cannot be read.
        newest_group: Newest group at the time. Later ones were not searched.
    """

    line: str = ""
    query: Query = EVERYTHING
    sort: tuple[SortKey, ...] = NEWEST
    ids: Sequence[int] = ()
    group_of: Sequence[int] = ()
    groups: int = 0
    searched: int = 0
    of: int = 0
    over_steps: tuple[StepHits, ...] = ()
    complete: bool = True
    trouble: str = ""
    hint: str = ""
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    newest_group: int = 0

    @property
    def count(self) -> int:
        """Number of completions found."""
        return len(self.ids)

    @property
    def by_step(self) -> bool:
        """Whether results are ordered by step first."""
        return bool(self.sort) and self.sort[0].field.name == "step"

    @property
    def began(self) -> StepHits | None:
        """First bucket with a hit: when did this begin?"""
        return next((bucket for bucket in self.over_steps if bucket.hits), None)


def packed(ids: Iterable[int]) -> array[int]:
    """Pack numbers into eight bytes each."""
    return array("q", ids)


def over_steps(hits: Counter[int], of: Mapping[int, int], buckets: int = BUCKETS) -> tuple[StepHits, ...]:
    """Count hits by step in at most `buckets` buckets of equal width: 1, 2 or 5 steps times a power of 10."""
    of = {step: count for step, count in of.items() if isinstance(step, int)}  # a file may contain anything
    if not of:
        return ()
    width = bucket_width(min(of), max(of), buckets)
    found: dict[int, list[int]] = {}
    for step, count in of.items():
        sums = found.setdefault(step // width, [0, 0])
        sums[0] += hits.get(step, 0)
        sums[1] += count
    return tuple(
        StepHits(number * width, number * width + width - 1, *sums) for number, sums in sorted(found.items())
    )


def bucket_width(first: int, last: int, buckets: int) -> int:
    """Return the smallest round width that divides the steps into at most `buckets` buckets."""
    scale = 1
    while True:
        for digit in (1, 2, 5):
            width = digit * scale
            if last // width - first // width + 1 <= max(1, buckets):
                return width
        scale *= 10


LOOKED_AT = 60
_PLACES = {"column": ("columns", "generation_group"), "extra": ("extra", "completion")}


def hint(reader: RunReader, query: Query, names: RunNames) -> str:
    """Return a sentence about the first part of a query that nothing can match; empty without one."""
    for field in fields(query):
        if field.name not in _PLACES or field.key is None:
            continue
        known = _keys(reader, *_PLACES[field.name])
        if known and field.key not in known:
            near = difflib.get_close_matches(field.key, known, 1, 0.5) or sorted(known)[:5]
            keys = ", ".join(str(Field(field.name, name)) for name in near)
            return f"no completion examined has {field}. It has {keys}"
    for leaf in leaves(query):
        if isinstance(leaf, Comparison | Between) and leaf.field.name in (*NUMBERS, "rewards"):
            told = _outside(reader, leaf, names)
            if told:
                return told
    return ""


def _outside(reader: RunReader, leaf: Comparison | Between, names: RunNames) -> str:
    text, values = sort_key(leaf.field, names)
    # NaN is stored as text, and every text sorts above every number.
    number = f"CASE WHEN {text} < '' THEN {text} END"
    low, high = reader.one(f"SELECT min({number}), max({number}) FROM {_PAIRS}", *(values * 4))
    if low is None:
        return f"no completion has a {leaf.field}"
    if isinstance(leaf, Between):
        missed = (leaf.low is not None and leaf.low > high) or (leaf.high is not None and leaf.high < low)
    elif isinstance(leaf.value, str):
        return ""
    else:
        missed = {
            "<": low >= leaf.value,
            "<=": low > leaf.value,
            ">": high <= leaf.value,
            ">=": high < leaf.value,
            "==": not low <= leaf.value <= high,
            "!=": low == high == leaf.value,
        }[leaf.op]
    through = f"is {low:g} everywhere" if low == high else f"ranges from {low:g} to {high:g}"
    return f"{leaf.field} {through} in this run" if missed else ""


def _keys(reader: RunReader, column: str, table: str) -> set[str]:
    last = reader.one(f"SELECT max(id) FROM {table}")[0] or 0
    found: set[str] = set()
    for place in sorted({1 + last * number // LOOKED_AT for number in range(LOOKED_AT)}):
        row = reader.one(f"SELECT {column} FROM {table} WHERE id >= ? ORDER BY id LIMIT 1", place)
        value = None if row is None else parsed(row[0])
        if isinstance(value, dict):
            found.update(value)
    return found


LIMIT_S = 20.0
"""Time limit of a search, which then returns what it has."""
LOOK_S = 0.02
"""Interval of checks whether the search should end."""
PART_S = 0.5
"""Minimum interval of calls to `on_part`, after the first."""
LATE_S = 0.3
"""Delay of the first call when the order makes the first page known only at the end."""
BLOCK = 12_000
"""Completions per statement. The first ones are smaller, to show a page at once."""
FIRST_BLOCK = 1_500
SAMPLE = 40
SCANS = 4
"""Maximum number of concurrent statements, one per core."""

_PAIRS = "generation_group g CROSS JOIN completion c ON c.group_id = g.id"

_Answer = tuple[list[Any], int, int]
"""Rows, number of texts in which a pattern timed out, number of groups examined."""


@dataclass(frozen=True, slots=True)
class _Job:
    found: Found
    sql: str
    head: tuple[Any, ...]
    """Values bound before the ends of the block."""
    tail: tuple[Any, ...]
    patterns: tuple[str, ...]
    heavy: bool
    groups: int


class Search:
    """Searches the completions of a run. Use it from one thread at a time.

    Args:
        scans: Number of concurrent statements; by default the number of cores, at most `SCANS`.

    Raises:
        RunDatabaseError: From the constructor, when there is no readable `run.db`.
    """

    def __init__(self, path: Path, scans: int | None = None) -> None:
        self.run = RunReader(path)
        self._path = path
        count = min(SCANS, os.cpu_count() or 1) if scans is None else scans
        if not os.access(path.parent, os.W_OK):
            count = 1  # each connection may have to copy the file first
        self._count = max(1, count)
        self._scans: list[Scan] = []
        self._frequent: Counter[str] | None = None
        self._known_counts: dict[tuple[bool, int | None], tuple[int, Counter[int]]] = {}

    def close(self) -> None:
        """Close all connections."""
        for scan in self._scans:
            scan.close()
        self._scans = []
        self.run.close()

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
        """Find the completions that match a query.

        Args:
            query: A line of the language, or a parsed query; empty for all completions.
            sort: Keys as typed (`-reward,step`), or parsed; by default the newest step first.
            superseded: Include steps that a resume has repeated.
            limit: End soon after this many results, when they are ordered by step.

        Raises:
            QueryError: The query or the sort key is invalid.
        """
        began = time.monotonic()
        job, counts = self._job(query, sort, superseded, after_group)
        state = _State(job, counts, began, on_part)
        cancel = cancel or threading.Event()
        blocks = list(self._blocks(job.found, after_group))
        scans = self._open_scans(1 if job.heavy else max(1, min(self._count, len(blocks))))
        trouble = state.run(
            iter(blocks), scans, cancel, began + limit_s, limit if job.found.by_step else None
        )
        found = replace(state.result(trouble), notes=import_notes(self.run))
        asked = not found.ids and found.complete
        return replace(found, hint=hint(self.run, found.query, self.run_names())) if asked else found

    # -- before ----------------------------------------------------------------------------------

    def run_names(self) -> RunNames:
        """Return the facts of this run that a query depends on."""
        modes = [row[0] for row in self.run.all("SELECT DISTINCT mode FROM generation_group")]
        totals = {mode: ends for mode in modes if (ends := total_range(self.run, mode)) is not None}
        return RunNames(
            self.run.function_names(),
            totals,
            self.run.has("generation_group", "high"),
            self._frequencies(),
            absent_fields(self.run),
            self.run.has("generation_group", "signal"),
            self.run.has("completion", "masked"),
            self._has_nul(),
        )

    def _has_nul(self) -> bool:
        """Return whether a text contains a NUL; False in a file without the index that knows."""
        if self.run.one("SELECT 1 FROM sqlite_master WHERE name = 'completion_nul'") is None:
            return False
        found = self.run.one(
            "SELECT 1 FROM completion INDEXED BY completion_nul WHERE instr(text, char(0)) > 0 LIMIT 1"
        )
        return found is not None

    def _frequencies(self) -> Counter[str]:
        if not self._frequent:
            self._frequent = Counter()
            last = self.run.one("SELECT max(id) FROM completion")[0] or 0
            for number in range(min(SAMPLE, last)):
                row = self.run.one(
                    "SELECT substr(text, 1, 4000) FROM completion WHERE id >= ?", 1 + last * number // SAMPLE
                )
                self._frequent.update("" if row is None else row[0].lower())
        return self._frequent

    def _job(
        self, query: str | Query, sort: str | Sequence[SortKey], superseded: bool, after_group: int
    ) -> tuple[_Job, Counter[int]]:
        line = query if isinstance(query, str) else ""
        known = all_function_names(self.run)
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
        newest = self.run.one("SELECT max(id) FROM generation_group")[0] or 0
        counts = self._counts(after_group, newest, everything=wanted.everything)
        found = Found(line, asked, keys, of=sum(counts.values()), newest_group=newest, complete=False)
        sql = f"SELECT {', '.join(columns)} FROM {_PAIRS} WHERE g.id BETWEEN ? AND ? AND {wanted.where}"
        heavy = wanted.heavy or any(key.field.name == "extra" for key in keys)
        job = _Job(found, sql, tuple(head), wanted.values, wanted.patterns, heavy, newest - after_group)
        return job, counts

    def _counts(self, after_group: int, newest: int, *, everything: bool) -> Counter[int]:
        """Count completions by step; `everything` includes superseded ones.

        Counts are kept and only extended: within one attempt, recorded groups do not change.
        """
        if after_group or self.run.fact(IMPORTED) is not None:  # a copy may replace groups
            return self._counted(after_group, newest, everything=everything)
        key = everything, self.run.one("SELECT max(attempt) FROM attempt")[0]
        upto, counts = self._known_counts.get(key, (0, Counter()))
        if upto < newest:
            counts = counts + self._counted(upto, newest, everything=everything)
            self._known_counts[key] = newest, counts
        return counts

    def _counted(self, after_group: int, newest: int, *, everything: bool) -> Counter[int]:
        rows = self.run.all(
            f"SELECT g.step, count(*) FROM {_PAIRS} WHERE g.id > ? AND g.id <= ?"
            f" AND {'1' if everything else 'g.superseded = 0'} GROUP BY g.step",
            after_group,
            newest,
        )
        return Counter({row[0]: row[1] for row in rows})

    def _blocks(self, found: Found, after_group: int) -> Iterator[tuple[int, int]]:
        """Yield first and last group of each block, newest first unless the order is oldest first."""
        newest = found.newest_group
        # By number, not by group: a file may skip most numbers, and the blocks must come to an end.
        per_group = max(1, found.of) / max(1, newest - after_group)
        size = FIRST_BLOCK
        forwards = found.by_step and not found.sort[0].descending
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

    def _open_scans(self, count: int) -> list[Scan]:
        while len(self._scans) < count:
            self._scans.append(Scan(self._path))
        return self._scans[:count]


class _State:
    def __init__(
        self, job: _Job, counts: Counter[int], began: float, on_part: Callable[[Found], None] | None
    ) -> None:
        self._job = job
        self._counts = counts
        self._began = began
        self._on_part = on_part
        self._by_step = job.found.by_step
        self._tell_at = 0.0 if self._by_step else began + LATE_S
        self._hits: list[Any] = []
        self._early: dict[int, list[Any]] = {}
        """Hits of blocks that returned before an earlier block in the order by step."""
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
        """Search block after block. Return why the search ended early, or None when it is complete."""
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
                if not running:  # all blocks up to here were searched, without a gap
                    return "" if full and next(blocks, None) is not None else None
                for future in wait(running, LOOK_S, FIRST_COMPLETED).done:
                    number = running.pop(future)
                    try:
                        self._take(number, future.result())
                    except ScanFailed as error:
                        trouble = str(error)
                    except ScanStopped:
                        trouble = "the search process was killed"
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
                f"the pattern is too slow: it timed out in {self._slow} completions. Avoid nested "
                "repetition such as (a|aa)+"
            )
        if time.monotonic() > until:
            return f"the search was stopped after {time.monotonic() - self._began:.0f} s, before it finished"
        return None

    def _tell(self) -> None:
        now = time.monotonic()
        if self._on_part is not None and self._hits and now >= self._tell_at:
            self._on_part(self._gathered())
            # Collecting a part costs more as results grow, so parts become rarer.
            self._tell_at = now + max(PART_S, now - self._began)

    def result(self, trouble: str | None) -> Found:
        while self._early:
            self._hits += self._early.popitem()[1]
        found = self._gathered()
        if trouble is not None:
            return replace(found, trouble=trouble)
        slow = f"in {self._slow} completions the pattern timed out" if self._slow else ""
        return replace(found, complete=not slow, trouble=slow, searched=found.of)

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


MATCH_LIMIT_S = 0.2
MOST_SLOW = 10

_BRACES = re.compile(r"\\N\{[^}]*\}|\\.|\{(?!\d+(?:,\d*)?\}|,\d*\})", re.DOTALL)
"""Escapes to leave as they are, and braces that are not a repetition."""


class ScanStopped(Exception):
    """The scan was interrupted from another thread."""


class ScanFailed(Exception):
    """The scan cannot run; the message says why."""


def compiled(pattern: str) -> regex.Pattern[str]:
    r"""Compile a pattern of Python's `re`.

    In `\\frac{d}{dx}` the braces are literal in `re` but mean approximate matching in `regex`, so they are
    escaped.

    Raises:
        ScanFailed: `regex` does not accept it.
    """
    import regex

    plain = _BRACES.sub(lambda found: "\\{" if found[0] == "{" else found[0], pattern)
    try:
        return regex.compile(plain, regex.VERSION0)
    except regex.error as error:
        raise ScanFailed(f"the regex package does not read this pattern: {error}") from error


class Scan:
    """Runs statements over its own connection, one at a time, which another thread can interrupt.

    SQLite lets other threads run meanwhile. The `regex` package does so too during a match and has a timeout;
    Python's `re` has neither.
    """

    def __init__(self, path: Path) -> None:
        self._db = open_reader(path)
        self._db.row_factory = None
        self._shown = Shown(path)
        self._patterns: list[regex.Pattern[str]] = []
        self._slow = 0
        register(self._db, self._matches)

    def rows(self, sql: str, values: Sequence[Any], patterns: Sequence[str]) -> tuple[list[Any], int]:
        """Return all rows of a statement, and the number of texts in which a pattern timed out.

        Raises:
            ScanStopped: `stop` was called meanwhile.
            ScanFailed: The statement cannot be run.
        """
        self._patterns = [compiled(pattern) for pattern in patterns]
        self._slow = 0
        try:
            self._shown.follow(self._db)
            return self._db.execute(sql, values).fetchall(), self._slow
        except sqlite3.DatabaseError as error:
            if "interrupted" in str(error):
                raise ScanStopped from error
            raise ScanFailed(f"run.db cannot be searched: {error}") from error

    def _matches(self, number: int, text: str | None) -> bool:
        if text is None or self._slow >= MOST_SLOW:
            return False
        try:
            return self._patterns[number].search(text, timeout=MATCH_LIMIT_S) is not None
        except TimeoutError:
            self._slow += 1
            return False

    def stop(self) -> None:
        """Interrupt the running statement, if any, from another thread."""
        with contextlib.suppress(sqlite3.ProgrammingError):  # closed meanwhile
            self._db.interrupt()

    def close(self) -> None:
        """Close the connection."""
        self._db.close()
