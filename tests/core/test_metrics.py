"""The catalogue of metrics covers what the installed trainers log, and says something of each."""

from __future__ import annotations

import ast
import importlib.util
import re
from pathlib import Path

import pytest

from grpo_tui.core.metrics import COMPUTED, GROUPS, METRICS, describe, is_computed

KNOWN = {metric.key for metric in METRICS}


def source_of(package: str, inside: str) -> str:
    """The source of a module that is installed, without importing it."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        pytest.skip(f"{package} is not installed")
    return (Path(spec.origin).parent / inside).read_text(encoding="utf-8")


def keys_of_trl() -> set[str]:
    """Every constant key with which the trainer fills `self._metrics[mode][key]`, parts that vary as `*`."""
    found = set()
    for node in ast.walk(ast.parse(source_of("trl", "trainer/grpo_trainer.py"))):
        if not (isinstance(node, ast.Subscript) and isinstance(node.value, ast.Subscript)):
            continue
        if not ast.unparse(node.value.value).endswith("_metrics"):
            continue
        if isinstance(node.slice, ast.Constant):
            found.add(str(node.slice.value))
        elif isinstance(node.slice, ast.JoinedStr):
            parts = [str(p.value) if isinstance(p, ast.Constant) else "*" for p in node.slice.values]
            found.add("".join(parts))
    return found


def keys_of_transformers() -> set[str]:
    """Every key the base trainer puts into a logged row, `eval` standing for an evaluation's prefix."""
    text = source_of("transformers", "trainer.py")
    found = set(re.findall(r'\b(?:logs|metrics)\["(\w+)"\]', text))
    found |= {f"eval_{name}" for name in re.findall(r'metrics\[f"\{metric_key_prefix\}_(\w+)"\]', text)}
    speeds = re.findall(r'result\[f"\{split\}_(\w+)"\]', source_of("transformers", "trainer_utils.py"))
    speeds += re.findall(r'result = \{f"\{split\}_(\w+)"', source_of("transformers", "trainer_utils.py"))
    return found | {f"train_{name}" for name in speeds} | {f"eval_{name}" for name in speeds}


def test_every_key_that_trl_logs_has_an_entry() -> None:
    keys = keys_of_trl()
    assert {"reward", "entropy", "kl", "num_tokens", "clip_ratio/region_mean", "rewards/*/mean"} <= keys
    assert len(keys) >= 30
    assert {key for key in keys if describe(key).group == "other"} == set()
    assert {key for key in keys if "*" not in key} - KNOWN == set()


def test_every_key_that_the_base_trainer_logs_has_an_entry() -> None:
    # The first is of a hyperparameter search and never logged; tokens are counted in training alone.
    keys = keys_of_transformers() - {"objective", "eval_tokens_per_second"}
    assert {"loss", "grad_norm", "learning_rate", "epoch", "train_runtime", "eval_runtime"} <= keys
    assert {key for key in keys if describe(key).group == "other"} == set()


def test_every_entry_says_something_and_no_title_is_there_twice() -> None:
    for metric in METRICS:
        assert metric.group in GROUPS
        assert metric.better in ("", "up", "down")
        assert len(metric.meaning) > 20, metric.key
        assert len(metric.healthy) >= 4, metric.key
        assert 0 < len(metric.title) <= 48, metric.key
        assert 0 < len(metric.short) <= 16, metric.key
        if metric.computed:
            assert metric.meaning.startswith("Computed here"), metric.key
    titles = [metric.title for metric in METRICS] + [describe("eval_" + m.key).title for m in METRICS]
    assert len(titles) == len(set(titles))
    shorts = [metric.short for metric in METRICS]
    assert len(shorts) == len(set(shorts))


def test_only_rewards_are_progress_and_the_loss_says_why_it_is_zero() -> None:
    assert {metric.key for metric in METRICS if metric.progress} == {"reward"}
    assert "Not a measure of progress" in describe("loss").meaning
    assert "centered" in describe("loss").meaning
    assert "beta" in describe("kl").meaning


def test_a_metric_of_a_reward_function_carries_its_name() -> None:
    mean = describe("rewards/a/b reward/mean")
    assert (mean.title, mean.group, mean.progress) == ("a/b reward, mean", "reward", True)
    assert "batch" in describe("rewards/x/std").title


def test_a_metric_of_an_evaluation_is_that_of_training_over_other_rows() -> None:
    reward = describe("eval_reward")
    assert (reward.key, reward.title, reward.progress) == ("eval_reward", "reward in evaluation", True)
    assert describe("eval_completions/mean_length").title == "completion length in evaluation, tokens"
    assert describe("eval_rewards/x/mean").title == "x, mean in evaluation"
    assert describe("eval_runtime").title == "duration of an evaluation, s"


@pytest.mark.parametrize(
    ("name", "group", "better", "progress"),
    [
        ("pass@1", "reward", "up", True),
        ("pass@8", "reward", "up", True),
        ("total", "reward", "up", True),
        ("reward/format", "reward", "up", True),
        ("length", "completions", "", False),
        ("truncated", "completions", "", False),
        ("total/gain", "reward", "up", False),
        ("length/gain_low", "reward", "up", False),
        ("without_gain", "reward", "down", False),
    ],
)
def test_a_measure_of_our_own_evaluation_is_progress_if_it_says_how_good_the_answers_are(
    name: str, group: str, better: str, progress: bool
) -> None:
    found = describe(f"evaluate/{name}")
    assert (found.group, found.better, found.progress) == (group, better, progress)
    assert ("No direction" in found.healthy) == (better == "")


def test_a_key_nobody_knows_is_said_to_be_the_runs_own() -> None:
    own = describe("my/accuracy")
    assert (own.key, own.title, own.group) == ("my/accuracy", "my/accuracy", "other")
    assert "reward function" in own.meaning
    assert describe("eval_").group == "other"


def test_what_is_computed_here_is_known_by_its_key() -> None:
    assert all(is_computed(key) and key.startswith("grpo_tui/") for key in COMPUTED)
    assert not is_computed("reward")
