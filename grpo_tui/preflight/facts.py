"""What is known of a config's model, tokenizer and rows before anything is loaded: plain data.

Made by the checker's child part by part, read by the pre-flight, the plan and the data view. A part that is
not known yet is None; one that cannot be known has a `problem` in one sentence. Rows are numbered from 1 in
the order of the source; percentiles are by nearest rank.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
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


@dataclass(frozen=True, slots=True)
class LinearKind:
    """The Linear modules of one name and one shape, as LoRA and quantization see them.

    Attributes:
        name: the last word of the module's path, such as `q_proj`.
        inputs: features in.
        outputs: features out.
        count: how many there are.
        part: the part of the model they belong to, see `Parameters`.
    """

    name: str
    inputs: int
    outputs: int
    count: int
    part: str


@dataclass(frozen=True, slots=True)
class Parameters:
    """Parameters by part, counted on the meta device; a tied weight counts once.

    Attributes:
        total: all of them.
        embedding: the input embedding (and positions, where they are learned).
        head: the output layer, 0 when it is tied to the embedding.
        attention: of all layers.
        mlp: dense feed-forward parts, shared experts among them.
        experts: the experts of a mixture.
        router: what chooses among them.
        norm: all norms.
        vision: the part that sees images.
        other: the rest.
        active: those that take part in one token: all but the experts that are not chosen.
    """

    total: int
    embedding: int
    head: int
    attention: int
    mlp: int
    experts: int
    router: int
    norm: int
    vision: int
    other: int
    active: int


@dataclass(frozen=True, slots=True)
class LoraMatch:
    """What `lora_target_modules` finds in the model.

    Attributes:
        targets: as written; empty for PEFT's own choice by model type.
        matched: number of Linear modules that get an adapter.
        names: their last words.
        unmatched: targets that match nothing.
        problem: the sentence that PEFT's error would be; empty when all is well.
    """

    targets: tuple[str, ...]
    matched: int
    names: tuple[str, ...]
    unmatched: tuple[str, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """The policy of a config, without its weights.

    Attributes:
        where: of the weights; of the base model when `adapter` is set.
        adapter: folder or name of the LoRA adapter that the config names as its model; empty otherwise.
        architecture: the class that TRL loads, such as `Qwen2ForCausalLM`.
        model_type: transformers' name of the family.
        dtype: what the weights are loaded in: `float32` unless the config says otherwise.
        stored_dtype: what the files hold, empty when nothing says so.
        layers: transformer layers.
        hidden: width.
        intermediate: width of the dense feed-forward part.
        heads: attention heads.
        kv_heads: heads of keys and values.
        head_dim: width of a head.
        vocab: rows of the embedding.
        context: `max_position_embeddings`.
        tied: whether embedding and head share their weight.
        experts: experts of a layer, 0 for a dense model.
        experts_per_token: how many of them a token goes through.
        parameters: None when the architecture cannot be built.
        linears: all Linear modules by name and shape, the head among them.
        lora: None without `use_peft`.
        problem: why the rest is not known; empty otherwise.
    """

    where: Whereabouts
    adapter: str = ""
    architecture: str = ""
    model_type: str = ""
    dtype: str = "float32"
    stored_dtype: str = ""
    layers: int | None = None
    hidden: int | None = None
    intermediate: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    vocab: int | None = None
    context: int | None = None
    tied: bool | None = None
    experts: int = 0
    experts_per_token: int = 0
    parameters: Parameters | None = None
    linears: tuple[LinearKind, ...] = ()
    lora: LoraMatch | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class TokenizerFacts:
    """The tokenizer that training uses.

    Attributes:
        name: its class.
        fast: whether it is one of the `tokenizers` library.
        size: number of tokens, added ones among them.
        has_template: whether it has a chat template.
        pad, eos, bos: the tokens, None where there is none; TRL pads with `eos` when there is no `pad`.
        pad_id, eos_id: their ids.
        padding_side: as stored; TRL sets `left` in any case.
        ends: ids that end a completion, those of the generation config among them.
        rendered: the first prompt as the model gets it, special tokens and all; empty without a row.
        rendered_tokens: its length.
        special: special tokens that it holds, in their order, each once.
        opens_think: whether it ends by opening `<think>`, so that a completion has only the closing tag.
        sees_images: whether it prepares images too, as that of a vision-language model does.
        problem: why it cannot be used; empty otherwise.
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
        """The last 40 characters of the rendered prompt."""
        return self.rendered[-40:]


@dataclass(frozen=True, slots=True)
class Facts:
    """All parts, each None until it is known."""

    model: ModelFacts | None = None
    tokenizer: TokenizerFacts | None = None
    data: DataFacts | None = None
    seconds: float = field(default=0.0, compare=False)
