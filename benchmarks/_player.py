"""Play a run into a folder, step by step, as if something trained there.

    python benchmarks/_player.py FOLDER --every 1 [--history 60] [--steps 0] [--rows]

The numbers are those of the tests' recorded run; they go through the real writer into a real `run.db`, with
heartbeat, rank file and log lines, so that every reader takes it for a live run. Nothing is trained:
training would drown what is measured. Ends on SIGTERM, or after so many steps.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from grpo_tui.core import records as r  # noqa: E402
from grpo_tui.store.live import RankFile, write_heartbeat  # noqa: E402
from tests.ui.recorded_run import RecordedRun  # noqa: E402

TOTAL = 100_000
SHARES = (("generate", 0.54), ("reward", 0.02), ("update", 0.44))
"""How a step's time is shared by its phases."""


class Player(RecordedRun):
    """A recorded run whose steps take as long as told, on the wall clock."""

    def __init__(self, root: Path, *, every_s: float, history: int) -> None:
        began_at = time.time() - 2.0 - history * every_s
        super().__init__(root, total=TOTAL, began_at=began_at, step_s=every_s)
        self._rank = RankFile(self.folder.rank(0), self.pid)
        self._say("load")
        for _ in range(history):
            self.advance(1)

    def beat(self, stopped: threading.Event) -> None:
        """Write the heartbeat once a second, as a supervisor does, until stopped."""
        while not stopped.wait(1.0):
            write_heartbeat(self.folder.heartbeat, os.getpid(), self.pid)

    def play_step(self, stopped: threading.Event) -> r.MetricRow:
        """One step, phase by phase; its row."""
        self.step += 1
        batch = self._batch(self.step)
        for phase, share in SHARES:
            self._say(phase, reward_function="correctness" if phase == "reward" else None)
            if phase == "update":
                self.write(batch)
            stopped.wait(share * self.step_s)
        row = self._row(batch, False)
        line = json.dumps({"loss": row.values["loss"], "reward": row.values["reward"]})
        self.write(*self._phases(), row, r.LogLine(time.time(), line))
        return row

    def _say(self, phase: str, reward_function: str | None = None) -> None:
        now = time.time()
        self._rank.update(
            phase=phase, phase_since=now, step=self.step, progress_at=now, attempt=1,
            step_time_s=self.step_s, reward_function=reward_function,
        )  # fmt: skip


@contextlib.contextmanager
def playing(folder: Path, every_s: float, *, history: int = 60, rows: Path | None = None) -> Iterator[None]:
    """A player in a process of its own while the block runs; `rows` gets its metrics as JSON lines."""
    with open(rows or os.devnull, "wb") as out:
        words = [sys.executable, __file__, folder, "--every", str(every_s), "--history", str(history)]
        process = subprocess.Popen(
            [*map(str, words), "--rows"], stdout=out, env=os.environ | {"PYTHONUNBUFFERED": "1"}
        )
    try:
        _until_live(folder, process)
        yield
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()


def _until_live(folder: Path, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 180
    while time.monotonic() < end and process.poll() is None:
        if (folder / "heartbeat").exists():
            return
        time.sleep(0.05)
    raise RuntimeError(f"nothing plays into {folder}")


def main() -> None:
    """Play until ended."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="a new run folder")
    parser.add_argument("--every", type=float, default=1.0, metavar="S", help="seconds a step takes")
    parser.add_argument("--history", type=int, default=60, metavar="N", help="steps there are at once")
    parser.add_argument("--steps", type=int, default=0, metavar="N", help="end after so many; 0 is never")
    parser.add_argument("--rows", action="store_true", help="print each step's metrics as JSON")
    options = parser.parse_args()
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    player = Player(options.folder, every_s=options.every, history=options.history)
    write_heartbeat(player.folder.heartbeat, os.getpid(), player.pid)
    threading.Thread(target=player.beat, args=(stopped,), daemon=True).start()
    done = 0
    while not stopped.is_set() and (not options.steps or done < options.steps):
        row = player.play_step(stopped)
        done += 1
        if options.rows:
            print(json.dumps({"step": row.step, **row.values}), flush=True)
    stopped.set()
    player.close()


if __name__ == "__main__":
    main()
