"""Carry commands from the interface to a run, and outcomes back.

A command is a file, written beside and renamed, so it exists whole or not at all.
"""

from __future__ import annotations

import errno
import os
import pwd
import stat
import time
from collections.abc import Mapping
from dataclasses import fields, replace
from json import loads
from pathlib import Path
from typing import Any

from grpo_tui.core.commands import BY_CHAT, BY_COMPARISON, OF_THE_MOMENT, REPLAYED, Command, Outcome
from grpo_tui.core.statistics import finite
from grpo_tui.store.json_file import LARGEST_BYTES, open_regular, read_object, write_json
from grpo_tui.store.layout import RunFolder, is_known
from grpo_tui.store.replay import replay_of


class Mailbox:
    """The `commands/` folder of one run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._newest = 0

    def submit(self, kind: str, args: Mapping[str, Any] | None = None, *, by: str = "you") -> Command:
        """Put a command into the mailbox.

        Raises:
            OSError: The folder cannot be written, or the run belongs to another user.
        """
        import secrets

        # Commands run in the order of their ids, so ids must increase even when the clock does not.
        self._newest = max(time.time_ns(), self._newest + 1)
        if why := self.refusal():
            raise PermissionError(errno.EPERM, why)
        self._folder.mkdir(mode=0o700, exist_ok=True)  # private to this user
        command = Command(
            id=f"{self._newest:020d}-{secrets.token_hex(3)}",
            kind=kind,
            args=dict(args or {}),
            at=time.time(),
            by=by,
        )
        body = {"kind": command.kind, "args": dict(command.args), "at": command.at, "by": command.by}
        write_json(self._folder / f"{command.id}.json", body)
        return command

    def refusal(self) -> str:
        """Return why this user cannot control the run; empty when they can."""
        run = self._folder.parent
        if replay_of(RunFolder(run).database) is not None:
            return REPLAYED
        found = self._folder.lstat() if os.path.lexists(self._folder) else run.stat()
        if not stat.S_ISDIR(found.st_mode):
            return "commands is not a folder"
        if os.geteuid() in (0, found.st_uid) or is_known(run):
            return ""
        login = login_of(found.st_uid)
        return f"this run belongs to {login}, and only {login} can steer it"

    def pending(self) -> list[Command]:
        """Return commands without an outcome, oldest first. Files that are not commands are skipped."""
        names = self._names()
        waiting = [n for n in names if not n.endswith(".out.json") and n[:-5] + ".out.json" not in names]
        return [command for name in sorted(waiting) if (command := self._read(name)) is not None]

    def finish(self, command: Command, outcome: Outcome) -> None:
        """Write the outcome of a command, unless it already has one."""
        path = self._folder / f"{command.id}.out.json"
        if not os.path.lexists(path):
            body = {one.name: getattr(outcome, one.name) for one in fields(outcome)}
            write_json(path, body | {"at": outcome.at or time.time()})

    def outcome(self, command_id: str) -> Outcome | None:
        """Return the outcome of a command; None while it waits."""
        body = read_object(self._folder / f"{command_id}.out.json", below=self._folder.parent)
        if body is None:
            return None
        return Outcome(
            applied=bool(body.get("applied")),
            step=int(finite(body.get("step")) or 0),
            reason=str(body.get("reason", "")),
            result=result if isinstance(result := body.get("result"), dict) else {},
            at=finite(body.get("at")) or 0.0,
        )

    def wait(self, command: Command, timeout_s: float) -> Outcome | None:
        """Wait for an outcome; None on timeout."""
        deadline = time.monotonic() + timeout_s
        while True:
            outcome = self.outcome(command.id)
            if outcome is not None or time.monotonic() >= deadline:
                return outcome
            time.sleep(0.02)

    def history(self, seen: set[str]) -> list[tuple[Command, Outcome | None]]:
        """Return commands and outcomes not yet in `seen`, and add them to it. For the recorder."""
        found: list[tuple[Command, Outcome | None]] = []
        for name in sorted(self._names()):
            if name in seen:
                continue
            command = self._read(name.replace(".out.json", ".json"))
            if command is not None and (
                command.kind != "sample" or command.by not in (BY_CHAT, BY_COMPARISON)
            ):
                found.append(_told(command, self.outcome(command.id)))
            seen.add(name)
        return found

    def _names(self) -> set[str]:
        try:
            if self._folder.is_symlink():
                return set()
            return {n for n in os.listdir(self._folder) if n.endswith(".json")}
        except OSError:
            return set()

    def _read(self, name: str) -> Command | None:
        """Return the command in a file; None when it is not one, or its author may not control this run."""
        try:
            with open_regular(self._folder / name, below=self._folder.parent) as file:
                writer = os.fstat(file.fileno()).st_uid
                body = loads(file.read(LARGEST_BYTES))
            if writer not in (0, os.geteuid(), self._folder.parent.stat().st_uid):
                return None
        except (OSError, ValueError, RecursionError):
            return None
        if not isinstance(body, dict) or not isinstance(body.get("kind"), str):
            return None
        args = body.get("args")
        return Command(
            id=name[:-5],
            kind=body["kind"],
            args=args if isinstance(args, dict) else {},
            at=finite(body.get("at")) or 0.0,
            by=str(body.get("by", "you")),
        )


class Outbox:
    """Outcomes of commands, kept here until they can be written.

    A decided command is no longer `pending`, so none is carried out twice on a full disk.
    """

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox
        self._unsent: list[tuple[Command, Outcome]] = []

    def finish(self, command: Command, outcome: Outcome) -> None:
        """Write the outcome of a command, now or in a later `send`."""
        self._unsent.append((command, outcome))
        self.send()

    def send(self) -> None:
        """Write waiting outcomes, as far as possible."""
        while self._unsent:
            try:
                self._mailbox.finish(*self._unsent[0])
            except OSError:
                return
            del self._unsent[0]

    def pending(self) -> list[Command]:
        """Return commands that are not decided yet, oldest first."""
        decided = {command.id for command, _ in self._unsent}
        return [command for command in self._mailbox.pending() if command.id not in decided]


def login_of(user: int) -> str:
    """Return a user's login name, or the number of an unknown user."""
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"


def _told(command: Command, outcome: Outcome | None) -> tuple[Command, Outcome | None]:
    kept = OF_THE_MOMENT.get(command.kind)
    if kept is None:
        return command, outcome
    short = replace(command, args={name: value for name, value in command.args.items() if name in kept})
    return short, None if outcome is None else replace(outcome, result={})
