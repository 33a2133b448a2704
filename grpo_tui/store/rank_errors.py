"""Why a rank other than the first failed: a file per rank, because its own collectives are broken then.

Knows files and processes; what an error says is `train.failure`'s business.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from grpo_tui.core.statistics import is_number
from grpo_tui.store.json_file import read_object, write_json
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.live import read_rank

PATIENCE_S = 3.0
"""How long the first rank waits for another one to say that it failed first."""


def write_error(folder: RunFolder, rank: int, error: Mapping[str, Any]) -> None:
    """Say why this rank failed."""
    body = {**error, "cause": f"rank {rank}: {error['cause']}", "at": time.time()}
    write_json(folder.error(rank), body)


def read_errors(folder: RunFolder) -> dict[str, Any] | None:
    """The first error another rank told of, None when there is none."""
    found = [read_object(path) for path in folder.root.glob("rank-*.error")]
    told = [error for error in found if error is not None and is_number(error.get("at"))]
    if not told:
        return None
    first = min(told, key=lambda error: float(error["at"]))
    return {key: str(first.get(key, "")) for key in ("type", "message", "cause")}


def await_error(folder: RunFolder) -> dict[str, Any] | None:
    """Give other ranks a moment to say that they failed first."""
    deadline = time.monotonic() + PATIENCE_S
    while (error := read_errors(folder)) is None and time.monotonic() < deadline:
        time.sleep(0.1)
    return error


def forget_errors(folder: RunFolder) -> None:
    """Remove what ranks of an earlier attempt said."""
    for path in folder.root.glob("rank-*.error"):
        path.unlink(missing_ok=True)


def lost_ranks(folder: RunFolder, own: int) -> list[int]:
    """Other ranks of this host whose process is gone."""
    states = [read_rank(folder.rank(rank)) for rank in folder.ranks() if rank != own]
    return [state.rank for state in states if state is not None and not state.alive]
