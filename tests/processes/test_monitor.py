"""A person's own script joins by one line: same record, same commands, a sidecar that watches it."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from grpo_tui.store.layout import RunFolder
from grpo_tui.store.live import read_heartbeat
from grpo_tui.store.read_series import metric_rows
from grpo_tui.store.reader import RunReader
from grpo_tui.store.status import read_status
from tests import PATIENCE_S
from tests.processes.runs import at_step, command, state, until

pytestmark = pytest.mark.slow

SCRIPT = """\
    import sys, time
    from trl import GRPOConfig, GRPOTrainer
    import grpo_tui
    from grpo_tui.demo import DEMO_MODEL
    from grpo_tui.demo.task import train_rows

    def shorter(completions, **kwargs):
        time.sleep(0.2)  # as a judge would take
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


def _script(folder: Path, run: Path, steps: int) -> subprocess.Popen[str]:
    path = folder / "own_script.py"
    path.write_text(textwrap.dedent(SCRIPT).format(steps=steps))
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
    output, _ = script.communicate(timeout=PATIENCE_S)
    assert script.returncode == 0, output
    assert "the script goes on" in output
    ended = state(run, "stopped")
    reader = RunReader(RunFolder(run).database)
    assert [s for _, s, v in metric_rows(reader, limit=5000) if "reward" in v] == list(
        range(1, ended.step + 1)
    )
    assert reader.reward_functions()[0].name == "shorter"
    assert "def shorter" in reader.reward_functions()[0].text


TWO = """\
    grpo_tui.monitor(trainer)
    assert grpo_tui.monitor(trainer) == grpo_tui.monitor(trainer), "once is enough"
    trainer.train()
    trainer.args.max_steps = 3
    trainer.train()
    print("trained again, unrecorded, in", trainer.state.global_step)
    args.max_steps = 4
    second = GRPOTrainer(model=str(DEMO_MODEL), reward_funcs=shorter, args=args, train_dataset=train_rows())
    grpo_tui.monitor(second)
    second.train()
    print("both", len(second.state.log_history), flush=True)
    sys.stdin.read()

    def failing(completions, **kwargs):
        return completions[99]

    third = GRPOTrainer(model=str(DEMO_MODEL), reward_funcs=failing, args=args, train_dataset=train_rows())
    grpo_tui.monitor(third)
    third.train()
    """


def test_a_script_trains_again_in_one_folder_goes_on_without_a_sidecar_and_says_why_it_fails(
    run: Path, tmp_path: Path
) -> None:
    path = tmp_path / "own_script.py"
    head, _, _ = SCRIPT.partition("    grpo_tui.monitor(trainer)")
    path.write_text(textwrap.dedent(head + TWO).format(steps=2))
    script = subprocess.Popen(
        [sys.executable, str(path), str(run)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        until(lambda: (run / "run.db").exists() and read_status(run).attempt == 2, "the second training")
        assert state(run, "finished").step == 4
        heartbeat = read_heartbeat(RunFolder(run).heartbeat)
        assert heartbeat is not None
        until(lambda: not heartbeat.supervisor_alive, "the end of the second sidecar")
        assert script.poll() is None
        reader = RunReader(RunFolder(run).database)
        assert [(a.state, a.step) for a in reader.attempts()] == [("finished", 2), ("finished", 4)]
        assert [s for _, s, v in metric_rows(reader, limit=5000) if "reward" in v] == [1, 2, 3, 4]
    finally:
        output, _ = script.communicate("", timeout=PATIENCE_S)
    assert script.returncode != 0
    assert "trained again, unrecorded, in 3" in output
    assert "IndexError" in output, "the script still sees its own exception"
    ended = state(run, "failed")
    assert ended.error is not None
    line = 1 + path.read_text().splitlines().index("    return completions[99]")
    cause = f"reward function 'failing' failed (own_script.py:{line}): IndexError"
    assert ended.error["cause"].startswith(cause)


def test_sigterm_saves_and_then_ends_a_script_as_its_sender_meant(run: Path, tmp_path: Path) -> None:
    script = _script(tmp_path, run, 2000)
    step = at_step(run, 2).step
    script.terminate()
    output, _ = script.communicate(timeout=PATIENCE_S)
    assert script.returncode == -signal.SIGTERM
    assert "the script goes on" not in output
    ended = state(run, "stopped")
    assert ended.step >= step
    assert [c.step for c in ended.checkpoints if c.complete] == [ended.step]
