"""Let the model of a config answer rows without training, and ask children that hold a model.

The parent's side. Calls block: a screen makes them from a thread. Neither torch nor transformers is imported.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from grpo_tui.children.asking import AskedChild, EndedError, RefusedError, Take
from grpo_tui.children.pipe import ChildGoneError, ChildHungError, StartError
from grpo_tui.config.run_config import RunConfig
from grpo_tui.core.closing import Closing
from grpo_tui.rewards.consent import Need, required
from grpo_tui.rewards.samples import Sample


class GenerateError(RuntimeError):
    """The model gave nothing; the message is for the user."""


class CancelledError(GenerateError):
    """The user cancelled."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What goes on in the child.

    Attributes:
        what: `starting`, `reading the dataset`, `loading MODEL`, `generating`.
        done: completions that are there.
        of: completions that were asked for, 0 while that is not known.
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


Tell = Callable[[Progress], None]


class ModelChild(Closing):
    """Owns one child; a context manager.

    Args:
        cancel: when set, the call under way ends with `CancelledError` and nothing is left running.
    """

    module: ClassVar[str]
    """The child's entry point."""
    what: ClassVar[str]
    """What it does, as a verb: the process that …"""
    needs: ClassVar[tuple[Need, ...]] = ("data", "model")
    """What of its config it loads."""
    quiet_s: ClassVar[float | None] = None
    """It is ended when it says nothing for so long; None where its progress is told all the time."""

    def __init__(
        self, config: RunConfig, tell: Tell | None = None, cancel: threading.Event | None = None
    ) -> None:
        self._config = config
        self.tell: Tell = tell or (lambda progress: None)
        self._cancel = cancel or threading.Event()
        self._child = AskedChild(self.module, self.quiet_s)

    def close(self) -> None:
        """End the child and everything it started."""
        self._child.close()

    def ask(self, request: Mapping[str, Any], take: Take = lambda event: None) -> dict[str, Any]:
        """Send a request with the config and wait for the reply.

        Args:
            take: gets every event but `at`, which is told as progress.

        Raises:
            GenerateError: it was refused, or the child ended or hung.
            ConsentError: it would run code that is not the user's own.
        """

        def told(event: Mapping[str, Any]) -> None:
            if event["event"] == "at":
                self.tell(Progress(str(event["what"])))
            else:
                take(event)

        required(self._config, *self.needs)
        request = {**request, "config": self._config.to_json()}
        if self._child.pid is None and not self._cancel.is_set():
            self.tell(Progress("starting"))
        try:
            return self._child.ask(request, told, folder=self._config.cwd, cancel=self._cancel)
        except RefusedError as error:
            raise GenerateError(str(error)) from error
        except EndedError as error:
            raise CancelledError(str(error)) from error
        except StartError as error:
            raise GenerateError(f"the process that {self.what} could not start: {error}") from error
        except (ChildGoneError, ChildHungError) as error:
            raise GenerateError(f"the process that {self.what} ended: {error}") from error


@dataclass(frozen=True, slots=True)
class DatasetRow:
    """One row of the dataset that is asked.

    Attributes:
        number: its place in the dataset, from 1.
        prompt: a text or a list of messages.
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
        device: where it ran, as torch names it.
        engine: what generated, `transformers` or `vllm`.
    """

    samples: tuple[Sample, ...]
    tokens: tuple[int, ...]
    count: int
    seconds: float
    load_s: float
    device: str
    temperature: float
    max_tokens: int
    engine: str = "transformers"


@dataclass(frozen=True, slots=True)
class ChosenRows:
    """Rows of a dataset.

    Attributes:
        held: whether they are held out, so that the config never trains on them.
        notes: on the data, for the user.
    """

    rows: tuple[DatasetRow, ...]
    held: bool
    notes: tuple[str, ...]


class Generator(ModelChild):
    """Owns the child; a context manager. The model is loaded by the first answers and kept until the end.

    Args:
        adapter: the folder of a LoRA adapter that is put on the config's model, empty for none.
        tokenizer: the folder or id of the tokenizer, empty for the model's own.
    """

    module = "grpo_tui.rewards.generate_child"
    what = "generates"

    def __init__(
        self,
        config: RunConfig,
        tell: Tell | None = None,
        cancel: threading.Event | None = None,
        *,
        adapter: str = "",
        tokenizer: str = "",
    ) -> None:
        super().__init__(config, tell, cancel)
        self._weights = {"adapter": adapter, "tokenizer": tokenizer}

    def rows(self, count: int, seed: int, *, held: bool | None = False) -> ChosenRows:
        """Choose rows of the config's dataset by a seed, in the dataset's order.

        Args:
            held: held-out rows, which are never trained on, instead of training rows; None for held-out ones
                where the config has some.

        Raises:
            GenerateError: the data cannot be used.
        """
        request = {"do": "rows", "count": count, "seed": seed, "held": held}
        reply = self.ask(request)
        rows = tuple(DatasetRow(row["number"], row["prompt"], row["columns"]) for row in reply["rows"])
        if not rows:
            raise GenerateError("the dataset has no rows")
        return ChosenRows(rows, bool(reply["held"]), tuple(reply["notes"]))

    def answers(self, rows: Sequence[DatasetRow], count: int, seed: int | None = None) -> Generated:
        """Generate `count` completions of each row with the config's settings.

        Args:
            rows: at least one.
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
        request = {"do": "answers", "prompts": prompts, "count": count, "seed": seed, **self._weights}
        reply = self.ask(request, take)
        return Generated(tuple(samples), tuple(tokens), count, seconds, **reply)


def generate(
    config: RunConfig,
    rows: Sequence[DatasetRow],
    count: int,
    tell: Tell | None = None,
    cancel: threading.Event | None = None,
) -> list[Sample]:
    """Let the config's model answer rows without training.

    Args:
        rows: at least one.
        cancel: when set, nothing is left running and `CancelledError` is raised.

    Raises:
        GenerateError: the model cannot be loaded, or does not generate.
    """
    with Generator(config, tell, cancel) as generator:
        return list(generator.answers(rows, count).samples)
