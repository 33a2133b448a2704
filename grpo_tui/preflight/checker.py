"""Check model, tokenizer and data of a config in a child process.

The child imports transformers and datasets, reports each part once it is known, and returns single rows on
request. It is killed when it hangs or the user cancels. Calls block, so a screen makes them from a thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from grpo_tui.children.asking import AskedChild, EndedError, RefusedError
from grpo_tui.children.pipe import ChildGoneError, ChildHungError, StartError
from grpo_tui.config.run_config import RunConfig
from grpo_tui.config.settings import Settings
from grpo_tui.core.closing import Closing
from grpo_tui.core.exchange import rebuilt
from grpo_tui.core.findings import Finding, errors_first
from grpo_tui.core.text import one_line
from grpo_tui.preflight.data_findings import data_findings, image_findings
from grpo_tui.preflight.facts import DataFacts, Facts, ModelFacts, RowView, TokenizerFacts
from grpo_tui.preflight.model_findings import model_findings, tokenizer_findings
from grpo_tui.rewards.checks.function import signature_findings
from grpo_tui.rewards.consent import NOT_RUN, Need, needed, not_run, required
from grpo_tui.rewards.score_report import FunctionInfo

TOLD_S = 2.0
"""Progress of a longer stage includes its seconds."""
SILENCE_S = 300.0
"""Longest time without a message from the child. Reading a large file for the first time takes long."""
PARTS = ("data", "model", "tokenizer")
_KINDS: Mapping[str, Any] = {"data": DataFacts, "model": ModelFacts, "tokenizer": TokenizerFacts}
_CHILD = "grpo_tui.preflight.child"


class CheckerError(RuntimeError):
    """The child cannot answer. The message is one sentence for the user."""


class CheckCancelledError(CheckerError):
    """The user cancelled."""


@dataclass(frozen=True, slots=True)
class Checked:
    """Current facts and their findings.

    Attributes:
        facts: unknown parts are None.
        findings: errors first.
    """

    facts: Facts
    findings: tuple[Finding, ...] = ()
    done: bool = False


Tell = Callable[[Checked], None]
Progress = Callable[[str], None]


class Checker(Closing):
    """Owner of the child, which starts with the first request and is kept for the next; a context manager.

    Args:
        progress: called with one line for each new stage.
        cancel: setting it ends the running call with `CheckCancelledError` and leaves nothing running.
        silence_s: longest time without a message from the child.
    """

    def __init__(
        self,
        progress: Progress | None = None,
        cancel: threading.Event | None = None,
        silence_s: float = SILENCE_S,
    ) -> None:
        self._progress = progress or (lambda what: None)
        self._cancel = cancel or threading.Event()
        self._child = AskedChild(_CHILD, silence_s)
        self._at, self._told_s = "starting", 0

    def listen(self, progress: Progress | None, cancel: threading.Event | None) -> None:
        """Use another progress callback and cancel event for the next calls."""
        self._progress = progress or (lambda what: None)
        self._cancel = cancel or threading.Event()

    def close(self) -> None:
        """End the child and everything it started."""
        self._child.close()

    def check(
        self,
        config: RunConfig,
        *,
        settings: Settings | None = None,
        rewards: Sequence[FunctionInfo] = (),
        parts: Sequence[str] = PARTS,
        tell: Tell | None = None,
    ) -> Checked:
        """Collect what can be known without loading weights, and judge it.

        If the child ends or hangs, the finding `checker.failed` is added to what is known by then.

        Args:
            settings: config to judge, with line numbers. The config on one process when None.
            rewards: loaded functions, to check which columns they need.
            parts: of `data`, `model` and `tokenizer`. The tokenizer needs the model.
            tell: called with everything known after each part.

        Raises:
            CheckCancelledError: the user cancelled.
        """
        judged = settings or Settings.of_config(config, 1, lines=True)
        facts = Facts()

        held: list[Finding] = []
        if codes := needed(config, "data"):
            parts = [part for part in parts if part != "data"]
            held.append(judged.finding(NOT_RUN, "error", judged.data_key, not_run("the data", codes)))
        if codes := needed(config, "model"):
            parts = ()
            held.append(judged.finding(NOT_RUN, "error", None, not_run("model and data", codes)))

        def judgement() -> tuple[Finding, ...]:
            return tuple(errors_first([*held, *judge(facts, judged, rewards)]))

        def take(event: Mapping[str, Any]) -> None:
            nonlocal facts
            part = str(event["part"])
            facts = replace(facts, **{part: rebuilt(_KINDS[part], event["facts"])})
            if tell is not None:
                tell(Checked(facts, judgement()))

        if held and tell is not None:
            tell(Checked(facts, judgement()))
        try:
            if parts:
                needs: tuple[Need, ...] = ("data", "model") if "data" in parts else ("model",)
                self._ask(config, {"do": "facts", "parts": list(parts)}, take, needs)
        except CheckCancelledError:
            raise
        except CheckerError as error:
            field = judged.data_key if "dataset" in self._at or " rows" in self._at else None
            failed = judged.finding("checker.failed", "error", field, str(error))
            return Checked(facts, tuple(errors_first([failed, *judgement()])), True)
        return Checked(facts, judgement(), True)

    def row(self, config: RunConfig, number: int, *, rendered: bool = True) -> RowView:
        """Return one row as training sees it. A number beyond the last row returns the nearest one.

        Args:
            number: from 1, in the order of the source.
            rendered: whether to load the tokenizer if needed. Otherwise only a loaded one is used.

        Raises:
            CheckerError: the data cannot be used, or the child failed.
        """
        return rebuilt(RowView, self._ask(config, {"do": "row", "number": number, "rendered": rendered}))

    def any_row(self, config: RunConfig, *, rendered: bool = True, seed: int | None = None) -> RowView:
        """Return a random row.

        Raises:
            CheckerError: the data cannot be used, or the child failed.
        """
        return rebuilt(RowView, self._ask(config, {"do": "any_row", "rendered": rendered, "seed": seed}))

    def holding(self, config: RunConfig, text: str) -> tuple[int, ...]:
        """Return the numbers of the rows that contain a text, ignoring case. Large data is only sampled.

        Raises:
            CheckerError: the data cannot be used, or the child failed.
        """
        return tuple(self._ask(config, {"do": "holding", "text": text})["rows"])

    # -- the child -------------------------------------------------------------------------------

    def _ask(
        self,
        config: RunConfig,
        request: Mapping[str, Any],
        take: Callable[[Mapping[str, Any]], None] | None = None,
        needs: tuple[Need, ...] = ("data", "model"),
    ) -> dict[str, Any]:
        def told(event: Mapping[str, Any]) -> None:
            if event["event"] == "at":
                self._at = str(event["what"])
                self._progress(self._at)
            elif take is not None:
                take(event)

        required(config, *needs)
        if self._child.pid is None and not self._cancel.is_set():
            self._at = "starting"
            self._progress("starting the checker")
        request = {**request, "config": config.to_json()}
        try:
            return self._child.ask(
                request, told, folder=config.cwd, cancel=self._cancel, waiting=self._tell_seconds
            )
        except RefusedError as error:
            raise CheckerError(_refusal(error)) from error
        except EndedError as error:
            raise CheckCancelledError(str(error)) from error
        except StartError as error:
            raise CheckerError(f"the checker could not start: {error}") from error
        except ChildHungError as error:
            raise CheckerError(
                f"the checker did not respond for {self._child.quiet_s:.0f} s while {self._at}, and was "
                "stopped"
            ) from error
        except ChildGoneError as error:
            raise CheckerError(f"the checker ended while {self._at}: {one_line(str(error), 300)}") from error

    def _tell_seconds(self, waited: float) -> None:
        if waited >= TOLD_S and int(waited) != self._told_s:
            self._progress(f"{self._at}… {waited:.0f} s")
        self._told_s = int(waited)


def judge(facts: Facts, judged: Settings, rewards: Sequence[FunctionInfo] = ()) -> tuple[Finding, ...]:
    """Return findings on the facts, errors first."""
    found: list[Finding] = []
    if facts.model is not None:
        found += model_findings(facts.model, judged)
    if facts.data is not None:
        found += data_findings(facts.data, facts.model, judged)
        columns = [column.name for column in facts.data.columns]
        if columns and not facts.data.problem:
            if facts.tokenizer is not None and facts.tokenizer.name:
                found += image_findings(facts.data, judged, sees_images=facts.tokenizer.sees_images)
            for info in rewards:
                found += signature_findings(info, columns)
    found += tokenizer_findings(facts, judged)
    return tuple(errors_first(found))


def _refusal(error: RefusedError) -> str:
    text = one_line(str(error), 600)
    if error.type in ("ModuleNotFoundError", "ImportError"):
        return f"{text}. The checker needs transformers and datasets: pip install 'grpo-tui[train]'"
    return text
