"""Generate completions of dataset rows with a config's model, in a child process.

Calls block, so a screen makes them from a thread. Neither torch nor transformers is imported here.
"""

from __future__ import annotations

import signal
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
    """Nothing was generated. The message is for the user."""


class CancelledError(GenerateError):
    """The user cancelled."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What the child does: `starting`, `reading the dataset`, `loading MODEL` or `generating`."""

    what: str
    done: int = 0
    of: int = 0
    tokens: int = 0
    seconds: float = 0.0

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens per second, None before the first."""
        return self.tokens / self.seconds if self.seconds > 0 else None


Tell = Callable[[Progress], None]


class ModelChild(Closing):
    """Owner of one child process that holds a model; a context manager.

    Args:
        cancel: setting it ends the running call with `CancelledError` and leaves nothing running.
    """

    module: ClassVar[str]
    what: ClassVar[str]
    """Verb that completes "the process that …"."""
    needs: ClassVar[tuple[Need, ...]] = ("data", "model")
    """Parts of the config that it loads."""
    quiet_s: ClassVar[float | None] = None
    """The child is ended after this long without a message. None if it reports progress all the time."""

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

    def ask(
        self, request: Mapping[str, Any], take: Take = lambda event: None, *, bare: bool = False
    ) -> dict[str, Any]:
        """Send a request with the config and wait for the reply.

        Args:
            bare: leave the config out.
            take: receives every event except `at`, which becomes progress.

        Raises:
            GenerateError: the child refused, ended or hung.
            ConsentError: it would run code that is not the user's own.
        """

        def told(event: Mapping[str, Any]) -> None:
            if event["event"] == "at":
                self.tell(Progress(str(event["what"])))
            else:
                take(event)

        required(self._config, *self.needs)
        request = {**request} if bare else {**request, "config": self._config.to_json()}
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
    """Row of the dataset. Numbers count from 1."""

    number: int
    prompt: Any
    columns: Mapping[str, Any]

    @property
    def group(self) -> str:
        """Group name of its completions."""
        return f"row {self.number}"


@dataclass(frozen=True, slots=True)
class Generated:
    """Completions of some rows, row by row, with their lengths in tokens, including the end token."""

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
class Chatted:
    """One answer of a policy in a chat.

    Attributes:
        completion: a text, or a list with one message for a chat prompt.
        text: as the model wrote it, without special tokens.
        seed: None for the live policy's own random state.
    """

    completion: Any
    text: str
    tokens: int
    truncated: bool
    stopped: bool = False
    seed: int | None = None
    device: str = ""
    temperature: float | None = None
    max_tokens: int | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class ChosenRows:
    """Rows of a dataset, and whether they are held out from training."""

    rows: tuple[DatasetRow, ...]
    held: bool
    notes: tuple[str, ...]


class Generator(ModelChild):
    """Child that generates; a context manager. The first answers load the model, which is kept until the end.

    Args:
        adapter: folder of a LoRA adapter for the config's model, or empty.
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
        self._writing = False
        """Whether the running answer has begun, so that a signal stops it."""

    def rows(self, count: int, seed: int, *, held: bool | None = False, probes: bool = False) -> ChosenRows:
        """Choose random rows of the config's dataset, in the dataset's order.

        Args:
            held: whether to choose held-out rows. None for held-out rows if the config has any.
            probes: whether to choose probe prompts instead.

        Raises:
            GenerateError: the data cannot be used.
        """
        reply = self.ask({"do": "rows", "count": count, "seed": seed, "held": held, "probes": probes})
        rows = tuple(DatasetRow(row["number"], row["prompt"], row["columns"]) for row in reply["rows"])
        if not rows:
            raise GenerateError("the dataset has no rows")
        return ChosenRows(rows, bool(reply["held"]), tuple(reply["notes"]))

    def answers(self, rows: Sequence[DatasetRow], count: int, seed: int | None = None) -> Generated:
        """Generate `count` completions of each row with the config's settings.

        Args:
            rows: at least one.
            seed: the config's when None.

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

    def opening(self) -> tuple[bool, list[dict[str, Any]], str]:
        """Return whether training prompts are messages, what all begin with, and why data is missing.

        The child remembers the rows for `row`.

        Raises:
            GenerateError: the child ended.
        """
        reply = self.ask({"do": "opening"})
        return bool(reply["chat"]), list(reply["before"]), str(reply["note"])

    def row(self, prompt: Any) -> tuple[Any, dict[str, Any]] | None:
        """Return prompt and columns of the row with this prompt, or of a training row's number.

        Raises:
            GenerateError: the child ended.
        """
        reply = self.ask({"do": "row", "prompt": prompt}, bare=True)
        return None if reply["columns"] is None else (reply["prompt"], reply["columns"])

    def chat(self, prompt: Any, seed: int | None, tell: Callable[[str], None]) -> Chatted:
        """Generate one completion of a rendered prompt or messages, with transformers.

        Args:
            seed: the config's when None.
            tell: called with the whole text so far.

        Raises:
            GenerateError: the model cannot be loaded, or does not generate; `CancelledError` after `stop`
                while it was loading or before.
        """
        text = ""

        def take(event: Mapping[str, Any]) -> None:
            nonlocal text
            self._writing = True
            text = text[: event["kept"]] + event["text"]
            tell(text)

        try:
            request = {"do": "chat", "prompt": prompt, "seed": seed, **self._weights}
            return Chatted(**self.ask(request, take))
        finally:
            self._writing = False

    def stop(self) -> None:
        """End the running answer and keep the model, or end its loading. Safe from any thread.

        Nothing is generated until `go_on`.
        """
        if self._writing:
            self._child.signal(signal.SIGUSR1)
        else:
            self._cancel.set()

    def go_on(self) -> None:
        """Allow answers again after `stop`."""
        self._cancel.clear()
