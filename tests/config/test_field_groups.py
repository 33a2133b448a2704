"""Every field stands in one group, also those of a TRL that is not written yet, and can be found by words."""

from __future__ import annotations

from collections import Counter

import pytest

from grpo_tui.config.advice import CHOICE, OTHER_NAME, PREFIX, WHOLE, search_fields
from grpo_tui.config.fields import (
    GROUPS,
    all_fields,
    default_in_words,
    group_of,
    grouped,
    kind_in_words,
    matters,
    neighbours,
    section_fields,
)
from grpo_tui.config.section import SECTION_KEYS
from grpo_tui.config.trl_fields import FieldInfo

NAMED = [name for group in GROUPS for name in group.names]


def test_every_field_of_the_installed_trl_and_the_section_is_named_in_one_group() -> None:
    assert [name for name, count in Counter(NAMED).items() if count > 1] == []
    assert set(NAMED) == set(all_fields())


def test_every_key_of_the_section_has_help_and_a_type() -> None:
    assert set(section_fields()) == {*(f"grpo_tui.{key}" for key in SECTION_KEYS), "env"}
    for name, info in section_fields().items():
        assert info.help, name
        assert info.annotation != "Any", name


def test_the_groups_are_those_a_person_thinks_of_and_few_fields_come_first() -> None:
    assert [group.id for group in GROUPS] == [
        "model", "data", "generation", "rewards", "optimisation", "grpo", "vllm", "lora", "logging",
        "distributed",
    ]  # fmt: skip
    assert 30 <= sum(len(group.first) for group in GROUPS) <= 60
    assert all(group.first and group.about.endswith(".") for group in GROUPS)
    assert matters("learning_rate")
    assert not matters("adam_epsilon")


def test_grouping_keeps_the_order_of_the_form_and_loses_nothing() -> None:
    sorted_names = grouped(all_fields(), dict(all_fields()))
    assert Counter(name for names in sorted_names.values() for name in names) == Counter(list(all_fields()))
    assert sorted_names["generation"][:2] == ("num_generations", "max_completion_length")


NEW = {
    ("vllm_kv_offload", "GRPOConfig"): "vllm",
    ("lora_init", "ModelConfig"): "lora",
    ("load_in_2bit", "ModelConfig"): "lora",
    ("reward_clip", "GRPOConfig"): "rewards",
    ("min_completion_length", "GRPOConfig"): "generation",
    ("top_h", "GRPOConfig"): "grpo",
    ("gamma_clip", "GRPOConfig"): "grpo",
    ("attn_backend", "ModelConfig"): "model",
    ("rope_scaling", "ModelConfig"): "model",
    ("dataset_seed", "ScriptArguments"): "data",
    ("dataloader_backend", "TrainingArguments"): "data",
    ("log_samples", "TrainingArguments"): "logging",
    ("hub_tag", "TrainingArguments"): "logging",
    ("ddp_overlap", "TrainingArguments"): "distributed",
    ("fsdp_version", "TrainingArguments"): "distributed",
    ("adam_beta3", "TrainingArguments"): "optimisation",
    ("wholly_new", "TrainingArguments"): "optimisation",
    ("grpo_tui.row_order", "grpo_tui"): "data",
    ("grpo_tui.rewards.0.weight", "grpo_tui"): "rewards",
}


@pytest.mark.parametrize(("name", "owner", "group"), [(*key, group) for key, group in NEW.items()])
def test_a_field_of_a_later_trl_falls_into_a_sensible_group(name: str, owner: str, group: str) -> None:
    assert group_of(name, FieldInfo(name, owner, "int", 0, "", defined_in=owner)) == group


@pytest.mark.parametrize(
    ("name", "before"),
    [
        ("warmup_steps", "learning_rate"),  # its group, before it in the form
        ("temperature", "num_generations"),
        ("use_peft", "beta"),  # the nearest group before
        ("model_name_or_path", "report_to"),  # nothing before: the end of TRL's keys
        ("save_steps", "report_to"),
    ],
)
def test_a_new_key_is_put_beside_its_group(name: str, before: str) -> None:
    present = ["dataset_name", "num_generations", "learning_rate", "beta", "report_to", "grpo_tui"]
    assert neighbours(name, present)[0] == before
    assert "grpo_tui" not in neighbours(name, present)


@pytest.mark.parametrize(
    ("name", "present", "order"),
    [
        # of those before it in the form the nearest, then those behind it, then the groups before
        (
            "top_p",
            [
                "model_name_or_path",
                "num_generations",
                "temperature",
                "max_completion_length",
                "min_p",
                "top_k",
            ],
            [
                "temperature",
                "max_completion_length",
                "num_generations",
                "top_k",
                "min_p",
                "model_name_or_path",
            ],
        ),
        # of the groups before it the nearest, and of that the last key in the file
        (
            "use_peft",
            ["beta", "loss_type", "model_name_or_path", "report_to"],
            ["loss_type", "beta", "model_name_or_path", "report_to"],
        ),
    ],
)
def test_the_keys_that_a_new_one_may_follow_are_ordered_best_first(
    name: str, present: list[str], order: list[str]
) -> None:
    assert list(dict.fromkeys(neighbours(name, present))) == order


# Search


@pytest.mark.parametrize(
    ("words", "first"),
    [
        ("learning_rate", "learning_rate"),
        ("learning-rate", "learning_rate"),
        ("Learning", "learning_rate"),
        ("batch size", "per_device_train_batch_size"),
        ("group size", "num_generations"),
        ("epsilon h", "epsilon_high"),
        ("warmup_ratio", "warmup_steps"),
        ("kl_coef", "beta"),
        ("dapo", "loss_type"),
        ("flash", "attn_implementation"),
        ("qlora", "load_in_4bit"),
        ("holdout", "grpo_tui.holdout"),
    ],
)
def test_words_find_the_field_that_is_meant(words: str, first: str) -> None:
    assert search_fields(words)[0].name == first


def test_a_name_of_two_fields_finds_both() -> None:
    assert [found.name for found in search_fields("gspo")[:2]] == ["loss_type", "importance_sampling_level"]


def test_names_come_before_help_and_help_before_advice() -> None:
    places = [found.place for found in search_fields("loss")]
    assert places == sorted(places)
    assert search_fields("loss_type")[0].place == WHOLE
    assert search_fields("loss_t")[0].place == PREFIX
    assert search_fields("dapo")[0].place == CHOICE
    renamed = search_fields("warmup_ratio")[0]
    assert (renamed.place, renamed.because) == (OTHER_NAME, "warmup_ratio")


def test_all_words_have_to_be_found_and_no_word_finds_all() -> None:
    assert {found.name for found in search_fields("vllm memory")} < {
        found.name for found in search_fields("vllm")
    }
    assert search_fields("vllm xyzzy") == ()
    assert {found.name for found in search_fields(" ")} == set(all_fields())
    assert search_fields("")[0].name == "model_name_or_path"


# Words


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        ("int", "whole number"),
        ("float | None", "number, may be empty"),
        ("bool", "true or false"),
        ("str | bool", "true or false or text"),
        ("dict[str, Any] | str | None", "text or mapping, may be empty"),
        ("list[float] | None", "list of numbers, may be empty"),
        ("OptimizerNames | str", "text"),
        ("str | None | Literal[False]", "text or false, may be empty"),
    ],
)
def test_a_type_in_words(annotation: str, words: str) -> None:
    assert kind_in_words(annotation) == words


def test_every_field_has_a_default_and_a_type_in_words() -> None:
    for name, info in all_fields().items():
        assert default_in_words(info), name
        assert "NoDefault" not in default_in_words(info), name
        assert kind_in_words(info.annotation), name
