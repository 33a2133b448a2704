"""Token probabilities of a completion under a policy, and their serialization."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

MOST_TOKENS = 2048
"""Maximum tokens scored. Of a longer completion, the first ones are."""


@dataclass(frozen=True, slots=True)
class Token:
    """One token of a completion under the policy at temperature 1.

    Attributes:
        text: Text that the token adds, with special tokens as the tokenizer writes them. Empty for the first
            part of a character that a later token completes, so all texts together are the decoded
            completion.
        logprob: Natural logarithm of its probability, at most 0.
        entropy: Entropy of the distribution it was drawn from, in nats.
        rank: Rank among all tokens by probability, from 1.
        base_logprob: `logprob` under the base or reference model. None without a base.
        kl: KL(policy ‖ base) at this position over the whole vocabulary, in nats. None without a base.
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
        """log(policy / base) of the token's probability, None without a base."""
        return None if self.base_logprob is None else self.logprob - self.base_logprob


NAMES = tuple(field.name for field in fields(Token))


@dataclass(frozen=True, slots=True)
class TokenScores:
    """The scored tokens of a completion.

    Attributes:
        tokens: At most `MOST_TOKENS`.
        base: Name of the model for `kl` and `base_logprob`. Empty without one.
        of: Length of the whole completion in tokens, with the end token.
        recorded: Length that the run recorded. None when unknown.
        retokenized: Whether the tokens differ from the generated ones, because the count or the text does.
        note: Why they differ, in a sentence. Empty when they do not.
        prompt: The prompt as the model gets it, special tokens as the tokenizer writes them.
        temperature: Sampling temperature of the run. The scores are at temperature 1.
        precision: Data type of the model, such as `float32`. Softmax and sums always use float32.
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
        """Mean over the tokens, NaN without tokens."""
        return _mean([token.logprob for token in self.tokens])

    @property
    def mean_entropy(self) -> float:
        """Mean over the tokens in nats, NaN without tokens."""
        return _mean([token.entropy for token in self.tokens])

    @property
    def mean_kl(self) -> float | None:
        """Mean of the exact KL over the tokens, None without a base."""
        values = [token.kl for token in self.tokens if token.kl is not None]
        return _mean(values) if values else None

    def most_surprising(self, count: int) -> list[int]:
        """Return the positions of the least likely tokens, least likely first."""
        places = sorted(range(len(self.tokens)), key=lambda place: self.tokens[place].logprob)
        return places[:count]

    def table(self) -> str:
        """Return tab-separated values with a header, for a spreadsheet. Texts are JSON strings."""
        names = ("text", "id", "logprob", "entropy", "rank", "base_logprob", "kl")
        rows = ["\t".join(names)]
        for token in self.tokens:
            figures = [getattr(token, name) for name in names[1:]]
            text = json.dumps(token.text, ensure_ascii=False)
            rows.append("\t".join([text, *("" if value is None else str(value) for value in figures)]))
        return "\n".join(rows)

    def to_json(self) -> dict[str, Any]:
        """Return JSON data for other programs, with one object per token."""
        body = asdict(self)
        body["tokens"] = [{**asdict(token), "log_ratio": token.log_ratio} for token in self.tokens]
        return {**body, "mean_logprob": self.mean_logprob, "mean_entropy": self.mean_entropy,
                "mean_kl": self.mean_kl}  # fmt: skip

    def to_wire(self) -> dict[str, Any]:
        """Return JSON data with the tokens as columns, a third of the size of `to_json`."""
        body = {field.name: getattr(self, field.name) for field in fields(self)}
        body["tokens"] = {name: [getattr(token, name) for token in self.tokens] for name in NAMES}
        return body

    @classmethod
    def from_wire(cls, body: Mapping[str, Any]) -> TokenScores:
        """Rebuild the scores from the data of `to_wire`; a ValueError when it has another shape."""
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
