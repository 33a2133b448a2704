"""Let the model of a config answer rows without training: the parent's side of the child that generates.

Calls block: a screen makes them from a thread. It imports neither torch nor transformers, and scores nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grpo_tui.config.run_config import RunConfig
from grpo_tui.rewards.model_child import CancelledError, GenerateError, ModelChild, Progress, Tell
from grpo_tui.rewards.samples import Sample

__all__ = [
    "CancelledError", "GenerateError", "Generated", "Generator", "Progress", "Row", "Tell", "generate",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the dataset that is asked.

    Attributes:
        number: its place in the dataset, from 1.
        prompt: a text or a list of messages.
        columns: its other columns.
    """

    number: int
    prompt: Any
    columns: Mapping[str, Any]

    @property
    def group(self) -> str:
        """The group of its completions."""
        return f"row {self.number}"


@dataclass(frozen=True, slots=True)
class Generated:
    """Completions of some rows.

    Attributes:
        samples: all completions of one row after each other; a row is a group.
        tokens: the length of each in tokens, its end token among them.
        count: completions per row.
        seconds: how long generating took, without loading.
        load_s: how long loading the model took.
        device: where it ran, as torch names it.
        temperature: the sampling temperature.
        max_tokens: the length limit.
    """

    samples: tuple[Sample, ...]
    tokens: tuple[int, ...]
    count: int
    seconds: float
    load_s: float
    device: str
    temperature: float
    max_tokens: int


class Generator(ModelChild):
    """Owns the child; a context manager. The model is loaded by the first answers and kept until the end."""

    module = "grpo_tui.rewards.generate_child"
    what = "generates"

    def rows(self, count: int, seed: int, *, held: bool = False) -> tuple[tuple[Row, ...], tuple[str, ...]]:
        """Choose rows of the config's dataset by a seed, in the dataset's order.

        Args:
            count: at most so many.
            seed: the choice.
            held: rows of the hold-out, which are never trained on, instead of training rows.

        Returns:
            The rows, and notes on the data for a person.

        Raises:
            GenerateError: the data cannot be used.
        """
        request = {"do": "rows", "count": count, "seed": seed, "held": held}
        reply = self.ask(request, lambda event: None)
        rows = tuple(Row(row["number"], row["prompt"], row["columns"]) for row in reply["rows"])
        if not rows:
            raise GenerateError("the dataset has no rows")
        return rows, tuple(reply["notes"])

    def answers(self, rows: Sequence[Row], count: int, seed: int | None = None) -> Generated:
        """Generate `count` completions of each row with the config's settings.

        Args:
            rows: at least one.
            count: completions per row.
            seed: the random seed; the config's when None.

        Raises:
            GenerateError: the model cannot be loaded, or does not generate.
        """
        samples: list[Sample] = []
        tokens: list[int] = []
        seconds = 0.0

        def take(event: Mapping[str, Any]) -> None:
            nonlocal seconds
            seconds += event["seconds"]
            for answer in event["answers"]:
                row = rows[answer["row"]]
                completion, cut = answer["completion"], answer["truncated"]
                samples.append(Sample(row.prompt, completion, row.columns, row.group, truncated=cut))
                tokens.append(answer["tokens"])
            self.tell(Progress("generating", len(samples), len(rows) * count, sum(tokens), seconds))

        prompts = [row.prompt for row in rows]
        request = {"do": "answers", "prompts": prompts, "count": count, "seed": seed}
        reply = self.ask(request, take)
        return Generated(tuple(samples), tuple(tokens), count, seconds, **reply)


def generate(
    config: RunConfig,
    rows: Sequence[Row],
    count: int,
    tell: Tell | None = None,
    cancel: threading.Event | None = None,
) -> list[Sample]:
    """Let the config's model answer rows without training.

    Args:
        config: the run's.
        rows: at least one.
        count: completions per row.
        tell: called with what goes on.
        cancel: when set, nothing is left running and `CancelledError` is raised.

    Raises:
        GenerateError: the model cannot be loaded, or does not generate.
    """
    with Generator(config, tell, cancel) as generator:
        return list(generator.answers(rows, count).samples)
