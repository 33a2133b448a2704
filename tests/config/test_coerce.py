"""Values fitted to their fields: what is changed is told, what does not fit is refused."""

from __future__ import annotations

import pytest

from grpo_tui.config.coerce import CoerceError, coerce
from grpo_tui.config.trl_fields import FieldInfo, load_fields


@pytest.mark.parametrize(
    ("name", "value", "read"),
    [
        ("learning_rate", "1e-5", 1e-5),
        ("learning_rate", "5.0E-6", 5e-6),
        ("temperature", "0.9", 0.9),
        ("num_generations", "8", 8),
        ("num_generations", 8.0, 8),
        ("max_completion_length", "1_024", 1024),
        ("log_completions", "no", False),
        ("log_completions", "False", False),
        ("use_vllm", 1, True),
        ("bf16", "true", True),
        ("min_p", "None", None),
        ("generation_batch_size", "null", None),
        ("run_name", "None", None),
        ("run_name", 12, "12"),
        ("reward_funcs", "accuracy_reward", ["accuracy_reward"]),
        ("reward_funcs", "accuracy_reward,my.pkg.f", ["accuracy_reward", "my.pkg.f"]),
        ("lora_target_modules", "q_proj,v_proj", ["q_proj", "v_proj"]),
        ("lora_target_modules", "all-linear", ["all-linear"]),
        ("lora_target_modules", r".*\.(q|v){1,2}_proj", [r".*\.(q|v){1,2}_proj"]),
        ("reward_weights", 2.0, [2.0]),
        ("reward_weights", "1, 0.5", [1.0, 0.5]),
        ("reward_weights", ["1.0", 2], [1.0, 2]),
        ("report_to", "wandb,tensorboard", ["wandb", "tensorboard"]),
        ("scale_rewards", False, "none"),
        ("scale_rewards", "false", "none"),
        ("scale_rewards", True, "group"),
        ("save_strategy", False, "no"),
        ("loss_type", "DAPO", "dapo"),
        ("loss_type", "dr-grpo", "dr_grpo"),
        ("dtype", "torch.bfloat16", "bfloat16"),
        ("model_init_kwargs", '{"use_cache": false}', {"use_cache": False}),
        ("resume_from_checkpoint", "true", True),
        ("pad_to_multiple_of", "8", 8),
    ],
)
def test_a_value_of_another_kind_is_read_with_a_note(name: str, value: object, read: object) -> None:
    coerced = coerce(load_fields()[name], value)
    assert coerced.value == read
    assert type(coerced.value) is type(read)
    assert coerced.note is not None
    assert coerced.note.startswith(name)


@pytest.mark.parametrize("name", ["temperature", "repetition_penalty"])
def test_a_whole_number_for_which_generate_takes_only_a_float_becomes_one(name: str) -> None:
    assert type(coerce(load_fields()[name], 2).value) is float


@pytest.mark.parametrize(
    ("name", "value", "read"),
    [
        ("learning_rate", "1e-5", 1e-5),
        ("num_generations", "8", 8),
        ("max_completion_length", "1_024", 1024),
        ("log_completions", "no", False),
        ("reward_weights", "1, 0.5", [1.0, 0.5]),
        ("report_to", "wandb,tensorboard", ["wandb", "tensorboard"]),
        ("model_init_kwargs", '{"use_cache": false}', {"use_cache": False}),
        ("generation_kwargs", '{"top_k": 5}', {"top_k": 5}),
        ("min_p", "None", None),
        ("loss_type", "DAPO", "dapo"),
    ],
)
@pytest.mark.parametrize(("before", "after"), [(" ", ""), ("", " "), ("\n  ", "\n"), ("\t", "\t")])
def test_blanks_around_a_text_change_nothing(
    name: str, value: str, read: object, before: str, after: str
) -> None:
    assert coerce(load_fields()[name], before + value + after).value == read


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("learning_rate", 1e-5),
        ("logging_steps", 5),
        ("logging_steps", 0.1),
        ("num_generations", 8),
        ("log_completions", False),
        ("min_p", None),
        ("report_to", "none"),
        ("report_to", ["wandb"]),
        ("loss_type", "grpo"),
        ("lora_target_modules", ["q_proj"]),
        ("resume_from_checkpoint", True),
        ("resume_from_checkpoint", "out/checkpoint-5"),
        ("fsdp", True),
        ("pad_to_multiple_of", "auto"),
        ("include_num_input_tokens_seen", True),
        ("include_num_input_tokens_seen", "all"),
        ("deepspeed", "ds.json"),
        ("run_name", "first"),
        ("optim", "adamw_8bit"),
        ("debug", ""),
    ],
)
def test_a_fitting_value_passes_unchanged_and_without_a_note(name: str, value: object) -> None:
    coerced = coerce(load_fields()[name], value)
    assert coerced.value == value
    assert type(coerced.value) is type(value)
    assert coerced.note is None


@pytest.mark.parametrize(
    ("name", "value", "word", "suggestion"),
    [
        ("learning_rate", "fast", "must be a number", 1e-6),
        ("learning_rate", True, "must be a number", 1e-6),
        ("num_generations", 8.5, "whole number", 8),
        ("num_generations", True, "whole number", 8),
        ("num_generations", float("inf"), "whole number", 8),
        ("num_generations", "1e400", "whole number", 8),
        ("learning_rate", "1e400x", "must be a number", 1e-6),
        ("log_completions", "maybe", "true or false", False),
        ("max_steps", "None", "needs a value", -1),
        ("max_steps", None, "needs a value", -1),
        ("loss_type", "grpoo", "unknown value 'grpoo'. Choices: bnpo", "grpo"),
        ("vllm_mode", "bogus", "server, colocate", None),
        ("scale_rewards", "std", "batch, group, none", None),
        ("report_to", "wandbb", "unknown value 'wandbb'", "wandb"),
        ("optim", "adam_w", "unknown value 'adam_w'", None),
        ("reward_weights", ["much"], "must contain only numbers", None),
        ("model_init_kwargs", "bfloat16", "must be a mapping", None),
        ("run_name", ["a"], "must be text", None),
        ("parallelism_config", {"cp_size": 2}, "cannot be set in a file", None),
        ("datasets", "openai/gsm8k", "list of datasets", None),
    ],
)
def test_a_value_that_does_not_fit_is_refused(
    name: str, value: object, word: str, suggestion: object
) -> None:
    with pytest.raises(CoerceError, match=word) as caught:
        coerce(load_fields()[name], value)
    if suggestion is not None:
        assert caught.value.suggestion == suggestion


def test_the_note_says_what_was_written_and_what_was_read() -> None:
    note = coerce(load_fields()["learning_rate"], "1e-5").note
    assert note == "learning_rate was the text '1e-5'; read as 1e-05"


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (16, f". Choices: {', '.join(f'c{n}' for n in range(16))}"),
        (17, f". Choices: {', '.join(f'c{n}' for n in range(12))} and 5 more"),
    ],
)
def test_a_field_of_many_choices_names_the_first_and_counts_the_rest(count: int, said: str) -> None:
    info = FieldInfo("kind", "GRPOConfig", "str", "c0", "", choices=tuple(f"c{n}" for n in range(count)))
    with pytest.raises(CoerceError) as caught:
        coerce(info, "other")
    assert str(caught.value) == f"kind: unknown value 'other'{said}"


@pytest.mark.parametrize("word", ["gspo", " GSPO "])
def test_a_word_of_a_neighbouring_field_says_which_field_it_belongs_to(word: str) -> None:
    with pytest.raises(CoerceError) as caught:
        coerce(load_fields()["loss_type"], word)
    assert str(caught.value).endswith(". GSPO is loss_type: grpo with importance_sampling_level: sequence")
