"""Which values a trainer cannot take, which would do nothing, and where each is kept, by the table alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from grpo_tui.config.live_settings import LIVE
from grpo_tui.train import compat
from grpo_tui.train.settable import SETTABLE, note_probes


def stand(**of: Any) -> Any:
    return SimpleNamespace(**of)


def trainer_of(args: Any = None, state: Any = None, **of: Any) -> Any:
    """A trainer that trains each batch in 2 updates, clips by `grpo` and takes every value."""
    known: dict[str, Any] = {
        "args": stand(**{
            "gradient_accumulation_steps": 2, "steps_per_generation": 4, "epsilon_high": 0.3,
            "max_completion_length": 64, "logging_strategy": stand(value="steps"), "generation_kwargs": None,
            "eval_strategy": stand(value="steps"), "save_strategy": stand(value="steps"),
            "load_best_model_at_end": False, "max_grad_norm": 1.0, "delta": None,
        } | (args or {})),
        "state": stand(**{
            "global_step": 5, "max_steps": 10, "logging_steps": 1, "save_steps": 2, "eval_steps": 3,
        } | (state or {})),
        "num_iterations": 1, "loss_type": "grpo", "epsilon_low": 0.2, "epsilon_high": 0.3, "beta": 0.0,
        "is_deepspeed_enabled": False, "use_adaptive_entropy": False, "eval_dataset": [1], "use_vllm": False,
        "multi_objective_aggregation": "sum_then_normalize", "ref_model": "there", "entropy_coef": 0.0,
        "model": stand(config=stand(max_position_embeddings=128)),
        "accelerator": stand(device=stand(type="cpu")),
    }  # fmt: skip
    return stand(**(known | of))


def adapted(**of: Any) -> Any:
    """A trainer without a reference model in memory, and what its model has."""
    accelerator = stand(unwrap_model=lambda model: model)
    return trainer_of(ref_model=None, model=stand(**of), accelerator=accelerator)


ONCE = "each batch is trained on in one update"
AT_ONCE = {"gradient_accumulation_steps": 8}
GPU = stand(device=stand(type="cuda"))
NEW = {"_grpo_tui_new_adapter": True}


@pytest.mark.parametrize(
    ("name", "value", "trainer", "why"),
    [
        ("beta", 0.1, trainer_of(), ""),
        ("beta", 0.1, adapted(), "the run began with beta 0, so no reference model is in memory"),
        ("beta", 0.0, adapted(), ""),
        ("beta", 0.1, adapted(peft_config={"ref": 1}), ""),
        ("beta", 0.1, adapted(peft_config={"default": 1}), "the adapter was trained before this run"),
        ("delta", None, trainer_of(), ""),
        ("delta", 1.5, trainer_of(), ""),
        ("delta", 1.0, trainer_of(), "a delta of 1 or less also caps unchanged tokens"),
        ("max_completion_length", None, trainer_of(), "without a limit a completion could fill the memory"),
        ("max_completion_length", 127, trainer_of(), ""),
        ("max_completion_length", 128, trainer_of(), "the model has 128 positions for prompt and completion"),
        ("max_completion_length", 64, trainer_of(accelerator=GPU), ""),
        ("max_completion_length", 65, trainer_of(accelerator=GPU), "memory was planned for 64 tokens"),
        ("max_completion_length", 65, trainer_of({"max_completion_length": None}, accelerator=GPU), ""),
        ("max_completion_length", 999, trainer_of(model=stand(config=stand())), ""),
        ("max_completion_length", 9, trainer_of({"generation_kwargs": {"max_length": 9}}), "generation"),
        (
            "max_completion_length",
            65,
            trainer_of(use_vllm=True, vllm_generation=stand(max_completion_length=64), accelerator=GPU),
            "vLLM was started for completions of up to 64 tokens",
        ),
        ("max_grad_norm", 1, trainer_of(), ""),
        ("max_grad_norm", 1, trainer_of(is_deepspeed_enabled=True), "DeepSpeed clips by its own"),
        ("entropy_coef", 1, trainer_of(), ""),
        ("entropy_coef", 1, trainer_of(use_adaptive_entropy=True), "use_adaptive_entropy sets it after"),
        ("max_steps", 6, trainer_of(), ""),
        ("max_steps", 5, trainer_of(), "5 steps are already done. To end the run, use `stop`"),
        ("eval_steps", 2, trainer_of(), ""),
        ("eval_steps", 2, trainer_of(eval_dataset=None), "the run has no evaluation dataset"),
        ("save_steps", 2, trainer_of(eval_dataset=None), ""),
        ("save_steps", 2, trainer_of({"load_best_model_at_end": True}), "load_best_model_at_end needs"),
        ("eval_steps", 2, trainer_of({"load_best_model_at_end": True}), "load_best_model_at_end needs"),
        ("logging_steps", 2, trainer_of({"load_best_model_at_end": True}), ""),
        (
            "save_steps",
            2,
            trainer_of({"save_strategy": stand(value="epoch")}),
            "save_strategy is epoch, so save_steps is not read",
        ),
        ("learning_rate", 1, trainer_of(_get_learning_rate=lambda: 0.0), "the schedule is currently at 0"),
        (
            "learning_rate",
            1,
            trainer_of(_get_learning_rate=lambda: 0.1, lr_scheduler=stand()),
            "the scheduler SimpleNamespace keeps no base rates to scale",
        ),
        ("learning_rate", 1, trainer_of(_get_learning_rate=lambda: 0.1, lr_scheduler=stand(base_lrs=[])), ""),
        ("temperature", 1, trainer_of({"generation_kwargs": {"temperature": 1}}), "generation_kwargs sets"),
        ("lr_scheduler_start", 3, trainer_of(_grpo_tui_stage_start=4), "the stage and its schedule began"),
    ],
)  # fmt: skip
def test_a_value_is_refused_with_what_it_would_break(name: str, value: Any, trainer: Any, why: str) -> None:
    found = SETTABLE[name].refused(trainer, value)
    assert found.startswith(why)
    assert bool(found) == bool(why)


def test_an_adapter_that_was_new_has_the_base_model_as_its_reference() -> None:
    trainer = adapted(peft_config={"default": 1})
    vars(trainer).update(NEW)
    assert SETTABLE["beta"].refused(trainer, 0.1) == ""
    none = adapted()
    none.beta = 0.04  # it trains with one
    assert SETTABLE["beta"].refused(none, 0.1) == ""


CISPO: dict[str, Any] = {"loss_type": "cispo"}


@pytest.mark.parametrize(
    ("name", "value", "trainer", "why"),
    [
        ("epsilon", 0.1, trainer_of(), ""),
        ("epsilon", 0.1, trainer_of(AT_ONCE), ONCE),
        ("epsilon", 0.1, trainer_of(AT_ONCE, num_iterations=2), ONCE),
        ("epsilon", 0.1, trainer_of(AT_ONCE, num_iterations=3), ""),
        ("epsilon", 0.1, trainer_of(loss_type="sapo"), "loss_type sapo does not read it"),
        ("epsilon", 0.1, trainer_of(**CISPO), "loss_type cispo does not read it"),
        ("epsilon", 0.1, trainer_of({"epsilon_high": None}, **CISPO), ""),
        ("epsilon", 1.0, trainer_of({"epsilon_high": None, **AT_ONCE}, epsilon_high=2.0, **CISPO), ONCE),
        ("epsilon_high", 0.1, trainer_of(), ""),
        ("epsilon_high", 0.1, trainer_of(AT_ONCE), ONCE),
        ("epsilon_high", 0.1, trainer_of(loss_type="sapo"), "loss_type sapo does not read it"),
        ("epsilon_high", 2.0, trainer_of(AT_ONCE, epsilon_high=1.0, **CISPO), ONCE),
        ("epsilon_high", 0.5, trainer_of(AT_ONCE, epsilon_high=2.0, **CISPO), ""),
        ("epsilon_high", 2.0, trainer_of(AT_ONCE, epsilon_high=0.5, **CISPO), ""),
        ("epsilon_high", 2.0, trainer_of(epsilon_high=2.0, **CISPO), ""),
        ("delta", 2.0, trainer_of(), ""),
        ("delta", 2.0, trainer_of(AT_ONCE), ONCE),
        ("delta", 2.0, trainer_of(loss_type="sapo"), "loss_type sapo does not read it"),
        ("scale_rewards", "batch", trainer_of(), ""),
        (
            "scale_rewards",
            "batch",
            trainer_of(multi_objective_aggregation="normalize_then_sum"),
            "multi_objective_aggregation normalize_then_sum does not read it",
        ),
    ],
)
def test_a_value_without_an_effect_is_told_with_what_hides_it(
    name: str, value: Any, trainer: Any, why: str
) -> None:
    found = SETTABLE[name].idle(trainer, value)
    assert found.startswith(why)
    assert bool(found) == bool(why)


@pytest.mark.parametrize("loss", ["grpo", "bnpo", "dr_grpo", "dapo", "luspo"])
def test_the_losses_that_clip_read_epsilon(loss: str) -> None:
    assert SETTABLE["epsilon"].idle(trainer_of(loss_type=loss), 0.1) == ""


@pytest.mark.parametrize(
    ("value", "step", "buffered", "waits"),
    [
        (0.1, 1, [{}], True),
        (0.0, 1, [{}], False),
        (0.1, 0, [{}], False),
        (0.1, 1, [{"ref_per_token_logps": 1}], False),
    ],
)
def test_a_beta_waits_for_a_batch_with_a_reference(
    value: float, step: int, buffered: Any, waits: bool
) -> None:
    assert SETTABLE["beta"].waits(trainer_of(_step=step, _buffered_inputs=buffered), value) is waits


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_grad_norm", 0.5), ("beta", 0.1), ("epsilon", 0.1), ("epsilon_high", 0.4), ("delta", 2.0),
        ("entropy_coef", 0.5), ("scale_rewards", "none"), ("mask_truncated_completions", True),
        ("top_p", 0.9), ("top_k", 5), ("min_p", 0.1), ("repetition_penalty", 1.1),
        ("max_completion_length", 32),
        ("logging_steps", 4), ("save_steps", 5), ("eval_steps", 6),
    ],
)  # fmt: skip
def test_a_value_that_was_set_is_the_one_that_is_read(name: str, value: Any) -> None:
    own = dict.fromkeys(("scale_rewards", "mask_truncated_completions", "top_p", "top_k", "min_p"))
    more = {"repetition_penalty": None, "max_completion_length": None}
    trainer = trainer_of(generation_config=stand(), generation_kwargs={}, **own, **more)
    others = {key: row.read(trainer) for key, row in SETTABLE.items() if key in OWN and key != name}
    SETTABLE[name].write(trainer, value)
    assert SETTABLE[name].read(trainer) == value
    assert {key: SETTABLE[key].read(trainer) for key in others} == others


OWN = ("max_grad_norm", "beta", "epsilon", "epsilon_high", "delta", "entropy_coef", "scale_rewards",
       "mask_truncated_completions", "logging_steps", "save_steps", "eval_steps", "max_steps")  # fmt: skip


def test_an_epsilon_is_the_upper_bound_too_where_none_was_set() -> None:
    trainer = trainer_of({"epsilon_high": None})
    SETTABLE["epsilon"].write(trainer, 0.1)
    assert (trainer.epsilon_low, trainer.epsilon_high) == (0.1, 0.1)
    SETTABLE["epsilon_high"].write(trainer, 0.5)
    SETTABLE["epsilon"].write(trainer, 0.2)
    assert (trainer.epsilon_low, trainer.epsilon_high) == (0.2, 0.5)
    SETTABLE["epsilon_high"].write(trainer, None)
    assert (trainer.args.epsilon_high, trainer.epsilon_high) == (None, 0.2)


@pytest.mark.parametrize(("step", "stops"), [(10, False), (9, True)])
def test_steps_added_at_the_end_let_the_run_go_on(
    step: int, stops: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed: list[Any] = []
    monkeypatch.setattr("grpo_tui.train.rate_schedule.follow", lambda *given: followed.append(given[1:]))
    trainer = trainer_of({"lr_scheduler_type": "linear"}, {"global_step": step})
    trainer.control = stand(should_training_stop=True)
    SETTABLE["max_steps"].write(trainer, 20)
    assert (trainer.control.should_training_stop, trainer.state.max_steps) == (stops, 20)
    assert followed == [("linear", 20)]


def test_weights_are_set_in_the_place_and_the_precision_of_the_old_ones() -> None:
    import torch

    trainer = stand(reward_weights=torch.tensor([1.0, 2.0], dtype=torch.float32))
    SETTABLE["reward_weights"].write(trainer, [0.1, 3])
    assert trainer.reward_weights.dtype == torch.float32
    assert SETTABLE["reward_weights"].read(trainer) == [0.1, 3.0]


def test_probe_prompts_are_those_of_the_sampler_of_the_run() -> None:
    row, trainer, changed = SETTABLE["probe_prompts"], stand(), list[Any]()
    assert row.read(trainer) == []
    row.write(trainer, ["+a"])
    note_probes(trainer, stand(changes=("+a", "-b"), change=changed.append))
    assert row.read(trainer) == ["+a", "-b"]
    row.write(trainer, ["+c"])
    assert changed == [["+c"]]


def test_a_rate_is_set_by_scaling_the_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = trainer_of(
        _get_learning_rate=lambda: 0.5,
        lr_scheduler=stand(base_lrs=[1.0, 2.0]),
        optimizer=stand(param_groups=[{"lr": 0.5}, {"lr": 1.0}]),
    )
    SETTABLE["learning_rate"].write(trainer, 0.25)
    assert trainer.lr_scheduler.base_lrs == [0.5, 1.0]
    assert [group["lr"] for group in trainer.optimizer.param_groups] == [0.25, 0.5]
    assert compat.scheduler(trainer) is trainer.lr_scheduler


def test_what_exists_only_while_it_trains_is_set_in_the_arguments_by_a_resume() -> None:
    """And what a restart cannot take either is not offered with one."""
    intervals = {"logging_steps", "save_steps", "eval_steps"}
    assert list(SETTABLE) == list(LIVE)
    of_start = {name for name, row in SETTABLE.items() if row.at_start}
    assert of_start == {"lr_scheduler_type", "lr_scheduler_start", "max_steps", *intervals}
    no_restart = {name for name, row in SETTABLE.items() if not row.restarts}
    assert no_restart == {"lr_scheduler_start", "max_steps", "delta", *intervals}
