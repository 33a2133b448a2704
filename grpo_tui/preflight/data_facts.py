"""What is known of a config's rows before a start: plain data, numbered from 1 in the order of the source.

Percentiles are by nearest rank. It knows no way to find any of this out; `facts` has the other parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Place = Literal["folder", "cached", "hub", "gated", "missing", "unreachable", "broken"]
"""Where a model or dataset is: a folder or file, in the cache, to be fetched from the hub (`hub`), there but
closed (`gated`), not there (`missing`), not here and the hub cannot be asked (`unreachable`), or here and not
readable (`broken`)."""


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """Where a model or a dataset of the hub is, and what it costs to get it.

    Attributes:
        name: as the config names it.
        place: see `Place`.
        path: its folder on this machine, None when it is not here.
        disk_bytes: its size on this machine, None when it is not here.
        download_bytes: what has still to be fetched; 0 when all is here, None when nobody knows.
        free_bytes: free space where it is or would be kept.
        problem: why it cannot be used, or why the hub was not asked; empty otherwise.
    """

    name: str
    place: Place
    path: str | None = None
    disk_bytes: int | None = None
    download_bytes: int | None = None
    free_bytes: int | None = None
    problem: str = ""

    @property
    def here(self) -> bool:
        """Whether it can be used without the network."""
        return self.place in ("folder", "cached")


@dataclass(frozen=True, slots=True)
class Lengths:
    """How long texts are, in tokens.

    Attributes:
        count: texts measured.
        least, mean, p50, p95, p99, most: of their lengths; percentiles by nearest rank.
        longest: the longest rows as (row, tokens), longest first.
        bins: a histogram as (first, last, texts), both ends counted in.
        by_length: every length with the number of texts that have it, ascending.
    """

    count: int
    least: int
    mean: float
    p50: int
    p95: int
    p99: int
    most: int
    longest: tuple[tuple[int, int], ...] = ()
    bins: tuple[tuple[int, int, int], ...] = ()
    by_length: tuple[tuple[int, int], ...] = ()

    def over(self, limit: int) -> int:
        """Return how many texts are longer than a limit."""
        return sum(count for length, count in self.by_length if length > limit)


@dataclass(frozen=True, slots=True)
class KindCount:
    """Values of one kind in a column.

    Attributes:
        kind: `text`, `number`, `truth`, `list`, `messages`, `mapping` or another type's name.
        count: how many.
        rows: the first rows with it.
    """

    kind: str
    count: int
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """One column, by the name that the rewards see.

    Attributes:
        name: after mapping.
        source: its name in the source, the same where nothing was renamed; empty for one that was made.
        kinds: kinds of its values, the commonest first; nulls are not among them.
        nulls, null_rows: how many, and the first of them.
        empties, empty_rows: empty texts and lists.
        distinct: different values, None where that was not counted.
        top: the commonest values as (text, count), when few are different.
        first: the first values, shortened.
        otherwise: rows whose value is not what the file says, as (row, cell of the file, value as text).
        otherwise_count: how many they are.
    """

    name: str
    source: str
    kinds: tuple[KindCount, ...] = ()
    nulls: int = 0
    null_rows: tuple[int, ...] = ()
    empties: int = 0
    empty_rows: tuple[int, ...] = ()
    distinct: int | None = None
    top: tuple[tuple[str, int], ...] = ()
    first: tuple[str, ...] = ()
    otherwise: tuple[tuple[int, str, str], ...] = ()
    otherwise_count: int = 0


@dataclass(frozen=True, slots=True)
class BadRows:
    """Rows that training would refuse, all for one reason.

    Attributes:
        reason: what is wrong, to be read after "the prompt" or "the answer".
        what: `prompt` or `answer`.
        count: how many.
        rows: the first of them.
    """

    what: str
    reason: str
    count: int
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FilterFacts:
    """What one filter of `grpo_tui.filters` leaves out.

    Attributes:
        name: the filter's key.
        drops: rows, None while it is not known (a length needs the tokenizer).
        rows: the first of them.
    """

    name: str
    drops: int | None
    rows: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class EvaluationFacts:
    """The rows to evaluate on, where they are not the hold-out.

    Attributes:
        origin: file, function or name.
        rows: how many.
        columns: as their source names them.
        prompt_source: the column that the prompt is read from.
        lacking: columns of the rows to train on that are not here, after mapping.
        bad: rows that the evaluation would refuse.
        problem: why they cannot be mapped; empty otherwise.
    """

    origin: str
    rows: int = 0
    columns: tuple[str, ...] = ()
    prompt_source: str = "prompt"
    lacking: tuple[str, ...] = ()
    bad: tuple[BadRows, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class DataFacts:
    """The rows of a config.

    Attributes:
        origin: file, function or name, for messages.
        where: of a dataset of the hub; None for files and functions.
        source_columns: as the source names them.
        columns: after mapping, those of the source first.
        form: `text`, `messages`, `mixed` or empty, of the mapped prompts.
        total: rows of the source, None for a stream.
        looked_at: rows that the rest speaks of.
        sampled: how the rows were chosen when not all were looked at; empty otherwise.
        train_rows: rows that are trained on, None for a stream or when it is not known.
        held: rows held out.
        eval_rows: rows to evaluate on, 0 without evaluation.
        bad: rows that training would refuse.
        odd: rows whose prompt training takes, and nobody means so; `what` is `quoted`, `role`, `blank` or
            `answered`, and once the chat template is known `repr`, `image`, `lost`, `doubled`, `cut`,
            `closed` or `refused`.
        evaluation: the rows to evaluate on; None without evaluation, and for a hold-out.
        duplicates: rows whose prompt an earlier row has, and the first of them.
        duplicate_rows: the first of those rows.
        overlap: rows to evaluate on whose prompt is trained on too.
        overlap_rows: the first of them, numbered in the rows to evaluate on.
        answer_column: the one with the right answer, empty when no column looks like one.
        prompt_tokens: None until the tokenizer is known.
        gold_tokens: lengths of the gold solutions, where a column holds more than short answers.
        filters: what each filter leaves out.
        preference: whether it holds preference pairs (chosen, rejected).
        problem: why the rows cannot be used; empty otherwise.
        seconds: how long it took.
    """

    origin: str
    where: Whereabouts | None = None
    source_columns: tuple[str, ...] = ()
    columns: tuple[ColumnFacts, ...] = ()
    form: str = ""
    total: int | None = None
    looked_at: int = 0
    sampled: str = ""
    train_rows: int | None = None
    held: int = 0
    eval_rows: int = 0
    bad: tuple[BadRows, ...] = ()
    odd: tuple[BadRows, ...] = ()
    evaluation: EvaluationFacts | None = None
    duplicates: int = 0
    duplicate_rows: tuple[int, ...] = ()
    overlap: int = 0
    overlap_rows: tuple[int, ...] = ()
    answer_column: str = ""
    prompt_tokens: Lengths | None = None
    gold_tokens: Lengths | None = None
    filters: tuple[FilterFacts, ...] = ()
    preference: bool = False
    problem: str = ""
    seconds: float = 0.0

    @property
    def short(self) -> str:
        """The origin for a sentence: of a path its last part."""
        return self.origin.rpartition("/")[2] if self.origin.startswith("/") else self.origin

    def column(self, name: str) -> ColumnFacts | None:
        """Return a column by its name after mapping."""
        return next((column for column in self.columns if column.name == name), None)


@dataclass(frozen=True, slots=True)
class RowView:
    """One row as training sees it.

    Attributes:
        number: in the source, from 1.
        total: rows of the source, None for a stream.
        source: the row as the source holds it.
        prompt: the mapped prompt; None when the row is refused.
        columns: the other columns after mapping, which the rewards get.
        rendered: the prompt as the model gets it; empty when no tokenizer is at hand.
        tokens: its length, None without a tokenizer.
        fate: `train`, `held out`, or why it is left out.
        answer_column: the column with the right answer, empty without one.
        sampled: how far one can look, when not all rows are at hand.
        problem: why the row, or its rendering, fails; empty otherwise.
    """

    number: int
    total: int | None
    source: Mapping[str, Any]
    prompt: Any
    columns: Mapping[str, Any]
    rendered: str = ""
    tokens: int | None = None
    fate: str = "train"
    answer_column: str = ""
    sampled: str = ""
    problem: str = ""


def first_rows(rows: Iterable[int], count: int, most: int = 5) -> str:
    """Name rows for a person: `row 3`, `rows 3, 8 and 9`, `rows 3, 8, 9, 12, 15 and 211 more`."""
    shown = list(rows)[:most]
    names = [f"{row:,}" for row in shown]
    rest = count - len(shown)
    if rest > 0:
        return f"rows {', '.join(names)} and {rest:,} more"
    if len(names) == 1:
        return f"row {names[0]}"
    return f"rows {', '.join(names[:-1])} and {names[-1]}" if names else "no row"
