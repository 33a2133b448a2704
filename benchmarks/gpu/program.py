"""Drive the real program: start a run, look at it, send commands, end what is left of it.

Everything that changes a run goes through `python -m grpo_tui`; looking goes through the run folder, as
every viewer does. Knows nothing of what is checked.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
from report import CheckFailed, Report

from grpo_tui.store.connection import RunDatabaseError
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.live import RankState, read_rank
from grpo_tui.store.reader import RunReader
from grpo_tui.store.status import ENDED, Status, read_status

ROOT = Path(__file__).resolve().parents[2]
COMMAND_S = 90.0


def environment(**changes: str) -> dict[str, str]:
    """This process's environment with the checkout importable and some variables changed."""
    paths = [str(ROOT), *filter(None, os.environ.get("PYTHONPATH", "").split(":"))]
    return {**os.environ, "PYTHONPATH": ":".join(paths), "NO_PROXY": "127.0.0.1", **changes}


class Run:
    """One run folder and the program at work on it."""

    def __init__(self, folder: Path, report: Report, env: dict[str, str]) -> None:
        self.folder, self.files = folder, RunFolder(folder)
        self._report, self._env = report, env

    def program(
        self, *words: str | Path, limit_s: float = COMMAND_S + 30, codes: Sequence[int] = (0,)
    ) -> subprocess.CompletedProcess[str]:
        """Run one command of the program and wait for it.

        Raises:
            CheckFailed: It ended with a code not in `codes`; the message is what it said.
        """
        try:
            done = subprocess.run(
                [sys.executable, "-m", "grpo_tui", *map(str, words)],
                capture_output=True, text=True, stdin=subprocess.DEVNULL, cwd=ROOT, env=self._env,
                timeout=min(limit_s, self._report.left_s()), check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise CheckFailed(f"`{words[0]}` did not return in time") from None
        if done.returncode not in codes:
            raise CheckFailed(f"`{words[0]}` ended with {done.returncode}: {done.stderr or done.stdout}")
        return done

    def command(self, *words: str) -> dict[str, Any]:
        """Send a command and return its outcome, which is an applied one."""
        done = self.program(words[0], self.folder, *words[1:], "--json", "--wait", f"{COMMAND_S:.0f}")
        outcome: dict[str, Any] = json.loads(done.stdout)
        return outcome

    def status(self) -> Status | None:
        """One look, None while there is nothing to see."""
        with contextlib.suppress(RunDatabaseError):
            return read_status(self.folder)
        return None

    def at_step(self, step: int, limit_s: float) -> Status:
        """Wait until a step is done; fails at once when the run ends before."""

        def there() -> Status | None:
            look = self._living()
            return look if look is not None and look.step >= step else None

        found: Status = self._report.until(there, f"step {step}", limit_s)
        return found

    def in_state(self, wanted: str, limit_s: float) -> Status:
        """Wait until the run is in a state; fails at once when it ends in another."""

        def there() -> Status | None:
            look = self._living(wanted)
            return look if look is not None and look.state == wanted else None

        found: Status = self._report.until(there, f"the state {wanted}", limit_s)
        return found

    def _living(self, wanted: str = "") -> Status | None:
        look = self.status()
        if look is not None and look.state in ENDED and look.state != wanted:
            cause = (look.error or {}).get("cause") or (look.error or {}).get("message") or ""
            raise CheckFailed(f"the run is {look.state} at step {look.step}: {cause}")
        return look

    def rank(self, number: int) -> RankState | None:
        """What one rank said last."""
        return read_rank(self.files.rank(number))

    def reader(self) -> RunReader:
        """Open the record."""
        return RunReader(self.files.database)

    def log_tail(self, characters: int = 12_000) -> str:
        """The end of the training process's output."""
        with contextlib.suppress(OSError):
            return self.files.log.read_text(errors="replace")[-characters:]
        return ""

    def processes(self) -> list[psutil.Process]:
        """Every living process of this run: those whose command line names its folder."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.status() != psutil.STATUS_ZOMBIE and str(self.folder) in process.cmdline():
                    found.append(process)
        return found

    def end(self) -> None:
        """Leave no process behind, whatever happened."""
        look = self.status()
        if look is not None and look.live:
            with contextlib.suppress(subprocess.TimeoutExpired):
                subprocess.run(
                    [sys.executable, "-m", "grpo_tui", "stop", str(self.folder), "--now", "--wait", "10"],
                    capture_output=True, stdin=subprocess.DEVNULL, cwd=ROOT, env=self._env,
                    timeout=20, check=False,
                )  # fmt: skip
        end_processes(self.processes())


def end_processes(processes: Sequence[psutil.Process]) -> None:
    """Kill processes and everything below them."""
    family = list(processes)
    for process in processes:
        with contextlib.suppress(psutil.Error):
            family += process.children(recursive=True)
    for process in family:
        with contextlib.suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(family, timeout=10)


class Server:
    """`trl vllm-serve` on a GPU of its own."""

    def __init__(self, model: str, port: int, log: Path, env: dict[str, str]) -> None:
        code = "from trl.cli.main import main; main()"
        words = ["vllm-serve", "--model", model, "--host", "127.0.0.1", "--port", str(port)]
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-c", code, *words, "--max_model_len", "512"],
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=env,
                start_new_session=True,
            )  # fmt: skip
        self._url, self._log = f"http://127.0.0.1:{port}/health/", log

    def ready(self) -> bool:
        """True once it answers.

        Raises:
            CheckFailed: It has ended.
        """
        if (code := self._process.poll()) is not None:
            tail = self._log.read_text(errors="replace")[-1500:]
            raise CheckFailed(f"the server ended with {code}: {tail}")
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with contextlib.suppress(OSError), opener.open(self._url, timeout=2) as answer:
            return bool(answer.status == 200)
        return False

    def end(self) -> None:
        """End it and its workers."""
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(self._process.pid)
            family = process.children(recursive=True)
            process.terminate()
            psutil.wait_procs([process], timeout=5)
            end_processes([process, *family])
        deadline = time.monotonic() + 5
        while self._process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
