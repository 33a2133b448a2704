"""W&B LEET beside this program: the same run, written by wandb itself, offline and live.

`wandb` is installed by whoever wants the comparison, in a virtual environment of its own; nothing is
fetched here. Knows how wandb writes and LEET is started, not what is measured.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from _terminal import Key

WRITER = """
import json, os, sys, time
import wandb

rows, folder = sys.argv[1:]
settings = wandb.Settings(console="off", quiet=True)
run = wandb.init(project="grpo", dir=folder, mode="offline", settings=settings)
with open(rows) as file:
    pending = ""
    while True:
        pending += file.readline()
        if not pending.endswith("\\n"):
            time.sleep(0.02)
            continue
        row, pending = json.loads(pending), ""
        run.log({key: value for key, value in row.items() if key != "step"}, step=row["step"])
"""
QUIET = {"WANDB_MODE": "offline", "WANDB_ERROR_REPORTING": "false", "WANDB_SILENT": "true"}
KEYS = (
    Key("h", "Toggle this help screen"),
    Key("h", "Toggle this help screen", there=False),
)


def found(named: Path | None) -> Path | None:
    """The wandb executable: the one that was named, else the one on PATH; without one, a word is printed."""
    path = named or (Path(name) if (name := shutil.which("wandb")) else None)
    if path is not None and path.exists():
        return path.absolute()
    print("LEET is left out: there is no wandb here; --leet names one")
    return None


def words(wandb: Path, run: Path) -> list[str]:
    """The command that shows one run."""
    return [str(wandb), "leet", "run", str(run)]


@contextlib.contextmanager
def logging(wandb: Path, rows: Path, folder: Path) -> Iterator[Path]:
    """A wandb run that logs the rows while the block runs; its folder, once it holds metrics.

    Args:
        wandb: The executable, in the environment whose interpreter has wandb.
        rows: JSON lines that somebody appends.
        folder: Where wandb may write.
    """
    folder.mkdir(parents=True, exist_ok=True)
    process = subprocess.Popen(
        [wandb.parent / "python", "-c", WRITER, rows, folder],
        env=os.environ | QUIET | {"HOME": str(folder), "XDG_CACHE_HOME": str(folder / "cache")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield _until_written(folder, process)
    finally:
        process.kill()
        process.wait()


def _until_written(folder: Path, process: subprocess.Popen[bytes]) -> Path:
    end = time.monotonic() + 60
    while time.monotonic() < end and process.poll() is None:
        for file in folder.glob("wandb/offline-run-*/*.wandb"):
            if file.stat().st_size > 1000:
                return file.parent
        time.sleep(0.1)
    raise RuntimeError(f"wandb wrote no run into {folder}")
