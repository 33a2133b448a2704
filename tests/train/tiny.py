"""A real GRPOTrainer on the shipped model, small enough for a test, with and without a session."""

from __future__ import annotations

import functools
import gc
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from grpo_tui.config.run_config import RunConfig
from grpo_tui.demo import DEMO_MODEL
from grpo_tui.demo.rewards import correctness, format_reward
from grpo_tui.demo.task import train_rows
from grpo_tui.rewards.loading import load_rewards
from grpo_tui.store.layout import RunFolder
from grpo_tui.train.session import Session

FIRST_LAYER = {"dtype": "float32", "num_hidden_layers": 1}
"""`model_init_kwargs` that halve the time of a step, for rewards that even noise earns."""
TIMES = ("time", "runtime", "per_second")


@functools.cache
def _imported() -> None:
    """Import TRL, and leave what stays of it out of the search for garbage at each training's end."""
    gc.disable()
    try:
        from trl import GRPOConfig, GRPOTrainer  # noqa: F401
    finally:
        gc.freeze()
        gc.enable()


def make_trainer(
    folder: Path,
    *,
    rewards: Sequence[Any] | None = None,
    evaluate: bool = False,
    callbacks: Sequence[Any] = (),
    rows: int | None = None,
    peft_config: Any = None,
    **arguments: Any,
) -> Any:
    """A GRPOTrainer on the shipped model: groups of 4, 16 completions a step."""
    _imported()
    from trl import GRPOConfig, GRPOTrainer

    values: dict[str, Any] = {
        "output_dir": str(folder),
        "per_device_train_batch_size": 16,
        "per_device_eval_batch_size": 8,
        "num_generations": 4,
        "max_completion_length": 20,
        "max_steps": 6,
        "logging_steps": 1,
        "learning_rate": 5e-4,
        "lr_scheduler_type": "linear",
        "report_to": "none",
        "save_strategy": "no",
        "disable_tqdm": True,
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "seed": 7,
        "model_init_kwargs": {"dtype": "float32"},
    }
    values.update(arguments)
    dataset = train_rows()
    held = dataset.select(range(4))
    return GRPOTrainer(
        model=str(DEMO_MODEL),
        reward_funcs=list(rewards) if rewards is not None else [correctness, format_reward],
        args=GRPOConfig(**values),
        train_dataset=dataset.select(range(4, 4 + rows)) if rows else dataset,
        eval_dataset=held if evaluate else None,
        callbacks=list(callbacks),
        peft_config=peft_config,
    )


class Rows:
    """Collects the rows TRL logs, times left out, by a callback of its own."""

    def __init__(self) -> None:
        from transformers import TrainerCallback

        rows: list[tuple[int, dict[str, Any]]] = []

        class Collect(TrainerCallback):  # type: ignore[misc]
            def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
                rows.append((state.global_step, without_times(logs)))

        self.rows = rows
        self.callback = Collect()


def without_times(logs: dict[str, Any]) -> dict[str, Any]:
    """The row without values that differ from one run to the next."""
    return {key: value for key, value in logs.items() if not any(word in key for word in TIMES)}


def weights_hash(trainer: Any) -> str:
    """A hash over every parameter."""
    digest = hashlib.sha256()
    for parameter in trainer.model.parameters():
        digest.update(parameter.detach().float().numpy().tobytes())
    return digest.hexdigest()


def run_plain(folder: Path, **arguments: Any) -> tuple[list[tuple[int, dict[str, Any]]], str]:
    """Train with TRL alone; rows and the hash of the final weights."""
    rows = Rows()
    trainer = make_trainer(folder, callbacks=[rows.callback], **arguments)
    trainer.train()
    return rows.rows, weights_hash(trainer)


def run_recorded(
    folder: Path,
    *,
    at_safe_point: Callable[[Session, Any], None] | None = None,
    resume: Path | None = None,
    overridden: Sequence[str] = (),
    before_train: Callable[[Session, Any], None] | None = None,
    config: RunConfig | None = None,
    **arguments: Any,
) -> tuple[list[tuple[int, dict[str, Any]]], str, Session]:
    """Train with everything hooked, in the training thread, as the worker does.

    Args:
        folder: The run folder.
        at_safe_point: Called at each safe point before commands are served.
        resume: Checkpoint to continue from.
        overridden: Settings given again at the resume.
        before_train: Called right before training.
        config: Names the reward functions by file, so that they can be reloaded.
        arguments: As for `make_trainer`.
    """
    from grpo_tui.train.build import reward_sources
    from grpo_tui.train.resume import resume as prepare_resume
    from grpo_tui.train.session import checkpoint_step

    folder.mkdir(parents=True, exist_ok=True)
    rows = Rows()
    session = Session(RunFolder(folder), resumed_from=checkpoint_step(resume) if resume else None)
    rewards = load_rewards(config) if config is not None else []
    if rewards:
        arguments["rewards"] = [reward.func for reward in rewards]
    trainer = make_trainer(folder, callbacks=[rows.callback], **arguments)
    sources = reward_sources(rewards, session.attempt) if config is not None else None
    session.join(trainer, sources, [reward.params for reward in rewards])
    if config is not None:
        session.reload_from(config, rewards)
    if at_safe_point is not None:
        serve = session.controller.safe_point

        def safe_point() -> None:
            at_safe_point(session, trainer)
            serve()

        session.controller.safe_point = safe_point  # type: ignore[method-assign]
    if before_train is not None:
        before_train(session, trainer)
    try:
        if resume is not None:
            prepare_resume(session, trainer, resume, overridden)
        session.runner.serve(lambda: trainer.train(resume_from_checkpoint=str(resume) if resume else None))
    except BaseException as error:
        session.failed(error)
        raise
    session.close(session.ended_state())
    return rows.rows, weights_hash(trainer), session
