"""Facts about a config's model, tokenizer and rows before anything is loaded, as plain data.

The checker's child collects them part by part. An unknown part is None. A part that cannot be determined has
a `problem` in one sentence, otherwise an empty one. Row numbers start at 1 and follow the source. Percentiles
are nearest-rank.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from grpo_tui.config.plan.model import ModelShape

Place = Literal["folder", "cached", "hub", "gated", "missing", "unreachable", "broken"]
"""Location of a model or dataset: a local folder or file, the cache, only on the Hub (`hub`), on the Hub
but without access (`gated`), nowhere (`missing`), not local while the Hub cannot be reached (`unreachable`),
or local but unreadable (`broken`).
"""


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """Location of a model or dataset, and the cost of downloading it.

    Attributes:
        path: its local folder, or None.
        disk_bytes: its local size, or None.
        download_bytes: remaining download, 0 when complete, None when unknown.
        free_bytes: free space in its location.
        problem: why it cannot be used, or why the Hub was not asked.
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
    """Distribution of text lengths in tokens.

    Attributes:
        longest: longest rows as (row, tokens), longest first.
        bins: histogram as (first, last, texts), inclusive.
        by_length: (length, texts), ascending.
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
        """Return the number of texts longer than a limit."""
        return sum(count for length, count in self.by_length if length > limit)


@dataclass(frozen=True, slots=True)
class KindCount:
    """Values of one kind in a column.

    Attributes:
        kind: `text`, `number`, `truth`, `list`, `messages`, `mapping` or another type's name.
        rows: the first rows.
    """

    kind: str
    count: int
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """Facts about one column.

    Attributes:
        name: after mapping, as the rewards see it.
        source: name in the source, empty for an added column.
        kinds: most common first, without nulls.
        nulls, null_rows: count and first rows of nulls.
        empties, empty_rows: count and first rows of blank texts and empty lists or mappings.
        distinct: number of distinct values, None if not counted.
        top: most common values as (text, count).
        otherwise: first rows whose value differs from the file, as (row, cell of the file, value as text).
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
    """Rows with one problem.

    Attributes:
        what: `prompt`, `answer`, `hold-out`, `filters…` (a filter file), or a kind of `DataFacts.odd`.
        reason: the problem, phrased to follow "the prompt" or "the answer".
    """

    what: str
    reason: str
    count: int
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FilterFacts:
    """Effect of one filter of `grpo_tui.filters`.

    Attributes:
        drops: number of removed rows, None while unknown (lengths need the tokenizer).
    """

    name: str
    drops: int | None
    rows: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class EvaluationFacts:
    """Evaluation rows other than a hold-out.

    Attributes:
        columns: names in the source.
        prompt_source: column of the prompt.
        lacking: columns of the training rows that are missing here, after mapping.
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
    """Facts about the rows of a config.

    Attributes:
        origin: file, function or name, for messages.
        where: location of a Hub dataset, None for files and functions.
        source_columns: names in the source.
        columns: after mapping, those of the source first.
        form: `text`, `messages`, `mixed` or empty, for the mapped prompts.
        total: rows of the source, None for a stream.
        looked_at: rows that the other facts are about.
        sampled: how these rows were chosen, empty if all were checked.
        train_rows: number of training rows, None for a stream or while unknown.
        eval_rows: number of evaluation rows, 0 without evaluation.
        odd: rows with prompts that training accepts but that are probably a mistake. `what` is `quoted`,
            `role`, `blank` or `answered`, and with a chat template `repr`, `image`, `lost`, `doubled`, `cut`,
            `closed` or `refused`.
        evaluation: evaluation rows, None without evaluation or for a hold-out.
        duplicates, duplicate_rows: count and first rows with the prompt of an earlier row.
        overlap, overlap_rows: count and first evaluation rows whose prompt is trained on too.
        answer_column: column with the reference answer, or empty.
        prompt_tokens: None without a tokenizer.
        gold_tokens: lengths of reference solutions, None if the column has only short answers.
        preference: whether there are preference pairs (chosen, rejected).
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
        """Origin for a sentence, without the folders of a path."""
        return self.origin.rpartition("/")[2] if self.origin.startswith("/") else self.origin

    def column(self, name: str) -> ColumnFacts | None:
        """Return a column by its name after mapping."""
        return next((column for column in self.columns if column.name == name), None)


REJECTED = "rejected"
"""How the fate of a row begins that training cannot take. The reason follows after a colon."""


@dataclass(frozen=True, slots=True)
class RowView:
    """One row as training sees it.

    Attributes:
        number: in the source, from 1.
        total: rows of the source, None for a stream.
        source: the unmapped row.
        prompt: the mapped prompt, None when it is unusable.
        columns: the other columns after mapping.
        rendered: the prompt as the model receives it, empty without a tokenizer.
        tokens: its length, None without a tokenizer.
        fate: `train`, `held out`, `train or held out`, or why the row is not used.
        answer_column: column with the reference answer, or empty.
        sampled: which rows are available, empty if all are.
        problem: why the row, or its rendering, fails.
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
    """Name rows in words: `row 3`, `rows 3, 8 and 9`, `rows 3, 8, 9, 12, 15 and 211 more`."""
    shown = list(rows)[:most]
    names = [f"{row:,}" for row in shown]
    rest = count - len(shown)
    if rest > 0:
        return f"rows {', '.join(names)} and {rest:,} more"
    if len(names) == 1:
        return f"row {names[0]}"
    return f"rows {', '.join(names[:-1])} and {names[-1]}" if names else "no row"


@dataclass(frozen=True, slots=True)
class LinearKind:
    """Linear modules of one name and shape, for LoRA and quantization.

    Attributes:
        name: last component of the module's path, such as `q_proj`.
        inputs, outputs: features.
        part: `head`, `attention` or `other`.
    """

    name: str
    inputs: int
    outputs: int
    count: int
    part: str


@dataclass(frozen=True, slots=True)
class LoraMatch:
    """Modules of the model that match `lora_target_modules`.

    Attributes:
        targets: as in the config, empty for PEFT's defaults for the model type.
        matched: number of modules that get an adapter.
        names: last components of their paths.
        problem: why PEFT would raise an error.
    """

    targets: tuple[str, ...]
    matched: int
    names: tuple[str, ...]
    unmatched: tuple[str, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """Facts about the policy, without its weights.

    Attributes:
        where: location of the weights, or of the base model's weights if `adapter` is set.
        adapter: folder or name of the LoRA adapter that the config names as its model, or empty.
        architecture: class that TRL loads, such as `Qwen2ForCausalLM`.
        dtype: dtype in memory, `float32` unless the config says otherwise.
        vocab, context: rows of the embedding, and tokens that fit; None when its config does not say.
        shape: its sizes, with counted parameters if it can be built; None when its config has not all of
            them, as for models without attention.
        linears: all Linear modules by name and shape, including the head.
        lora: None without `use_peft`.
    """

    where: Whereabouts
    adapter: str = ""
    architecture: str = ""
    dtype: str = "float32"
    vocab: int | None = None
    context: int | None = None
    shape: ModelShape | None = None
    linears: tuple[LinearKind, ...] = ()
    lora: LoraMatch | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class TokenizerFacts:
    """Facts about the tokenizer that training uses.

    Attributes:
        name: its class, empty when it cannot be loaded.
        fast: whether it is based on the `tokenizers` library.
        size: number of tokens, including added ones.
        pad, eos, bos: tokens, or None. TRL pads with `eos` when there is no `pad`.
        padding_side: as stored. TRL always uses `left`.
        ends: ids that end a completion, including those of the generation config.
        rendered: the first prompt as the model receives it, with special tokens. Empty without a row.
        special: distinct special tokens in it, in order.
        opens_think: whether it ends with `<think>`, so that completions only contain the closing tag.
        sees_images: whether it prepares images too, as for a vision-language model.
    """

    name: str = ""
    fast: bool = True
    size: int | None = None
    has_template: bool = False
    pad: str | None = None
    eos: str | None = None
    bos: str | None = None
    pad_id: int | None = None
    eos_id: int | None = None
    padding_side: str = ""
    ends: tuple[int, ...] = ()
    rendered: str = ""
    rendered_tokens: int | None = None
    special: tuple[str, ...] = ()
    opens_think: bool = False
    sees_images: bool = False
    problem: str = ""

    @property
    def tail(self) -> str:
        """Last 40 characters of the rendered prompt."""
        return self.rendered[-40:]


@dataclass(frozen=True, slots=True)
class Facts:
    """All facts, each None until known."""

    model: ModelFacts | None = None
    tokenizer: TokenizerFacts | None = None
    data: DataFacts | None = None
    seconds: float = field(default=0.0, compare=False)
