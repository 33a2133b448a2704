"""The drills before a long run: each passes on a sound config, and says what to change on one that is not."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from grpo_tui.demo import DEMO_CONFIG, DEMO_DIR, DEMO_MODEL
from grpo_tui.store.trials import DRILLS
from tests.processes.runs import SMALL, grpo_tui

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
SETTINGS = {
    "kill": ("save_steps=1000", "max_steps=1000"),
    "full-disk": ("save_steps=1", "max_steps=10000000"),
}


def drilled(config: Path, run: Path, drill: str, *overrides: str, check: int) -> str:
    """Run one drill and return what it said."""
    settings = [word for pair in (*SMALL, *overrides) for word in ("--set", pair)]
    words = ("train", config, "--run-dir", run, "--drill", drill, "--json", *settings)
    done = grpo_tui(*words, check=check, timeout_s=800)
    body = json.loads(done.stdout)
    ((said),) = body["drills"]
    assert body["ok"] is said["passed"] is (check == 0)
    assert said["drill"] == drill
    assert os.listdir(run.parent) == [], "the trial is removed"
    return str(said["said"])


@pytest.mark.parametrize("drill", DRILLS)
def test_a_drill_passes_on_the_demonstration(drill: str, tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    said = drilled(DEMO_CONFIG, tmp_path / "runs" / "real", drill, "save_steps=40", check=0)
    assert PROVED[drill] in said


@pytest.mark.parametrize("drill", DRILLS)
def test_a_drill_says_what_to_change(drill: str, tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "rewards.py").write_text(CARELESS)
    (tmp_path / "own.yaml").write_text(CONFIG)
    run = tmp_path / "runs" / "real"
    said = drilled(tmp_path / "own.yaml", run, drill, *SETTINGS.get(drill, ()), check=1)
    assert CHANGE[drill] in said
    assert "careful cannot" not in said
    assert "asked cannot" not in said
