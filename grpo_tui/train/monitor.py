"""Join a person's own TRL script by one line: `grpo_tui.monitor(trainer)` before `trainer.train()`.

Same run folder, same view, same commands as a run the program starts. A sidecar supervisor watches
the process. Knows the trainer it is given, not how it was built.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from grpo_tui.core.records import RewardFunctionInfo
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.recorder import Recorder
from grpo_tui.supervisor import start_sidecar, take_lock
from grpo_tui.train.output import Unbreakable
from grpo_tui.train.ranks import own_rank


def monitor(trainer: Any, run_dir: str | Path | None = None) -> Path:
    """Record and steer this trainer's next `train()`.

    Args:
        trainer: A built GRPOTrainer.
        run_dir: The run folder, by default the trainer's `output_dir`.

    Returns:
        The run folder; `grpo-tui attach` it from another terminal.

    Raises:
        RunFolderBusy: Another process trains into this folder.
        ValueError: `enable_jit_checkpoint` is on.
    """
    if getattr(trainer.args, "enable_jit_checkpoint", False):
        raise ValueError("enable_jit_checkpoint takes the signals grpo_tui needs; leave it out")
    folder = RunFolder(Path(run_dir or trainer.args.output_dir).absolute())
    folder.root.mkdir(parents=True, exist_ok=True)
    first = own_rank() == 0
    lock = take_lock(folder) if first else None

    from grpo_tui.train import compat
    from grpo_tui.train.reproduction import reproduction_record
    from grpo_tui.train.resume import reapply_settings
    from grpo_tui.train.session import Session, checkpoint_step

    def around_train(original: Callable[..., Any]) -> Callable[..., Any]:
        def train(resume_from_checkpoint: Any = None, *args: Any, **kwargs: Any) -> Any:
            trainer.train = original  # a second call of train() is not part of this record
            checkpoint = _checkpoint(trainer, resume_from_checkpoint)
            step = None if checkpoint is None else checkpoint_step(checkpoint)
            if first:
                _tee_output(folder)
            session = Session(folder, resumed_from=step)
            session.join(trainer, _sources(trainer, session.attempt))
            session.fact(
                "config", {"model": trainer.model.config._name_or_path, "grpo": trainer.args.to_dict()}
            )
            session.fact("reproduction", reproduction_record(trainer, Path.cwd()))
            if isinstance(session.recorder, Recorder) and lock is not None:
                session.recorder.on_stop_now = lambda: os._exit(3)
                start_sidecar(folder, os.getpid(), lock)
            if checkpoint is not None and step is not None:
                session.checkpoints.restore(checkpoint)
                reapply_settings(session, trainer, step)
            try:
                result = original(resume_from_checkpoint, *args, **kwargs)
            except BaseException as error:
                session.failed(error)
                raise
            session.close(session.ended_state())
            return result

        return train

    compat.wrap(trainer, "train", around_train)
    if first:
        print(f"grpo-tui: watch this run with `grpo-tui attach {folder.root}`", flush=True)
    return folder.root


def _checkpoint(trainer: Any, asked: Any) -> Path | None:
    if asked is True:
        from transformers.trainer_utils import get_last_checkpoint

        asked = get_last_checkpoint(trainer.args.output_dir)
    return Path(asked) if asked else None


def _sources(trainer: Any, attempt: int) -> list[RewardFunctionInfo]:
    found = []
    for index, (function, name) in enumerate(
        zip(trainer.reward_funcs, trainer.reward_func_names, strict=True)
    ):
        try:
            text = inspect.getsource(inspect.unwrap(getattr(function, "func", function)))
            place = f"{inspect.getsourcefile(function)}:{inspect.getsourcelines(function)[1]}"
        except (TypeError, OSError):
            text, place = "", ""
        found.append(RewardFunctionInfo(attempt, index, name, 1.0, place, "", text))
    return found


def _tee_output(folder: RunFolder) -> None:
    log = folder.log.open("a", encoding="utf-8", errors="replace")
    sys.stdout, sys.stderr = Unbreakable(sys.stdout, log), Unbreakable(sys.stderr, log)
