"""Let the model of a config answer rows without training: the parent's side of the child that generates.

Calls block: a screen makes them from a thread. It imports neither torch nor transformers, and scores nothing.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from grpo_tui.config.run_config import RunConfig
from grpo_tui.rewards.lab_pipe import ChildGoneError, ChildHungError, ChildPipe, ModuleStarter
from grpo_tui.rewards.nursery import NurseryError
from grpo_tui.rewards.samples import Sample

LOOK_S = 0.1
"""How often it is asked whether the person has had enough."""
_CHILD = "grpo_tui.rewards.generate_child"
MESSAGE_LIMIT_S = 60.0
"""For one message, once it has begun; generating itself has no limit, for its progress is told."""


class GenerateError(RuntimeError):
    """Nothing was generated; the message is for a person."""


class CancelledError(GenerateError):
    """The person had enough."""


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
class Progress:
    """What goes on in the child.

    Attributes:
        what: `starting`, `reading the dataset`, `loading MODEL`, `generating`.
        done: completions that are there.
        of: completions that were asked for, 0 while that is not known.
        tokens: their tokens.
        seconds: how long generating took so far.
    """

    what: str
    done: int = 0
    of: int = 0
    tokens: int = 0
    seconds: float = 0.0

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens a second, None before the first."""
        return self.tokens / self.seconds if self.seconds > 0 else None


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


Tell = Callable[[Progress], None]


class Generator:
    """Owns the child; a context manager. The model is loaded by the first answers and kept until the end.

    Args:
        config: whose model answers.
        tell: called with what goes on.
        cancel: when set, the call under way ends with `CancelledError` and nothing is left running.
    """

    def __init__(
        self, config: RunConfig, tell: Tell | None = None, cancel: threading.Event | None = None
    ) -> None:
        self._config = config
        self._tell = tell or (lambda progress: None)
        self._cancel = cancel or threading.Event()
        self._pipe: ChildPipe | None = None

    def __enter__(self) -> Generator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the child and everything it started."""
        pipe, self._pipe = self._pipe, None
        if pipe is not None:
            pipe.close()

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
        reply = self._ask(request, lambda event: None)
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
            self._tell(Progress("generating", len(samples), len(rows) * count, sum(tokens), seconds))

        prompts = [row.prompt for row in rows]
        request = {"do": "answers", "prompts": prompts, "count": count, "seed": seed}
        reply = self._ask(request, take)
        return Generated(tuple(samples), tuple(tokens), count, seconds, **reply)

    # -- the child -------------------------------------------------------------------------------

    def _ask(self, request: Mapping[str, Any], take: Callable[[Mapping[str, Any]], None]) -> dict[str, Any]:
        pipe = self._start()
        try:
            pipe.send({**request, "config": self._config.to_json()}, MESSAGE_LIMIT_S)
            while True:
                message = self._next(pipe)
                if "reply" in message:
                    return dict(message["reply"])
                if "refused" in message:
                    raise GenerateError(str(message["refused"]))
                if message["event"] == "at":
                    self._tell(Progress(str(message["what"])))
                else:
                    take(message)
        except (ChildGoneError, ChildHungError) as error:
            self.close()
            raise GenerateError(f"the process that generates ended: {error}") from error
        except (CancelledError, KeyboardInterrupt):
            self.close()
            raise

    def _next(self, pipe: ChildPipe) -> dict[str, Any]:
        while not pipe.ready(LOOK_S):
            if self._cancel.is_set():
                raise CancelledError("cancelled")
        return pipe.receive(MESSAGE_LIMIT_S)

    def _start(self) -> ChildPipe:
        if self._cancel.is_set():
            raise CancelledError("cancelled")
        if self._pipe is None:
            self._tell(Progress("starting"))
            folder = self._config.cwd
            try:
                self._pipe = ChildPipe(
                    ModuleStarter(_CHILD), folder if folder and Path(folder).is_dir() else os.getcwd()
                )
            except NurseryError as error:
                raise GenerateError(f"the process that generates could not start: {error}") from error
        return self._pipe


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
