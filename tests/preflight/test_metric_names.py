"""The metric that picks the best checkpoint is one that this run's evaluation logs, or the check says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from grpo_tui.config.resolve import inspect_config
from grpo_tui.config.rules_training import evaluated, reward_names
from grpo_tui.config.run_config import RunConfig
from grpo_tui.config.settings import Settings
from grpo_tui.config.trl_fields import FACTORIES, SCRIPT_NAMES
from grpo_tui.core.findings import Finding
from grpo_tui.demo import DEMO_DIR, DEMO_MODEL
from grpo_tui.preflight.static import Launch, static_check
from grpo_tui.rewards.loading import load_rewards
from tests.preflight.machines import A100, machine
from tests.train.tiny import make_trainer

BASE: dict[str, Any] = {
    "model_name_or_path": str(DEMO_MODEL),
    "per_device_train_batch_size": 8,
    "max_steps": 100,
    "save_steps": 50,
    "eval_steps": 50,
    "eval_strategy": "steps",
    "grpo_tui": {
        "dataset": str(DEMO_DIR / "task.py:train_rows"),
        "holdout": 8,
        "rewards": [
            {"name": "correctness", "source": str(DEMO_DIR / "rewards.py:correctness")},
            {"name": "format", "source": str(DEMO_DIR / "rewards.py:format_reward")},
        ],
    },
}


def found(folder: Path, change: dict[str, Any]) -> list[Finding]:
    file = folder / "c.yaml"
    values = {key: value for key, value in {**BASE, **change}.items() if value is not None}
    file.write_text(yaml.safe_dump(values))
    checked = static_check(inspect_config(file), Launch(root=folder / "run"), machine(A100))
    best = ("metric_for_best_model", "greater_is_better", "load_best_model_at_end", "lr_scheduler_type")
    return [f for f in checked.findings if f.field in best and f.id != "config.range"]


@pytest.mark.parametrize(
    "change",
    [
        {"loss_type": "dapo", "beta": 0.1},
        {"loss_type": "cispo", "epsilon_high": 5.0},
        {"loss_type": "sapo"},
        {"loss_type": "vespo", "entropy_coef": 0.1},
    ],
)
def test_the_names_are_those_that_trl_itself_logs(tmp_path: Path, change: dict[str, Any]) -> None:
    logged = make_trainer(tmp_path / "run", evaluate=True, **change).evaluate()
    rewards = [{"name": name, "source": f"a.{name}"} for name in ("correctness", "format_reward")]
    file = tmp_path / "c.yaml"
    file.write_text(yaml.safe_dump({**BASE, **change, "grpo_tui": {"dataset": "x", "rewards": rewards}}))
    inspected = inspect_config(file)
    names = {f"eval_{name}" for name in evaluated(inspected.settings)}
    logged.pop("eval_model_preparation_time", None)  # logged only without a training before it
    assert names == {name for name in logged if name.startswith("eval_")}


def test_the_names_of_rewards_are_those_that_they_are_loaded_under(tmp_path: Path) -> None:
    made = [{"source": FACTORIES[1], "params": {"max_len": 20}}, {"source": FACTORIES[2]}]
    section = {**BASE["grpo_tui"], "rewards": [*BASE["grpo_tui"]["rewards"], *made]}
    named = {"reward_funcs": list(SCRIPT_NAMES), "grpo_tui": section}
    file = tmp_path / "c.yaml"
    file.write_text(yaml.safe_dump({**BASE, **named}))
    config = inspect_config(file).config
    assert isinstance(config, RunConfig)
    assert reward_names(Settings.of_config(config)) == tuple(r.name for r in load_rewards(config))


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("eval_rewards", "eval_reward"),
        ("rewards", "eval_reward"),
        ("mean_reward", "eval_reward"),
        ("train_reward", "eval_reward"),
        ("accuracy", "eval_reward"),
        ("correctness", "eval_rewards/correctness/mean"),
        ("eval_corectness", "eval_rewards/correctness/mean"),
        ("rewards/format", "eval_rewards/format/mean"),
        ("eval_rewards/formt/mean", "eval_rewards/format/mean"),
        ("mean_length", "eval_completions/mean_length"),
        ("eval_kl", None),
    ],
)
def test_a_metric_that_no_evaluation_logs_is_refused_with_the_one_that_was_meant(
    tmp_path: Path, written: str, meant: str | None
) -> None:
    (finding,) = found(tmp_path, {"metric_for_best_model": written})
    assert (finding.id, finding.severity, finding.field) == (
        "training.best-metric",
        "error",
        "metric_for_best_model",
    )
    assert finding.line is not None
    if meant is not None:
        assert finding.fix is not None
        assert finding.fix.value == meant
        assert found(tmp_path, {"metric_for_best_model": meant}) == []


def test_a_metric_that_a_reward_logs_itself_passes(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "def f(completions, log_metric=None, **kw):\n"
        "    log_metric('words', 3.0)\n"
        "    return [0.0] * len(completions)\n"
    )
    section = {**BASE["grpo_tui"], "rewards": [{"source": "own.py:f"}]}
    assert found(tmp_path, {"metric_for_best_model": "eval_words", "grpo_tui": section}) == []
    (finding,) = found(tmp_path, {"metric_for_best_model": "eval_letters", "grpo_tui": section})
    assert finding.severity == "warning"
    (finding,) = found(tmp_path, {"metric_for_best_model": "eval_rewards", "grpo_tui": section})
    assert finding.severity == "error"


@pytest.mark.parametrize(
    ("change", "rule", "fix"),
    [
        (
            {"load_best_model_at_end": True},
            "training.best-by-loss",
            ("metric_for_best_model", "eval_reward"),
        ),
        (
            {"load_best_model_at_end": True, "metric_for_best_model": "eval_loss"},
            "training.best-by-loss",
            ("metric_for_best_model", "eval_reward"),
        ),
        (
            {"lr_scheduler_type": "reduce_lr_on_plateau"},
            "training.best-by-loss",
            ("metric_for_best_model", "eval_reward"),
        ),
        (
            {"metric_for_best_model": "reward", "greater_is_better": False},
            "training.best-direction",
            ("greater_is_better", True),
        ),
        (
            {"metric_for_best_model": "completions/clipped_ratio"},
            "training.best-direction",
            ("greater_is_better", False),
        ),
        (
            {"metric_for_best_model": "reward", "eval_strategy": "no"},
            "config.unused",
            ("metric_for_best_model", None),
        ),
    ],
)
def test_a_best_checkpoint_that_is_none_is_told(
    tmp_path: Path, change: dict[str, Any], rule: str, fix: tuple[str, Any]
) -> None:
    (finding,) = found(tmp_path, change)
    assert (finding.id, finding.severity) == (rule, "warning")
    assert finding.field in change, "it stands where the fault is written"
    assert finding.fix is not None
    assert (finding.fix.field, finding.fix.value) == fix
    assert found(tmp_path, {**change, fix[0]: fix[1]}) == []
