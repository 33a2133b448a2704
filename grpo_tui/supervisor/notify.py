"""Notify the user of a run's findings, of a pause the run began by itself, and of its end.

A thread checks the run every few seconds. Each message is sent by a child process (`notify_child`), which the
supervisor does not wait for.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from grpo_tui.config.section import Notify
from grpo_tui.core.conditions import ON
from grpo_tui.core.exchange import rebuilt
from grpo_tui.core.text import one_line
from grpo_tui.store.connection import RunDatabaseError
from grpo_tui.store.json_file import read_object, write_json
from grpo_tui.store.layout import RunFolder, where
from grpo_tui.store.read_health import closed_findings, explained, rule_that_stopped
from grpo_tui.store.reader import RunReader
from grpo_tui.store.spec import RunSpec
from grpo_tui.store.status import ENDED, PAUSED_ITSELF, Status, read_status

LOOK_S = 3.0
LAST_LOOK_S = 10.0
"""Time limit for the last check before the supervisor exits."""
QUIET_S = 3600.0
"""Minimum time between two messages about the same rule."""
LONGEST = 1000
LOST = "policy.gradient-nan"
"""A finding that itself reports the pause."""


@dataclass(frozen=True, slots=True)
class Message:
    """The message as the webhook and the command receive it."""

    text: str
    title: str
    message: str
    name: str
    run: str
    state: str
    step: int
    finding: str | None = None
    severity: str | None = None


def notify_of(spec: RunSpec) -> Notify | None:
    """Return the run's notification settings; None when unset, invalid, or for a trial."""
    section = spec.config.get("section")
    asked = section.get("notify") if isinstance(section, dict) else None
    if not asked or spec.smoke:
        return None
    try:
        return rebuilt(Notify, asked)
    except ValueError:
        return None


class Notifier:
    """Sends messages until the run has ended."""

    def __init__(self, folder: RunFolder, notify: Notify) -> None:
        self._folder, self._notify = folder, notify
        severities = ("error", "warning") if "warning" in notify.on else ("error",)
        self._severities = severities if {"error", "warning"} & set(notify.on) else ()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="notify", daemon=True)
        self._senders: list[subprocess.Popen[bytes]] = []
        self._said: set[str] = set()
        self._paused = ""
        kept = read_object(folder.notified) or {}
        self._told = {key: at for key, at in kept.items() if isinstance(at, int | float)}

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def end(self) -> None:
        """Check a last time and report the end, which must already be recorded."""
        self._ended.set()
        self._thread.join(LAST_LOOK_S)

    def senders(self) -> set[int]:
        """Return the pids of children that are sending a message."""
        return {child.pid for child in self._senders}

    def _run(self) -> None:
        ended = False
        while not ended:
            ended = self._ended.wait(LOOK_S)
            try:
                self._look(ended)
            except (RunDatabaseError, OSError) as error:
                if ended:  # before the end, the next check may succeed
                    self._say(f"the run cannot be read: {error}")
            except Exception as error:
                self._say(f"{type(error).__name__}: {error}")

    def _look(self, ended: bool) -> None:
        self._senders = [child for child in self._senders if child.poll() is None]
        root = where(self._folder.root)
        if root is None:
            return
        status = read_status(root)
        if ended or status.state != "starting":  # a starting resume has not re-evaluated earlier findings yet
            for key, message in self._new(root, status):
                self._keep(key)
                self._send(message)
        if ended and "end" in self._notify.on:
            self._send(_end_of(root, status))

    def _new(self, root: Path, status: Status) -> Iterator[tuple[str, Message]]:
        """Yield new messages, each with the key that marks it as sent."""
        for finding in status.findings:
            key = f"{finding.id}@{finding.first_step}"
            if finding.severity in self._severities and self._is_new(key):
                title = f"{root.name}: {finding.severity} at step {finding.first_step}"
                yield key, _message(root, status, title, finding.message, finding.id, finding.severity)
        itself = next((alert for alert in status.alerts if alert["id"] == PAUSED_ITSELF), None)
        key, known = f"{PAUSED_ITSELF}@{status.step}", any(finding.id == LOST for finding in status.findings)
        if itself is None or not self._severities or known or not self._is_new(key):
            return
        if self._paused != key:  # the finding that explains a pause may be recorded a moment later
            self._paused = key
        else:
            title = f"{root.name}: paused at step {status.step}"
            text, _ = explained(str(itself["message"]), status.findings)
            yield key, _message(root, status, title, text, PAUSED_ITSELF, "error")

    def _is_new(self, key: str) -> bool:
        rule = key.partition("@")[0]
        last = max((at for told, at in self._told.items() if told.partition("@")[0] == rule), default=0.0)
        return key not in self._told and not 0 <= time.time() - last < QUIET_S

    def _keep(self, key: str) -> None:
        self._told[key] = time.time()
        try:
            write_json(self._folder.notified, self._told)
        except OSError as error:
            self._say(f"{self._folder.notified.name} cannot be written: {error.strerror}")

    def _send(self, message: Message) -> None:
        body = {"command": self._notify.command, "webhook": self._notify.webhook, "message": asdict(message)}
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", "grpo_tui.supervisor.notify_child"],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        self._senders.append(child)
        assert child.stdin is not None
        with child.stdin as pipe:
            pipe.write(json.dumps(body).encode())

    def _say(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            print(f"grpo-tui: notify: {text}", flush=True)


def _end_of(root: Path, status: Status) -> Message:
    steps = f"{status.step} of {status.total_steps} steps" if status.total_steps else f"{status.step} steps"
    error = status.error or {}
    cause = str(error.get("cause") or error.get("message") or "")
    state = status.state if status.state in ENDED else "ended"  # the end was not recorded (disk full)
    text, finding = steps, None
    if state == "stopped":
        with suppress(RunDatabaseError), closing(RunReader(RunFolder(root).database)) as reader:
            if rule := rule_that_stopped(reader):
                known = (*status.findings, *closed_findings(reader))
                text, finding = explained(f"stopped by {ON}: {rule}", known)
    return _message(root, status, f"{root.name}: {state} at step {status.step}", cause or text, finding)


def _message(
    root: Path, status: Status, title: str, text: str, finding: str | None = None, severity: str | None = None
) -> Message:
    title, text = one_line(title, LONGEST), one_line(text, LONGEST)
    return Message(
        text=f"{title}. {text}",
        title=title,
        message=text,
        name=one_line(root.name),
        run=str(root),
        state=status.state,
        step=status.step,
        finding=finding,
        severity=severity,
    )
