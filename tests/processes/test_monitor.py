"""A person's own script joins by one line: same record, same commands, a sidecar that watches it."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from grpo_tui.store.layout import RunFolder
from grpo_tui.store.reader import RunReader
from grpo_tui.store.status import read_status
from tests.processes.runs import at_step, command, state, until

pytestmark = pytest.mark.slow

SCRIPT = """\
    import sys
    from trl import GRPOConfig, GRPOTrainer
    import grpo_tui
    from grpo_tui.demo import DEMO_MODEL
    from grpo_tui.demo.task import train_rows

    def shorter(completions, **kwargs):
        {body}
        return [-float(len(c[0]["content"])) for c in completions]

    args = GRPOConfig(
        output_dir=sys.argv[1], per_device_train_batch_size=8, num_generations=4, max_steps={steps},
        max_completion_length=16, logging_steps=1, report_to="none", save_strategy="no", use_cpu=True,
        bf16=False, gradient_checkpointing=False, model_init_kwargs={{"dtype": "float32"}},
    )
    trainer = GRPOTrainer(model=str(DEMO_MODEL), reward_funcs=shorter, args=args, train_dataset=train_rows())
    grpo_tui.monitor(trainer)
    trainer.train()
    print("the script goes on")
    """


def _script(folder: Path, run: Path, steps: int, body: str = "pass") -> subprocess.Popen[str]:
    path = folder / "own_script.py"
    path.write_text(textwrap.dedent(SCRIPT).format(steps=steps, body=body))
    return subprocess.Popen(
        [sys.executable, str(path), str(run)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def test_a_script_with_one_line_more_is_recorded_and_steered(run: Path, tmp_path: Path) -> None:
    script = _script(tmp_path, run, 2000)
    at_step(run, 2)
    assert command(run, "pause")["applied"]
    assert state(run, "paused").pid is not None
    assert until(lambda: read_status(run).hardware, "a sample by the sidecar").run_rss_bytes > 100_000_000
    assert len(command(run, "sample", "2+2=?")["result"]["completions"]) == 4
    assert command(run, "set", "temperature=1.2")["applied"]
    assert command(run, "resume")["applied"]
    assert command(run, "stop")["applied"]
    output, _ = script.communicate(timeout=60)
    assert script.returncode == 0, output
    assert "the script goes on" in output
    ended = state(run, "stopped")
    reader = RunReader(RunFolder(run).database)
    assert [s for _, s, v in reader.metric_rows(limit=5000) if "reward" in v] == list(
        range(1, ended.step + 1)
    )
    assert reader.reward_functions()[0].name == "shorter"
    assert "def shorter" in reader.reward_functions()[0].text


def test_a_script_that_fails_says_why(run: Path, tmp_path: Path) -> None:
    script = _script(tmp_path, run, 5, body="completions[99]")
    output, _ = script.communicate(timeout=90)
    assert script.returncode != 0
    assert "IndexError" in output, "the script still sees its own exception"
    ended = state(run, "failed")
    assert ended.error is not None
    assert ended.error["cause"].startswith("reward function 'shorter' failed (own_script.py:8): IndexError")


def test_a_script_that_is_killed_is_crashed(run: Path, tmp_path: Path) -> None:
    script = _script(tmp_path, run, 2000)
    at_step(run, 2)
    script.kill()
    script.wait(timeout=10)
    assert state(run, "crashed", timeout_s=10).step >= 2
