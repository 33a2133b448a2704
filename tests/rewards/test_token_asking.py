"""Who can be asked about the tokens of a run, what is asked, and every way in which no answer comes."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grpo_tui.config.resolve import load_config
from grpo_tui.core import records as r
from grpo_tui.core.token_scores import Token, TokenScores
from grpo_tui.demo import DEMO_CONFIG
from grpo_tui.rewards import token_asking
from grpo_tui.rewards.generating import CancelledError, GenerateError
from grpo_tui.rewards.token_asking import (
    AskedPolicy,
    TokenAsker,
    completion_of,
    policies,
    run_config,
)
from grpo_tui.store.checkpoints import MARKER
from grpo_tui.store.json_file import write_json
from grpo_tui.store.mailbox import Mailbox
from grpo_tui.store.spec import RunSpec
from tests.ui.recorded_run import RecordedRun

LIVE = AskedPolicy("live", "live")
SCORES = TokenScores(
    (
        Token(1, "a", False, -0.5, 0.25, 2, "b", -0.75, -1.0, 0.125),
        Token(3, "", True, -4.0, 5.0, 6, "c", -7.0),
    ),
    "live", "base", 2, 9, True, "why", "PROMPT", 8, 0.9, "float32", "cpu", 1.5,
)  # fmt: skip


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RecordedRun]:
    made = RecordedRun(tmp_path / "run")
    made.advance(1)
    RunSpec(load_config(DEMO_CONFIG).to_json()).write(made.folder.spec)
    yield made
    made.close()


def checkpoint(root: Path, step: int, *, whole: bool = True) -> None:
    folder = root / f"checkpoint-{step}"
    folder.mkdir()
    if whole:
        write_json(folder / "trainer_state.json", {"global_step": step})
        write_json(folder / MARKER, {"step": step, "files": {}, "settings": {}})


def test_the_live_policy_usable_checkpoints_and_the_base_can_be_asked(run: RecordedRun) -> None:
    root = run.folder.root
    checkpoint(root, 20)
    checkpoint(root, 40)
    checkpoint(root, 60, whole=False)
    known = (
        AskedPolicy("checkpoint", "checkpoint-40", str(root / "checkpoint-40"), 40),
        AskedPolicy("checkpoint", "checkpoint-20", str(root / "checkpoint-20"), 20),
        AskedPolicy("base", "model"),
    )
    run.end("stopped")
    assert policies(root) == known
    run.folder.spec.unlink()
    assert policies(root) == (), "nobody knows how to load them"
    with pytest.raises(GenerateError, match=r"its model is not known, for its run\.json cannot be read"):
        run_config(root)
    RunSpec({**load_config(DEMO_CONFIG).to_json(), "model": ""}).write(run.folder.spec)
    with pytest.raises(GenerateError, match="names no model"):
        run_config(root)


def test_while_it_trains_the_live_policy_comes_first(run: RecordedRun) -> None:
    run.now("update")
    assert policies(run.folder.root) == (LIVE, AskedPolicy("base", "model"))
    run.folder.spec.unlink()
    assert policies(run.folder.root) == (LIVE,)


def test_a_completion_is_found_by_its_group_and_its_place(run: RecordedRun) -> None:
    row = completion_of(run.folder.root, 2, 5)
    assert (row.group, row.index, row.step, row.truncated) == (2, 5, 1, True)
    with pytest.raises(LookupError, match="there is no group 99; `grpo-tui completions RUN` numbers them"):
        completion_of(run.folder.root, 99, 0)
    with pytest.raises(LookupError, match="group 2 has completions 0 to 7, not 8"):
        completion_of(run.folder.root, 2, 8)


def test_scores_come_back_over_the_wire_as_they_were() -> None:
    assert TokenScores.from_wire(SCORES.to_wire()) == SCORES
    assert SCORES.to_json()["tokens"][0]["log_ratio"] == 0.5
    assert SCORES.table().splitlines()[1:] == [
        '"a"\t1\t-0.5\t0.25\t2\t-1.0\t0.125',
        '""\t3\t-4.0\t5.0\t6\t\t',
    ]
    assert (SCORES.mean_logprob, SCORES.mean_entropy, SCORES.mean_kl) == (-2.25, 2.625, 0.125)
    assert SCORES.most_surprising(1) == [1]


class Answering(Mailbox):
    """A mailbox whose run answers at once."""

    asked: list[tuple[str, Any]]
    answer: dict[str, Any] | None

    def submit(self, kind: str, args: Any = None, *, by: str = "you") -> Any:
        """Take a command and answer it."""
        command = super().submit(kind, args, by=by)
        self.asked.append((kind, dict(command.args)))
        if self.answer is not None:
            write_json(self._folder / f"{command.id}.out.json", self.answer)
        return command


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, Any] | None], list[Any]]:
    def with_answer(answer: dict[str, Any] | None) -> list[Any]:
        Answering.asked, Answering.answer = [], answer
        monkeypatch.setattr(token_asking, "Mailbox", Answering)
        return Answering.asked

    return with_answer


def test_the_live_run_is_asked_for_one_completion(
    run: RecordedRun, answering: Callable[[dict[str, Any] | None], list[Any]]
) -> None:
    run.now("update")
    row, told = completion_of(run.folder.root, 2, 5), []
    asked = answering({"applied": True, "step": 1, "result": SCORES.to_wire()})
    with TokenAsker(run.folder.root, told.append) as asker:
        assert asker.ask(row, LIVE, base=True) == SCORES
        assert told == ["waiting for the end of the step"]
        ((kind, args),) = asked
        assert kind == "tokens"
        assert args == {
            "prompt": row.prompt, "text": row.completion, "truncated": True, "recorded": row.tokens,
            "base": True, "group": 2, "index": 5,
        }  # fmt: skip
        answering({"applied": False, "step": 1, "reason": "not while it saves"})
        with pytest.raises(GenerateError, match="not while it saves"):
            asker.ask(row, LIVE)
        answering({"applied": True, "step": 1, "result": {"odd": 1}})
        with pytest.raises(GenerateError, match="no tokens came back, but something else"):
            asker.ask(row, LIVE)
        answered = replace(row, messages=[{"role": "assistant"}, {"role": "tool"}])
        with pytest.raises(GenerateError, match="tools answered between the model's tokens"):
            asker.ask(answered, LIVE)


def test_no_answer_is_waited_for_longer_than_asked_or_than_the_run_lives(
    run: RecordedRun,
    answering: Callable[[dict[str, Any] | None], list[Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    root = run.folder.root
    run.now("update")
    row = completion_of(root, 2, 5)
    answering(None)
    with pytest.raises(GenerateError, match=r"no answer within 0\.01 s; the run is still in its step"):
        TokenAsker(root, patience_s=0.01).ask(row, LIVE)
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(CancelledError):
        TokenAsker(root, cancel=cancel).ask(row, LIVE)
    monkeypatch.setattr(token_asking, "LIVE_AGAIN_S", 0.0)
    run.write(r.AttemptEnded(1, time.time() + 60, "finished", 1))
    with pytest.raises(GenerateError, match="the run has ended; ask a checkpoint instead"):
        TokenAsker(root).ask(row, LIVE)
    monkeypatch.setattr(os, "geteuid", lambda: 54_321)
    with pytest.raises(GenerateError, match="cannot write a command into the run's folder"):
        TokenAsker(root).ask(row, LIVE)


@pytest.mark.parametrize("live", [True, False])
def test_a_checkpoint_is_asked_through_one_child_that_knows_of_the_run_beside(
    live: bool, run: RecordedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.now("update")
    if not live:
        run.write(r.AttemptEnded(1, time.time() + 60, "finished", 1))
    row = completion_of(run.folder.root, 2, 5)
    asked: list[tuple[Any, dict[str, Any]]] = []
    closed: list[Any] = []
    child = token_asking._TokenChild
    monkeypatch.setattr(child, "ask", lambda self, body: asked.append((self, body)) or SCORES.to_wire())
    monkeypatch.setattr(child, "close", lambda self: closed.append(self))
    with TokenAsker(run.folder.root) as asker:
        for policy in (AskedPolicy("checkpoint", "checkpoint-40", "/c/40", 40), AskedPolicy("base", "model")):
            assert asker.ask(row, policy, base=policy.kind == "checkpoint") == SCORES
    (one, first), (other, second) = asked
    assert one is other
    assert closed == [one]
    assert first == {
        "prompt": row.prompt, "text": row.completion, "truncated": True, "recorded": row.tokens,
        "base": True, "do": "tokens", "checkpoint": "/c/40", "beside": live,
    }  # fmt: skip
    assert (second["checkpoint"], second["base"]) == ("", False)
