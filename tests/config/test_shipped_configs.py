"""The shipped configs are valid, and the one without a section is TRL's own."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from grpo_tui.config import load_config
from grpo_tui.rewards.form import Form
from grpo_tui.rewards.gold_forms import wrong_answer
from grpo_tui.rewards.probe_report import judge
from grpo_tui.rewards.probes import ProbeRow, make_probes

CONFIGS = Path(__file__).parents[2] / "configs"


def trl_parser():
    from trl.scripts.grpo import make_parser

    return make_parser()


@pytest.mark.parametrize("name", ["gsm8k.yaml", "plain_trl.yaml"])
def test_a_shipped_config_loads_without_any_finding(name: str) -> None:
    assert load_config(CONFIGS / name).findings == ()


@pytest.mark.parametrize("name", ["gsm8k.yaml", "plain_trl.yaml"])
def test_a_shipped_config_says_what_it_needs_and_how_to_start_it(name: str) -> None:
    head = (CONFIGS / name).read_text()[:1200]
    assert f"grpo-tui train configs/{name}" in head
    for word in ("# Trains", "# Needs", "# Change", "# Hardware", "--set "):
        assert word in head


def test_trls_own_parser_reads_the_plain_config_as_we_do(tmp_path) -> None:
    config = load_config(CONFIGS / "plain_trl.yaml")
    arguments = ["--config", str(CONFIGS / "plain_trl.yaml"), "--use_cpu", "true", "--bf16", "false"]
    script, grpo, model, mixture = trl_parser().parse_args_and_config(arguments, fail_with_unknown_args=True)
    for ours, theirs in (
        (config.script, script),
        (config.grpo, grpo),
        (config.model_args, model),
        (config.mixture, mixture),
    ):
        for name, value in ours.items():
            read = getattr(theirs, name)
            assert (read if name != "report_to" else (read or "none")) == value, name


def test_trls_parser_and_ours_agree_on_texts_that_yaml_left_as_texts(tmp_path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(
        "model_name_or_path: m\ndataset_name: d\nreward_funcs: [accuracy_reward]\nlearning_rate: 1e-5\n"
        'log_completions: "no"\nnum_generations: "4"\nscale_rewards: false\nmin_p: null\n'
    )
    ours = load_config(file).grpo
    arguments = ["--config", str(file), "--use_cpu", "true", "--bf16", "false", "--output_dir", str(tmp_path)]
    _, grpo, _, _ = trl_parser().parse_args_and_config(arguments)
    for name, value in ours.items():
        assert getattr(grpo, name) == value, name


def test_the_grpo_part_builds_a_real_grpo_config(tmp_path) -> None:
    from trl import GRPOConfig, ModelConfig

    config = load_config(CONFIGS / "gsm8k.yaml", ["use_cpu=true", "bf16=false", f"output_dir={tmp_path}"])
    assert GRPOConfig(**config.grpo).generation_batch_size == 32
    assert ModelConfig(**config.model_args).dtype == "bfloat16"


def shipped_rewards():
    spec = importlib.util.spec_from_file_location("shipped_rewards", CONFIGS / "rewards.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GOOD = "<think>\n6 times 12\nis 72\n</think>\n<answer>\n72\n</answer>"


@pytest.mark.parametrize("chat", [True, False])
@pytest.mark.parametrize(
    ("text", "correct", "strict", "steps", "number"),
    [
        (GOOD, 1.0, 1.0, 1.0, 1.0),
        (GOOD.replace("72", "71"), 0.0, 1.0, 1.0, 1.0),
        (GOOD.replace("\n72\n</answer>", "$72.00</answer>"), 1.0, 1.0, 1.0, 0.0),
        ("The answer is 72", 0.0, 0.0, 0.0, 0.0),
        (GOOD + " and that is all", 1.0, 0.0, 1.0 - 0.015, 1.0),
        ("<answer>72</answer>", 1.0, 0.0, 0.5, 1.0),
        (GOOD + GOOD, 0.0, 0.0, 0.0, 1.0),
        (GOOD.replace("\n72\n</answer>", "not 72</answer>"), 0.0, 1.0, 1.0, 0.0),
    ],
)
def test_the_shipped_rewards_score_as_they_say(
    chat: bool, text: str, correct: float, strict: float, steps: float, number: float
) -> None:
    rewards = shipped_rewards()
    completion = [{"role": "assistant", "content": text}] if chat else text
    assert rewards.correct([completion], answer=["72"], prompts=["q"]) == [correct]
    assert rewards.strict_format([completion]) == [strict]
    assert rewards.steps_to_format([completion]) == pytest.approx([steps])
    assert rewards.answer_is_a_number([completion]) == [number]


def test_correctness_abstains_when_the_gold_answer_is_no_number() -> None:
    assert shipped_rewards().correct([GOOD, GOOD], answer=["", "72"]) == [None, 1.0]


@pytest.mark.parametrize("gold", ["42", "2500", "1,250", "-8", "3.5", "0.5", "1/3", "6 * 12 = 72\n#### 72"])
def test_no_probe_of_the_answer_fools_the_shipped_correctness_and_none_finds_it_unfair(gold: str) -> None:
    answer = gold.rpartition("####")[2].strip()
    row = ProbeRow(f"What is {answer}?", answer, wrong_answer(answer), ("7", "9"))
    probes = make_probes(row, Form("tags", "think"))
    scores = shipped_rewards().correct([probe.text for probe in probes], answer=[gold] * len(probes))
    assert judge(probes, {"correct": scores}) == []
