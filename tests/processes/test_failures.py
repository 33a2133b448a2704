"""What a person is told when a run cannot go on, and that nothing is left behind."""

from __future__ import annotations

import os
import shlex
import signal
from pathlib import Path

import pytest

from grpo_tui.store.layout import RunFolder
from grpo_tui.store.live import read_rank
from grpo_tui.store.reader import RunReader
from tests.family import everywhere, gone
from tests.processes.runs import SMALL, grpo_tui, start, state, until

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
    until(lambda: gone(rank.pid), "the end of the trainer")
    until(
        lambda: not everywhere("sleep", lasts),
        "the end of its children",
    )
    assert [a.state for a in RunReader(RunFolder(run).database).attempts()] == ["failed", "finished"]
    refused = grpo_tui("train", config, "--run-dir", run, check=2)
    assert "already holds a run. Continue it" in refused.stderr


def test_a_wrong_key_is_refused_with_its_line_before_any_process_starts(tmp_path: Path) -> None:
    config = tmp_path / "own.yaml"
    config.write_text("model_name_or_path: x\nlearning_rte: 1.0e-5\n")
    done = grpo_tui("train", config, "--run-dir", tmp_path / "run", check=2)
    assert "own.yaml:2" in done.stderr
    assert "learning_rate" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()


def test_sigterm_while_loading_is_stopped_with_nothing_to_save(run: Path) -> None:
    start(run)
    loading = until(
        lambda: (r := read_rank(RunFolder(run).rank(0))) and r.attempt == 1 and r, "its first word"
    )
    os.kill(loading.pid, signal.SIGTERM)
    ended = state(run, "stopped")
    assert (ended.step, ended.error) == (0, None)
    assert "there was nothing to save" in RunFolder(run).log.read_text()
