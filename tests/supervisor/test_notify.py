"""A run tells its user of findings and of its end, and is never held up or failed by that."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psutil
import pytest

from grpo_tui.config.section import Notify
from grpo_tui.core.commands import Command, Outcome
from grpo_tui.core.findings import Finding
from grpo_tui.core.records import AttemptEnded, AttemptStarted, OpenFindings
from grpo_tui.store.connection import RunDatabaseError, open_writer
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.live import RankFile
from grpo_tui.store.spec import RunSpec
from grpo_tui.store.status import PAUSED_ITSELF, Status, read_status
from grpo_tui.store.writer import Writer
from grpo_tui.supervisor import launch, notify, notify_child
from grpo_tui.supervisor.notify import Notifier, notify_of
from tests import PATIENCE_S

SECRET = "/services/T0/s3cret"
LOST = "policy.gradient-nan"
TRAINER = """
import os, sys, time
from pathlib import Path
from grpo_tui.core.commands import Command, Outcome
from grpo_tui.core.findings import Finding
from grpo_tui.core.records import AttemptEnded, AttemptStarted, OpenFindings
from grpo_tui.store.connection import open_writer
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.live import RankFile
from grpo_tui.store.writer import Writer

folder = RunFolder(Path(sys.argv[-1]))
writer = Writer(open_writer(folder.database))
writer.write([AttemptStarted(1, time.time(), "here", os.getpid())])
rank = RankFile(folder.rank(0), os.getpid())
rank.update(attempt=1, phase="generate", step=7)
"""
"""What stands for a training process, and then does what a test adds."""
ENDS = "writer.write([AttemptEnded(1, time.time(), 'finished', 7, 0, None)])\n"


class Server:
    """A webhook that keeps what was posted."""

    def __init__(self, code: int = 200) -> None:
        self.posted: queue.Queue[dict[str, Any]] = queue.Queue()
        posted = self.posted

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                posted.put({**body, "path": self.path})
                self.send_response(code)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}{SECRET}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def next(self) -> dict[str, Any]:
        return self.posted.get(timeout=PATIENCE_S)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = Server()
    yield server
    server.close()


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "run")


def started(folder: RunFolder, told: Notify, then: str) -> psutil.Process:
    """The real supervisor of a run whose training process is a stand-in."""
    config = {"section": {"notify": asdict(told)}}
    spec = RunSpec(config, launcher=(sys.executable, "-c", TRAINER + then))
    return psutil.Process(launch(folder, spec))


def test_the_last_finding_and_a_crash_are_told_and_the_webhook_stays_secret(
    folder: RunFolder, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINING_WEBHOOK", server.url)
    command = (
        f'cat > "{tmp_path}/$GRPO_TUI_FINDING.new"; cd "{tmp_path}"; env > "$GRPO_TUI_FINDING.env"; exit 3'
    )
    found = f"finding = Finding({LOST!r}, 'error', None, None, 'NaN\\x1b[2J', first_step=6, last_step=6)\n"
    dies = found + "writer.write([OpenFindings(time.time(), (finding,))])\nos._exit(0)"
    started(folder, Notify(command=command, webhook="$TRAINING_WEBHOOK"), dies).wait(PATIENCE_S)
    told = {message["finding"]: message for message in (server.next(), server.next())}
    first, end = told[LOST], told[None]
    assert first["title"] == "run: error at step 6"
    assert first["text"] == f"{first['title']}. {first['message']}"
    assert "\x1b" not in first["text"]
    assert (first["severity"], first["step"], first["run"], first["path"]) == (
        "error",
        7,
        str(folder.root),
        SECRET,
    )
    assert (end["title"], end["state"]) == ("run: crashed at step 7", "crashed")
    assert "ended with code 0, while generating" in end["message"]
    _until(lambda: folder.log.read_text().count("the command exited with 3") == 2)
    body = json.loads((tmp_path / f"{LOST}.new").read_text())
    assert body == {key: value for key, value in first.items() if key != "path"}
    environment = (tmp_path / f"{LOST}.env").read_text()
    for line in ("TITLE=run: error at step 6", f"TEXT={first['message']}", "STATE=crashed", "STEP=7"):
        assert f"GRPO_TUI_{line}\n" in environment
    kept = folder.log.read_text() + json.dumps(read_status(folder.root).to_json())
    assert "s3cret" not in kept + folder.notified.read_text()


def test_a_command_that_hangs_holds_up_neither_the_end_nor_the_next_start(
    folder: RunFolder, tmp_path: Path
) -> None:
    pid = tmp_path / "pid"
    command = f'echo $$ > "{pid}.new"; mv "{pid}.new" "{pid}"; exec sleep 600'
    started(folder, Notify(command=command), ENDS).wait(PATIENCE_S)
    try:
        assert "killed after" not in folder.log.read_text(), "the supervisor did not wait for it"
        assert read_status(folder.root).state == "finished"
    finally:
        _until(pid.exists)
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid.read_text()), signal.SIGKILL)


def test_a_finding_is_told_once_also_after_a_resume_and_an_end_is_told_at_the_end(
    folder: RunFolder, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify, "LOOK_S", 0.01)
    folder.root.mkdir()
    rank = RankFile(folder.rank(0), os.getpid())
    writer = Writer(open_writer(folder.database))
    told = Notify(on=("warning", "end"), webhook=server.url)

    def opened(*rules: str) -> None:
        findings = (Finding(rule, "warning", None, None, rule, first_step=2, last_step=3) for rule in rules)
        writer.write([OpenFindings(time.time(), tuple(findings))])

    def began(attempt: int) -> Notifier:
        writer.write([AttemptStarted(attempt, time.time(), "here", os.getpid())])
        rank.update(attempt=attempt, phase="generate", step=3)
        notifier = Notifier(folder, told)
        notifier.start()
        return notifier

    opened("policy.kl")
    first = began(1)
    assert server.next()["finding"] == "policy.kl"
    rank.update(attempt=1, phase="wait", step=3, note="two aborts in a row")
    paused = server.next()
    assert (paused["finding"], paused["state"], paused["message"]) == (
        PAUSED_ITSELF,
        "paused",
        "two aborts in a row",
    )
    writer.write([AttemptEnded(1, time.time(), "stopped", 3, 0, None)])
    first.end()
    ended = server.next()
    assert (ended["finding"], ended["title"]) == (None, "run: stopped at step 3")
    rank.update(attempt=2, phase="generate", step=3, note="")
    second = began(2)
    opened("policy.kl", "signal.equal")
    assert server.next()["finding"] == "signal.equal"
    second.end()
    assert server.next()["finding"] is None
    writer.close()
    rank.close()


@pytest.mark.parametrize(
    ("on", "titles"),
    [
        (("error",), ["error at step 2"]),
        (("warning",), ["error at step 2", "warning at step 2"]),
        (("end",), ["finished at step 3"]),
        (("error", "warning", "end"), ["error at step 2", "warning at step 2", "finished at step 3"]),
    ],
)
def test_only_what_was_asked_for_is_told(
    on: tuple[str, ...], titles: list[str], folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []
    monkeypatch.setattr(Notifier, "_send", lambda self, message: sent.append(message.title))
    folder.root.mkdir()
    writer = Writer(open_writer(folder.database))
    findings = (
        Finding("policy.kl", "error", None, None, "kl", first_step=2, last_step=3),
        Finding("signal.equal", "warning", None, None, "equal", first_step=2, last_step=3),
    )
    writer.write([AttemptStarted(1, time.time(), "here", os.getpid()), OpenFindings(time.time(), findings)])
    writer.write([AttemptEnded(1, time.time(), "finished", 3, 0, None)])
    writer.close()
    notifier = Notifier(folder, Notify(on=on, webhook="https://here/x"))
    notifier.start()
    notifier.end()
    assert sent == [f"run: {title}" for title in titles]


def test_a_rule_that_comes_and_goes_is_told_of_once_an_hour(folder: RunFolder) -> None:
    folder.root.mkdir()
    notifier = Notifier(folder, Notify(webhook="https://here/x"))
    assert notifier._is_new("policy.kl@3")
    notifier._keep("policy.kl@3")
    assert not notifier._is_new("policy.kl@3")
    assert not notifier._is_new("policy.kl@9")
    assert notifier._is_new("policy.collapse@9")
    hour_ago = {"policy.kl@3": time.time() - notify.QUIET_S - 1}
    folder.notified.write_text(json.dumps(hour_ago))
    later = Notifier(folder, Notify(webhook="https://here/x"))
    assert later._is_new("policy.kl@9")
    assert not later._is_new("policy.kl@3")


def test_a_failure_is_one_line_without_the_secret(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(notify_child, "LIMIT_S", 0.2)
    facts = dict.fromkeys(notify_child.VARIABLES.values())
    server = Server(404)
    host = f"http://{server.url.split('/')[2]}/…"
    notify_child._post(server.url, facts)
    server.close()
    notify_child._post(server.url, facts)
    notify_child._post("https://127.0.0.1:x/s3cret", facts)
    notify_child._post("$UNSET_HERE", facts)
    notify_child._run("echo one >&2; echo two >&2; exit 9", facts)
    notify_child._run("sleep 600", facts)
    lines = capfd.readouterr().out.splitlines()
    assert lines == [
        f"grpo-tui: notify: the webhook {host} answered 404",
        f"grpo-tui: notify: the webhook {host} could not be reached: Connection refused",
        "grpo-tui: notify: the webhook https://127.0.0.1:x/… could not be used: InvalidURL",
        "grpo-tui: notify: the environment variable UNSET_HERE does not hold an http or https URL",
        "grpo-tui: notify: the command exited with 9: two",
        "grpo-tui: notify: the command was killed after 0.2 s",
    ]


def test_nobody_is_told_of_a_trial_or_by_what_is_no_setting() -> None:
    config = {"section": {"notify": {"on": ["end"], "command": "true", "webhook": None}}}
    assert notify_of(RunSpec(config)) == Notify(("end",), "true")
    assert notify_of(RunSpec(config, smoke=True)) is None
    assert notify_of(RunSpec({"section": {"notify": {"on": 5}}})) is None
    assert notify_of(RunSpec({})) is None


@pytest.mark.parametrize(
    ("state", "ended", "titles"),
    [
        ("starting", False, []),
        ("starting", True, ["error at step 2", "ended at step 3"]),
        ("training", False, ["error at step 2"]),
        ("finished", True, ["error at step 2", "finished at step 3"]),
        ("stopped", True, ["error at step 2", "stopped at step 3"]),
    ],
)
def test_what_is_left_of_an_earlier_start_is_not_told_while_the_next_one_loads(
    state: str, ended: bool, titles: list[str], folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.root.mkdir()
    found = Finding("policy.kl", "error", None, None, "kl", first_step=2, last_step=3)
    monkeypatch.setattr(notify, "read_status", lambda root: Status(state=state, step=3, findings=(found,)))
    sent: list[str] = []
    monkeypatch.setattr(Notifier, "_send", lambda self, message: sent.append(message.title))
    Notifier(folder, Notify(on=("error", "end"), webhook="https://here/x"))._look(ended)
    assert sent == [f"run: {title}" for title in titles]


def test_what_a_command_that_hangs_has_started_is_killed_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify_child, "LIMIT_S", 0.5)
    pids = tmp_path / "pids"
    facts = dict.fromkeys(notify_child.VARIABLES.values())
    notify_child._run(f"sleep 600 & echo $! > {pids}; sleep 600", facts)
    child = int(pids.read_text())
    _until(lambda: not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE)


SPARES = """
import subprocess, sys
from grpo_tui.supervisor.leftovers import kill_descendants

kept, gone = (subprocess.Popen(["sleep", "600"]) for _ in range(2))
kill_descendants({kept.pid})
print(gone.wait(), kept.poll())
kept.kill()
"""


def test_who_sends_a_message_outlives_the_run() -> None:
    said = subprocess.run([sys.executable, "-c", SPARES], capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["-9", "None"]


def test_who_has_sent_its_message_is_no_sender_any_longer(tmp_path: Path) -> None:
    notifier = Notifier(RunFolder(tmp_path), Notify(on=()))
    sent, sends = (subprocess.Popen(["cat"], stdin=subprocess.PIPE) for _ in range(2))
    notifier._senders = [sent, sends]
    try:
        assert notifier.senders() == {sent.pid, sends.pid}
        sent.communicate()
        with contextlib.suppress(RunDatabaseError):
            notifier._look(ended=False)
        assert notifier.senders() == {sends.pid}, "its number may be another process by now"
    finally:
        sends.communicate()


def _until(true: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.05)


def test_a_stop_by_a_rule_is_told_with_the_finding_it_acted_on(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[notify.Message] = []
    monkeypatch.setattr(Notifier, "_send", lambda self, message: sent.append(message))
    folder.root.mkdir()
    writer = Writer(open_writer(folder.database))
    found = Finding("policy.kl", "warning", None, None, "KL runs away.", first_step=2, last_step=3)
    writer.write([AttemptStarted(1, time.time(), "here", os.getpid()), OpenFindings(time.time(), (found,))])
    command = Command("a", "stop", {"because": "policy.kl"}, 1.0, "grpo_tui.on")
    writer.write([(command, Outcome(True, 3))])
    writer.write([AttemptEnded(1, time.time(), "stopped", 3, 0, None)])
    writer.close()
    notifier = Notifier(folder, Notify(on=("end",), webhook="https://here/x"))
    notifier.start()
    notifier.end()
    assert [(one.title, one.message, one.finding) for one in sent] == [
        ("run: stopped at step 3", "stopped by grpo_tui.on: policy.kl. KL runs away.", "policy.kl")
    ]
