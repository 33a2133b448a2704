"""What is read and set at a trainer by TRL's private names, asked of stand-ins without a training."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from grpo_tui.train import compat, rate_schedule
from grpo_tui.train.settable import SETTABLE


def stand(**of: Any) -> Any:
    return SimpleNamespace(**of)


# -- batches and steps -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("micro_step", "buffered", "boundary"),
    [(0, [1], True), (1, [1], False), (5, [1], False), (6, [1], True), (4, None, True)],
)
def test_a_batch_of_completions_serves_each_of_its_micro_steps_and_iterations(
    micro_step: int, buffered: Any, boundary: bool
) -> None:
    """3 micro-steps, each twice."""
    trainer = stand(
        _step=micro_step,
        _buffered_inputs=buffered,
        args=stand(steps_per_generation=3),
        num_iterations=2,
    )
    assert compat.generate_every(trainer) == 6
    assert compat.at_generation_boundary(trainer) is boundary


@pytest.mark.parametrize(
    ("micro_step", "global_step", "max_steps", "last"),
    [(0, 0, 100, 4), (8, 4, 100, 8), (10, 5, 100, 8), (9, 4, 100, 8), (8, 4, 6, 6), (8, 4, -1, 8)],
)
def test_the_last_step_of_a_batch_counts_the_micro_steps_that_are_left(
    micro_step: int, global_step: int, max_steps: int, last: int
) -> None:
    """A batch of 8 micro-steps, 2 of them an update."""
    trainer = stand(
        _step=micro_step,
        args=stand(gradient_accumulation_steps=2, steps_per_generation=4),
        num_iterations=2,
        state=stand(global_step=global_step, max_steps=max_steps),
    )
    assert compat.last_step_of_batch(trainer) == last


@pytest.mark.parametrize(("training", "mode", "size"), [(True, "train", 8), (False, "eval", 2)])
def test_the_size_of_a_group_is_that_of_training_or_evaluation(training: bool, mode: str, size: int) -> None:
    trainer = stand(model=stand(training=training), num_generations=8, num_generations_eval=2)
    assert (compat.mode(trainer), compat.group_size(trainer)) == (mode, size)


@pytest.mark.parametrize(
    ("known", "ends"),
    [({"eos_token_ids": [4, 5]}, {4, 5, 0}), ({"eos_token_ids": None}, {2, 0}), ({}, {2, 0})],
)
def test_a_completion_ends_with_each_end_token_or_padding(known: Any, ends: set[int]) -> None:
    assert compat.end_tokens(stand(_tokenizer=stand(eos_token_id=2, pad_token_id=0), **known)) == ends


@pytest.mark.parametrize(("size", "ranks", "count"), [(64, 4, 16), (16, 1, 16), (1, 2, 1), (30, 4, 7)])
def test_a_rank_generates_its_share_of_a_batch_at_once(size: int, ranks: int, count: int) -> None:
    trainer = stand(args=stand(generation_batch_size=size), accelerator=stand(num_processes=ranks))
    assert compat.generated_at_once(trainer) == count


@pytest.mark.parametrize("fails", [False, True])
def test_a_prompt_is_rendered_for_one_environment_and_the_batch_keeps_its_own(fails: bool) -> None:
    seen: list[Any] = []

    def tokenize(prompts: list[Any]) -> Any:
        seen.append((prompts, trainer._batch_environments))
        if fails:
            raise ValueError("no template")
        return [(1, 2)], None, None

    trainer = stand(_batch_environments=["a", "b"], _tokenize_prompts=tokenize)
    if fails:
        with pytest.raises(ValueError, match="no template"):
            compat.rendered_prompt(trainer, "p")
    else:
        assert compat.rendered_prompt(trainer, "p") == [1, 2]
    assert seen == [(["p"], ["a"])]
    assert trainer._batch_environments == ["a", "b"]
    assert compat.rendered_prompt(stand(), "p") is None
    assert compat.rendered_prompt(stand(_tokenize_prompts=lambda prompts: ([(7,)], 0, 0)), "p") == [7]


@pytest.mark.parametrize(
    ("ranks", "backend", "sharded"),
    [
        (2, stand(is_fsdp=True, is_zero3=False), True),
        (2, stand(is_fsdp=False, is_zero3=True), True),
        (2, stand(is_fsdp=False, is_zero3=False), False),
        (1, stand(is_fsdp=True, is_zero3=False), False),
        (2, None, False),
    ],
)
def test_a_model_is_sharded_over_several_ranks_with_fsdp_or_zero_3(
    ranks: int, backend: Any, sharded: bool
) -> None:
    gathered: list[Any] = []
    if backend is not None:
        backend.summon_full_params = lambda model, recurse: gathered.append((model, recurse)) or nullcontext()  # type: ignore[func-returns-value]
    trainer = stand(_dist=backend, accelerator=stand(num_processes=ranks), model_wrapped="wrapped")
    assert compat.is_sharded(trainer) is sharded
    with compat.whole_parameters(trainer):
        assert gathered == ([("wrapped", False)] if sharded else [])


@pytest.mark.parametrize(
    ("ref_model", "inner", "name"),
    [
        ("model", stand(), "the reference model"),
        (None, stand(peft_config={}), "the base model"),
        (None, stand(), ""),
    ],
)
def test_kl_is_measured_against_the_model_in_memory_or_without_the_adapter(
    ref_model: Any, inner: Any, name: str
) -> None:
    trainer = stand(ref_model=ref_model, model=inner, accelerator=stand(unwrap_model=lambda model: model))
    assert compat.reference(trainer) == (name, ref_model)


@pytest.mark.parametrize(
    ("micro_step", "buffered", "has"),
    [
        (0, [{}], True),
        (1, [{"ref_per_token_logps": 1}, {"ref_per_token_logps": 1}], True),
        (1, [{"ref_per_token_logps": 1}, {}], False),
        (1, None, True),
    ],
)
def test_the_next_step_has_the_reference_if_its_batch_was_made_with_one(
    micro_step: int, buffered: Any, has: bool
) -> None:
    trainer = stand(
        _step=micro_step, _buffered_inputs=buffered, args=stand(steps_per_generation=2), num_iterations=1
    )
    assert compat.batch_has_reference(trainer) is has


def test_vllm_gets_the_weights_once_a_step_and_each_prompt_as_often_as_it_is_answered() -> None:
    calls: list[Any] = []

    def generate(**asked: Any) -> Any:
        calls.append(asked)
        return None, [(1, 2), (3,)], None

    backend = stand(sync_weights=lambda: calls.append("synced"), generate=generate)
    trainer = stand(state=stand(global_step=3), _last_loaded_step=2, vllm_generation=backend)
    for _ in range(2):
        assert compat.generate_with_vllm(trainer, [[5], [6]], 2) == [[1, 2], [3]]
    asked = {"prompts": [[5], [5], [6], [6]], "images": None, "num_generations": 2}
    assert calls == ["synced", asked, asked]
    assert trainer._last_loaded_step == 3


def test_tools_are_replaced_in_each_training_batch_and_not_in_an_evaluation() -> None:
    trainer = stand(
        model=stand(training=True),
        _sync_tool_dicts=[{"add": abs}],
        _async_tool_dicts=[{"wait": print}],
        _tool_call_loop=lambda *asked, **more: (asked, more),
    )
    compat.wrap_tools(trainer, lambda name, tool: f"around {name}")  # type: ignore[arg-type,return-value]
    trainer.model.training = False
    assert trainer._tool_call_loop(1, a=2) == ((1,), {"a": 2})
    assert trainer._sync_tool_dicts == [{"add": abs}]
    trainer.model.training = True
    trainer._tool_call_loop()
    assert trainer._sync_tool_dicts == [{"add": "around add"}]
    assert trainer._async_tool_dicts == [{"wait": "around wait"}]


def test_what_is_missing_is_told_with_what_it_is_for() -> None:
    trainer = stand(**dict.fromkeys(compat.NEEDED))
    assert compat.missing(trainer) == {}
    del trainer._step
    assert compat.missing(trainer) == {"_step": "exact resume in the middle of a generation cycle"}


def test_a_trainer_trains_while_its_own_train_is_called() -> None:
    class Trainer:
        def train(self, *others: Any) -> list[bool]:
            return [compat.trains_now(one) for one in (self, *others)]

        def _inner_training_loop(self) -> bool:
            return compat.trains_now(self)

        def evaluate(self) -> bool:
            return compat.trains_now(self)

    trainer = Trainer()
    assert trainer.train(Trainer()) == [True, False]
    assert (trainer._inner_training_loop(), trainer.evaluate()) == (True, False)


def test_totals_are_weighted_sums_without_what_abstained() -> None:
    import torch

    rewards = torch.tensor([[1.0, 2.0], [float("nan"), 2.0], [float("nan"), float("nan")]])
    assert compat.totals(stand(reward_weights=torch.tensor([1.0, 0.5])), rewards) == [2.0, 1.0, None]


def test_the_columns_that_rewards_logged_are_copied() -> None:
    pending = {"right": (1, 2)}
    assert compat.pending_extra(stand(_pending_extra_logs=pending)) == {"right": [1, 2]}
    assert compat.pending_extra(stand()) == {}


def test_a_callback_added_first_comes_before_all_others() -> None:
    trainer = stand(callback_handler=stand(callbacks=["a", "b"]))
    compat.add_callback_first(trainer, "own")
    assert trainer.callback_handler.callbacks == ["own", "a", "b"]


@pytest.mark.parametrize(
    ("has_async", "had", "starts"), [(True, False, 1), (True, True, 0), (False, False, 0)]
)
def test_another_list_of_rewards_empties_the_table_and_starts_the_loop_it_needs(
    has_async: bool, had: bool, starts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trl.trainer import grpo_trainer

    begun: list[Any] = []

    def start(name: str) -> Any:
        begun.append(name)
        return "thread", "loop", stand(wait=lambda: begun.append("ready"))

    monkeypatch.setattr(grpo_trainer, "start_event_loop_in_daemon", start)
    monkeypatch.setattr(compat.atexit, "register", lambda *call: begun.append(call[1:]))
    logs = {"prompt": [1], "rewards": {"a": [1]}}
    trainer = stand(_logs=logs, _has_async_funcs=had)
    compat.prepare_rewards(trainer, has_async=has_async)
    assert logs == {"prompt": [], "rewards": {}}
    assert begun == ["GRPOTrainer-AsyncLoop", "ready", ("thread", "loop")] * starts
    assert trainer._has_async_funcs is (has_async or had)
    if starts:
        assert (trainer.async_loop_thread, trainer.async_loop) == ("thread", "loop")


# -- a resume --------------------------------------------------------------------------------------


def resumable(**of: Any) -> Any:
    import torch

    known: dict[str, Any] = {
        "_step": 5,
        "_buffered_inputs": [{"ids": 1}],
        "_metrics": {"train": defaultdict(list, reward=[1.0]), "eval": defaultdict(list)},
        "_current_train_step_time": 2.5,
        "_tr_loss": torch.tensor(0.25),
        "_globalstep_last_logged": 4,
        "_total_loss_scalar": 3.0,
        "_initial_global_step": 2,
    }
    return stand(**(known | of))


def test_what_a_checkpoint_keeps_of_a_trainer_is_what_a_resume_puts_back() -> None:
    import torch

    trainer = resumable()
    state = compat.resume_state(trainer)
    assert {key: value for key, value in state.items() if key != "loss"} == {
        "step": 5, "buffered_inputs": [{"ids": 1}], "metrics": {"train": {"reward": [1.0]}, "eval": {}},
        "step_time_s": 2.5, "last_logged": 4, "loss_before": 3.0, "first_step": 2,
    }  # fmt: skip
    trainer._tr_loss += 1
    assert state["loss"].item() == 0.25

    fresh = resumable(
        _step=0,
        _buffered_inputs=None,
        _metrics={"train": defaultdict(list), "eval": defaultdict(list)},
        _current_train_step_time=0.0,
        _tr_loss=torch.tensor(0.0),
        _globalstep_last_logged=0,
        _total_loss_scalar=0.0,
    )
    compat.restore_generation(fresh, state)
    assert (fresh._step, fresh._buffered_inputs) == (5, [{"ids": 1}])
    compat.restore_logging(fresh, state)
    assert fresh._metrics == {"train": {"reward": [1.0]}, "eval": {}}
    assert fresh._metrics["train"]["reward"] is not state["metrics"]["train"]["reward"]
    assert (fresh._current_train_step_time, fresh._tr_loss.item(), fresh._globalstep_last_logged) == (
        2.5,
        0.25,
        4,
    )
    assert fresh._total_loss_scalar == 3.0


def test_what_no_checkpoint_kept_is_left_as_the_trainer_has_it() -> None:
    trainer = resumable(_total_loss_scalar=7.0)
    compat.restore_logging(trainer, {"metrics": {}, "step_time_s": 0.0, "loss": None, "loss_before": None})
    assert (trainer._tr_loss.item(), trainer._globalstep_last_logged, trainer._total_loss_scalar) == (
        0.25,
        4,
        7.0,
    )
    bare = stand(_step=0, _buffered_inputs=None, _metrics={})
    state = compat.resume_state(bare)
    assert (state["step_time_s"], state["loss"], state["first_step"]) == (0.0, None, None)
    compat.restore_logging(bare, state | {"loss": 1, "loss_before": 2.0})
    assert not hasattr(bare, "_tr_loss")
    assert not hasattr(bare, "_total_loss_scalar")


@pytest.mark.parametrize(
    ("loader", "skips", "offset", "micro_step"),
    [
        (range(10), False, 0, 4),  # an epoch of 5 updates, of which the run has made 7
        (range(10), False, 2, 8),
        (range(10), False, 3, 0),
        (iter(()), False, 0, 14),
        (range(10), True, 0, 0),
        (range(0), False, 0, 0),
    ],
)
def test_generation_is_in_step_with_the_data_after_a_resume(
    loader: Any, skips: bool, offset: int, micro_step: int
) -> None:
    trainer = stand(
        callback_handler=stand(train_dataloader=loader),
        args=stand(gradient_accumulation_steps=2, ignore_data_skip=skips),
        state=stand(global_step=7),
        _buffered_inputs=["old"],
    )
    compat.generate_with_data(trainer, offset)
    assert (trainer._step, trainer._buffered_inputs) == (micro_step, None)


@pytest.mark.parametrize(("asked", "ends"), [(-1, 97), (0, 97), (40, 100)])
def test_data_goes_on_as_if_more_steps_were_made(asked: int, ends: int) -> None:
    begun: list[Any] = []
    trainer = stand(
        state=stand(global_step=8),
        args=stand(gradient_accumulation_steps=2),
        _init_training_state=lambda *given: begun.append(given),
        set_initial_training_values=lambda args, *others: ("epochs", *others, 100),
    )
    compat.continue_data_at(trainer, 3)
    assert trainer._init_training_state(100, 5, "x") == (2, 2)
    assert begun == [(100, 5, "x")]
    assert trainer.set_initial_training_values(stand(max_steps=asked), "b") == ("epochs", "b", ends)


@pytest.mark.parametrize(
    ("change", "can"),
    [
        ({}, True),
        ({"train_dataset": iter(())}, False),
        ({"args": stand(ignore_data_skip=True)}, False),
        ({"_get_train_sampler": None}, False),
    ],
)
def test_data_can_go_on_elsewhere_if_it_has_a_length_and_is_skipped(
    change: dict[str, Any], can: bool
) -> None:
    given: dict[str, Any] = {
        "_init_training_state": 1, "set_initial_training_values": 1, "_get_train_sampler": 1,
        "train_dataset": [1], "args": stand(ignore_data_skip=False),
    }  # fmt: skip
    trainer = stand(**{name: value for name, value in (given | change).items() if value is not None})
    assert compat.can_continue_data(trainer) is can


def test_the_loss_of_a_resumed_run_is_averaged_over_all_its_steps_and_its_speed_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(time, "time", lambda: 1000.0)
    trainer = stand(
        state=stand(global_step=20), _initial_global_step=15, _finalize_training=lambda *given: given
    )
    compat.average_loss_from(trainer, 10)
    assert compat.resume_state(resumable(**vars(trainer)))["first_step"] == 10
    assert trainer._finalize_training("trial", 8, 990.0) == ("trial", 8, 980.0)
    assert trainer._initial_global_step == 10
    compat.unwrap(trainer)
    assert compat.resume_state(resumable(**vars(trainer)))["first_step"] == 10, "as transformers has it now"
    assert compat._FIRST_STEP not in vars(trainer)


def test_a_resume_with_another_seed_starts_from_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import transformers

    seeds: list[int] = []
    monkeypatch.setattr(transformers, "set_seed", seeds.append)
    trainer = stand(args=stand(seed=11), _load_rng_state=lambda checkpoint: seeds.append(-1))
    compat.seed_again(trainer)
    trainer._load_rng_state("checkpoint-4")
    assert seeds == [11]


def test_a_resume_without_the_optimizer_loads_none() -> None:
    loaded: list[str] = []
    trainer = stand(_load_optimizer_and_scheduler=loaded.append)
    compat.leave_out_optimizer(trainer)
    assert trainer._load_optimizer_and_scheduler("checkpoint-4") is None
    assert loaded == []


def test_a_training_to_which_steps_are_added_ends_at_no_epoch() -> None:
    trainer = stand(set_initial_training_values=lambda *given, **more: (3, *given, more))
    compat.train_past_the_epochs(trainer)
    epochs, *others = trainer.set_initial_training_values("a", b=1)
    assert epochs > 10**9
    assert others == ["a", {"b": 1}]


def test_the_best_metric_is_forgotten_whole() -> None:
    trainer = stand(state=stand(best_metric=1.0, best_global_step=3, best_model_checkpoint="c"))
    compat.forget_best(trainer)
    assert set(vars(trainer.state).values()) == {None}


def test_a_save_tells_the_callbacks_of_it() -> None:
    saved: list[Any] = []
    trainer = stand(
        model_wrapped="wrapped", args="args", state="state", control="before",
        _save_checkpoint=lambda *given: saved.append(given),
        callback_handler=stand(on_save=lambda *given: ("after", given)),
    )  # fmt: skip
    compat.save_now(trainer)
    assert saved == [("wrapped", None)]
    assert trainer.control == ("after", ("args", "state", "before"))


def test_rotation_does_not_see_what_is_kept_and_takes_the_newest_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import trainer, trainer_utils

    names = ["checkpoint-1", "checkpoint-2", "checkpoint-3"]
    monkeypatch.setattr(compat, "_ROTATION", {})
    for module in (trainer, trainer_utils):
        monkeypatch.setattr(module, "sort_checkpoints", lambda *given: list(names))
    for kept in ("checkpoint-2", "checkpoint-3"):  # a later trainer replaces what the earlier one said
        assert compat.keep_from_rotation(
            str(tmp_path), lambda path, kept=kept: path.name == kept, lambda path: path.name == "checkpoint-1"
        )
    assert trainer.sort_checkpoints is trainer_utils.sort_checkpoints
    assert trainer_utils.sort_checkpoints() == ["checkpoint-2", "checkpoint-1"]
    monkeypatch.delattr(trainer_utils, "sort_checkpoints")
    assert not compat.keep_from_rotation(str(tmp_path), lambda path: True, lambda path: True)


# -- the learning rate -----------------------------------------------------------------------------


def scheduled(
    kind: str = "linear", *, done: int = 0, last: int = 10, warmup: int = 0, groups: int = 2
) -> Any:
    """A trainer with an optimizer of groups, and a schedule of transformers that made these steps."""
    import torch
    from transformers import get_scheduler

    parameters = [{"params": [torch.nn.Parameter(torch.zeros(1))], "lr": 1.0 + n} for n in range(groups)]
    optimizer = torch.optim.AdamW(parameters, lr=1.0)
    schedule = get_scheduler(kind, optimizer, num_warmup_steps=warmup, num_training_steps=last)
    optimizer.step()
    for _ in range(done):
        schedule.step(*([0.0] if kind == "reduce_lr_on_plateau" else []))
    state = stand(global_step=done, max_steps=last, logging_steps=1, eval_steps=2, save_steps=3)
    return stand(
        lr_scheduler=schedule,
        optimizer=optimizer,
        state=state,
        args=stand(
            lr_scheduler_type=kind,
            learning_rate=1.0,
            lr_scheduler_kwargs={},
            get_warmup_steps=lambda n: warmup,
        ),
    )


def rates(trainer: Any) -> list[float]:
    return [group["lr"] for group in trainer.optimizer.param_groups]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda t: None, []),
        (lambda t: setattr(t.state, "eval_steps", 9), ["eval_steps"]),
        (lambda t: t.optimizer.param_groups[1].update(weight_decay=0.5), ["weight_decay"]),
        (lambda t: t.optimizer.param_groups[0].update(betas=(0.9, 0.5)), ["adam_beta1, adam_beta2"]),
        (lambda t: t.optimizer.param_groups[0].update(eps=1e-8 * (1 + 1e-15)), []),
        (lambda t: t.optimizer.param_groups[0].update(eps=1.1e-8), ["adam_epsilon"]),
        (lambda t: t.lr_scheduler.base_lrs.__setitem__(1, 3.0), ["learning_rate"]),
    ],
)
def test_what_a_checkpoint_brought_back_is_compared_value_by_value(
    change: Callable[[Any], Any], named: list[str]
) -> None:
    trainer = scheduled()
    wanted = [row.read(trainer) for row in compat.RESTORED]
    change(trainer)
    found = compat.mismatches(trainer, wanted)
    assert [row.name for row, _, _ in found] == named
    for row, used, value in found:
        assert used == row.read(trainer) != value
        row.write(trainer, value)
    assert compat.mismatches(trainer, wanted) == []


def test_what_is_configured_is_read_before_anything_is_loaded() -> None:
    """Intervals are those of the arguments, a share of the steps as a number of them."""
    trainer = scheduled(last=40)
    trainer.args.logging_steps, trainer.args.eval_steps, trainer.args.save_steps = 0.1, None, 7
    found = dict(zip([row.name for row in compat.RESTORED], compat.configured(trainer), strict=True))
    assert (found["logging_steps"], found["eval_steps"], found["save_steps"]) == (4, 2, 7)
    assert (found["weight_decay"], found["learning_rate"]) == ([0.01, 0.01], [[1.0, 2.0]])
    assert (found["lr_scheduler_kwargs"], found["adam_epsilon"]) == (None, [1e-8, 1e-8])


def test_a_schedule_that_follows_a_metric_has_no_rates_to_come() -> None:
    trainer = scheduled("reduce_lr_on_plateau", done=2)
    assert compat.rates_by_schedule(trainer) is None
    assert not compat.follow_schedule(trainer)
    assert compat.future_rates(trainer) == []
    kept = dict(
        zip(
            [row.name for row in compat.RESTORED], [row.read(trainer) for row in compat.RESTORED], strict=True
        )
    )
    assert kept["lr_scheduler_kwargs"][:3] == ["min", 0.1, 10]


def test_the_next_rate_is_that_of_the_schedule_again() -> None:
    trainer = scheduled(done=5)
    assert compat.rates_by_schedule(trainer) == rates(trainer) == [0.5, 1.0]
    assert not compat.follow_schedule(trainer)
    trainer.optimizer.param_groups[1]["lr"] = 0.0
    assert compat.follow_schedule(trainer)
    assert rates(trainer) == trainer.lr_scheduler._last_lr == [0.5, 1.0]

    fresh = scheduled()
    fresh.state.global_step = 4  # from a checkpoint without an optimizer
    assert compat.follow_schedule(fresh)
    assert (rates(fresh), fresh.lr_scheduler.last_epoch) == ([0.6, 1.2], 4)


def test_a_rate_is_scaled_with_its_schedule() -> None:
    trainer = scheduled(done=5)
    trainer._get_learning_rate = lambda: trainer.lr_scheduler.get_last_lr()[0]
    compat.scale_learning_rate(trainer, 3.0)
    assert compat.learning_rate(trainer) == 1.5
    assert (rates(trainer), trainer.lr_scheduler.base_lrs) == ([1.5, 3.0], [3.0, 6.0])
    trainer.lr_scheduler = stand(scheduler=stand())
    with pytest.raises(LookupError, match="the scheduler SimpleNamespace keeps no base rates"):
        compat.scale_learning_rate(trainer, 2.0)


@pytest.mark.parametrize(
    ("kind", "done", "points"),
    [
        ("linear", 0, [(1, 0.0), (5, 1.0), (10, 1 / 6)]),
        ("linear", 6, [(7, 4 / 6), (10, 1 / 6)]),
        ("constant_with_warmup", 0, [(1, 0.0), (5, 1.0), (10, 1.0)]),
        ("linear", 9, [(10, 1 / 6)]),
        ("linear", 10, []),
    ],
)
def test_the_coming_rates_are_told_where_they_turn(
    kind: str, done: int, points: list[tuple[int, float]]
) -> None:
    """After 4 steps of warm-up, of 10."""
    found = compat.future_rates(scheduled(kind, done=done, warmup=4))
    assert [step for step, _ in found] == [step for step, _ in points]
    assert [rate for _, rate in found] == pytest.approx([rate for _, rate in points])


def shape_of(trainer: Any, *asked: Any) -> list[float]:
    (first, *_) = rate_schedule.shapes_of(trainer, *asked)
    return [round(first(step), 3) for step in range(11)]


def test_a_schedule_restarts_after_a_step_without_warm_up_and_counts_from_its_stage() -> None:
    trainer = scheduled(warmup=2)
    assert shape_of(trainer, "linear", 10) == [0, 0.5, 1, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125, 0]
    assert shape_of(trainer, "constant", 10, 5) == [1.0] * 11
    assert shape_of(trainer, "linear", 10, 5) == [0, 0.5, 1, 0.875, 0.75, 1, 0.8, 0.6, 0.4, 0.2, 0]
    vars(trainer)[rate_schedule.STAGE_START] = 4
    assert rate_schedule.began(trainer) == 4
    assert shape_of(trainer, "linear", 8) == [0, 0, 0, 0, 0, 0.5, 1, 0.5, 0, 0, 0]
    rate_schedule.note_start(trainer, 6)
    assert rate_schedule.began(trainer) == 6
    assert shape_of(trainer, "linear", 8) == [0, 0, 0, 0, 0, 0.5, 1, 0.5, 0, 0, 0]
    with pytest.raises(LookupError, match="the schedule reduce_lr_on_plateau is not a function of the step"):
        rate_schedule.shapes_of(trainer, "reduce_lr_on_plateau", 8)


def test_another_schedule_is_followed_from_the_next_step() -> None:
    trainer = scheduled(done=5)
    rate_schedule.follow(trainer, "linear", 20)
    assert rates(trainer) == [0.75, 1.5]
    rate_schedule.follow(trainer, "constant", 20, 4)
    assert (rate_schedule.kind_of(trainer), rate_schedule.began(trainer)) == ("constant", 4)
    assert rates(trainer) == [1.0, 2.0]


def test_a_schedule_of_the_script_is_left_alone() -> None:
    trainer = scheduled(done=5)
    trainer.lr_scheduler.lr_lambdas = [lambda step: 0.25] * 2
    with pytest.raises(LookupError, match="follows a schedule of the script's own"):
        rate_schedule.shapes_of(trainer, "linear", 20)
    rate_schedule.follow(trainer, "constant", 20, 4)
    assert (rates(trainer), rate_schedule.kind_of(trainer)) == ([0.5, 1.0], "linear")
    assert rate_schedule.began(trainer) == 0


def test_a_start_that_was_noted_holds_for_a_schedule_made_later() -> None:
    trainer = scheduled()
    before = trainer.lr_scheduler.lr_lambdas
    rate_schedule.restart_as_noted(trainer, 10)
    assert trainer.lr_scheduler.lr_lambdas is before
    rate_schedule.note_start(trainer, 5)
    rate_schedule.restart_as_noted(trainer, 10)
    assert [shape(6) for shape in trainer.lr_scheduler.lr_lambdas] == [0.8, 0.8]
    of_metric = scheduled("reduce_lr_on_plateau")
    rate_schedule.note_start(of_metric, 5)
    rate_schedule.restart_as_noted(of_metric, 10)
    assert rate_schedule.began(of_metric) == 0


# -- sampling --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "given", "vllm", "why"),
    [
        ("top_p", None, None, ""),
        ("top_p", {"top_k": 1}, None, ""),
        ("top_p", {"top_p": 1}, None, "generation_kwargs sets top_p, and that value is used for generation"),
        ("top_p", {"max_tokens": 1}, None, ""),
        ("max_completion_length", {"max_new_tokens": 1}, None, "generation_kwargs sets max_new_tokens"),
        ("max_completion_length", {"max_tokens": 1}, None, "generation_kwargs sets max_tokens"),
        ("max_completion_length", {"max_length": 1}, None, "generation_kwargs sets max_length"),
        ("top_p", None, stand(top_p=1), ""),
        ("top_p", None, stand(), "this vLLM backend keeps its top_p where it cannot be reached"),
    ],
)
def test_a_sampling_setting_is_refused_where_another_value_would_be_used(
    name: str, given: Any, vllm: Any, why: str
) -> None:
    trainer = stand(args=stand(generation_kwargs=given), use_vllm=vllm is not None, vllm_generation=vllm)
    found = compat.sampling_refused(trainer, name)
    assert found.startswith(why)
    assert bool(found) == bool(why)


@pytest.mark.parametrize(("name", "key"), [("top_p", "top_p"), ("max_completion_length", "max_new_tokens")])
def test_a_sampling_setting_is_set_wherever_it_is_read(name: str, key: str) -> None:
    trainer = stand(generation_config=stand(), generation_kwargs={})
    compat.set_sampling(trainer, name, 7)
    assert vars(trainer) == {"generation_config": stand(**{key: 7}), "generation_kwargs": {key: 7}, name: 7}
    trainer = stand(use_vllm=True, vllm_generation=stand())
    compat.set_sampling(trainer, name, 7)
    assert (vars(trainer.vllm_generation), getattr(trainer, name)) == ({name: 7}, 7)


@pytest.mark.parametrize(("value", "enabled"), [(0.0, False), (0.1, True), (-0.1, True)])
def test_a_bonus_of_entropy_is_computed_unless_its_weight_is_0(value: float, enabled: bool) -> None:
    trainer = stand()
    compat.set_entropy_coef(trainer, value)
    assert (trainer.entropy_coef, trainer._entropy_bonus_enabled) == (value, enabled)


@pytest.mark.parametrize(
    ("parameters", "new"),
    [
        ({}, False),
        ({"a.lora_B.default.weight": [0.0, 0.0], "w": [1.0]}, True),
        ({"a.lora_B.default.weight": [0.0, 0.1]}, False),
        ({"a.lora_B.default.weight": [0.0], "b.lora_B.default.weight": [1.0]}, False),
        ({"a.lora_B.default.weight": []}, False),
        ({"a.lora_A.default.weight": [0.0]}, False),
    ],
)
def test_an_adapter_is_untrained_while_it_adds_nothing(parameters: dict[str, list[float]], new: bool) -> None:
    import torch

    named = [(name, torch.tensor(values)) for name, values in parameters.items()]
    trainer = stand(model=stand(named_parameters=lambda: named))
    assert not compat.adapter_was_new(trainer)
    compat.note_adapter(trainer)
    assert compat.adapter_was_new(trainer) is new


def head(temperature: float) -> Callable[[], float]:
    original_forward = None

    def forward() -> float:
        return temperature if original_forward is None else 0.0

    return forward


def test_a_temperature_reaches_sampling_and_the_gradient_of_every_model() -> None:
    models = [stand(forward=head(1.0)) for _ in range(2)]
    unwrapped = stand(unwrap_model=lambda model, keep_torch_compile: model)
    trainer = stand(
        args=stand(generation_kwargs=None), model=models[0], ref_model=models[1], accelerator=unwrapped,
        generation_config=stand(), generation_kwargs={}, temperature=1.0,
    )  # fmt: skip
    compat.set_temperature(trainer, 0.5)
    assert [model.forward() for model in models] == [0.5, 0.5]
    assert (trainer.temperature, trainer.generation_config.temperature) == (0.5, 0.5)
    assert trainer.generation_kwargs == {"temperature": 0.5}

    trainer.use_vllm, trainer.vllm_generation = True, stand(temperature=1.0)
    compat.set_temperature(trainer, 0.25)
    assert (trainer.vllm_generation.temperature, trainer.generation_config.temperature) == (0.25, 0.5)
    trainer.vllm_generation = stand()
    with pytest.raises(LookupError, match="this vLLM backend keeps its temperature"):
        compat.set_temperature(trainer, 2.0)
    trainer.use_vllm, trainer.args.generation_kwargs = False, {"temperature": 1}
    with pytest.raises(LookupError, match="generation_kwargs sets temperature too"):
        compat.set_temperature(trainer, 2.0)
    trainer.args.generation_kwargs = {}
    models[1].forward = lambda: 1.0
    with pytest.raises(LookupError, match="forward of the reference model"):
        compat.set_temperature(trainer, 2.0)
    assert (models[0].forward(), trainer.temperature) == (0.25, 0.25)


@pytest.mark.parametrize(
    ("name", "value", "stage", "refused", "idle"),
    [
        ("lr_scheduler_type", "linear", 0, "", ""),
        ("lr_scheduler_type", "constant", 0, "", ""),
        ("lr_scheduler_type", "reduce_lr_on_plateau", 0, "is not a function of the step", None),
        ("lr_scheduler_start", 0, 0, "", "the learning rate of the remaining steps would be the same"),
        ("lr_scheduler_start", 5, 0, "", ""),
        ("lr_scheduler_start", 4, 4, "", None),
        ("lr_scheduler_start", 3, 4, "the stage and its schedule began after step 4", None),
    ],
)
def test_a_schedule_is_set_if_it_is_one_of_the_step_and_changes_a_rate(
    name: str, value: Any, stage: int, refused: str, idle: str | None
) -> None:
    """Of 10 steps, 5 of them done."""
    trainer = scheduled(done=5)
    if stage:
        vars(trainer)[rate_schedule.STAGE_START] = stage
    why = SETTABLE[name].refused(trainer, value)
    assert (refused in why, bool(why)) == (True, bool(refused))
    if idle is not None:
        assert SETTABLE[name].idle(trainer, value) == idle
