"""How sure a policy is of each token of a completion: what was computed, and how it travels.

Plain data.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

MOST_TOKENS = 2048
"""Tokens of one completion that are looked at; of a longer one the first so many."""


@dataclass(frozen=True, slots=True)
class Token:
    """One token of a completion, under the policy, at temperature 1.

    Attributes:
        id: its number in the vocabulary.
        text: what it adds to the text, special tokens as the tokenizer writes them; empty for the first part
            of a character that a later token ends, so that all texts together are the decoded completion.
        special: whether the tokenizer counts it as special.
        logprob: natural logarithm of its probability, at most 0.
        entropy: of the distribution it was drawn from, in nats.
        rank: its place among all tokens by probability, from 1.
        likeliest: the text of the token of rank 1.
        likeliest_logprob: the logarithm of that one's probability.
        base_logprob: as `logprob`, under the base or reference model; None when none was asked.
        kl: KL(policy ‖ base) of the two distributions at this place, summed over the whole vocabulary, in
            nats; None when no base was asked.
    """

    id: int
    text: str
    special: bool
    logprob: float
    entropy: float
    rank: int
    likeliest: str
    likeliest_logprob: float
    base_logprob: float | None = None
    kl: float | None = None

    @property
    def surprise(self) -> float:
        """Negative log-probability in nats."""
        return -self.logprob

    @property
    def log_ratio(self) -> float | None:
        """How much likelier the policy finds it than the base, as a logarithm; None without a base."""
        return None if self.base_logprob is None else self.logprob - self.base_logprob


NAMES = tuple(field.name for field in fields(Token))


@dataclass(frozen=True, slots=True)
class TokenScores:
    """A completion token by token.

    Attributes:
        tokens: its tokens, at most `MOST_TOKENS`.
        policy: whose probabilities these are, in words.
        base: what `kl` and `base_logprob` are against, in words; empty for nothing.
        of: tokens of the whole completion, the end token included.
        recorded: the number that the run recorded; None when it is not known.
        retokenized: whether the tokens cannot be those that were generated: the count or the text differs.
        note: why, in a sentence; empty when not.
        prompt: the prompt as the model gets it, special tokens as the tokenizer writes them.
        prompt_tokens: its length in tokens.
        temperature: at which the run samples; the figures are at 1.
        precision: in which the model computed, such as `float32`; softmax and sums are always in float32.
        device: where, as torch names it.
        seconds: how long the passes took.
    """

    tokens: tuple[Token, ...]
    policy: str
    base: str
    of: int
    recorded: int | None
    retokenized: bool
    note: str
    prompt: str
    prompt_tokens: int
    temperature: float
    precision: str
    device: str
    seconds: float

    @property
    def mean_logprob(self) -> float:
        """Mean over the tokens; NaN without any."""
        return _mean([token.logprob for token in self.tokens])

    @property
    def mean_entropy(self) -> float:
        """Mean over the tokens; NaN without any."""
        return _mean([token.entropy for token in self.tokens])

    @property
    def mean_kl(self) -> float | None:
        """Mean of the exact KL over the tokens; None without a base."""
        values = [token.kl for token in self.tokens if token.kl is not None]
        return _mean(values) if values else None

    def most_surprising(self, count: int) -> list[int]:
        """Places of the least likely tokens, the most surprising first."""
        places = sorted(range(len(self.tokens)), key=lambda place: self.tokens[place].logprob)
        return places[:count]

    def table(self) -> str:
        """Tab-separated values with a heading, for a spreadsheet; texts as JSON writes them."""
        names = ("text", "id", "logprob", "entropy", "rank", "base_logprob", "kl")
        rows = ["\t".join(names)]
        for token in self.tokens:
            figures = [getattr(token, name) for name in names[1:]]
            text = json.dumps(token.text, ensure_ascii=False)
            rows.append("\t".join([text, *("" if value is None else str(value) for value in figures)]))
        return "\n".join(rows)

    def to_json(self) -> dict[str, Any]:
        """One object per token, for other programs."""
        body = asdict(self)
        body["tokens"] = [{**asdict(token), "log_ratio": token.log_ratio} for token in self.tokens]
        return {**body, "mean_logprob": self.mean_logprob, "mean_entropy": self.mean_entropy,
                "mean_kl": self.mean_kl}  # fmt: skip

    def to_wire(self) -> dict[str, Any]:
        """The tokens as columns: a third of the length."""
        body = {field.name: getattr(self, field.name) for field in fields(self)}
        body["tokens"] = {name: [getattr(token, name) for token in self.tokens] for name in NAMES}
        return body

    @classmethod
    def from_wire(cls, body: Mapping[str, Any]) -> TokenScores:
        """What `to_wire` was given.

        Raises:
            ValueError: it is something else.
        """
        try:
            columns: Mapping[str, Sequence[Any]] = body["tokens"]
            rows = zip(*(columns[name] for name in NAMES), strict=True)
            tokens = tuple(Token(**dict(zip(NAMES, row, strict=True))) for row in rows)
            rest = {field.name: body[field.name] for field in fields(cls) if field.name != "tokens"}
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"no tokens came back, but something else ({error})") from error
        return cls(tokens=tokens, **rest)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan
