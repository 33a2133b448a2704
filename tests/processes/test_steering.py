"""Pause, sample, set, checkpoint, stop and resume a real run, each by its command."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import psutil
import pytest

from grpo_tui.store.layout import RunFolder
from grpo_tui.store.live import read_heartbeat, read_rank
from grpo_tui.store.read_series import metric_rows
from grpo_tui.store.reader import RunReader
from grpo_tui.store.status import read_status
from tests.processes.runs import at_step, command, grpo_tui, left, start, state, until

pytestmark = pytest.mark.slow


def _steps(run: Path) -> list[int]:
    rows = metric_rows(RunReader(RunFolder(run).database), limit=100_000)
    return [step for _, step, values in rows if "reward" in values]


def test_a_run_is_paused_sampled_changed_saved_stopped_and_resumed_without_a_gap(run: Path) -> None:
    before = os.umask(0)  # which would let everyone write what the run makes
    try:
        start(run)
    finally:
        os.umask(before)
    at_step(run, 2)
    _has_no_terminal_and_a_session_of_its_own(run)
    _is_refused_to_other_starts_with_the_two_ways_on(run)

    paused = command(run, "pause")
    assert paused["applied"]
    held = state(run, "paused")
    assert held.phase == "wait"

    machine = until(lambda: read_status(run).hardware, "a sample of the machine")
    assert machine.run_rss_bytes > 100_000_000, "the trainer's memory, not the supervisor's"
    assert machine.disk_free_bytes
    assert machine.ram_total_bytes
    assert len(machine.cores_percent) == machine.cpu_count
    assert machine.gpus or machine.gpu_trouble
    assert [rank.step for rank in held.ranks] == [held.step]

    sample = command(run, "sample", "3+4=?", "--count", "2")
    assert len(sample["result"]["completions"]) == 2
    assert sample["step"] == held.step, "a paused run does not go on"

    change = command(run, "set", "learning_rate=1e-4", "reward_weights=[2,1,0.5]")
    assert change["result"]["learning_rate"]["new"] == pytest.approx(1e-4)
    refused = grpo_tui("set", run, "beta=0.1", check=3)
    assert "no reference model is in memory" in refused.stderr
    far = grpo_tui("set", run, "learning_rate=1", check=3)
    assert "learning_rate would be 10,000 times the current 0.0001. Add --yes" in far.stderr

    saved = command(run, "checkpoint")
    assert Path(saved["result"]["path"]).is_dir()

    assert command(run, "resume")["applied"]
    at_step(run, held.step + 2)
    stopped = command(run, "stop")
    ended = state(run, "stopped")
    last = ended.step
    assert ended.hardware is None, "nothing is shown of a run that has ended"
    assert stopped["result"]["path"].endswith(f"checkpoint-{last}")

    left(run)
    grpo_tui("train", run, "--resume", "--detach", "--set", f"max_steps={last + 3}")
    done = state(run, "finished")
    assert done.step == last + 3
    assert done.attempt == 2
    assert _steps(run) == list(range(1, last + 4))

    reader = RunReader(RunFolder(run).database)
    kinds = [c.kind for c, outcome in reader.commands() if outcome is not None]
    assert kinds == ["pause", "sample", "set", "set", "set", "checkpoint", "resume", "stop"]
    weights = [s for s in reader.settings() if s.name == "reward_weights"]
    assert [s.by for s in weights] == ["you", "resume"], "a resume brings settings back and says so"
    log = RunFolder(run).log.read_text()
    assert "reward_weights is 2 1 0.5 again" in log
    assert "gradient_checkpointing" not in log, "which TRL uses at each checkpoint and the user cannot change"
    left(run)  # for files come and go while its supervisor writes
    open_to_others = [path.name for path in (run, *run.rglob("*")) if path.stat().st_mode & 0o022]
    assert open_to_others == []
    assert stat.S_IMODE(RunFolder(run).commands.stat().st_mode) == 0o700


def _has_no_terminal_and_a_session_of_its_own(run: Path) -> None:
    heartbeat = read_heartbeat(RunFolder(run).heartbeat)
    rank = read_rank(RunFolder(run).rank(0))
    assert heartbeat is not None
    assert rank is not None
    assert heartbeat.trainer == rank.pid
    process = psutil.Process(rank.pid)
    assert process.ppid() == heartbeat.supervisor
    assert process.terminal() is None
    assert Path(f"/proc/{rank.pid}/fd/0").readlink() == Path("/dev/null")
    session = int(Path(f"/proc/{rank.pid}/stat").read_text().rsplit(")", 1)[1].split()[3])
    assert session == rank.pid


def _is_refused_to_other_starts_with_the_two_ways_on(run: Path) -> None:
    again = grpo_tui(
        "train", "--run-dir", run, Path("grpo_tui/demo/demo.yaml").absolute(), "--detach", check=2
    )
    assert "attach" in again.stderr
    assert "--run-dir" in again.stderr
    busy = grpo_tui("train", run, "--resume", "--detach", check=2)
    assert f"a run is training in {run}. Watch it with `grpo-tui attach" in busy.stderr
