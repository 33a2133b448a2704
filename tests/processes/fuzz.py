"""Run folders with anything at all under every name, and what happens when a command looks at them.

`benchmarks/fuzz_looking.py` runs it by hand for as long as wanted, `test_hostile_folders.py` over a fixed
number of cases. Every case comes from a seed and its number, so each can be made again.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import pickle
import random
import resource
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import psutil

from grpo_tui.cli.main import main
from grpo_tui.store.live import process_started
from tests import PATIENCE_S
from tests.processes.hostile import NASTY
from tests.ui.recorded_run import RecordedRun

LIMIT_S = PATIENCE_S
"""A command that takes longer is killed and counts as a hang."""
MEMORY_BYTES = 6 << 30
"""What a command may take beyond what the process has that starts it."""
PR_SET_PDEATHSIG = 1
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("status",), ("status", "--json"), ("runs",), ("completions", "--limit", "5"), ("log", "--tail", "5"),
    ("metrics",), ("course",), ("config", "diff"), ("attach",), ("replay", "--headless"),
)  # fmt: skip
NAMES = (
    "run.db", "run.db-wal", "run.db-shm", "run.json", "run.json.before", "run.id", "run.lock",
    "supervisor.lock", "heartbeat", "hardware.json", "train.log", "rank-0.json", "rank-1.json",
    "rank-1.error", "rank-0.abort", "rank-x.json", "commands", "spool",
    "commands/00000000000000000001-aaaaaa.json",
    "spool/1-1-00000001.records", "checkpoint-4", "checkpoint-4/trainer_state.json",
    "checkpoint-4/grpo_tui.json", "checkpoint-4/grpo_tui_state_0.pt", "checkpoint-4/optimizer.pt",
    "checkpoint-4/model.safetensors", "checkpoint-99999999999999999999", "views.json",
)  # fmt: skip


@dataclass
class Outcome:
    """What was tried, and what went wrong."""

    files: int = 0
    commands: int = 0
    hangs: list[str] = field(default_factory=list)
    executions: list[str] = field(default_factory=list)
    deaths: list[str] = field(default_factory=list)
    """Ended by a signal or with an exit code that no command has."""
    surprises: Counter[str] = field(default_factory=Counter)
    """Exceptions that no command has a sentence of its own for."""


class Fuzz:
    """Makes cases and looks at them.

    Args:
        folder: An empty folder of its own.
        seed: Chooses the cases.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.seed, self.outcome = folder, seed, Outcome()
        self.donor, self.marker = folder / "donor", folder / "CODE_RAN"
        run = RecordedRun(self.donor)
        run.advance(4)
        run.events()
        run.log(5)
        run.close()
        for name in ("completions", "config", "headless", "log", "look", "metrics", "replay"):
            import_module(f"grpo_tui.cli.{name}")  # once, and not in every child
        # Its end of the pipe closes with this process, also when that is killed: `cat` then ends.
        self.victim = subprocess.Popen(["cat"], stdin=subprocess.PIPE, start_new_session=True)
        _furnish(self.donor, self.victim.pid)

    def close(self) -> None:
        """End the process that nothing may have ended."""
        self.victim.kill()
        self.victim.communicate()

    def case(self, number: int) -> None:
        """Make one folder and look at it with every command."""
        chance = random.Random(f"{self.seed}-{number}")
        run = self.folder / f"runs-{number}" / "run"
        shutil.copytree(self.donor, run)
        done = [self._harm(run, chance) for _ in range(chance.choice((1, 1, 2, 4)))]
        self.outcome.files += len(done)
        what = f"seed {self.seed} case {number} ({', '.join(done)})"
        for words in COMMANDS:
            self._look(run, words, what)
        if self.marker.exists() or self.victim.poll() is not None:
            self.outcome.executions.append(what)
            self.marker.unlink(missing_ok=True)
            raise AssertionError(f"something from the folder was executed, or a process was ended: {what}")
        _remove(run.parent)

    def _harm(self, run: Path, chance: random.Random) -> str:
        database = run / "run.db"
        whole = not database.is_symlink() and database.is_file() and database.stat().st_size > 0
        if chance.random() < 0.4 and whole:  # not cut to nothing or replaced by an earlier harm
            harm = chance.choice(DATABASE)
            with contextlib.suppress(sqlite3.Error, UnicodeError, OSError):
                harm(database, chance)
            return f"{harm.__name__} run.db"
        name, harm_file = chance.choice(NAMES), chance.choice(FILES)
        path = run / name
        if path.is_symlink() or (path.exists() and not path.is_dir()):  # a pipe of an earlier harm too
            path.unlink()
        with contextlib.suppress(OSError):
            path.parent.mkdir(exist_ok=True)
            if harm_file is not _pickle_bomb and path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            harm_file(path, chance, self)
        return f"{harm_file.__name__.strip('_')} {name}"

    def _look(self, run: Path, words: tuple[str, ...], what: str) -> None:
        target = run.parent if words[0] == "runs" else run
        said = (
            [words[0], *words[1:2], str(target)]
            if words[0] == "config"
            else [words[0], str(target), *words[1:]]
        )
        if (
            words[0] == "attach"
            and self._run(["status", str(target), "--json"], what)[2].find('"crashed"') < 0
        ):
            return  # it would follow a run that lives, or be refused as before
        if words[0] == "config":
            said.append(str(target))
        self.outcome.commands += 1
        code, hung, output = self._run(said, what)
        named = f"{' '.join(words)}: {what}"
        if hung:
            self.outcome.hangs.append(named)
        elif code not in (0, 1, 2, 3):
            self.outcome.deaths.append(f"exit {code}: {named}: {output[-300:]}")
        if "(--debug shows where)" in output or "Traceback" in output:
            self.outcome.surprises[f"{output.strip().splitlines()[-1][:200]} | {named}"] += 1

    def _run(self, said: list[str], what: str) -> tuple[int, bool, str]:
        """Run a command in a child; give its exit code, whether it hung, and what it printed."""
        printed = self.folder / "printed"
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            _become(said, printed)
        deadline = time.monotonic() + LIMIT_S
        while True:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status), False, printed.read_text(errors="replace")
            if time.monotonic() > deadline:
                os.killpg(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                return -9, True, printed.read_text(errors="replace")
            time.sleep(0.002)


def _become(said: list[str], printed: Path) -> None:
    code = 99
    try:
        os.setsid()  # what it starts is killed with it
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        most = psutil.Process().memory_info().vms + MEMORY_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        out = os.open(printed, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for number, name in ((1, "stdout"), (2, "stderr")):
            os.dup2(out, number)
            stream = open(number, "w", encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)
        try:
            code = main(said)
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else 1
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _furnish(run: Path, victim: int) -> None:
    """Give a folder a file under every name, with the victim as the process of everything."""
    started, now = process_started(victim), time.time()
    who = {"supervisor": 999_998, "supervisor_started": 1.0, "host": socket.gethostname(), "trainer": victim}
    bodies: dict[str, Any] = {
        "heartbeat": {**who, "trainer_started": started},
        "rank-0.json": {
            "pid": victim, "started": started, "rank": 0, "phase": "reward", "phase_since": now, "step": 3,
            "attempt": 1, "reward_call": 1, "reward_function": "x", "progress_at": now,
        },
        "rank-1.json": {"pid": victim, "started": started, "rank": 1, "phase": "update", "attempt": 1},
        "hardware.json": {"at": now, "gpus": [], "cpu": 0.5},
        "commands/00000000000000000001-aaaaaa.json": {"kind": "stop_now", "args": {}, "at": now, "by": "you"},
        "commands/00000000000000000002-aaaaaa.json": {"kind": "abort_reward", "args": {}, "at": 1, "by": "y"},
        "checkpoint-4/trainer_state.json": {"global_step": 4, "log_history": []},
        "checkpoint-4/grpo_tui.json": {"step": 4, "files": {}},
        "run.json": {"config": {"path": None, "model": "m"}},
    }  # fmt: skip
    for name, body in bodies.items():
        path = run / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(body))
    (run / "train.log").write_text("".join(NASTY).encode("utf-8", "replace").decode() + "\n")
    with contextlib.closing(sqlite3.connect(run / "run.db")) as database:
        database.execute("UPDATE attempt SET pid = 999997")
        database.commit()


def _remove(folder: Path) -> None:
    for root, folders, _ in os.walk(folder):
        for name in folders:
            with contextlib.suppress(OSError):
                os.chmod(os.path.join(root, name), 0o755)
    shutil.rmtree(folder, ignore_errors=True)


# -- what may lie under a name ---------------------------------------------------------------------


def _fifo(path: Path, chance: random.Random, fuzz: Fuzz) -> None:
    os.mkfifo(path)


def _link(path: Path, chance: random.Random, fuzz: Fuzz) -> None:
    path.symlink_to(
        chance.choice(("/dev/zero", "/", "/dev/tty", "/proc/self/mem", "/etc/passwd", path.name, ".."))
    )


def _folder(path: Path, chance: random.Random, fuzz: Fuzz) -> None:
    path.mkdir()
    for number in range(chance.choice((0, 1, 300))):
        (path / f"{number}").touch()


def _socket(path: Path, chance: random.Random, fuzz: Fuzz) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(path))


def _huge(path: Path, chance: random.Random, fuzz: Fuzz) -> None:
    with path.open("wb") as file:
        file.write(chance.choice((b"", b"{", b"SQLite format 3\0")))
        file.truncate(1 << chance.choice((27, 33, 40)))


def _random_bytes(path: Path, chance: random.Random, fuzz: Fuzz) -> None:
    path.write_bytes(chance.randbytes(chance.choice((0, 1, 7, 5000))))


def _nested(path: Path, chance: random.Random, fuzz: Fuzz) -> None:
    opening = chance.choice(("[", '{"a":', '{"pid":[', '[{"args":'))
    path.write_text(opening * chance.choice((300, 990, 100_000)))


def _odd_json(path: Path, chance: random.Random, fuzz: Fuzz) -> None:
    path.write_text(json.dumps(_odd_value(chance, 0)))


def _odd_fields(path: Path, chance: random.Random, fuzz: Fuzz) -> None:
    original = fuzz.donor / path.relative_to(path.parents[0])
    body = {}
    with contextlib.suppress(OSError, ValueError):
        body = json.loads(original.read_text())
    keys = list(body) or ["pid", "started", "host", "config", "kind"]
    body |= {chance.choice(keys): _odd_value(chance, 0) for _ in range(3)}
    path.write_text(json.dumps(body))


def _pickle_bomb(path: Path, chance: random.Random, fuzz: Fuzz) -> None:
    path.mkdir() if path.name == "spool" and not path.exists() else None
    target = path / "1-1-00000001.records" if path.is_dir() else path

    class Bomb:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.system, (f"touch '{fuzz.marker}'",)

    target.write_bytes(pickle.dumps([Bomb()]))


def _deep(path: Path, chance: random.Random, fuzz: Fuzz) -> None:
    for _ in range(chance.choice((3, 60))):
        path.mkdir()
        path = path / ("d" * 60)


def _odd_value(chance: random.Random, depth: int) -> Any:
    kind = chance.randrange(12)
    if kind < 2 and depth < 3:
        return {
            chance.choice(("pid", "host", "a", "config", "role")): _odd_value(chance, depth + 1)
            for _ in range(3)
        }
    if kind < 4 and depth < 3:
        return [_odd_value(chance, depth + 1) for _ in range(chance.randrange(4))]
    return chance.choice(
        (
            None,
            True,
            -1,
            0,
            1 << 70,
            1e308,
            float("nan"),
            float("inf"),
            "",
            "x" * 5000,
            chance.choice(NASTY),
            [],
            {},
        )
    )


FILES: tuple[Callable[[Path, random.Random, Fuzz], None], ...] = (
    _fifo, _link, _link, _folder, _socket, _huge, _random_bytes, _nested, _odd_json, _odd_fields, _odd_fields,
    _pickle_bomb, _pickle_bomb, _deep,
)  # fmt: skip


# -- what may lie in run.db ------------------------------------------------------------------------


def pages(path: Path, chance: random.Random) -> None:
    """Random bytes in random places."""
    data = bytearray(path.read_bytes())
    for _ in range(chance.choice((1, 20, 400))):
        start = chance.randrange(len(data))
        data[start : start + 4] = chance.randbytes(4)
    path.write_bytes(data)


def cut(path: Path, chance: random.Random) -> None:
    """Cut off in the middle."""
    os.truncate(path, chance.randrange(path.stat().st_size))


def values(path: Path, chance: random.Random) -> None:
    """Values of any kind in some columns."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
        columns = list(_columns(database))
        for table, column in chance.choices(columns, k=chance.choice((1, 3, 20))):
            odd = _odd_value(chance, 0)
            value = chance.choice(
                (None, "x", "", -1, 1 << 62, 1e300, float("inf"), b"\xff\x00", json.dumps(odd), "[" * 2000)
            )
            share = chance.choice(("1", "rowid % 3 = 0"))
            with contextlib.suppress(sqlite3.Error, OverflowError, UnicodeError):
                database.execute(f'UPDATE OR IGNORE "{table}" SET "{column}" = ? WHERE {share}', (value,))


def programs(path: Path, chance: random.Random) -> None:
    """A table that is gone or a view, a trigger, another version."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
        table = chance.choice([table for table, _ in _columns(database)])
        endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
        for statement in chance.choice(
            (
                (f'DROP TABLE "{table}"',),
                (f'ALTER TABLE "{table}" RENAME TO old', f'CREATE VIEW "{table}" AS {endless}'),
                (f'CREATE TRIGGER t AFTER INSERT ON "{table}" BEGIN DELETE FROM fact; END',),
                (f"PRAGMA user_version={chance.choice((0, 2, -1, 99))}",),
                ("PRAGMA journal_mode=DELETE",),
            )
        ):
            database.execute(statement)


def _columns(database: sqlite3.Connection) -> Iterator[tuple[str, str]]:
    for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        if not table.startswith("sqlite_"):
            yield from ((table, row[1]) for row in database.execute(f'PRAGMA table_info("{table}")'))


DATABASE: tuple[Callable[[Path, random.Random], None], ...] = (pages, cut, values, values, values, programs)
