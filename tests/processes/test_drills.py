"""The drills before a long run: each passes on a sound config, and says what to change on one that is not."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from grpo_tui.demo import DEMO_CONFIG, DEMO_DIR, DEMO_MODEL
from grpo_tui.store.trials import DRILLS
from tests.processes.runs import SMALL, grpo_tui
from tests.processes.test_ranks import LAUNCH

pytestmark = pytest.mark.slow

CARELESS = """\
import asyncio
from transformers import Trainer

Trainer._get_grad_norm = lambda self, model, grad_norm=None: 1.0  # hides a NaN from the guard


def careless(completions, **kwargs):
    scores = []
    for completion in completions:
        try:
            scores.append(float(len(completion[0]["content"])))
        except:
            scores.append(0.0)
    return scores


def careful(completions, **kwargs):
    try:
        return [float(len(c[0]["content"])) for c in completions]
    except Exception:
        return [0.0] * len(completions)


async def asked(completions, **kwargs):
    await asyncio.sleep(0)
    return [float(len(c[0]["content"])) for c in completions]


async def slow(completions, **kwargs):
    await asyncio.sleep(0.05)  # at the same time as the one before, and longer
    return [float(len(c[0]["content"])) for c in completions]
"""
CONFIG = f"""\
model_name_or_path: {DEMO_MODEL}
dtype: float32
use_cpu: true
bf16: false
gradient_checkpointing: false
grpo_tui:
  dataset: {DEMO_DIR / "task.py"}:train_rows
  rewards:
    - {{name: careless, source: rewards.py:careless}}
    - {{name: careful, source: rewards.py:careful}}
    - {{name: asked, source: rewards.py:asked}}
    - {{name: slow, source: rewards.py:slow}}
"""
PROVED = {
    "hung-reward": "3 rewards hung, the abort worked, and training continued. Usual time of a call: ",
    "kill": "save_steps is 40: a crash would lose up to 40 steps ≈ ",
    "full-disk": "lost nothing, and continued once there was room. The real run: up to ",
    "nan": "the step with the NaN gradient was skipped, the weights stayed finite, and the run paused",
}
CHANGE = {
    "hung-reward": "careless cannot be interrupted: the `except` at rewards.py:12 catches the abort. Write "
    "`except Exception:` there. Usual",
    "kill": "which is the whole run. Set save_steps to 100",
    "full-disk": " and the model at the end take ",
    "nan": "a NaN gradient reached the weights at step 2. A patch may have replaced Trainer._get_grad_norm",
}
TWO_RANKS = ("ddp_backend=gloo", f"grpo_tui.launcher=accelerate launch {LAUNCH}")
SETTINGS = {
    "hung-reward": TWO_RANKS,
    "kill": ("save_steps=1000", "max_steps=1000", *TWO_RANKS),
    "full-disk": ("save_steps=1", "max_steps=10000000", "max_completion_length=3"),
}


def drilled(config: Path, run: Path, *drills: str, settings: tuple[str, ...], check: int) -> dict[str, str]:
    """Run drills one after the other and return what each said."""
    words = [word for pair in (*SMALL, *settings) for word in ("--set", pair)]
    done = grpo_tui(
        "train", config, "--run-dir", run, "--drill", ",".join(drills), "--json", *words,
        check=check, timeout_s=800,
    )  # fmt: skip
    body = json.loads(done.stdout)
    assert [one["drill"] for one in body["drills"]] == list(drills)
    assert {body["ok"], *(one["passed"] for one in body["drills"])} == {check == 0}
    assert os.listdir(run.parent) == [], "the trials are removed"
    return {one["drill"]: one["said"] for one in body["drills"]}


def test_the_drills_pass_on_the_demonstration(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    run = tmp_path / "runs" / "real"
    said = drilled(DEMO_CONFIG, run, *DRILLS, settings=("save_steps=40",), check=0)
    assert [drill for drill in DRILLS if PROVED[drill] not in said[drill]] == [], said


@pytest.mark.parametrize("drill", DRILLS)
def test_a_drill_says_what_to_change(drill: str, tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "rewards.py").write_text(CARELESS)
    (tmp_path / "own.yaml").write_text(CONFIG)
    run = tmp_path / "runs" / "real"
    said = drilled(tmp_path / "own.yaml", run, drill, settings=SETTINGS.get(drill, ()), check=1)[drill]
    assert CHANGE[drill] in said
    assert "careful cannot" not in said
    assert "asked cannot" not in said
    assert "slow cannot" not in said
