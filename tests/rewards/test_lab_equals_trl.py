"""What the lab computes is what GRPOTrainer computed for the same rewards, in every mode."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grpo_tui.config.run_config import RunConfig
from grpo_tui.config.section import RewardEntry, Section
from grpo_tui.demo import DEMO_MODEL
from grpo_tui.rewards.lab import Aggregation, Lab
from grpo_tui.rewards.samples import Sample
from grpo_tui.train import compat
from tests.rewards.labs import write
from tests.train.tiny import make_trainer

WEIGHTS = (2.0, 0.5, -0.3, 1.0, 0.7)
MODES = [
    ("group", "sum_then_normalize"),
    ("batch", "sum_then_normalize"),
    ("none", "sum_then_normalize"),
    (True, "sum_then_normalize"),
    (False, "sum_then_normalize"),
    ("group", "normalize_then_sum"),
    ("none", "normalize_then_sum"),
]

REWARDS = """
import asyncio, json, signal, threading
import torch

def by_alarm(completions, **kwargs):
    def late(*_):
        raise TimeoutError
    signal.signal(signal.SIGALRM, late)
    signal.alarm(5)
    try:
        return [len(c[0]["content"] if isinstance(c, list) else c) / 7 for c in completions]
    finally:
        signal.alarm(0)

async def judge(completions, answer, **kwargs):
    await asyncio.sleep(0.001)
    pairs = enumerate(zip(completions, answer))
    return [None if i % 3 == 1 else float(str(a)[-1] in str(c)) for i, (c, a) in pairs]

class Counted:
    def __init__(self, scale):
        self.scale = scale
    def __call__(self, prompts, completion_ids, log_extra, log_metric, **kwargs):
        log_extra("tokens", [len(ids) for ids in completion_ids])
        log_metric("longest", float(max(map(len, completion_ids))))
        return [self.scale * len(ids) for ids in completion_ids]

def chance(completions, **kwargs):
    values = torch.tensor([hash_of(c) for c in completions])
    return [float("nan") if v > 0.9 else None if v > 0.8 else v for v in values]

def hash_of(completion):
    return (sum(map(ord, str(completion))) % 101) / 101
"""


def _classifier(folder: Path) -> str:
    """A sequence classifier of two layers with the demonstration's tokenizer."""
    import torch
    from transformers import AutoTokenizer, LlamaConfig, LlamaForSequenceClassification

    tokenizer = AutoTokenizer.from_pretrained(str(DEMO_MODEL))
    torch.manual_seed(3)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        num_labels=1,
        pad_token_id=tokenizer.pad_token_id,
    )
    path = folder / "judge-model"
    LlamaForSequenceClassification(config).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return str(path)


class Stored:
    """One batch of a real trainer: what went into the rewards, and what came out."""

    def __init__(self, folder: Path) -> None:
        from grpo_tui.rewards.loading import load_rewards

        file = write(folder, REWARDS)
        model = _classifier(folder)
        entries = tuple(
            RewardEntry(source.rpartition(":")[2], f"{file}:{source}", weight, params)
            for source, weight, params in zip(
                ("by_alarm", "judge", "Counted", "chance"),
                WEIGHTS,
                ({}, {}, {"scale": 0.25}, {}),
                strict=False,
            )
        )
        entries += (RewardEntry("judge-model", model, WEIGHTS[4]),)
        self.config = RunConfig(
            None,
            str(DEMO_MODEL),
            {"bf16": False, "model_init_kwargs": {"dtype": "float32"}},
            {},
            {},
            {},
            Section(rewards=entries),
            cwd=str(folder),
        )
        loaded = load_rewards(self.config)
        self.trainer = make_trainer(
            folder / "out",
            rewards=[reward.func for reward in loaded],
            reward_weights=list(WEIGHTS),
            max_steps=1,
        )
        self.inputs: Any = None
        self.kwargs: list[dict[str, Any]] = []
        compat.wrap(self.trainer, "_calculate_rewards", self._watch)
        compat.wrap(self.trainer, "_generate_and_score_completions", self._keep)
        compat.wrap(self.trainer, "_generate", self._generated_once)
        watched = self.trainer.reward_funcs[0]

        def by_alarm(**kwargs: Any) -> Any:
            self.kwargs.append(kwargs)
            return watched(**kwargs)

        self.trainer.reward_funcs[0] = by_alarm
        self.trainer.train()

    def _watch(self, original: Any) -> Any:
        def calculate(inputs: Any, prompts: Any, completions: Any, ids: Any) -> Any:
            self.inputs, self.prompts, self.completions, self.ids = inputs, prompts, completions, ids
            self.rewards = original(inputs, prompts, completions, ids)
            return self.rewards

        return calculate

    def _generated_once(self, original: Any) -> Any:
        """What was generated first, for the rewards that are put in place are of no completion anyway."""
        kept: list[Any] = []

        def generate(prompts: Any) -> Any:
            if not kept:
                kept.append(original(prompts))
            return kept[0]

        return generate

    def _keep(self, original: Any) -> Any:
        def generate(inputs: Any) -> Any:
            self.batch = inputs
            output = original(inputs)
            self.advantages = output["advantages"].tolist()
            return output

        return generate

    def samples(self) -> list[Sample]:
        end = compat.end_tokens(self.trainer)
        return [
            Sample(
                prompt,
                completion,
                {k: v for k, v in row.items() if k != "prompt"},
                group=str(i // 4),
                truncated=ids[-1] not in end,
            )
            for i, (prompt, completion, row, ids) in enumerate(
                zip(self.prompts, self.completions, self.inputs, self.ids, strict=True)
            )
        ]

    def again(self, rewards: Any, scale: Any, aggregation: str) -> tuple[list[float], dict[str, list[float]]]:
        """TRL's own method on rewards that are put in its place."""
        import torch

        self.trainer.scale_rewards = {True: "group", False: "none"}.get(scale, scale)
        self.trainer.multi_objective_aggregation = aggregation
        self.trainer._calculate_rewards = lambda *_: torch.tensor(rewards, dtype=torch.float32)
        self.trainer._metrics["train"].clear()
        self.trainer._generate_and_score_completions(self.batch)
        return self.advantages, self.trainer._metrics["train"]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    return Stored(tmp_path_factory.mktemp("stored"))


def test_scores_are_those_of_training_for_a_signal_an_async_a_class_and_a_reward_model(
    lab: Lab, stored: Stored
) -> None:
    lab.load(stored.config)
    scored = lab.score(stored.samples())
    assert [f.info.kind for f in scored.functions] == ["function", "async", "function", "function", "model"]
    assert [f.failure for f in scored.functions] == [None] * 5
    for column, function in enumerate(scored.functions):
        expected = stored.rewards[:, column].tolist()
        given = [math.nan if v is None else v for v in function.scores]
        assert given == pytest.approx(expected, abs=1e-6, nan_ok=True), function.info.name
    assert None in scored.functions[1].scores
    assert any(v is not None and math.isnan(v) for v in scored.functions[3].scores) or None in (
        scored.functions[3].scores
    )
    assert scored.functions[2].log_extra["tokens"] == [len(ids) for ids in stored.ids]
    aggregate = lab.aggregate(scored, WEIGHTS)
    assert aggregate.advantages() == pytest.approx(stored.advantages, abs=2e-4)


def test_a_reward_model_instance_is_called_as_a_model(lab: Lab, stored: Stored, tmp_path: Path) -> None:
    folder = stored.config.section.rewards[-1].source
    file = write(
        tmp_path,
        "from transformers import AutoModelForSequenceClassification\n"
        f"model = AutoModelForSequenceClassification.from_pretrained({folder!r}, num_labels=1)\n",
    )
    lab.load(replace(stored.config, section=Section(rewards=(RewardEntry("mine", f"{file}:model", 2.0),))))
    (result,) = lab.score(stored.samples()).functions
    assert (result.info.name, result.info.kind, result.info.weight) == ("judge-model", "model", 2.0)
    assert list(result.scores) == pytest.approx(stored.rewards[:, 4].tolist(), abs=1e-6)


def test_the_keyword_arguments_are_those_of_trl(lab: Lab, stored: Stored, tmp_path: Path) -> None:
    spy = (
        "def spy(**kwargs):\n"
        "    kwargs['log_extra']('seen', [sorted((k, type(v).__name__) for k, v in kwargs.items())] * 16)\n"
        "    names = ('prompts', 'completions', 'completion_ids', 'answer')\n"
        "    kwargs['log_extra']('first', [[kwargs[k][0] for k in names]] * 16)\n"
        "    return [0.0] * 16\n"
    )
    file = write(tmp_path, spy)
    config = replace(stored.config, section=Section(rewards=(RewardEntry("spy", f"{file}:spy"),)))
    lab.load(config)
    (result,) = lab.score(stored.samples()).functions
    seen = stored.kwargs[0]
    wanted = [[k, type(v).__name__] for k, v in sorted(seen.items()) if k not in ("log_extra", "log_metric")]
    got = [pair for pair in result.log_extra["seen"][0] if pair[0] not in ("log_extra", "log_metric")]
    assert got == wanted
    assert {"log_extra", "log_metric"} <= {pair[0] for pair in result.log_extra["seen"][0]}
    names = ("prompts", "completions", "completion_ids", "answer")
    assert result.log_extra["first"][0] == [seen[name][0] for name in names]


def _made_up(kind: str) -> list[list[float]]:
    chance = random.Random(kind)
    rows = [[chance.choice((0.0, 1.0, chance.uniform(-3, 3))) for _ in WEIGHTS] for _ in range(16)]
    if kind == "abstentions":
        rows = [[math.nan if chance.random() < 0.4 else v for v in row] for row in rows]
        rows[5] = [math.nan] * len(WEIGHTS)
        rows[8:12] = [[math.nan] * len(WEIGHTS)] * 4
    if kind == "flat":
        rows[:8] = [[1000.1, 0.1, 0.1, 0.3, 0.7]] * 8
    if kind == "infinite":
        rows[2][0] = math.inf
    return rows


@pytest.mark.parametrize("kind", ["numbers", "abstentions", "flat", "infinite"])
@pytest.mark.parametrize(("scale", "aggregation"), MODES)
def test_advantages_are_those_that_trl_stores(
    scale: Any, aggregation: str, kind: str, lab: Lab, stored: Stored
) -> None:
    from grpo_tui.rewards.lab import Scored
    from grpo_tui.rewards.score_report import FunctionInfo, FunctionScore

    rewards = _made_up(kind)
    expected, metrics = stored.again(rewards, scale, aggregation)
    functions = tuple(
        FunctionScore(
            FunctionInfo(k, f"f{k}", WEIGHTS[k], "function", ""),
            tuple(None if math.isnan(row[k]) and k % 2 else row[k] for row in rewards),
        )
        for k in range(len(WEIGHTS))
    )
    scored = Scored(tuple(Sample(f"p{i // 4}", str(i)) for i in range(16)), functions)
    config = RunConfig(
        None, "", {"scale_rewards": scale, "multi_objective_aggregation": aggregation}, {}, {}, {}, Section()
    )
    aggregate = lab.aggregate(scored, WEIGHTS, Aggregation.of(config))
    assert aggregate.advantages() == pytest.approx(expected, rel=0, abs=0, nan_ok=True), "to the last bit"
    for name in ("reward", "reward_std", "frac_reward_zero_std"):
        (value,) = metrics[name]
        given = getattr(aggregate, name)
        assert (math.nan if given is None else given) == pytest.approx(value, rel=0, abs=0, nan_ok=True), name
