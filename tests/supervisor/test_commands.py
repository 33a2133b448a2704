"""What a supervisor does at a command, and which outcome it tells."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from grpo_tui.core.records import AttemptStarted
from grpo_tui.store.connection import open_writer
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.live import RankFile
from grpo_tui.store.mailbox import Mailbox
from grpo_tui.store.reader import RunReader
from grpo_tui.store.spec import RunSpec
from grpo_tui.store.writer import Writer
from grpo_tui.supervisor import watch
from grpo_tui.supervisor.leftovers import MARK, mark_of
from tests import PATIENCE_S

Told = tuple[bool, int, str]
"""Whether it was applied, at which step, and why."""
TELLS = (
    "import signal, sys; told = lambda number, frame: print(number, flush=True); "
    "signal.signal(signal.SIGRTMIN + 3, told); signal.signal(signal.SIGTERM, told); told(0, None); "
    "sys.stdin.read()"
)
"""A process that tells which signals it gets."""


class Watched:
    """A run of one rank, whose process tells its signals, and its supervisor."""

    def __init__(self, root: Path, process: subprocess.Popen[str]) -> None:
        self.folder, self.process = RunFolder(root), process
        writer = Writer(open_writer(self.folder.database))
        writer.write([AttemptStarted(1, 0.0, "here", process.pid)])
        writer.close()
        self.rank = RankFile(self.folder.rank(0), process.pid)
        self.rank.update(attempt=1, phase="reward", step=3)
        self.mailbox = Mailbox(self.folder.commands)
        self.supervisor = watch.Supervisor(self.folder, trainer=process.pid)

    def served(self, command_id: str) -> Told | None:
        self.supervisor._serve()
        return self.told(command_id)

    def told(self, command_id: str) -> Told | None:
        outcome = self.mailbox.outcome(command_id)
        return None if outcome is None else (outcome.applied, outcome.step, outcome.reason)

    def heard(self) -> int:
        assert self.process.stdout is not None
        return int(self.process.stdout.readline())


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Watched]:
    pipe = subprocess.PIPE
    environment = {**os.environ, MARK: mark_of(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", TELLS], stdin=pipe, stdout=pipe, text=True, env=environment
    ) as process:
        watched = Watched(tmp_path, process)
        assert watched.heard() == 0
        yield watched
        watched.rank.close()
        process.kill()


def test_an_aborted_call_gives_way_or_ends_by_itself(run: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "ABORT_LIMIT_S", PATIENCE_S)
    nothing = (False, 3, "no reward function is running")
    assert run.served(run.mailbox.submit("abort_reward").id) == nothing
    for call, after, reason in (
        (7, {"aborted_call": 7}, "the call was aborted; its rewards count as None for this batch"),
        (8, {}, "the call finished before it was aborted"),
    ):
        run.rank.update(reward_call=call)
        first, second = run.mailbox.submit("abort_reward"), run.mailbox.submit("abort_reward")
        assert run.served(first.id) is None
        assert run.heard() == signal.SIGRTMIN + 3
        assert run.folder.abort(0).read_text() == str(call)
        assert run.served(first.id) is None, "as long as the call runs"
        run.rank.update(reward_call=None, **after)
        assert run.served(first.id) == (True, 3, reason)
        assert run.served(second.id) == nothing, "one abort after the other"


def test_a_call_that_does_not_give_way_is_said_to_be_so_with_where_to_resume(
    run: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.rank.update(reward_call=7)
    saved = run.folder.root / "checkpoint-2"
    saved.mkdir()
    header = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    (saved / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))
    (saved / "trainer_state.json").write_text('{"global_step": 2}')
    command = run.mailbox.submit("abort_reward")
    assert run.served(command.id) is None
    monkeypatch.setattr(watch, "ABORT_LIMIT_S", -1.0)
    reason = "cannot be interrupted; stop at once, resume from checkpoint 2"
    assert run.served(command.id) == (False, 3, reason)


def test_a_stop_that_comes_as_a_signal_is_a_command_or_goes_on_to_the_trainer(
    run: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.supervisor.stop_gently()
    (command,) = run.mailbox.pending()
    assert (command.kind, command.by) == ("stop", "SIGTERM")
    assert run.served(command.id) is None, "it is for the trainer"

    def full(self: Mailbox, kind: str, **more: object) -> None:
        raise OSError("no room")

    monkeypatch.setattr(Mailbox, "submit", full)
    run.supervisor.stop_gently()
    assert run.heard() == signal.SIGTERM


def test_a_stop_at_once_that_nobody_had_read_is_answered_after_the_end(run: Watched) -> None:
    stop, pause = run.mailbox.submit("stop_now"), run.mailbox.submit("pause")
    run.process.kill()
    run.process.wait()
    run.supervisor._after_end()
    assert run.told(stop.id) == (True, 3, "ended at once; there is no checkpoint to resume from")
    assert run.told(pause.id) == (False, 3, "the run has ended")
    (attempt,) = RunReader(run.folder.database).attempts()
    assert (attempt.state, attempt.step, attempt.error) == ("stopped", 3, None)


@pytest.mark.parametrize(
    ("launcher", "words"),
    [
        ((), ()),
        (
            ("accelerate", "launch", "--multi_gpu"),
            ("-m", "accelerate.commands.launch", "--main_process_port", "1234", "--multi_gpu"),
        ),
        (
            ("torchrun", "--nproc_per_node", "2"),
            ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"),
        ),
    ],
)
def test_a_launcher_is_started_by_the_interpreter_of_the_run(
    launcher: tuple[str, ...], words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "unused_port", lambda: 1234)
    assert watch._launcher(RunSpec({}, launcher=launcher)) == [sys.executable, *words]
