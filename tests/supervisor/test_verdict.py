"""What is said of a training process that could say nothing itself."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from grpo_tui.store.live import RankState
from grpo_tui.supervisor.last_word import starvation_kills, verdict

SILENT = ", and did not say why"
JUDGE = RankState(0, 1, 1.0, phase="reward", reward_function="judge", reward_call=3)


@pytest.mark.parametrize(
    ("death", "cause"),
    [
        (
            verdict(-signal.SIGKILL, RankState(0, 1, 1.0, phase="generate")),
            "killed with SIGKILL, by a user or by the out-of-memory killer, while generating",
        ),
        (
            verdict(-signal.SIGKILL, JUDGE, starved=True),
            "killed by the out-of-memory killer (SIGKILL), while reward function 'judge' ran",
        ),
        (
            verdict(-signal.SIGSEGV, JUDGE),
            "a native library crashed (SIGSEGV), while reward function 'judge' ran",
        ),
        (verdict(-signal.SIGXCPU), "it reached its CPU time limit (SIGXCPU; `ulimit -t`)"),
        (verdict(-signal.SIGUSR1, starved=True), "ended by SIGUSR1"),
        (verdict(-99), "ended by signal 99"),
        (
            verdict(0, JUDGE),
            "the training process ended with code 0, while reward function 'judge' ran, and did not say why",
        ),
        (
            verdict(1, RankState(0, 1, 1.0, phase="generate"), launched=True),
            "the launcher ended with code 1, and rank 0 without an error message, while generating",
        ),
        (
            verdict(None, starved=True),
            "the training process is gone, most likely killed by the out-of-memory killer" + SILENT,
        ),
        (
            verdict(None, RankState(0, 1, 1.0, phase="save")),
            "the training process is gone, while saving, and did not say why",
        ),
    ],
)
def test_the_cause_names_how_it_ended_and_in_what(death: tuple[str, dict[str, Any]], cause: str) -> None:
    state, error = death
    assert state == "crashed"
    assert error["cause"] == f"{cause}; see train.log"
    assert error["message"]


def test_the_kernels_count_of_starved_processes_is_read(tmp_path: Path) -> None:
    source = tmp_path / "vmstat"
    source.write_text("nr_free_pages 1\noom_kill 3\nballoon_inflate 0\n")
    assert starvation_kills(source) == 3
    source.write_text("nr_free_pages 1\n")
    assert starvation_kills(source) is None
    assert starvation_kills(tmp_path / "none") is None
