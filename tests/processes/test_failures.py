"""What a person is told when a run cannot go on, and that nothing is left behind."""

from __future__ import annotations

import os
import shlex
import signal
from pathlib import Path

import psutil
import pytest

from grpo_tui.store.layout import RunFolder
from grpo_tui.store.live import process_alive, read_heartbeat, read_rank
from grpo_tui.store.read_series import metric_rows
from grpo_tui.store.reader import RunReader
from grpo_tui.store.status import read_status
from tests.processes.runs import SMALL, at_step, command, grpo_tui, start, state, until

pytestmark = pytest.mark.slow

CONFIG = """\
model_name_or_path: {model}
dtype: float32
use_cpu: true
bf16: false
gradient_checkpointing: false
grpo_tui:
  dataset: {task}:train_rows
  rewards:
    - name: {name}
      source: {file}:{name}
"""


def _config(folder: Path, name: str, body: str) -> Path:
    from grpo_tui.demo import DEMO_DIR, DEMO_MODEL

    folder.mkdir(exist_ok=True)
    file = folder / "own_rewards.py"
    file.write_text(body)
    config = folder / "own.yaml"
    config.write_text(CONFIG.format(model=DEMO_MODEL, task=DEMO_DIR / "task.py", name=name, file=file))
    return config


def test_a_reward_that_raises_is_named_and_once_mended_starts_again_in_the_same_folder(
    run: Path, tmp_path: Path
) -> None:
    """What the mended reward leaves behind, a thread and a process, ends with the run."""
    body = "def score(completions, **kwargs):\n    raise ValueError('judge key missing')\n"
    config = _config(tmp_path / "own", "score", body)
    small = ("--headless", "--set", "max_steps=2", *[word for s in SMALL for word in ("--set", s)])
    failed = grpo_tui("train", config, "--run-dir", run, *small, check=1)
    assert f"`grpo-tui train {shlex.quote(str(run))}` starts it again" in failed.stdout
    cause = "reward function 'score' failed (own_rewards.py:2): ValueError: judge key missing"
    assert (state(run, "failed").error or {})["cause"] == cause
    assert grpo_tui("status", run).stdout.splitlines()[-1] == f"cause: {cause}"

    lasts = f"3217.{os.getpid()}"  # by which the processes of this very test are known
    (tmp_path / "own" / "own_rewards.py").write_text(
        "import subprocess, threading, time\n"
        "def score(completions, **kwargs):\n"
        "    threading.Thread(target=time.sleep, args=(1000,)).start()\n"
        f"    subprocess.Popen(['sleep', '{lasts}'], start_new_session=True)\n"
        "    return [float(len(c[0]['content'])) for c in completions]\n"
    )
    assert "finished at step 2" in grpo_tui("train", config, "--run-dir", run, *small).stdout
    rank = read_rank(RunFolder(run).rank(0))
    assert rank is not None
    until(lambda: not psutil.pid_exists(rank.pid), "the end of the trainer")
    until(
        lambda: not [p for p in psutil.process_iter() if lasts in _command_line(p)],
        "the end of its children",
    )
    assert [a.state for a in RunReader(RunFolder(run).database).attempts()] == ["failed", "finished"]
    refused = grpo_tui("train", config, "--run-dir", run, check=2)
    assert "already holds a run. Continue it" in refused.stderr


def _command_line(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def test_a_wrong_key_is_refused_with_its_line_before_any_process_starts(tmp_path: Path) -> None:
    config = tmp_path / "own.yaml"
    config.write_text("model_name_or_path: x\nlearning_rte: 1.0e-5\n")
    done = grpo_tui("train", config, "--run-dir", tmp_path / "run", check=2)
    assert "own.yaml:2" in done.stderr
    assert "learning_rate" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_run_without_its_supervisor_goes_on_and_the_next_look_gives_it_a_new_one(run: Path) -> None:
    start(run, "max_steps=4000")
    at_step(run, 2)
    folder = RunFolder(run)
    heartbeat = read_heartbeat(folder.heartbeat)
    assert heartbeat is not None
    os.kill(heartbeat.supervisor, signal.SIGKILL)
    until(lambda: not read_heartbeat(folder.heartbeat).supervisor_alive, "the supervisor's end")  # type: ignore[union-attr]
    before = at_step(run, 1)
    assert not before.supervised
    at_step(run, before.step + 3)

    assert "the supervisor was gone" in grpo_tui("status", run).stderr
    mended = until(lambda: (s := read_status(run)).supervised and s.pid and s, "a new supervisor")
    assert mended.pid != heartbeat.supervisor
    assert grpo_tui("status", run).stderr == ""

    outcome = command(run, "stop", "--now")
    assert outcome["applied"]
    assert "there is no checkpoint to resume from" in outcome["reason"]
    assert state(run, "stopped").error is None
    rank = read_rank(folder.rank(0))
    assert rank is not None
    assert not process_alive(rank.pid, rank.started)
    # Nothing that was logged is lost: the rows are those of steps 1 to the last that ended.
    steps = [s for _, s, v in metric_rows(RunReader(folder.database), limit=100_000) if "reward" in v]
    assert steps == list(range(1, len(steps) + 1))
    assert len(steps) >= rank.step


def test_a_run_that_ended_while_nobody_watched_gets_its_end_recorded(run: Path) -> None:
    start(run, "max_steps=4000")
    at_step(run, 2)
    folder = RunFolder(run)
    heartbeat, rank = read_heartbeat(folder.heartbeat), read_rank(folder.rank(0))
    assert heartbeat is not None
    assert rank is not None
    os.kill(heartbeat.supervisor, signal.SIGKILL)
    os.kill(rank.pid, signal.SIGKILL)
    state(run, "crashed")
    assert "no supervisor was watching" in grpo_tui("status", run).stderr
    until(lambda: RunReader(folder.database).attempts()[-1].state == "crashed", "the last word")


def test_a_reward_that_ends_the_process_is_no_success(run: Path, tmp_path: Path) -> None:
    body = "import os\ndef leave(completions, **kwargs):\n    os._exit(0)\n"
    start(run, "max_steps=5", config=_config(tmp_path / "own", "leave", body))
    ended = state(run, "crashed")
    assert ended.error is not None
    assert "ended with code 0" in ended.error["cause"]


def test_a_reward_that_cannot_be_interrupted_is_said_to_be_so_and_stop_now_ends_it(
    run: Path, tmp_path: Path
) -> None:
    body = (
        "import time\n"
        "def deaf(completions, **kwargs):\n"
        "    while True:\n"
        "        try:\n"
        "            time.sleep(60)\n"
        "        except:\n"
        "            pass\n"
    )
    start(run, "max_steps=5", config=_config(tmp_path / "own", "deaf", body))
    until(lambda: (r := read_rank(RunFolder(run).rank(0))) and r.reward_function == "deaf", "the call")
    assert "no step has ended yet" in grpo_tui("status", run).stdout
    refused = grpo_tui("abort-reward", run, check=3)
    assert "cannot be interrupted; stop at once, there is no checkpoint to resume from" in refused.stderr
    rank = read_rank(RunFolder(run).rank(0))
    assert rank is not None
    os.kill(
        rank.pid, signal.SIGSTOP
    )  # as C code that keeps the interpreter: no thread of it can leave by itself
    assert command(run, "stop", "--now")["applied"]
    assert state(run, "stopped").step == 0
    assert not psutil.pid_exists(rank.pid)


def test_a_crash_in_a_native_library_is_named(run: Path, tmp_path: Path) -> None:
    body = "import ctypes\ndef crash(completions, **kwargs):\n    ctypes.string_at(0)\n"
    start(run, "max_steps=5", config=_config(tmp_path / "own", "crash", body))
    ended = state(run, "crashed")
    until(lambda: RunReader(RunFolder(run).database).attempts()[-1].error is not None, "the last word")
    ended = state(run, "crashed")
    assert ended.error is not None
    assert "a native library crashed (SIGSEGV)" in ended.error["cause"]


def test_sigterm_while_loading_is_stopped_with_nothing_to_save(run: Path) -> None:
    start(run, "max_steps=4000")
    loading = until(
        lambda: (r := read_rank(RunFolder(run).rank(0))) and r.attempt == 1 and r, "its first word"
    )
    os.kill(loading.pid, signal.SIGTERM)
    ended = state(run, "stopped")
    assert (ended.step, ended.error) == (0, None)
    assert "there was nothing to save" in RunFolder(run).log.read_text()
