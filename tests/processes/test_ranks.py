"""Two ranks on the CPU: equal to plain TRL, steered together, and the rank that fails is named."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grpo_tui.config.reward_list import listed_in
from grpo_tui.config.run_config import RunConfig
from grpo_tui.core.commands import Outcome
from grpo_tui.core.evaluations import FACT, Evaluations
from grpo_tui.core.schedule import FACT as SCHEDULE
from grpo_tui.core.schedule import scheduled_from
from grpo_tui.core.text import prompt_text
from grpo_tui.demo import DEMO_DIR, DEMO_MODEL
from grpo_tui.demo.task import all_rows
from grpo_tui.present.hardware_view import rank_rows
from grpo_tui.rewards.reload_check import file_hash
from grpo_tui.store.checkpoints import BEST, MARKER
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.live import read_rank
from grpo_tui.store.mailbox import Mailbox
from grpo_tui.store.read_health import rank_seconds
from grpo_tui.store.read_series import metric_rows
from grpo_tui.store.reader import RunReader
from grpo_tui.store.spec import read_spec
from grpo_tui.store.status import read_status
from tests import PATIENCE_S, forked
from tests.family import gone
from tests.processes.runs import at_step, command, grpo_tui, left, state, until
from tests.train.tiny import without_times

pytestmark = pytest.mark.slow

LAUNCH = "--multi_gpu --num_processes 2 --num_machines 1 --mixed_precision no --dynamo_backend no"

CONFIG = """\
model_name_or_path: {model}
dtype: float32
use_cpu: true
ddp_backend: gloo
bf16: false
gradient_checkpointing: false
per_device_train_batch_size: 8
num_generations: 4
max_completion_length: 20
learning_rate: 5e-4
max_steps: {steps}
logging_steps: 1
save_strategy: "no"
report_to: none
disable_tqdm: true
grpo_tui:
  dataset: {task}:train_rows
{evaluate}  rewards:
    - {{name: correctness, source: "{rewards}:correctness"}}
    - {{name: extra, source: "{extra}:extra"}}
"""

PLAIN = """\
    import json, sys
    from transformers import TrainerCallback
    from trl import GRPOConfig, GRPOTrainer
    from grpo_tui.demo import DEMO_MODEL
    from grpo_tui.demo.rewards import correctness
    from grpo_tui.demo.task import train_rows
    sys.path.insert(0, sys.argv[2])
    from own_extra import extra

    rows = []

    class Collect(TrainerCallback):
        def on_log(self, args, state, control, logs=None, **kwargs):
            rows.append((state.global_step, dict(logs)))

    args = GRPOConfig(
        output_dir=sys.argv[1] + ".trl", use_cpu=True, ddp_backend="gloo", bf16=False,
        gradient_checkpointing=False, per_device_train_batch_size=8, num_generations=4,
        max_completion_length=20, learning_rate=5e-4, max_steps=4, logging_steps=1, save_strategy="no",
        report_to="none", disable_tqdm=True,
        model_init_kwargs={"dtype": "float32"},
    )
    trainer = GRPOTrainer(
        model=str(DEMO_MODEL), reward_funcs=[correctness, extra], args=args, train_dataset=train_rows(),
    )
    trainer.callback_handler.callbacks.insert(0, Collect())
    trainer.train()
    if trainer.accelerator.is_main_process:
        json.dump(rows, open(sys.argv[1], "w"))
    trainer.accelerator.wait_for_everyone()  # gloo aborts a rank whose other one has gone
    trainer.accelerator.end_training()
    """


IMPATIENT = """\
    from datetime import timedelta
    import torch.distributed as d
    # transformers drops ddp_timeout with use_cpu: true, so the ranks' collectives get it here.
    d.distributed_c10d._set_pg_timeout(timedelta(seconds=15), d.group.WORLD)
    return [0.5] * len(completions)
"""


EVALUATE = """\
  eval_dataset: {rows}
  evaluate: {{every: 2, rows: 5, samples: 2}}
"""
HELD = all_rows()[:50:10]
"""An odd number of rows for two ranks."""

NONSENSE = (
    ("sample", {"prompt": 5}),
    ("sample", {"prompt": {"role": "user"}}),
    ("sample", {"prompt": [{"role": "user", "content": ["a", 1]}]}),
    ("sample", {"prompt": "3+4=?", "count": "four"}),
    ("sample", {"prompt": "3+4=?", "temperature": "warm"}),
    ("tokens", {"prompt": [7], "text": "5"}),
    ("tokens", {"text": 7}),
    ("set", {"temperature": {"a": 1}}),
    ("set", {"reward_weights": "[["}),
    ("set", {"learning_rate": [], "": None}),
    ("set", {"schedule": {"soon": 1}}),
)
"""Commands as a program of somebody else might send them."""


def _extra(folder: Path, body: str) -> Path:
    path = folder / "own_extra.py"
    path.write_text(
        "import os, time\ncalls = []\ndef extra(completions, **kwargs):\n    calls.append(1)\n"
        "    time.sleep(0.1)  # a judge's pace, which leaves the machine to the test\n" + body
    )
    return path


def _start(
    folder: Path,
    run: Path,
    *,
    steps: int,
    body: str = "    return [0.5] * len(completions)\n",
    evaluate: bool = False,
    section: str = "",
) -> None:
    rows = folder / "held.jsonl"
    rows.write_text("".join(f"{json.dumps(row)}\n" for row in HELD))
    config = folder / "two.yaml"
    config.write_text(
        CONFIG.format(
            model=DEMO_MODEL,
            task=DEMO_DIR / "task.py",
            rewards=DEMO_DIR / "rewards.py",
            extra=_extra(folder, body),
            steps=steps,
            evaluate=EVALUATE.format(rows=rows) if evaluate else section,
        )
    )
    grpo_tui("train", config, "--run-dir", run, "--detach", "--launcher", f"accelerate launch {LAUNCH}")


def _comparable(rows: list[Any]) -> list[Any]:
    return [(step, sorted(without_times(values).items())) for step, values in rows]


def test_two_ranks_equal_plain_trl_and_every_completion_of_both_is_stored(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forked, "wanted", False)  # once the launcher and both ranks are new processes
    _start(tmp_path, run, steps=4, evaluate=True)
    state(run, "finished")
    script = tmp_path / "plain.py"
    script.write_text(textwrap.dedent(PLAIN))
    words = ["-m", "accelerate.commands.launch", *LAUNCH.split(), "--main_process_port", "0"]
    words += map(str, (script, tmp_path / "rows.json", tmp_path))
    subprocess.run([sys.executable, *words], check=True, timeout=PATIENCE_S, capture_output=True)
    plain = json.loads((tmp_path / "rows.json").read_text())

    reader = RunReader(RunFolder(run).database)
    every = [(step, values) for _, step, values in metric_rows(reader)]
    stored = [(step, values) for step, values in every if not any("evaluate/" in key for key in values)]
    assert repr(_comparable(stored)) == repr(_comparable(plain))
    _check_evaluations(
        run, reader, [(step, values) for step, values in every if (step, values) not in stored]
    )
    groups = [group for group in reader.iter_groups() if group.mode == "train"]
    assert {(g.rank, g.step) for g in groups} == {(rank, step) for rank in (0, 1) for step in (1, 2, 3, 4)}
    assert reader.completion_count() == 4 * 16 + 3 * 5 * 2
    alone = rank_seconds(reader, 1, 1)
    assert [(step, rank) for step, rank, _ in alone] == [(step, rank) for step in range(4) for rank in (0, 1)]
    assert sorted({g.index for g in groups if g.step == 1}) == [0, 1, 2, 3], (
        "groups are numbered over all ranks"
    )
    by_step = {
        step: [c.total for g in groups if g.step == step for c in g.completions] for step in (1, 2, 3, 4)
    }
    rewards = {step: values["reward"] for step, values in stored if "reward" in values}
    for step, totals in by_step.items():
        assert sum(totals) / len(totals) == pytest.approx(rewards[step], abs=1e-6)


def _check_evaluations(run: Path, reader: RunReader, rows: list[tuple[int, dict[str, Any]]]) -> None:
    """Each rank answered its part of the rows, and what both answered was recorded once."""
    assert [step for step, _ in rows] == [0, 2, 4]
    groups = reader.groups(mode="probe", limit=100)
    assert [group.prompt for group in groups] == [row["prompt"] for row in HELD] * 3
    assert {len(group.completions) for group in groups} == {2}
    found = Evaluations.from_json(reader.fact(FACT))
    assert found is not None
    assert found.best is not None
    assert [one.step for one in found.done] == [0, 2, 4]
    best = [found.best.step] if found.best.step else []
    marked = [
        path.parent.name for path in run.glob(f"checkpoint-*/{MARKER}") if json.loads(path.read_text())[BEST]
    ]
    assert marked == [f"checkpoint-{step}" for step in best]
    assert "evaluation" not in (run / "train.log").read_text()


def _planned(run: Path) -> list[str]:
    with closing(RunReader(RunFolder(run).database)) as reader:
        return [one.state for one in scheduled_from(reader.fact(SCHEDULE))]


def test_two_ranks_pause_beyond_their_time_out_change_save_stop_and_resume_and_a_killed_one_is_named(
    run: Path, tmp_path: Path
) -> None:
    _start(tmp_path, run, steps=4000, body=IMPATIENT)
    at_step(run, 2)
    assert len(state(run, "training").ranks) == 2
    assert command(run, "pause")["applied"]
    held = state(run, "paused")
    until(lambda: state(run, "paused").phase_s > 25, "a pause longer than the time-out of the collectives")
    assert len(command(run, "sample", "3+4=?", "--count", "2")["result"]["completions"]) == 2
    looked_at = command(run, "tokens", "--group", "1", "--from", "live")
    assert len(looked_at["tokens"]) == looked_at["of"] > 1
    box = Mailbox(RunFolder(run).commands)
    wrong = [box.submit(kind, args) for kind, args in NONSENSE]
    for asked in wrong:
        outcome = until(lambda asked=asked: box.outcome(asked.id), f"an answer to {asked.kind} {asked.args}")
        assert not outcome.applied
        assert outcome.reason
    assert command(run, "set", "temperature=1.2", "learning_rate=1e-4", "top_p=0.9")["applied"]
    other = ("max_grad_norm=0.5", "entropy_coef=0.01", "lr_scheduler_type=constant", "max_steps=4100",
             "scale_rewards=batch", "mask_truncated_completions=true", "min_p=0.001",
             "repetition_penalty=1.1", "max_completion_length=6")  # fmt: skip
    assert len(command(run, "set", *other)["result"]) == len(other)
    planned = f"top_p=0.8@step:{held.step + 1}", "top_k=9@step:3999"
    assert command(run, "set", *planned)["applied"]
    assert command(run, "checkpoint")["applied"]
    assert (run / f"checkpoint-{held.step}" / "grpo_tui_state_1.pt").exists()
    assert command(run, "resume")["applied"]
    at_step(run, held.step + 2)
    until(lambda: _planned(run) == ["applied", "waiting"], "the scheduled change on both ranks")
    assert command(run, "stop")["applied"]
    last = state(run, "stopped").step
    assert "ChildFailedError" not in (run / "train.log").read_text(), "a launcher took the stop for a failure"
    left(run)
    grpo_tui("train", run, "--resume", "--detach")
    at_step(run, last + 2)
    assert _planned(run) == ["applied", "waiting"]
    with closing(RunReader(RunFolder(run).database)) as reader:
        groups = [group for group in reader.iter_groups() if group.mode == "train"]
    longest = {
        (rank, later): max(
            one.tokens
            for g in groups
            if (g.rank, g.step > held.step) == (rank, later)
            for one in g.completions
        )
        for rank in (0, 1)
        for later in (False, True)
    }
    assert longest[0, True] == longest[1, True] == 6
    assert min(longest[0, False], longest[1, False]) > 6
    rank = read_rank(RunFolder(run).rank(1))
    assert rank is not None
    os.kill(rank.pid, signal.SIGKILL)
    ended = state(run, "failed", "crashed")
    assert ended.error is not None
    assert "rank 1 is gone" in ended.error["cause"]
    steps = [s for _, s, v in metric_rows(RunReader(RunFolder(run).database), limit=10_000) if "reward" in v]
    assert len(steps) >= last + 2
    assert steps == list(range(1, len(steps) + 1))


IN_STAGES = """\
  probe_prompts: {every: 1, source: ["3+4=?"], count: 2}
  stages:
    - {name: one, steps: 4000, set: {beta: 0.04, num_iterations: 2, lr_scheduler_type: cosine}}
    - {name: two, steps: 3, set: {beta: 0.02, num_iterations: 2}}
"""
LOOK = """\
    import gc, json, trl
    (t,) = [one for one in gc.get_objects() if isinstance(one, trl.GRPOTrainer)]
    rate = t.lr_scheduler.get_last_lr()[0]
    seen = t.state.global_step, t.beta, t.epsilon_low, t.args.delta, rate
    with open(os.path.join(os.path.dirname(__file__), "seen-" + os.environ["RANK"]), "a") as file:
        file.write(json.dumps(seen) + "\\n")
    return [0.5] * len(completions)
"""
"""Notes what the trainer of each rank has set."""


def test_both_ranks_take_settings_of_the_loss_ask_probe_prompts_and_begin_the_next_stage(
    run: Path, tmp_path: Path
) -> None:
    _start(tmp_path, run, steps=4000, body=LOOK, section=IN_STAGES)
    at_step(run, 1)
    set_at = command(run, "set", "beta=0.5", "epsilon=0.01", "delta=5", "lr_scheduler_start=now")
    assert command(run, "set", "probe_prompts+=3+5=?", "probe_prompts-=3+4=?")["applied"]
    asked_at = at_step(run, set_at["step"] + 4).step
    assert command(run, "set", "probe_prompts-=3+5=?", "probe_prompts+=3+4=?")["applied"]
    last = (read_status(run).step // 2 + 3) * 2  # between two batches
    assert command(run, "set", f"max_steps={last}", "--yes")["applied"]
    assert state(run, "finished").step == last + 3
    first, second = (
        [json.loads(line) for line in (tmp_path / f"seen-{rank}").read_text().splitlines()] for rank in (0, 1)
    )
    assert all(line in first for line in second), "the first rank scores probe prompts too"
    found = {step: tuple(values) for step, *values, _ in second}
    assert found[0] == (0.04, 0.2, None)
    within = {values for step, values in found.items() if set_at["step"] < step < last}
    assert within == {(0.5, 0.01, 5)}
    assert found[last] == (0.02, 0.01, 5), "the next stage sets beta, and what it does not set stays"
    assert [rate for step, *_, rate in second if step == last] == [5e-4], "a schedule of its own"
    with closing(RunReader(RunFolder(run).database)) as reader:
        probes = [(g.step, prompt_text(g.prompt)) for g in reader.groups(mode="probe", limit=500)]
    assert {prompt for step, prompt in probes if step == asked_at} == {"3+5=?"}
    assert {prompt for step, prompt in probes if step > last} == {"3+4=?"}


def test_both_ranks_reload_an_edited_reward_or_neither_does(run: Path, tmp_path: Path) -> None:
    _start(tmp_path, run, steps=4000)
    at_step(run, 1)
    box = Mailbox(RunFolder(run).commands)

    def reloaded(body: str) -> Outcome:
        path = _extra(tmp_path, body).resolve()
        asked = box.submit("reload", {"files": {str(path): file_hash(str(path))}})
        answer: Outcome = until(lambda: box.outcome(asked.id), "an answer to reload")
        return answer

    broken = "if os.environ['RANK'] == '1':\n    raise RuntimeError('no judge here')\n"
    refused = reloaded(f"    return [0.1] * len(completions)\n{broken}")
    assert not refused.applied
    assert "rank 1: " in refused.reason
    assert "no judge here" in refused.reason
    done = reloaded("    return [0.25] * len(completions)\n")
    assert done.applied, done.reason
    at_step(run, done.step + 2)
    assert command(run, "set", "--undo")["applied"]
    with closing(RunReader(RunFolder(run).database)) as reader:
        groups = [g for g in reader.iter_groups() if g.step <= done.step + 2]
        assert {g.since_step for g in reader.reloaded_functions()} >= {done.step + 1}
    extra = {(g.rank, g.step > done.step): {c.rewards[1] for c in g.completions} for g in groups}
    assert extra == {(rank, later): {0.25 if later else 0.5} for rank in (0, 1) for later in (False, True)}

    def relisted(body: str) -> Outcome:
        config = RunConfig.from_json(read_spec(RunFolder(run).spec).config)
        more = replace(config.section.rewards[1], name="more")
        other = replace(config, section=replace(config.section, rewards=(more,)))
        path = _extra(tmp_path, body).resolve()
        files = {str(path): file_hash(str(path))}
        asked = box.submit("reload", {"files": files, "listed": listed_in(other)})
        answer: Outcome = until(lambda: box.outcome(asked.id), "an answer to reload")
        return answer

    refused = relisted(f"    return [0.75] * len(completions)\n{broken}")
    assert "rank 1: " in refused.reason
    assert "no judge here" in refused.reason
    done = relisted("    return [0.75] * len(completions)\n")
    assert done.applied, done.reason
    at_step(run, done.step + 2)
    with closing(RunReader(RunFolder(run).database)) as reader:
        groups = [g for g in reader.iter_groups() if done.step - 1 <= g.step <= done.step + 2]
    names = {(g.rank, g.step > done.step): g.functions for g in groups}
    both = ("correctness", "extra")
    assert names == {(rank, new): ("more",) if new else both for rank in (0, 1) for new in (False, True)}
    assert {c.rewards for g in groups if g.step > done.step for c in g.completions} == {(0.75,)}


def test_a_reward_that_hangs_on_the_second_rank_alone_is_aborted_there_and_one_that_fails_is_named(
    run: Path, tmp_path: Path
) -> None:
    body = (
        "    if os.environ['RANK'] == '1' and len(calls) == 2:\n        time.sleep(1000)\n"
        "    if os.environ['RANK'] == '1' and len(calls) == 4:\n"
        "        raise RuntimeError('judge key missing')\n"
        "    return [0.5] * len(completions)\n"
    )
    _start(tmp_path, run, steps=4000, body=body)
    at_step(run, 1)
    until(
        lambda: (
            (r := read_rank(RunFolder(run).rank(1))) and r.reward_function == "extra" and r.reward_call == 4
        ),
        "it",
    )
    waited_for = until(
        lambda: [r for r in rank_rows(read_status(run), time.time()) if r.behind], "a late rank"
    )
    assert [(r.rank, r.reward_function) for r in waited_for] == [(1, "extra")]
    assert command(run, "abort-reward")["applied"]

    ended = state(run, "failed")
    assert ended.step == 3, "the run went on after the abort"
    second = RunReader(RunFolder(run).database).groups(first_step=2, last_step=2)
    extra = {g.rank: {c.rewards[1] for c in g.completions} for g in second}
    assert extra == {0: {0.5}, 1: {None}}
    assert ended.error is not None
    cause = "rank 1: reward function 'extra' failed (own_extra.py:9): RuntimeError: judge key missing"
    assert ended.error["cause"] == cause
    pids = [s.pid for r in (0, 1) if (s := read_rank(RunFolder(run).rank(r)))]
    assert len(pids) == 2
    until(lambda: all(map(gone, pids)), "the end of both ranks")


def test_a_branch_of_a_race_on_two_ranks_continues_with_the_prompts_that_one_rank_has_not_seen(
    run: Path, tmp_path: Path
) -> None:
    """One rank answers 2 prompts a step, two answer 4, in the order of one epoch."""
    held, fork = tmp_path / "rows.jsonl", run.with_name(f"{run.name}-3-two")
    held.write_text("".join(f"{json.dumps(row)}\n" for row in all_rows()[:24]))
    config = tmp_path / "one.yaml"
    places = {"task": DEMO_DIR / "task.py", "rewards": DEMO_DIR / "rewards.py", "steps": 7}
    more = {"extra": _extra(tmp_path, "    return [0.5] * len(completions)\n"), "evaluate": ""}
    text = CONFIG.format(model=DEMO_MODEL, **places, **more).replace("ddp_backend: gloo\n", "")
    config.write_text(text.replace(f"{DEMO_DIR / 'task.py'}:train_rows", str(held)))
    grpo_tui("train", config, "--run-dir", run, "--set", "save_strategy=steps", "--set", "save_steps=3")
    branch = f"two: ddp_backend=gloo 'grpo_tui.launcher=accelerate launch {LAUNCH}'"
    words = ("--steps", "4", "--no-control", "--branch", branch, "--rows", "8", "--samples", "1", "--json")
    body = json.loads(grpo_tui("race", f"{run}@3", *words, check=None).stdout)
    assert [(one["end"], one["error"], one["word"] is None) for one in body["branches"]] == [
        ("complete", None, False)
    ]
    assert body["until"] == 7

    def prompts(folder: Path, steps: range) -> list[set[str]]:
        with closing(RunReader(RunFolder(folder).database)) as reader:
            groups = [group for group in reader.groups(limit=1000) if group.mode == "train"]
        return [{group.prompt_key for group in groups if group.step == step} for step in steps]

    seen = [*prompts(run, range(1, 4)), *prompts(fork, range(4, 8))]
    assert [len(one) for one in seen] == [2, 2, 2, 4, 4, 4, 4]
    assert len(set().union(*seen)) == 22, "none comes twice"
    log = (fork / "train.log").read_text()
    assert "the data continues with the prompts of this epoch that were not seen yet" in log
