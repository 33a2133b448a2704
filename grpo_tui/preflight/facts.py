"""What is known of a config's model, tokenizer and data before anything is loaded: plain data.

Made by the checker's child part by part, read by the pre-flight, the plan and the data view. A part that is
not known yet is None; one that cannot be known has a `problem` in one sentence. What is known of rows is in
`data_facts`. It knows no way to find any of this out, and no judgement of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from grpo_tui.preflight.data_facts import (
    BadRows,
    ColumnFacts,
    DataFacts,
    FilterFacts,
    KindCount,
    Lengths,
    Place,
    RowView,
    Whereabouts,
    first_rows,
)

__all__ = [
    "BadRows",
    "ColumnFacts",
    "DataFacts",
    "Facts",
    "FilterFacts",
    "KindCount",
    "Lengths",
    "LinearKind",
    "LoraMatch",
    "ModelFacts",
    "Parameters",
    "Place",
    "RowView",
    "TokenizerFacts",
    "Whereabouts",
    "first_rows",
]


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

    def lora_parameters(self, rank: int) -> int | None:
        """Return the trained parameters of a LoRA adapter of this rank on the modules that match.

        A Linear of n inputs and m outputs gets rank × (n + m): the two matrices of Hu et al., 2021.
        """
        if self.lora is None or self.lora.problem:
            return None
        wanted = set(self.lora.names)
        return sum(rank * k.count * (k.inputs + k.outputs) for k in self.linears if k.name in wanted)


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
