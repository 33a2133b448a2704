"""Ask how confident a policy is of each token of a recorded completion.

The live run is asked through its mailbox. A checkpoint or the base model is loaded by a child process. Calls
block, so a screen makes them from a thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from grpo_tui.config.run_config import RunConfig
from grpo_tui.core.closing import Closing
from grpo_tui.core.token_scores import TokenScores
from grpo_tui.rewards.generating import CancelledError, GenerateError, ModelChild
from grpo_tui.store.checkpoints import judge
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.mailbox import Mailbox
from grpo_tui.store.rollouts import Rollout, rollouts_of
from grpo_tui.store.search import Search
from grpo_tui.store.spec import read_spec
from grpo_tui.store.status import read_status

LOOK_S = 0.1
LIVE_AGAIN_S = 2.0
QUIET_S = 1800.0
"""A child is ended after this long without a message. Loading a large model takes minutes."""

Kind = Literal["live", "checkpoint", "base"]


@dataclass(frozen=True, slots=True)
class AskedPolicy:
    """Policy that can be asked: `live`, `checkpoint-40` with its folder and step, or the model's name."""

    kind: Kind
    name: str
    folder: str = ""
    step: int | None = None


class _TokenChild(ModelChild):
    module = "grpo_tui.train.token_child"
    what = "looks at tokens"
    needs = ("model",)
    quiet_s = QUIET_S


def policies(root: Path) -> tuple[AskedPolicy, ...]:
    """Return the policies of a run: the live one, usable checkpoints from newest to oldest, the base model.

    Raises:
        RunDatabaseError: the run cannot be read.
    """
    found: list[AskedPolicy] = []
    if read_status(root).live and not Mailbox(RunFolder(root).commands).refusal():
        found.append(AskedPolicy("live", "live"))
    for path in reversed(RunFolder(root).checkpoints()):
        verdict = judge(path)
        if verdict.usable:
            found.append(AskedPolicy("checkpoint", path.name, str(path.absolute()), verdict.step))
    try:
        model = run_config(root).model
    except GenerateError:
        return tuple(one for one in found if one.kind == "live")
    return (*found, AskedPolicy("base", Path(model).name))


def run_config(root: Path) -> RunConfig:
    """Return the config of a run.

    Raises:
        GenerateError: its run.json cannot be read, or names no model.
    """
    try:
        config = RunConfig.from_json(read_spec(RunFolder(root).spec).config, root)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise GenerateError(f"its model is not known, for its run.json cannot be read ({reason})") from error
    if not config.model:
        raise GenerateError("its run.json names no model")
    return config


def completion_of(root: Path, group: int, index: int) -> Rollout:
    """Return one recorded completion of a run.

    Args:
        index: place in the group, from 0.

    Raises:
        LookupError: there is none. The message is for the user.
        RunDatabaseError: the run cannot be read.
    """
    with closing(Search(RunFolder(root).database)) as search:
        rows = rollouts_of(search.run, search.find(f"group=={group}", "index", superseded=True).ids)
    if not rows:
        raise LookupError(f"there is no group {group}; `grpo-tui completions RUN` numbers them")
    row = next((row for row in rows if row.index == index), None)
    if row is None:
        raise LookupError(f"group {group} has completions 0 to {len(rows) - 1}, not {index}")
    return row


class TokenAsker(Closing):
    """Token scores of one run's completions; a context manager. A loaded model is kept until the end.

    Args:
        cancel: setting it ends the running call with `CancelledError` and leaves nothing running.
        patience_s: how long to wait for the live run. None for as long as it lives.
    """

    def __init__(
        self,
        root: Path,
        tell: Callable[[str], None] | None = None,
        cancel: threading.Event | None = None,
        patience_s: float | None = None,
    ) -> None:
        self._root, self._patience_s = root, patience_s
        self._tell = tell or (lambda what: None)
        self._cancel = cancel or threading.Event()
        self._child: _TokenChild | None = None

    def close(self) -> None:
        """End the child."""
        if self._child is not None:
            self._child.close()

    def ask(self, row: Rollout, policy: AskedPolicy, *, base: bool = False) -> TokenScores:
        """Return the token scores of one completion.

        Args:
            base: whether to compare with the base model. The live run compares with the reference in its
                memory.

        Raises:
            GenerateError: it is not possible; `CancelledError` when the user cancelled.
        """
        if len(row.messages or ()) > 1:
            raise GenerateError(
                "tools answered between the model's tokens, and the tokens of the answers are not recorded"
            )
        asked = {
            "prompt": row.prompt,
            "text": row.completion,
            "truncated": bool(row.truncated),
            "recorded": row.tokens,
            "base": base,
        }
        try:
            if policy.kind == "live":
                args = {**asked, "group": row.group, "index": row.index}
                found = ask_live(self._root, "tokens", args, self._tell, self._cancel, self._patience_s)
                return TokenScores.from_wire(found)
            return self._of_child({**asked, "do": "tokens", "checkpoint": policy.folder})
        except ValueError as error:
            raise GenerateError(str(error)) from error

    def _of_child(self, request: dict[str, object]) -> TokenScores:
        if self._child is None:
            self._child = _TokenChild(
                run_config(self._root), lambda progress: self._tell(progress.what), self._cancel
            )
        beside = read_status(self._root).live
        return TokenScores.from_wire(self._child.ask({**request, "beside": beside}))


def ask_live(
    root: Path,
    kind: str,
    args: Mapping[str, object],
    tell: Callable[[str], None],
    cancel: threading.Event,
    patience_s: float | None = None,
    by: str = "you",
) -> dict[str, Any]:
    """Send a command to a live run and return what it answers at its next safe point.

    Raises:
        GenerateError: the run refused, ended or did not answer; `CancelledError` when the user cancelled.
    """
    mailbox = Mailbox(RunFolder(root).commands)
    try:
        command = mailbox.submit(kind, dict(args), by=by)
    except OSError as error:
        raise GenerateError(f"cannot write a command into the run's folder: {error.strerror}") from error
    tell("waiting for the end of the step")
    begun = looked = time.monotonic()
    while (outcome := mailbox.outcome(command.id)) is None:
        if cancel.wait(LOOK_S):
            raise CancelledError("cancelled")
        now = time.monotonic()
        if patience_s is not None and now - begun > patience_s:
            raise GenerateError(f"no answer within {patience_s:g} s; the run is still in its step")
        if now - looked > LIVE_AGAIN_S:
            looked = now
            if not read_status(root).live:
                raise GenerateError("the run has ended; ask a checkpoint instead")
    if not outcome.applied:
        raise GenerateError(outcome.reason)
    return dict(outcome.result)
