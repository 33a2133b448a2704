"""Advice names what the installed TRL has: fields, every choice, and values that it takes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from grpo_tui.config.advice import ADVICE, advice_page, choice_advice
from grpo_tui.config.coerce import coerce
from grpo_tui.config.fields import GROUPS, all_fields
from grpo_tui.config.meant import OTHER_NAMES, REMOVED
from grpo_tui.config.trl_fields import source_root

CHOSEN = [
    "loss_type", "importance_sampling_level", "scale_rewards", "multi_objective_aggregation", "vllm_mode",
    "vllm_importance_sampling_mode", "dtype",
]  # fmt: skip
PARTS = ("choose", "why", "when", "cost", "older")


def test_every_field_advised_exists_and_every_field_that_matters_is_advised() -> None:
    assert set(ADVICE) <= set(all_fields())
    assert {name for group in GROUPS for name in group.first} <= set(ADVICE)


@pytest.mark.parametrize("name", [name for name, advice in ADVICE.items() if advice.choices])
def test_the_choices_explained_are_those_of_the_installed_trl(name: str) -> None:
    assert set(ADVICE[name].choices) == set(all_fields()[name].choices or ())


@pytest.mark.parametrize("name", CHOSEN)
def test_an_enumerated_field_that_decides_much_has_all_its_choices_explained(name: str) -> None:
    assert ADVICE[name].choices
    for choice in all_fields()[name].choices or ():
        told = choice_advice(name, choice)
        assert told is not None
        assert len(told.text) > 20


def test_every_loss_has_its_formula_and_its_source() -> None:
    for choice in ADVICE["loss_type"].choices.values():
        assert choice.formula
        assert choice.source


@pytest.mark.parametrize("name", [name for name, advice in ADVICE.items() if advice.value is not None])
def test_a_value_to_begin_with_is_one_that_the_field_takes(name: str) -> None:
    coerced = coerce(all_fields()[name], ADVICE[name].value)
    assert (coerced.value, coerced.note) == (ADVICE[name].value, None)


@pytest.mark.parametrize("name", ADVICE)
def test_advice_is_whole_sentences_and_names_fields_that_exist(name: str) -> None:
    advice = ADVICE[name]
    assert advice.why
    known = {*all_fields(), *(choice for info in all_fields().values() for choice in info.choices or ())}
    known |= {*REMOVED, *OTHER_NAMES, *NAMES}
    for part in PARTS:
        text = getattr(advice, part)
        assert not text or (text.endswith((".", ")")) and len(text) <= 300), part
        for word in re.findall(r"\b[a-z0-9]+(?:_[a-z0-9]+)+\b", text):
            assert word in known, f"{part} names {word}"


NAMES = {
    # of the library of rewards, metrics, and what models call their parts
    "accuracy_reward", "think_format_reward", "get_repetition_penalty_reward", "frac_reward_zero_std",
    "clipped_ratio", "clip_ratio", "region_mean", "grad_norm", "sampling_logp_difference", "lm_head",
    "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "flash_attention_2",
    "use_kernels", "num_processes", "device_map", "grpo_tui", "enable_thinking", "importance_sampling_ratio",
}  # fmt: skip


def test_the_page_of_advice_is_up_to_date() -> None:
    """`grpo-tui config fields --markdown > docs/advice.md` makes it anew."""
    page = Path(__file__).parents[2] / "docs/advice.md"
    assert page.read_text(encoding="utf-8") == advice_page()


def test_the_formulas_are_those_of_the_installed_source() -> None:
    """A sentence of TRL's own code for each formula that would be wrong if that code changed."""
    source = (Path(source_root("trl")) / "trainer/grpo_trainer.py").read_text(encoding="utf-8")
    for piece in (
        "clamped_ratios = torch.clamp(coef_1, max=self.epsilon_high).detach()",
        "coef_2 = torch.clamp(coef_1, 1 - self.epsilon_low, 1 + self.epsilon_high)",
        "soft_coef_1 = torch.sigmoid(temperatures * (coef_1 - 1)) * 4 / temperatures",
        "log_phi = lambda_seq + k_seq * log_w_seq - lambda_seq * w_seq",
        'if self.loss_type in ["grpo", "sapo"]:',
        "(per_token_loss.size(0) * self.max_completion_length)",
        "loss = (per_token_loss * mask).sum(-1).mean()",
        "log_importance_weights = (log_ratio * mask).sum(-1) / mask.sum(-1).clamp(min=1.0)",
        "advantages = advantages / (std_rewards + 1e-4)",
        "per_sequence_logps_diff = per_token_logps_diff.sum(dim=-1, keepdim=True)",
    ):
        assert piece in source, piece
