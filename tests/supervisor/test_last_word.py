"""What a supervisor does once the training process has ended, with processes that are gone already."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from grpo_tui.core.records import AttemptEnded, AttemptStarted
from grpo_tui.store import mailbox as mailbox_module
from grpo_tui.store.connection import open_writer
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.live import RankFile, write_error
from grpo_tui.store.mailbox import Mailbox
from grpo_tui.store.reader import RunReader
from grpo_tui.store.spec import RunSpec, keep_earlier, read_spec
from grpo_tui.store.status import read_status
from grpo_tui.store.writer import Writer
from grpo_tui.supervisor import last_word
from grpo_tui.supervisor.watch import Supervisor
from grpo_tui.train import worker

CAUSE = "reward function 'judge' failed"
SILENT = "the launcher ended with code 1, and rank 0 without an error message, while generating; see train"
GONE = 2**22 + 1
"""A pid no process has."""


def _resumed(root: Path, *ended: AttemptEnded) -> RunFolder:
    """A run resumed from step 4 with another config, whose training process is gone."""
    folder = RunFolder(root)
    writer = Writer(open_writer(folder.database))
    writer.write([AttemptStarted(1, 0.0, "here", GONE), AttemptEnded(1, 1.0, "stopped", 4)])
    writer.write([AttemptStarted(2, 2.0, "here", GONE, resumed_from=4), *ended])
    writer.close()
    RunSpec({"as": "before"}).write(folder.spec)
    keep_earlier(folder)
    RunSpec({"as": "changed"}, resume="checkpoint-4").write(folder.spec)
    return folder


@pytest.mark.parametrize(
    ("ended", "left"),
    [
        ((), "before"),
        ((AttemptEnded(2, 3.0, "failed", 4),), "before"),
        ((AttemptEnded(2, 3.0, "failed", 5),), "changed"),
        ((AttemptEnded(2, 3.0, "stopped", 4),), "changed"),
    ],
    ids=[
        "killed while loading",
        "failed before its first step",
        "failed after a step",
        "stopped by a person",
    ],
)
def test_a_resume_that_died_before_its_first_step_leaves_the_earlier_config(
    ended: tuple[AttemptEnded, ...], left: str, tmp_path: Path
) -> None:
    folder = _resumed(tmp_path, *ended)
    Supervisor(folder, trainer=GONE, started=1.0).run()
    assert read_spec(folder.spec).config == {"as": left}
    assert not folder.earlier_spec.exists()
    assert stat.S_IMODE(folder.spec.stat().st_mode) == 0o600
    assert RunReader(folder.database).attempts()[-1].state == (ended[0].state if ended else "crashed")


def test_a_launcher_that_finds_its_port_taken_is_told_by_whom_and_another_port(tmp_path: Path) -> None:
    with socket.socket() as listening:
        listening.bind(("", 0))
        listening.listen()
        port = listening.getsockname()[1]
        folder = RunFolder(tmp_path)
        folder.log.write_text(
            "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network "
            f"address. port: {port}, useIpv6: false, code: -98, name: EADDRINUSE, message: address in use\n"
        )
        last_word.conclude(last_word.Ended(folder, 1, False, 1.0, GONE))
    (attempt,) = RunReader(folder.database).attempts()
    assert attempt.state == "failed"
    assert (attempt.started_at, attempt.host, attempt.pid) == (1.0, socket.gethostname(), GONE)
    assert attempt.error is not None
    assert f"port {port} is in use by process {os.getpid()} (" in attempt.error["cause"]
    assert "--main_process_port" in attempt.error["cause"]


@pytest.mark.parametrize(
    ("log", "told", "state", "cause"),
    [
        (
            "",
            "",
            "crashed",
            SILENT,
        ),
        ("failed (exitcode: -9) local_rank: 0 (pid: 7)", "", "crashed", "killed with SIGKILL, by a user or"),
        ("  exitcode  : -6 (pid: 7)\n  exitcode  : -15 (pid: 8)", "", "crashed", "a native library gave up"),
        ("  exitcode  : 1 (pid: 7)", "", "crashed", SILENT),
        ("", "Connection closed by peer", "crashed", SILENT),
        ("", "my own", "failed", "rank 1: my own"),
        (
            "",
            "reward function 'judge' failed: ConnectionError",
            "failed",
            "rank 1: reward function 'judge' failed",
        ),
    ],
)
def test_of_a_first_rank_that_said_nothing_only_what_the_launcher_logged_is_told(
    log: str, told: str, state: str, cause: str, tmp_path: Path
) -> None:
    folder = RunFolder(tmp_path)
    folder.log.write_text(f"{log}\n")
    rank = RankFile(folder.rank(0), GONE)
    rank.update(phase="generate")
    rank.close()
    if told:
        kind = told.rpartition(" ")[2] if told.endswith("Error") else "RuntimeError"
        error = {"type": kind, "message": told, "cause": told}
        write_error(folder, 1, error, follows=told.startswith("Connection"))
    last_word.conclude(last_word.Ended(folder, 1, False, 1.0, GONE + 1))
    (attempt,) = RunReader(folder.database).attempts()
    assert attempt.error is not None
    assert (attempt.state, attempt.error["cause"][: len(cause)]) == (state, cause)


def test_an_end_that_its_trainer_could_not_write_is_taken_from_its_last_word_with_what_it_lost(
    tmp_path: Path,
) -> None:
    folder = _resumed(tmp_path)
    for number, lost in ((0, {"batches": 2}), (1, {"batches": 1, "timings": 4})):
        rank = RankFile(folder.rank(number), os.getpid())
        rank.update(
            attempt=2, step=9, lost=lost, ended="failed", ended_cause="reward function 'judge' failed"
        )
        rank.close()
    Supervisor(folder, trainer=GONE, started=1.0).run()
    reader = RunReader(folder.database)
    last = reader.attempts()[-1]
    assert (last.state, last.step) == ("failed", 9)
    assert last.error is not None
    assert last.error["cause"] == CAUSE
    assert reader.dropped() == {"batches": 3, "timings": 4}


def test_a_rank_file_of_an_earlier_attempt_says_nothing_of_this_one(tmp_path: Path) -> None:
    folder = _resumed(tmp_path)
    rank = RankFile(folder.rank(0), os.getpid())
    rank.update(attempt=1, step=4, ended="stopped", lost={"batches": 2})
    rank.close()
    Supervisor(folder, trainer=GONE, started=1.0).run()
    reader = RunReader(folder.database)
    assert (reader.attempts()[-1].state, reader.attempts()[-1].step) == ("crashed", None)
    assert reader.dropped() == {}


def test_the_end_is_tried_again_until_it_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = _resumed(tmp_path)
    tries: list[int] = []

    def full(path: Path) -> Any:
        tries.append(1)
        if len(tries) < 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        return open_writer(path)

    monkeypatch.setattr(last_word, "open_writer", full)
    monkeypatch.setattr(last_word, "RETRY_S", 0.01)
    Supervisor(folder, trainer=GONE, started=1.0).run()
    assert len(tries) == 3
    assert RunReader(folder.database).attempts()[-1].state == "crashed"


@pytest.mark.parametrize(
    ("error", "patience_s"),
    [(ValueError("no record"), 1e9), (OSError(errno.ENOSPC, "no space"), 0.0)],
    ids=["what never passes", "what lasts too long"],
)
def test_an_end_that_cannot_be_written_is_given_up_and_said(
    error: Exception,
    patience_s: float,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tries: list[int] = []

    def fails(ended: last_word.Ended) -> None:
        tries.append(1)
        if len(tries) > 1:
            pytest.fail("it is tried again")
        raise error

    monkeypatch.setattr(last_word, "_record", fails)
    monkeypatch.setattr(last_word, "RETRY_S", 0.0)
    ended = last_word.Ended(_resumed(tmp_path), -9, stopped_now=False, started_at=1.0, pid=None)
    last_word.conclude(ended, patience_s)
    assert f"could not record the end of the run: {error}" in capsys.readouterr().out


def test_a_folder_made_anew_under_the_name_of_a_deleted_one_gets_no_last_word(tmp_path: Path) -> None:
    root = tmp_path / "run"
    folder = _resumed(root)
    supervisor = Supervisor(folder, trainer=GONE, started=1.0)
    shutil.rmtree(root)
    root.mkdir()
    Mailbox(folder.commands).submit("stop_now")
    writer = Writer(open_writer(folder.database))
    writer.write([AttemptStarted(1, 5.0, "another's", GONE)])
    writer.close()
    before = sorted(os.listdir(root))
    supervisor.run()
    assert sorted(os.listdir(root)) == before
    assert len(Mailbox(folder.commands).pending()) == 1
    assert RunReader(folder.database).attempts()[0].state is None


def test_a_supervisor_that_cannot_write_an_outcome_keeps_it_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = RunFolder(tmp_path)
    trainer = subprocess.Popen(["sleep", "30"])
    rank = RankFile(folder.rank(0), trainer.pid)
    rank.update(attempt=1, step=5)
    mailbox = Mailbox(folder.commands)
    asked = mailbox.submit("abort_reward")
    supervisor = Supervisor(folder, trainer=GONE, started=1.0)

    def full(path: Path, body: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(mailbox_module, "write_json", full)
        supervisor._serve()
        rank.update(reward_call=3, reward_function="judge")  # what runs now is not what was asked about
        supervisor._serve()
    assert mailbox.outcome(asked.id) is None
    supervisor._serve()
    outcome = mailbox.outcome(asked.id)
    rank.close()
    trainer.kill()
    trainer.wait()
    assert outcome is not None
    assert (outcome.applied, outcome.reason) == (False, "no reward function is running")
    assert not folder.abort(0).exists()


def test_a_run_whose_record_could_not_be_begun_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.root.mkdir()
    RunSpec({}).write(folder.spec)
    folder.database.write_bytes(b"junk" * 5000)
    monkeypatch.setattr(worker.signal, "signal", lambda *_: None)
    monkeypatch.setattr(worker, "Unbreakable", lambda stream: stream)
    assert worker.main([str(folder.root)]) == worker.FAILED
    assert "nothing can be recorded, so the run did not start: " in capsys.readouterr().out
    look = read_status(folder.root)
    assert look.state == "failed"
    assert look.error is not None
    why = "run.db: file is not a database. Is another program using it, or the disk full?"
    assert look.error["cause"] == f"nothing can be recorded, so the run did not start: {why}"
    folder.database.unlink()
    assert read_status(folder.root).state == "failed"
